//! All text of a snapshot, each distinct string once.
//!
//! PyTorch writes every frame's name and file afresh (68 distinct files stored 3158 times in one real
//! recording), so strings are interned by value. They lie end to end in one buffer: two allocations
//! however many strings there are.

use std::sync::OnceLock;

use vramscope_mapped::Buffer;

use super::StrId;

/// Distinct strings, numbered in order of first appearance. [`StrId::EMPTY`] is always there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringTable {
    pub(crate) text: Buffer<u8>,
    pub(crate) ends: Buffer<u64>,
    /// Texts of [`Additions`](super::Additions), with ids after these.
    pub(crate) added: OnceLock<Box<Self>>,
}

impl Default for StringTable {
    fn default() -> Self {
        Self { ends: vec![0].into(), ..Self::none() }
    }
}

impl StringTable {
    /// Not even the empty text.
    pub(crate) fn none() -> Self {
        Self { text: Buffer::new(), ends: Buffer::new(), added: OnceLock::new() }
    }

    /// The text of `id`; empty for an id from elsewhere.
    #[inline]
    pub fn get(&self, id: StrId) -> &str {
        let row = id.index();
        if row >= self.ends.len() {
            return self.get_added(row);
        }
        let start = if row == 0 { 0 } else { self.ends.get(row - 1).copied().unwrap_or(u64::MAX) as usize };
        let text =
            self.ends.get(row).and_then(|&end| self.text.slice(start..end as usize)).unwrap_or_default();
        str::from_utf8(text).unwrap_or_default()
    }

    #[cold]
    fn get_added(&self, row: usize) -> &str {
        self.added.get().map_or("", |added| added.get(StrId::from_index(row - self.ends.len())))
    }

    /// Number of strings that were read.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Never: the empty text is always there.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// All strings that were read, in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|row| self.get(StrId::from_index(row)))
    }

    /// Adds a string without looking whether it is there already.
    pub fn push(&mut self, text: &str) -> StrId {
        let id = StrId::from_index(self.ends.len());
        self.text.to_mut().extend_from_slice(text.as_bytes());
        self.ends.push(self.text.len() as u64);
        id
    }
}
