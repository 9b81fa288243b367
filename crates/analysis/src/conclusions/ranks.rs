//! Ranks of one run beside each other: who stands out, why, and what all have in common.
//!
//! Ranks of one run do the same work, so the median rank is the measure. A rank *stands out* if what it holds at
//! its peak or at the end is off the median by more than 5 % and 8 MiB; the lines in which it differs most say why.
//! A leak is *one rank's own* if its memory grows from step to step and that of most others does not. A rank is a
//! *straggler* if it begins the same phases later than the others, in the median by more than a fifth of a step
//! and 10 ms. Clocks of different machines may be off by that much, which the advice says.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vramscope_format::{Units, duration};
use vramscope_replay::{AllocIdx, Allocation, Counter, Moment, Peak};
use vramscope_snapshot::DeviceId;

use crate::conclusions::growth::{Growth, growth};
use crate::conclusions::insight::{Amount, Finding, Kind, Severity, ShowBytes, Site};
use crate::device::Device;
use crate::questions::compare::{Line, Sum, by_line};
use crate::questions::spans::is_internal_phase;
use crate::questions::weights::live_weights;

/// A rank stands out if it is off the median by more than this share and this many bytes.
const SHARE: f64 = 0.05;
const BYTES: i64 = 8 << 20;
/// Fewer ranks have no majority, so none of them stands out.
pub const LEAST_RANKS: usize = 3;
/// Lines that explain an outlier.
const LINES: usize = 3;
/// A straggler is later by more than this share of a step, and this many microseconds.
const LATE_SHARE: f64 = 0.2;
const LATE_US: i64 = 10_000;
/// Most spans of each rank that are compared in time: enough for a median, few enough for thousands of ranks.
const MOST_SPANS: usize = 256;

/// Live bytes by line.
pub type Lines = BTreeMap<Line, Sum>;

/// What is kept of one rank, so that files need not stay in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankDigest {
    /// The number in its name.
    pub rank: Option<u64>,
    /// The device, where the file of the rank has several: `cuda:1`.
    pub device: Option<String>,
    /// Its number.
    pub device_number: i32,
    /// Requested bytes at their highest.
    pub peak: i64,
    /// Requested bytes at the end.
    pub end: i64,
    /// Reserved bytes at their highest.
    pub reserved_peak: i64,
    /// Reserved minus requested at the peak.
    pub gap: i64,
    /// What was live at the peak.
    pub at_peak: Lines,
    /// What was live at the end.
    pub at_end: Lines,
    /// Growth from step to step.
    pub growth: Option<RankGrowth>,
    /// When each span began, in microseconds, by name and number.
    pub starts: BTreeMap<(String, u32), i64>,
    /// The length of the trace in moments.
    pub moments: Moment,
}

/// Growth on one rank, in words that mean the same on all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankGrowth {
    /// Bytes that each step adds.
    pub bytes_per_step: u64,
    /// Bytes that have come together.
    pub bytes: u64,
    /// See [`Growth::grew`].
    pub grew: f64,
    /// The line that most of it comes through.
    pub line: Option<Line>,
}

impl RankDigest {
    /// Digests one rank. `peak` and `end` are the moments to look at, `keep` says which allocations count.
    pub fn new(
        rank: Option<u64>,
        of: &Device,
        (peak, end): (Peak, Moment),
        keep: impl Fn(AllocIdx, &Allocation) -> bool,
    ) -> Self {
        let (snapshot, replay) = (of.snapshot(), of.replay());
        let live = |at: Moment| by_line(snapshot, &live_weights(&replay.state(at), &keep));
        let at_end = live(end);
        let starts = of.spans().iter().take(MOST_SPANS).filter_map(|span| {
            let name = snapshot.text(span.name);
            (!is_internal_phase(name)).then(|| ((name.to_owned(), span.nth), span.start_us))
        });
        let in_words = |growth: Growth| RankGrowth {
            bytes_per_step: growth.bytes_per_step,
            bytes: growth.bytes,
            grew: growth.grew,
            line: growth
                .through
                .or_else(|| growth.lines.first().copied())
                .map(|(frame, _)| Line::new(snapshot, frame)),
        };
        let is_one_of_many =
            snapshot.devices().into_iter().filter(|device| *device != DeviceId::HOST).count() > 1;
        Self {
            rank,
            device_number: replay.device().0,
            device: is_one_of_many.then(|| snapshot.device_name(replay.device())),
            peak: peak.bytes,
            end: signed(at_end.values().fold(0_u64, |sum, line| sum.saturating_add(line.bytes))),
            reserved_peak: replay.peak(Counter::Reserved).bytes,
            gap: {
                let counters = replay.counters(peak.at);
                counters.reserved.saturating_sub(counters.requested).max(0)
            },
            at_peak: live(peak.at),
            at_end,
            growth: growth(of).map(in_words),
            starts: starts.collect(),
            moments: replay.end(),
        }
    }
}

