//! A second command gives the same answer as the first, whatever happens to the cache.
#![cfg(unix)]

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use portable_pty::{CommandBuilder, PtyPair, PtySize, native_pty_system};
use rustix::io::{FdFlags, fcntl_setfd};
use vramscope_testkit::verbs::PLAIN;
use vramscope_testkit::{Dialect, Options, Program, write};

/// A folder with a file that is large enough to be cached, and a cache.
struct Place(tempfile::TempDir);

impl Place {
    fn new(events: u64) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let program = Program::new(Options { events, ..Options::default() });
        write::write(&program, Dialect::Protocol(4), File::create(place.file()).unwrap()).unwrap();
        place
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("snapshot.pickle")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vramscope"));
        command
            .args(args)
            .env("XDG_CACHE_HOME", self.0.path())
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        command
    }

    fn ask(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn answer(&self, args: &[&str]) -> String {
        let output = self.ask(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a terminal of some columns is sent.
    fn on_terminal(&self, args: &[&str], columns: u16) -> String {
        let size = PtySize { rows: 40, cols: columns, pixel_width: 0, pixel_height: 0 };
        let PtyPair { slave, master } = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_vramscope"));
        command.args(args);
        command.env("XDG_CACHE_HOME", self.0.path());
        command.env_remove("NO_COLOR");
        command.cwd(self.0.path());
        let mut child = slave.spawn_command(command).unwrap();
        drop(slave);
        let mut sent = Vec::new();
        // At its end a terminal has an error.
        let _ = master.try_clone_reader().unwrap().read_to_end(&mut sent);
        child.wait().unwrap();
        String::from_utf8(sent).unwrap()
    }

    fn kept(&self, ending: &str) -> Vec<PathBuf> {
        let listed = fs::read_dir(self.0.path().join("vramscope")).into_iter().flatten();
        let paths = listed.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
    }
}

#[test]
fn every_verb_says_the_same_from_the_cache() {
    let place = Place::new(20_000);
    assert!(place.file().metadata().unwrap().len() > 2 << 20);
    for verb in PLAIN {
        let line = [*verb, "snapshot.pickle"];
        let fresh = place.ask(&[verb, "snapshot.pickle", "--no-cache"]);
        for time in 0..3 {
            let output = place.ask(&line);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(" --no-cache", "");
            assert_eq!(text(&output.stdout), text(&fresh.stdout), "{verb}, time {time}");
            assert_eq!(text(&output.stderr), text(&fresh.stderr), "{verb}, time {time}");
            assert_eq!(output.status.code(), fresh.status.code(), "{verb}, time {time}");
        }
    }
    assert_eq!(place.kept("columns").len(), 1);
}

/// What took long is kept before it is laid out: it serves pipes, terminals of any width, and JSON has its own.
#[test]
fn an_answer_that_is_repeated_is_the_same() {
    let place = Place::new(200_000);
    place.answer(&["tree", "snapshot.pickle"]);
    let forms: [&[&str]; 2] = [&[], &["--json"]];
    let slow = ["categories", "lives"];
    for verb in slow {
        for form in forms {
            // Whoever has the facts is quick.
            place.kept("kept").iter().for_each(|fact| fs::remove_file(fact).unwrap());
            place.answer(&[&[verb, "snapshot.pickle"], form].concat());
        }
    }
    assert_eq!(place.kept("answer").len(), slow.len() * forms.len());
    for verb in slow {
        let (whole, known) = ([verb, "snapshot.pickle", "--no-cache"], [verb, "snapshot.pickle"]);
        let text = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes)
                .replace(" --no-cache", "")
                .replace("\"from_cache\":false", "\"from_cache\":true")
        };
        for form in forms {
            let [fresh, again] = [&whole[..], &known].map(|line| place.ask(&[line, form].concat()));
            assert_eq!(text(&again.stdout), text(&fresh.stdout), "{verb} {form:?}");
            assert_eq!(text(&again.stderr), text(&fresh.stderr), "{verb} {form:?}");
            assert_eq!(again.status.code(), fresh.status.code(), "{verb} {form:?}");
        }
        for columns in [52, 180] {
            let [fresh, again] = [&whole[..], &known].map(|line| place.on_terminal(line, columns));
            assert_eq!(text(again.as_bytes()), text(fresh.as_bytes()), "{verb} in {columns} columns");
        }
    }
}

