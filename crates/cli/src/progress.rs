//! How far reading has got, for somebody who waits at a terminal.

#[cfg(feature = "sql")]
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use vramscope_files::{Input, Progress};

/// A bar on standard error that appears only when reading takes long enough to wonder about.
pub(crate) struct Bar(ProgressBar);

/// Nobody wonders before this.
const PATIENCE: Duration = Duration::from_millis(500);

impl Bar {
    pub(crate) fn new(inputs: &[Input]) -> Self {
        Self::of(inputs.iter().map(Input::bytes).sum())
    }

    fn of(total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(
            "reading {bar:30} {binary_bytes} of {binary_total_bytes}, {eta} left",
        ) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Self(bar)
    }
}

impl Progress for Bar {
    fn advance(&self, bytes: u64) {
        // Only a terminal is drawn to: indicatif sees to that.
        if self.0.is_hidden() && self.0.elapsed() > PATIENCE {
            self.0.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.0.inc(bytes);
    }

    fn expect(&self, bytes: u64) {
        self.0.inc_length(bytes);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A bar for as long as a query reads: what it will read is known table by table.
#[cfg(feature = "sql")]
#[derive(Default)]
pub(crate) struct QueryBar(Mutex<Option<Bar>>);

#[cfg(feature = "sql")]
impl QueryBar {
    /// Shows the bar while `query` runs, and removes it before anything is printed.
    pub(crate) fn during<T>(&self, query: impl FnOnce() -> T) -> T {
        *self.bar() = Some(Bar::of(0));
        let answer = query();
        *self.bar() = None;
        answer
    }

    fn bar(&self) -> MutexGuard<'_, Option<Bar>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "sql")]
impl Progress for QueryBar {
    fn advance(&self, bytes: u64) {
        if let Some(bar) = self.bar().as_ref() {
            bar.advance(bytes);
        }
    }

    fn expect(&self, bytes: u64) {
        if let Some(bar) = self.bar().as_ref() {
            bar.expect(bytes);
        }
    }
}
