//! Later commands on the same file: every verb from the cache, as text, as JSON and on a terminal, the first time and again,
//! with the page cache warm and cold; and questions with other arguments.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use rustix::fs::{Advice, Mode, OFlags, fadvise};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use vramscope_testkit::child::{self, Run};
use vramscope_testkit::verbs::PLAIN;

use crate::generate;
use crate::read::mib;
use crate::scaling::program;

/// What to reopen.
#[derive(Args)]
pub(crate) struct ReopenArgs {
    /// Snapshots; without any, synthetic ones of --events
    files: Vec<PathBuf>,
    /// Events of each synthetic file
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 7_000_000, 42_000_000])]
    events: Vec<u64>,
    /// Runs of each; the best counts
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// The program; without it the one that is built for this, optimized
    #[arg(long)]
    bin: Option<PathBuf>,
}

/// No command takes longer.
const LIMIT: Duration = Duration::from_secs(3600);

/// What an answer from the cache may take, whatever the size of the file.
const MOST: Duration = Duration::from_millis(150);
const MOST_BYTES: u64 = 100 << 20;

pub(crate) fn run(args: &ReopenArgs) -> anyhow::Result<()> {
    let program = program(args.bin.as_ref())?;
    for file in &args.files {
        measure(&program, file, args.runs)?;
    }
    if args.files.is_empty() {
        for &events in &args.events {
            let folder = tempfile::tempdir()?;
            let file = folder.path().join(format!("{events}.pickle"));
            generate::quietly(&file, events)?;
            measure(&program, &file, args.runs)?;
        }
    }
    Ok(())
}

/// Wall time, CPU time and peak memory.
struct Cost {
    wall: Duration,
    run: Run,
}

impl Cost {
    fn words(&self) -> String {
        let (wall, cpu) = (self.wall.as_secs_f64(), self.run.cpu.as_secs_f64());
        format!("{wall:>9.3}{cpu:>8.3}{:>7.0}", mib(self.run.peak))
    }

    /// Others may be at work on the machine, which CPU time does not count.
    fn is_enough(&self) -> bool {
        self.run.cpu.min(self.wall) <= MOST && self.run.peak <= MOST_BYTES
    }
}

/// How an answer is asked for.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Json,
    Terminal,
}

const FORMS: [Form; 3] = [Form::Text, Form::Json, Form::Terminal];

/// Questions with arguments, of two kinds. Of `{event}` there is one in the middle of the trace.
const OTHERS: [(&str, &[&str]); 2] = [
    (
        "a moment, a thing, some events",
        &[
            "at --at e:{event}",
            "at --at e:{event} --json --limit 20",
            "at --stack forward",
            "at --min-size 100MiB",
            "at --pool 0,0",
            "top --at e:{event}",
            "top --by churn",
            "top --since e:{event} --until e:{later}",
            "tree --at e:{event}",
            "tree --at e:{event} --format folded",
            "segments --at e:{event}",
            "overlap --at e:{event}",
            "fragmentation --request 1GiB",
            "phases --since e:{event}",
            "show e:{event}",
            "show a:1000",
            "show s:7",
            "show f:driver_calls-1",
            "events --skip {event} --limit 20",
            "events --since e:{event} --until e:{later} --json",
            "events --limit 1000 --json",
            "events --action oom",
            "events --stack forward --limit 20",
            "events --min-size 1GiB --limit 20",
            "at --category activations",
            "top --since e:{event}",
            "top --stack forward",
            "top --stack forward --since e:{event}",
            "summary --since e:{event}",
            "categories --at e:{event}",
            "categories --at e:{event} --json",
            "modules --at e:{event}",
            "modules --at e:{event} --by function",
            "pools --at e:{event}",
            "steps --limit 3",
            "churn --limit 3",
            "churn --since e:{event}",
            "minimum --until e:{event}",
            "lives --limit 3",
        ],
    ),
    (
        "the whole trace in another way",
        &[
            "at --at e:{event} --json",
            "top --min-size 1MiB",
            "summary --min-size 1MiB",
            "modules --stack forward",
            "categories --series 1000 --json",
            "steps --since e:{event}",
            "lives --until e:{event}",
            "whatif --set expandable_segments:True",
        ],
    ),
];

/// Events of a short stretch.
const STRETCH: u64 = 1000;

struct Bench<'a> {
    program: &'a Path,
    file: PathBuf,
    cache: tempfile::TempDir,
    runs: u32,
}

impl Bench<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.env("XDG_CACHE_HOME", self.cache.path());
        command
    }

    fn folder(&self) -> PathBuf {
        self.cache.path().join("vramscope")
    }

    fn cost(&self, stdin: Stdio, command: &mut Command) -> anyhow::Result<Cost> {
        let began = Instant::now();
        let run = child::run_on(stdin, command, LIMIT)?;
        ensure!(run.status.code() != Some(101), "{command:?}: {}", String::from_utf8_lossy(&run.stderr));
        Ok(Cost { wall: began.elapsed(), run })
    }

    /// Asks with some words; the first of them is the verb.
    fn ask(&self, words: &str, form: Form) -> anyhow::Result<Cost> {
        let mut command = self.command();
        command.args(words.split(' ')).arg(&self.file);
        match form {
            Form::Text => self.cost(Stdio::null(), &mut command),
            Form::Json => self.cost(Stdio::null(), command.arg("--json")),
            Form::Terminal => {
                // The program takes the width of any terminal that it is connected to.
                let (_terminal, stdin) = terminal(TERMINAL_COLUMNS)?;
                self.cost(stdin, &mut command)
            }
        }
    }

    /// The best of some runs.
    fn best(&self, words: &str, form: Form, is_cold: bool) -> anyhow::Result<Cost> {
        let mut best: Option<Cost> = None;
        for _ in 0..self.runs.max(1) {
            if is_cold {
                drop_pages(&[&self.file, &self.folder()])?;
            }
            let cost = self.ask(words, form)?;
            if best.as_ref().is_none_or(|best| cost.run.cpu < best.run.cpu) {
                best = Some(cost);
            }
        }
        best.context("at least one run")
    }
}

