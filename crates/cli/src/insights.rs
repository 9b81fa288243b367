//! `vramscope insights`: everything that looks wrong, ranked.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use vramscope_analysis::query::Thing;
use vramscope_analysis::{
    Finding, RankDigest, Severity, Status, compare_ranks, nothing_found, rank_insights, verdict_sentence,
};
use vramscope_files::Opened;

use crate::args::{FilterArgs, InsightsArgs};
use crate::batch::{self, Run};
use crate::finding::{self, FindingJson};
use crate::style::{self, Role};
use crate::subject::Subject;
use crate::text;

pub(crate) fn run(args: &InsightsArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    // A device that is alone is compared with none.
    let is_one = matches!(args.sources.paths.as_slice(), [path] if !path.is_dir());
    let read = batch::open(&args.sources, |opened, filter| File::new(opened, filter, is_one))?;
    let mut across = Vec::new();
    for run in batch::runs(&read.values, |file| &file.run) {
        let digests: Vec<&RankDigest> = run
            .iter()
            .flat_map(|file| file.devices.iter().filter_map(|device| device.digest.as_ref()))
            .collect();
        across.extend(rank_insights(&digests, &compare_ranks(&digests), &text::size));
    }
    if args.sources.output.json {
        let across = across.iter().map(|finding| FindingJson::new(None, finding)).collect();
        let report = Report { schema: "vramscope/insights/3", across_ranks: across, files: &read.values };
        vramscope_files::json(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        print(&across, &read.values, out)?;
    }
    let worst = across.iter().chain(read.values.iter().flat_map(File::found)).map(|f| f.severity).max();
    let is_asked_for = args.fail_on.is_some_and(|limit| worst >= Some(limit.into()));
    Ok(read.finish(out, if is_asked_for { 1 } else { 0 })?)
}

fn print(across: &[Finding], files: &[File], out: &mut dyn Write) -> std::io::Result<()> {
    if !across.is_empty() {
        writeln!(out, "across ranks")?;
        across.iter().try_for_each(|finding| finding::print_long(finding, "", "FILE", out))?;
        writeln!(out)?;
    }
    for (number, file) in files.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        let path = text::path(std::path::Path::new(&file.path));
        writeln!(out, "{}", style::paint(Role::Strong, &path))?;
        if file.devices.is_empty() {
            writeln!(out, "  nothing was allocated on any device while recording")?;
        }
        for device in &file.devices {
            let role = if device.is_exact { Role::Fine } else { Role::Warning };
            let verdict = text::wrapped(&format!("{} · {}", device.name, device.sentence), 2);
            writeln!(out, "{}", style::paint(role, &verdict))?;
            if device.found.is_empty() {
                writeln!(out, "\n  {}", text::wrapped(&device.silence, 2))?;
            }
            for (finding, handle) in device.found.iter().zip(&device.handles) {
                finding::print_long(finding, handle, &path, out)?;
            }
        }
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
    devices: Vec<Device>,
    /// Of all devices.
    findings: Vec<FindingJson>,
    #[serde(skip)]
    run: Run,
}

#[derive(Serialize)]
struct Device {
    device: i32,
    name: String,
    verdict: &'static str,
    #[serde(skip)]
    sentence: String,
    #[serde(skip)]
    is_exact: bool,
    /// What is said if there is no finding.
    #[serde(skip)]
    silence: String,
    #[serde(skip)]
    found: Vec<Finding>,
    #[serde(skip)]
    handles: Vec<String>,
    /// What is compared with other devices, if there are any.
    #[serde(skip)]
    digest: Option<RankDigest>,
}

impl File {
    fn new(opened: Opened, filter: &FilterArgs, is_one: bool) -> anyhow::Result<Self> {
        let (path, run) = (opened.path.display().to_string(), Run::of(&opened));
        let rank = batch::rank(&opened);
        let subjects = if opened.devices.is_empty() { Vec::new() } else { Subject::each(opened, filter)? };
        let is_alone = is_one && subjects.len() == 1;
        let device = |subject: &Subject| Device {
            digest: (!is_alone).then(|| subject.digest(rank)),
            ..Device::new(subject)
        };
        let devices: Vec<_> = subjects.iter().map(device).collect();
        let findings = subjects.iter().zip(&devices).flat_map(|(subject, device)| {
            device.found.iter().map(|finding| FindingJson::new(Some(subject), finding))
        });
        let findings = findings.collect();
        Ok(Self { path, rank, devices, findings, run })
    }

    fn found(&self) -> impl Iterator<Item = &Finding> {
        self.devices.iter().flat_map(|device| &device.found)
    }
}

impl Device {
    fn new(subject: &Subject) -> Self {
        let replay = subject.replay();
        let mut found = subject.findings();
        found.retain(|finding| subject.keeps_finding(finding));
        let verdict = replay.verdict();
        Self {
            device: replay.device().0,
            name: subject.device(),
            verdict: verdict.status.name(),
            sentence: verdict_sentence(verdict, &text::size),
            is_exact: verdict.status == Status::Exact,
            silence: match subject.is_filtered() {
                true => "no findings among what passes the filters".to_owned(),
                false => nothing_found(replay, &text::size),
            },
            handles: found.iter().map(|finding| subject.handle(Thing::Finding(finding.name()))).collect(),
            found,
            digest: None,
        }
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
