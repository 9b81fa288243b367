//! An entry of the cache, or a kept answer, whose bytes were changed: what comes back is what was written, or nothing, or
//! the damage is noticed.
//!
//! The input is a list of changes to a file that is right: where, what and with which byte.

use std::fs::{self, File};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::OnceLock;

use vramscope_analysis::{Moment, Replay};
use vramscope_files::{Answer, Cache, Question};
use vramscope_mapped::{Access, Store, Writer, forget_damage, is_damaged};
use vramscope_snapshot::{Reader, Snapshot, stored};
use vramscope_testkit::shapes::SHAPES;
use xxhash_rust::xxh3::xxh3_64;

/// Enough that there are several chunks.
const EVENTS: u64 = 2000;

/// What is right.
struct Known {
    folder: tempfile::TempDir,
    entry: Vec<u8>,
    snapshot: Snapshot,
    said: String,
    question: Question,
    answer: Answer,
    /// Where the answer is kept, and its bytes.
    kept: (PathBuf, Vec<u8>),
}

fn known() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| make().unwrap_or_else(|error| panic!("what is right cannot be made: {error}")))
}

fn make() -> Result<Known, Box<dyn std::error::Error>> {
    // What the zeros of damaged columns lead to is no report.
    std::panic::set_hook(Box::new(|panic| {
        if !is_damaged() {
            eprintln!("{panic}");
        }
    }));
    let folder = tempfile::tempdir()?;
    let shape = SHAPES.first().ok_or("there are shapes")?;
    let mut reader = Reader::new();
    reader.feed(&(shape.make)(EVENTS))?;
    let snapshot = reader.finish()?;
    let replays: Vec<_> =
        snapshot.devices().into_iter().map(|device| Replay::new(&snapshot, device)).collect();
    let path = folder.path().join("entry");
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    let mut out = Writer::new(&file, u64::MAX)?;
    stored::put(&snapshot, &mut out)?;
    Replay::put_all(&replays, &mut out)?;
    out.finish(b"label")?;
    // Smaller files are not cached.
    let source = folder.path().join("source");
    fs::write(&source, vec![7; 3 << 20])?;
    let kept = folder.path().join("cache");
    let question = Cache::in_folder(kept.clone()).question(&source, "top".into()).ok_or("it is cached")?;
    let text: Vec<u8> = (0..100_000_u32).flat_map(u32::to_ne_bytes).collect();
    let answer = Answer { text: text.into(), warnings: vec!["careful".into()] };
    question.keep(&answer);
    let kept = fs::read_dir(kept)?.next().ok_or("an answer is kept")??.path();
    let said = said(&replays);
    let (entry, kept) = (fs::read(&path)?, (kept.clone(), fs::read(&kept)?));
    Ok(Known { folder, entry, snapshot, said, question, answer, kept })
}

/// Answers of replays, from most of their columns.
fn said(replays: &[Replay]) -> String {
    let mut said = String::new();
    for replay in replays {
        let end = replay.end();
        for at in [Moment::START, Moment(end.0 / 3), Moment(end.0 / 2), end] {
            let state = replay.state(at);
            let live: Vec<_> = state.allocations().collect();
            said += &format!("{:?} {live:?} {:?}\n", state.counters, state.holes);
        }
        said += &format!("{:?}\n", replay.made());
        replay.allocations().iter().for_each(|allocation| said += &format!("{allocation:?}\n"));
    }
    said
}

/// Changes a file. What comes back is how long it is to be once it was opened, if it is cut then.
fn change(bytes: &mut Vec<u8>, changes: &[u8]) -> Option<u64> {
    let mut later = None;
    for change in changes.chunks_exact(6) {
        let &[a, b, c, d, what, value] = change else { continue };
        let at = u32::from_le_bytes([a, b, c, d]) as usize % bytes.len().max(1);
        let end = |len: usize| (at + len).min(bytes.len());
        match what % 8 {
            0 => bytes.truncate(at),
            1 => later = Some(at as u64),
            2 => {
                let end = end(1 << 16);
                bytes.get_mut(at..end).unwrap_or_default().fill(0);
            }
            3 => {
                let end = end(64);
                bytes.get_mut(at..end).unwrap_or_default().fill(value);
            }
            4 => bytes.insert(at, value),
            5 => seal(bytes),
            6 => {
                // In the index or near it.
                let place = bytes.len().saturating_sub(at % 4096 + 1);
                bytes.get_mut(place).into_iter().for_each(|byte| *byte ^= value);
            }
            _ => bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= value),
        }
    }
    later
}

/// Makes the checksums of header and index right again, as if somebody had written an index of their own.
fn seal(bytes: &mut [u8]) {
    let start = bytes.get(8..16).and_then(|start| start.try_into().ok()).map(u64::from_ne_bytes);
    let Some(start) = start.and_then(|start| usize::try_from(start).ok()) else { return };
    let index = bytes.get(start..).unwrap_or_default();
    let (len, sum) = (index.len() as u64, xxh3_64(index));
    for (at, value) in [(16, len), (24, sum), (32, 0)] {
        put(bytes, at, value);
    }
    let sum = xxh3_64(bytes.get(..40).unwrap_or_default());
    put(bytes, 32, sum);
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    if let Some(place) = bytes.get_mut(at..at + 8) {
        place.copy_from_slice(&value.to_ne_bytes());
    }
}

fn is_sealed(changes: &[u8]) -> bool {
    changes.chunks_exact(6).any(|change| change.get(4).is_some_and(|what| what % 8 == 5))
}

/// Changes an entry or an answer as the input says. Whether it came back as it was.
pub(crate) fn check(input: &[u8]) -> bool {
    let Some((&first, changes)) = input.split_first() else { return false };
    let known = known();
    match first % 2 {
        0 => check_entry(known, changes),
        _ => check_answer(known, changes),
    }
}

fn check_answer(known: &Known, changes: &[u8]) -> bool {
    let (path, mut bytes) = known.kept.clone();
    change(&mut bytes, changes);
    if fs::write(&path, &bytes).is_err() {
        return false;
    }
    match known.question.recall() {
        Some(answer) => {
            assert!(is_sealed(changes) || answer == known.answer, "another answer");
            true
        }
        None => false,
    }
}

fn check_entry(known: &Known, changes: &[u8]) -> bool {
    let mut bytes = known.entry.clone();
    let cut = change(&mut bytes, changes);
    let path = known.folder.path().join("changed");
    let mut came_back = false;
    for access in [Access::Mapped, Access::Copied] {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let Ok(mut file) = file else { return false };
        if file.write_all(&bytes).is_err() {
            return false;
        }
        forget_damage();
        let read = || {
            let store = Store::open(&file, access, |label| label == b"label").ok()??;
            if let Some(cut) = cut {
                file.set_len(cut).ok()?;
            }
            if is_sealed(changes) {
                // Whatever an index says, its columns lie in the file.
                let columns = ["trace0.action", "text", "replay0.links"].map(|name| store.get::<u8>(name));
                columns.iter().flatten().for_each(|column| assert!(column.iter().count() == column.len()));
                return None;
            }
            let (snapshot, replays) = (stored::get(&store).ok()?, Replay::get_all(&store).ok()?);
            Some((said(&replays) == known.said, snapshot == known.snapshot))
        };
        match catch_unwind(AssertUnwindSafe(read)) {
            Ok(Some(same)) => {
                assert!(is_damaged() || same == (true, true), "something else, and nobody noticed");
                came_back |= same == (true, true);
            }
            Ok(None) => {}
            Err(_) => assert!(is_damaged(), "a panic without damage"),
        }
    }
    came_back
}