/// A line in which a rank differs from the median of its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineDifference {
    /// Which line.
    pub line: Line,
    /// Its bytes on this rank.
    pub bytes: i64,
    /// On the median rank.
    pub median: i64,
}

/// A rank that is unlike the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlier {
    /// Which of the ranks that were compared.
    pub row: usize,
    /// `peak` or `end`.
    pub when: &'static str,
    /// What it holds.
    pub bytes: i64,
    /// What the median rank holds.
    pub median: i64,
    /// What it holds more or less of.
    pub lines: Vec<LineDifference>,
}

impl Outlier {
    /// How far it is off the others.
    pub fn words(&self, units: Units) -> String {
        format!(
            "{} requested at the {}, {} against the median of {}",
            units.bytes(self.bytes),
            self.when,
            units.change(self.bytes.saturating_sub(self.median)),
            units.bytes(self.median)
        )
    }
}

/// What the comparison of ranks gives.
#[derive(Clone, Debug, Default)]
pub struct RankReport {
    /// Who stands out, the largest difference first.
    pub outliers: Vec<Outlier>,
    /// Lines that hold just as much on every rank at its peak, and their bytes.
    pub common: Sum,
    /// The highest peak less the lowest.
    pub skew: i64,
    /// How much later than the median each rank begins its phases, in microseconds, where that is known.
    pub lag_us: Vec<Option<i64>>,
    /// The median time of a step, in microseconds.
    pub step_us: Option<i64>,
}

/// Compares the ranks of one run.
pub fn compare_ranks<D: Borrow<RankDigest>>(ranks: &[D]) -> RankReport {
    if ranks.is_empty() {
        return RankReport::default();
    }
    let ranks: &[&RankDigest] = &ranks.iter().map(Borrow::borrow).collect::<Vec<_>>();
    let peaks = || ranks.iter().map(|rank| rank.peak);
    let (lag_us, step_us) = lags(ranks);
    RankReport {
        outliers: outliers(ranks),
        common: common(ranks),
        skew: peaks().max().unwrap_or(0).saturating_sub(peaks().min().unwrap_or(0)),
        lag_us,
        step_us,
    }
}

/// Ranks that differ from the median, at the peak or at the end; the largest difference first.
pub fn outliers(ranks: &[&RankDigest]) -> Vec<Outlier> {
    if ranks.len() < LEAST_RANKS {
        return Vec::new();
    }
    type Value = fn(&RankDigest) -> i64;
    type LinesOf = fn(&RankDigest) -> &Lines;
    let kinds: [(&'static str, Value, LinesOf); 2] =
        [("peak", |rank| rank.peak, |rank| &rank.at_peak), ("end", |rank| rank.end, |rank| &rank.at_end)];
    let mut found = Vec::new();
    for (when, value, lines) in kinds {
        let middle = median(ranks.iter().map(|rank| value(rank)).collect());
        let mut medians = None;
        for (row, rank) in ranks.iter().enumerate() {
            if stands_out(value(rank), middle) {
                let medians = medians.get_or_insert_with(|| line_medians(ranks, lines));
                let lines = explanation(lines(rank), medians);
                found.push(Outlier { row, when, bytes: value(rank), median: middle, lines });
            }
        }
    }
    found.sort_by_key(|outlier| (Reverse((outlier.bytes - outlier.median).abs()), outlier.row));
    found
}

/// The median of each line over all ranks; a rank without the line has 0. Lines whose median is 0 are left out.
fn line_medians<'a>(ranks: &[&'a RankDigest], lines: fn(&RankDigest) -> &Lines) -> BTreeMap<&'a Line, i64> {
    let mut values: BTreeMap<&'a Line, Vec<i64>> = BTreeMap::new();
    for rank in ranks {
        for (line, sum) in lines(rank) {
            values.entry(line).or_default().push(signed(sum.bytes));
        }
    }
    let middle = ranks.len().saturating_sub(1) / 2;
    let of_all = |mut values: Vec<i64>| {
        values.sort_unstable();
        let without = ranks.len() - values.len();
        middle.checked_sub(without).and_then(|at| values.get(at).copied()).unwrap_or(0)
    };
    let medians = values.into_iter().map(|(line, values)| (line, of_all(values)));
    medians.filter(|(_, median)| *median != 0).collect()
}

