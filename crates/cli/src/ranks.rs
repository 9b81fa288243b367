//! `vramscope ranks`: all ranks of a run, and who is the odd one out.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use vramscope_analysis::{Counter, Line, Replay, Sum, by_line, live_weights};
use vramscope_files::{Opened, find, open_each};
use vramscope_snapshot::naming::RankKind;

use crate::args::RanksArgs;
use crate::progress::Bar;
use crate::text;

/// A rank stands out if it is off the median by more than this share and this many bytes.
const SHARE: f64 = 0.05;
const BYTES: i64 = 8 << 20;
/// Lines that explain an outlier.
const LINES: usize = 3;

pub(crate) fn run(args: &RanksArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let (inputs, errors) = find(&args.paths);
    let cache = args.output.cache.cache();
    let bar = Bar::new(&inputs);
    let results = open_each(&inputs, cache.as_ref(), &bar, |opened| Rank::new(&opened));
    drop(bar);
    let mut ranks = Vec::new();
    let mut failed = !errors.is_empty();
    for error in &errors {
        text::complain(&error.to_string());
    }
    for (input, result) in inputs.iter().zip(results) {
        match result {
            Ok(Some(rank)) => ranks.push(rank),
            Ok(None) => {}
            Err(error) if !input.named && error.is_another_kind() => {}
            Err(error) => {
                failed = true;
                text::complain(&error.to_string());
            }
        }
    }
    let outliers = outliers(&ranks);
    if args.output.json {
        let report = Report { schema: "vramscope/ranks/1", ranks: &ranks, outliers: &outliers };
        serde_json::to_writer(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        print(&ranks, &outliers, out)?;
    }
    Ok(if failed { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    ranks: &'a [Rank],
    outliers: &'a [Outlier],
}

#[derive(Serialize)]
struct Rank {
    path: String,
    rank: Option<u64>,
    rank_kind: Option<&'static str>,
    step: Option<u64>,
    group: String,
    device: i32,
    peak: i64,
    end: i64,
    reserved_peak: i64,
    /// Reserved minus requested at the peak of requested.
    gap: i64,
    oom: usize,
    verdict: &'static str,
    /// What ranks of one run have in common.
    #[serde(skip)]
    run: (String, Option<u64>, bool),
    #[serde(skip)]
    at_peak: BTreeMap<Option<Line>, Sum>,
    #[serde(skip)]
    at_end: BTreeMap<Option<Line>, Sum>,
}

/// A rank that is unlike the others of its run.
#[derive(Serialize)]
struct Outlier {
    path: String,
    rank: Option<u64>,
    /// `peak` or `end`.
    when: &'static str,
    bytes: i64,
    median: i64,
    /// What it holds more or less of than the median rank.
    lines: Vec<OutlierLine>,
}

#[derive(Serialize)]
struct OutlierLine {
    name: String,
    file: String,
    line: u32,
    bytes: i64,
    median: i64,
    #[serde(skip)]
    label: String,
}

impl Rank {
    /// The device with the longest trace of a file; `None` if nothing was allocated on any.
    fn new(opened: &Opened) -> Option<Self> {
        let (snapshot, name) = (&opened.snapshot, &opened.name);
        let replay = opened.replays.iter().max_by_key(|replay| (replay.events(), -replay.device().0))?;
        let peak = replay.peak(Counter::Requested);
        let live =
            |replay: &Replay, at| by_line(snapshot, &live_weights(replay, &replay.state(at), |_| true));
        let end = replay.counters(replay.end());
        Some(Self {
            path: opened.path.display().to_string(),
            rank: name.rank.filter(|(kind, _)| *kind != RankKind::Process).map(|(_, rank)| rank),
            rank_kind: name.rank.map(|(kind, _)| kind.label()),
            step: name.step,
            group: name.group.clone(),
            run: (name.group.clone(), name.step, name.oom),
            device: replay.device().0,
            peak: peak.bytes,
            end: end.requested,
            reserved_peak: replay.peak(Counter::Reserved).bytes,
            gap: replay.counters(peak.at).reserved - peak.bytes,
            oom: replay.ooms().len(),
            verdict: replay.verdict().status.name(),
            at_peak: live(replay, peak.at),
            at_end: live(replay, replay.end()),
        })
    }

    fn name(&self) -> String {
        match self.rank {
            Some(rank) => rank.to_string(),
            None => "–".into(),
        }
    }
}

/// Ranks that differ from the median of their run, at the peak or at the end, largest difference first.
fn outliers(ranks: &[Rank]) -> Vec<Outlier> {
    let mut groups: BTreeMap<_, Vec<&Rank>> = BTreeMap::new();
    for rank in ranks {
        groups.entry(&rank.run).or_default().push(rank);
    }
    let mut found = Vec::new();
    for group in groups.values().filter(|group| group.len() >= 3) {
        type Value = fn(&Rank) -> i64;
        type Lines = fn(&Rank) -> &BTreeMap<Option<Line>, Sum>;
        let kinds: [(&'static str, Value, Lines); 2] =
            [("peak", |rank| rank.peak, |rank| &rank.at_peak), ("end", |rank| rank.end, |rank| &rank.at_end)];
        for (when, value, lines) in kinds {
            let middle = median(group.iter().map(|rank| value(rank)).collect());
            for rank in group {
                let off = value(rank) - middle;
                if off.abs() < BYTES || (off.abs() as f64) < middle.max(1) as f64 * SHARE {
                    continue;
                }
                found.push(Outlier {
                    path: rank.path.clone(),
                    rank: rank.rank,
                    when,
                    bytes: value(rank),
                    median: middle,
                    lines: explanation(lines(rank), group, lines),
                });
            }
        }
    }
    found.sort_by_key(|outlier| std::cmp::Reverse((outlier.bytes - outlier.median).abs()));
    found
}

/// The lines in which a rank differs most from the median of its run.
fn explanation(
    own: &BTreeMap<Option<Line>, Sum>,
    group: &[&Rank],
    lines: fn(&Rank) -> &BTreeMap<Option<Line>, Sum>,
) -> Vec<OutlierLine> {
    let bytes = |sums: &BTreeMap<Option<Line>, Sum>, line: &Option<Line>| {
        sums.get(line).map_or(0, |sum| i64::try_from(sum.bytes).unwrap_or(i64::MAX))
    };
    let mut all: Vec<&Option<Line>> = group.iter().flat_map(|rank| lines(rank).keys()).collect();
    all.sort_unstable();
    all.dedup();
    let mut differing: Vec<_> = all
        .into_iter()
        .map(|line| {
            let middle = median(group.iter().map(|rank| bytes(lines(rank), line)).collect());
            (line, bytes(own, line), middle)
        })
        .filter(|(_, own, middle)| own != middle)
        .collect();
    differing.sort_by_key(|(line, own, middle)| (std::cmp::Reverse((own - middle).abs()), *line));
    differing.truncate(LINES);
    let describe = |(line, bytes, median): (&Option<Line>, i64, i64)| {
        let label = text::line(line.as_ref());
        let Line { file, line, name } =
            line.clone().unwrap_or(Line { file: String::new(), line: 0, name: String::new() });
        OutlierLine { name, file, line, bytes, median, label }
    };
    differing.into_iter().map(describe).collect()
}

/// The lower median: of two in the middle the smaller, so that it is a value that occurs.
fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

fn print(ranks: &[Rank], outliers: &[Outlier], out: &mut dyn Write) -> std::io::Result<()> {
    let highest = ranks.iter().map(|rank| rank.peak).max().unwrap_or(1).max(1);
    let mut group = None;
    for rank in ranks {
        if group != Some(&rank.run) {
            if group.is_some() {
                writeln!(out)?;
            }
            group = Some(&rank.run);
            let folder = std::path::Path::new(&rank.path).parent().unwrap_or(std::path::Path::new(""));
            writeln!(out, "{}", text::printable(&folder.display().to_string()))?;
            writeln!(
                out,
                "  {:>5}  {:>10}  {:>10}  {:>10}  {:>10}  {:>4}  {:14}",
                "rank", "peak", "end", "reserved", "gap", "oom", "verdict"
            )?;
        }
        let is_outlier = outliers.iter().any(|outlier| outlier.path == rank.path);
        let bar = "█".repeat((rank.peak.max(0) as f64 / highest as f64 * 16.0).round() as usize);
        let line = format!(
            "  {:>5}  {:>10}  {:>10}  {:>10}  {:>10}  {:>4}  {:14}  {bar}{}",
            rank.name(),
            text::bytes(rank.peak),
            text::bytes(rank.end),
            text::bytes(rank.reserved_peak),
            text::bytes(rank.gap),
            rank.oom,
            rank.verdict,
            if is_outlier { " ▲" } else { "" }
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    for outlier in outliers {
        let name = outlier.rank.map_or_else(|| outlier.path.clone(), |rank| format!("rank {rank}"));
        writeln!(
            out,
            "\n  ! {name}: {} requested at the {}, {} against the median of {}",
            text::bytes(outlier.bytes),
            outlier.when,
            text::signed(outlier.bytes - outlier.median),
            text::bytes(outlier.median)
        )?;
        for OutlierLine { bytes, median, label, .. } in &outlier.lines {
            let (change, own, middle) =
                (text::signed(bytes - median), text::bytes(*bytes), text::bytes(*median));
            writeln!(out, "      {change:>11}  {label}: {own}, the others {middle}")?;
        }
    }
    if outliers.is_empty() && ranks.len() >= 3 {
        writeln!(out, "\n  no rank stands out")?;
    }
    Ok(())
}
