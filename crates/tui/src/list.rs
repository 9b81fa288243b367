//! A place in a list that scrolls.

/// Which row is selected, and which is the first on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) selected: usize,
    pub(crate) top: usize,
}

impl List {
    /// Moves the selection by a number of rows, no further than the ends.
    pub(crate) fn step(&mut self, by: isize, len: usize) {
        self.selected = self.selected.saturating_add_signed(by).min(len.saturating_sub(1));
    }

    /// Keeps the selected row on a screen of a number of rows, and the screen full.
    pub(crate) fn scroll(&mut self, len: usize, height: usize) {
        let height = height.max(1);
        self.selected = self.selected.min(len.saturating_sub(1));
        self.top = self.top.min(self.selected).max((self.selected + 1).saturating_sub(height));
        self.top = self.top.min(len.saturating_sub(height));
    }

    /// The row at a place on the screen, if there is one.
    pub(crate) fn at(&self, row: u16, len: usize) -> Option<usize> {
        Some(self.top + usize::from(row)).filter(|&row| row < len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_row_stays_on_the_screen() {
        let mut list = List::default();
        list.step(7, 10);
        list.scroll(10, 3);
        assert_eq!((list.selected, list.top), (7, 5), "rows 5, 6 and 7 are shown");
        list.step(-100, 10);
        list.scroll(10, 3);
        assert_eq!((list.selected, list.top), (0, 0));
        list.step(100, 10);
        list.scroll(10, 20);
        assert_eq!((list.selected, list.top), (9, 0), "a taller screen shows everything");
        list.scroll(0, 20);
        assert_eq!((list.selected, list.top), (0, 0), "an empty list");
    }
}
