//! Any bytes at all: no panic, no hang, memory bounded by the input, and the same answer however the
//! input is cut. Real recordings in every dialect are damaged tens of thousands of times.

#[path = "../../../fuzz/driver.rs"]
mod driver;

use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use peak_alloc::PeakAlloc;
use vramscope_testkit::shapes::SHAPES;
use vramscope_testkit::{Dialect, Options, Rng, attacks, damage, record};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Tests of one process share the allocator that counts, so one runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything that reading and replaying needs at most: a constant, and a multiple of the input.
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

/// Damages each file `cases` times; `cargo xtask mutants` goes on from there. Most must still give something, or the
/// damage is too coarse to test much.
fn check_damaged(files: impl IntoIterator<Item = (String, Vec<u8>)>, cases: u64, mut rng: Rng) {
    let mut intact = 0;
    for (name, bytes) in files {
        for case in 0..cases {
            let damaged = damage(&bytes, &mut rng);
            intact += usize::from(check(&format!("{name} case {case}"), &damaged, case));
        }
    }
    assert!(intact > 1000, "only {intact} damaged files gave something");
}

#[test]
fn damaged_recordings() {
    let _alone = alone();
    for (name, bytes) in seeds() {
        assert!(check(&name, &bytes, 1), "{name} itself is a snapshot");
    }
    check_damaged(seeds(), 250, Rng::new(20_261_115));
}

/// Traces, tables and databases of profilers, which have readers of their own.
#[test]
fn damaged_profiles() {
    let _alone = alone();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/read");
    let names = [
        "kineto.json",
        "trace_view.json",
        "timeline.json",
        "timeline.raw.json",
        "operator_memory.csv",
        "memory_record.csv",
        "small_pages.db",
    ];
    let files = names.map(|name| (name.to_owned(), std::fs::read(folder.join(name)).unwrap()));
    check_damaged(files, 700, Rng::new(8));
}

/// Files that are small and ask for much.
#[test]
fn hostile_profiles() {
    let _alone = alone();
    let memory = |at: usize| {
        format!(
            r#"{{"name":"[memory]","ts":{at},"args":{{"Bytes":1,"Addr":{at},"Device Type":{at},"Device Id":{at}}}}}"#
        )
    };
    // Thousands of slices in each other, with an allocation in each: stacks that are longer and longer.
    let depth = 4000;
    let slice = |at: usize| {
        format!(r#"{{"ph":"X","cat":"cpu_op","name":"f{at}","ts":{at},"dur":{}}}"#, 2 * (depth - at))
    };
    let nested: Vec<String> = (0..depth).flat_map(|at| [slice(at), memory(at)]).collect();
    check("nested slices", format!("[{}]", nested.join(",")).as_bytes(), 1);
    let devices: Vec<String> = (0..5000).map(memory).collect();
    check("thousands of devices", format!("[{}]", devices.join(",")).as_bytes(), 2);
    // Levels that rise at every row and fall by a little at every other.
    let rows: Vec<String> = (0..5000).map(|row| format!("[0,{}]", 1000 * row - 999 * (row % 2))).collect();
    let times: Vec<String> = (0..5000).map(|row: u32| row.to_string()).collect();
    check("levels", format!("[[{}],[{}]]", times.join(","), rows.join(",")).as_bytes(), 3);
    let header = "Name,Size(KB),Allocation Time(us),Allocation Total Allocated(MB)\n";
    check("a row without an end", format!("{header}\"{}", "x,".repeat(1 << 20)).as_bytes(), 4);
    check("cells without an end", format!("{header}{}", ",".repeat(1 << 16)).as_bytes(), 5);
    check(
        "numbers",
        format!("{header}a,1e300,9999999999999999999,nan\nb,-1,-5,-5\nc,1,1,281474976710655\n").as_bytes(),
        6,
    );
    // Totals that have nothing to do with the rows.
    let rows: Vec<String> = (0..5000).map(|row| format!("a,1,{row},{}\n", row * 7919 % 1000)).collect();
    check("totals", format!("{header}{}", rows.concat()).as_bytes(), 7);

    // Every page of a database refers to one page: round in circles.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/read");
    let database = std::fs::read(folder.join("small_pages.db")).unwrap();
    for target in 1..=(database.len() / 512) as u32 {
        let mut circle = database.clone();
        for page in 1..database.len() / 512 {
            circle[page * 512..page * 512 + 12].copy_from_slice(&[
                5,
                0,
                0,
                0,
                1,
                1,
                0,
                0,
                0,
                0,
                0,
                target as u8,
            ]);
        }
        check("a tree that refers to itself", &circle, 8);
    }
    // A text of 900 bytes that goes on in page after page for ever.
    for page in 1..database.len() / 512 {
        let mut circle = database.clone();
        circle[page * 512..page * 512 + 4].copy_from_slice(&(page as u32 + 1).to_be_bytes());
        check("a row that refers to itself", &circle, 9);
    }
}

#[test]
fn hostile_files() {
    let _alone = alone();
    for (name, bytes) in attacks::all() {
        check(name, &bytes, 7);
    }
}

/// Files of every format that ask for much in one direction: memory is in proportion to the file.
#[test]
fn files_that_grow_in_one_direction() {
    let _alone = alone();
    for shape in SHAPES {
        for n in [50, 3000] {
            check(shape.name, &(shape.make)(n), 4);
        }
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
