//! What the stack machine handles: values, and the memo that remembers them.

use crate::model::{FrameId, PoolId, StackId, StrId};

/// No memo entry.
pub(super) const NO_MEMO: u32 = u32::MAX;

/// The tables whose rows are made straight from dictionaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RowKind {
    Event,
    Block,
    Segment,
    Annotation,
}

/// A value on the stack. Containers whose meaning is known are already rows of the model; what is
/// left is plain data, or the number of a container that is still generic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// 2^63 and above.
    UInt(u64),
    HugeInt,
    Float(f64),
    Str(StrId),
    /// A tuple of two integers.
    Pair(PoolId),
    /// A dictionary or list that nothing was put into yet, with the memo entry to update when
    /// something is.
    EmptyDict {
        memo: u32,
    },
    EmptyList {
        memo: u32,
    },
    Frame(FrameId),
    /// A list of frames.
    Stack {
        id: StackId,
        memo: u32,
    },
    Row(RowKind, u32),
    Dict(u32),
    List(u32),
    Tuple(u32),
    /// `torch.jit._pickle.restore_type_tag`: the one function that may be called; it returns its
    /// first argument.
    RestoreTypeTag,
    /// Bytes, sets, empty tuples: nothing that a snapshot contains.
    Other,
}

/// Values by memo number, packed into four bytes each: a real snapshot memoises three or four
/// objects per event, most of which are never asked for again.
#[derive(Debug, Default)]
pub(super) struct Memo {
    entries: Vec<u32>,
    /// Values that do not fit the packing.
    wide: Vec<Value>,
    /// Counts how often a string or a frame was replaced, so that who remembers one knows when to look again.
    replaced: u32,
}

const TAG_BITS: u32 = 4;
const PAYLOAD_BITS: u32 = u32::BITS - TAG_BITS;
const PAYLOAD: u32 = (1 << PAYLOAD_BITS) - 1;

/// Tag 0 with payload 0 is an entry that was never put.
const ABSENT: u32 = 0;
const T_WIDE: u32 = 1;
const T_STR: u32 = 2;
const T_PAIR: u32 = 3;
const T_EMPTY_DICT: u32 = 4;
const T_EMPTY_LIST: u32 = 5;
const T_FRAME: u32 = 6;
const T_STACK: u32 = 7;
const T_ROW: u32 = 8; // and the three after it, by row kind
const T_DICT: u32 = 12;
const T_LIST: u32 = 13;
const T_TUPLE: u32 = 14;
/// Values without content, so that memoising them again and again costs no more than their entry.
const T_PLAIN: u32 = 15;
const PLAIN: [Value; 5] =
    [Value::None, Value::Bool(false), Value::Bool(true), Value::Other, Value::RestoreTypeTag];

const fn pack(tag: u32, payload: u32) -> Option<u32> {
    if payload <= PAYLOAD { Some(tag << PAYLOAD_BITS | payload) } else { None }
}

impl Memo {
    /// Number of entries.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Puts a value under a number, which the caller has checked to be of reasonable size.
    #[inline(always)]
    pub(super) fn put(&mut self, at: u32, value: Value) {
        if at as usize == self.entries.len() {
            let entry = self.encode(value);
            self.entries.push(entry);
        } else {
            self.put_elsewhere(at, value);
        }
    }

    fn put_elsewhere(&mut self, at: u32, value: Value) {
        if at as usize >= self.entries.len() {
            self.entries.resize(at as usize + 1, ABSENT);
        }
        let entry = self.encode(value);
        let place = &mut self.entries[at as usize];
        self.replaced += u32::from(matches!(*place >> PAYLOAD_BITS, T_STR | T_FRAME));
        *place = entry;
    }

    /// How often a string or a frame was replaced.
    #[inline]
    pub(super) fn replaced(&self) -> u32 {
        self.replaced
    }

    /// Replaces an entry that a container was memoised under before it was filled, unless the number
    /// has been given to something else since.
    #[inline(always)]
    pub(super) fn update(&mut self, at: u32, value: Value) {
        let entry = self.encode(value);
        if let Some(place) = self.entries.get_mut(at as usize)
            && matches!(*place >> PAYLOAD_BITS, T_EMPTY_DICT | T_EMPTY_LIST | T_STACK | T_DICT | T_LIST)
        {
            *place = entry;
        }
    }

    /// Reserves room for more entries.
    pub(super) fn reserve(&mut self, more: usize) {
        // Only a hint: growing one by one is the fallback.
        let _ = self.entries.try_reserve_exact(more);
    }

