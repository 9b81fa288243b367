//! A Python value with identity, and short ways to write a snapshot by hand.
//!
//! Pickle stores an object once and refers to it afterwards, so a test needs to say "the same list again".
//! Containers and strings sit behind an [`Arc`]: cloning a [`Value`] means the same Python object, building it
//! twice means two equal objects. Dictionary keys and the fixed words of a snapshot ("alloc", "inactive", …)
//! come from one table per thread, because PyTorch uses one string object for each of them.
//!
//! ```
//! use vramscope_testkit::{Dialect, pickle, value::*};
//! let stack = frames(&[frame("forward", "model.py", 12), frame("main", "train.py", 3)]);
//! let file = snapshot(
//!     [segment(0x1000, [block("active_allocated", 0x1000, 512, 100).frames(&stack), block("inactive", 0x1200, 1536, 0)])],
//!     [[event("segment_alloc", 0x1000, 2048).time(1), event("alloc", 0x1000, 100).time(2).frames(&stack)]],
//! );
//! let bytes = pickle(&file.into(), Dialect::Protocol(4));
//! # assert!(bytes.starts_with(b"\x80\x04\x95"));
//! ```

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

/// A value as the snapshot formats know it. A clone is the same Python object.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `None`
    None,
    /// `True` or `False`
    Bool(bool),
    /// An integer of any size that a test needs.
    Int(i128),
    /// A float.
    Float(f64),
    /// A string.
    Str(Arc<str>),
    /// A tuple.
    Tuple(Arc<[Value]>),
    /// A list.
    List(Arc<[Value]>),
    /// A dictionary, in insertion order.
    Dict(Arc<[(Value, Value)]>),
}

impl Value {
    /// A new string object.
    pub fn text(text: &str) -> Self {
        Self::Str(Arc::from(text))
    }

    /// The one string object with this text in this thread.
    pub fn word(text: &str) -> Self {
        thread_local!(static WORDS: RefCell<HashSet<Arc<str>>> = RefCell::default());
        WORDS.with_borrow_mut(|words| {
            if let Some(word) = words.get(text) {
                return Self::Str(word.clone());
            }
            let word: Arc<str> = Arc::from(text);
            words.insert(word.clone());
            Self::Str(word)
        })
    }

    /// A new list object.
    pub fn list<T: Into<Value>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }

    /// A new tuple object.
    pub fn tuple<T: Into<Value>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::Tuple(items.into_iter().map(Into::into).collect())
    }

    /// A new dictionary object; its keys are [`Value::word`]s.
    pub fn dict<'a, T: Into<Value>>(items: impl IntoIterator<Item = (&'a str, T)>) -> Self {
        Self::Dict(items.into_iter().map(|(key, value)| (Self::word(key), value.into())).collect())
    }

    /// The value of a key, if this is a dictionary that has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let Self::Dict(items) = self else { return None };
        items.iter().find(|(k, _)| matches!(k, Self::Str(k) if **k == *key)).map(|(_, value)| value)
    }

    /// The items of a list or tuple; nothing for anything else.
    pub fn items(&self) -> &[Value] {
        match self {
            Self::List(items) | Self::Tuple(items) => items,
            Self::None | Self::Bool(_) | Self::Int(_) | Self::Float(_) | Self::Str(_) | Self::Dict(_) => &[],
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}
impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}
impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::text(value)
    }
}
macro_rules! from_integers {
    ($($integer:ty)*) => { $(impl From<$integer> for Value {
        fn from(value: $integer) -> Self {
            Self::Int(value.into())
        }
    })* };
}
from_integers!(u8 u32 i32 u64 i64 i128);

/// A dictionary under construction.
#[derive(Clone, Debug, Default)]
pub struct Record {
    items: Vec<(Value, Value)>,
}

impl Record {
    /// No items yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key: in its place if it is there, else at the end.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        let (key, value) = (Value::word(key), value.into());
        match self.items.iter_mut().find(|(k, _)| *k == key) {
            Some(item) => item.1 = value,
            None => self.items.push((key, value)),
        }
        self
    }

    /// Sets a key to the shared string object with this text.
    #[must_use]
    pub fn word(self, key: &str, word: &str) -> Self {
        self.set(key, Value::word(word))
    }

    /// Removes a key.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        let key = Value::word(key);
        self.items.retain(|(k, _)| *k != key);
        self
    }

    /// Sets `time_us`.
    #[must_use]
    pub fn time(self, time_us: i64) -> Self {
        self.set("time_us", time_us)
    }

    /// Sets `time_us` unless it is set.
    #[must_use]
    pub fn time_if_absent(self, time_us: i64) -> Self {
        let key = Value::word("time_us");
        if self.items.iter().any(|(k, _)| *k == key) { self } else { self.time(time_us) }
    }

    /// Sets `stream`.
    #[must_use]
    pub fn stream(self, stream: u64) -> Self {
        self.set("stream", stream)
    }

    /// Sets `frames` to this list object.
    #[must_use]
    pub fn frames(self, frames: &Value) -> Self {
        self.set("frames", frames.clone())
    }

    /// Sets the `pool_id` of an event.
    #[must_use]
    pub fn pool(self, a: u64, b: u64) -> Self {
        self.set("pool_id", Value::tuple([a, b]))
    }

    /// Sets the `segment_pool_id` of a segment.
    #[must_use]
    pub fn segment_pool(self, a: u64, b: u64) -> Self {
        self.set("segment_pool_id", Value::tuple([a, b]))
    }

    fn int(&self, key: &str) -> i128 {
        let key = Value::word(key);
        match self.items.iter().find(|(k, _)| *k == key) {
            Some((_, Value::Int(value))) => *value,
            _ => 0,
        }
    }
}

