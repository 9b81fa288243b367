//! What goes into the cache comes out the same.

use crate::common;
use vramscope_snapshot::ipc;

#[test]
fn every_recording_survives_the_round_trip() {
    for (name, bytes) in common::recordings() {
        let snapshot = common::read(&bytes).unwrap();
        let mut arrow = Vec::new();
        ipc::encode(&snapshot, &mut arrow).unwrap();
        assert_eq!(ipc::decode(arrow.as_slice()).unwrap(), snapshot, "{name}");
    }
}

#[test]
fn a_damaged_cache_is_an_error_and_never_a_wrong_answer_that_panics() {
    let (_, bytes) = common::recordings().swap_remove(0);
    let snapshot = common::read(&bytes).unwrap();
    let mut arrow = Vec::new();
    ipc::encode(&snapshot, &mut arrow).unwrap();
    for cut in (0..arrow.len()).step_by(97) {
        assert!(ipc::decode(&arrow[..cut]).is_err(), "cut at {cut}");
    }
}
