//! The stack machine that gives pickle operations their meaning, as data only.
//!
//! It follows CPython's unpickler as far as a snapshot goes and refuses everything that would call
//! code. What it builds are rows of the model: a dictionary with the keys of an event goes straight
//! into the event columns when its items arrive, and only its row number stays on the stack.

use vramscope_pickle::{DecodeError, Op, text};

use super::fast::{Spellings, Template};
use super::objects::{Items, List, Objects};
use super::oddities::Oddity;
use super::rows::{Tables, is_row};
use super::value::{Memo, NO_MEMO, Value};
use crate::model::FrameId;

/// So deep may the stack grow whatever the input, and by one value for each
/// [`STACK_BYTES_PER_VALUE`] bytes read: the C++ writer leaves a whole trace on the stack, but an
/// event is never shorter than that.
const STACK_BASE: u64 = 1 << 16;
const STACK_BYTES_PER_VALUE: u64 = 4;

/// Tuples that are open at once, far more than types nest.
const MAX_TUPLES: usize = 1 << 10;

const CONTAINERS_BASE: u64 = 1 << 12;
const BYTES_PER_CONTAINER: u64 = 16;

/// Why the machine stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// The bytes make no sense from here on; what came before stands.
    #[error("{0}")]
    Damaged(&'static str),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("memo entry {0} is used before it is set")]
    NoSuchMemo(u64),
    /// An operation that would execute code.
    #[error("{0}")]
    Refused(String),
}

