//! Trace events straight from bytes to columns.
//!
//! Nearly all of a snapshot is events, and every writer of today spells them alike: a dictionary
//! whose keys are memo references, with integers, shared strings and a list of frame references as
//! values. This path reads such an event in one go, without decoding operations one by one and
//! without a stack. The first thing it does not expect makes it give up and leave the event, from
//! its first byte on, to the general path: the result is the same either way, only slower. For that to
//! hold, nothing that the general path does later or not at all may be done before the event is whole;
//! memo entries are only ever added at the end, so that taking them off undoes everything.

use std::ops::Range;

use vramscope_pickle::opcode::*;

use super::keys::{self, Key};
use super::machine::Machine;
use super::value::{NO_MEMO, RowKind, Value};
use crate::model::{Event, EventTable, MAX_SIZE, Meta, PoolId, StackId, StrId};

/// The keys of the last event in their order, each by the bytes that spell it: the next event nearly
/// always has the same.
#[derive(Default)]
pub(super) struct Template {
    keys: Vec<KeySpelling>,
    /// [`Memo::replaced`](super::value::Memo::replaced) when the keys were looked up.
    valid_for: u32,
}

#[derive(Clone, Copy)]
struct KeySpelling {
    bytes: u64,
    mask: u64,
    len: usize,
    key: Key,
}

/// A cursor that never reads past its input.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let chunk = *self.bytes.get(self.at..)?.first_chunk()?;
        self.at += N;
        Some(chunk)
    }

    #[inline]
    fn slice(&mut self, len: usize) -> Option<&'a [u8]> {
        let slice = self.bytes.get(self.at..)?.get(..len)?;
        self.at += len;
        Some(slice)
    }

    /// The next eight bytes.
    #[inline]
    fn peek_word(&self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.bytes.get(self.at..)?.first_chunk()?))
    }

    /// The memo number of a `BINGET` or `LONG_BINGET`.
    #[inline]
    fn reference(&mut self, opcode: u8) -> Option<u32> {
        match opcode {
            LONG_BINGET => self.take().map(u32::from_le_bytes),
            BINGET => self.byte().map(u32::from),
            _ => None,
        }
    }

    #[inline]
    fn int(&mut self) -> Option<i64> {
        match self.byte()? {
            BININT1 => self.byte().map(i64::from),
            BININT2 => self.take().map(|n| u16::from_le_bytes(n).into()),
            BININT => self.take().map(|n| i32::from_le_bytes(n).into()),
            LONG1 => {
                let len = self.byte()?;
                let word = u64::from_le_bytes(*self.bytes.get(self.at..)?.first_chunk()?);
                self.at += usize::from(len);
                if !(1..=8).contains(&len) {
                    return None;
                }
                let unused = 64 - 8 * u32::from(len);
                Some((word << unused) as i64 >> unused)
            }
            _ => None,
        }
    }
}

/// The stack of an event that is not yet known to be whole.
enum FastStack {
    Known(StackId),
    /// A list: how many frames it has, the bytes that spell them if they can be found by those, and the number that it is
    /// memoised under. Without an `id`, the frames are in `frame_scratch`.
    New {
        id: Option<StackId>,
        frames: usize,
        spelling: Range<usize>,
        memo: u32,
    },
}

/// Stacks by the bytes that spell them: a program allocates from the same lines again and again, and comparing the bytes
/// costs a fraction of looking up each frame. The innermost frames tell nearly all stacks of a program apart.
#[derive(Default)]
pub(super) struct Spellings {
    slots: Vec<Spelling>,
}

#[derive(Clone, Default)]
struct Spelling {
    bytes: Vec<u8>,
    frames: usize,
    id: StackId,
    /// [`Memo::replaced`](super::value::Memo::replaced) when the frames were looked up.
    valid_for: u32,
}

impl Spellings {
    const BITS: u32 = 12;

    /// Longer ones are not kept, so that all together take no more than 8 MiB, room to grow included.
    const LONGEST: usize = 1 << 10;

