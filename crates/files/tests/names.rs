//! What is opened because of its name is a regular file: pipes, devices and links of the right name neither hang nor fill
//! memory, and folders end. The test runner's time limit ends a hang.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use vramscope_files::{Cache, Links, as_written, find, open, read_regular};
use vramscope_testkit::{Dialect, Options, Program, write};

fn pipe(path: PathBuf) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

fn snapshot(path: &Path, events: u64) {
    let program = Program::new(Options { events, seed: 1, ..Options::default() });
    write::write(&program, Dialect::Protocol(4), fs::File::create(path).unwrap()).unwrap();
}

const CSV: &str = "Device_id,Component,Timestamp(us),Total Reserved(KB)\n";

#[test]
fn files_beside_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("oom_snapshot_1_20250101120000.pickle");
    snapshot(&path, 100);
    pipe(folder.path().join("device_0_memUsageInfo_20250101120000.csv"));
    symlink("/dev/zero", folder.path().join("device_1_memUsageInfo_20250101120000.csv")).unwrap();
    let far = folder.path().join("far.csv");
    fs::write(&far, CSV).unwrap();
    symlink(&far, folder.path().join("device_2_memUsageInfo_20250101120000.csv")).unwrap();
    let large = fs::File::create(folder.path().join("device_3_memUsageInfo_20250101120000.csv")).unwrap();
    large.set_len(1 << 40).unwrap();
    let (inputs, _) = find(&[path]);
    let opened = open(&inputs[0], None, &()).unwrap();
    assert!(opened.snapshot.outside.is_empty());
}

#[test]
fn folders_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    snapshot(&folder.path().join("rank0.pickle"), 100);
    pipe(folder.path().join("rank1.pickle"));
    symlink("/dev/zero", folder.path().join("rank2.pickle")).unwrap();
    symlink("rank0.pickle", folder.path().join("rank3.pickle")).unwrap();
    let (inputs, errors) = find(&[folder.path().to_owned()]);
    let names: Vec<_> =
        inputs.iter().map(|input| input.path.file_name().unwrap().to_str().unwrap()).collect();
    let [left_out] = errors.as_slice() else { panic!("{errors:?}") };
    assert!(left_out.to_string().contains("rank2.pickle -> /dev/zero"), "{left_out}");
    assert_eq!(names, ["rank0.pickle", "rank3.pickle"], "a link to a regular file is one");
    assert!(inputs.iter().all(|input| open(input, None, &()).is_ok()));
}

/// Links to the whole machine, to a folder above and to a file beside it. What they lead to is never found, and each is
/// named.
#[test]
fn links_out_of_a_folder_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (run, beside) = (folder.path().join("run"), folder.path().join("beside.pickle"));
    fs::create_dir_all(run.join(".store/deep")).unwrap();
    snapshot(&beside, 100);
    snapshot(&run.join("rank0.pickle"), 100);
    snapshot(&run.join(".store/deep/rank1.pickle"), 100);
    for (target, link) in [("/", "a"), ("/proc", "b"), ("..", "c"), ("../beside.pickle", "rank2.pickle")] {
        symlink(target, run.join(link)).unwrap();
    }
    symlink(".store/deep", run.join("inside")).unwrap();
    let (inputs, errors) = find(std::slice::from_ref(&run));
    let names: Vec<_> = inputs.iter().map(|input| input.path.strip_prefix(&run).unwrap()).collect();
    assert_eq!(names, [Path::new("rank0.pickle"), Path::new("inside/rank1.pickle")]);
    let [left_out] = errors.as_slice() else { panic!("{errors:?}") };
    let shown = run.display();
    let above = folder.path().canonicalize().unwrap();
    assert_eq!(
        left_out.to_string(),
        format!(
            "4 links lead out of {shown} and were not followed: {shown}/a -> /, {shown}/b -> /proc, {shown}/c -> {}, …; \
             name their targets to read them",
            above.display()
        )
    );
    // A link that is named itself is followed.
    assert_eq!(find(&[run.join("rank2.pickle")]).0.len(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn file_systems_of_the_kernel_are_not_searched() {
    let (inputs, errors) = find(&[PathBuf::from("/proc/self")]);
    assert!(inputs.is_empty());
    assert!(
        errors.iter().any(|error| error.to_string().starts_with("/proc/self: a file system of the kernel"))
    );
}

#[test]
fn links_between_folders_have_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    // Each level can be reached by twice as many ways as the one above it, and the last leads back.
    for level in 0..30 {
        fs::create_dir(root.join(level.to_string())).unwrap();
    }
    for level in 0..30 {
        for way in ["a", "b"] {
            let to = if level == 29 { root.to_owned() } else { root.join((level + 1).to_string()) };
            symlink(to, root.join(level.to_string()).join(way)).unwrap();
        }
    }
    snapshot(&root.join("29/rank0.pickle"), 100);
    let (inputs, errors) = find(&[root.to_owned()]);
    assert!(errors.is_empty());
    assert_eq!(inputs.len(), 1);
}

#[test]
fn folders_below_folders_have_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut deep = folder.path().to_owned();
    for _ in 0..200 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    snapshot(&deep.join("rank0.pickle"), 100);
    snapshot(&folder.path().join("d/d/rank1.pickle"), 100);
    let (inputs, errors) = find(&[folder.path().to_owned()]);
    assert_eq!(inputs.len(), 1);
    let [left_out] = errors.as_slice() else { panic!("{errors:?}") };
    assert!(left_out.to_string().contains("1 folder more than 32 levels below"), "{left_out}");
}