/// The machine, and the tables it fills.
pub(super) struct Machine {
    pub(super) stack: Vec<Value>,
    pub(super) marks: Vec<usize>,
    pub(super) memo: Memo,
    pub(super) objects: Objects,
    pub(super) tables: Tables,
    pub(super) protocol: u8,
    /// A container was filled before it was memoised: the C++ writer does that.
    pub(super) late_memo: bool,
    pub(super) tagged: bool,
    pub(super) done: bool,
    pub(super) frame_scratch: Vec<FrameId>,
    pub(super) template: Template,
    pub(super) spellings: Spellings,
    /// Where the current operation begins. What the machine may hold grows with it.
    pub(super) offset: u64,
    /// How long the whole input is, if that is known.
    pub(super) expected_len: u64,
    /// Where the first event was read, and the memo's length then.
    pub(super) first_event: Option<(u64, usize)>,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self {
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Memo::default(),
            objects: Objects::default(),
            tables: Tables::new(),
            protocol: 0,
            late_memo: false,
            tagged: false,
            done: false,
            frame_scratch: Vec::new(),
            template: Template::default(),
            spellings: Spellings::default(),
            offset: 0,
            expected_len: 0,
            first_event: None,
        }
    }

    /// Carries out one operation that begins at byte `offset`.
    #[inline]
    pub(super) fn apply(&mut self, op: Op<'_>, offset: u64) -> Result<(), Fault> {
        self.offset = offset;
        match op {
            Op::Get(at) => {
                let value = self.memo.get(at).ok_or(Fault::NoSuchMemo(at))?;
                self.push(value)
            }
            Op::Memoize => {
                let at = self.memo.len() as u64;
                self.put(at)
            }
            Op::Put(at) => self.put(at),
            Op::Int(n) => self.push(Value::Int(n)),
            Op::Str(text) => {
                let id = self.tables.strings.intern(text);
                self.push(Value::Str(id))
            }
            Op::Mark => {
                if self.memo.len() == 0 && !self.stack.is_empty() {
                    self.late_memo = true;
                }
                self.check_depth()?;
                self.marks.push(self.stack.len());
                Ok(())
            }
            Op::EmptyDict => self.push(Value::EmptyDict { memo: NO_MEMO }),
            Op::EmptyList => self.push(Value::EmptyList { memo: NO_MEMO }),
            Op::SetItems => {
                let from = self.pop_mark()?;
                self.set_items(from)
            }
            Op::Appends => {
                let from = self.pop_mark()?;
                self.append(from)
            }
            Op::SetItem => {
                let from = self.stack.len().checked_sub(2).ok_or(UNDERFLOW)?;
                self.set_items(from)
            }
            Op::Append => {
                let from = self.stack.len().checked_sub(1).ok_or(UNDERFLOW)?;
                self.append(from)
            }
            Op::None => self.push(Value::None),
            Op::Bool(b) => self.push(Value::Bool(b)),
            Op::Float(f) => self.push(Value::Float(f)),
            Op::TupleOf(n) => {
                let from = self.stack.len().checked_sub(n.into()).ok_or(UNDERFLOW)?;
                self.tuple(from)
            }
            Op::Frame(_) => Ok(()),
            Op::Proto(version) => {
                self.protocol = self.protocol.max(version);
                Ok(())
            }
            Op::Stop => {
                self.done = true;
                Ok(())
            }
            rare => self.apply_rare(rare),
        }
    }

    #[cold]
    #[inline(never)]
    fn apply_rare(&mut self, op: Op<'_>) -> Result<(), Fault> {
        match op {
            Op::UInt(n) => self.push(Value::UInt(n)),
            Op::HugeInt => self.push(Value::HugeInt),
            Op::Quoted(literal) => {
                let id = self.tables.strings.intern(&text::unquote(literal));
                self.push(Value::Str(id))
            }
            Op::RawUnicode(line) => {
                let id = self.tables.strings.intern(text::unescape_raw_unicode(line).as_bytes());
                self.push(Value::Str(id))
            }
            Op::Bytes(_) | Op::EmptyTuple | Op::EmptySet => self.push(Value::Other),
            Op::Pop => {
                // CPython pops the mark if nothing lies above it.
                if self.marks.last() == Some(&self.stack.len()) {
                    self.marks.pop();
                    return Ok(());
                }
                self.stack.pop().map(drop).ok_or(UNDERFLOW)
            }
            Op::PopMark => {
                let from = self.pop_mark()?;
                self.stack.truncate(from);
                Ok(())
            }
            Op::Dup => {
                if let Some(Value::EmptyDict { memo } | Value::EmptyList { memo }) = self.stack.last_mut() {
                    // Two references: as if it were memoised.
                    *memo = (*memo).min(NO_MEMO - 1);
                }
                self.make_sharable()?;
                let top = *self.stack.last().ok_or(UNDERFLOW)?;
                self.push(top)
            }
            Op::Dict => {
                let from = self.pop_mark()?;
                self.stack.insert(from, Value::EmptyDict { memo: NO_MEMO });
                self.set_items(from + 1)
            }
            Op::List => {
                let from = self.pop_mark()?;
                self.stack.insert(from, Value::EmptyList { memo: NO_MEMO });
                self.append(from + 1)
            }
            Op::Tuple => {
                let from = self.pop_mark()?;
                self.tuple(from)
            }
            Op::FrozenSet => {
                let from = self.pop_mark()?;
                self.stack.truncate(from);
                self.push(Value::Other)
            }
            Op::AddItems => {
                let from = self.pop_mark()?;
                self.stack.truncate(from);
                Ok(())
            }
            Op::Global { module: b"torch.jit._pickle", name: b"restore_type_tag" } => {
                self.tagged = true;
                self.push(Value::RestoreTypeTag)
            }
            Op::Reduce => self.reduce(),
            Op::Global { module, name } | Op::Inst { module, name } => Err(Fault::Refused(format!(
                "{}.{}",
                String::from_utf8_lossy(module).trim(),
                String::from_utf8_lossy(name).trim()
            ))),
            Op::StackGlobal => {
                let name = |value: Option<&Value>| match value {
                    Some(&Value::Str(text)) => self.tables.strings.table.get(text).to_owned(),
                    _ => "?".to_owned(),
                };
                let top = self.stack.len();
                let module = name(top.checked_sub(2).and_then(|at| self.stack.get(at)));
                let attribute = name(top.checked_sub(1).and_then(|at| self.stack.get(at)));
                Err(Fault::Refused(format!("{module}.{attribute}")))
            }
            Op::Build => Err(Fault::Refused("an object's state (BUILD)".into())),
            Op::Obj | Op::NewObj | Op::NewObjEx => Err(Fault::Refused("a new object (NEWOBJ)".into())),
            Op::Ext(code) => Err(Fault::Refused(format!("copyreg extension {code}"))),
            Op::PersistentId => Err(Fault::Refused("an object kept outside the file (PERSID)".into())),
            Op::Buffer => Err(Fault::Refused("a buffer kept outside the file".into())),
            _ => Err(Fault::Damaged("an operation out of place")),
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, value: Value) -> Result<(), Fault> {
        self.check_depth()?;
        self.stack.push(value);
        Ok(())
    }

    #[inline(always)]
    fn check_depth(&self) -> Result<(), Fault> {
        if self.has_room_for(1) {
            return Ok(());
        }
        Err(Fault::Damaged("more values are left on the stack than any snapshot has"))
    }

    /// Whether that many more values may be pushed.
    #[inline(always)]
    pub(super) fn has_room_for(&self, more: usize) -> bool {
        let limit = STACK_BASE + self.offset / STACK_BYTES_PER_VALUE;
        (self.stack.len() + self.marks.len() + more) as u64 <= limit
    }

    /// Containers that are no rows are rare in what writers of today make, and one in 200 bytes in
    /// protocol 0. More than one in 16 bytes is made to use up memory.
    fn check_containers(&self) -> Result<(), Fault> {
        let objects = &self.objects;
        let count = objects.lists.len() + objects.dicts.len() + objects.tuples.len();
        if count as u64 <= CONTAINERS_BASE + self.offset / BYTES_PER_CONTAINER {
            return Ok(());
        }
        Err(Fault::Damaged("more lists are nested in lists than in any snapshot"))
    }

    fn pop_mark(&mut self) -> Result<usize, Fault> {
        self.marks.pop().filter(|&mark| mark <= self.stack.len()).ok_or(Fault::Damaged("a mark is missing"))
    }

    /// Remembers the top of the stack. A number that no writer could have reached by counting up is
    /// refused, because the memo is a flat array.
    fn put(&mut self, at: u64) -> Result<(), Fault> {
        if at > self.offset || at >= u64::from(NO_MEMO) {
            return Err(Fault::Damaged("a memo number is out of range"));
        }
        let at = at as u32;
        self.make_sharable()?;
        let top = self.stack.last_mut().ok_or(UNDERFLOW)?;
        match top {
            Value::EmptyDict { memo } | Value::EmptyList { memo } | Value::Stack { memo, .. } => *memo = at,
            Value::List(slot) => {
                if let Some(list) = self.objects.lists.get_mut(*slot as usize) {
                    list.memo = at;
                }
            }
            Value::Dict(slot) => {
                if let Some(dict) = self.objects.dicts.get_mut(*slot as usize) {
                    dict.memo = at;
                }
            }
            _ => {}
        }
        let top = *top;
        self.memo.put(at, top);
        Ok(())
    }

    /// An empty container that is about to be known under a second name becomes an object of its own,
    /// so that both names see what is put into it.
    fn make_sharable(&mut self) -> Result<(), Fault> {
        let Some(top) = self.stack.last().copied() else { return Ok(()) };
        let (value, memo) = match top {
            Value::EmptyDict { memo } if memo != NO_MEMO => (self.objects.new_dict(&[], memo), memo),
            Value::EmptyList { memo } if memo != NO_MEMO => (self.objects.new_list(List::new(memo)), memo),
            _ => return Ok(()),
        };
        self.replace(self.stack.len() - 1, value, memo);
        self.check_containers()
    }

    /// Puts everything from `from` on into the dictionary below it.
    fn set_items(&mut self, from: usize) -> Result<(), Fault> {
        let container = self.container(from)?;
        if !(self.stack.len() - from).is_multiple_of(2) {
            return Err(Fault::Damaged("a dictionary key has no value"));
        }
        self.freeze_from(from);
        self.check_containers()?;
        self.tables.bytes_read = self.offset;
        let items = self.stack.get(from..).unwrap_or_default();
        match container {
            Value::EmptyDict { .. } if items.is_empty() => {}
            Value::EmptyDict { memo } => {
                // One pair may be the first of many (protocol 0): wait until the parent takes it.
                let row = if items.len() > 2 { self.tables.row(&self.objects, items) } else { None };
                let value = row.unwrap_or_else(|| self.objects.new_dict(items, memo));
                self.replace(from - 1, value, memo);
            }
            Value::Dict(slot) => match self.objects.dicts.get_mut(slot as usize) {
                Some(dict) if dict.frozen.is_none() => dict.items.extend_from_slice(items),
                _ => self.tables.oddities.note(Oddity::ChangedAfterUse),
            },
            Value::Row(..) | Value::Frame(_) => self.tables.oddities.note(Oddity::ChangedAfterUse),
            _ => return Err(Fault::Damaged("items are set on something that is no dictionary")),
        }
        self.stack.truncate(from);
        Ok(())
    }

    /// Appends everything from `from` on to the list below it.
    fn append(&mut self, from: usize) -> Result<(), Fault> {
        let container = self.container(from)?;
        self.freeze_from(from);
        self.check_containers()?;
        let items = self.stack.get(from..).unwrap_or_default();
        let value = match container {
            Value::EmptyList { .. } if items.is_empty() => container,
            // A single item may be the first of many (protocol 0), so only a batch makes a stack.
            Value::EmptyList { memo }
                if items.len() > 1 && items.iter().all(|item| matches!(item, Value::Frame(_))) =>
            {
                Value::Stack {
                    id: self.tables.stacks.intern(frame_ids(items, &mut self.frame_scratch)),
                    memo,
                }
            }
            Value::EmptyList { memo } => self.objects.new_list(List::new(memo)),
            Value::Stack { id, memo } => {
                // CPython fills a list of more than 1000 in batches. Who copies stacks again and
                // again to use up memory is stopped by the length of the file.
                self.tables.bytes_read = self.offset;
                let frames = self.tables.stacks.table.get(id).len() as u64;
                if !self.tables.afford(frames) {
                    return Err(Fault::Damaged("stacks are changed after they were complete"));
                }
                let frames = self.tables.stacks.table.get(id);
                let mut list = List::new(memo);
                for &frame in frames {
                    list.push(Value::Frame(frame));
                }
                self.objects.new_list(list)
            }
            Value::List(_) => container,
            _ => return Err(Fault::Damaged("items are appended to something that is no list")),
        };
        if let Value::List(slot) = value
            && let Some(list) = self.objects.lists.get_mut(slot as usize)
        {
            if list.frozen.is_some() {
                self.tables.oddities.note(Oddity::ChangedAfterUse);
            } else {
                list.extend(items);
            }
        }
        if value != container
            && let Value::EmptyList { memo } | Value::Stack { memo, .. } = container
        {
            self.replace(from - 1, value, memo);
        }
        self.stack.truncate(from);
        Ok(())
    }

    fn container(&self, from: usize) -> Result<Value, Fault> {
        from.checked_sub(1).and_then(|at| self.stack.get(at)).copied().ok_or(UNDERFLOW)
    }

    /// Puts what a container has become where the container was.
    fn replace(&mut self, at: usize, value: Value, memo: u32) {
        if let Some(place) = self.stack.get_mut(at) {
            *place = value;
        }
        if memo != NO_MEMO {
            self.memo.update(memo, value);
        }
    }

    fn freeze_from(&mut self, from: usize) {
        for at in from..self.stack.len() {
            if let value @ (Value::List(_) | Value::Dict(_)) = self.stack[at] {
                self.stack[at] = self.freeze(value);
            }
        }
    }

    /// What a generic container is, now that it is complete.
    pub(super) fn freeze(&mut self, value: Value) -> Value {
        let (frozen, memo) = match value {
            Value::List(slot) => {
                let Some(list) = self.objects.lists.get_mut(slot as usize) else { return value };
                if let Some(known) = list.frozen {
                    return known;
                }
                let memo = list.memo;
                let frozen = match &list.items {
                    Items::Values(items)
                        if !items.is_empty() && items.iter().all(|item| matches!(item, Value::Frame(_))) =>
                    {
                        let id = self.tables.stacks.intern(frame_ids(items, &mut self.frame_scratch));
                        list.items = Items::Values(Vec::new());
                        Value::Stack { id, memo }
                    }
                    Items::Values(items) if items.is_empty() => Value::EmptyList { memo },
                    _ => value,
                };
                list.frozen = Some(frozen);
                (frozen, memo)
            }
            Value::Dict(slot) => {
                let Some(dict) = self.objects.dicts.get_mut(slot as usize) else { return value };
                if let Some(known) = dict.frozen {
                    return known;
                }
                dict.frozen = Some(value);
                let memo = dict.memo;
                let items = std::mem::take(&mut dict.items);
                self.tables.bytes_read = self.offset;
                let row = self.tables.row(&self.objects, &items);
                if let Some(dict) = self.objects.dicts.get_mut(slot as usize) {
                    match row {
                        Some(row) => dict.frozen = Some(row),
                        None => dict.items = items,
                    }
                }
                (row.unwrap_or(value), memo)
            }
            other => return other,
        };
        if frozen != value && memo != NO_MEMO {
            self.memo.update(memo, frozen);
        }
        frozen
    }

    fn tuple(&mut self, from: usize) -> Result<(), Fault> {
        self.freeze_from(from);
        let value = match self.stack.get(from..) {
            Some(&[Value::Int(a), Value::Int(b)]) => Value::Pair(self.tables.pools.pool((a, b))),
            // Type tags make a tuple and use it up at once; nothing else needs what is inside one.
            Some(_) if self.objects.tuples.len() >= MAX_TUPLES => Value::Other,
            Some(items) => {
                self.objects.tuples.push(items.to_vec());
                Value::Tuple(self.objects.tuples.len() as u32 - 1)
            }
            None => return Err(UNDERFLOW),
        };
        self.stack.truncate(from);
        self.stack.push(value);
        Ok(())
    }

    /// `restore_type_tag(value, type)` is `value`; nothing else may be called.
    fn reduce(&mut self) -> Result<(), Fault> {
        let arguments = self.stack.pop().ok_or(UNDERFLOW)?;
        let function = self.stack.pop().ok_or(UNDERFLOW)?;
        let (Value::Tuple(slot), Value::RestoreTypeTag) = (arguments, function) else {
            return Err(Fault::Refused("a call (REDUCE)".into()));
        };
        let result = self.objects.tuples.get(slot as usize).and_then(|items| items.first()).copied();
        if slot as usize + 1 == self.objects.tuples.len() {
            self.objects.tuples.pop();
        }
        self.stack.push(result.ok_or(UNDERFLOW)?);
        Ok(())
    }

    /// The top-level value. After damage or a cut, everything that is complete is put into the
    /// containers that were still open.
    pub(super) fn into_top(mut self) -> (Option<Value>, Objects, Tables) {
        if !self.done {
            self.close_open_containers();
        }
        let top = if self.done { self.stack.last() } else { self.stack.first() }.copied();
        let top = top.map(|value| self.freeze(value));
        (top, self.objects, self.tables)
    }

    fn close_open_containers(&mut self) {
        loop {
            let mark = self.marks.pop();
            let base = mark.unwrap_or(0).min(self.stack.len());
            // Values without a mark of their own wait for APPEND or SETITEM, innermost last.
            let floor = if mark.is_some() { base } else { 1 };
            while self.stack.len() > floor {
                let len = self.stack.len();
                let fits = match (len.checked_sub(2).and_then(|at| self.stack.get(at)), self.stack.last()) {
                    (Some(Value::EmptyList { .. } | Value::List(_)), Some(_)) if len - 2 >= base => len - 1,
                    _ => match len.checked_sub(3).and_then(|at| self.stack.get(at)) {
                        Some(Value::EmptyDict { .. } | Value::Dict(_)) if len - 3 >= base => len - 2,
                        _ => break,
                    },
                };
                if self.close(fits).is_none() {
                    self.stack.truncate(len - 1);
                }
            }
            if mark.is_none() {
                return;
            }
            if self.close(base).is_none() {
                self.stack.truncate(base);
            }
        }
    }

    /// Puts what lies from `from` on into the container below, if that is worth keeping.
    fn close(&mut self, from: usize) -> Option<()> {
        match self.container(from).ok()? {
            Value::EmptyList { .. } | Value::List(_) | Value::Stack { .. } => {
                // A dictionary that was only begun.
                if let Some(Value::EmptyDict { .. }) = self.stack.last() {
                    self.stack.pop();
                }
                self.append(from).ok()
            }
            Value::EmptyDict { .. } | Value::Dict(_) => {
                let complete = self.stack.len() - (self.stack.len() - from) % 2;
                self.stack.truncate(complete);
                if is_row(self.stack.get(from..)?) {
                    // A row that is only half there, and the place where it would have gone.
                    self.stack.truncate(from - 1);
                    return Some(());
                }
                self.set_items(from).ok()
            }
            _ => None,
        }
    }
}

const UNDERFLOW: Fault = Fault::Damaged("an operation needs more values than there are");

fn frame_ids<'a>(items: &[Value], scratch: &'a mut Vec<FrameId>) -> &'a [FrameId] {
    scratch.clear();
    scratch.extend(items.iter().filter_map(|item| match item {
        Value::Frame(id) => Some(*id),
        _ => None,
    }));
    scratch
}
