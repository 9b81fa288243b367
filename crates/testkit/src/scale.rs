//! Does four times as much input cost at most about four times as much?
//!
//! A verb is asked about a shape of size 4 n first. Only if that costs more than a floor, below which nothing can be
//! told from noise, it is asked about n, and the two are compared. What seems too much is measured again: the least
//! of several counts, since a busy machine only ever adds.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::child::{self, Run};
use crate::shapes::Shape;
use crate::verbs;

/// Times as much that four times the input may cost.
const MOST: u32 = 6;

/// Less time than this is noise.
const FLOOR: Duration = Duration::from_millis(60);

/// Less memory than this is noise: the program maps large tables in pages of 2 MiB.
const FLOOR_BYTES: u64 = 24 << 20;

/// Repetitions of what seems too much.
const TRIES: usize = 3;

/// Far more than anything takes.
const HANG: Duration = Duration::from_secs(120);

/// What is wrong with an answer, in words.
pub type Fault = String;

/// The program, and where it may write.
pub struct Scale<'a> {
    /// The program.
    pub program: &'a Path,
    /// A folder for inputs and outputs.
    pub folder: &'a Path,
    /// The smaller size.
    pub n: u64,
}

impl Scale<'_> {
    /// Asks every verb about one shape.
    pub fn check(&self, shape: &Shape, verbs: &[&[&str]]) -> Vec<Fault> {
        let name: String =
            shape.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let place = |kind: &str| self.folder.join(format!("{name}.{kind}"));
        let (small, large, out) = (place("small"), place("large"), place("out"));
        std::fs::write(&small, (shape.make)(self.n)).unwrap();
        std::fs::write(&large, (shape.make)(4 * self.n)).unwrap();
        let sizes = [&small, &large].map(|file| file.metadata().unwrap().len());
        let mut faults = Vec::new();
        for verb in verbs {
            let ask = |file: &Path| self.ask(verb, file, &out);
            if let Some(fault) = compare(ask, &small, &large, sizes) {
                faults.push(format!("{}: {}: {fault}", shape.name, verb.join(" ")));
            }
        }
        for file in [small, large, out] {
            let _ = std::fs::remove_file(file);
        }
        faults
    }

    fn ask(&self, verb: &[&str], file: &Path, out: &Path) -> Run {
        let _ = std::fs::remove_file(out);
        let line = verbs::line(verb, &file.to_string_lossy(), &out.to_string_lossy());
        let mut command = Command::new(self.program);
        // Nothing is kept from one question to the next: there is no such folder.
        command.args(line).env("XDG_CACHE_HOME", "/dev/null");
        child::run(&mut command, HANG).unwrap()
    }
}

fn compare(ask: impl Fn(&Path) -> Run, small: &Path, large: &Path, sizes: [u64; 2]) -> Option<Fault> {
    let mut after = ask(large);
    if let Some(fault) = crash(&after) {
        return Some(fault);
    }
    let printed = 2048 * sizes[1] + (64 << 10);
    if after.printed > printed {
        return Some(format!("prints {} bytes about {}", after.printed, sizes[1]));
    }
    if after.cpu <= MOST * FLOOR && after.peak <= u64::from(MOST) * FLOOR_BYTES {
        return None;
    }
    let mut before = ask(small);
    for attempt in 0.. {
        let too_slow = after.cpu > MOST * before.cpu.max(FLOOR);
        let too_large = after.peak > u64::from(MOST) * before.peak.max(FLOOR_BYTES);
        if !too_slow && !too_large {
            return None;
        }
        if attempt == TRIES {
            return Some(format!(
                "{} and {} bytes take {:.0} and {:.0} ms, {} and {} MiB",
                sizes[0],
                sizes[1],
                before.cpu.as_secs_f64() * 1e3,
                after.cpu.as_secs_f64() * 1e3,
                before.peak >> 20,
                after.peak >> 20
            ));
        }
        // The least of the larger, the most of the smaller: both only in favour of the program.
        let (again, smaller) = (ask(large), ask(small));
        (after.cpu, after.peak) = (after.cpu.min(again.cpu), after.peak.min(again.peak));
        (before.cpu, before.peak) = (before.cpu.max(smaller.cpu), before.peak.max(smaller.peak));
    }
    None
}

/// A panic, a signal or a hang.
pub fn crash(run: &Run) -> Option<Fault> {
    let said = String::from_utf8_lossy(&run.stderr);
    if run.hung {
        return Some("does not end".into());
    }
    match run.status.code() {
        Some(0..=2) if !said.contains("panicked at") => None,
        _ => Some(format!("{}: {}", run.status, said.lines().take(3).collect::<Vec<_>>().join(" "))),
    }
}