#[test]
fn parts_of_a_profile() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("node_1_20250101120000_ascend_pt/ASCEND_PROFILER_OUTPUT");
    fs::create_dir_all(&output).unwrap();
    pipe(output.join("operator_memory.csv"));
    symlink("/dev/zero", output.join("memory_record.csv")).unwrap();
    pipe(output.join("ascend_pytorch_profiler_0.db"));
    pipe(output.join("trace_view.json"));
    let (inputs, _) = find(&[folder.path().to_owned()]);
    assert_eq!(inputs.len(), 1);
    assert!(open(&inputs[0], None, &()).is_err(), "nothing of it is a file");
    // A link is not the folder of a profile.
    let far = tempfile::tempdir().unwrap();
    fs::write(far.path().join("operator_memory.csv"), CSV).unwrap();
    symlink(far.path(), folder.path().join("ASCEND_PROFILER_OUTPUT")).unwrap();
    let (_, errors) = find(&[folder.path().to_owned()]);
    assert!(errors[0].to_string().starts_with("1 link leads out of"), "{errors:?}");
}

#[test]
fn entries_of_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.pickle");
    snapshot(&path, 20_000);
    let cache = Cache::in_folder(folder.path().join("cache"));
    let (inputs, _) = find(&[path]);
    open(&inputs[0], Some(&cache), &()).unwrap().wait_until_cached();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path().join("cache")), 0o700);
    let entries: Vec<_> =
        fs::read_dir(folder.path().join("cache")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(entries.len() == 1 && entries.iter().all(|path| mode(path) == 0o600));
    for entry in &entries {
        let kept = fs::read(entry).unwrap();
        fs::remove_file(entry).unwrap();
        pipe(entry.clone());
        let opened = open(&inputs[0], Some(&cache), &()).unwrap();
        opened.wait_until_cached();
        assert!(!opened.from_cache);
        assert_eq!(fs::read(entry).unwrap(), kept);
        assert!(
            open(&inputs[0], Some(&cache), &()).unwrap().from_cache,
            "what was stored took the pipe's place"
        );
    }
}

/// What others can write into is not trusted, and not repaired either: it may hold what they have put there.
#[test]
fn a_cache_that_others_have_access_to_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let (path, kept) = (folder.path().join("snapshot.pickle"), folder.path().join("cache"));
    snapshot(&path, 20_000);
    let input = &find(&[path]).0[0];
    let cache = Cache::in_folder(kept.clone());
    let is_from_cache = || {
        let opened = open(input, Some(&cache), &()).unwrap();
        opened.wait_until_cached();
        opened.from_cache
    };
    fs::create_dir(&kept).unwrap();
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o770)).unwrap();
    assert!(cache.problem().unwrap().contains("others have access to"));
    assert!(!is_from_cache() && !is_from_cache());
    assert_eq!(fs::read_dir(&kept).unwrap().count(), 0);
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(cache.problem(), None);
    assert!(!is_from_cache() && is_from_cache());
    // An entry of its own.
    let entry = fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
    fs::set_permissions(&entry, fs::Permissions::from_mode(0o620)).unwrap();
    assert!(!is_from_cache() && is_from_cache());
}

#[test]
fn settings_and_sources() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("pipe"), folder.path().join("link"));
    pipe(path.clone());
    symlink("/dev/zero", &link).unwrap();
    for links in [Links::Follow, Links::Refuse] {
        assert!(read_regular(&path, links, 100).is_err() && read_regular(&link, links, 100).is_err());
    }
    let file = folder.path().join("file");
    fs::write(&file, "text").unwrap();
    assert_eq!(read_regular(&file, Links::Refuse, 4).unwrap(), b"text");
    assert!(read_regular(&file, Links::Refuse, 3).is_err(), "longer than it may be");
}

#[test]
fn paths_are_shown_as_people_write_them() {
    let shown = |path: &str| as_written(Path::new(path)).display().to_string();
    assert_eq!(shown(r"\\?\C:\runs\rank0.pickle"), r"C:\runs\rank0.pickle");
    assert_eq!(shown(r"\\?\UNC\server\runs\rank0.pickle"), r"\\?\UNC\server\runs\rank0.pickle");
    assert_eq!(shown("/runs/rank0.pickle"), "/runs/rank0.pickle");
}
