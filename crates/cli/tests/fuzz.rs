//! Each fuzz target on stable, for a few seconds: what it starts from, and mutants of that. `cargo xtask fuzz` goes on
//! from here for a given time.

#[path = "../../../fuzz/driver.rs"]
mod driver;
#[path = "../../../fuzz/report.rs"]
mod report;
#[path = "../../../fuzz/seeds.rs"]
mod seeds;
#[path = "../../../fuzz/sidecar.rs"]
mod sidecar;
#[path = "../../../fuzz/sqlite.rs"]
mod sqlite;
#[path = "../../../fuzz/store.rs"]
mod store;
#[path = "../../../fuzz/verbs.rs"]
mod verbs;
#[path = "../../../fuzz/wire.rs"]
mod wire;

use std::path::Path;

use vramscope_testkit::{Rng, mutate};

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/read");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Checks the seeds of a target and a number of mutants. Enough of the former must give something, or the target
/// tests little.
fn drive(target: &str, mutants: u64, check: impl Fn(&[u8]) -> bool) {
    let seeds = seeds::seeds(target, &corpus());
    let sound = seeds.iter().filter(|seed| check(seed)).count();
    assert!(3 * sound >= seeds.len(), "{target}: only {sound} of {} give something", seeds.len());
    let mut rng = Rng::new(20_261_116);
    for _ in 0..mutants {
        let (seed, other) = (rng.pick(&seeds).clone(), rng.pick(&seeds).clone());
        check(&mutate(&seed, &other, &mut rng));
    }
}

#[test]
fn databases() {
    let all = seeds::seeds("sqlite", &[]);
    let mut rng = Rng::new(3);
    let mut sound = 0;
    for case in 0..3000 {
        let (seed, other) = (rng.pick(&all).clone(), rng.pick(&all).clone());
        sound += usize::from(driver::check(&sqlite::database(&mutate(&seed, &other, &mut rng)), case));
    }
    assert!(sound > 300, "only {sound} databases gave something");
}

#[test]
fn command_lines() {
    drive("verbs", 1500, verbs::check);
}

#[test]
fn data_of_reports() {
    drive("report", 3000, report::check);
}

#[test]
fn cache_entries_and_answers() {
    drive("store", 2000, store::check);
}

#[test]
fn sidecars() {
    drive("sidecar", 500, sidecar::check);
}

#[test]
fn messages() {
    let session = wire::session(&corpus()[0]);
    drive("wire", 3000, |bytes| wire::check(&session, bytes));
}

#[test]
fn requests() {
    drive("http", 20_000, |bytes| vramscope_cli::hear(bytes) > 0);
}
