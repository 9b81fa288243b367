//! A column: a `Vec`, or a part of a mapped file.
#![allow(unsafe_code, reason = "looking at a value must cost as little as in a Vec")]

use std::fmt;
use std::ops::{Deref, DerefMut, Index, IndexMut, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytemuck::Pod;

use crate::chunks::{CHUNK, Chunks};

/// Values of one type, one after another.
///
/// `buffer[row]`, [`Buffer::get`] and [`Buffer::slice`] touch, and check, only what they are asked for. Everything that a
/// slice can do touches all of it. A buffer that is changed is copied into memory first.
pub struct Buffer<T>(Place<T>);

enum Place<T> {
    Owned(Vec<T>),
    Mapped(Part<T>),
}

/// Part of a file.
struct Part<T> {
    file: Arc<Chunks>,
    /// Where in the file, in bytes.
    start: usize,
    /// The values, wherever the file is.
    first: *const T,
    len: usize,
    /// Whether all of it was checked: then looking at it costs what looking at a `Vec` does.
    is_checked: AtomicBool,
    /// How often a chunk had to be checked.
    checks: AtomicUsize,
}

// SAFETY: the values are only read, and are plain data; the file can be shared.
unsafe impl<T: Pod + Sync> Send for Part<T> {}
// SAFETY: the same.
unsafe impl<T: Pod + Sync> Sync for Part<T> {}

impl<T: Pod> Part<T> {
    fn new(file: Arc<Chunks>, start: usize, len: usize) -> Self {
        let values: &[T] = bytemuck::cast_slice(file.unchecked(start..start + len * size_of::<T>()));
        let (first, len) = (values.as_ptr(), values.len());
        Self { file, start, first, len, is_checked: AtomicBool::new(false), checks: AtomicUsize::new(0) }
    }

    /// All values, checked or not.
    #[inline]
    fn values(&self) -> &[T] {
        // SAFETY: `first` and `len` are those of a slice of `file`, which stays where it is as long as `self` has it; see
        // `map.rs` for why it does not matter if its bytes change.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }

    #[inline]
    fn all(&self) -> &[T] {
        self.check(0..self.len);
        self.values()
    }

    /// Checks some values, which must be there.
    #[inline]
    fn check(&self, rows: Range<usize>) {
        if !self.is_checked.load(Ordering::Acquire) {
            self.check_chunks(rows);
        }
    }

    #[inline(never)]
    fn check_chunks(&self, rows: Range<usize>) {
        let bytes = |rows: Range<usize>| {
            self.start + rows.start * size_of::<T>()..self.start + rows.end * size_of::<T>()
        };
        let is_all = rows == (0..self.len);
        let found_more = self.file.check(bytes(rows));
        // After half of it, checking all of it at once is cheaper. Not before: what is checked is read from the disk.
        let checks = if found_more { self.checks.fetch_add(1, Ordering::Relaxed) } else { 0 };
        if is_all || checks * CHUNK * 2 > self.len * size_of::<T>() {
            self.file.check(bytes(0..self.len));
            self.is_checked.store(true, Ordering::Release);
        }
    }
}

impl<T> Buffer<T> {
    /// Nothing.
    pub const fn new() -> Self {
        Self(Place::Owned(Vec::new()))
    }
}

impl<T: Pod> Buffer<T> {
    /// `len` values of a file from a byte on. They must lie in it, and be aligned.
    pub(crate) fn in_file(file: Arc<Chunks>, start: usize, len: usize) -> Self {
        Self(Place::Mapped(Part::new(file, start, len)))
    }

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Place::Owned(values) => values.len(),
            Place::Mapped(part) => part.len,
        }
    }

    /// Number of values that there is room for.
    #[inline]
    pub fn capacity(&self) -> usize {
        match &self.0 {
            Place::Owned(values) => values.capacity(),
            Place::Mapped(part) => part.len,
        }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One value.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&T> {
        match &self.0 {
            Place::Owned(values) => values.get(row),
            Place::Mapped(part) if row < part.len => {
                part.check(row..row + 1);
                part.values().get(row)
            }
            Place::Mapped(_) => None,
        }
    }

    /// The last value.
    pub fn last(&self) -> Option<&T> {
        self.len().checked_sub(1).and_then(|row| self.get(row))
    }

    /// Some values; `None` if they are not all there.
    #[inline]
    pub fn slice(&self, rows: Range<usize>) -> Option<&[T]> {
        match &self.0 {
            Place::Owned(values) => values.get(rows),
            Place::Mapped(part) if rows.start <= rows.end && rows.end <= part.len => {
                part.check(rows.clone());
                part.values().get(rows)
            }
            Place::Mapped(_) => None,
        }
    }

    /// All values, if they are in memory: what is mapped and not yet checked would be read for it.
    #[inline]
    pub fn in_memory(&self) -> Option<&[T]> {
        match &self.0 {
            Place::Owned(values) => Some(values),
            Place::Mapped(part) => part.is_checked.load(Ordering::Acquire).then(|| part.values()),
        }
    }

    /// How many values at the beginning `is_first` holds for, as of a slice, touching few of them.
    pub fn partition_point(&self, mut is_first: impl FnMut(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle).is_some_and(&mut is_first) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// All values, to be changed.
    #[inline]
    pub fn to_mut(&mut self) -> &mut Vec<T> {
        if matches!(self.0, Place::Mapped(_)) {
            self.copy();
        }
        match &mut self.0 {
            Place::Owned(values) => values,
            Place::Mapped(_) => unreachable!("it was copied"),
        }
    }

    /// Apart, so that what is not mapped is changed as quickly as a `Vec`.
    #[cold]
    #[inline(never)]
    fn copy(&mut self) {
        if let Place::Mapped(part) = &self.0 {
            self.0 = Place::Owned(part.all().to_vec());
        }
    }

    /// Adds a value at the end.
    #[inline]
    pub fn push(&mut self, value: T) {
        self.to_mut().push(value);
    }

    /// Takes off the values from `at` on.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        self.to_mut().split_off(at).into()
    }
}

impl<T: Pod> Deref for Buffer<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Place::Owned(values) => values,
            Place::Mapped(part) => part.all(),
        }
    }
}

impl<T: Pod> DerefMut for Buffer<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        self.to_mut()
    }
}

impl<T: Pod> Index<usize> for Buffer<T> {
    type Output = T;

    #[inline]
    #[allow(clippy::indexing_slicing, reason = "panics as a slice does")]
    fn index(&self, row: usize) -> &T {
        match &self.0 {
            Place::Owned(values) => &values[row],
            Place::Mapped(part) => {
                part.check(row..row.saturating_add(1).min(part.len));
                &part.values()[row]
            }
        }
    }
}

impl<T: Pod> IndexMut<usize> for Buffer<T> {
    #[inline]
    fn index_mut(&mut self, row: usize) -> &mut T {
        &mut self.to_mut()[row]
    }
}

impl<T> Default for Buffer<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<Vec<T>> for Buffer<T> {
    fn from(values: Vec<T>) -> Self {
        Self(Place::Owned(values))
    }
}

impl<T: Pod> FromIterator<T> for Buffer<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Vec::from_iter(values).into()
    }
}

impl<'a, T: Pod> IntoIterator for &'a Buffer<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: Pod> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Place::Owned(values) => Place::Owned(values.clone()),
            Place::Mapped(part) => Place::Mapped(Part::new(Arc::clone(&part.file), part.start, part.len)),
        })
    }
}

impl<T: Pod + PartialEq> PartialEq for Buffer<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Pod + Eq> Eq for Buffer<T> {}

impl<T: Pod + fmt::Debug> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
