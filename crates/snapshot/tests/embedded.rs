//! The snapshot inside a report: what goes in comes out, and nothing else does.

use crate::common;
use vramscope_snapshot::embedded::{EmbeddedError, decode, encode};
use vramscope_snapshot::{Reader, Snapshot};

fn encoded(snapshot: &Snapshot) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(snapshot, &mut bytes).unwrap();
    bytes
}

#[test]
fn every_recording_survives_the_round_trip() {
    for (name, bytes) in common::recordings() {
        let snapshot = common::read(&bytes).unwrap();
        assert_eq!(decode(&encoded(&snapshot)).unwrap(), snapshot, "{name}");
    }
}

/// A trace of one event, whose stack has one frame.
fn small() -> Snapshot {
    let text = r#"{"segments": [], "device_traces": [[{"action": "alloc", "addr": 4096, "size": 512, "stream": 7,
        "frames": [{"name": "forward", "filename": "model.py", "line": 3}]}]]}"#;
    let mut reader = Reader::new();
    reader.feed(text.as_bytes()).unwrap();
    reader.finish().unwrap()
}

#[test]
fn data_that_is_cut_is_an_error() {
    let bytes = encoded(&small());
    for cut in 0..bytes.len() {
        assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    assert!(decode(&[bytes.as_slice(), b"more"].concat()).is_err());
}

/// Place of the values of a section: after its name and their length.
fn values(bytes: &[u8], section: &str) -> usize {
    let named = [&(section.len() as u64).to_le_bytes(), section.as_bytes()].concat();
    let at = bytes.windows(named.len()).position(|part| part == named).unwrap();
    at + named.len() + 8
}

#[test]
fn an_id_of_a_row_that_does_not_exist_is_an_error() {
    let bytes = encoded(&small());
    // The stacks are the absent, the empty and the one of the event: number 2.
    let changed = |section: &str, value: u8| {
        let mut bytes = bytes.clone();
        let at = values(&bytes, section);
        bytes[at] = value;
        decode(&bytes).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(changed("trace0.stack", 2), Ok(()));
    let damaged = |table| Err(format!("the data of a report, which is damaged ({table})"));
    assert_eq!(changed("trace0.stack", 3), damaged("stacks of events"));
    assert_eq!(changed("trace0.stream", 200), damaged("streams of events"));
    assert_eq!(changed("trace0.action", 14), damaged("actions"));
    assert_eq!(changed("frames", 200), damaged("frames"));
    assert_eq!(changed("stack_frames", 1), damaged("stacks"));
    assert_eq!(changed("text_ends", 1), damaged("strings"));
    assert_eq!(changed("text", 0xff), damaged("strings"));
}

/// A length that no input has takes no memory.
#[test]
fn lengths_are_those_of_the_input() {
    let mut bytes = encoded(&small());
    let at = values(&bytes, "trace0.addr");
    bytes[at - 8..at].copy_from_slice(&(u64::MAX / 16 * 8).to_le_bytes());
    assert_eq!(decode(&bytes), Err(EmbeddedError::Damaged("no column trace0.addr".into())));
}

#[test]
fn another_version_is_named() {
    let mut bytes = encoded(&small());
    bytes[7] = b'0';
    // Reports of version 0.1 began with an Arrow message.
    for bytes in [bytes.as_slice(), b"\xff\xff\xff\xff\x78\x01\0\0"] {
        assert_eq!(decode(bytes), Err(EmbeddedError::Version));
        let mut reader = Reader::new();
        reader.feed(bytes).unwrap();
        let error = reader.finish().unwrap_err().to_string();
        assert!(error.contains("another version of vramscope made. Make it again"), "{error}");
    }
}
