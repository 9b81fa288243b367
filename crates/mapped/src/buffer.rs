//! A column: a `Vec`, or a part of a mapped file.
#![allow(unsafe_code, reason = "looking at a value must cost as little as in a Vec")]

use std::fmt;
use std::ops::{Deref, DerefMut, Index, IndexMut, Range};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use bytemuck::Pod;

use crate::chunks::{Chunks, Section};

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
    section: Section,
    /// The values, wherever the file is.
    first: *const T,
    len: usize,
    /// Values that take the place of the file's, once some of them turned out to be damaged.
    mended: OnceLock<Vec<T>>,
}

// SAFETY: `first` points into the file of `section`, which is only read and can be shared; the values are plain data.
unsafe impl<T: Pod + Send + Sync> Send for Part<T> {}
// SAFETY: the same.
unsafe impl<T: Pod + Send + Sync> Sync for Part<T> {}

impl<T: Pod> Part<T> {
    fn new(file: Arc<Chunks>, name: Arc<str>, place: Range<usize>) -> Self {
        let values: &[T] = bytemuck::try_cast_slice(file.unchecked(place.clone())).unwrap_or_default();
        let (first, len) = (values.as_ptr(), values.len());
        Self { section: Section::new(file, name, place), first, len, mended: OnceLock::new() }
    }

    /// All values of the file, checked or not.
    #[inline]
    fn values(&self) -> &[T] {
        // SAFETY: `first` and `len` are those of a slice of the file, which stays where it is, and as it is, as long as
        // `section` has it.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }

    #[inline]
    fn is_checked(&self) -> bool {
        self.section.is_checked.load(Ordering::Acquire)
    }

    /// All values, of which those between two rows, which must be there, were checked.
    #[inline]
    fn checked(&self, from: usize, to: usize) -> &[T] {
        if self.is_checked() || self.section.check(from * size_of::<T>()..to * size_of::<T>()) {
            self.values()
        } else {
            self.mend()
        }
    }

    #[inline]
    fn all(&self) -> &[T] {
        self.checked(0, self.len)
    }

    #[cold]
    fn mend(&self) -> &[T] {
        let values = || {
            let bytes = self.section.file.replacement(&self.section.name);
            bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
        };
        self.mended.get_or_init(values)
    }
}

impl<T: Pod> Clone for Part<T> {
    fn clone(&self) -> Self {
        let Section { file, name, place, .. } = &self.section;
        Self::new(Arc::clone(file), Arc::clone(name), place.clone())
    }
}

impl<T> Buffer<T> {
    /// Nothing.
    pub const fn new() -> Self {
        Self(Place::Owned(Vec::new()))
    }
}

impl<T: Pod> Buffer<T> {
    /// Values of a file between two bytes. They must lie in it, and be aligned.
    pub(crate) fn in_file(file: Arc<Chunks>, name: Arc<str>, place: Range<usize>) -> Self {
        Self(Place::Mapped(Part::new(file, name, place)))
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
            Place::Mapped(part) if row < part.len => part.checked(row, row + 1).get(row),
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
                part.checked(rows.start, rows.end).get(rows)
            }
            Place::Mapped(_) => None,
        }
    }

    /// All values, if they are in memory: what is mapped and not yet checked would be read for it.
    #[inline]
    pub fn in_memory(&self) -> Option<&[T]> {
        match &self.0 {
            Place::Owned(values) => Some(values),
            Place::Mapped(part) => part.is_checked().then(|| part.values()),
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
            Place::Mapped(part) if row < part.len => &part.checked(row, row + 1)[row],
            Place::Mapped(part) => &part.values()[row],
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
            Place::Mapped(part) => Place::Mapped(part.clone()),
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