/// The lines in which a rank differs most from the median of its run.
fn explanation(own: &Lines, medians: &BTreeMap<&Line, i64>) -> Vec<LineDifference> {
    let missing = medians.keys().copied().filter(|line| !own.contains_key(*line));
    let mut differing: Vec<_> = own
        .keys()
        .chain(missing)
        .map(|line| LineDifference {
            line: line.clone(),
            bytes: own.get(line).map_or(0, |sum| signed(sum.bytes)),
            median: medians.get(line).copied().unwrap_or(0),
        })
        .filter(|difference| difference.bytes != difference.median)
        .collect();
    differing.sort_by(|a, b| {
        let off = |line: &LineDifference| Reverse((line.bytes - line.median).abs());
        off(a).cmp(&off(b)).then_with(|| a.line.cmp(&b.line))
    });
    differing.truncate(LINES);
    differing
}

/// What every rank holds alike at its peak.
fn common(ranks: &[&RankDigest]) -> Sum {
    let Some((first, others)) = ranks.split_first() else { return Sum::default() };
    let mut common = Sum::default();
    for (line, sum) in &first.at_peak {
        if others.iter().all(|rank| rank.at_peak.get(line) == Some(sum)) {
            common.bytes = common.bytes.saturating_add(sum.bytes);
            common.count += 1;
        }
    }
    common
}

/// How much later than the median each rank begins its phases, and the median time of a step.
fn lags(ranks: &[&RankDigest]) -> (Vec<Option<i64>>, Option<i64>) {
    let mut late: Vec<Vec<i64>> = vec![Vec::new(); ranks.len()];
    let mut steps = Vec::new();
    let Some(first) = ranks.first() else { return (Vec::new(), None) };
    for (key, &start) in &first.starts {
        let starts: Option<Vec<i64>> = ranks.iter().map(|rank| rank.starts.get(key).copied()).collect();
        if let Some(starts) = starts {
            let middle = median(starts.clone());
            for (late, start) in late.iter_mut().zip(starts) {
                late.push(start.saturating_sub(middle));
            }
        }
        let (name, nth) = key;
        if let Some(next) = first.starts.get(&(name.clone(), nth.saturating_add(1))) {
            steps.push(next.saturating_sub(start));
        }
    }
    let middle = |values: Vec<i64>| (!values.is_empty()).then(|| median(values));
    (late.into_iter().map(middle).collect(), middle(steps))
}

/// Whether what a rank holds is off the median of its run.
pub fn stands_out(bytes: i64, median: i64) -> bool {
    let off = bytes.saturating_sub(median).saturating_abs();
    off >= BYTES && off as f64 >= median.max(1) as f64 * SHARE
}

/// The lower median: of two in the middle the smaller, so that it is a value that occurs.
pub fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// What the comparison of ranks says is wrong, worst first.
pub fn rank_insights<D: Borrow<RankDigest>>(
    ranks: &[D],
    report: &RankReport,
    bytes: ShowBytes<'_>,
) -> Vec<Finding> {
    let ranks: &[&RankDigest] = &ranks.iter().map(Borrow::borrow).collect::<Vec<_>>();
    let mut found: Vec<Finding> =
        report.outliers.iter().filter_map(|outlier| differing(ranks, outlier, bytes)).collect();
    let growing: Vec<_> = ranks.iter().filter(|rank| rank.growth.is_some()).collect();
    if ranks.len() >= LEAST_RANKS && growing.len() * 2 < ranks.len() {
        found.extend(growing.iter().filter_map(|rank| leaking(rank, ranks.len(), bytes)));
    }
    if ranks.len() >= LEAST_RANKS
        && let Some(step) = report.step_us
    {
        let late = ranks.iter().zip(&report.lag_us);
        found.extend(late.filter_map(|(rank, lag)| straggling(rank, (*lag)?, step)));
    }
    found.sort_by_key(|finding| (Reverse(finding.severity), Reverse(finding.bytes), finding.site.rank));
    found
}

