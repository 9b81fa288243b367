//! Changes to an entry of the cache, or to a kept answer.
#![no_main]

#[path = "../store.rs"]
mod store;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    store::check(data);
});
