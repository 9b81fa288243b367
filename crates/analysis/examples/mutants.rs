//! Damaged files of every format through all readers: no panic, no hang, time and memory in proportion.
//!
//! `cargo xtask mutants --count N` runs it. Each mutant is made from its number alone, so one that breaks something can
//! be made again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that runs for long")]

#[path = "../../../fuzz/driver.rs"]
mod driver;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use rustix::time::{ClockId, clock_gettime};
use vramscope_testkit::shapes::SHAPES;
use vramscope_testkit::{Rng, attacks, mutate};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// What reading and replaying may take at most, as in `tests/robust.rs`.
const BASE_BYTES: usize = 24 << 20;
const BYTES_PER_BYTE: usize = 64;

/// CPU time: a constant, and a time per byte of input for reading it three times and asking everything.
const BASE_TIME: Duration = Duration::from_secs(1);
const TIME_PER_BYTE: Duration = Duration::from_micros(20);

/// Longer files make mutants rare.
const LONGEST: usize = 32 << 10;

/// CPU time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// What mutants are made of.
fn seeds() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seeds: Vec<Vec<u8>> =
        SHAPES.iter().flat_map(|shape| [(shape.make)(8), (shape.make)(40)]).collect();
    seeds.extend(attacks::all().into_iter().map(|(_, bytes)| bytes));
    let mut files: Vec<_> = std::fs::read_dir(root.join("fuzz/corpus/read"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    // Half of the mutants are of real files.
    let stored: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    seeds.retain(|seed| seed.len() <= LONGEST);
    let times = seeds.len().div_ceil(stored.len());
    seeds.extend(
        stored.iter().cycle().take(times * stored.len()).filter(|seed| seed.len() <= LONGEST).cloned(),
    );
    seeds
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let (from, count) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(10_000));
    let seeds = seeds();
    static NOW: AtomicU64 = AtomicU64::new(u64::MAX);
    // A deadlock uses no CPU time, so wall time is watched, too.
    std::thread::spawn(|| {
        let mut seen = (u64::MAX, Instant::now());
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let now = NOW.load(Ordering::Relaxed);
            if now != seen.0 {
                seen = (now, Instant::now());
            } else if seen.1.elapsed() > Duration::from_secs(300) {
                eprintln!("mutant {now} does not end");
                std::process::exit(1);
            }
        }
    });
    let (mut sound, mut broken) = (0_u64, 0_u64);
    let (mut slowest, mut largest) = (Duration::ZERO, 0_f64);
    let began = Instant::now();
    for number in from..from + count {
        NOW.store(number, Ordering::Relaxed);
        let mut rng = Rng::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (seed, other) = (rng.pick(&seeds).clone(), rng.pick(&seeds).clone());
        let mutant = mutate(&seed, &other, &mut rng);
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let clock = thread_time();
        let result = std::panic::catch_unwind(|| driver::check(&mutant, number));
        let (time, used) = (thread_time().saturating_sub(clock), MEMORY.peak_usage().saturating_sub(before));
        let allowed = BASE_BYTES + BYTES_PER_BYTE * mutant.len();
        let longest = BASE_TIME + TIME_PER_BYTE * mutant.len() as u32;
        slowest = slowest.max(time);
        largest = largest.max(used as f64 / allowed as f64);
        sound += u64::from(matches!(result, Ok(true)));
        let fault = match result {
            Err(_) => Some("panics".to_owned()),
            Ok(_) if used > allowed => Some(format!("takes {used} bytes of memory, {allowed} are allowed")),
            Ok(_) if time > longest => Some(format!("takes {time:?}")),
            Ok(_) => None,
        };
        if let Some(fault) = fault {
            broken += 1;
            let path = std::env::temp_dir().join(format!("vramscope-mutant-{number}"));
            std::fs::write(&path, &mutant).unwrap();
            println!("mutant {number} of {} bytes {fault}: {}", mutant.len(), path.display());
        }
        let done = number - from + 1;
        if done.is_multiple_of(10_000) || done == count {
            println!(
                "{done} mutants, {sound} with something to show, {broken} broken; slowest {slowest:?}, most memory {:.0} % of \
                 what is allowed; {:.0} s",
                largest * 100.0,
                began.elapsed().as_secs_f64()
            );
        }
    }
    assert!(broken == 0, "{broken} mutants broke something");
}
