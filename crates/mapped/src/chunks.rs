//! Bytes of a file that are checked piece by piece, each when it is first touched.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_64;

/// Bytes that are checked together. No system has larger pages, so a piece can be replaced on its own.
pub const CHUNK: usize = 1 << 16;

/// Whether anything read from a mapped file was damaged. For the whole process: signals know no better.
static DAMAGED: AtomicBool = AtomicBool::new(false);

/// Whether anything that was read from a mapped file since the last [`forget_damage`] was damaged. Then an answer that
/// was worked out meanwhile is wrong.
pub fn is_damaged() -> bool {
    DAMAGED.load(Ordering::Acquire)
}

/// Begins anew, after the answer has been discarded.
pub fn forget_damage() {
    DAMAGED.store(false, Ordering::Release);
}

pub(crate) fn note_damage() {
    DAMAGED.store(true, Ordering::Release);
}

/// Where the bytes of a file are.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// In memory, checked. As words, so that every column is aligned.
    Copied { words: Vec<u64>, len: usize },
    #[cfg(unix)]
    Mapped(crate::map::Map),
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Self::Copied { words, len } => bytemuck::cast_slice(words).get(..*len).unwrap_or_default(),
            #[cfg(unix)]
            Self::Mapped(map) => map.bytes(),
        }
    }
}

/// A file with the checksum of each [`CHUNK`].
#[derive(Debug)]
pub(crate) struct Chunks {
    bytes: Bytes,
    sums: Vec<u64>,
    /// A bit for each chunk that was checked.
    known: Vec<AtomicU64>,
}

impl Chunks {
    /// Bytes that are checked when they are touched.
    pub(crate) fn new(bytes: Bytes, sums: Vec<u64>) -> Self {
        let known = (0..sums.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { bytes, sums, known }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.get().len()
    }

    /// Checks some bytes: damaged ones are zeros from then on. Says whether any of them were not checked before.
    pub(crate) fn check(&self, range: Range<usize>) -> bool {
        let mut found = false;
        if range.start < range.end {
            for chunk in range.start / CHUNK..=(range.end - 1) / CHUNK {
                if !self.is_known(chunk) {
                    self.check_chunk(chunk);
                    found = true;
                }
            }
        }
        found
    }

    /// Some bytes, whether checked or not.
    #[inline]
    pub(crate) fn unchecked(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get().get(range).unwrap_or_default()
    }

    #[inline]
    fn is_known(&self, chunk: usize) -> bool {
        let word = self.known.get(chunk / 64);
        word.is_some_and(|word| word.load(Ordering::Acquire) >> (chunk % 64) & 1 == 1)
    }

    #[cold]
    fn check_chunk(&self, chunk: usize) {
        if !self.is_intact(chunk) {
            note_damage();
            self.clear(chunk);
        }
        if let Some(word) = self.known.get(chunk / 64) {
            word.fetch_or(1 << (chunk % 64), Ordering::AcqRel);
        }
    }

    /// Whether a chunk is what was written.
    pub(crate) fn is_intact(&self, chunk: usize) -> bool {
        let bytes = self.bytes.get();
        let start = chunk.saturating_mul(CHUNK).min(bytes.len());
        let end = (start + CHUNK).min(bytes.len());
        self.sums.get(chunk) == Some(&xxh3_64(bytes.get(start..end).unwrap_or_default()))
    }

    /// Makes a damaged chunk read as zeros: whatever it says, no look-up and no length may follow it.
    #[cfg_attr(not(unix), allow(unused_variables, reason = "there is nothing mapped"))]
    fn clear(&self, chunk: usize) {
        match &self.bytes {
            // Checked as a whole when it was read.
            Bytes::Copied { .. } => {}
            #[cfg(unix)]
            Bytes::Mapped(map) => map.clear(chunk * CHUNK, CHUNK),
        }
    }
}
