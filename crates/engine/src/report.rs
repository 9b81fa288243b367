//! Tables that answer one question each: phases, steps, modules, pools, fragmentation.
//!
//! They differ in their columns only, so that one view shows all of them: a row says which group or which stretch of
//! the recording it is about, and a click goes there.

use serde::{Deserialize, Serialize};
use vramscope_analysis::pools::Pools;
use vramscope_analysis::{
    Known, ModulesBy, Moment, fragmentation, is_internal_phase, module_tree, phase_name, phases,
};
use vramscope_format::{bytes, change, count, duration, plural, pool_and_stream, share, size};

use crate::device::{DeviceIndex, File};
use crate::protocol::AskReport;
use crate::sets::Group;

/// Which table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReportOf {
    /// What each module of the model holds at a moment.
    #[default]
    Modules,
    /// What each annotation did to memory.
    Phases,
    /// What each step needs and leaves behind.
    Steps,
    /// What each pool holds and uses at a moment.
    Pools,
    /// How fragmented free memory is over time.
    Fragmentation,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What it says in all, in a sentence; or why there are no rows.
    pub heading: String,
    /// What rows are.
    pub name: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<ReportRow>,
    /// What columns mean.
    pub note: String,
}

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportRow {
    /// What it is about.
    pub name: String,
    /// How far it is indented.
    pub depth: u32,
    /// The columns: a number to sort by, and words.
    pub cells: Vec<(i64, String)>,
    /// Its part of the largest, from 0 to 1.
    pub share: f32,
    /// From when to when.
    pub when: Option<(Moment, Moment)>,
    /// The same in microseconds since the first event.
    pub time: (i64, i64),
    /// The moment to look at.
    pub at: Option<Moment>,
    /// The allocations that it is about.
    pub group: Option<Group>,
}

/// Moments at which fragmentation is looked at.
const SAMPLES: u32 = 40;
/// Rows that are worth sending.
const MOST: usize = 5000;

pub(crate) fn report(file: &File, device: &DeviceIndex, ask: &AskReport) -> Report {
    let at = ask.at.min(device.replay.end());
    let mut report = match ask.what {
        ReportOf::Modules => modules(device, at),
        ReportOf::Phases => annotated(file, device),
        ReportOf::Steps => steps(device),
        ReportOf::Pools => pools(file, device, at),
        ReportOf::Fragmentation => fragmented(file, device),
    };
    report.rows.truncate(MOST);
    let clock = device.clock(&file.snapshot);
    let time = |at: Moment| clock.map_or(0, |clock| clock.of(at.min(device.replay.end())));
    for row in &mut report.rows {
        row.time = row.when.map_or((0, 0), |(from, to)| (time(from), time(to)));
    }
    report
}

fn cell(value: i64, words: String) -> (i64, String) {
    (value, words)
}

fn sized(value: u64) -> (i64, String) {
    cell(vramscope_format::signed(value), size(value))
}

fn counted(value: u64) -> (i64, String) {
    cell(vramscope_format::signed(value), count(value))
}

fn part(value: i64, most: i64) -> f32 {
    (value as f64 / most.max(1) as f64).clamp(0.0, 1.0) as f32
}

fn names<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

fn modules(device: &DeviceIndex, at: Moment) -> Report {
    let replay = &device.replay;
    let conclusions = device.conclusions();
    let state = replay.state(at);
    let (nodes, outside) = module_tree(replay, conclusions, &state, (ModulesBy::Module, None), |_, _| true);
    if nodes.is_empty() {
        let heading = "No modules: the file names none in user_metadata, and no line of the model calls layers in a loop.";
        return Report { heading: heading.to_owned(), ..Report::default() };
    }
    let most = nodes.iter().map(|node| node.all.requested).max().unwrap_or(0);
    let rows = nodes.iter().map(|node| ReportRow {
        name: node.name.clone(),
        depth: node.depth,
        cells: vec![
            sized(node.all.requested),
            sized(node.all.activations),
            sized(node.all.backward),
            cell(node.peak, bytes(node.peak)),
            counted(node.all.count),
        ],
        share: part(vramscope_format::signed(node.all.requested), vramscope_format::signed(most)),
        at: Some(node.peak_at),
        group: Some(Group::Module(node.path.clone())),
        ..ReportRow::default()
    });
    Report {
        heading: format!(
            "{} {}, {} outside of modules; {}",
            plural(nodes.len(), "module"),
            at.words(),
            size(outside.requested),
            conclusions.modules().known_by().name(),
        ),
        name: "module".into(),
        columns: names(["requested", "activations", "backward", "peak", "allocations"]),
        rows: rows.collect(),
        note:
            "activations: kept for the backward pass; backward: made by it for the module, beside requested"
                .into(),
    }
}

