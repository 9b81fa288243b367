//! Opening again is instant, and never wrong.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use vramscope_analysis::pools::Pools;
use vramscope_analysis::{
    AllocIdx, Conclusions, Fragmentation, Moment, Replay, SAMPLES, fragmentation, makers, phases,
};
use vramscope_files::{Answer, Cache, Opened, find, findings, open};
use vramscope_format::Units;
use vramscope_snapshot::{Action, Actions};
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
        self.write_events(20_000, seed);
    }

    fn write_events(&self, events: u64, seed: u64) {
        let program = Program::new(Options { events, seed, ..Options::default() });
        write::write(&program, Dialect::Protocol(4), File::create(self.file()).unwrap()).unwrap();
        assert!(self.file().metadata().unwrap().len() > 2 << 20);
    }

    fn open(&self) -> Opened {
        let inputs = find(&[self.file()]).0;
        let opened = open(&inputs[0], Some(&self.cache), &()).unwrap();
        opened.wait_until_cached();
        opened
    }

    /// Names of the facts that are kept.
    fn kept(&self) -> Vec<String> {
        let listed = fs::read_dir(self.folder.path().join("cache")).into_iter().flatten();
        let names = listed.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let facts =
            names.filter_map(|name| name.strip_suffix(".kept")?.rsplit('-').next().map(str::to_owned));
        let mut facts: Vec<_> = facts.collect();
        facts.sort();
        facts
    }

    /// The entries of the cache.
    fn entries(&self) -> Vec<PathBuf> {
        let listed = fs::read_dir(self.folder.path().join("cache")).into_iter().flatten();
        let paths = listed.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "columns")).collect()
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
    for damaged in [whole[..whole.len() / 2].to_vec(), vec![0; whole.len()], Vec::new()] {
        replace(&entry, &damaged);
        let opened = place.open();
        assert!(!opened.from_cache);
        assert!(opened.snapshot == first.snapshot);
        assert!(place.open().from_cache, "the entry is mended");
    }
}

/// Puts a file into the cache as the program does: beside its name, then renamed. One that is mapped stays what it is.
fn replace(path: &Path, bytes: &[u8]) {
    let beside = path.with_extension("tmp");
    fs::write(&beside, bytes).unwrap();
    fs::set_permissions(&beside, path.metadata().unwrap().permissions()).unwrap();
    fs::rename(&beside, path).unwrap();
}

