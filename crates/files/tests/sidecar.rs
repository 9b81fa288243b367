//! `X.vramscope.json` beside `X.pickle`: found, read with bounds, and noticed by the cache when it changes.
#![cfg(unix)]

use std::fs;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use vramscope_files::{Cache, Opened, find, open};
use vramscope_snapshot::DeviceId;
use vramscope_testkit::{Dialect, Options, Program, write};

/// A real recording, as its recorder would have named it.
fn recording(folder: &Path, name: &str) {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings/llama_python.pickle.xz");
    fs::copy(source, folder.join(name)).unwrap();
}

fn sidecar(capacity: u64) -> String {
    format!(
        r#"{{"schema": "vramscope/sidecar/1", "snapshot": "memory_rank3.pickle", "reason": "exit", "pid": 1,
            "devices": [{{"device": 0, "capacity": {capacity}, "free": 0, "reserved": 0}}]}}"#
    )
}

fn capacity(path: &Path, cache: Option<&Cache>) -> (Option<u64>, Opened) {
    let opened = open(&find(&[path.to_owned()]).0[0], cache, &()).unwrap();
    opened.wait_until_cached();
    (opened.snapshot.device_memory(DeviceId(0)).map(|memory| memory.capacity), opened)
}

#[test]
fn it_is_found_by_name_whatever_the_packing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("memory_rank3.vramscope.json"), sidecar(5000)).unwrap();
    for name in ["memory_rank3.pickle.xz", "memory_rank3.pickle"] {
        recording(folder.path(), name);
        assert_eq!(capacity(&folder.path().join(name), None).0, Some(5000), "{name}");
    }
    recording(folder.path(), "memory_rank4.pickle");
    assert_eq!(capacity(&folder.path().join("memory_rank4.pickle"), None).0, None);
}

/// It is no snapshot of its own.
#[test]
fn a_folder_has_as_many_inputs_as_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    recording(folder.path(), "memory_rank3.pickle");
    fs::write(folder.path().join("memory_rank3.vramscope.json"), sidecar(5000)).unwrap();
    fs::write(folder.path().join("memory_rank9.vramscope.json"), "").unwrap();
    let (inputs, errors) = find(&[folder.path().to_owned()]);
    assert!(errors.is_empty());
    let names: Vec<_> = inputs.iter().map(|input| input.path.file_name().unwrap()).collect();
    assert_eq!(names, ["memory_rank3.pickle"]);
}

#[test]
fn the_cache_notices_a_sidecar_that_comes_changes_or_goes() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::in_folder(folder.path().join("cache"));
    let (path, beside) =
        (folder.path().join("memory_rank3.pickle"), folder.path().join("memory_rank3.vramscope.json"));
    // Only files of 2 MiB and more are cached.
    let program = Program::new(Options { events: 40_000, seed: 1, ..Options::default() });
    write::write(&program, Dialect::Protocol(4), fs::File::create(&path).unwrap()).unwrap();
    assert!(path.metadata().unwrap().len() > 2 << 20);
    let ask = || {
        let (capacity, opened) = capacity(&path, Some(&cache));
        (capacity, opened.from_cache)
    };
    assert_eq!((ask(), ask()), ((None, false), (None, true)));
    fs::write(&beside, sidecar(5000)).unwrap();
    assert_eq!((ask(), ask()), ((Some(5000), false), (Some(5000), true)));
    fs::write(&beside, sidecar(60_000)).unwrap();
    assert_eq!((ask(), ask()), ((Some(60_000), false), (Some(60_000), true)));
    fs::remove_file(&beside).unwrap();
    assert_eq!(ask(), (None, false));
}

/// A damaged one, a folder or a pipe of that name costs a warning, not the file.
#[test]
fn whatever_has_the_name_the_snapshot_opens() {
    let folder = tempfile::tempdir().unwrap();
    recording(folder.path(), "memory_rank3.pickle");
    let (path, beside) =
        (folder.path().join("memory_rank3.pickle"), folder.path().join("memory_rank3.vramscope.json"));
    let warns = || {
        let (capacity, opened) = capacity(&path, None);
        assert_eq!(capacity, None);
        assert!(
            opened.snapshot.warnings.iter().any(|warning| warning.starts_with("the sidecar is not used"))
        );
    };
    fs::write(&beside, "{\"schema\": ").unwrap();
    warns();
    fs::remove_file(&beside).unwrap();
    fs::create_dir(&beside).unwrap();
    warns();
    fs::remove_dir(&beside).unwrap();
    let mode = Mode::from_raw_mode(0o600);
    mknodat(CWD, &beside, FileType::Fifo, mode, 0).unwrap();
    warns();
}

/// Whoever may ask for a snapshot must not be shown another file through a link of a sidecar's name.
#[cfg(unix)]
#[test]
fn a_sidecar_that_leads_elsewhere_is_not_read() {
    use std::os::unix::fs::symlink;
    let (folder, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    recording(folder.path(), "memory_rank3.pickle");
    let (path, beside) =
        (folder.path().join("memory_rank3.pickle"), folder.path().join("memory_rank3.vramscope.json"));
    let written = far.path().join("memory_rank3.vramscope.json");
    fs::write(&written, sidecar(5000)).unwrap();
    symlink(&written, &beside).unwrap();
    let (found, opened) = capacity(&path, None);
    assert_eq!(found, None);
    assert!(
        opened
            .snapshot
            .warnings
            .contains(&"the sidecar is not used: it is a link out of its folder".to_owned())
    );
    // Both are links to one place, as of a run that is linked together.
    let linked = far.path().join("linked");
    fs::create_dir(&linked).unwrap();
    recording(far.path(), "memory_rank3.pickle");
    for name in ["memory_rank3.pickle", "memory_rank3.vramscope.json"] {
        symlink(far.path().join(name), linked.join(name)).unwrap();
    }
    assert_eq!(capacity(&linked.join("memory_rank3.pickle"), None).0, Some(5000));
}
