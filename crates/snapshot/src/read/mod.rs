//! Bytes of any format, in chunks of any size, into a [`Snapshot`].

mod ascend;
mod build;
mod decimal;
mod extras;
mod fast;
mod html;
mod intern;
mod json;
mod keys;
mod machine;
mod objects;
mod oddities;
mod pickle;
mod rows;
mod sidecar;
mod sniff;
mod sqlite;
mod timeline;
mod trace;
mod unpack;
mod value;

pub use ascend::{AscendFolder, AscendPart, AscendProfile, add_memory_usage, profile_rank};
pub use sidecar::add_sidecar;
pub use sniff::{PROBE_BYTES, looks_like_snapshot};

use html::HtmlReader;
use intern::Strings;
use json::{JsonReader, Sink};
use machine::{Fault, Machine};
use pickle::PickleReader;
use sniff::Kind;
use timeline::TimelineSink;
use trace::TraceSink;
use unpack::Packing;

use crate::embedded;
use crate::model::{Damage, Snapshot};

/// Why there is no snapshot to show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Zero bytes.
    #[error("the file is empty (0 bytes). Was the program killed before `_dump_snapshot` had written it?")]
    Empty,
    /// The bytes are of another format, which is named.
    #[error("not a memory snapshot: {0}")]
    OtherFormat(String),
    /// A pickle or JSON of something else, which is described.
    #[error(
        "not a memory snapshot: it holds {0}. vramscope reads what torch.cuda.memory._dump_snapshot() writes: \
         a dictionary with `segments` and `device_traces`, or a list of segments"
    )]
    NotASnapshot(String),
    /// The pickle wants code to run.
    #[error(
        "refused: the pickle wants to load {name} at byte {offset}. A memory snapshot is plain data; \
         vramscope never runs code from a file. A model checkpoint or another object?"
    )]
    Refused {
        /// What it wants.
        name: String,
        /// Where in the unpacked file.
        offset: u64,
    },
    /// Damaged before anything useful was complete.
    #[error(
        "damaged at byte {offset}: {reason}; nothing before that is complete. Copy or record the file again"
    )]
    Damaged {
        /// Where in the unpacked file.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// There is no value at all.
    #[error("not a memory snapshot: it holds nothing")]
    NothingIntact,
    /// It is packed in a way that takes more memory to unpack than is allowed.
    #[error("cannot unpack: {0}")]
    Unpackable(String),
    /// Cancelled through [`Reader::finish_with`].
    #[error("reading was cancelled")]
    Cancelled,
}

/// Enough bytes to tell any format.
const HEAD: usize = 1 << 10;

/// A hint is not believed beyond this: an address space has an end.
const MAX_EXPECTED: u64 = if cfg!(target_pointer_width = "64") { 1 << 38 } else { 1 << 29 };

/// Packings inside packings: somebody compressed a compressed file, not more.
const MAX_LAYERS: usize = 3;

/// Reads a snapshot that is pushed in chunks: [`feed`](Self::feed) any number of times, then
/// [`finish`](Self::finish). The result does not depend on where the chunks are cut.
///
/// ```
/// let mut reader = vramscope_snapshot::Reader::new();
/// reader.feed(br#"{"segments": [], "device_"#)?;
/// reader.feed(br#"traces": [[{"action": "alloc", "addr": 4096, "size": 3, "stream": 0}]]}"#)?;
/// let snapshot = reader.finish()?;
/// assert_eq!(snapshot.traces[0].events.len(), 1);
/// # Ok::<_, vramscope_snapshot::ReadError>(())
/// ```
pub struct Reader {
    layers: usize,
    /// What all layers together may unpack to, once the outermost is known.
    unpack_limit: Option<u64>,
    expected_len: u64,
    format: Vec<String>,
    state: State,
    damage: Option<Damage>,
}

