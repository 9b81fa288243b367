//! `vramscope doctor`: what a recording can tell and what it cannot, which commands help, and how to record a better one.

mod facts;
mod verbs;

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use vramscope_analysis::query::{NOTHING_RECORDED, QueryError};
use vramscope_analysis::{Status, verdict_sentence};

use crate::args::Source;
use crate::subject::{Subject, answer};
use crate::text;
use facts::{Fact, facts};
use verbs::{Verb, verbs};

const SCHEMA: &str = "vramscope/doctor/3";

const HOW_TO_RECORD: &str = "Record where the tensors are made, in the process that makes them, and dump after that:\n\
                             torch.cuda.memory._record_memory_history()\n...\n\
                             torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")";

/// What this recording can and cannot tell, which commands will help, and how to record a better one
#[derive(Debug, Args)]
#[command(alias = "capabilities")]
#[command(after_help = "Examples:
  vramscope doctor snapshot.pickle
  vramscope doctor snapshot.pickle --json | jq '.verbs[].command'")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    source: Source,
}

pub(crate) fn run(args: &DoctorArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let asked = answer(&args.source, None, out, &mut |subject, _, out| {
        let report = Report::new(subject);
        if args.source.output.json {
            return Ok(vramscope_files::json(out, &report)?);
        }
        let events = text::plural(report.events, "event");
        writeln!(out, "{} · {}, {events}", subject.device(), report.format)?;
        Ok(report.print(out)?)
    });
    // A recording of nothing is what this verb is for.
    match asked {
        Err(error) if error.downcast_ref().is_some_and(|QueryError(why)| why == NOTHING_RECORDED) => {
            let report = Report::empty();
            if args.source.output.json {
                vramscope_files::json(&mut *out, &report)?;
                writeln!(out)?;
            } else {
                writeln!(out, "{}", text::path(&args.source.path))?;
                report.print(out)?;
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
    has: Vec<Fact>,
    /// Commands that will help, in this order.
    verbs: Vec<Verb>,
}

impl Report {
    fn empty() -> Self {
        Self {
            schema: SCHEMA,
            device: None,
            format: String::new(),
            verdict: Status::StateOnly.name(),
            verdict_sentence: NOTHING_RECORDED.to_owned(),
            estimated_bytes: 0,
            events: 0,
            allocations: 0,
            out_of_memory_errors: 0,
            has: vec![Fact::missing("verdict", NOTHING_RECORDED, HOW_TO_RECORD)],
            verbs: Vec::new(),
        }
    }

    fn new(subject: &Subject) -> Self {
        let (snapshot, replay) = (subject.snapshot(), subject.replay());
        let verdict = replay.verdict();
        let has = facts(subject);
        let verbs = verbs(subject, &has);
        Self {
            schema: SCHEMA,
            device: Some(replay.device().0),
            format: snapshot.format.clone(),
            verdict: verdict.status.name(),
            verdict_sentence: verdict_sentence(verdict, &text::size),
            estimated_bytes: verdict.estimated_bytes,
            events: replay.events(),
            allocations: replay.allocations().len(),
            out_of_memory_errors: replay.ooms().len(),
            has,
            verbs,
        }
    }

    fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        for fact in &self.has {
            let about = text::wrapped(&text::printable(&fact.about), 17);
            writeln!(out, "  {} {:<12} {about}", fact.mark(), fact.name)?;
            for note in &fact.notes {
                writeln!(out, "{:17}{}", "", text::wrapped(&text::printable(note), 17))?;
            }
            for line in fact.advice.iter().flat_map(|advice| advice.lines()) {
                writeln!(out, "{:17}> {}", "", text::wrapped(line, 19))?;
            }
        }
        if !self.verbs.is_empty() {
            writeln!(out, "\n  what to ask")?;
        }
        for verb in &self.verbs {
            writeln!(out, "    {}    # {}", text::printable(&verb.command), text::printable(&verb.why))?;
        }
        Ok(())
    }
}