/// A lock that a command inherits is free when the command has ended: nothing goes on behind it.
#[test]
fn no_process_is_left_behind() {
    let place = Place::new(20_000);
    let path = place.0.path().join("lock");
    for _ in 0..2 {
        let lock = File::create(&path).unwrap();
        lock.lock().unwrap();
        // Whatever the command starts would have it, too.
        fcntl_setfd(&lock, FdFlags::empty()).unwrap();
        place.answer(&["summary", "snapshot.pickle"]);
        drop(lock);
        File::open(&path).unwrap().try_lock().unwrap();
    }
}

/// They are answered from what is kept of the trace, not from kept answers.
#[test]
fn other_arguments_say_the_same_from_the_cache() {
    let place = Place::new(20_000);
    let questions = [
        "at --at e:11000",
        "at --at e:11000 --json --limit 5",
        "at --at 3 --stack forward",
        "at --pool 0,0",
        "top --at e:11000 --of stacks --json",
        "top --of allocations --min-size 1MiB --limit 5",
        "top --by churn --since e:4000 --until e:4500",
        "tree --at e:11000",
        "segments --at e:11000 --json",
        "overlap --at e:11000 --by stack",
        "modules --at e:11000",
        "oom --number 1",
        "show e:11000",
        "show a:1000 --json",
        "show s:7 --at e:11000",
        "show s:7 --min-size 1MiB",
        "show f:growth-1",
        "events --action segment_alloc --since e:50 --limit 3",
        "events --min-size 20MiB --limit 3",
        "events --min-size 20MiB --max-size 40MiB --skip 2 --limit 3",
        "events --action oom --action snapshot --json",
        "categories --at e:11000",
        "categories --at e:11000 --json",
        "categories --json --series 7",
        "pools --at e:11000 --json",
        "pools --end",
        "modules --at e:11000 --by class",
        "modules --by function --depth 2",
        "modules --stack forward",
        "minimum --until e:9000",
        "minimum --stack nothing_matches_this",
        "lives --until e:9000 --limit 3",
        "lives --limit 2 --json",
        "steps --limit 2",
        "steps --since e:4000 --json",
        "churn --limit 2",
        "churn --since e:4000 --until e:9000",
        "top --stack forward",
        "top --stack nothing_matches_this",
        "top --stack forward --since e:4000 --json",
        "at --category activations",
        "tree --phase forward",
        "phases --since e:9000",
        "fragmentation --request 1GiB",
        "insights --since e:9000",
        "summary --since e:9000",
    ];
    place.answer(&["at", "snapshot.pickle", "--json"]);
    for question in questions {
        let line: Vec<_> = question.split(' ').chain(["snapshot.pickle"]).collect();
        let fresh = place.ask(&[&line[..], &["--no-cache"]].concat());
        for time in 0..2 {
            place.kept("answer").iter().for_each(|answer| fs::remove_file(answer).unwrap());
            let output = place.ask(&line);
            let text = |bytes: &[u8]| {
                let text = String::from_utf8_lossy(bytes).replace(" --no-cache", "");
                text.replace("\"from_cache\":false", "\"from_cache\":true")
            };
            assert_eq!(text(&output.stdout), text(&fresh.stdout), "{question}, time {time}");
            assert_eq!(text(&output.stderr), text(&fresh.stderr), "{question}, time {time}");
            assert_eq!(output.status.code(), fresh.status.code(), "{question}, time {time}");
        }
    }
    let kept = [
        "calls",
        "categories",
        "conclusions",
        "curves",
        "failures",
        "findings",
        "fragmentation",
        "lives",
        "minimum",
        "modules",
        "pools",
        "span_sums",
        "spans",
        "steps",
        "steps_table",
    ];
    let names = place.kept("kept");
    let mut names: Vec<_> = names.iter().map(|path| path.file_stem().unwrap().to_str().unwrap()).collect();
    names.sort_unstable();
    let names: Vec<_> = names.iter().filter_map(|name| name.rsplit('-').next()).collect();
    assert_eq!(names, kept);
}

