//! A second command on the same file: every verb from the cache, with the page cache warm and cold.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use rustix::fs::{Advice, fadvise};
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

    fn is_enough(&self) -> bool {
        self.run.cpu.min(self.wall) <= MOST && self.run.peak <= MOST_BYTES
    }
}

fn measure(program: &Path, file: &Path, runs: u32) -> anyhow::Result<()> {
    let file = file.canonicalize().with_context(|| file.display().to_string())?;
    let cache = tempfile::tempdir()?;
    let ask = |verb: &str| -> anyhow::Result<Cost> {
        let mut command = Command::new(program);
        // Nothing else is to be at work on it meanwhile.
        command.arg(verb).arg(&file).env("XDG_CACHE_HOME", cache.path()).env("VRAMSCOPE_CACHE_FILL", "0");
        let began = Instant::now();
        let run = child::run(&mut command, LIMIT)?;
        ensure!(run.status.code() != Some(101), "{verb}: {}", String::from_utf8_lossy(&run.stderr));
        Ok(Cost { wall: began.elapsed(), run })
    };
    let best = |verb: &str, prepare: &dyn Fn() -> anyhow::Result<()>| -> anyhow::Result<Cost> {
        let mut best: Option<Cost> = None;
        for _ in 0..runs.max(1) {
            prepare()?;
            let cost = ask(verb)?;
            if best.as_ref().is_none_or(|best| cost.wall < best.wall) {
                best = Some(cost);
            }
        }
        best.context("at least one run")
    };
    println!("{}: {:.1} MiB", file.display(), mib(file.metadata()?.len()));
    let read = ask("summary")?;
    println!("{:16}{}", "summary, read", read.words());
    println!("{:16}{:>24}{:>24}{:>24}", "", "first, from columns", "again, warm", "again, cold");
    let heading = format!("{:>9}{:>8}{:>7}", "wall s", "CPU s", "MiB");
    println!("{:16}{heading}{heading}{heading}", "");
    let mut slow = 0;
    for verb in PLAIN {
        let first = ask(verb)?;
        let warm = best(verb, &|| Ok(()))?;
        let cold = best(verb, &|| drop_pages(&[&file, &cache.path().join("vramscope")]))?;
        slow += u32::from(!warm.is_enough() || !cold.is_enough());
        println!("{verb:16}{}{}{}", first.words(), warm.words(), cold.words());
    }
    let kept = sizes(&cache.path().join("vramscope"))?;
    println!("cache: {:.1} MiB in {} files; {slow} verbs above 0.15 s or 100 MiB\n", mib(kept.1), kept.0);
    Ok(())
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
