//! Files that the command writes: whatever happens, what was there is there or the new one is whole; and text that leaves
//! for a terminal, a spreadsheet or a browser does nothing there.
#![cfg(unix)]

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::{Value, json};

/// A busy machine is slow; nothing here waits longer than it has to.
const PATIENCE: Duration = Duration::from_secs(120);

fn vramscope(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vramscope"));
    command.args(args);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A snapshot of `count` allocations; the first is made in a function with a name.
fn snapshot(allocations: usize, name: &str) -> String {
    let frame = |name: &str| json!({"name": name, "filename": "/home/ann/train.py", "line": 7});
    let mut events = String::new();
    for n in 0..allocations {
        let name = if n == 0 { name } else { "forward" };
        let event = json!({"action": "alloc", "addr": 4096 * (n + 1), "size": 512, "stream": 0, "time_us": 1000 + n, "frames": [frame(name)]});
        write!(events, "{}{event}", if n == 0 { "" } else { "," }).unwrap();
    }
    format!("{{\"segments\": [], \"device_traces\": [[{events}]]}}")
}

/// A folder with a snapshot in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.path("in.json"), snapshot(3000, "f")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn export(&self, to: &Path, more: &[&str]) -> Output {
        let input = self.path("in.json");
        vramscope(&["export", "--no-cache"]).arg(input).arg("-o").arg(to).args(more).output().unwrap()
    }

    /// Names of all files, temporary ones too.
    fn names(&self) -> Vec<String> {
        names(self.0.path())
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn failed(output: &Output, why: &str) {
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(why), "{} does not say {why}", text(&output.stderr));
}

fn rows(path: &Path) -> usize {
    fs::read_to_string(path).unwrap().lines().count()
}

#[test]
fn an_existing_file_needs_force_and_keeps_its_permissions() {
    let place = Place::new();
    let out = place.path("out.csv");
    fs::write(&out, "precious").unwrap();
    fs::set_permissions(&out, fs::Permissions::from_mode(0o640)).unwrap();
    failed(&place.export(&out, &[]), "out.csv: already exists; pass --force to overwrite");
    assert_eq!(fs::read_to_string(&out).unwrap(), "precious");
    assert!(place.export(&out, &["--force"]).status.success());
    assert_eq!((rows(&out), out.metadata().unwrap().mode() & 0o777), (3001, 0o640));
    assert_eq!(place.names(), ["in.json", "out.csv"]);
}

