//! Phases: all spans of one name together, with what they did to memory.
//!
//! The *peak* of a phase is the highest requested memory in any of its spans, no matter what allocated it. Its
//! *growth* is what was there at the end of a span more than at its beginning. Its *allocations* are those that
//! began in it. Numbered names such as `ProfilerStep#7` count as one phase.

use std::sync::Arc;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use vramscope_replay::{Counter, Extremes, Moment, Peak, Replay};
use vramscope_snapshot::{Snapshot, StrId};

use crate::device::Device;
use crate::questions::spans::{Span, phase_name};
use crate::shelf::Small;

/// All spans of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The name of the first of them.
    pub name: StrId,
    /// How many spans there are.
    pub count: u32,
    /// Lane and depth of the first.
    pub lane: u32,
    /// See [`Span::depth`].
    pub depth: u32,
    /// The highest that requested bytes were in any of them.
    pub peak: Peak,
    /// Bytes left behind by all of them together.
    pub growth: i64,
    /// Bytes left behind by the last.
    pub last_growth: i64,
    /// Allocations that began in them.
    pub allocations: u64,
    /// From the beginning of the first to the end of the last.
    pub stretch: (Moment, Moment),
    /// Time spent in them, in microseconds, as far as they ended.
    pub time_us: u64,
}

/// What a span does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanSums {
    /// The highest that requested bytes were in it.
    peak: Peak,
    /// Bytes left behind.
    growth: i64,
    /// Allocations that began in it.
    allocations: u64,
}

impl SpanSums {
    /// Those of each of some spans of a device.
    pub fn each(replay: &Replay, spans: &[Span]) -> Vec<Self> {
        let begun = replay.begun();
        let stretches = spans.iter().map(|span| (span.from, span.to));
        let sums = |(span, found): (&Span, Extremes)| Self {
            peak: Peak { bytes: found.max.requested, at: found.highest },
            growth: found.ends[1].requested.saturating_sub(found.ends[0].requested),
            allocations: begun.until(span.to).saturating_sub(begun.until(span.from)),
        };
        spans.iter().zip(replay.extremes_of(Counter::Requested, stretches)).map(sums).collect()
    }
}

/// The phases of a device in order of their first span.
pub fn phases(device: &Device) -> Vec<Phase> {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let spans = device.spans();
    let sums = SpanSums::each(replay, spans);
    phases_of(snapshot, spans.iter().zip(&sums))
}

/// The same of spans that are known with what they do.
pub fn phases_of<'a>(
    snapshot: &Snapshot,
    spans: impl Iterator<Item = (&'a Span, &'a SpanSums)>,
) -> Vec<Phase> {
    let mut rows: HashMap<&str, usize> = HashMap::new();
    let mut phases: Vec<Phase> = Vec::new();
    for (span, &SpanSums { peak, growth, allocations }) in spans {
        let time_us =
            span.end_us.map_or(0, |end| u64::try_from(end.saturating_sub(span.start_us)).unwrap_or(0));
        let row = *rows.entry(phase_name(snapshot.text(span.name))).or_insert_with(|| {
            phases.push(Phase {
                name: span.name,
                count: 0,
                lane: span.lane,
                depth: span.depth,
                peak,
                growth: 0,
                last_growth: 0,
                allocations: 0,
                stretch: (span.from, span.to),
                time_us: 0,
            });
            phases.len() - 1
        });
        let phase = &mut phases[row];
        phase.count += 1;
        if peak.bytes > phase.peak.bytes {
            phase.peak = peak;
        }
        phase.growth = phase.growth.saturating_add(growth);
        phase.last_growth = growth;
        phase.allocations += allocations;
        phase.stretch.1 = phase.stretch.1.max(span.to);
        phase.time_us = phase.time_us.saturating_add(time_us);
    }
    phases
}

impl Small for Vec<SpanSums> {
    const NAME: &'static str = "span_sums";
}

impl Device {
    /// Changes of memory in each of [`Device::spans`].
    pub fn span_sums(&self) -> Arc<Vec<SpanSums>> {
        self.once(|| SpanSums::each(self, self.spans()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_repetitions_are_no_part_of_a_name() {
        assert_eq!(phase_name("ProfilerStep#12"), "ProfilerStep");
        assert_eq!(phase_name("## forward ##"), "forward");
        assert_eq!(phase_name("#1"), "#1");
        assert_eq!(phase_name("layer#a"), "layer#a");
    }
}
