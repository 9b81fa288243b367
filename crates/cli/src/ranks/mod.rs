//! `vramscope ranks`: all ranks of a run, and who is the odd one out.

mod heat;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use vramscope_analysis::{
    Counter, HeatInput, LineDifference, Moment, Oom, Outlier, RankDigest, RankReport, Severity,
    compare_ranks, curve, rank_insights,
};
use vramscope_files::Opened;

use crate::args::{FilterArgs, RanksArgs};
use crate::batch::{self, Run};
use crate::finding::{self, FindingJson};
use crate::style::{self, Role};
use crate::subject::Subject;
use crate::table::Table;
use crate::text;

/// More ranks than this are a heat map, and a row for those that stand out.
const MOST_ROWS: usize = 40;

/// Ranks that are explained line by line.
const MOST_EXPLAINED: usize = 20;

pub(crate) fn run(args: &RanksArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let read = batch::open(&args.sources, Rank::new)?;
    let ranks: Vec<&Rank> = read.values.iter().flatten().collect();
    let runs: Vec<Compared<'_>> =
        batch::runs(&ranks, |rank| &rank.run).into_iter().map(|ranks| Compared::new(&ranks)).collect();
    if args.sources.output.json {
        let outliers = runs.iter().flat_map(Compared::outliers).collect();
        let findings = runs.iter().flat_map(Compared::findings).collect();
        let report = Report { schema: "vramscope/ranks/1", ranks: &ranks, outliers, findings };
        vramscope_files::json(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        for (number, run) in runs.iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            run.print(out)?;
        }
        heat::by_step(&ranks, out)?;
    }
    out.flush()?;
    for rank in &ranks {
        rank.warnings
            .iter()
            .for_each(|warning| text::complain(&format!("warning: {}: {warning}", rank.path)));
    }
    Ok(read.finish(out, 0)?)
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    ranks: &'a [&'a Rank],
    outliers: Vec<OutlierJson>,
    findings: Vec<FindingJson>,
}

#[derive(Serialize)]
struct Rank {
    path: String,
    rank: Option<u64>,
    rank_kind: Option<&'static str>,
    step: Option<u64>,
    group: String,
    device: i32,
    device_name: String,
    peak: i64,
    end: i64,
    /// What the process was for.
    role: Option<String>,
    /// None where the file does not say.
    reserved_peak: Option<i64>,
    /// Reserved minus requested at the peak of requested.
    gap: Option<i64>,
    oom: usize,
    verdict: &'static str,
    #[serde(skip)]
    warnings: Vec<String>,
    #[serde(skip)]
    run: Run,
    #[serde(skip)]
    digest: RankDigest,
    /// The highest requested bytes in each of some equal parts of the trace.
    #[serde(skip)]
    curve: Vec<i64>,
}

/// A rank that is unlike the others of its run.
#[derive(Serialize)]
struct OutlierJson {
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
}

impl Rank {
    /// One row per device of a file; none if nothing was allocated on any.
    fn new(opened: Opened, filter: &FilterArgs) -> anyhow::Result<Vec<Self>> {
        if opened.devices.is_empty() {
            return Ok(Vec::new());
        }
        let run = Run::of(&opened);
        let rank = batch::rank(&opened);
        let subjects = Subject::each(opened, filter)?;
        Ok(subjects.iter().map(|subject| Self::of(subject, rank, &run)).collect())
    }

    fn of(subject: &Subject, rank: Option<u64>, run: &Run) -> Self {
        let (snapshot, replay) = (subject.snapshot(), subject.replay());
        let digest = subject.digest(rank);
        let name = &subject.opened.name;
        let (from, to) = subject.range();
        let is_counted = |oom: &&Oom| (from..=to).contains(&Moment::after(oom.event));
        Self {
            path: subject.opened.path.display().to_string(),
            rank,
            rank_kind: name.rank.map(|(kind, _)| kind.label()),
            step: name.step,
            group: name.group.clone(),
            device: replay.device().0,
            device_name: subject.device(),
            peak: digest.peak,
            end: digest.end,
            role: name.role.clone(),
            reserved_peak: subject.has_reserved().then(|| subject.peak(Counter::Reserved).bytes),
            gap: subject.has_reserved().then_some(digest.gap),
            oom: replay.ooms().iter().filter(is_counted).count(),
            verdict: replay.verdict().status.name(),
            warnings: text::warnings(snapshot),
            run: run.clone(),
            digest,
            curve: curve(replay, (from, to)),
        }
    }
}

