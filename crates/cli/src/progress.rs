//! How far reading has got, for somebody who waits at a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use vramscope_files::{Input, Progress};

/// A bar on standard error that appears only when reading takes long enough to wonder about.
pub(crate) struct Bar(ProgressBar);

/// Nobody wonders before this.
const PATIENCE: Duration = Duration::from_millis(500);

impl Bar {
    pub(crate) fn new(inputs: &[Input]) -> Self {
        let total = inputs.iter().map(Input::bytes).sum();
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
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
