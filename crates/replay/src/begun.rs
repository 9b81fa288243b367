//! Number of allocations that have begun, at any moment.

use std::borrow::Cow;

use vramscope_mapped::Buffer;

use crate::allocations::{Allocations, Moment};
use crate::source::{STRIDE, Source};

/// Number of allocations that began in the trace before each [`STRIDE`] events.
#[derive(Clone, Debug, Default)]
pub(crate) struct BegunBefore(pub(crate) Buffer<u32>);

impl BegunBefore {
    pub(crate) fn new(allocations: &Allocations, events: usize) -> Self {
        let mut counts = vec![0_u32; events / STRIDE + 2];
        for opened in &allocations.opened {
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

/// Number of allocations that begin up to any moment, those of the start left out.
pub struct Begun<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) before: Cow<'a, [u32]>,
}

impl Begun<'_> {
    /// Those that begin at a moment or before it.
    pub fn until(&self, at: Moment) -> u64 {
        let kept = at.0 as usize / STRIDE;
        let before = self.before.get(kept).copied().unwrap_or_default();
        let since = self.source.opened_between(Moment((kept * STRIDE) as u32), at).count();
        u64::from(before) + since as u64
    }
}
