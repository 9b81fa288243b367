//! Reading ends whichever way it ends: refused, cancelled or failed, at any byte, of files, pipes and many at once.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use vramscope_files::{OpenError, Progress, find, open, open_each};

/// A read takes milliseconds; whatever takes so long waits for something that never comes.
const PATIENCE: Duration = Duration::from_secs(40);

/// Ends the process if nothing is counted for a long time. The product has none: this is how a test sees a hang.
fn watchdog(test: &'static str) -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let watched = Arc::clone(&count);
    thread::spawn(move || {
        let mut last = u64::MAX;
        loop {
            let now = watched.load(Ordering::SeqCst);
            if now == last {
                eprintln!("watchdog: {test} hangs in round {now}");
                std::process::abort();
            }
            last = now;
            thread::sleep(PATIENCE);
        }
    });
    count
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }
}

/// A pickle of `len` bytes, a list of texts, that wants to load `os.system` at a byte.
fn refused(at: usize, len: usize) -> Vec<u8> {
    let mut bytes = b"\x80\x02](".to_vec();
    let mut text = vec![b'U', 200];
    text.resize(202, b'x');
    while bytes.len() < at {
        bytes.extend_from_slice(&text);
    }
    bytes.extend_from_slice(b"cos\nsystem\n");
    while bytes.len() < len {
        bytes.extend_from_slice(&text);
    }
    bytes
}

/// Says that it is cancelled when it is asked for the nth time, or once somebody says so.
#[derive(Default)]
struct Cancels {
    at: u64,
    asked: AtomicU64,
    now: AtomicBool,
}

impl Progress for Cancels {
    fn advance(&self, _: u64) {}

    fn is_cancelled(&self) -> bool {
        self.now.load(Ordering::SeqCst) || self.asked.fetch_add(1, Ordering::SeqCst) >= self.at
    }
}

fn read(path: &Path, progress: &dyn Progress) -> Result<(), OpenError> {
    let (inputs, _) = find(&[path.to_owned()]);
    open(&inputs[0], None, progress).map(drop)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut random = Random(7);
    let file = |number: usize| {
        let len = 600_000 + random.below(3_000_000);
        let path = folder.join(format!("rank{number}.pickle"));
        fs::write(&path, refused(random.below(len), len)).unwrap();
        path
    };
    (0..24).map(file).collect()
}

#[test]
fn files_that_are_refused_or_cancelled_at_any_byte() {
    let count = watchdog("files");
    let folder = tempfile::tempdir().unwrap();
    let (paths, mut random) = (files(folder.path()), Random(1));
    for _ in 0..2000 {
        let path = &paths[random.below(paths.len())];
        let cancels = Cancels { at: random.below(12) as u64, ..Cancels::default() };
        let error = read(path, &cancels).unwrap_err();
        assert!(matches!(error, OpenError::Read { .. } | OpenError::Cancelled { .. }), "{error}");
        count.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn many_files_at_once() {
    let count = watchdog("many");
    let folder = tempfile::tempdir().unwrap();
    files(folder.path());
    let (inputs, _) =
        find(&fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>());
    let mut random = Random(2);
    for _ in 0..60 {
        let cancels = Cancels { at: random.below(200) as u64, ..Cancels::default() };
        let results = open_each(&inputs, None, &cancels, |_| ());
        assert!(results.iter().all(Result::is_err));
        count.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(unix)]
mod pipes {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn pipe(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        path
    }

    /// Writes until the other side has had enough.
    fn write(path: &Path, bytes: Vec<u8>) {
        let path = path.to_owned();
        thread::spawn(move || {
            drop(File::options().write(true).open(path).and_then(|mut pipe| pipe.write_all(&bytes)));
        });
    }

    #[test]
    fn pipes_that_are_refused_or_cancelled_at_any_byte() {
        let count = watchdog("pipes");
        let folder = tempfile::tempdir().unwrap();
        let mut random = Random(3);
        for round in 0..150 {
            let path = pipe(folder.path(), &format!("{round}"));
            write(&path, refused(random.below(1_500_000), 1_600_000));
            let cancels = Cancels { at: random.below(30) as u64, ..Cancels::default() };
            assert!(read(&path, &cancels).is_err());
            count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The writer sends nothing more, but stays connected.
    #[test]
    fn a_refused_pipe_that_stays_open() {
        let count = watchdog("open pipe");
        let folder = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let path = pipe(folder.path(), &format!("{round}"));
            let (name, done) = (path.clone(), Arc::new(AtomicBool::new(false)));
            let until = Arc::clone(&done);
            let writer = thread::spawn(move || {
                let mut pipe = File::options().write(true).open(name).unwrap();
                let _ = pipe.write_all(&refused(1200, 200_000));
                while !until.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let error = read(&path, &()).unwrap_err();
            assert!(error.to_string().contains("os.system"), "{error}");
            done.store(true, Ordering::SeqCst);
            writer.join().unwrap();
            count.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_pipe_without_a_writer_can_be_cancelled() {
        let count = watchdog("silent pipe");
        let folder = tempfile::tempdir().unwrap();
        for (round, at) in [1, 2, 5].into_iter().enumerate() {
            let path = pipe(folder.path(), &format!("{round}"));
            let error = read(&path, &Cancels { at, ..Cancels::default() }).unwrap_err();
            assert!(matches!(error, OpenError::Cancelled { .. }), "{error}");
            count.fetch_add(1, Ordering::SeqCst);
        }
    }
}