/// The rest of the folder is answered; what was left out is said, and the status tells scripts.
#[test]
fn links_out_of_a_folder_are_named() {
    let place = Place::new();
    symlink("/", place.path("everything")).unwrap();
    symlink("/proc", place.path("processes")).unwrap();
    let shown = place.0.path().display();
    let expected = format!(
        "vramscope: 2 links lead out of {shown} and were not followed: {shown}/everything -> /, {shown}/processes -> \
         /proc; name their targets to read them\n"
    );
    for (verb, code) in [("summary", 2), ("ranks", 2), ("top", 0)] {
        let output = vramscope(&[verb, "--no-cache"]).arg(place.0.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{verb}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("in.json"), "{verb}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(&expected), "{verb}");
    }
}

#[test]
fn the_input_is_never_the_output() {
    let place = Place::new();
    let (input, before) = (place.path("in.json"), fs::read(place.path("in.json")).unwrap());
    let (link, hard) = (place.path("link"), place.path("hard"));
    symlink(&input, &link).unwrap();
    fs::hard_link(&input, &hard).unwrap();
    for out in [&input, &link, &hard] {
        failed(&place.export(out, &["--force"]), "is the input; choose another output file");
        failed(&place.export(out, &[]), "is the input");
    }
    let from_folder = vramscope(&["report", "--no-cache", "--force"])
        .env("VRAMSCOPE_WEB", site(&place))
        .arg(place.0.path())
        .arg("-o")
        .arg(&input)
        .output()
        .unwrap();
    failed(&from_folder, "is the input");
    let from_stdin = vramscope(&["export", "-", "--force", "-o"])
        .arg(&input)
        .stdin(fs::File::open(&input).unwrap())
        .output()
        .unwrap();
    failed(&from_stdin, "is the input");
    assert_eq!(fs::read(&input).unwrap(), before);
}

fn site(place: &Place) -> PathBuf {
    let site = place.path(".site");
    fs::create_dir_all(&site).unwrap();
    fs::write(site.join("index.html"), "<!doctype html>\n<html><body><!--data--></body></html>\n").unwrap();
    fs::write(site.join("vramscope.wasm.gz"), b"\x1f\x8bmodule").unwrap();
    site
}

#[test]
fn links_stay_and_only_regular_files_are_replaced() {
    let place = Place::new();
    let (file, link, nowhere) = (place.path("file"), place.path("link"), place.path("nowhere"));
    fs::write(&file, "old").unwrap();
    symlink("file", &link).unwrap();
    symlink("missing", &nowhere).unwrap();
    assert!(place.export(&link, &["--force"]).status.success());
    assert!(link.symlink_metadata().unwrap().is_symlink(), "the link is still one");
    assert_eq!(rows(&file), 3001, "what it leads to is replaced");
    failed(&place.export(&nowhere, &["--force"]), "nowhere: is a link to nothing, not a file");
    failed(&place.export(place.0.path(), &["--force"]), "is a folder, not a file");
    assert_eq!(place.names(), ["file", "in.json", "link", "nowhere"]);
}

#[test]
fn pipes_and_devices_are_written_into_and_stay() {
    let place = Place::new();
    assert!(place.export(Path::new("/dev/null"), &["--force"]).status.success());
    assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device());
    failed(&place.export(Path::new("/dev/full"), &[]), "/dev/full: No space left on device");
    assert_eq!(text(&place.export(Path::new("/dev/stdout"), &[]).stdout).lines().count(), 3001);
    let pipe = place.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || fs::read_to_string(pipe).unwrap().lines().count())
    };
    assert!(place.export(&pipe, &["--force"]).status.success());
    assert_eq!(reader.join().unwrap(), 3001);
    assert!(pipe.metadata().unwrap().file_type().is_fifo());
    // Standard output that is a file is written where it is, not replaced.
    let redirected = place.path("redirected");
    let status = vramscope(&["export", "--no-cache", "-o", "/dev/stdout"])
        .arg(place.path("in.json"))
        .stdout(fs::File::create(&redirected).unwrap())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(rows(&redirected), 3001);
}

/// A file system of its own, gone with the value.
struct Mounted(PathBuf);

