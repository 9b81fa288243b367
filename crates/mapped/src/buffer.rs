//! A column: a `Vec`, or a part of a mapped file.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Index, IndexMut, Range};
use std::sync::Arc;

use bytemuck::Pod;

use crate::chunks::Chunks;

/// Values of one type, one after another.
///
/// `buffer[row]`, [`Buffer::get`] and [`Buffer::slice`] touch, and check, only what they are asked for. Everything that a
/// slice can do touches all of it. A buffer that is changed is copied into memory first.
pub struct Buffer<T>(Place<T>);

enum Place<T> {
    Owned(Vec<T>),
    Mapped(Part<T>),
}

/// Part of a file, by bytes.
struct Part<T> {
    file: Arc<Chunks>,
    start: usize,
    len: usize,
    is: PhantomData<T>,
}

impl<T: Pod> Part<T> {
    #[inline]
    fn slice(&self, rows: Range<usize>) -> &[T] {
        let size = size_of::<T>();
        bytemuck::cast_slice(self.file.get(self.start + rows.start * size..self.start + rows.end * size))
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
        Self(Place::Mapped(Part { file, start, len, is: PhantomData }))
    }

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Place::Owned(values) => values.len(),
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
            Place::Mapped(part) => (row < part.len).then(|| part.slice(row..row + 1).first()).flatten(),
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
            Place::Mapped(part) => (rows.start <= rows.end && rows.end <= part.len).then(|| part.slice(rows)),
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
        if let Place::Mapped(part) = &self.0 {
            self.0 = Place::Owned(part.slice(0..part.len).to_vec());
        }
        match &mut self.0 {
            Place::Owned(values) => values,
            Place::Mapped(_) => unreachable!("it was copied"),
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
            Place::Mapped(part) => part.slice(0..part.len),
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
                assert!(row < part.len, "row {row} of {}", part.len);
                &part.slice(row..row + 1)[0]
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
            Place::Mapped(part) => Place::Mapped(Part { file: Arc::clone(&part.file), ..*part }),
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