enum State {
    /// Too little has arrived to tell the format.
    Head(Vec<u8>),
    Pickle(Box<PickleReader>),
    Json(Box<JsonReader<Machine>>),
    Trace(Box<JsonReader<TraceSink>>),
    Timeline(Box<JsonReader<TimelineSink>>),
    Ascend(AscendPart, Box<AscendProfile>),
    Html(Box<HtmlReader>, Box<Reader>),
    Embedded(Vec<u8>),
    Packed(Packing, Vec<u8>),
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// A reader of one file.
    pub fn new() -> Self {
        Self {
            layers: 0,
            unpack_limit: None,
            expected_len: 0,
            format: Vec::new(),
            state: State::Head(Vec::new()),
            damage: None,
        }
    }

    /// Tells how many bytes there are in all, so that memory can be reserved once. It is only a hint: the
    /// result is the same if it is wrong.
    #[must_use]
    pub fn expect_len(self, bytes: u64) -> Self {
        Self { expected_len: bytes.min(MAX_EXPECTED), ..self }
    }

    fn inner(layers: usize, unpack_limit: Option<u64>) -> Self {
        Self { layers, unpack_limit, ..Self::new() }
    }

    /// Takes the next bytes of the file. After an error the reader is of no more use.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), ReadError> {
        let State::Head(head) = &mut self.state else { return self.feed_known(chunk) };
        let (start, rest) = chunk.split_at(chunk.len().min(HEAD.saturating_sub(head.len())));
        head.extend_from_slice(start);
        if head.len() < HEAD {
            return Ok(());
        }
        let head = std::mem::take(head);
        self.state = self.recognize(&head)?;
        self.feed_known(&head)?;
        self.feed_known(rest)
    }

    /// Whether the snapshot is complete: more bytes would not change it.
    pub fn is_done(&self) -> bool {
        self.damage.is_some()
            || match &self.state {
                State::Pickle(pickle) => pickle.machine.done,
                State::Json(json) => json.sink.done,
                State::Trace(json) => json.sink.is_done(),
                State::Timeline(json) => json.sink.is_done(),
                State::Html(_, inner) => inner.is_done(),
                State::Ascend(..) | State::Head(_) | State::Packed(..) | State::Embedded(_) => false,
            }
    }

    /// Whether the file is packed: its bytes are unpacked and parsed in [`finish`](Self::finish).
    pub fn is_packed(&self) -> bool {
        matches!(self.state, State::Packed(..))
    }

    fn recognize(&mut self, head: &[u8]) -> Result<State, ReadError> {
        let state = match sniff::kind(head)? {
            Kind::Pickle => {
                let mut pickle = PickleReader::new();
                // Protocol 1 has no mark of its own but writes empty containers in one byte.
                pickle.machine.expected_len = self.expected_len;
                pickle.machine.protocol = u8::from(matches!(head, [b'}' | b']', ..]));
                State::Pickle(Box::new(pickle))
            }
            Kind::Json => State::Json(Box::new(JsonReader::new(Machine::new()))),
            Kind::Trace => State::Trace(Box::new(JsonReader::new(TraceSink::new(Strings::new())))),
            Kind::Timeline => State::Timeline(Box::new(JsonReader::new(TimelineSink::default()))),
            Kind::Ascend(part) => State::Ascend(part, Box::default()),
            Kind::Html | Kind::Packed(_) if self.layers >= MAX_LAYERS => {
                return Err(ReadError::OtherFormat("it is packed into itself again and again".into()));
            }
            Kind::Html => {
                self.format.push("html".into());
                State::Html(Box::default(), Box::new(Self::inner(self.layers + 1, self.unpack_limit)))
            }
            Kind::Embedded => State::Embedded(Vec::new()),
            Kind::Packed(packing) => {
                self.format.push(packing.name().into());
                State::Packed(packing, Vec::new())
            }
        };
        Ok(state)
    }

    fn feed_known(&mut self, chunk: &[u8]) -> Result<(), ReadError> {
        if self.damage.is_some() {
            return Ok(());
        }
        let (result, offset) = match &mut self.state {
            State::Pickle(pickle) => (pickle.feed(chunk), pickle.offset),
            State::Json(json) => (json.feed(chunk), json.offset),
            State::Trace(json) => (json.feed(chunk), json.offset),
            State::Timeline(json) => (json.feed(chunk), json.offset),
            State::Html(html, inner) => {
                // The decoded text may end before the chunk does; the rest of the page is skipped.
                let decoded = html.feed(chunk);
                return inner.feed(decoded);
            }
            State::Ascend(part, profile) => {
                profile.feed(*part, chunk);
                return Ok(());
            }
            State::Packed(_, bytes) | State::Embedded(bytes) => {
                bytes.extend_from_slice(chunk);
                return Ok(());
            }
            State::Head(_) => return Ok(()),
        };
        match result {
            Ok(()) => Ok(()),
            Err(Fault::Refused(name)) => Err(ReadError::Refused { name, offset }),
            Err(fault) => {
                self.damage = Some(Damage { offset, reason: fault.to_string() });
                Ok(())
            }
        }
    }

    /// The snapshot. Of a file that is cut or damaged it holds what is intact, and
    /// [`Snapshot::damage`] says where that ends.
    pub fn finish(self) -> Result<Snapshot, ReadError> {
        self.finish_with(&mut |_| true)
    }

    /// The same; of a packed file, `goes_on` is called repeatedly with how many more packed bytes are done, and ends it
    /// with [`ReadError::Cancelled`] by returning false.
    pub fn finish_with(mut self, goes_on: &mut dyn FnMut(u64) -> bool) -> Result<Snapshot, ReadError> {
        if let State::Head(head) = &mut self.state {
            let head = std::mem::take(head);
            self.state = self.recognize(&head)?;
            self.feed_known(&head)?;
        }
        match self.state {
            State::Pickle(pickle) => {
                let cut =
                    if pickle.has_partial_operation() { "inside an operation" } else { "after an operation" };
                let kind = dialect(&pickle.machine);
                let warning = pickle.warning();
                let mut snapshot =
                    Self::close(pickle.machine, pickle.offset, cut, kind, self.format, self.damage)?;
                snapshot.warnings.extend(warning);
                Ok(snapshot)
            }
            State::Json(json) => {
                Self::close(json.sink, json.offset, "inside a list", "json".into(), self.format, self.damage)
            }
            State::Trace(json) => {
                let (offset, done) = (json.offset, json.sink.is_done());
                let snapshot = trace::kineto(json.sink);
                let kind = "Kineto trace";
                close_rows(snapshot, (offset, done), kind, NO_MEMORY_EVENTS, self.format, self.damage)
            }
            State::Timeline(json) => {
                let (offset, done) = (json.offset, json.sink.is_done());
                let (snapshot, kind) = timeline::build(json.sink).unzip();
                let kind = kind.unwrap_or("memory timeline");
                close_rows(snapshot, (offset, done), kind, NOT_A_TIMELINE, self.format, self.damage)
            }
            State::Ascend(_, profile) => {
                let mut snapshot = profile.finish()?;
                self.format.push(snapshot.format);
                snapshot.format = self.format.join(", ");
                Ok(snapshot)
            }
            State::Html(html, inner) => {
                if !html.found() {
                    return Err(ReadError::OtherFormat(sniff::HTML_WITHOUT_SNAPSHOT.into()));
                }
                let complete = html.is_complete();
                let mut snapshot = match inner.finish_with(&mut |_| goes_on(0)) {
                    Err(ReadError::Empty) if !complete => {
                        Self::nothing("the page ends before the snapshot inside it")
                    }
                    result => result?,
                };
                snapshot.format = format!("{}, {}", self.format.join(", "), snapshot.format);
                if html.more() > 0 {
                    snapshot.warnings.push(format!(
                        "the report holds {} recordings; this is the first. Drop it on the page of vramscope to open all",
                        html.more() + 1
                    ));
                }
                Ok(snapshot)
            }
            State::Embedded(bytes) => {
                embedded::decode(&bytes).map_err(|error| ReadError::OtherFormat(error.to_string()))
            }
            State::Packed(packing, packed) => {
                let limit = self.unpack_limit.unwrap_or_else(|| unpack::limit(packed.len()));
                let mut inner = Self::inner(self.layers + 1, Some(limit));
                let mut reported = 0;
                let broken = packing.unpack(&packed, limit, |piece, taken| {
                    inner.feed(piece)?;
                    let more = taken.saturating_sub(reported);
                    reported = taken;
                    if goes_on(more) { Ok(!inner.is_done()) } else { Err(ReadError::Cancelled) }
                })?;
                drop(packed);
                let done = inner.is_done();
                let mut snapshot = match (inner.finish_with(&mut |_| goes_on(0)), &broken) {
                    (Err(ReadError::Empty), Some(reason)) => Self::nothing(reason),
                    (result, _) => result?,
                };
                if let (Some(reason), Some(damage), false) = (broken, &mut snapshot.damage, done) {
                    damage.reason = reason;
                }
                snapshot.format = format!("{}, {}", self.format.join(", "), snapshot.format);
                Ok(snapshot)
            }
            State::Head(_) => Err(ReadError::Empty),
        }
    }

    /// What is left of a file that is cut before anything inside it.
    fn nothing(reason: &str) -> Snapshot {
        Snapshot { damage: Some(Damage { offset: 0, reason: reason.to_owned() }), ..Snapshot::default() }
    }

    fn close(
        machine: Machine,
        offset: u64,
        cut: &str,
        kind: String,
        mut format: Vec<String>,
        damage: Option<Damage>,
    ) -> Result<Snapshot, ReadError> {
        let done = machine.done;
        let is_cut = !done && damage.is_none();
        let (top, objects, tables) = machine.into_top();
        let damage =
            damage.or_else(|| (!done).then(|| Damage { offset, reason: format!("the file ends {cut}") }));
        let result = build::build(top, &objects, tables);
        let mut snapshot = match (result, &damage) {
            // A cut so early that nothing is complete leaves nothing, which is no error.
            (Ok(snapshot), _) if is_cut => snapshot,
            (Err(ReadError::NothingIntact), _) if is_cut => Snapshot::default(),
            (Ok(snapshot), Some(damage)) if snapshot.is_empty() => {
                let Damage { offset, reason } = damage.clone();
                return Err(ReadError::Damaged { offset, reason });
            }
            (Err(_), Some(Damage { offset, reason })) if !is_cut => {
                return Err(ReadError::Damaged { offset: *offset, reason: reason.clone() });
            }
            (result, _) => result?,
        };
        snapshot.damage = damage;
        format.push(kind);
        snapshot.format = format.join(", ");
        Ok(snapshot)
    }
}

