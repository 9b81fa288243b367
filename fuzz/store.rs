//! An entry of the cache, a fact beside it, or a kept answer, whose bytes were changed: what comes back is what was written, or nothing.
//!
//! The input is a list of changes to a file that is right: where, what and with which byte.

use std::fs::{self, File};
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use vramscope_analysis::{Device, Moment, Put, Replay, Shelf};
use vramscope_files::{Answer, Cache, Question};
use vramscope_mapped::{Check, Store, Writer};
use vramscope_snapshot::{DeviceId, Reader, Snapshot, stored};
use vramscope_testkit::shapes::SHAPES;
use xxhash_rust::xxh3::xxh3_64;

/// Enough that there are several chunks.
const EVENTS: u64 = 2000;

const LABEL: &[u8] = b"label";

/// What is right.
struct Known {
    folder: tempfile::TempDir,
    entry: Vec<u8>,
    snapshot: Arc<Snapshot>,
    replays: Vec<Replay>,
    said: String,
    /// What is concluded about the first device.
    concluded: String,
    shelf: Arc<Folder>,
    /// Files of the shelf, and their bytes.
    facts: Vec<(PathBuf, Vec<u8>)>,
    question: Question,
    answer: Answer,
    /// Where the answer is kept, and its bytes.
    kept: (PathBuf, Vec<u8>),
}

/// Facts about the first device, a file for each.
#[derive(Debug)]
struct Folder(PathBuf);

impl Shelf for Folder {
    fn load(&self, _: DeviceId, name: &str) -> Option<Store> {
        load(&self.0.join(name), Check::Now)
    }

    fn store(&self, _: DeviceId, name: &str, put: Put<'_>) {
        let write = || -> io::Result<()> {
            let file = tempfile::NamedTempFile::new_in(&self.0)?;
            let mut out = Writer::new(file.as_file(), u64::MAX)?;
            put(&mut out)?;
            out.finish(LABEL)?;
            file.persist(self.0.join(name))?;
            Ok(())
        };
        assert!(write().is_ok(), "{name} can be written");
    }
}

fn load(path: &Path, check: Check) -> Option<Store> {
    Store::open(&File::open(path).ok()?, check, |label| label == LABEL).ok()?
}

fn known() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| make().unwrap_or_else(|error| panic!("what is right cannot be made: {error}")))
}

fn make() -> Result<Known, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let shape = SHAPES.first().ok_or("there are shapes")?;
    let mut reader = Reader::new();
    reader.feed(&(shape.make)(EVENTS))?;
    let snapshot = Arc::new(reader.finish()?);
    let replays: Vec<_> =
        snapshot.devices().into_iter().map(|device| Replay::new(&snapshot, device)).collect();
    let mut entry = Cursor::new(Vec::new());
    let mut out = Writer::new(&mut entry, u64::MAX)?;
    stored::put(&snapshot, &mut out)?;
    Replay::put_all(&replays, &mut out)?;
    out.finish(LABEL)?;
    let shelf = folder.path().join("facts");
    fs::create_dir(&shelf)?;
    let shelf = Arc::new(Folder(shelf));
    let first = replays.first().ok_or("there is a device")?;
    let concluded = concluded(&snapshot, first, &shelf);
    let mut facts = Vec::new();
    for file in fs::read_dir(&shelf.0)? {
        let path = file?.path();
        facts.push((path.clone(), fs::read(path)?));
    }
    facts.sort();
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
    let (entry, kept) = (entry.into_inner(), (kept.clone(), fs::read(&kept)?));
    Ok(Known { folder, entry, snapshot, replays, said, concluded, shelf, facts, question, answer, kept })
}

/// What is concluded about the allocations of a device that has this shelf.
fn concluded(snapshot: &Arc<Snapshot>, replay: &Replay, shelf: &Arc<Folder>) -> String {
    let device = Device::of(Arc::clone(snapshot), replay.clone()).on(Arc::<Folder>::clone(shelf));
    let conclusions = device.conclusions();
    let each =
        device.allocations().iter().map(|(index, _)| format!("{:?}\n", conclusions.of(&device, index)));
    each.chain([format!("{:?}\n{:?}", device.pools(), device.calls())]).collect()
}

/// What replays say, from most of their columns.
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

/// Changes a file.
fn change(bytes: &mut Vec<u8>, changes: &[u8]) {
    for change in changes.chunks_exact(6) {
        let &[a, b, c, d, what, value] = change else { continue };
        let at = u32::from_le_bytes([a, b, c, d]) as usize % bytes.len().max(1);
        let end = |len: usize| (at + len).min(bytes.len());
        match what % 8 {
            0 => bytes.truncate(at),
            1 => bytes.extend([value; 64]),
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
    match first % 3 {
        0 => check_entry(known, changes),
        1 => check_answer(known, changes),
        _ => check_fact(known, first / 3, changes),
    }
}

fn check_answer(known: &Known, changes: &[u8]) -> bool {
    let (path, mut bytes) = known.kept.clone();
    change(&mut bytes, changes);
    if replace(&path, &bytes).is_err() {
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

/// Changes the fact of a number. A device works out again what does not come back.
fn check_fact(known: &Known, number: u8, changes: &[u8]) -> bool {
    let facts = &known.facts;
    let (Some((path, right)), Some(replay)) =
        (facts.get(usize::from(number) % facts.len().max(1)), known.replays.first())
    else {
        return false;
    };
    let mut bytes = right.clone();
    change(&mut bytes, changes);
    if is_sealed(changes) || replace(path, &bytes).is_err() {
        return false;
    }
    let came_back = load(path, Check::Now).is_some();
    assert_eq!(concluded(&known.snapshot, replay, &known.shelf), known.concluded, "another conclusion");
    came_back
}

/// Puts another file in the place of one, as the program does: a file that is mapped stays what it is.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("tmp");
    fs::write(&beside, bytes)?;
    own(&beside)?;
    fs::rename(beside, path)
}

/// What others could have written is not read.
#[cfg(unix)]
fn own(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
}

#[cfg(not(unix))]
fn own(_: &Path) -> io::Result<()> {
    Ok(())
}

fn check_entry(known: &'static Known, changes: &[u8]) -> bool {
    let mut bytes = known.entry.clone();
    change(&mut bytes, changes);
    let path = known.folder.path().join("changed");
    let _ = fs::remove_file(&path);
    if fs::write(&path, &bytes).is_err() {
        return false;
    }
    let whole = move || match Store::in_memory(&known.entry) {
        Ok(store) => store,
        Err(error) => panic!("what was written can be read: {error}"),
    };
    let mut came_back = false;
    for check in [Check::Now, Check::WhenTouched(Box::new(whole))] {
        let read = || {
            let store = load(&path, check)?;
            if is_sealed(changes) {
                // Whatever an index says, its columns lie in the file.
                let columns = ["trace0.action", "text", "replay0.links"].map(|name| store.get::<u8>(name));
                columns.iter().flatten().for_each(|column| {
                    column.iter().count();
                });
                return None;
            }
            let (snapshot, replays) = (stored::get(&store).ok()?, Replay::get_all(&store).ok()?);
            Some((said(&replays) == known.said, snapshot == *known.snapshot))
        };
        if let Some(same) = read() {
            assert_eq!(same, (true, true), "something else came back");
            came_back = true;
        }
    }
    came_back
}
