//! A session in a Web Worker: bytes come in chunks, requests and answers as messages.

use std::sync::Arc;

use vramscope_analysis::Device;
use vramscope_engine::{OpenFile, Session};
use vramscope_naming::Name;
use vramscope_snapshot::{
    AscendFolder, PROBE_BYTES, ReadError, Reader, Snapshot, add_sidecar, embedded, looks_like_snapshot,
    profile_rank,
};
use wasm_bindgen::prelude::*;

/// More of a sidecar is not kept; what is there then cannot be read, and says so.
const MOST_SIDECAR_BYTES: usize = 64 << 20;

/// A file on its way.
enum Incoming {
    /// Whatever PyTorch wrote, and what a recorder wrote beside it.
    File { reader: Box<Reader>, sidecar: Vec<u8> },
    /// The files of a profile.
    Profile(Box<AscendFolder>),
    /// The data of a report, with the rank and the role in words.
    Embedded(Vec<u8>, String, Option<String>),
}

struct Reading {
    path: String,
    /// What the path says.
    name: Name,
    source: Incoming,
    bytes: u64,
    /// Whether it must be a snapshot.
    named: bool,
    /// Files that it has: a snapshot, and a sidecar.
    files: usize,
    /// How many of them were asked for.
    asked: usize,
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

    /// Begins a file, which a sidecar may follow.
    pub fn begin(&mut self, path: String, bytes: f64, named: bool, has_sidecar: bool) {
        let bytes = bytes as u64;
        let reader = Box::new(Reader::new().expect_len(bytes));
        let source = Incoming::File { reader, sidecar: Vec::new() };
        let name = vramscope_naming::name(&path);
        let files = 1 + usize::from(has_sidecar);
        self.reading = Some(Reading { path, name, source, bytes, named, files, asked: 0 });
    }

    /// Begins a profile, whose files have these names and sizes.
    pub fn begin_profile(&mut self, path: String, names: Vec<String>, bytes: Vec<f64>, named: bool) {
        let name = vramscope_naming::profile_name(&path, profile_rank(names.iter().map(String::as_str)));
        let files = names.into_iter().zip(bytes.into_iter().map(|bytes| bytes as u64)).collect();
        let source = Incoming::Profile(Box::new(AscendFolder::new(files)));
        self.reading = Some(Reading { path, name, source, bytes: 0, named, files: 1, asked: 0 });
    }

    /// Says that the rest of a file of a profile cannot be had.
    pub fn lose(&mut self, reason: &str) {
        if let Some(Reading { source: Incoming::Profile(folder), .. }) = &mut self.reading {
            folder.lose(&reason);
        }
    }

    /// Begins the data of a report, which says what the rank is and what it was for.
    pub fn begin_embedded(&mut self, path: String, rank: String, role: Option<String>, bytes: f64) {
        let (bytes, source) = (bytes as u64, Incoming::Embedded(Vec::new(), rank, role));
        self.reading =
            Some(Reading { path, name: Name::default(), source, bytes, named: true, files: 1, asked: 0 });
    }

    /// Which of its files is to be fed next; none after the last.
    pub fn next_file(&mut self) -> Option<usize> {
        let Reading { source, files, asked, .. } = self.reading.as_mut()?;
        match source {
            Incoming::Profile(folder) => folder.next_file(),
            Incoming::File { .. } | Incoming::Embedded(..) => (*asked < *files).then(|| {
                *asked += 1;
                *asked - 1
            }),
        }
    }

    /// The next bytes of the file.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), JsValue> {
        let Some(Reading { source, named, asked, .. }) = &mut self.reading else { return Ok(()) };
        match source {
            Incoming::File { sidecar, .. } if *asked > 1 => {
                if sidecar.len() <= MOST_SIDECAR_BYTES {
                    sidecar.extend_from_slice(chunk);
                }
                Ok(())
            }
            Incoming::File { reader, .. } => reader.feed(chunk).map_err(|error| refuse(&error, *named)),
            Incoming::Profile(folder) => {
                folder.feed(chunk);
                Ok(())
            }
            Incoming::Embedded(bytes, ..) => {
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
        let Some(Reading { path, name, source, bytes, named, .. }) = self.reading.take() else {
            return Ok(0);
        };
        let read = match source {
            Incoming::File { reader, sidecar } => reader.finish().map(|mut snapshot| {
                if !sidecar.is_empty() {
                    let file = path.rsplit('/').next().unwrap_or_default();
                    add_sidecar(&mut snapshot, vramscope_naming::stem(file), &sidecar);
                }
                (snapshot, bytes)
            }),
            Incoming::Profile(folder) => folder.finish(),
            Incoming::Embedded(data, rank, role) => {
                let snapshot = embedded::decode(&data).map_err(|error| error.to_string())?;
                return Ok(self.add(path, rank, role, bytes, snapshot));
            }
        };
        let (snapshot, bytes) = read.map_err(|error| refuse(&error, named))?;
        let name = name.with_what_the_file_says(&snapshot);
        Ok(self.add(path, name.rank_text(), name.role, bytes, snapshot))
    }

    /// Lets go of a file.
    pub fn close(&mut self, file: u32) {
        self.session.close(file);
    }

    /// Answers a request.
    pub fn answer(&self, request: &[u8]) -> Vec<u8> {
        self.session.answer_encoded(request, &|| true).unwrap_or_default()
    }
}

impl Worker {
    fn add(
        &mut self,
        path: String,
        rank: String,
        role: Option<String>,
        bytes: u64,
        snapshot: Snapshot,
    ) -> u32 {
        let snapshot = Arc::new(snapshot);
        let devices = Device::all(&snapshot);
        self.session.add(OpenFile::new(path, rank, bytes, snapshot, devices).with_role(role)).len() as u32
    }
}
