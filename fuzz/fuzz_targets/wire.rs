//! Any bytes as a message between a viewer and its engine.
#![no_main]

#[path = "../wire.rs"]
mod wire;

thread_local! {
    static SESSION: vramscope_engine::Session = wire::session(include_bytes!("../corpus/read/alloc_retry.pickle"));
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    SESSION.with(|session| wire::check(session, data));
});