impl From<Record> for Value {
    fn from(record: Record) -> Self {
        Self::Dict(record.items.into())
    }
}

/// One entry of a device's trace. For `oom`, `addr` is what the device had free.
pub fn event(action: &str, addr: u64, size: u64) -> Record {
    let addr_key = if action == "oom" { "device_free" } else { "addr" };
    Record::new().word("action", action).set(addr_key, addr).set("size", size).set("stream", 0)
}

/// One block of a segment.
pub fn block(state: &str, address: u64, size: u64, requested: u64) -> Record {
    Record::new()
        .set("address", address)
        .set("size", size)
        .set("requested_size", requested)
        .word("state", state)
        .frames(&no_frames())
}

/// A segment of the default pool and stream that these blocks fill; the sums follow from them.
pub fn segment(address: u64, blocks: impl IntoIterator<Item = Record>) -> Record {
    let blocks: Vec<Record> = blocks.into_iter().collect();
    let sum = |key: &str, states: &[&str]| -> i128 {
        let states: Vec<Value> = states.iter().map(|state| Value::word(state)).collect();
        let counts =
            |block: &&Record| states.is_empty() || block.items.iter().any(|(_, v)| states.contains(v));
        blocks.iter().filter(counts).map(|block| block.int(key)).sum()
    };
    let active = ["active_allocated", "active_pending_free", "active_awaiting_free"];
    let total = sum("size", &[]);
    Record::new()
        .set("device", 0)
        .set("address", address)
        .set("total_size", total)
        .set("allocated_size", sum("size", &active[..1]))
        .set("active_size", sum("size", &active))
        .set("requested_size", sum("requested_size", &active))
        .stream(0)
        .word("segment_type", if total <= 2 << 20 { "small" } else { "large" })
        .segment_pool(0, 0)
        .set("is_expandable", false)
        .frames(&no_frames())
        .set("blocks", Value::list(blocks))
}

/// One stack frame.
pub fn frame(name: &str, filename: &str, line: u32) -> Value {
    Record::new().set("name", name).set("filename", filename).set("line", line).into()
}

/// A new list of these frames, innermost first.
pub fn frames(frames: &[Value]) -> Value {
    Value::list(frames.iter().cloned())
}

/// The empty list that all segments and blocks without a stack share.
pub fn no_frames() -> Value {
    thread_local!(static EMPTY: Value = Value::List(Arc::from([])));
    EMPTY.with(Clone::clone)
}

/// One `record_function` mark; `stage` is `START` or `END`. All its strings but two keys are new objects, as
/// in a real file.
pub fn annotation(stage: &str, name: &str, time_us: i64) -> Record {
    let items = [("stage", stage), ("name", name)];
    let items = items.map(|(key, text)| (Value::text(key), Value::text(text))).into();
    Record { items }.set("device", 0).time(time_us)
}

/// The allocator settings of a run without `PYTORCH_CUDA_ALLOC_CONF`.
pub fn settings() -> Record {
    let divisions = (0..16).fold(Record::new(), |all, i| all.set(&(1u32 << i).to_string(), 0));
    Record::new()
        .word("PYTORCH_CUDA_ALLOC_CONF", "")
        .set("max_split_size", -1)
        .set("garbage_collection_threshold", 0.0)
        .set("expandable_segments", false)
        .set("pinned_num_register_threads", 1)
        .set("release_lock_on_cudamalloc", false)
        .set("pinned_use_cuda_host_register", false)
        .set("graph_capture_record_stream_reuse", false)
        .set("roundup_power2_divisions", divisions)
}

/// A whole snapshot: the segments, and one trace per device. Add to it or change it with [`Record::set`].
pub fn snapshot<Trace: IntoIterator<Item = Record>>(
    segments: impl IntoIterator<Item = Record>,
    traces: impl IntoIterator<Item = Trace>,
) -> Record {
    Record::new()
        .set("segments", Value::list(segments))
        .set("device_traces", Value::list(traces.into_iter().map(Value::list)))
        .set("allocator_settings", settings())
        .set("external_annotations", Value::list::<Value>([]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_is_the_same_object_and_words_are_shared() {
        let (Value::Str(a), Value::Str(b)) = (Value::word("alloc"), Value::word("alloc")) else { panic!() };
        assert!(Arc::ptr_eq(&a, &b));
        let (Value::Str(a), Value::Str(b)) = (Value::text("alloc"), Value::text("alloc")) else { panic!() };
        assert!(!Arc::ptr_eq(&a, &b));
    }

    #[test]
    fn a_segment_sums_its_blocks_by_state() {
        let blocks = [
            block("active_allocated", 0, 512, 10),
            block("active_pending_free", 512, 1024, 600),
            block("inactive", 1536, 2048, 77),
        ];
        let segment = Value::from(segment(0, blocks));
        let int = |key| segment.get(key).cloned();
        assert_eq!(int("total_size"), Some(3584.into()));
        assert_eq!(int("allocated_size"), Some(512.into()));
        assert_eq!(int("active_size"), Some(1536.into()));
        assert_eq!(int("requested_size"), Some(610.into()));
    }

    #[test]
    fn an_oom_event_has_device_free_instead_of_addr() {
        let oom = Value::from(event("oom", 7, 100));
        assert_eq!((oom.get("device_free"), oom.get("addr")), (Some(&Value::Int(7)), None));
    }
}
