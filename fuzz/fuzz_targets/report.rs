//! Any bytes as the data of a report.
#![no_main]

#[path = "../driver.rs"]
mod driver;
#[path = "../report.rs"]
mod report;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    report::check(data);
});