fn measure(program: &Path, file: &Path, runs: u32) -> anyhow::Result<()> {
    let file = file.canonicalize().with_context(|| file.display().to_string())?;
    let bench = Bench { program, file, cache: tempfile::tempdir()?, runs };
    println!("{}: {:.1} MiB", bench.file.display(), mib(bench.file.metadata()?.len()));
    let heading = format!("{:>9}{:>8}{:>7}", "wall s", "CPU s", "MiB");
    println!("{:40}{heading}", "");
    println!("{:40}{}", "summary, read", bench.ask("summary", Form::Text)?.words());
    let (all, slow) = verbs(&bench)?;
    let kept = sizes(&bench.folder())?;
    println!(
        "cache: {:.1} MiB in {} files; {slow} of {all} answers above {:.2} s or {:.0} MiB",
        mib(kept.1),
        kept.0,
        MOST.as_secs_f64(),
        mib(MOST_BYTES),
    );
    others(&bench, &heading)
}

/// Every verb after the first command: the first time, then again with the page cache warm and cold, in every form. Returns
/// how many answers there are, and how many of those that were given before exceed the limits.
fn verbs(bench: &Bench<'_>) -> anyhow::Result<(usize, usize)> {
    println!("\n{:16}{:>35}{:>35}{:>35}", "", "text", "--json", "terminal");
    let heading = format!("{:>9}{:>7}{:>6}{:>7}{:>6}", "first", "again", "cold", "wall", "MiB");
    println!("{:16}{heading}{heading}{heading}", "");
    let (mut all, mut slow) = (0, 0);
    for verb in PLAIN {
        print!("{verb:16}");
        for form in FORMS {
            // All events as JSON are as long as the file.
            if matches!(form, Form::Json) && *verb == "events" {
                print!("{:>35}", "-");
                continue;
            }
            let first = bench.ask(verb, form)?.run.cpu.as_secs_f64();
            let (warm, cold) = (bench.best(verb, form, false)?, bench.best(verb, form, true)?);
            all += 2;
            slow += [&warm, &cold].into_iter().filter(|cost| !cost.is_enough()).count();
            let peak = warm.run.peak.max(cold.run.peak);
            let [warm, cold, wall] = [warm.run.cpu, cold.run.cpu, cold.wall].map(|time| time.as_secs_f64());
            print!("{first:>9.3}{warm:>7.3}{cold:>6.3}{wall:>7.3}{:>6.0}", mib(peak));
        }
        println!();
    }
    Ok((all, slow))
}

/// Questions with other arguments: some look things up, others go through the trace the first time. Facts that lie beside the
/// entry by then help both.
fn others(bench: &Bench<'_>, heading: &str) -> anyhow::Result<()> {
    let summary = bench.ask("summary", Form::Json)?.run.stdout;
    let summary = String::from_utf8_lossy(&summary);
    let events = summary.split_once("\"events\":").map(|(_, rest)| rest.trim_start());
    let events =
        events.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok());
    let event = events.context("summary says how many events there are")? / 2;
    for (kind, questions) in OTHERS {
        println!("\n{kind:56}{:>24}{:>24}", "first", "again, warm");
        println!("{:56}{heading}{heading}", "");
        let mut slow = 0;
        for question in questions {
            let later = (event + STRETCH).to_string();
            let words = question.replace("{event}", &event.to_string()).replace("{later}", &later);
            let (first, again) = (bench.ask(&words, Form::Text)?, bench.best(&words, Form::Text, false)?);
            slow += usize::from(!first.is_enough());
            let how = match (first.is_enough(), again.is_enough()) {
                (true, _) => "within the limits",
                (false, true) => "beyond the limits the first time",
                (false, false) => "beyond the limits",
            };
            println!("{words:56}{}{}  {how}", first.words(), again.words());
        }
        println!("{slow} of {} beyond the limits the first time", questions.len());
    }
    println!();
    Ok(())
}

/// Columns of the terminal.
const TERMINAL_COLUMNS: u16 = 100;

/// A terminal, and its end that a program is connected to.
fn terminal(columns: u16) -> anyhow::Result<(OwnedFd, Stdio)> {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&terminal)?;
    unlockpt(&terminal)?;
    let path = ptsname(&terminal, Vec::new())?;
    let end = rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?;
    tcsetwinsize(&end, Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?;
    Ok((terminal, end.into()))
}

fn sizes(folder: &Path) -> anyhow::Result<(usize, u64)> {
    let mut sum = (0, 0);
    for entry in fs::read_dir(folder)? {
        sum = (sum.0 + 1, sum.1 + entry?.metadata()?.len());
    }
    Ok(sum)
}

/// Makes the kernel forget what it has of files and of what is in folders.
fn drop_pages(paths: &[&Path]) -> anyhow::Result<()> {
    for path in paths {
        if path.is_dir() {
            for entry in fs::read_dir(path)? {
                drop_pages(&[&entry?.path()])?;
            }
            continue;
        }
        let file = File::open(path)?;
        // Only what is written already can be forgotten.
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}
