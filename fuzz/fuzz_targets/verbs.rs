//! Any command line about any file.
#![no_main]

#[path = "../verbs.rs"]
mod verbs;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    verbs::check(data);
});