fn annotated(file: &File, device: &DeviceIndex) -> Report {
    let (snapshot, replay) = (&file.snapshot, &device.replay);
    let all = phases(replay);
    let found: Vec<_> = all.iter().filter(|phase| !is_internal_phase(snapshot.text(phase.name))).collect();
    if found.is_empty() {
        let heading =
            "No annotations of your own: with torch.profiler.record_function(\"forward\"): … makes one.";
        return Report { heading: heading.to_owned(), ..Report::default() };
    }
    let most = found.iter().map(|phase| phase.peak.bytes).max().unwrap_or(0);
    let rows = found.iter().map(|phase| ReportRow {
        name: phase_name(snapshot.text(phase.name)).to_owned(),
        depth: phase.depth.min(8),
        cells: vec![
            cell(phase.peak.bytes, bytes(phase.peak.bytes)),
            cell(phase.growth, change(phase.growth)),
            cell(phase.last_growth, change(phase.last_growth)),
            counted(phase.allocations),
            cell(vramscope_format::signed(phase.time_us), duration(vramscope_format::signed(phase.time_us))),
            counted(phase.count.into()),
        ],
        share: part(phase.peak.bytes, most),
        when: Some(phase.stretch),
        at: Some(phase.peak.at),
        ..ReportRow::default()
    });
    Report {
        heading: plural(found.len(), "phase"),
        name: "phase".into(),
        columns: names(["peak", "growth", "last growth", "allocations", "time", "times"]),
        rows: rows.collect(),
        note: "growth: net growth over all runs of the phase".into(),
    }
}

fn steps(device: &DeviceIndex) -> Report {
    let replay = &device.replay;
    let found = replay.stepwise();
    if found.rows.is_empty() {
        let heading = "No steps were found. Mark them: with torch.profiler.record_function(\"step\"): … around each iteration.";
        return Report { heading: heading.to_owned(), ..Report::default() };
    }
    let most = found.rows.iter().map(|row| row.peak.bytes).max().unwrap_or(0);
    let rows = found.rows.iter().map(|row| ReportRow {
        name: format!(
            "step {}{}",
            count(row.step.number),
            if row.step.is_complete { "" } else { ", not finished" }
        ),
        cells: vec![
            cell(row.peak.bytes, bytes(row.peak.bytes)),
            cell(row.end, bytes(row.end)),
            cell(row.growth, change(row.growth)),
            sized(row.kept),
            counted(row.allocations),
        ],
        share: part(row.peak.bytes, most),
        when: Some((row.step.from, row.step.to)),
        at: Some(row.peak.at),
        ..ReportRow::default()
    });
    let trend = found.trend.as_ref().map_or_else(String::new, |trend| {
        format!("; {}: the next step needs about {}", trend.words(&|n| size(n)), size(trend.next))
    });
    Report {
        heading: format!(
            "{}, found by {} ({}){trend}",
            plural(found.rows.len(), "step"),
            found.steps.by.words(),
            found.steps.known_by.name()
        ),
        name: "step".into(),
        columns: names(["peak", "end", "growth", "kept", "allocations"]),
        rows: rows.collect(),
        note: "growth: more live at its end than at its beginning; kept: allocated in it and live at its end"
            .into(),
    }
}

fn pools(file: &File, device: &DeviceIndex, at: Moment) -> Report {
    let replay = &device.replay;
    let pools = Pools::all(replay);
    let summaries = pools.summaries(replay, at);
    let most = summaries.iter().map(|summary| summary.now.reserved).max().unwrap_or(0);
    let rows: Vec<ReportRow> = pools
        .envelopes()
        .iter()
        .zip(&summaries)
        .map(|(envelope, summary)| ReportRow {
            name: pool_and_stream(envelope.pool, envelope.stream),
            cells: vec![
                cell(summary.now.reserved, bytes(summary.now.reserved)),
                cell(summary.now.active, bytes(summary.now.active)),
                cell(summary.now.idle(), bytes(summary.now.idle())),
                counted(summary.segments as u64),
                cell(summary.peak.reserved, bytes(summary.peak.reserved)),
                cell(summary.peak.idle(), bytes(summary.peak.idle())),
                cell(0, Known::name(envelope.known).to_owned()),
            ],
            share: part(summary.now.reserved, most),
            when: summary.first.zip(summary.last),
            at: Some(summary.peak_at),
            group: envelope.pool.and_then(|pool| file.pool_group(pool)),
            ..ReportRow::default()
        })
        .collect();
    let reserved = summaries.iter().fold(0_i64, |sum, summary| sum.saturating_add(summary.now.reserved));
    Report {
        heading: format!("{}, {} reserved {}", plural(rows.len(), "pool"), bytes(reserved), at.words()),
        name: "pool and stream".into(),
        columns: names(["reserved", "active", "idle", "segments", "peak", "idle at peak", "known by"]),
        rows,
        note: "What a private pool holds serves nothing else, used or not.".into(),
    }
}

fn fragmented(file: &File, device: &DeviceIndex) -> Report {
    let replay = &device.replay;
    if !file.snapshot.has.addresses {
        return Report { heading: "Addresses: not in this file.".into(), ..Report::default() };
    }
    let found = fragmentation(replay, (Moment::START, replay.end()), SAMPLES, None, |_| true);
    let rows = found.samples.iter().map(|sample| ReportRow {
        name: sample.at.words(),
        cells: vec![
            cell(sample.reserved, bytes(sample.reserved)),
            sized(sample.free),
            sized(sample.largest_hole),
            sized(sample.unusable),
            cell(
                vramscope_format::signed(sample.unusable),
                share(sample.unusable, u64::try_from(sample.reserved).unwrap_or(0)),
            ),
            counted(sample.idle_segments.into()),
        ],
        share: part(vramscope_format::signed(sample.unusable), sample.reserved),
        when: Some((sample.at, sample.at)),
        at: Some(sample.at),
        ..ReportRow::default()
    });
    Report {
        heading: format!("How fragmented free memory is, for a request of {}", size(found.request)),
        name: "moment".into(),
        columns: names(["reserved", "free", "largest hole", "unusable", "share", "idle segments"]),
        rows: rows.collect(),
        note: "unusable: free in partly used segments, in holes too small for the request; idle: segments at most half used"
            .into(),
    }
}