    /// Where a spelling that begins with these bytes is kept.
    #[inline]
    fn slot(bytes: &[u8]) -> Option<usize> {
        let first = u128::from_le_bytes(*bytes.first_chunk()?);
        let mixed = u128::from(first as u64 ^ 0x9E37_79B9_7F4A_7C15)
            * u128::from((first >> 64) as u64 ^ 0xC2B2_AE3D_27D4_EB4F);
        Some(((mixed as u64 ^ (mixed >> 64) as u64) >> (u64::BITS - Self::BITS)) as usize)
    }

    /// The stack that these bytes begin with.
    #[inline]
    fn find(&self, bytes: &[u8], replaced: u32) -> Option<&Spelling> {
        let kept = self.slots.get(Self::slot(bytes)?)?;
        let is_it = !kept.bytes.is_empty() && kept.valid_for == replaced && bytes.starts_with(&kept.bytes);
        is_it.then_some(kept)
    }

    /// Remembers how a stack is spelled; `bytes` go on after it.
    fn keep(&mut self, bytes: &[u8], len: usize, (id, frames): (StackId, usize), replaced: u32) {
        self.slots.resize(1 << Self::BITS, Spelling::default());
        let slot = Self::slot(bytes).and_then(|slot| self.slots.get_mut(slot));
        if let (Some(slot), Some(spelling)) = (slot, bytes.get(..len).filter(|_| len <= Self::LONGEST)) {
            slot.bytes.clear();
            slot.bytes.extend_from_slice(spelling);
            (slot.id, slot.frames, slot.valid_for) = (id, frames, replaced);
        }
    }
}

/// A size that needs no second look.
#[inline]
fn size_of(n: i64) -> Option<u64> {
    u64::try_from(n).ok().filter(|&size| size <= MAX_SIZE)
}

impl Machine {
    /// Reads the event that begins with the `EMPTY_DICT` at `start`; the end of it, or `None` if it
    /// is anything but an event in the usual spelling, all of it here.
    #[inline]
    pub(super) fn fast_event(&mut self, bytes: &[u8], start: usize, offset: u64) -> Option<usize> {
        self.offset = offset;
        if self.template.valid_for != self.memo.replaced() {
            self.template.keys.clear();
            self.template.valid_for = self.memo.replaced();
        }
        let memo_len = self.memo.len();
        let end = self.try_event(bytes, start);
        if end.is_none() {
            self.memo.truncate(memo_len);
            self.template.keys.clear();
        }
        end
    }

    #[inline]
    fn try_event(&mut self, bytes: &[u8], start: usize) -> Option<usize> {
        let mut cursor = Cursor { bytes, at: start + 1 };
        let memo = self.fast_memo_number(&mut cursor)?;
        self.fast_put(memo, Value::EmptyDict { memo });
        if cursor.byte()? != MARK {
            return None;
        }
        let mut event = Event { time_us: EventTable::NO_TIME, ..Event::default() };
        let mut meta = Meta::default();
        let mut stream = 0;
        let mut stack = FastStack::Known(StackId::ABSENT);
        let mut has_action = false;
        let mut pairs = 0;
        while let Some(key) = self.fast_key(&mut cursor, pairs)? {
            pairs += 1;
            match key {
                Key::Action => {
                    let opcode = cursor.byte()?;
                    let text = self.memo.get_str(cursor.reference(opcode)?)?;
                    event.action = keys::action(text)?;
                    has_action = true;
                }
                Key::Addr | Key::DeviceFree => event.addr = cursor.int()? as u64,
                Key::Size => event.size = size_of(cursor.int()?)?,
                Key::Stream => stream = cursor.int()? as u64,
                Key::TimeUs => event.time_us = cursor.int()?,
                Key::CompileContext => meta.compile_context = self.fast_text(&mut cursor)?,
                Key::UserMetadata => meta.user_metadata = self.fast_text(&mut cursor)?,
                Key::PoolId => event.pool = self.fast_pool(&mut cursor)?,
                // Of two lists only the last would become a stack, and the first may be referred to later.
                Key::Frames if matches!(stack, FastStack::New { .. }) => return None,
                Key::Frames => stack = self.fast_stack(&mut cursor)?,
                _ => return None,
            }
        }
        // A single pair may be the first of many, and the general path has to be able to push this much.
        let frames = if let FastStack::New { frames, .. } = stack { frames } else { 0 };
        if !has_action || pairs < 2 || !self.has_room_for(2 * pairs + frames + 8) {
            return None;
        }
        event.stream = self.tables.streams.stream(stream);
        event.stack = match stack {
            FastStack::Known(id) => id,
            FastStack::New { id, frames, spelling, memo } => {
                let id = id.unwrap_or_else(|| {
                    let id = self.tables.stacks.intern(&self.frame_scratch);
                    let rest = bytes.get(spelling.start..).unwrap_or_default();
                    if !spelling.is_empty() {
                        self.spellings.keep(rest, spelling.len(), (id, frames), self.memo.replaced());
                    }
                    id
                });
                if memo != NO_MEMO {
                    self.memo.update(memo, Value::Stack { id, memo });
                }
                id
            }
        };
        let plain = meta.user_metadata == StrId::EMPTY
            && matches!(meta.compile_context, keys::NOT_COMPILED | StrId::EMPTY);
        if !plain {
            event.meta = self.tables.meta(meta);
        }
        if self.tables.events.is_full() {
            self.make_room();
        }
        let value = Value::Row(RowKind::Event, self.tables.events.len() as u32);
        self.push(value).ok()?;
        self.tables.events.push(&event);
        if memo != NO_MEMO {
            self.memo.update(memo, value);
        }
        Some(cursor.at)
    }