fn name(rank: &RankDigest) -> String {
    let name = rank.rank.map_or_else(|| "one rank".to_owned(), |rank| format!("rank {rank}"));
    rank.device.as_ref().map_or_else(|| name.clone(), |device| format!("{name} {device}"))
}

/// A finding about one rank as a whole.
fn rank_finding(rank: &RankDigest, kind: Kind, severity: Severity, bytes: u64) -> Finding {
    let mut finding = Finding::new(kind, severity, bytes, (Moment::START, rank.moments))
        .on(Site { rank: rank.rank, ..Site::default() });
    finding.devices = vec![DeviceId(rank.device_number)];
    finding
}

fn differing(ranks: &[&RankDigest], outlier: &Outlier, bytes: ShowBytes<'_>) -> Option<Finding> {
    let rank = ranks.get(outlier.row)?;
    let off = outlier.bytes.saturating_sub(outlier.median);
    let more = if off > 0 { "more" } else { "less" };
    let worst = outlier.lines.first();
    let line = worst.map(|worst| worst.line.clone()).filter(|line| !line.is_missing());
    let (when, held) = match outlier.when {
        "peak" => ("its peak", "held at the peak"),
        _ => ("the end", "held at the end"),
    };
    let what =
        format!("{} holds {} {more} than the median rank at {when}", name(rank), bytes(off.unsigned_abs()));
    let advice = line.as_ref().map_or_else(
        || "Compare the two: vramscope diff RANK OTHER".to_owned(),
        |line| format!("Look at {}: there it differs most from the others", line.short()),
    );
    let mut finding = rank_finding(rank, Kind::Rank, Severity::Medium, off.unsigned_abs())
        .says(what, advice)
        .on(Site { rank: rank.rank, line, ..Site::default() })
        .with(held, Amount::Bytes(outlier.bytes.max(0).unsigned_abs()))
        .with("median", Amount::Bytes(outlier.median.max(0).unsigned_abs()));
    for LineDifference { line, bytes, median } in &outlier.lines {
        let place = line.short();
        let positive = |bytes: &i64| bytes.max(&0).unsigned_abs();
        finding = finding.at("here", place.clone(), positive(bytes)).at("elsewhere", place, positive(median));
    }
    Some(finding)
}

fn leaking(rank: &RankDigest, ranks: usize, bytes: ShowBytes<'_>) -> Option<Finding> {
    let growth = rank.growth.as_ref()?;
    let place = growth.line.as_ref().map_or_else(|| "a line without a name".to_owned(), Line::short);
    Some(
        rank_finding(rank, Kind::Growth, Severity::High, growth.bytes)
            .says(
                format!(
                    "only {} leaks: {} more with each step, through {place}",
                    name(rank),
                    bytes(growth.bytes_per_step)
                ),
                format!("Look for what only {} does at {place}", name(rank)),
            )
            .on(Site { rank: rank.rank, line: growth.line.clone(), ..Site::default() })
            .with("bytes per step", Amount::Bytes(growth.bytes_per_step))
            .with("of its steps grew", Amount::Share(growth.grew))
            .with("ranks", Amount::Count(ranks as u64)),
    )
}

fn straggling(rank: &RankDigest, lag: i64, step: i64) -> Option<Finding> {
    if lag < LATE_US || (lag as f64) < step.max(1) as f64 * LATE_SHARE {
        return None;
    }
    Some(
        rank_finding(rank, Kind::Straggler, Severity::Medium, 0)
            .says(
                format!("{} begins its phases {} after the median rank", name(rank), duration(lag)),
                "Look at its data loading and its machine; if it is on another machine, compare the clocks first",
            )
            .likely()
            .with("later by", Amount::Micros(lag.unsigned_abs()))
        .with("time of a step", Amount::Micros(step.max(0).unsigned_abs())),
    )
}
