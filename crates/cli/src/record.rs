//! `vramscope run`: runs a program unchanged and records every process of it that uses a GPU.
//!
//! The recorder is the Python package, which comes with this program in one wheel. This verb finds a Python that has it
//! and becomes `python -m vramscope run`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use clap::{Args as ClapArgs, ValueEnum};

/// Runs a program unchanged and records every process of it that uses a GPU
///
/// Snapshots are written at out of memory, on exit, on SIGUSR1 and every N steps, with roles, capacity and versions
/// beside each. The exit code is the program's.
#[derive(Debug, ClapArgs)]
#[command(
    override_usage = "vramscope run [OPTIONS] -- <COMMAND> [ARGUMENT]...",
    after_help = "Examples:
  vramscope run -- python train.py
  vramscope run -o run/ --every 100 -- torchrun --nproc-per-node=8 train.py
  vramscope run -- accelerate launch train.py"
)]
pub(crate) struct RunArgs {
    /// Folder for snapshots
    #[arg(short, long, value_name = "DIR", default_value = "vramscope-out")]
    output: PathBuf,
    /// Also write a snapshot every N optimizer steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,
    /// Events that the ring buffer holds [default: 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_entries: Option<u64>,
    /// Python frames only, or C++ frames too: larger files, slower dumps
    #[arg(long, value_enum)]
    stacks: Option<Stacks>,
    /// Store the lines of your own source around frames
    #[arg(long)]
    source: bool,
    /// Store the name of this machine
    #[arg(long)]
    hostname: bool,
    /// Do not summarize after out of memory
    #[arg(long)]
    no_summary: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Stacks {
    Python,
    All,
}

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let python = find(&args.command)?;
    let mut command = Command::new(&python);
    command.args(["-m", "vramscope", "run", "--output"]).arg(&args.output);
    for (name, number) in [("--every", args.every), ("--max-entries", args.max_entries)] {
        if let Some(number) = number {
            command.args([name, &number.to_string()]);
        }
    }
    match args.stacks {
        Some(Stacks::Python) => drop(command.args(["--stacks", "python"])),
        Some(Stacks::All) => drop(command.args(["--stacks", "all"])),
        None => {}
    }
    let flags = [("--source", args.source), ("--hostname", args.hostname), ("--no-summary", args.no_summary)];
    command.args(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name));
    command.arg("--").args(&args.command);
    // The summary after out of memory is this program's.
    if std::env::var_os(PROGRAM).is_none()
        && let Ok(program) = std::env::current_exe()
    {
        command.env(PROGRAM, program);
    }
    become_it(command).with_context(|| format!("cannot run {}", python.display()))
}

/// Names the program that the package asks.
const PROGRAM: &str = "VRAMSCOPE_BIN";

/// Takes the place of this process, so that signals and the exit code are the program's.
#[cfg(unix)]
fn become_it(mut command: Command) -> std::io::Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    Err(command.exec())
}

#[cfg(not(unix))]
fn become_it(mut command: Command) -> std::io::Result<ExitCode> {
    let status = command.status()?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// A Python with the package: that of the command, of the environment, beside this program, or on the path.
fn find(command: &[OsString]) -> anyhow::Result<PathBuf> {
    let mut tried: Vec<PathBuf> = Vec::new();
    for python in candidates(command) {
        if tried.contains(&python) {
            continue;
        }
        if has_package(&python) {
            return Ok(python);
        }
        tried.push(python);
    }
    match tried.first() {
        Some(python) => bail!(
            "{} has no package vramscope, which records. Install it: {} -m pip install vramscope",
            python.display(),
            python.display()
        ),
        None => bail!(
            "no Python found, which records. Activate the environment of the program, or put python3 on the PATH, and \
             there: pip install vramscope"
        ),
    }
}

fn candidates(command: &[OsString]) -> impl Iterator<Item = PathBuf> {
    let of_command = command.first().and_then(|word| on_path(word)).and_then(|path| interpreter(&path));
    let bin = if cfg!(windows) { "Scripts" } else { "bin" };
    let environment = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(std::env::var_os);
    let environment = environment.flat_map(move |folder| {
        // Conda on Windows has python.exe at the top.
        [Path::new(&folder).join(bin), PathBuf::from(&folder)]
    });
    let beside = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned));
    let in_folders = environment.chain(beside).flat_map(|folder| PYTHONS.map(|name| folder.join(name)));
    let in_folders = in_folders.filter(|path| path.is_file());
    of_command
        .into_iter()
        .chain(in_folders)
        .chain(PYTHONS.iter().filter_map(|name| on_path(OsStr::new(name))))
}

const PYTHONS: [&str; 2] = if cfg!(windows) { ["python.exe", "python3.exe"] } else { ["python3", "python"] };

/// Where a program is that is typed as a name or a path.
fn on_path(word: &OsStr) -> Option<PathBuf> {
    let typed = Path::new(word);
    if typed.components().count() > 1 {
        return typed.is_file().then(|| typed.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(typed)).find(|path| path.is_file())
}

/// The Python that a program is, or that its first line names, as those of torchrun and accelerate do.
fn interpreter(program: &Path) -> Option<PathBuf> {
    let name = program.file_name()?.to_string_lossy();
    if name.starts_with("python") || name.starts_with("pypy") {
        return Some(program.to_owned());
    }
    let mut line = Vec::new();
    BufReader::new(File::open(program).ok()?.take(LONGEST_LINE)).read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8(line).ok()?;
    let mut words = line.strip_prefix("#!")?.split_whitespace();
    let path = Path::new(words.next()?);
    let is_env = path.file_name()? == "env";
    let path = if is_env { on_path(OsStr::new(words.next()?))? } else { path.to_owned() };
    let name = path.file_name()?.to_string_lossy().into_owned();
    (name.starts_with("python") && path.is_file()).then_some(path)
}

/// A longer first line names no interpreter.
const LONGEST_LINE: u64 = 4096;

fn has_package(python: &Path) -> bool {
    let asked = Command::new(python)
        .args(["-c", "import vramscope.run"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}
