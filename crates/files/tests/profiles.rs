//! Folders of Ascend profiles: found by their names, with role and rank.

use std::fs;
use std::path::{Path, PathBuf};

use vramscope_analysis::Counter;
use vramscope_files::{find, open, open_each};
use vramscope_naming::RankKind;

fn inputs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/inputs/ascend")
}

/// A copy of one of the profiles, to take files from.
fn copy(into: &Path, name: &str) -> PathBuf {
    let source = inputs().join("actor_update/worker0_4100_20261115064500000_ascend_pt");
    let folder = into.join(name);
    fs::create_dir_all(folder.join("ASCEND_PROFILER_OUTPUT")).unwrap();
    for part in ["", "ASCEND_PROFILER_OUTPUT"] {
        for entry in fs::read_dir(source.join(part)).unwrap().flatten().filter(|entry| entry.path().is_file())
        {
            fs::copy(entry.path(), folder.join(part).join(entry.file_name())).unwrap();
        }
    }
    folder
}

const PEAK: i64 = 12_512 * (1 << 20) + 10240;

#[test]
fn a_tree_of_profiles_is_its_ranks() {
    let (found, errors) = find(&[inputs()]);
    assert!(errors.is_empty());
    let opened = open_each(&found, None, &(), |opened| {
        (
            opened.name.rank,
            opened.name.role.clone(),
            opened.name.group.clone(),
            opened.devices[0].peak(Counter::Allocated).bytes,
        )
    });
    let opened: Vec<_> = opened.into_iter().map(Result::unwrap).collect();
    let expected = [0, 1].map(|rank| {
        (
            Some((RankKind::Rank, rank)),
            Some("actor_update".to_owned()),
            "actor_update/*_ascend_pt".to_owned(),
            PEAK,
        )
    });
    assert_eq!(opened, expected);
}

#[test]
fn a_profile_may_be_named_itself() {
    let folder = inputs().join("actor_update/worker1_4101_20261115064500001_ascend_pt");
    for path in [folder.clone(), folder.join("ASCEND_PROFILER_OUTPUT")] {
        let (found, _) = find(&[path]);
        let opened = open(&found[0], None, &()).unwrap();
        assert_eq!((found.len(), opened.name.rank), (1, Some((RankKind::Rank, 1))));
        assert_eq!(opened.devices[0].peak(Counter::Allocated).bytes, PEAK);
    }
}

/// What makes other tools give up on the whole run: no trace, no metadata, a single card without a rank.
#[test]
fn what_is_missing_costs_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let folder = copy(&root.path().join("rollout"), "worker9_7_20261115064500000_ascend_pt");
    let output = folder.join("ASCEND_PROFILER_OUTPUT");
    for gone in [
        folder.join("profiler_metadata.json"),
        output.join("trace_view.json"),
        output.join("npu_module_mem.csv"),
        output.join("ascend_pytorch_profiler_0.db"),
    ] {
        fs::remove_file(gone).unwrap();
    }
    fs::remove_file(folder.join("profiler_info_0.json")).unwrap();
    fs::write(folder.join("profiler_info.json"), "{}").unwrap();
    let (found, _) = find(&[root.path().to_owned()]);
    let opened = open(&found[0], None, &()).unwrap();
    assert_eq!((opened.name.rank, opened.name.role.as_deref()), (None, Some("rollout")));
    assert_eq!(opened.devices[0].peak(Counter::Allocated).bytes, PEAK);
    assert!(opened.snapshot.warnings.is_empty());

    fs::remove_file(output.join("operator_memory.csv")).unwrap();
    let curve = open(&found[0], None, &()).unwrap();
    assert_eq!(curve.devices[0].peak(Counter::Allocated).bytes, PEAK, "the curve alone has the level");
    fs::remove_file(output.join("memory_record.csv")).unwrap();
    let error = open(&found[0], None, &()).unwrap_err().to_string();
    assert!(
        error.contains("worker9_7_20261115064500000_ascend_pt") && error.contains("profile_memory=True"),
        "{error}"
    );
}

#[test]
fn the_database_comes_first_and_the_tables_take_its_place() {
    let root = tempfile::tempdir().unwrap();
    let folder = copy(root.path(), "worker0_1_20261115064500000_ascend_pt");
    let output = folder.join("ASCEND_PROFILER_OUTPUT");
    let database = output.join("ascend_pytorch_profiler_0.db");
    let opened = || open(&find(std::slice::from_ref(&folder)).0[0], None, &());
    let first = opened().unwrap().snapshot;
    assert_eq!(
        (first.format.as_str(), first.has.stacks),
        ("Ascend profile, SQLite", true),
        "stacks of the trace"
    );

    // The writer was killed: pages of the database are still in its log.
    let log = output.join("ascend_pytorch_profiler_0.db-wal");
    fs::write(&log, "pages").unwrap();
    let with_log = opened().unwrap();
    assert_eq!(with_log.snapshot.format, "Ascend profile, CSV");
    assert!(
        with_log.snapshot.warnings[0].contains("-wal beside it is not empty"),
        "{:?}",
        with_log.snapshot.warnings
    );
    fs::write(&log, "").unwrap();
    assert_eq!(opened().unwrap().snapshot.format, "Ascend profile, SQLite");

    fs::write(&database, "SQLite format 3\0 and then nothing").unwrap();
    let damaged = opened().unwrap();
    assert_eq!(damaged.devices[0].peak(Counter::Allocated).bytes, PEAK);
    assert!(damaged.snapshot.warnings[0].contains("shorter than its header"));
    fs::remove_file(output.join("operator_memory.csv")).unwrap();
    fs::remove_file(output.join("memory_record.csv")).unwrap();
    assert!(opened().unwrap_err().to_string().contains("shorter than its header"));
}
