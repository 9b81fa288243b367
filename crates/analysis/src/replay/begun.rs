//! How many allocations have begun, at any moment.

use vramscope_mapped::Buffer;

use super::Replay;
use super::allocations::Moment;
use super::timeline::STRIDE;

/// How many allocations began in the trace before each [`STRIDE`] events.
#[derive(Clone, Debug, Default)]
pub(crate) struct BegunBefore(pub(crate) Buffer<u32>);

impl BegunBefore {
    pub(crate) fn new(replay: &Replay) -> Self {
        let mut counts = vec![0_u32; replay.events() / STRIDE + 2];
        for opened in &replay.allocations().opened {
            // What begins at an event counts from the next kept moment on.
            let next = (opened.0 as usize).div_ceil(STRIDE);
            if let Some(count) = counts.get_mut(next).filter(|_| *opened > Moment::START) {
                *count += 1;
            }
        }
        let mut sum = 0;
        let before = counts.into_iter().map(|count| {
            sum += count;
            sum
        });
        Self(before.collect())
    }
}

/// Counts for any moment.
pub(crate) struct Begun<'a> {
    replay: &'a Replay,
    before: std::borrow::Cow<'a, [u32]>,
}

impl Replay {
    /// How many allocations begin up to any moment, those of the start left out. Of a file in the cache that costs nothing.
    pub(crate) fn begun(&self) -> Begun<'_> {
        let kept = &self.begun_before.0;
        let before = match kept.is_empty() {
            false => std::borrow::Cow::Borrowed(&**kept),
            true => std::borrow::Cow::Owned(BegunBefore::new(self).0.to_vec()),
        };
        Begun { replay: self, before }
    }
}

impl Begun<'_> {
    /// Those that begin at a moment or before it.
    pub(crate) fn until(&self, at: Moment) -> u64 {
        let kept = at.0 as usize / STRIDE;
        let before = self.before.get(kept).copied().unwrap_or_default();
        let source = self.replay.source();
        let since = source.opened_between(Moment((kept * STRIDE) as u32), at).count();
        u64::from(before) + since as u64
    }
}
