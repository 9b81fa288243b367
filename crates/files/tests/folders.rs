//! A folder opens as a run: its snapshots by content, its ranks by name.

use std::fs;
use std::path::{Path, PathBuf};

use vramscope_files::{find, find_until, open_each};
use vramscope_naming::RankKind;

fn recording(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings").join(name)).unwrap()
}

/// A folder with these files, each a small recording or the given text.
fn folder(files: &[(&str, Option<&str>)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.map_or_else(|| recording("mempool.pickle.xz"), |text| text.as_bytes().to_vec()))
            .unwrap();
    }
    folder
}

#[test]
fn snapshots_are_found_by_content_and_ordered_by_run_step_and_rank() {
    let folder = folder(&[
        ("run/iteration_20/rank10_memory_snapshot.pickle", None),
        ("run/iteration_20/rank2_memory_snapshot.bin", None),
        ("run/iteration_5/rank2_memory_snapshot.pickle", None),
        ("run/log.txt", Some("step 1")),
        ("run/config.json", Some("{\"hidden\": 4096}")),
        ("run/empty.txt", Some("")),
        ("run/.hidden/rank0_memory_snapshot.pickle", None),
        ("another/snapshot_0.pickle", None),
    ]);
    let found = find(&[folder.path().to_owned()]).0;
    let names: Vec<_> = found
        .iter()
        .map(|input| {
            let inside = input.path.strip_prefix(folder.path()).unwrap().to_string_lossy().into_owned();
            (inside, input.name.rank.map(|(_, rank)| rank), input.name.step)
        })
        .collect();
    let expected = [
        ("another/snapshot_0.pickle", Some(0), None),
        ("run/iteration_5/rank2_memory_snapshot.pickle", Some(2), Some(5)),
        ("run/iteration_20/rank2_memory_snapshot.bin", Some(2), Some(20)),
        ("run/iteration_20/rank10_memory_snapshot.pickle", Some(10), Some(20)),
    ];
    assert_eq!(names, expected.map(|(path, rank, step)| (path.to_owned(), rank, step)));
}

/// A rank whose dump was killed leaves 0 bytes. It is reported, not passed over.
#[test]
fn an_empty_rank_does_not_vanish() {
    let folder =
        folder(&[("rank0_memory_snapshot.pickle", None), ("rank1_memory_snapshot.pickle", Some(""))]);
    let inputs = find(&[folder.path().to_owned()]).0;
    let results = open_each(&inputs, None, &(), drop);
    assert!(results[0].is_ok());
    assert!(
        results[1]
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("rank1_memory_snapshot.pickle: the file is empty")
    );
}

#[test]
fn all_ranks_are_read_and_come_in_order() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..4 {
        let name = format!("rank{rank}_memory_snapshot.pickle");
        fs::write(folder.path().join(&name), recording(&format!("{name}.xz"))).unwrap();
    }
    let inputs = find(&[folder.path().to_owned()]).0;
    let ranks = open_each(&inputs, None, &(), |opened| (opened.name.rank, opened.devices[0].events()));
    let ranks: Vec<_> = ranks.into_iter().map(Result::unwrap).collect();
    let numbers: Vec<_> = ranks.iter().map(|(rank, _)| rank.unwrap()).collect();
    assert_eq!(numbers, [0, 1, 2, 3].map(|rank| (RankKind::Rank, rank)));
    assert!(ranks.iter().all(|(_, events)| *events > 1000));
}

#[test]
fn a_folder_without_snapshots_says_so() {
    let folder = folder(&[("notes.txt", Some("nothing here")), ("trace.json", Some("[{\"ph\": \"X\"}]"))]);
    let error = find(&[folder.path().to_owned()]).1[0].to_string();
    assert!(error.contains("no memory snapshot among 2 files"), "{error}");
    assert!(error.contains("_record_memory_history"), "and how to record one: {error}");
}

#[test]
fn a_file_that_is_named_is_taken_as_it_is() {
    let missing = PathBuf::from("no/such/file.pickle");
    let inputs = find(std::slice::from_ref(&missing)).0;
    assert_eq!(inputs[0].path, missing);
    let results = open_each(&inputs, None, &(), drop);
    assert!(results[0].as_ref().unwrap_err().to_string().starts_with("no/such/file.pickle: No such file"));
}

/// Somebody who has seen enough after the first chunk.
struct Impatient;

impl vramscope_files::Progress for Impatient {
    fn advance(&self, _: u64) {}

    fn is_cancelled(&self) -> bool {
        true
    }
}

#[test]
fn looking_for_files_can_be_called_off() {
    let folder = folder(&[("rank0.pickle", None), ("rank1.pickle", None)]);
    let asked = std::cell::Cell::new(0);
    let after_one = || asked.replace(asked.get() + 1) > 0;
    let (inputs, errors) = find_until(&[folder.path().to_owned()], &after_one);
    assert_eq!((inputs.len(), errors.len()), (1, 0));
}

#[test]
fn reading_can_be_called_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.pickle");
    let recording =
        vramscope_testkit::record(&vramscope_testkit::Options { events: 50, ..Default::default() });
    fs::write(&path, recording.pickle(vramscope_testkit::Dialect::Protocol(4))).unwrap();
    let (inputs, _) = find(&[path]);
    let result = vramscope_files::open(&inputs[0], None, &Impatient);
    assert!(matches!(result, Err(vramscope_files::OpenError::Cancelled { .. })), "{result:?}");
}