    /// Grows the event columns, and the memo with them. If the length of the input is known,
    /// they grow until the rest of it fits, judging by the events so far: growing by doubling would copy all
    /// columns again and again.
    #[cold]
    fn make_room(&mut self) {
        let events = self.tables.events.len();
        let (start, memo_start) = *self.first_event.get_or_insert((self.offset, self.memo.len()));
        let doubling = events.max(256);
        let rest = self.expected_len.saturating_sub(self.offset);
        let done = self.offset - start;
        // Too few events to judge by, or nothing to judge.
        if events < 1024 || rest == 0 || done == 0 {
            self.tables.events.reserve(doubling);
            return;
        }
        let scale = rest as f64 / done as f64 * 1.03;
        // No event is shorter than 16 bytes and no memo entry shorter than one.
        let expected =
            |so_far: usize, least: u64| ((so_far as f64 * scale) as u64 + 1024).min(rest / least) as usize;
        self.tables.events.reserve(expected(events, 16).max(256));
        self.memo.reserve(expected(self.memo.len().saturating_sub(memo_start), 1));
    }

    /// The next key; `Some(None)` at the end of the dictionary.
    #[inline]
    fn fast_key(&mut self, cursor: &mut Cursor<'_>, position: usize) -> Option<Option<Key>> {
        let word = cursor.peek_word()?;
        if let Some(expected) = self.template.keys.get(position)
            && word & expected.mask == expected.bytes
        {
            cursor.at += expected.len;
            return Some(Some(expected.key));
        }
        let start = cursor.at;
        let opcode = cursor.byte()?;
        if opcode == SETITEMS {
            return Some(None);
        }
        let number = cursor.reference(opcode)?;
        let key = Key::of(self.memo.get_str(number)?)?;
        let len = cursor.at - start;
        let mask = (1 << (8 * len)) - 1;
        self.template.keys.truncate(position);
        self.template.keys.push(KeySpelling { bytes: word & mask, mask, len, key });
        Some(Some(key))
    }

    /// A string, fresh or by reference.
    #[inline]
    fn fast_text(&mut self, cursor: &mut Cursor<'_>) -> Option<StrId> {
        let opcode = cursor.byte()?;
        if opcode != SHORT_BINUNICODE {
            return self.memo.get_str(cursor.reference(opcode)?);
        }
        let len = cursor.byte()?;
        let text = cursor.slice(len.into())?;
        let id = if let b"N/A" = text { keys::NOT_COMPILED } else { self.tables.strings.intern(text) };
        let memo = self.fast_memo_number(cursor)?;
        self.fast_put(memo, Value::Str(id));
        Some(id)
    }

