//! Which number a limit of `--fail-on` is about: `peak`, `end:reserved`.

use vramscope_analysis::Counter;

/// A counter at the peak or at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measure {
    pub(crate) at_peak: bool,
    pub(crate) counter: Counter,
}

impl Measure {
    /// As it is typed; without a counter, requested bytes are meant.
    pub(crate) fn parse(typed: &str) -> Option<Self> {
        let (when, counter) = match typed.split_once(':') {
            Some((when, name)) => (when, Counter::ALL.into_iter().find(|counter| counter.name() == name)?),
            None => (typed, Counter::Requested),
        };
        let at_peak = match when {
            "peak" => true,
            "end" => false,
            _ => return None,
        };
        Some(Self { at_peak, counter })
    }

    /// In words: `peak requested`.
    pub(crate) fn words(self) -> String {
        format!("{} {}", if self.at_peak { "peak" } else { "end" }, self.counter.name())
    }

    /// The number, of those at the peak and at the end.
    pub(crate) fn of<T: Copy>(self, peak: &[T; 4], end: &[T; 4]) -> T {
        if self.at_peak { peak[self.counter as usize] } else { end[self.counter as usize] }
    }
}
