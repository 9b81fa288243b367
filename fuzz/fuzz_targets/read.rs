//! Any bytes into the reader, the cache and the replay.
#![no_main]

#[path = "../driver.rs"]
mod driver;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    driver::check(data, data.len() as u64);
});
