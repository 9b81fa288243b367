//! Messages between a viewer and its engine, of any bytes: a request that a session answers, or none.

use vramscope_analysis::Replay;
use vramscope_engine::{OpenFile, Request, Response, Session, decode, encode};
use vramscope_snapshot::Reader;

/// A session with one small file.
pub(crate) fn session(file: &[u8]) -> Session {
    let mut reader = Reader::new();
    let mut session = Session::default();
    if reader.feed(file).is_ok()
        && let Ok(snapshot) = reader.finish()
    {
        let replays = Replay::all(&snapshot);
        session.add(OpenFile::new("a.pickle", "rank 0", file.len() as u64, snapshot, replays));
    }
    session
}

/// Decodes bytes as a request, has it answered, and as an answer.
pub(crate) fn check(session: &Session, bytes: &[u8]) -> bool {
    if let Ok(response) = decode::<Response>(bytes) {
        assert!(decode::<Response>(&encode(&response)).is_ok(), "what was written is read");
    }
    let Ok(request) = decode::<Request>(bytes) else { return false };
    let answer = session.answer(&request, &|| true);
    assert!(decode::<Option<Response>>(&encode(&answer)).is_ok(), "what was written is read");
    true
}