const NOT_A_TIMELINE: &str = "lists of numbers, but no memory timeline";

const NO_MEMORY_EVENTS: &str = "a profiler's trace without memory events. Record it with \
     torch.profiler.profile(profile_memory=True); of an Ascend profile, open the folder whose name ends in _ascend_pt";

/// A snapshot that a reader of rows made; `None` if it found none. Reading stopped at `end.0`, and `end.1`
/// says whether that is the end of the file.
fn close_rows(
    snapshot: Option<Snapshot>,
    end: (u64, bool),
    kind: &str,
    nothing: &str,
    mut format: Vec<String>,
    damage: Option<Damage>,
) -> Result<Snapshot, ReadError> {
    let (offset, done) = end;
    let is_cut = !done && damage.is_none();
    let damage =
        damage.or_else(|| (!done).then(|| Damage { offset, reason: "the file ends inside a list".into() }));
    let snapshot = match (snapshot, &damage) {
        (Some(snapshot), _) => snapshot,
        // A cut so early that nothing is complete leaves nothing, which is no error.
        (None, _) if is_cut => Snapshot::default(),
        (None, Some(Damage { offset, reason })) => {
            return Err(ReadError::Damaged { offset: *offset, reason: reason.clone() });
        }
        (None, None) => return Err(ReadError::OtherFormat(nothing.to_owned())),
    };
    format.push(kind.to_owned());
    Ok(Snapshot { damage, format: format.join(", "), ..snapshot })
}

/// The kind of pickle in words.
fn dialect(machine: &Machine) -> String {
    let writer = match (machine.tagged, machine.late_memo) {
        (true, _) => " (C++, tagged)",
        (false, true) if machine.protocol == 2 => " (C++)",
        _ => "",
    };
    format!("pickle {}{writer}", machine.protocol)
}
