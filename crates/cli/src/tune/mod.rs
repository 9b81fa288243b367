//! `vramscope tune`: searches the settings that serve a recording best.

mod print;
mod search;

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use vramscope_analysis::whatif::settings_line;
use vramscope_simulate::Answer;

use crate::args::OutputArgs;
use crate::whatif::{Question, SubjectArgs};
use search::Found;

/// The allocator settings that serve a recording best, found by simulation
///
/// Tries sensible settings, refines the best, and prints which needs the least memory and which calls the device least
/// often, with the smallest limit under which each still runs. Recommends nothing that depends on the addresses that
/// the device happens to hand out.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope tune snapshot.pickle
  vramscope tune snapshot.pickle --limit 40GiB
  vramscope tune snapshot.pickle --json | jq -r '.least_memory.line'")]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &TuneArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let question = args.subject.open(&args.output)?;
    let found = search::search(&question)?;
    if args.output.json {
        vramscope_files::json(&mut *out, &Report::new(&question, &found))?;
        writeln!(out)?;
    } else {
        print::print(&question, &found, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    path: String,
    device: i32,
    limit: Option<u64>,
    /// Part of the recorded device calls that the simulation reproduces, from 0 to 1.
    agreement: f64,
    simulations: usize,
    baseline: Candidate,
    candidates: Vec<Candidate>,
    least_memory: Option<Best>,
    fewest_device_calls: Option<Best>,
}

impl Report {
    fn new(question: &Question, found: &Found) -> Self {
        let best = |best: &search::Best| Best {
            line: settings_line(&best.answer.settings),
            smallest_limit: best.smallest_limit,
            candidate: Candidate::new(&best.answer),
        };
        Self {
            schema: "vramscope/tune/1",
            path: question.subject.opened.path.display().to_string(),
            device: question.subject.replay().device().0,
            limit: question.limit,
            agreement: question.study.agreement.fraction(),
            simulations: found.simulations,
            baseline: Candidate::new(&found.baseline),
            candidates: found.finalists.iter().map(Candidate::new).collect(),
            least_memory: found.least_memory.as_ref().map(best),
            fewest_device_calls: found.fewest_calls.as_ref().map(best),
        }
    }
}

#[derive(Serialize)]
struct Best {
    /// To paste into a shell.
    line: String,
    smallest_limit: Option<u64>,
    #[serde(flatten)]
    candidate: Candidate,
}

#[derive(Serialize)]
struct Candidate {
    settings: String,
    /// Whether it runs with every order of device addresses.
    runs: bool,
    agree: bool,
    reserved_peak: [u64; 2],
    device_allocs: [u64; 2],
    retries: [u64; 2],
}

impl Candidate {
    fn new(answer: &Answer) -> Self {
        Self {
            settings: answer.settings.to_string(),
            runs: answer.out_of_memory == 0,
            agree: answer.agree,
            reserved_peak: answer.reserved_peak.into(),
            device_allocs: answer.device_allocs.into(),
            retries: answer.retries.into(),
        }
    }
}
