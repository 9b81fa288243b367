//! A session in a Web Worker: bytes come in chunks, questions and answers as messages.

use vramscope_analysis::Replay;
use vramscope_engine::{OpenFile, Request, Response, Session, decode, encode};
use vramscope_snapshot::{PROBE_BYTES, ReadError, Reader, Snapshot, ipc, looks_like_snapshot, naming};
use wasm_bindgen::prelude::*;

/// A file on its way.
enum Source {
    /// Whatever PyTorch wrote.
    File(Box<Reader>),
    /// What a report carries.
    Arrow(Vec<u8>),
}

struct Reading {
    name: String,
    rank: String,
    role: Option<String>,
    source: Source,
    bytes: u64,
    /// Whether it must be a snapshot.
    named: bool,
}

/// A session, and the file that is being read into it.
#[wasm_bindgen]
#[derive(Default)]
pub struct Worker {
    session: Session,
    reading: Option<Reading>,
}

/// What JavaScript catches: why, or nothing if the file is of another kind and nobody has named it.
fn refuse(error: &ReadError, named: bool) -> JsValue {
    let another_kind = matches!(
        error,
        ReadError::OtherFormat(_) | ReadError::NotASnapshot(_) | ReadError::Refused { .. } | ReadError::Empty
    );
    if another_kind && !named { JsValue::NULL } else { error.to_string().into() }
}

#[wasm_bindgen]
impl Worker {
    /// A session without files.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes that tell whether a file is a snapshot.
    pub fn probe_bytes() -> usize {
        PROBE_BYTES
    }

    /// Whether a file that begins so is a snapshot.
    pub fn looks_like_snapshot(head: &[u8]) -> bool {
        looks_like_snapshot(head)
    }

    /// Begins a file.
    pub fn begin(&mut self, name: String, bytes: f64, named: bool) {
        let (rank, role) = (naming::name(&name).rank_text(), None);
        let source = Source::File(Box::new(Reader::new().expect_len(bytes as u64)));
        self.reading = Some(Reading { name, rank, role, source, bytes: bytes as u64, named });
    }

    /// Begins what a report carries, which says what the rank is and what it was for.
    pub fn begin_arrow(&mut self, name: String, rank: String, role: Option<String>, bytes: f64) {
        let source = Source::Arrow(Vec::new());
        self.reading = Some(Reading { name, rank, role, source, bytes: bytes as u64, named: true });
    }

    /// The next bytes of the file.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), JsValue> {
        let Some(Reading { source, named, .. }) = &mut self.reading else { return Ok(()) };
        match source {
            Source::File(reader) => reader.feed(chunk).map_err(|error| refuse(&error, *named)),
            Source::Arrow(bytes) => {
                bytes.extend_from_slice(chunk);
                Ok(())
            }
        }
    }

    /// Leaves the file.
    pub fn stop(&mut self) {
        self.reading = None;
    }

    /// Adds the file to the session, and says how many devices it has.
    pub fn finish(&mut self) -> Result<u32, JsValue> {
        let Some(Reading { name, rank, role, source, bytes, named }) = self.reading.take() else {
            return Ok(0);
        };
        let snapshot: Snapshot = match source {
            Source::File(reader) => reader.finish().map_err(|error| refuse(&error, named))?,
            Source::Arrow(bytes) => ipc::decode(&*bytes).map_err(|error| error.to_string())?,
        };
        let replays = Replay::all(&snapshot);
        Ok(self.session.add(OpenFile::new(name, rank, bytes, snapshot, replays).with_role(role)).len() as u32)
    }

    /// Answers a question.
    pub fn answer(&self, request: &[u8]) -> Vec<u8> {
        let request: Option<Request> = decode(request);
        let response = request.and_then(|request| self.session.answer(&request, &|| true));
        encode(&response.unwrap_or(Response::Nothing))
    }
}