    /// A pool: a fresh tuple of two integers, or one by reference.
    #[inline]
    fn fast_pool(&mut self, cursor: &mut Cursor<'_>) -> Option<PoolId> {
        let opcode = *cursor.bytes.get(cursor.at)?;
        if matches!(opcode, BINGET | LONG_BINGET) {
            cursor.at += 1;
            return match self.memo.get(cursor.reference(opcode)?.into())? {
                Value::Pair(id) => Some(id),
                _ => None,
            };
        }
        let pool = (cursor.int()?, cursor.int()?);
        if cursor.byte()? != TUPLE2 {
            return None;
        }
        let id = self.tables.pools.pool(pool);
        let memo = self.fast_memo_number(cursor)?;
        self.fast_put(memo, Value::Pair(id));
        Some(id)
    }

    /// A list of references to frames, or a reference to such a list. The frames of a list are left in
    /// `frame_scratch`.
    #[inline]
    fn fast_stack(&mut self, cursor: &mut Cursor<'_>) -> Option<FastStack> {
        let opcode = cursor.byte()?;
        if opcode != EMPTY_LIST {
            return match self.memo.get(cursor.reference(opcode)?.into())? {
                Value::Stack { id, .. } => Some(FastStack::Known(id)),
                Value::EmptyList { .. } => Some(FastStack::Known(StackId::EMPTY)),
                _ => None,
            };
        }
        let mut memo = self.fast_memo_number(cursor)?;
        self.fast_put(memo, Value::EmptyList { memo });
        let opcode = *cursor.bytes.get(cursor.at)?;
        if !matches!(opcode, MARK | BINGET | LONG_BINGET) {
            // Backward threads have no Python frames: an empty list, one per event.
            return Some(FastStack::Known(StackId::EMPTY));
        }
        cursor.at += 1;
        let start = cursor.at;
        let (mut id, mut frames, mut spelling) = (None, 1, 0..0);
        self.frame_scratch.clear();
        if opcode == MARK {
            let rest = cursor.bytes.get(start..)?;
            if let Some(known) = self.spellings.find(rest, self.memo.replaced()) {
                (id, frames) = (Some(known.id), known.frames);
                cursor.at += known.bytes.len();
            } else {
                loop {
                    let opcode = cursor.byte()?;
                    if opcode == APPENDS {
                        break;
                    }
                    let frame = self.memo.get_frame(cursor.reference(opcode)?)?;
                    self.frame_scratch.push(frame);
                }
                frames = self.frame_scratch.len();
            }
            if frames == 0 {
                return None;
            }
            spelling = start..cursor.at;
        } else {
            let frame = self.memo.get_frame(cursor.reference(opcode)?)?;
            if cursor.byte()? != APPEND {
                return None;
            }
            self.frame_scratch.push(frame);
        }
        if memo == NO_MEMO {
            memo = self.fast_memo_number(cursor)?;
            self.fast_put(memo, Value::EmptyList { memo });
        }
        // More than 1000 frames come in batches, which the general path puts together.
        let next = *cursor.bytes.get(cursor.at)?;
        if matches!(next, MARK | APPEND | EMPTY_LIST) {
            return None;
        }
        Some(FastStack::New { id, frames, spelling, memo })
    }

    /// The number that the value just read is memoised under: CPython does so at once, the C++
    /// writer when a container is complete and only if it is used again.
    #[inline]
    fn fast_memo_number(&mut self, cursor: &mut Cursor<'_>) -> Option<u32> {
        let opcode = *cursor.bytes.get(cursor.at)?;
        let number = match opcode {
            MEMOIZE => {
                cursor.at += 1;
                self.memo.len() as u32
            }
            BINPUT => {
                cursor.at += 1;
                cursor.byte()?.into()
            }
            LONG_BINPUT => {
                cursor.at += 1;
                u32::from_le_bytes(cursor.take()?)
            }
            _ => return Some(NO_MEMO),
        };
        // Every writer counts up. A number out of order could replace an entry, which is not undone.
        (number as usize == self.memo.len() && u64::from(number) <= self.offset).then_some(number)
    }

    #[inline]
    fn fast_put(&mut self, memo: u32, value: Value) {
        if memo != NO_MEMO {
            self.memo.put(memo, value);
        }
    }
}
