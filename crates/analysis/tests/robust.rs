//! Any bytes at all: no panic, no hang, memory bounded by the input, and the same answer however the
//! input is cut. Real recordings in every dialect are damaged tens of thousands of times.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "../../../fuzz/driver.rs"]
mod driver;

use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use peak_alloc::PeakAlloc;
use vramscope_testkit::{Dialect, Options, Rng, attacks, damage, record};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Tests of one process share the allocator that counts, so one runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything that reading and replaying needs at most: a constant, and so much per byte of input.
const BASE_BYTES: usize = 24 << 20;
const BYTES_PER_BYTE: usize = 64;

/// Checks one input, and how much memory that took.
fn check(name: &str, bytes: &[u8], seed: u64) -> bool {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let is_snapshot = driver::check(bytes, seed);
    let used = MEMORY.peak_usage().saturating_sub(before);
    let allowed = BASE_BYTES + BYTES_PER_BYTE * bytes.len();
    assert!(used <= allowed, "{name}: {used} bytes of memory for {} bytes of input", bytes.len());
    is_snapshot
}

fn recording(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings");
    let packed = std::fs::read(folder.join(format!("{name}.xz"))).unwrap();
    let mut bytes = Vec::new();
    lzma_rust2::XzReader::new(packed.as_slice(), true).read_to_end(&mut bytes).unwrap();
    bytes
}

/// One small recording per dialect and format.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let files = [
        "metadata.pickle",
        "mempool.pickle",
        "alloc_retry.pickle",
        "cudagraph_pools.pickle",
        "record_stream.pickle",
        "expandable_max_split.pickle",
        "late_start.pickle",
        "formats_list.pickle",
        "formats_p0.pickle",
        "formats_p1.pickle",
        "formats_p2.pickle",
        "formats_trace_plot.html",
    ];
    let mut seeds: Vec<_> = files.iter().map(|name| ((*name).to_owned(), recording(name))).collect();
    let small = record(&Options {
        events: 300,
        depth: (2, 6),
        frames: 40,
        devices: 2,
        pool_id: true,
        ..Options::default()
    });
    for dialect in [Dialect::Cpp, Dialect::CppTagged, Dialect::Protocol(5)] {
        seeds.push((format!("{dialect:?}"), small.pickle(dialect)));
    }
    let json = vramscope_testkit::json(&small.value(Dialect::Protocol(4)));
    seeds.push(("json".into(), json.into_bytes()));
    seeds
}

#[test]
fn damaged_recordings() {
    let _alone = alone();
    let mut rng = Rng::new(20_261_115);
    let mut intact = 0;
    for (name, bytes) in seeds() {
        assert!(check(&name, &bytes, 1), "{name} itself is a snapshot");
        for case in 0..2000 {
            let damaged = damage(&bytes, &mut rng);
            intact += usize::from(check(&format!("{name} case {case}"), &damaged, case));
        }
    }
    assert!(
        intact > 5000,
        "only {intact} damaged files gave something: the damage is too coarse to test much"
    );
}

#[test]
fn hostile_files() {
    let _alone = alone();
    for (name, bytes) in attacks::all() {
        check(name, &bytes, 7);
    }
}

/// The inputs that the fuzzer starts from: one per dialect, and those that once made a difference.
#[test]
fn the_corpus_of_the_fuzzer() {
    let _alone = alone();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/read");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        assert!(check(&path.display().to_string(), &std::fs::read(&path).unwrap(), 3), "{}", path.display());
    }
}

/// A file cut at any byte is a snapshot that knows so, and what is intact only grows.
#[test]
fn cut_at_every_byte() {
    let _alone = alone();
    for name in ["metadata.pickle", "mempool.pickle"] {
        let bytes = recording(name);
        let mut most = 0;
        for cut in 1..bytes.len() {
            check(name, &bytes[..cut], cut as u64);
            let mut reader = vramscope_snapshot::Reader::new();
            reader.feed(&bytes[..cut]).unwrap();
            let snapshot = reader.finish().unwrap_or_else(|error| panic!("{name} cut at {cut}: {error}"));
            assert!(snapshot.damage.is_some(), "{name} cut at {cut} knows that it is cut");
            let events = snapshot.traces.first().map_or(0, |trace| trace.events.len());
            assert!(events >= most, "{name} cut at {cut} has {events} events, one byte less had {most}");
            most = events;
        }
        assert!(most > 0);
    }
}
