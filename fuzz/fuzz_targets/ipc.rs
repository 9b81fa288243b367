//! Any bytes as the data of a report.
#![no_main]

#[path = "../ipc.rs"]
mod ipc;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ipc::check(data);
});
