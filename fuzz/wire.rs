//! Messages between a viewer and its engine, of any bytes: a request that a session answers, or none.

use std::sync::Arc;
use vramscope_analysis::Device;
use vramscope_engine::{OpenFile, PROTOCOL, Request, Response, Session, decode, encode};
use vramscope_snapshot::Reader;

/// A session with one small file.
pub(crate) fn session(file: &[u8]) -> Session {
    let mut reader = Reader::new();
    let mut session = Session::default();
    if reader.feed(file).is_ok()
        && let Ok(snapshot) = reader.finish()
    {
        let snapshot = Arc::new(snapshot);
        let devices = Device::all(&snapshot);
        session.add(OpenFile::new("a.pickle", "rank 0", file.len() as u64, snapshot, devices));
    }
    session
}

/// Decodes bytes as a request, has it answered, and as an answer. The version of the protocol stands before each
/// message and changes with the sources, so it is put there and is not part of an input.
pub(crate) fn check(session: &Session, bytes: &[u8]) -> bool {
    let message = [&PROTOCOL.to_le_bytes()[..], bytes].concat();
    if let Ok(response) = decode::<Response>(&message) {
        assert!(decode::<Response>(&encode(&response)).is_ok(), "what was written is read");
    }
    let Ok(request) = decode::<Request>(&message) else { return false };
    let answer = session.answer(&request, &|| true);
    assert!(decode::<Option<Response>>(&encode(&answer)).is_ok(), "what was written is read");
    true
}
