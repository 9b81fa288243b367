//! One measurement, in a process of its own so that nothing before it counts.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use vramscope_files::{Cache, Input, find, open};
use vramscope_snapshot::Reader;

use crate::peak_memory;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stage {
    /// Stepping over the operations
    Walk,
    /// Stepping over the tokens of CSV or JSON, or the bytes of a database
    Scan,
    /// Bytes in memory into the model
    Read,
    /// A file until any question can be asked
    Open,
    /// The same from the cache
    Reopen,
}

/// The best of several runs, and by how much they raised the peak memory of the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    pub(crate) seconds: f64,
    pub(crate) peak_bytes: u64,
    /// Events in the file.
    pub(crate) events: u64,
}

/// As [`vramscope_files`] reads.
const CHUNK: usize = 1 << 19;

pub(crate) fn run(stage: Stage, file: &Path, runs: u32) -> anyhow::Result<()> {
    let (inputs, _) = find(&[file.to_owned()]);
    let input = inputs.first().context("no input")?;
    let mut events = 0;
    let (best, peak_bytes) = match stage {
        Stage::Walk => {
            let bytes = fs::read(file)?;
            best(runs, || Ok(vramscope_pickle::walk(&bytes).map(drop)?))?
        }
        Stage::Scan => {
            let bytes = fs::read(file)?;
            best(runs, || scan(&bytes))?
        }
        Stage::Read => {
            let bytes = fs::read(file)?;
            best(runs, || {
                let mut reader = Reader::new().expect_len(bytes.len() as u64);
                for chunk in bytes.chunks(CHUNK) {
                    reader.feed(chunk)?;
                }
                events = reader.finish()?.traces.iter().map(|trace| trace.events.len() as u64).sum();
                Ok(())
            })?
        }
        Stage::Open => best(runs, || {
            events = open_once(input, None)?;
            Ok(())
        })?,
        Stage::Reopen => {
            let folder = tempfile::tempdir()?;
            let cache = Cache::in_folder(folder.path().to_owned());
            open_once(input, Some(&cache))?;
            best(runs, || {
                events = open_once(input, Some(&cache))?;
                Ok(())
            })?
        }
    };
    let measurement = Measurement { seconds: best.as_secs_f64(), peak_bytes, events };
    println!("{}", serde_json::to_string(&measurement)?);
    Ok(())
}

fn open_once(input: &Input, cache: Option<&Cache>) -> anyhow::Result<u64> {
    let opened = open(input, cache, &())?;
    Ok(opened.devices.iter().map(|replay| replay.events() as u64).sum())
}

fn best(runs: u32, mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<(Duration, u64)> {
    let before = peak_memory();
    let mut best = Duration::MAX;
    for _ in 0..runs.max(1) {
        let began = Instant::now();
        work()?;
        best = best.min(began.elapsed());
    }
    Ok((best, peak_memory().saturating_sub(before)))
}

/// As little as can be done with a file of a profile.
fn scan(bytes: &[u8]) -> anyhow::Result<()> {
    match bytes.first() {
        Some(b'{' | b'[') => {
            serde_json::from_slice::<serde::de::IgnoredAny>(bytes)?;
        }
        Some(b'S') => {
            std::hint::black_box(bytes.iter().fold(0_u64, |sum, &byte| sum.wrapping_add(byte.into())));
        }
        _ => {
            let mut reader = csv_core::Reader::new();
            let (mut rest, mut out, mut ends) = (bytes, vec![0; 1 << 16], vec![0; 64]);
            loop {
                let (result, read, _, _) = reader.read_record(rest, &mut out, &mut ends);
                rest = rest.get(read..).unwrap_or_default();
                if matches!(result, csv_core::ReadRecordResult::End) {
                    break;
                }
            }
        }
    }
    Ok(())
}