#[test]
fn a_damaged_entry_changes_no_answer() {
    let place = Place::new(20_000);
    let questions: [&[&str]; 5] = [
        &["at", "snapshot.pickle", "--json"],
        &["top", "snapshot.pickle"],
        &["show", "a:1000", "snapshot.pickle"],
        &["events", "snapshot.pickle", "--json"],
        &["insights", "snapshot.pickle"],
    ];
    let right = questions.map(|question| place.answer(question));
    // The entry, and what lies beside it.
    let files = [place.kept("columns"), place.kept("kept")].concat();
    let files: Vec<_> = files.iter().map(|path| (path, fs::read(path).unwrap())).collect();
    assert!(files.len() > 1);
    // Half a chunk of every three, so that every column is hit in some round.
    for first in [1, 2, 3] {
        for (question, right) in questions.iter().zip(&right) {
            place.kept("answer").iter().for_each(|answer| fs::remove_file(answer).unwrap());
            for (path, whole) in &files {
                let mut damaged = whole.clone();
                for chunk in damaged.chunks_mut(1 << 16).skip(first).step_by(3) {
                    let half = chunk.len() / 2;
                    chunk[..half].fill(0xa5);
                }
                write_private(path, &damaged);
                assert_eq!(&place.answer(question), right, "{question:?}");
                files.iter().for_each(|(path, whole)| write_private(path, whole));
            }
        }
    }
}

fn write_private(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Somebody else made the folder, or may write into it.
#[test]
fn a_cache_that_others_have_access_to_is_not_used() {
    let place = Place::new(20_000);
    let folder = place.0.path().join("vramscope");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    for _ in 0..2 {
        let output = place.ask(&["summary", "snapshot.pickle"]);
        assert!(output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            said,
            format!(
                "vramscope: the cache is not used: others have access to {}; chmod 700 it, or remove it\n",
                folder.display()
            )
        );
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}

#[test]
fn the_cache_can_be_looked_at_and_cleared() {
    let place = Place::new(20_000);
    let folder = place.0.path().join("vramscope");
    assert_eq!(place.answer(&["cache", "where"]).trim_end(), folder.to_str().unwrap());
    assert_eq!(place.answer(&["cache", "limit"]), "10.0 GiB\n");
    place.answer(&["summary", "snapshot.pickle"]);
    let list: serde_json::Value = serde_json::from_str(&place.answer(&["cache", "list", "--json"])).unwrap();
    assert_eq!(list["schema"], "vramscope/cache/1");
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/cache.json");
    let schema = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap().validate(&list).unwrap();
    let path = |name: &str| place.0.path().canonicalize().unwrap().join(name);
    assert_eq!(list["entries"][0]["path"].as_str().map(Path::new), Some(path("snapshot.pickle").as_path()));
    assert!(place.answer(&["cache", "list"]).contains("snapshot.pickle"));
    assert_eq!(place.answer(&["cache", "limit", "1KiB"]), "1.00 KiB\n");
    assert_eq!(place.answer(&["cache", "limit"]), "1.00 KiB\n");
    assert!(place.kept("columns").is_empty(), "what exceeds the limit is gone");
    place.answer(&["cache", "limit", "1GiB"]);
    place.answer(&["tree", "snapshot.pickle"]);
    assert_eq!(place.kept("columns").len(), 1);
    assert!(place.answer(&["cache", "clear"]).ends_with("removed\n"));
    assert!(place.kept("columns").is_empty());
}
