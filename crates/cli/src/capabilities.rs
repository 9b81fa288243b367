//! `vramscope capabilities`: what a file can tell and what it cannot, and which commands help.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use vramscope_analysis::pools::has_private;
use vramscope_analysis::query::{NOTHING_RECORDED, QueryError};
use vramscope_analysis::{Status, StepsBy, is_internal_phase};
use vramscope_simulate::Study;
use vramscope_snapshot::{MetaId, StackId};

use crate::args::Source;
use crate::subject::{Subject, answer};
use crate::text;

/// What this file can and cannot tell, and which commands will help
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope capabilities snapshot.pickle
  vramscope capabilities snapshot.pickle --json | jq '.verbs[].command'")]
pub(crate) struct CapabilitiesArgs {
    #[command(flatten)]
    source: Source,
}

pub(crate) fn run(args: &CapabilitiesArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let asked = answer(&args.source, None, out, &mut |subject, _, out| {
        let report = Report::new(subject);
        match args.source.output.json {
            true => Ok(vramscope_files::json(out, &report)?),
            false => Ok(report.print(subject, out)?),
        }
    });
    match asked {
        Err(error) if error.downcast_ref().is_some_and(|QueryError(why)| why == NOTHING_RECORDED) => {
            let path = text::path(&args.source.path);
            match args.source.output.json {
                true => {
                    vramscope_files::json(&mut *out, &Report::empty(&path))?;
                    writeln!(out)?;
                }
                false => {
                    writeln!(
                        out,
                        "{path}\n  {NOTHING_RECORDED}: vramscope doctor {path} says how to record"
                    )?;
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        asked => asked,
    }
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    /// None where nothing was allocated on any.
    device: Option<i32>,
    format: String,
    verdict: &'static str,
    verdict_sentence: String,
    /// Bytes that are estimates.
    estimated_bytes: u64,
    events: usize,
    allocations: usize,
    out_of_memory_errors: usize,
    /// What the file has, and what follows where it lacks it.
    has: Vec<Capability>,
    /// Commands that will help, in this order.
    verbs: Vec<Verb>,
}

#[derive(Serialize)]
struct Capability {
    name: &'static str,
    present: bool,
    /// How much of it there is, or what cannot be told without it.
    about: String,
}

#[derive(Serialize)]
struct Verb {
    command: String,
    why: String,
}

impl Report {
    fn empty(path: &str) -> Self {
        Self {
            schema: "vramscope/capabilities/1",
            device: None,
            format: String::new(),
            verdict: Status::StateOnly.name(),
            verdict_sentence: NOTHING_RECORDED.to_owned(),
            estimated_bytes: 0,
            events: 0,
            allocations: 0,
            out_of_memory_errors: 0,
            has: Vec::new(),
            verbs: vec![Verb { command: format!("vramscope doctor {path}"), why: "how to record".into() }],
        }
    }

    fn new(subject: &Subject) -> Self {
        let (snapshot, replay) = (subject.snapshot(), subject.replay());
        let verdict = replay.verdict();
        let has = has(subject);
        let is_present = |name: &str| has.iter().any(|one| one.name == name && one.present);
        let verbs = verbs(subject, &is_present);
        Self {
            schema: "vramscope/capabilities/1",
            device: Some(replay.device().0),
            format: snapshot.format.clone(),
            verdict: verdict.status.name(),
            verdict_sentence: verdict.sentence(),
            estimated_bytes: verdict.estimated_bytes,
            events: replay.events(),
            allocations: replay.allocations().len(),
            out_of_memory_errors: replay.ooms().len(),
            has,
            verbs,
        }
    }

    fn print(&self, subject: &Subject, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out, "{} · {}, {}", subject.device(), self.format, text::plural(self.events, "event"))?;
        writeln!(out, "  verdict      {}", text::wrapped(&text::printable(&self.verdict_sentence), 15))?;
        for one in &self.has {
            let mark = if one.present { "yes" } else { "no " };
            let words = text::wrapped(&text::printable(&one.about), 19);
            writeln!(out, "  {:<12} {mark} {words}", one.name)?;
        }
        writeln!(out, "\n  what to ask")?;
        for verb in &self.verbs {
            writeln!(out, "    {}    # {}", text::printable(&verb.command), text::printable(&verb.why))?;
        }
        Ok(())
    }
}

/// What the file has.
fn has(subject: &Subject) -> Vec<Capability> {
    let (snapshot, replay) = (subject.snapshot(), subject.replay());
    let events = snapshot.events(replay.device());
    let one = |name, present, yes: String, no: &str| Capability {
        name,
        present,
        about: if present { yes } else { no.to_owned() },
    };
    let live = replay.state(subject.kept_peak().at).live;
    let (mut named, mut all) = (0_u64, 0_u64);
    for index in live {
        let allocation = replay.allocation(index);
        all = all.saturating_add(allocation.requested);
        if allocation.stack > StackId::EMPTY {
            named = named.saturating_add(allocation.requested);
        }
    }
    let spans = subject.spans();
    let mut own = spans.clone();
    own.retain(|span| !is_internal_phase(snapshot.text(span.name)));
    let found = replay.steps(snapshot);
    let has_meta = (0..events.len()).any(|row| {
        let meta = events.get(row).meta;
        meta != MetaId(0) && !snapshot.text(snapshot.meta(meta).user_metadata).is_empty()
    });
    let simulable = Study::new(snapshot, replay.device(), None);
    vec![
        one(
            "history",
            replay.events() > 0,
            format!("{}: what happened when", text::plural(replay.events(), "event")),
            "only the state at the end: no peak, no growth, no lifetimes",
        ),
        one(
            "stacks",
            named > 0,
            format!("{} of the bytes at the peak name their line", text::share(named, all.max(1))),
            "no line of the program can be named",
        ),
        one(
            "segments",
            snapshot.has.addresses,
            "a map of memory: holes, fragmentation, pools".into(),
            "no map of memory: fragmentation, pools and what was free cannot be told",
        ),
        one(
            "times",
            events.time_us(0).is_some(),
            "events have times".into(),
            "moments are named by event numbers only",
        ),
        one(
            "annotations",
            !own.is_empty(),
            format!("{}: phases can be told apart", text::plural(own.len(), "annotation")),
            "phases are inferred from stacks, if at all",
        ),
        one(
            "steps",
            found.by != StepsBy::Nothing,
            format!("{}, by {}", text::plural(found.list.len(), "step"), found.by.words()),
            "no steps: growth and trends cannot be told",
        ),
        one("metadata", has_meta, "user metadata on events".into(), "no user metadata on events"),
        one(
            "simulation",
            simulable.is_ok(),
            match &simulable {
                Ok(study) if study.agreement.is_exact() => {
                    "reproduces the recording: whatif is reliable".into()
                }
                _ => "does not reproduce the recording: whatif gives estimates".into(),
            },
            &simulable.as_ref().err().map(ToString::to_string).unwrap_or_default(),
        ),
    ]
}

/// The commands that will help, most useful first.
fn verbs(subject: &Subject, has: &dyn Fn(&str) -> bool) -> Vec<Verb> {
    let (snapshot, replay) = (subject.snapshot(), subject.replay());
    let path = subject.path();
    let mut verbs = Vec::new();
    let mut add = |verb: &str, why: &str| {
        verbs.push(Verb { command: format!("vramscope {verb} {path}"), why: why.to_owned() });
    };
    if !replay.ooms().is_empty() {
        let times = text::plural(replay.ooms().len(), "time");
        add("oom", &format!("memory ran out {times}: who asked, why, what would have helped"));
    }
    if has("history") {
        add("insights", "what looks wrong, worst first");
    }
    if has("steps") {
        add("steps", "what each step leaves behind");
    }
    match has("stacks") {
        true => add("top", "which lines hold most at the peak"),
        false => add("at", "what is live at the peak, by size"),
    }
    if has("history") && has("stacks") {
        add("categories", "what memory is for");
    }
    if has("segments") {
        add("fragmentation", "how much of what is free cannot be used");
        if has("history") {
            add("churn", "segments acquired and released, by step and line");
        }
    }
    if has_private(snapshot) {
        add("pools", "private pools of CUDA graphs and MemPools");
    }
    if has("annotations") {
        add("phases", "peak and growth of each phase");
    }
    if has("simulation") {
        add("tune", "which allocator settings need least memory, simulated");
    }
    if replay.verdict().status != Status::Exact || !has("stacks") {
        add("doctor", "how to record a better file");
    }
    verbs
}
