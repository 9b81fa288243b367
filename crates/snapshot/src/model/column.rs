//! A column that costs nothing while every row holds the default.
//!
//! Most snapshots use one stream, one pool and no metadata. Such a column stores rows only up to the
//! last one that differs from the default; a row past the stored ones reads as the default.

use vramscope_mapped::{Buffer, Pod};

/// A column whose trailing default values are not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column<T: Pod>(Buffer<T>);

impl<T: Pod> Default for Column<T> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<T: Pod> Column<T> {
    /// A column in which every row holds the default.
    pub(crate) const EMPTY: Self = Self(Buffer::new());
}

impl<T: Pod + Default + PartialEq> Column<T> {
    /// The value of a row.
    #[inline]
    pub fn get(&self, row: usize) -> T {
        self.0.get(row).copied().unwrap_or_default()
    }

    /// Sets the value of a row that may lie past the end.
    #[inline]
    pub fn set(&mut self, row: usize, value: T) {
        if row < self.0.len() {
            self.0[row] = value;
        } else if value != T::default() {
            self.0.to_mut().resize(row, T::default());
            self.0.push(value);
        }
    }

    /// Whether every row holds the default.
    pub fn is_default(&self) -> bool {
        self.0.is_empty()
    }

    /// The stored rows: a prefix of the column.
    pub fn stored(&self) -> &[T] {
        &self.0
    }

    /// The same, if they are in memory.
    pub fn in_memory(&self) -> Option<&[T]> {
        self.0.in_memory()
    }

    /// A column of the given leading rows.
    pub fn from_stored(mut rows: Vec<T>) -> Self {
        while rows.last().is_some_and(|last| *last == T::default()) {
            rows.pop();
        }
        Self(rows.into())
    }

    /// The same for rows of which the last one is not the default, as [`Column::stored`] has them.
    pub fn from_buffer(rows: Buffer<T>) -> Self {
        Self(rows)
    }

    /// Takes off the rows from `at` on.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        let tail = if at < self.0.len() { self.0.to_mut().split_off(at) } else { Vec::new() };
        let head = std::mem::take(self.0.to_mut());
        *self = Self::from_stored(head);
        Self::from_stored(tail)
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.0.to_mut().shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_only_up_to_the_last_unusual_row() {
        let mut column = Column::default();
        for (row, value) in [0, 0, 7, 0, 0].into_iter().enumerate() {
            column.set(row, value);
        }
        assert_eq!(column.stored(), [0, 0, 7]);
        assert_eq!((0..6).map(|row| column.get(row)).collect::<Vec<_>>(), [0, 0, 7, 0, 0, 0]);
        let tail = column.split_off(2);
        assert!(column.is_default());
        assert_eq!(tail.get(0), 7);
    }
}