impl<'a> From<&'a Rank> for HeatInput<'a> {
    fn from(rank: &'a Rank) -> Self {
        Self { rank: rank.rank, step: rank.step, peak: rank.peak, curve: &rank.curve }
    }
}

fn file_name(path: &str) -> String {
    text::printable(path.rsplit(['/', '\\']).next().unwrap_or(path))
}

/// The ranks of one run, compared.
struct Compared<'a> {
    ranks: Vec<&'a Rank>,
    digests: Vec<&'a RankDigest>,
    report: RankReport,
}

impl<'a> Compared<'a> {
    fn new(ranks: &[&&'a Rank]) -> Self {
        let mut ranks: Vec<&'a Rank> = ranks.iter().map(|rank| **rank).collect();
        ranks.sort_by(|a, b| (a.rank, &a.path, a.device).cmp(&(b.rank, &b.path, b.device)));
        let digests: Vec<_> = ranks.iter().map(|rank| &rank.digest).collect();
        let report = compare_ranks(&digests);
        Self { ranks, digests, report }
    }

    fn outliers(&self) -> impl Iterator<Item = OutlierJson> {
        self.report.outliers.iter().filter_map(|outlier| {
            let rank = self.ranks.get(outlier.row)?;
            let lines = outlier.lines.iter().map(|LineDifference { line, bytes, median }| OutlierLine {
                name: line.name.clone(),
                file: line.file.clone(),
                line: line.line,
                bytes: *bytes,
                median: *median,
            });
            Some(OutlierJson {
                path: rank.path.clone(),
                rank: rank.rank,
                when: outlier.when,
                bytes: outlier.bytes,
                median: outlier.median,
                lines: lines.collect(),
            })
        })
    }

    fn findings(&self) -> impl Iterator<Item = FindingJson> {
        let found = rank_insights(&self.digests, &self.report, &text::size);
        found.into_iter().map(|finding| FindingJson::new(None, &finding))
    }

    fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let Some(first) = self.ranks.first() else { return Ok(()) };
        let folder = Path::new(&first.path).parent().unwrap_or(Path::new(""));
        let role = first.role.as_ref().map_or_else(String::new, |role| format!(" · {role}"));
        let heading = text::printable(&format!("{}{role}", folder.display()));
        writeln!(out, "{}", style::paint(Role::Strong, &heading))?;
        let is_several = self.ranks.iter().any(|rank| rank.device != first.device);
        let mut table = Table::new("")
            .column("rank")
            .column("peak")
            .column("end")
            .optional("reserved", 1)
            .optional("gap", 2)
            .column("oom")
            .left("verdict", 3)
            .left("peak", 4);
        let highest = self.ranks.iter().map(|rank| rank.peak).max().unwrap_or(1).max(1);
        let shown = self.shown();
        for &row in &shown {
            let Some(rank) = self.ranks.get(row) else { continue };
            let is_outlier = self.report.outliers.iter().any(|outlier| outlier.row == row);
            let bar = text::cells("█", rank.peak.max(0) as f64 / highest as f64, 16);
            let (role, mark) = if is_outlier { (Role::Warning, "▲") } else { (Role::Plain, "") };
            let number = rank.rank.map_or_else(|| "–".into(), |rank| rank.to_string());
            let number = if is_several { format!("{number} {}", rank.device_name) } else { number };
            let row = [
                number,
                text::bytes(rank.peak),
                text::bytes(rank.end),
                rank.reserved_peak.map_or_else(|| "–".into(), text::bytes),
                rank.gap.map_or_else(|| "–".into(), text::bytes),
                rank.oom.to_string(),
                vramscope_format::words(rank.verdict),
                bar,
            ];
            let label =
                if rank.rank.is_none() { format!("{mark} {}", file_name(&rank.path)) } else { mark.into() };
            table.painted(role, row, label);
        }
        table.print(out)?;
        if shown.len() < self.ranks.len() {
            let left = self.ranks.len() - shown.len();
            writeln!(out, "  … {left} more ranks; --json lists all of them\n")?;
            heat::over_time(self.ranks.iter().copied(), out)?;
        }
        self.print_findings(out)
    }

