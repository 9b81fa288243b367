//! Any bytes as requests to `serve`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    vramscope_cli::hear(data);
});
