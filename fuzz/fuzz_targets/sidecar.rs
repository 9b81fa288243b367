//! Any bytes beside a snapshot.
#![no_main]

#[path = "../driver.rs"]
mod driver;
#[path = "../sidecar.rs"]
mod sidecar;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    sidecar::check(data);
});