impl Mounted {
    fn new(folder: &Path, options: &str) -> Option<Self> {
        fs::create_dir_all(folder).unwrap();
        let status =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder).output().ok()?;
        status.status.success().then(|| Self(folder.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// By how each format begins.
#[test]
fn the_name_of_the_file_says_the_format_unless_an_option_does() {
    let place = Place::new();
    let formats = [
        ("a.parquet", &[][..], &b"PAR1"[..]),
        ("a.Arrow", &[], b"ARROW1"),
        ("a.jsonl", &[], b"{"),
        ("a.csv", &[], b"allocation,"),
        ("a.txt", &[], b"allocation,"),
        ("b.parquet", &["--format", "jsonl"], b"{"),
    ];
    for (name, more, beginning) in formats {
        let file = place.path(name);
        assert!(place.export(&file, more).status.success(), "{name}");
        assert!(fs::read(file).unwrap().starts_with(beginning), "{name}");
    }
}

#[test]
fn a_dash_is_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let output = vramscope(&["demo", "-o", "-"]).current_dir(folder.path()).output().unwrap();
    assert!(output.stdout.starts_with(b"\xfd7zXZ"), "{}", text(&output.stderr));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    let place = Place::new();
    // Where nobody may mount, the limit on the size of a file is the real thing that is full: see the test below.
    let Some(disk) = Mounted::new(&place.path("disk"), "size=64k") else {
        return a_limit_on_the_size_of_files_is_an_error();
    };
    let out = disk.0.join("out.csv");
    fs::write(&out, "precious").unwrap();
    for format in ["csv", "jsonl", "arrow", "parquet", "perfetto"] {
        let args = ["--force", "--format", format, "--table", "events"];
        let output = place.export(&out, &args);
        if output.status.success() {
            assert_eq!(format, "parquet", "packed, it may fit");
            fs::write(&out, "precious").unwrap();
            continue;
        }
        failed(&output, "out.csv: No space left on device");
        failed(&place.export(&disk.0.join("new"), &args), "new: No space left on device");
        assert_eq!(fs::read_to_string(&out).unwrap(), "precious");
        assert_eq!(names(&disk.0), ["out.csv"]);
    }
    assert!(Command::new("mount").args(["-o", "remount,ro"]).arg(&disk.0).status().unwrap().success());
    failed(&place.export(&out, &["--force"]), "out.csv: Read-only file system");
    assert_eq!(fs::read_to_string(&out).unwrap(), "precious");
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error() {
    let place = Place::new();
    let out = place.path("out.csv");
    fs::write(&out, "precious").unwrap();
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 16; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_vramscope")])
        .args(["export", "--no-cache", "--force", "-o"])
        .args([&out, &place.path("in.json")])
        .output()
        .unwrap();
    failed(&output, "out.csv: File too large");
    assert_eq!(fs::read_to_string(&out).unwrap(), "precious");
    assert_eq!(place.names(), ["in.json", "out.csv"]);
}

#[test]
fn a_folder_that_is_not_there() {
    let place = Place::new();
    failed(&place.export(&place.path("gone/out.csv"), &[]), "gone/out.csv: No such file or directory");
    assert_eq!(place.names(), ["in.json"]);
}

#[test]
fn a_signal_midway_leaves_what_was_there() {
    let place = Place::new();
    fs::write(place.path("in.json"), snapshot(120_000, "f")).unwrap();
    let out = place.path("out.csv");
    for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        fs::write(&out, "precious").unwrap();
        let mut child = vramscope(&["export", "--no-cache", "--force", "--table", "events", "-o"])
            .args([&out, &place.path("in.json")])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        // As soon as there is a temporary file, the process is in the middle of writing.
        while place.names().len() == 2 {
            assert!(began.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(), "nothing was written");
        }
        let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(number), "{status}");
        assert_eq!(fs::read_to_string(&out).unwrap(), "precious");
        assert_eq!(place.names(), ["in.json", "out.csv"], "after SIG{signal}");
    }
}

/// Clears the screen, sets the title, and turns the direction of writing, by characters of one and two bytes.
const HOSTILE: &str = "=\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}2J\u{202e}\u{61c}\u{200e}\u{7f}<&\u{fffe}\u{ffff}\"'";

#[test]
fn a_terminal_is_shown_text_only() {
    let place = Place::new();
    fs::write(place.path("in.json"), snapshot(2, HOSTILE)).unwrap();
    let input = place.path("in.json").to_str().unwrap().to_owned();
    let plain: [&[&str]; 10] = [
        &["export", "--table", "frames"],
        &["export", "--table", "frames", "--format", "jsonl"],
        &["export", "--format", "perfetto"],
        &["export", "--table", "frames", "-o", "/dev/tty"],
        &["flame", "--format", "folded"],
        &["flame", "--format", "speedscope"],
        &["flame", "--format", "svg"],
        &["top", "--json"],
        &["tree"],
        &["summary"],
    ];
    for args in plain {
        let shown = in_terminal(&[args, &["--no-cache", &input]].concat());
        // Colors are our own.
        let shown = regex_lite::Regex::new("\u{1b}\\[[0-9;]*m").unwrap().replace_all(&shown, "");
        assert!(!shown.is_empty());
        let acts =
            |c: &char| (c.is_control() && !"\r\n\t".contains(*c)) || "\u{202e}\u{61c}\u{200e}".contains(*c);
        assert_eq!(shown.chars().find(acts), None, "{args:?}: {shown:?}");
    }
}

fn in_terminal(args: &[&str]) -> String {
    let size = PtySize { rows: 50, cols: 200, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_vramscope"));
    command.args(args);
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut reader = pair.master.try_clone_reader().unwrap();
    let mut shown = Vec::new();
    // The end of a terminal is an error on Linux.
    let _ = reader.read_to_end(&mut shown);
    assert!(child.wait().unwrap().success(), "{args:?}: {}", text(&shown));
    String::from_utf8(shown).unwrap()
}

#[test]
fn json_escapes_what_acts_and_means_the_same() {
    let place = Place::new();
    fs::write(place.path("in.json"), snapshot(2, HOSTILE)).unwrap();
    let output = vramscope(&["top", "--of", "stacks", "--json", "--no-cache"])
        .arg(place.path("in.json"))
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains(r"\u009b2J\u202e\u061c\u200e\u007f"), "{printed}");
    assert!(printed.trim_end().chars().all(|c| !c.is_control()));
    let value: Value = serde_json::from_str(&printed).unwrap();
    assert!(value["frames"].as_array().unwrap().iter().any(|frame| frame["name"] == HOSTILE));
}

#[test]
fn a_picture_is_well_formed_whatever_a_name_is() {
    let place = Place::new();
    fs::write(place.path("in.json"), snapshot(2, HOSTILE)).unwrap();
    let output =
        vramscope(&["flame", "--format", "svg", "--no-cache"]).arg(place.path("in.json")).output().unwrap();
    let svg = String::from_utf8(output.stdout).unwrap();
    // What XML allows: https://www.w3.org/TR/xml/#charsets
    let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert!(svg.contains("&lt;&amp;") && svg.chars().all(allowed), "{svg}");
}

#[test]
fn formulas_are_text_for_a_spreadsheet_if_that_is_asked_for() {
    let place = Place::new();
    fs::write(place.path("in.json"), snapshot(2, "=HYPERLINK(\"http://x\")")).unwrap();
    let export = |more: &[&str]| {
        let input = place.path("in.json");
        let output =
            vramscope(&["export", "--table", "frames", "--no-cache"]).arg(input).args(more).output().unwrap();
        text(&output.stdout)
    };
    assert!(export(&[]).contains(",\"=HYPERLINK(\"\"http://x\"\")\""));
    assert!(export(&["--escape-formulas"]).contains(",\"'=HYPERLINK(\"\"http://x\"\")\""));
}

#[test]
fn allocations_share_their_stacks() {
    let frames: Vec<_> = (0..100)
        .map(|n| json!({"name": format!("function_{n}"), "filename": "/home/ann/train.py", "line": n}))
        .collect();
    let event = |n: u64| json!({"action": "alloc", "addr": 4096 * (n + 1), "size": 512, "stream": 0, "frames": frames});
    let place = Place::new();
    let events: Vec<_> = (0..1000).map(event).collect();
    fs::write(place.path("in.json"), json!({"segments": [], "device_traces": [events]}).to_string()).unwrap();
    let output = vramscope(&["top", "--of", "allocations", "--json", "--no-cache"])
        .arg(place.path("in.json"))
        .output()
        .unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["rows"].as_array().unwrap().len(), 1000);
    assert_eq!(value["stacks"].as_array().unwrap().len(), 1);
    assert_eq!(value["frames"][value["stacks"][0][99].as_u64().unwrap() as usize]["name"], "function_99");
    assert!(output.stdout.len() < 300_000, "{} bytes", output.stdout.len());
}

/// Standard input that is refused is not waited for, although the writer stays connected.
#[test]
fn a_refused_standard_input_that_stays_open() {
    let mut child =
        vramscope(&["summary", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut bytes = b"\x80\x02](cos\nsystem\n".to_vec();
    bytes.resize(4096, b'N');
    std::io::Write::write_all(&mut stdin, &bytes).unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(began.elapsed() < PATIENCE, "it hangs");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(2));
    drop(stdin);
}
