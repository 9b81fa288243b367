//! Runs the scripted agent, scores transcripts of others, and writes the files of the cases.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use vramscope_evals::case::{Case, cases, root};
use vramscope_evals::score::{Score, table};
use vramscope_evals::scripted::{Call, Transcript, investigate};

/// Does an agent find the cause? See evals/README.md.
#[derive(Debug, Parser)]
enum Args {
    /// The scripted agent on every case
    Run {
        /// Write its transcripts here, one per line
        #[arg(long)]
        transcripts: Option<PathBuf>,
    },
    /// Score transcripts: one JSON object per line, {"case", "calls": [{"command", "output"}], "answer"}
    Score {
        /// Files of transcripts
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Python's pickle.load with the obvious loops on every case, with its time and tokens
    Python,
    /// Write each case as a folder for a real agent: recording, program, question; without the truth
    Files {
        /// Where to
        folder: PathBuf,
    },
    /// Tokens of every verb's default answer; fails if one is above 1500
    #[cfg(feature = "tokenizer")]
    Tokens {
        /// Recordings, or folders of them
        #[arg(default_value = "testdata/recordings")]
        paths: Vec<PathBuf>,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    let cases = cases()?;
    let folder = tempfile::tempdir()?;
    match Args::parse() {
        Args::Run { transcripts } => {
            let mut found = Vec::new();
            let before = Instant::now();
            for case in &cases {
                found.push(investigate(case, &case.file(folder.path())?));
            }
            let took = before.elapsed();
            if let Some(path) = transcripts {
                let lines: Vec<_> = found.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
                fs::write(path, lines.join("\n") + "\n")?;
            }
            report(&cases, &found, took)
        }
        Args::Score { files } => {
            let mut found = Vec::new();
            for path in files {
                let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                for line in text.lines().filter(|line| !line.trim().is_empty()) {
                    found.push(serde_json::from_str(line).with_context(|| path.display().to_string())?);
                }
            }
            report(&cases, &found, Duration::ZERO)
        }
        Args::Python => {
            let script = root().join("evals/baseline.py");
            let mut found = Vec::new();
            let before = Instant::now();
            for case in &cases {
                let file = case.file(folder.path())?;
                let output = Command::new("python3").arg(&script).arg(&file).output().context("python3")?;
                let output = String::from_utf8_lossy(&output.stdout).into_owned();
                let answer = output.lines().last().unwrap_or_default().to_owned();
                // An agent writes the script before it reads what it prints.
                let command = fs::read_to_string(&script)?;
                found.push(Transcript {
                    case: case.id.clone(),
                    calls: vec![Call { command, output }],
                    answer,
                });
            }
            report(&cases, &found, before.elapsed())
        }
        #[cfg(feature = "tokenizer")]
        Args::Tokens { paths } => {
            Ok(if vramscope_evals::tokens::table(&paths)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Args::Files { folder } => {
            for case in &cases {
                let here = folder.join(&case.id);
                fs::create_dir_all(&here)?;
                let file = case.file(&here)?;
                if !file.starts_with(&here) {
                    fs::copy(&file, here.join(file.file_name().context("a file")?))?;
                }
                if let Some(program) = &case.program {
                    fs::copy(root().join("evals/programs").join(program), here.join(program))?;
                }
                fs::write(here.join("question.txt"), format!("{}\n", case.question))?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn report(cases: &[Case], found: &[Transcript], took: Duration) -> anyhow::Result<ExitCode> {
    let mut scores = Vec::new();
    for transcript in found {
        let Some(case) = cases.iter().find(|case| case.id == transcript.case) else {
            bail!("there is no case {:?}", transcript.case)
        };
        scores.push(Score::new(case, transcript));
    }
    println!("{}", table(&scores).trim_end());
    if took > Duration::ZERO {
        println!("{:.1} s in all", took.as_secs_f64());
    }
    Ok(ExitCode::SUCCESS)
}
