//! Runs a program and measures it: CPU time, peak memory, output size.
//!
//! Time on the wall says nothing on a machine that others use; the kernel counts what a process used by itself.
#![allow(unsafe_code, reason = "only wait4 reports what a child used")]

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What a run cost and what came of it.
#[derive(Clone, Debug)]
pub struct Run {
    /// How it ended.
    pub status: ExitStatus,
    /// CPU time, user and system.
    pub cpu: Duration,
    /// The most memory that was resident, in bytes.
    pub peak: u64,
    /// Bytes of standard output.
    pub printed: u64,
    /// The beginning of standard output.
    pub stdout: Vec<u8>,
    /// The beginning of standard error.
    pub stderr: Vec<u8>,
    /// Whether it was ended because it ran for too long.
    pub hung: bool,
}

/// Bytes of output that are kept.
const KEPT: usize = 64 << 10;

/// Runs a command to its end, or ends it after so long on the wall, which is generous.
pub fn run(command: &mut Command, limit: Duration) -> std::io::Result<Run> {
    run_on(Stdio::null(), command, limit)
}

/// The same with a standard input.
pub fn run_on(stdin: Stdio, command: &mut Command, limit: Duration) -> std::io::Result<Run> {
    let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().map(|pipe| thread::spawn(move || drain(pipe)));
    let stderr = child.stderr.take().map(|pipe| thread::spawn(move || drain(pipe)));
    let pid = i32::try_from(child.id()).map_err(std::io::Error::other)?;
    let began = Instant::now();
    let mut hung = false;
    let (status, usage) = loop {
        let mut status = 0;
        // SAFETY: all bits zero are a valid `rusage`, which is plain numbers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to locals that outlive the call; `pid` is a child of this process that nobody
        // else waits for, so the number cannot have been given to another process.
        let ended = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage) };
        match ended {
            0 if began.elapsed() > limit && !hung => {
                hung = true;
                child.kill()?;
            }
            0 => thread::sleep(Duration::from_millis(1)),
            ended if ended == pid => break (ExitStatus::from_raw(status), usage),
            _ => return Err(std::io::Error::last_os_error()),
        }
    };
    let (printed, stdout) = stdout.and_then(|reading| reading.join().ok()).unwrap_or_default();
    let (_, stderr) = stderr.and_then(|reading| reading.join().ok()).unwrap_or_default();
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    // Linux counts in KiB.
    let peak = usage.ru_maxrss as u64 * 1024;
    Ok(Run { status, cpu: time(usage.ru_utime) + time(usage.ru_stime), peak, printed, stdout, stderr, hung })
}

/// Reads to the end and keeps the beginning.
fn drain(mut pipe: impl Read) -> (u64, Vec<u8>) {
    let (mut all, mut kept) = (0, Vec::new());
    let mut buffer = vec![0; 1 << 16];
    while let Ok(len @ 1..) = pipe.read(&mut buffer) {
        all += len as u64;
        let room = KEPT - kept.len();
        kept.extend_from_slice(&buffer[..len.min(room)]);
    }
    (all, kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_and_costs() {
        let limit = Duration::from_secs(60);
        let shell = run(Command::new("sh").args(["-c", "echo hello; echo no >&2; exit 3"]), limit).unwrap();
        assert_eq!((shell.status.code(), shell.printed, shell.hung), (Some(3), 6, false));
        assert_eq!((shell.stdout.as_slice(), shell.stderr.as_slice()), (&b"hello\n"[..], &b"no\n"[..]));
        assert!(shell.peak > 100_000 && shell.cpu < Duration::from_secs(5));
        let asleep = run(Command::new("sleep").arg("1000"), Duration::from_millis(50)).unwrap();
        assert!(asleep.hung && !asleep.status.success());
    }
}
