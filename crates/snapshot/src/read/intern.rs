//! Tables of distinct things, looked up by value.
//!
//! The hash is seeded anew in every process, so a file cannot be made whose strings or stacks all
//! collide.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashTable};

use super::keys;
use crate::model::{
    Frame, FrameId, Fx, Meta, MetaId, Pool, PoolId, StackId, StackTable, StrId, StreamId, StringTable,
};

/// Strings by text.
pub(super) struct Strings {
    pub(super) table: StringTable,
    index: HashTable<StrId>,
    seed: RandomState,
}

impl Strings {
    /// A table that starts with the words the reader knows.
    pub(super) fn new() -> Self {
        let mut strings =
            Self { table: StringTable::default(), index: HashTable::new(), seed: RandomState::default() };
        strings.intern(b"");
        for word in keys::known_words() {
            strings.intern(word.as_bytes());
        }
        strings
    }

    /// The id of a text. What is not UTF-8 in it is replaced.
    pub(super) fn intern(&mut self, text: &[u8]) -> StrId {
        let text = String::from_utf8_lossy(text);
        let text = text.as_ref();
        if text.is_empty() {
            return StrId::EMPTY;
        }
        let hash = self.seed.hash_one(text);
        let Self { table, index, seed } = self;
        let entry = index.entry(hash, |&id| table.get(id) == text, |&id| seed.hash_one(table.get(id)));
        match entry {
            hashbrown::hash_table::Entry::Occupied(found) => *found.get(),
            hashbrown::hash_table::Entry::Vacant(vacant) => {
                // The text is added after the look-up has released the table.
                let id = StrId::from_index(table.len());
                vacant.insert(id);
                self.table.push(text)
            }
        }
    }
}

/// Frames and stacks by value.
#[derive(Default)]
pub(super) struct Stacks {
    pub(super) table: StackTable,
    frames: HashMap<(Frame, Fx), FrameId, RandomState>,
    fx: HashMap<Fx, u32, RandomState>,
    index: HashTable<StackId>,
    seed: RandomState,
}

impl Stacks {
    /// The id of a frame.
    pub(super) fn intern_frame(&mut self, mut frame: Frame, fx: Fx) -> FrameId {
        let table = &mut self.table;
        if fx != Fx::default() {
            frame.fx = *self.fx.entry(fx).or_insert_with(|| {
                table.fx.push(fx);
                table.fx.len() as u32
            });
        }
        *self.frames.entry((frame, fx)).or_insert_with(|| table.push_frame(frame))
    }

    /// The id of a list of frames.
    #[inline]
    pub(super) fn intern(&mut self, frames: &[FrameId]) -> StackId {
        if frames.is_empty() {
            return StackId::EMPTY;
        }
        let Self { table, index, seed, .. } = self;
        let hash = |frames: &[FrameId]| {
            let mut hasher = seed.build_hasher();
            for pair in frames.chunks(2) {
                let high = pair.get(1).map_or(u32::MAX, |frame| frame.0);
                hasher.write_u64(u64::from(high) << 32 | u64::from(pair[0].0));
            }
            hasher.finish()
        };
        match index.entry(hash(frames), |&id| table.get(id) == frames, |&id| hash(table.get(id))) {
            hashbrown::hash_table::Entry::Occupied(found) => *found.get(),
            hashbrown::hash_table::Entry::Vacant(vacant) => {
                let id = StackId::from_index(table.ends.len());
                vacant.insert(id);
                self.table.push_stack(frames)
            }
        }
    }
}

/// Distinct small rows by value, numbered in order of appearance.
pub(super) struct Rows<T> {
    pub(super) rows: Vec<T>,
    index: HashMap<T, u32, RandomState>,
    /// The last row asked for: runs of the same value are the rule.
    last: (T, u32),
}

impl<T: Copy + Eq + Hash + Default> Rows<T> {
    /// A table whose first rows are given.
    pub(super) fn new(first: &[T]) -> Self {
        let mut rows = Self { rows: Vec::new(), index: HashMap::default(), last: (T::default(), u32::MAX) };
        for &row in first {
            rows.rows.push(row);
            rows.index.insert(row, rows.rows.len() as u32 - 1);
        }
        rows
    }

    #[inline]
    fn intern(&mut self, row: T) -> u32 {
        if self.last.1 != u32::MAX && self.last.0 == row {
            return self.last.1;
        }
        let rows = &mut self.rows;
        let id = *self.index.entry(row).or_insert_with(|| {
            rows.push(row);
            rows.len() as u32 - 1
        });
        self.last = (row, id);
        id
    }
}

impl Rows<Pool> {
    #[inline]
    pub(super) fn pool(&mut self, pool: Pool) -> PoolId {
        PoolId(self.intern(pool))
    }
}

impl Rows<u64> {
    #[inline]
    pub(super) fn stream(&mut self, handle: u64) -> StreamId {
        StreamId(self.intern(handle))
    }
}

impl Rows<Meta> {
    #[inline]
    pub(super) fn meta(&mut self, meta: Meta) -> MetaId {
        MetaId(self.intern(meta))
    }
}