    /// Forgets the entries from `len` on.
    pub(super) fn truncate(&mut self, len: usize) {
        self.entries.truncate(len);
    }

    #[inline]
    pub(super) fn get(&self, at: u64) -> Option<Value> {
        let entry = *self.entries.get(usize::try_from(at).ok()?)?;
        if entry == ABSENT {
            return None;
        }
        let payload = entry & PAYLOAD;
        Some(match entry >> PAYLOAD_BITS {
            T_STR => Value::Str(StrId(payload)),
            T_FRAME => Value::Frame(FrameId(payload)),
            T_STACK => Value::Stack { id: StackId(payload), memo: at as u32 },
            T_PAIR => Value::Pair(PoolId(payload)),
            T_EMPTY_DICT => Value::EmptyDict { memo: at as u32 },
            T_EMPTY_LIST => Value::EmptyList { memo: at as u32 },
            T_DICT => Value::Dict(payload),
            T_LIST => Value::List(payload),
            T_TUPLE => Value::Tuple(payload),
            T_PLAIN => *PLAIN.get(payload as usize)?,
            T_WIDE => *self.wide.get(payload as usize)?,
            tag => Value::Row(
                match tag - T_ROW {
                    0 => RowKind::Event,
                    1 => RowKind::Block,
                    2 => RowKind::Segment,
                    _ => RowKind::Annotation,
                },
                payload,
            ),
        })
    }

    /// The string under a number, for the fast path.
    #[inline]
    pub(super) fn get_str(&self, at: u32) -> Option<StrId> {
        let entry = *self.entries.get(at as usize)?;
        (entry >> PAYLOAD_BITS == T_STR).then_some(StrId(entry & PAYLOAD))
    }

    /// The frame under a number, for the fast path.
    #[inline]
    pub(super) fn get_frame(&self, at: u32) -> Option<FrameId> {
        let entry = *self.entries.get(at as usize)?;
        (entry >> PAYLOAD_BITS == T_FRAME).then_some(FrameId(entry & PAYLOAD))
    }

    #[inline(always)]
    fn encode(&mut self, value: Value) -> u32 {
        let packed = match value {
            Value::Str(id) => pack(T_STR, id.0),
            Value::Pair(id) => pack(T_PAIR, id.0),
            Value::EmptyDict { .. } => pack(T_EMPTY_DICT, 0),
            Value::EmptyList { .. } => pack(T_EMPTY_LIST, 0),
            Value::Frame(id) => pack(T_FRAME, id.0),
            Value::Stack { id, .. } => pack(T_STACK, id.0),
            Value::Row(kind, row) => pack(T_ROW + kind as u32, row),
            Value::Dict(slot) => pack(T_DICT, slot),
            Value::List(slot) => pack(T_LIST, slot),
            Value::Tuple(slot) => pack(T_TUPLE, slot),
            Value::None => pack(T_PLAIN, 0),
            Value::Bool(on) => pack(T_PLAIN, 1 + on as u32),
            Value::Other => pack(T_PLAIN, 3),
            Value::RestoreTypeTag => pack(T_PLAIN, 4),
            Value::Int(_) | Value::UInt(_) | Value::HugeInt | Value::Float(_) => None,
        };
        packed.unwrap_or_else(|| {
            self.wide.push(value);
            // More wide values than the payload can number would need 4 GiB of them: the last wins.
            T_WIDE << PAYLOAD_BITS | (self.wide.len() as u32 - 1).min(PAYLOAD)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memo_gives_back_what_was_put() {
        let values = [
            Value::Str(StrId(7)),
            Value::Int(-5),
            Value::Row(RowKind::Annotation, 3),
            Value::Row(RowKind::Event, PAYLOAD + 1),
            Value::Pair(PoolId(2)),
            Value::Frame(FrameId(0)),
            Value::RestoreTypeTag,
            Value::None,
            Value::Bool(true),
            Value::Other,
        ];
        let mut memo = Memo::default();
        for (at, value) in values.into_iter().enumerate() {
            memo.put(at as u32, value);
        }
        for (at, value) in values.into_iter().enumerate() {
            assert_eq!(memo.get(at as u64), Some(value));
        }
        memo.put(20, Value::EmptyDict { memo: NO_MEMO });
        assert_eq!(memo.get(19), None);
        assert_eq!(memo.get(20), Some(Value::EmptyDict { memo: 20 }));
    }
}
