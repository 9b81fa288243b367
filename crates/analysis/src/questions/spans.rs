//! Annotations as spans: phases of the program with a beginning and an end.
//!
//! Marks carry no thread, so the marks of several threads interleave. An end belongs to the last open
//! beginning of the same name. A span that was never closed lasts to the end of the trace; an end
//! without a beginning is left out, since the ring of marks may have lost it.
//!
//! On one thread spans nest. Spans that cross each other must be of different threads, so they lie in different
//! *lanes*, and within a lane all spans nest.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use vramscope_replay::{Moment, Times};
use vramscope_snapshot::{DeviceId, Snapshot, Stage, StrId};

use crate::shelf::Small;

/// One phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Its name.
    pub name: StrId,
    /// Which of the spans of this name, from 0 in order of beginning.
    pub nth: u32,
    /// Which lane it lies in.
    pub lane: u32,
    /// How many spans of its lane it lies in.
    pub depth: u32,
    /// When it began, in microseconds since 1970.
    pub start_us: i64,
    /// When it ended; `None` if it did not.
    pub end_us: Option<i64>,
    /// The moment before its first event.
    pub from: Moment,
    /// The moment after its last event.
    pub to: Moment,
}

/// The spans that are open at a moment, outermost first, of spans in order of beginning.
pub fn open_spans(spans: &[Span], at: Moment) -> Vec<Span> {
    let begun = spans.partition_point(|span| span.from <= at);
    let is_open = |span: &&Span| at <= span.to && span.from < span.to;
    let mut open: Vec<Span> = spans[..begun].iter().filter(is_open).copied().collect();
    open.sort_by_key(|span| span.depth);
    open
}

/// The spans of a device, in order of beginning.
pub(crate) fn spans(snapshot: &Snapshot, device: DeviceId) -> Vec<Span> {
    let events = snapshot.events(device);
    let times = Times::new(events);
    let mut spans: Vec<Span> = Vec::new();
    let mut open: HashMap<StrId, Vec<usize>> = HashMap::new();
    let mut counts: HashMap<StrId, u32> = HashMap::new();
    // Where each span ends among the marks.
    let mut ends: Vec<usize> = Vec::new();
    let mut starts: Vec<usize> = Vec::new();
    for (number, mark) in snapshot.annotations.iter().filter(|mark| mark.device == device).enumerate() {
        match mark.stage {
            Stage::Start => {
                let nth = counts.entry(mark.name).or_default();
                open.entry(mark.name).or_default().push(spans.len());
                starts.push(number);
                ends.push(usize::MAX);
                spans.push(Span {
                    name: mark.name,
                    nth: *nth,
                    lane: 0,
                    depth: 0,
                    start_us: mark.time_us,
                    end_us: None,
                    from: times.before(events, mark.time_us),
                    to: Moment(events.len() as u32),
                });
                *nth += 1;
            }
            Stage::End => {
                let Some(index) = open.get_mut(&mark.name).and_then(Vec::pop) else { continue };
                let span = &mut spans[index];
                span.end_us = Some(mark.time_us);
                span.to = times.at(events, mark.time_us).max(span.from);
                ends[index] = number;
            }
        }
    }
    for (span, (lane, depth)) in spans.iter_mut().zip(lanes(&starts, &ends)) {
        (span.lane, span.depth) = (lane, depth);
    }
    spans
}

/// Whether a phase is one that PyTorch marks by itself.
pub fn is_internal_phase(name: &str) -> bool {
    ["Optimizer.", "Torch-Compiled Region", "## Call CompiledFxGraph", "autograd::", "aten::"]
        .iter()
        .any(|start| name.starts_with(start))
        || name.ends_with("(dynamo_timed)")
}

/// More lanes would be the work of a damaged file; what is left then shares the last one.
const MOST_LANES: usize = 64;

/// The lane and the depth of each span, which are in order of beginning.
fn lanes(starts: &[usize], ends: &[usize]) -> Vec<(u32, u32)> {
    // The ends of the spans that are open in each lane, outermost first.
    let mut lanes: Vec<Vec<usize>> = Vec::new();
    let mut place = |start: usize, end: usize| {
        for (number, open) in lanes.iter_mut().enumerate() {
            while open.pop_if(|open_end| *open_end < start).is_some() {}
            if open.last().is_none_or(|&outer| outer >= end) || number + 1 == MOST_LANES {
                open.push(end);
                return (number as u32, open.len() as u32 - 1);
            }
        }
        lanes.push(vec![end]);
        (lanes.len() as u32 - 1, 0)
    };
    starts.iter().zip(ends).map(|(&start, &end)| place(start, end)).collect()
}

impl Small for Vec<Span> {
    const NAME: &'static str = "spans";
}

/// The name without marks around it and without the number of the repetition: `## step ##` and `step#12` are `step`.
pub fn phase_name(name: &str) -> &str {
    let name = vramscope_format::phase(name);
    match name.rsplit_once('#') {
        Some((start, number)) if !start.is_empty() && !number.is_empty() => {
            if number.bytes().all(|byte| byte.is_ascii_digit()) { start } else { name }
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vramscope_snapshot::Reader;

    #[test]
    fn what_crosses_lies_in_another_lane() {
        // One thread: step [0, 7] with forward [1, 2] and backward [5, 6] in it; another: load [3, 8].
        let (starts, ends) = ([0, 1, 3, 5], [7, 2, 8, 6]);
        assert_eq!(lanes(&starts, &ends), [(0, 0), (0, 1), (1, 0), (0, 1)]);
    }

    #[test]
    fn names_pair_and_nest() {
        // Two steps; the second is never closed. Events at 1, 5 and 9.
        let mark = |stage, name, time| {
            format!(r#"{{"stage": "{stage}", "name": "{name}", "device": 0, "time_us": {time}}}"#)
        };
        let marks = [
            mark("END", "lost", 0),
            mark("START", "step", 1),
            mark("START", "forward", 2),
            mark("END", "forward", 5),
            mark("END", "step", 6),
            mark("START", "step", 7),
        ]
        .join(",");
        let event = |time| format!(r#"{{"action": "alloc", "addr": {time}, "size": 1, "time_us": {time}}}"#);
        let events = [1, 5, 9].map(event).join(",");
        let json = format!(
            r#"{{"segments": [], "device_traces": [[{events}]], "external_annotations": [{marks}]}}"#
        );
        let mut reader = Reader::new();
        reader.feed(json.as_bytes()).unwrap();
        let snapshot = reader.finish().unwrap();
        let found: Vec<_> = spans(&snapshot, DeviceId(0))
            .iter()
            .map(|span| (snapshot.text(span.name).to_owned(), span.nth, span.depth, span.from.0, span.to.0))
            .collect();
        let expected = [("step", 0, 0, 0, 2), ("forward", 0, 1, 1, 2), ("step", 1, 0, 2, 3)];
        assert_eq!(
            found,
            expected.map(|(name, nth, depth, from, to)| (name.to_owned(), nth, depth, from, to))
        );
    }
}
