//! `vramscope insights`: everything that looks wrong, ranked.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use vramscope_analysis::{Finding, RankDigest, Severity, compare_ranks, insights, rank_insights, spans};
use vramscope_files::Opened;

use crate::args::InsightsArgs;
use crate::filter::{FilterArgs, Subject};
use crate::finding::{self, FindingJson};
use crate::many::{self, Run};
use crate::text;

pub(crate) fn run(args: &InsightsArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let read = many::open(&args.sources, File::new)?;
    let mut across = Vec::new();
    for run in many::runs(&read.values, |file| &file.run) {
        let digests: Vec<RankDigest> = run.iter().filter_map(|file| file.digest.clone()).collect();
        across.extend(rank_insights(&digests, &compare_ranks(&digests), &finding::bytes));
    }
    if args.sources.output.json {
        let across = across.iter().map(|finding| FindingJson::new(None, finding)).collect();
        let report = Report { schema: "vramscope/insights/1", across_ranks: across, files: &read.values };
        vramscope_files::json(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        print(&across, &read.values, out)?;
    }
    let worst =
        across.iter().chain(read.values.iter().flat_map(|file| &file.found)).map(|f| f.severity).max();
    let is_asked_for = args.fail_on.is_some_and(|limit| worst >= Some(limit.into()));
    Ok(read.finish(out, if is_asked_for { 1 } else { 0 })?)
}

fn print(across: &[Finding], files: &[File], out: &mut dyn Write) -> std::io::Result<()> {
    if !across.is_empty() {
        writeln!(out, "across ranks")?;
        across.iter().try_for_each(|finding| finding::print_long(finding, out))?;
        writeln!(out)?;
    }
    for (number, file) in files.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", text::printable(&file.path))?;
        if file.found.is_empty() {
            writeln!(out, "\n  nothing looks wrong")?;
        }
        file.found.iter().try_for_each(|finding| finding::print_long(finding, out))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    across_ranks: Vec<FindingJson>,
    files: &'a [File],
}

#[derive(Serialize)]
struct File {
    path: String,
    rank: Option<u64>,
    device: Option<i32>,
    findings: Vec<FindingJson>,
    #[serde(skip)]
    found: Vec<Finding>,
    #[serde(skip)]
    digest: Option<RankDigest>,
    #[serde(skip)]
    run: Run,
}

impl File {
    fn new(opened: Opened, filter: &FilterArgs) -> anyhow::Result<Self> {
        let (path, run) = (opened.path.display().to_string(), Run::of(&opened));
        let rank = many::rank(&opened);
        if opened.replays.is_empty() {
            let (findings, found) = (Vec::new(), Vec::new());
            return Ok(Self { path, rank, device: None, findings, found, digest: None, run });
        }
        let subject = Subject::quiet(opened, filter)?;
        let (snapshot, replay) = (subject.snapshot(), subject.replay());
        let spans = spans(snapshot, replay.device());
        let mut found = insights(snapshot, replay, &spans, &finding::bytes);
        found.retain(|finding| subject.keeps_finding(finding));
        Ok(Self {
            path,
            rank,
            device: Some(replay.device().0),
            findings: found.iter().map(|finding| FindingJson::new(Some(snapshot), finding)).collect(),
            found,
            digest: Some(subject.digest(rank, &spans)),
            run,
        })
    }
}

/// From which severity on the command fails.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum SeverityArg {
    Low,
    Medium,
    High,
}

impl From<SeverityArg> for Severity {
    fn from(severity: SeverityArg) -> Self {
        match severity {
            SeverityArg::Low => Self::Low,
            SeverityArg::Medium => Self::Medium,
            SeverityArg::High => Self::High,
        }
    }
}
