//! Every verb on every file of a folder of attacks: a right answer or a clear error, soon and in proportion.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;
use vramscope_testkit::child::{self, Run};
use vramscope_testkit::scale::crash;
use vramscope_testkit::verbs::{self, VERBS};

#[derive(Args)]
pub(crate) struct AttacksArgs {
    /// A folder of files; those packed with xz or gzip are unpacked first
    folder: PathBuf,
    /// The program; without it the one that is built for this, optimized
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Every run, not only what is wrong and the worst
    #[arg(long)]
    all: bool,
}

/// Most CPU time that an answer may take.
const MOST_TIME: Duration = Duration::from_secs(5);

/// Most memory: this and a multiple of the input, beyond what the program takes for a file of a few bytes.
const BASE_BYTES: u64 = 24 << 20;
const BYTES_PER_BYTE: u64 = 64;

/// An answer that is longer than this, and than a multiple of the input, is none.
const MOST_PRINTED: u64 = 1 << 20;
const PRINTED_PER_BYTE: u64 = 1024;

/// Far more than [`MOST_TIME`] on a machine that others use.
const HANG: Duration = Duration::from_secs(100);

pub(crate) fn run(args: &AttacksArgs) -> anyhow::Result<()> {
    let program = crate::scaling::program(args.bin.as_ref())?;
    let folder = tempfile::tempdir()?;
    let files = unpack(&args.folder, folder.path())?;
    ensure!(!files.is_empty(), "{} has no files", args.folder.display());
    let out = folder.path().join("out");
    let ask = |verb: &[&str], file: &Path| -> anyhow::Result<Run> {
        let _ = fs::remove_file(&out);
        let mut command = Command::new(&program);
        let line = verbs::line(verb, &file.to_string_lossy(), &out.to_string_lossy());
        Ok(child::run(command.args(line).env("XDG_CACHE_HOME", "/dev/null"), HANG)?)
    };
    let empty = folder.path().join("empty.json");
    fs::write(&empty, r#"{"segments": [], "device_traces": [[]]}"#)?;
    let baselines: Vec<u64> =
        VERBS.iter().map(|verb| Ok(ask(verb, &empty)?.peak)).collect::<anyhow::Result<_>>()?;
    println!(
        "{} verbs; at most {} s, and {} MiB + {BYTES_PER_BYTE} times the input beyond {} to {} MiB for an empty file\n",
        VERBS.len(),
        MOST_TIME.as_secs(),
        BASE_BYTES >> 20,
        baselines.iter().min().unwrap_or(&0) >> 20,
        baselines.iter().max().unwrap_or(&0) >> 20
    );
    println!(
        "{:>9}  {:>7}  {:>7}  {:>7}  {:>9}  {:7}  file",
        "bytes", "answers", "errors", "most s", "most MiB", ""
    );
    let mut wrong = 0;
    for file in &files {
        let bytes = file.metadata()?.len();
        let (mut answers, mut errors, mut faults) = (0, 0, Vec::new());
        let (mut slowest, mut largest) = (Duration::ZERO, 0);
        for (verb, baseline) in VERBS.iter().zip(&baselines) {
            let mut run = ask(verb, file)?;
            if run.cpu > MOST_TIME {
                // Once more: a neighbour on the machine may have spoiled it.
                run = ask(verb, file)?;
            }
            match run.status.code() {
                Some(0 | 1) => answers += 1,
                _ => errors += 1,
            }
            (slowest, largest) = (slowest.max(run.cpu), largest.max(run.peak));
            let line = verb.join(" ");
            if args.all {
                println!(
                    "    {:6.2} s {:6} MiB {:9} bytes printed  {line}",
                    run.cpu.as_secs_f64(),
                    run.peak >> 20,
                    run.printed
                );
            }
            faults.extend(fault(&run, bytes, *baseline).map(|fault| format!("{line}: {fault}")));
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let verdict = if faults.is_empty() { "held" } else { "BROKEN" };
        println!(
            "{bytes:>9}  {answers:>7}  {errors:>7}  {:>7.2}  {:>9}  {verdict:7}  {name}",
            slowest.as_secs_f64(),
            largest >> 20
        );
        for fault in &faults {
            println!("    {fault}");
        }
        wrong += faults.len();
    }
    if wrong > 0 {
        bail!("{wrong} answers are wrong, late or out of proportion");
    }
    println!("\n{} files, {} runs: all held", files.len(), files.len() * VERBS.len());
    Ok(())
}

fn fault(run: &Run, bytes: u64, baseline: u64) -> Option<String> {
    let said = String::from_utf8_lossy(&run.stderr);
    let allowed = baseline + BASE_BYTES + BYTES_PER_BYTE * bytes;
    let printed = MOST_PRINTED + PRINTED_PER_BYTE * bytes;
    match () {
        () if crash(run).is_some() => crash(run),
        () if run.cpu > MOST_TIME => Some(format!("takes {:.1} s", run.cpu.as_secs_f64())),
        () if run.peak > allowed => {
            Some(format!("takes {} MiB of {} allowed", run.peak >> 20, allowed >> 20))
        }
        () if run.printed > printed => Some(format!("prints {} bytes", run.printed)),
        () if run.status.code() == Some(2) && said.trim().is_empty() => Some("fails without a word".into()),
        // A level is never below zero; what is compared may be, with a sign that is asked for.
        () if String::from_utf8_lossy(&run.stdout).contains("reserved -") => {
            Some("shows a level below zero".into())
        }
        () => None,
    }
}

/// Copies the files of a folder, those that are packed without their packing.
fn unpack(from: &Path, to: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let path = entry?.path();
        if !path.is_file() {
            continue;
        }
        let bytes = fs::read(&path)?;
        let name = path.file_name().context("a file has a name")?.to_string_lossy().into_owned();
        let mut unpacked = Vec::new();
        let name = if let Some(name) = name.strip_suffix(".xz") {
            lzma_rust2::XzReader::new(bytes.as_slice(), true).read_to_end(&mut unpacked)?;
            name
        } else if let Some(name) = name.strip_suffix(".gz") {
            flate2::read::MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked)?;
            name
        } else {
            unpacked = bytes;
            &name
        };
        let file = to.join(name);
        fs::write(&file, unpacked)?;
        files.push(file);
    }
    files.sort();
    Ok(files)
}
