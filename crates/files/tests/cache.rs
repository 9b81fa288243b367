//! Opening again is instant, and never wrong.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use vramscope_files::{Cache, Opened, find, open};
use vramscope_testkit::{Dialect, Options, Program, write};

/// A folder with a snapshot that is large enough to be cached, and a cache.
struct Place {
    folder: tempfile::TempDir,
    cache: Cache,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::in_folder(folder.path().join("cache"));
        let place = Self { folder, cache };
        place.write(1);
        place
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("snapshot.pickle")
    }

    fn write(&self, seed: u64) {
        let program = Program::new(Options { events: 20_000, seed, ..Options::default() });
        write::write(&program, Dialect::Protocol(4), File::create(self.file()).unwrap()).unwrap();
        assert!(self.file().metadata().unwrap().len() > 2 << 20);
    }

    fn open(&self) -> Opened {
        let inputs = find(&[self.file()]).0;
        let mut opened = open(&inputs[0], Some(&self.cache), &()).unwrap();
        opened.wait_until_cached();
        opened
    }

    /// The Arrow files in the cache.
    fn entries(&self) -> Vec<PathBuf> {
        let listed = fs::read_dir(self.folder.path().join("cache")).into_iter().flatten();
        let paths = listed.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "arrow")).collect()
    }
}

#[test]
fn the_second_time_it_comes_from_the_cache_and_is_the_same() {
    let place = Place::new();
    let first = place.open();
    let second = place.open();
    assert!(!first.from_cache && second.from_cache);
    assert!(first.snapshot == second.snapshot);
    assert_eq!(first.bytes, second.bytes);
}

#[test]
fn another_file_at_the_same_path_is_read() {
    let place = Place::new();
    place.open();
    place.write(2);
    let opened = place.open();
    assert!(!opened.from_cache);
    assert!(place.open().from_cache, "and takes the place of the old one");
    assert_eq!(place.entries().len(), 1);
}

/// A changed byte with the size and time of before: a copy that was restored, say.
#[test]
fn content_counts_beside_size_and_time() {
    let place = Place::new();
    place.open();
    let modified = place.file().metadata().unwrap().modified().unwrap();
    let mut bytes = fs::read(place.file()).unwrap();
    let last = bytes.len() - 40;
    bytes[last] ^= 1;
    fs::write(place.file(), bytes).unwrap();
    File::options().write(true).open(place.file()).unwrap().set_modified(modified).unwrap();
    assert!(!place.open().from_cache);
}

#[test]
fn a_damaged_entry_is_not_used() {
    let place = Place::new();
    let first = place.open();
    let [entry] = place.entries().try_into().unwrap();
    let whole = fs::read(&entry).unwrap();
    for damaged in [whole[..whole.len() / 2].to_vec(), vec![0; whole.len()], Vec::new(), {
        let mut flipped = whole.clone();
        flipped[whole.len() / 3] ^= 0x10;
        flipped
    }] {
        fs::write(&entry, damaged).unwrap();
        let opened = place.open();
        assert!(!opened.from_cache);
        assert!(opened.snapshot == first.snapshot);
        assert!(place.open().from_cache, "the entry is mended");
    }
}

#[test]
fn the_oldest_entries_make_room() {
    let place = Place::new();
    place.open();
    let size = place.entries()[0].metadata().unwrap().len();
    let cache = place.cache.clone().with_limit(size * 5 / 2);
    for copy in 0..4 {
        let path = place.folder.path().join(format!("copy{copy}.pickle"));
        fs::copy(place.file(), &path).unwrap();
        open(&find(&[path]).0[0], Some(&cache), &()).unwrap();
    }
    let total: u64 = place.entries().iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(total <= size * 5 / 2, "{total} bytes are kept");
    assert!(!place.open().from_cache, "the first one had to go");
}

#[test]
fn a_cache_that_cannot_be_written_changes_nothing() {
    let place = Place::new();
    fs::write(place.folder.path().join("file"), "in the way").unwrap();
    let cache = Cache::in_folder(place.folder.path().join("file/cache"));
    let input = &find(&[place.file()]).0[0];
    assert!(!open(input, Some(&cache), &()).unwrap().from_cache);
    assert!(!open(input, Some(&cache), &()).unwrap().from_cache);
}

#[test]
fn small_files_are_not_worth_it() {
    let place = Place::new();
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings/mempool.pickle.xz");
    let input = &find(&[recording]).0[0];
    open(input, Some(&place.cache), &()).unwrap();
    assert!(place.entries().is_empty());
}

/// Copies a file's time to another.
fn keep_time(from: &fs::Metadata, to: &Path) {
    File::options().write(true).open(to).unwrap().set_modified(from.modified().unwrap()).unwrap();
}

#[cfg(unix)]
#[test]
fn a_change_that_keeps_size_and_time_is_seen() {
    let place = Place::new();
    place.open();
    let (before, mut bytes) = (place.file().metadata().unwrap(), fs::read(place.file()).unwrap());
    // One byte between the samples.
    let at = 64 * 1024 + 100;
    bytes[at] = bytes[at].wrapping_add(1);
    fs::write(place.file(), bytes).unwrap();
    keep_time(&before, &place.file());
    let after = place.file().metadata().unwrap();
    assert_eq!((before.len(), before.modified().unwrap()), (after.len(), after.modified().unwrap()));
    assert!(!place.open().from_cache);
}

#[cfg(unix)]
#[test]
fn a_changed_file_beside_it_is_seen() {
    let place = Place::new();
    let beside = place.folder.path().join("device_0_memUsageInfo_20250101120000.csv");
    assert!(!place.open().from_cache);
    assert!(place.open().from_cache);
    fs::write(&beside, "a,1\n").unwrap();
    assert!(!place.open().from_cache, "it has come");
    assert!(place.open().from_cache);
    let before = beside.metadata().unwrap();
    fs::write(&beside, "a,2\n").unwrap();
    keep_time(&before, &beside);
    assert!(!place.open().from_cache, "it says something else");
}