/// Columns that are damaged are found when they are looked at: then the file is read again, and the entry is gone.
#[test]
fn a_damaged_column_is_read_from_the_file() {
    let place = Place::new();
    let first = place.open();
    let [entry] = place.entries().try_into().unwrap();
    let whole = fs::read(&entry).unwrap();
    for third in 0..3 {
        let mut damaged = whole.clone();
        // Bytes of a third of all pieces, but for the index at the end.
        let end = damaged.len() - (64 << 10);
        for piece in damaged[1 << 16..end].chunks_mut(1 << 16).skip(third).step_by(3) {
            piece[0] ^= 0x10;
        }
        replace(&entry, &damaged);
        let opened = open(&find(&[place.file()]).0[0], Some(&place.cache), &()).unwrap();
        assert!(opened.snapshot == first.snapshot && said(&opened) == said(&first), "third {third}");
        assert!(place.entries().is_empty());
        fs::write(&entry, &whole).unwrap();
        #[cfg(unix)]
        fs::set_permissions(&entry, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
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

/// What replays say at some moments.
fn said(opened: &Opened) -> Vec<String> {
    let replays = opened.devices.iter();
    replays
        .flat_map(|replay| {
            let events = replay.events() as u32;
            (0..=events).step_by(997).map(|moment| {
                let state = replay.state(Moment(moment));
                format!("{:?} {:?} {:?}", state.counters, state.live, replay.verdict())
            })
        })
        .collect()
}

/// What is kept at some moments, and beside the entry, is what a walk over the whole trace finds. The trace is long enough
/// that several sets of live allocations are stored.
#[test]
fn a_moment_from_the_cache_is_that_of_a_whole_walk() {
    let place = Place::new();
    place.write_events(300_000, 3);
    let first = place.open();
    let again = || open(&find(&[place.file()]).0[0], Some(&place.cache), &()).unwrap();
    let (read, kept) = (&first.devices[0], again());
    assert!(kept.from_cache);
    let replay = &kept.devices[0];
    let mut held = first.snapshot.segments.len();
    for at in (0..=replay.events() as u32).step_by(7_919).map(Moment) {
        let table = read.allocations().iter();
        let walked: Vec<_> = table.filter(|(_, allocation)| allocation.is_live(at)).collect();
        let mut live = replay.live_rows(at);
        live.sort_unstable_by_key(|(index, _)| *index);
        assert!(live == walked, "{at:?}");
        let requested: u64 = walked.iter().map(|(_, allocation)| allocation.requested).sum();
        assert_eq!(replay.counters(at).requested.unsigned_abs(), requested, "{at:?}");
        assert_eq!(replay.held(at), read.held(at), "{at:?}");
        let reserved: u64 = replay.held(at).iter().map(|range| range.size).sum();
        assert_eq!(replay.counters(at).reserved.unsigned_abs(), reserved, "{at:?}");
        held = held.max(replay.held(at).len());
    }
    assert!(held > 1);
    let mut made = vec![(0, 0, 0); first.snapshot.stacks.ids().count()];
    for (_, allocation) in read.allocations().iter() {
        let (count, bytes, largest) = &mut made[allocation.stack.index()];
        (*count, *bytes) = (*count + 1, *bytes + allocation.requested);
        *largest = allocation.requested.max(*largest);
    }
    for (stack, found) in makers(&replay.made()) {
        assert_eq!((found.count, found.bytes, found.largest), made[stack.index()], "{stack:?}");
    }
    assert_eq!(makers(&replay.made()).count(), made.iter().filter(|(count, ..)| *count > 0).count());
    assert!(replay.made() == read.made());
    for (from, to) in [(0, 262_144), (0, 299_000), (1, 262_145), (70_000, 80_000)] {
        let (from, to) = (Moment(from), Moment(to));
        let made = |replay: &Replay| {
            let made = replay.made_between(from, to);
            makers(&made).map(|(stack, made)| (stack, *made)).collect::<Vec<_>>()
        };
        assert!(made(replay) == made(read), "{from:?} to {to:?}");
        let count: u64 = made(replay).iter().map(|(_, made)| made.count).sum();
        let walked = read.allocations().iter().filter(|(_, found)| found.closed > from && found.opened <= to);
        assert_eq!(count, walked.count() as u64, "{from:?} to {to:?}");
    }
    let [kept_events, events] = [&kept, &first].map(|opened| opened.snapshot.events(replay.device()));
    assert_eq!(kept_events.distinct_stacks(), events.distinct_stacks());
    for (action, sizes) in [
        (Action::SegmentAlloc, 0..=u64::MAX),
        (Action::Alloc, 20 << 20..=30 << 20),
        (Action::FreeCompleted, 777..=777),
        (Action::Oom, 0..=u64::MAX),
    ] {
        let walked = events.iter().enumerate().take(290_001).skip(1000);
        let walked = walked.filter(|(_, event)| event.action == action && sizes.contains(&event.size));
        let walked: Vec<_> = walked.map(|(row, _)| row).collect();
        let found = kept_events.rows_like(1000..290_001, Actions::of(|one| one == action), sizes);
        assert!(found.eq(walked), "{action:?}");
    }
    // Worked out, then from the file beside the entry.
    let (fresh, pools) = (read.conclusions(), Pools::all(read));
    for opened in [again(), again()] {
        let kept = &opened.devices[0];
        let found = kept.conclusions();
        assert_eq!(kept.steps(), read.steps());
        for index in (0..kept.allocations().len() as u32).step_by(13).map(AllocIdx) {
            let of = |found: &Conclusions| format!("{:?}", found.of(kept, index));
            assert_eq!(of(&found), of(&fresh));
            assert_eq!(found.backward_of(kept, index), fresh.backward_of(read, index));
        }
        assert_eq!(findings(kept, Units::Binary), findings(read, Units::Binary));
        assert_eq!(kept.failures(Units::Binary), read.failures(Units::Binary));
        assert_eq!(kept.spans(), read.spans());
        assert_eq!(phases(kept), phases(read));
        assert_eq!(kept.curves(), read.curves());
        assert_eq!(kept.module_peaks(), read.module_peaks());
        assert_eq!(kept.stepwise(), read.stepwise());
        assert_eq!(kept.calls(), read.calls());
        assert_eq!(kept.lives(), read.lives());
        assert_eq!(kept.minimum(), read.minimum());
        let whole = (Moment::START, read.end());
        for request in [4 << 10, 1 << 20, 3 << 30] {
            let asked = fragmentation(read, whole, SAMPLES, Some(request), |_| true);
            let known = Fragmentation::clone(&kept.fragmentation()).for_request(kept, request);
            assert_eq!(known, asked, "{request}");
        }
        let table = kept.pools();
        for at in (0..=kept.events() as u32).step_by(7_919).map(Moment) {
            let summaries = pools.summaries(read, at);
            assert_eq!(table.summaries(kept, at), summaries, "{at:?}");
        }
        assert!(
            table.rows().iter().map(|row| (row.pool, row.stream, row.known)).eq(pools
                .envelopes()
                .iter()
                .map(|envelope| (envelope.pool, envelope.stream, envelope.known)))
        );
        for index in (0..kept.allocations().len() as u32).step_by(13).map(AllocIdx) {
            assert_eq!(table.pool_of(index), pools.pool_of(index));
        }
    }
}

/// The command that reads a file keeps what it found out, too.
#[test]
fn facts_of_the_first_command_are_kept() {
    let place = Place::new();
    let first = open(&find(&[place.file()]).0[0], Some(&place.cache), &()).unwrap();
    let right = findings(&first.devices[0], Units::Binary);
    assert!(!right.is_empty());
    let again = first.again();
    drop(first);
    again.devices[0].minimum();
    drop(again);
    assert_eq!(place.entries().len(), 1);
    let kept = place.kept();
    assert!(["findings", "minimum"].iter().all(|&name| kept.iter().any(|kept| kept == name)), "{kept:?}");
    let second = place.open();
    assert!(second.from_cache);
    assert_eq!(findings(&second.devices[0], Units::Binary), right);
}

/// The file beside an entry goes with it, counts with it, and is worked out again when it is damaged.
#[test]
fn what_is_kept_beside_an_entry() {
    let place = Place::new();
    let first = place.open();
    let right = findings(&first.devices[0], Units::Binary);
    let opened = place.open();
    let replay = &opened.devices[0];
    assert_eq!(findings(replay, Units::Binary), right);
    replay.conclusions();
    let beside = || -> Vec<PathBuf> {
        let listed = fs::read_dir(place.folder.path().join("cache")).unwrap();
        let paths = listed.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "kept")).collect()
    };
    let names = ["findings", "categories", "steps", "spans", "conclusions"];
    assert!(beside().len() <= names.len());
    let [entry] = place.cache.entries().try_into().unwrap();
    let all = beside().into_iter().chain(place.entries()).map(|path| path.metadata().unwrap().len());
    assert_eq!((entry.bytes, entry.answers), (all.sum(), 0));
    for path in beside() {
        let mut bytes = fs::read(&path).unwrap();
        bytes.iter_mut().skip(1 << 16).step_by(5).for_each(|byte| *byte ^= 0x21);
        replace(&path, &bytes);
    }
    assert_eq!(findings(replay, Units::Binary), right);
    place.write(2);
    place.open();
    assert!(beside().is_empty(), "they were about another file");
}

#[test]
fn an_entry_says_the_same() {
    let place = Place::new();
    let first = place.open();
    let again = place.open();
    assert!(again.from_cache && again.snapshot == first.snapshot);
    assert!(said(&again) == said(&first));
    assert_eq!(again.devices[0].allocations().len(), first.devices[0].allocations().len());
}

#[test]
fn answers_are_kept_until_the_file_changes() {
    let place = Place::new();
    let ask = |words: &str| place.cache.question(&place.file(), words.to_owned()).unwrap();
    assert!(!ask("top").is_cached());
    place.open();
    assert!(ask("top").is_cached());
    let answer = Answer { text: b"a table".to_vec().into(), warnings: vec!["careful".into()] };
    ask("top").keep(&answer);
    assert_eq!((ask("top").recall(), ask("at").recall()), (Some(answer.clone()), None));
    assert_eq!(place.cache.entries().len(), 1);
    assert_eq!(
        (place.cache.entries()[0].answers, &place.cache.entries()[0].source),
        (1, &Some(place.file()))
    );
    place.write(2);
    assert_eq!(ask("top").recall(), None);
    place.open();
    assert_eq!(place.cache.entries()[0].answers, 0, "answers about what the file was are gone");
    assert!(place.cache.clear().unwrap() > 0 && place.cache.entries().is_empty());
    assert!(!place.open().from_cache);
}

#[test]
fn the_limit_holds_at_once() {
    let place = Place::new();
    place.open();
    place.cache.set_limit(1000).unwrap();
    assert!(place.entries().is_empty());
}
