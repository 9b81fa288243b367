//! Bytes of a file that are checked piece by piece, each before it is first handed out.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use memmap2::Mmap;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes that are checked together: enough that checksums take no room, and few enough that a question about a moment
/// reads little.
pub const CHUNK: usize = 1 << 16;

/// Offset of the first column in a file. Chunks that lie at multiples of their length are kept in large pages, which are
/// written in less time: 66 MB take 10 ms less than with a first column right behind the header.
pub(crate) const FIRST: usize = CHUNK;

/// A piece of a file is not as it was written.
pub(crate) struct Damaged;

/// Returns the bytes of a column by its name, in place of those of a damaged file.
pub(crate) type Replace = Box<dyn Fn(&str) -> Vec<u8> + Send + Sync>;

/// Where the bytes of a file are.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// In memory, as words, so that every column is aligned.
    Owned {
        words: Vec<u64>,
        len: usize,
    },
    Mapped(Mmap),
}

impl Bytes {
    pub(crate) fn get(&self) -> &[u8] {
        match self {
            Self::Owned { words, len } => bytemuck::cast_slice(words).get(..*len).unwrap_or_default(),
            Self::Mapped(map) => map,
        }
    }
}

/// Columns of a file with the checksum of each [`CHUNK`] of them.
pub(crate) struct Chunks {
    bytes: Bytes,
    /// Offset of the end of the columns.
    end: usize,
    sums: Vec<u64>,
    /// A bit for each chunk that was checked and is intact.
    known: Vec<AtomicU64>,
    replace: Option<Replace>,
}

impl Chunks {
    pub(crate) fn new(bytes: Bytes, end: usize, sums: Vec<u64>, replace: Option<Replace>) -> Self {
        let known = (0..sums.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { bytes, end, sums, known, replace }
    }

    /// Number of bytes of columns.
    pub(crate) fn len(&self) -> usize {
        self.end - FIRST
    }

    /// Checks all columns.
    pub(crate) fn check_all(&self) -> Result<(), Damaged> {
        self.check(FIRST..self.end).map(|_| ())
    }

    /// Checks some bytes; returns whether any of them had not been checked before.
    pub(crate) fn check(&self, range: Range<usize>) -> Result<bool, Damaged> {
        let mut found_more = false;
        for chunk in chunks(&range) {
            if !self.is_known(chunk) {
                self.check_chunk(chunk)?;
                found_more = true;
            }
        }
        Ok(found_more)
    }

    /// Some bytes, whether checked or not.
    pub(crate) fn unchecked(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get().get(range).unwrap_or_default()
    }

    /// Bytes of a column in place of those of this file, which is damaged.
    pub(crate) fn replacement(&self, column: &str) -> Vec<u8> {
        self.replace.as_ref().map(|replace| replace(column)).unwrap_or_default()
    }

    #[inline]
    fn is_known(&self, chunk: usize) -> bool {
        let word = self.known.get(chunk / 64);
        word.is_some_and(|word| word.load(Ordering::Acquire) >> (chunk % 64) & 1 == 1)
    }

    #[cold]
    fn check_chunk(&self, chunk: usize) -> Result<(), Damaged> {
        let start = FIRST + chunk * CHUNK;
        let bytes = self.unchecked(start..(start + CHUNK).min(self.end));
        if self.sums.get(chunk) != Some(&xxh3_64(bytes)) {
            return Err(Damaged);
        }
        if let Some(word) = self.known.get(chunk / 64) {
            word.fetch_or(1 << (chunk % 64), Ordering::AcqRel);
        }
        Ok(())
    }
}

/// A column of a file.
pub(crate) struct Section {
    pub(crate) file: Arc<Chunks>,
    pub(crate) name: Arc<str>,
    /// Place in the file, in bytes.
    pub(crate) place: Range<usize>,
    /// Whether all of it was checked and is intact: then looking at it costs what looking at a `Vec` does.
    pub(crate) is_checked: AtomicBool,
    /// How often a chunk had to be checked.
    checks: AtomicUsize,
}

impl Section {
    pub(crate) fn new(file: Arc<Chunks>, name: Arc<str>, place: Range<usize>) -> Self {
        Self { file, name, place, is_checked: AtomicBool::new(false), checks: AtomicUsize::new(0) }
    }

    /// Whether some bytes of the column are intact. Not generic, so that it is compiled here, whoever asks.
    #[inline(never)]
    pub(crate) fn check(&self, range: Range<usize>) -> bool {
        let (start, end) = (self.place.start + range.start, self.place.start + range.end);
        let Ok(found_more) = self.file.check(start..end) else { return false };
        // After half of it, checking all of it at once is cheaper. Not before: what is checked is read from the disk.
        let checks = if found_more { self.checks.fetch_add(1, Ordering::Relaxed) } else { 0 };
        let is_all = self.place == (start..end);
        if is_all || (checks * CHUNK * 2 > self.place.len() && self.file.check(self.place.clone()).is_ok()) {
            self.is_checked.store(true, Ordering::Release);
        }
        true
    }
}

/// Numbers of the chunks that some bytes of columns lie in.
#[inline]
fn chunks(range: &Range<usize>) -> Range<usize> {
    (range.start - FIRST) / CHUNK..(range.end - FIRST).div_ceil(CHUNK)
}
