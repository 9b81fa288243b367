//! The terminal UI in a real terminal: the program in a pty, its output in a terminal emulator.
#![cfg(unix)]

use std::io::{Read, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};

/// A busy machine is slow; nothing here waits longer than it has to.
const PATIENCE: Duration = Duration::from_secs(60);

fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings").join(name)
}

fn cells(n: u16) -> NonZero<u16> {
    NonZero::new(n).unwrap()
}

struct Tty {
    master: Box<dyn MasterPty + Send>,
    child: Box<dyn Child + Send + Sync>,
    writer: Box<dyn Write + Send>,
    /// What a terminal shows, and everything that was written to it.
    screen: Arc<Mutex<(vt100::Parser, Vec<u8>)>>,
}

impl Tty {
    fn start(
        args: &[&str],
        files: &[PathBuf],
        (width, height): (u16, u16),
        variables: &[(&str, &str)],
    ) -> Self {
        let size = PtySize { rows: height, cols: width, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_vramscope"));
        command.args(args);
        command.args(files);
        command.env("TERM", "xterm-256color");
        command.env("LC_ALL", "C.UTF-8");
        command.env_remove("NO_COLOR");
        for (name, value) in variables {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let screen = Arc::new(Mutex::new((vt100::Parser::new(cells(height), cells(width), 0), Vec::new())));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let copy = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            while let Ok(len @ 1..) = reader.read(&mut buffer) {
                let mut screen = copy.lock().unwrap();
                screen.0.process(&buffer[..len]);
                screen.1.extend_from_slice(&buffer[..len]);
            }
        });
        let writer = pair.master.take_writer().unwrap();
        Self { master: pair.master, child, writer, screen }
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().0.screen().contents()
    }

