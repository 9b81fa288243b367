//! Any bytes beside a sound snapshot: they add to what is known, or produce a warning, and change no event.

use vramscope_snapshot::{Reader, add_sidecar};

use super::driver;

/// A segment with one block.
const RECORDING: &str = r#"{"segments": [{"device": 0, "address": 4096, "total_size": 2097152, "allocated_size": 1024,
"active_size": 1024, "requested_size": 1000, "stream": 0, "segment_type": "small", "blocks": [
{"address": 4096, "size": 1024, "requested_size": 1000, "state": "active_allocated"},
{"address": 5120, "size": 2096128, "requested_size": 0, "state": "inactive"}]}], "device_traces": [[
{"action": "segment_alloc", "addr": 4096, "size": 2097152, "stream": 0, "time_us": 999999},
{"action": "alloc", "addr": 4096, "size": 1000, "stream": 0, "time_us": 1000000},
{"action": "oom", "addr": 0, "size": 90000000, "stream": 0, "device_free": 5, "time_us": 1000001}]]}"#;

/// Adds bytes as a sidecar. Says whether they were used.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let mut reader = Reader::new();
    let fed = reader.feed(RECORDING.as_bytes());
    let Ok(mut snapshot) = fed.and_then(|()| reader.finish()) else { return false };
    let events: Vec<usize> = snapshot.traces.iter().map(|trace| trace.events.len()).collect();
    add_sidecar(&mut snapshot, "run", bytes);
    let traces = snapshot.traces.iter().zip(&events);
    assert!(traces.into_iter().all(|(trace, before)| trace.events.len() == *before), "no event is changed");
    driver::check_snapshot(&snapshot, 0);
    snapshot.sidecar.is_some()
}
