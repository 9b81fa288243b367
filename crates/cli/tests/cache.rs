//! A second command gives the same answer as the first, whatever happens to the cache.
#![cfg(unix)]

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use portable_pty::{CommandBuilder, PtyPair, PtySize, native_pty_system};
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

/// After a fill no answer is worked out: every verb repeats what was kept, however its file is named, as text, as JSON and on
/// terminals of any width.
#[test]
fn after_a_fill_every_verb_has_its_answer() {
    let place = Place::new(20_000);
    place.answer(&["cache", "fill", "./snapshot.pickle"]);
    let kept = place.kept("answer");
    let answered = PLAIN.iter().filter(|verb| place.ask(&[verb, "snapshot.pickle"]).status.success());
    // All but `events` are asked for JSON, too.
    assert_eq!(kept.len(), 2 * answered.count() - 1);
    // From here on only what was kept can answer.
    let [entry] = place.kept("columns").try_into().unwrap();
    fs::remove_file(&entry).unwrap();
    for verb in PLAIN {
        let (whole, known) = ([*verb, "./snapshot.pickle", "--no-cache"], [*verb, "./snapshot.pickle"]);
        let text = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes)
                .replace(" --no-cache", "")
                .replace("\"from_cache\":false", "\"from_cache\":true")
        };
        let forms: &[&[&str]] = if *verb == "events" { &[&[]] } else { &[&[], &["--json"]] };
        for form in forms {
            let [fresh, again] = [&whole[..], &known].map(|line| place.ask(&[line, form].concat()));
            assert_eq!(text(&again.stdout), text(&fresh.stdout), "{verb} {form:?}");
            assert_eq!(text(&again.stderr), text(&fresh.stderr), "{verb} {form:?}");
            assert_eq!(again.status.code(), fresh.status.code(), "{verb} {form:?}");
        }
        // On a terminal events are shown as they come.
        let widths: &[u16] = if *verb == "events" { &[] } else { &[52, 97, 180] };
        for &columns in widths {
            let [fresh, again] = [&whole[..], &known].map(|line| place.on_terminal(line, columns));
            assert_eq!(text(again.as_bytes()), text(fresh.as_bytes()), "{verb} in {columns} columns");
        }
    }
    assert!(place.kept("columns").is_empty(), "nothing was read again");
}

/// Questions that no fill has asked. They are answered from what is kept of the trace, not from kept answers.
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
                fs::write(path, damaged).unwrap();
                assert_eq!(&place.answer(question), right, "{question:?}");
                files.iter().for_each(|(path, whole)| fs::write(path, whole).unwrap());
            }
        }
    }
}

/// The program has printed the beginning of its answer when the entry that it reads from is cut.
#[test]
fn an_entry_that_is_cut_while_an_answer_is_printed() {
    let place = Place::new(100_000);
    let line = ["events", "snapshot.pickle", "--json"];
    place.answer(&["tree", "snapshot.pickle"]);
    let [entry] = place.kept("columns").try_into().unwrap();
    let mut child = place.command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    // Something is printed: the program waits until the rest is read.
    let mut printed = vec![0; 1];
    out.read_exact(&mut printed).unwrap();
    File::options().write(true).open(&entry).unwrap().set_len(1 << 16).unwrap();
    out.read_to_end(&mut printed).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("the cache was damaged"), "{said}");
    // What was printed is right, and the next command reads the file.
    let whole = place.answer(&line);
    let printed = String::from_utf8(printed).unwrap();
    let complete = printed.rfind('\n').unwrap();
    assert!(complete > 1 << 20 && whole.starts_with(&printed[..complete]));
}

#[test]
fn the_cache_can_be_looked_at_and_cleared() {
    let place = Place::new(20_000);
    let folder = place.0.path().join("vramscope");
    assert_eq!(place.answer(&["cache", "where"]).trim_end(), folder.to_str().unwrap());
    assert_eq!(place.answer(&["cache", "limit"]), "10.0 GiB\n");
    place.answer(&["cache", "fill", "snapshot.pickle"]);
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
    let missing = place.ask(&["cache", "fill", "missing.pickle"]);
    assert_eq!(missing.status.code(), Some(2));
}