    fn raw(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap().1).into_owned()
    }

    fn type_keys(&mut self, keys: &str) -> &mut Self {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
        self
    }

    #[track_caller]
    fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> &mut Self {
        let began = Instant::now();
        while !is_so(&self.text()) {
            assert!(began.elapsed() < PATIENCE, "waited for {what}; the screen is:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
        self
    }

    #[track_caller]
    fn shows(&mut self, what: &str) -> &mut Self {
        self.until(what, |text| text.contains(what))
    }

    fn resize(&mut self, width: u16, height: u16) -> &mut Self {
        self.screen.lock().unwrap().0.screen_mut().set_size(cells(height), cells(width));
        self.master.resize(PtySize { rows: height, cols: width, pixel_width: 0, pixel_height: 0 }).unwrap();
        self
    }

    #[track_caller]
    fn ends(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                // What was written last may still be on its way.
                std::thread::sleep(Duration::from_millis(100));
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "it does not end; the screen is:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The terminal is as it was: the alternate screen left, the cursor shown, the mouse let go. What was written last
    /// may still be on its way; it comes in one piece or in several.
    #[track_caller]
    fn is_given_back(&self) {
        let began = Instant::now();
        loop {
            let locked = self.screen.lock().unwrap();
            let screen = locked.0.screen();
            let mouse = screen.mouse_protocol_mode();
            let is = (screen.alternate_screen(), screen.hide_cursor(), mouse);
            if is == (false, false, vt100::MouseProtocolMode::None) {
                return;
            }
            drop(locked);
            assert!(began.elapsed() < PATIENCE, "the alternate screen, a hidden cursor, the mouse: {is:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, name: &str) {
        let id = self.child.process_id().unwrap().to_string();
        assert!(std::process::Command::new("kill").args([name, &id]).status().unwrap().success());
    }
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    let mut tty = Tty::start(&["--no-cache"], &[recording("oom.pickle.xz")], (120, 40), &[]);
    tty.shows("out of memory at event").shows("live at event 11 822");
    let began = Instant::now();
    let mut written = 0;
    while written != tty.raw().len() {
        written = tty.raw().len();
        assert!(began.elapsed() < PATIENCE, "it writes on and on");
        std::thread::sleep(Duration::from_secs(1));
    }
    tty.type_keys("\r").shows("%par");
}

#[test]
fn load_timeline_detail_search_resize_quit() {
    let mut tty = Tty::start(&[], &[recording("oom.pickle.xz")], (80, 24), &[]);
    tty.shows("event 11 822").shows("out of memory").shows("live at event 11 822, by line");
    tty.type_keys("g").shows("0 B requested  start");
    tty.type_keys("p").shows("peak");
    tty.type_keys("\r").shows("capture.py:232 <module>").shows("%par");
    tty.type_keys("/softmax\r").shows("nothing found");
    tty.type_keys("\x1b").until("the prompt to close", |text| !text.contains("nothing found"));
    tty.type_keys("/activations\r").shows("match 1 of").shows("activations.py:103 forward");
    tty.resize(160, 45).shows("stack, innermost first").shows("match 1 of");
    // The line that was found is the last one; the footer has room for four keys.
    tty.resize(40, 10).shows("/ search  ? help  q back").shows("430 MiB 10.5%");
    tty.resize(100, 30).shows("match 1 of");
    tty.type_keys("4").shows("what pins it");
    tty.type_keys("?").shows("Esc or ? closes").type_keys("?");
    tty.type_keys("Q");
    assert_eq!(tty.ends().exit_code(), 0);
    tty.is_given_back();
}

#[test]
fn compare_two_files() {
    let files = [recording("llama_python.pickle.xz"), recording("leak_graph.pickle.xz")];
    let mut tty = Tty::start(&["tui", "--compare"], &files, (160, 45), &[]);
    tty.shows("A llama_python.pickle.xz").shows("B leak_graph.pickle.xz");
    tty.type_keys("9").shows("requested  llama_python.pickle.xz event").shows("change");
    tty.type_keys("q").shows("▸ A llama_python.pickle.xz");
    tty.type_keys("s}").shows("▸ B leak_graph.pickle.xz");
    tty.type_keys("q");
    assert_eq!(tty.ends().exit_code(), 0);
    tty.is_given_back();
}

#[test]
fn escape_is_at_once_and_pasted_text_is_text() {
    let mut tty = Tty::start(&[], &[recording("llama_python.pickle.xz")], (80, 24), &[]);
    tty.shows("requested  event").type_keys("\r").shows("%par");
    tty.type_keys("/\x1b[200~q\rQforward\x1b[201~").shows("/qQforward");
    tty.type_keys("\x1b").until("the prompt to close", |text| !text.contains("qQforward"));
    tty.type_keys("Q");
    tty.ends();
}

#[test]
fn whatever_ends_it_gives_the_terminal_back() {
    for signal in ["-TERM", "-HUP", "-INT"] {
        let mut tty = Tty::start(&[], &[recording("llama_python.pickle.xz")], (80, 24), &[]);
        tty.shows("requested  event").signal(signal);
        assert_ne!(tty.ends().exit_code(), 0, "{signal}");
        tty.is_given_back();
    }
    let mut tty = Tty::start(&[], &[recording("llama_python.pickle.xz")], (80, 24), &[]);
    tty.shows("requested  event").type_keys("\x03");
    assert_eq!(tty.ends().exit_code(), 130);
    tty.is_given_back();
}

#[test]
fn suspended_it_gives_the_terminal_back_and_takes_it_again() {
    let mut tty = Tty::start(&[], &[recording("llama_python.pickle.xz")], (80, 24), &[]);
    tty.shows("requested  event").type_keys("\x1a");
    let began = Instant::now();
    while tty.screen.lock().unwrap().0.screen().alternate_screen() {
        assert!(began.elapsed() < PATIENCE, "it is not suspended");
        std::thread::sleep(Duration::from_millis(20));
    }
    tty.is_given_back();
    tty.signal("-CONT");
    tty.shows("requested  event").type_keys("2").shows("%par").type_keys("Q");
    assert_eq!(tty.ends().exit_code(), 0);
    tty.is_given_back();
}

#[test]
fn copying_reaches_the_terminal() {
    let mut tty = Tty::start(&[], &[recording("oom.pickle.xz")], (80, 24), &[]);
    tty.shows("requested  event").type_keys("\r").shows("%par").type_keys("y").shows("copied");
    // OSC 52, with "/home/user/train/capture.py:232 <module>\n" in base 64.
    tty.until("the clipboard", |_| true);
    assert!(
        tty.raw().contains("\x1b]52;c;L2hvbWUvdXNlci90cmFpbi9jYXB0dXJlLnB5OjIzMiA8bW9kdWxlPgo="),
        "{}",
        tty.text()
    );
    tty.type_keys("Q");
    tty.ends();
}

#[test]
fn no_color_and_ascii_are_honoured() {
    let mut tty =
        Tty::start(&["tui"], &[recording("oom.pickle.xz")], (80, 24), &[("NO_COLOR", "1"), ("LC_ALL", "C")]);
    tty.shows("live at event 11 822, by line").type_keys("Q");
    tty.ends();
    let raw = tty.raw();
    assert!(raw.is_ascii(), "only ASCII");
    for color in ["\x1b[38;", "\x1b[48;", "\x1b[3", "\x1b[9"] {
        let colored = raw.match_indices(color).any(|(at, _)| {
            let code: String = raw[at + 2..].chars().take_while(|c| *c != 'm' && *c != 'H').collect();
            // 39 and 49 are the terminal's own colors.
            raw[at + 2 + code.len()..].starts_with('m')
                && !code.split(';').all(|n| ["0", "39", "49", "59"].contains(&n))
        });
        assert!(!colored, "{color:?}");
    }
}

#[test]
fn off_a_terminal_it_prints_the_summary() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_vramscope"))
        .arg(recording("oom.pickle.xz"))
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("live at the peak, by line"), "{text}");
    assert!(!text.contains('\x1b'));
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_vramscope")).arg("summry").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("'summary'"));
}

#[test]
fn a_file_that_is_none_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.pickle");
    std::fs::write(&file, b"PK\x03\x04 not a pickle").unwrap();
    let mut tty = Tty::start(&["tui"], &[file], (80, 24), &[]);
    tty.shows("zip").type_keys("q");
    assert_eq!(tty.ends().exit_code(), 2);
    tty.is_given_back();
}
