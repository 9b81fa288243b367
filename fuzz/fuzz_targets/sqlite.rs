//! Databases of any structure into the reader, the cache and the replay.
#![no_main]

#[path = "../driver.rs"]
mod driver;
#[path = "../sqlite.rs"]
mod sqlite;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    driver::check(&sqlite::database(data), data.len() as u64);
});