    /// The ranks that have a row: all of them, or of many those that stand out, the largest difference first, and the
    /// highest of the others.
    fn shown(&self) -> Vec<usize> {
        let all = 0..self.ranks.len();
        if self.ranks.len() <= MOST_ROWS {
            return all.collect();
        }
        let mut rows: Vec<usize> = Vec::new();
        let mut others: Vec<usize> = all.collect();
        others.sort_by_key(|&row| std::cmp::Reverse(self.ranks.get(row).map_or(0, |rank| rank.peak)));
        for row in self.report.outliers.iter().map(|outlier| outlier.row).chain(others) {
            if rows.len() < MOST_ROWS / 2 && !rows.contains(&row) {
                rows.push(row);
            }
        }
        rows
    }

    fn print_findings(&self, out: &mut dyn Write) -> std::io::Result<()> {
        if self.ranks.len() < 2 {
            return Ok(());
        }
        let RankReport { common, skew, .. } = &self.report;
        writeln!(
            out,
            "\n  {} in {} the same on all ranks · peaks differ by up to {}",
            text::size(common.bytes),
            text::plural(common.count, "line"),
            text::bytes(*skew)
        )?;
        // What is said of the peak need not be said again of the end.
        let line = |outlier: &'_ Outlier| outlier.lines.first().map(|line| line.line.clone());
        let at_peak = self.report.outliers.iter().filter(|outlier| outlier.when == "peak");
        let at_peak: BTreeMap<usize, _> = at_peak.map(|outlier| (outlier.row, line(outlier))).collect();
        let is_said =
            |outlier: &Outlier| outlier.when == "end" && at_peak.get(&outlier.row) == Some(&line(outlier));
        let said: Vec<_> = self.report.outliers.iter().filter(|outlier| !is_said(outlier)).collect();
        for outlier in said.iter().take(MOST_EXPLAINED) {
            let Some(rank) = self.ranks.get(outlier.row) else { continue };
            let name = rank.rank.map_or_else(|| file_name(&rank.path), |rank| format!("rank {rank}"));
            writeln!(
                out,
                "\n  {} {}: {}",
                style::paint(Role::Warning, "!"),
                style::paint(Role::Strong, &name),
                outlier.words(style::units()),
            )?;
            for LineDifference { line, bytes, median } in &outlier.lines {
                let change = text::signed(bytes - median);
                let (label, own, middle) = (text::line(line), text::bytes(*bytes), text::bytes(*median));
                writeln!(out, "      {change:>11}  {label}: {own}, the others {middle}")?;
            }
        }
        if said.len() > MOST_EXPLAINED {
            let left = said.len() - MOST_EXPLAINED;
            writeln!(out, "\n  … {left} more stand out; --json explains all of them")?;
        }
        let others: Vec<_> = rank_insights(&self.digests, &self.report, &text::size)
            .into_iter()
            .filter(|finding| {
                finding.kind != vramscope_analysis::Kind::Rank && finding.severity > Severity::Low
            })
            .collect();
        if !others.is_empty() {
            writeln!(out)?;
        }
        others.iter().take(MOST_EXPLAINED).try_for_each(|finding| finding::print_short(finding, out))?;
        if others.len() > MOST_EXPLAINED {
            writeln!(out, "  … {} more findings", others.len() - MOST_EXPLAINED)?;
        }
        if self.report.outliers.is_empty() && others.is_empty() && self.ranks.len() >= 3 {
            writeln!(out, "\n  no rank stands out")?;
        }
        Ok(())
    }
}
