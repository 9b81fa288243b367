//! As much of HTTP as a browser on this machine needs, with a bound on everything that somebody else decides.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;

/// A browser sends a few hundred bytes before the body.
const MOST_HEAD: usize = 16 << 10;

/// A question is a few hundred bytes.
const MOST_BODY: usize = 64 << 10;

/// Headers that a browser sends: about twenty.
const MOST_HEADERS: usize = 64;

/// A browser opens six at most; a thread each, so there must be an end. One more takes the place of the one that has
/// been waiting longest.
const MOST_CONNECTIONS: usize = 64;

/// A connection that neither sends nor receives for this long is closed.
const IDLE: Duration = Duration::from_secs(60);

/// From the first byte of a request to its last one.
const WHOLE_REQUEST: Duration = Duration::from_secs(20);

/// Shorter answers are sent as they are.
const WORTH_PACKING: usize = 1 << 10;

/// What every answer says: nothing is guessed at or told to others.
const HEADERS: &str = "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n";

/// Whether a browser may keep an answer: nothing that has to do with data, and for a year what never changes.
const NOT_KEPT: &str = "Cache-Control: no-store\r\n";
const KEPT: &str = "Cache-Control: private, max-age=31536000, immutable\r\n";

/// What those say that no other page may show in a frame.
const UNFRAMED: &str = "X-Frame-Options: DENY\r\nCross-Origin-Resource-Policy: same-origin\r\n";

/// What was asked.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) path: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Asked {
    /// A header; the first one of that name.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    fn says(&self, name: &str, word: &str) -> bool {
        self.header(name).is_some_and(|value| value.to_ascii_lowercase().contains(word))
    }
}

/// A page, an answer, or no.
pub(super) struct Reply {
    status: u16,
    kind: &'static str,
    body: Vec<u8>,
    /// Whether another page may show it in a frame.
    in_frames: bool,
    /// Whether the browser may keep it: the same address never has another answer.
    kept: bool,
    /// Where the answer is instead.
    moved: Option<String>,
}

impl Reply {
    pub(super) fn ok(kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, kind, body: body.into(), in_frames: false, kept: false, moved: None }
    }

    pub(super) fn no(status: u16, why: &str) -> Self {
        let kind = "text/plain; charset=utf-8";
        Self { status, kind, body: why.into(), in_frames: false, kept: false, moved: None }
    }

    /// The answer is at another path of this server.
    pub(super) fn moved(to: String) -> Self {
        Self { moved: Some(to), ..Self::no(308, "") }
    }

    /// The same, and whether another page may show it in a frame.
    pub(super) fn in_frames(self, in_frames: bool) -> Self {
        Self { in_frames, ..self }
    }

    /// The same, and whether the browser may keep it.
    pub(super) fn kept(self, kept: bool) -> Self {
        Self { kept, ..self }
    }
}

/// Answers a request; the second argument says whether somebody still waits for the answer.
pub(super) type Answer = dyn Fn(&Asked, &dyn Fn() -> bool) -> Reply + Send + Sync;

/// Answers everybody who connects, for ever.
pub(super) fn serve(listener: &TcpListener, answer: &Arc<Answer>) {
    let open = Arc::new(Connections::default());
    // Who could not connect is not here to be told.
    for stream in listener.incoming().flatten() {
        // Who is left out finds the connection closed.
        let Some(place) = Place::take(&open, &stream) else { continue };
        let answer = Arc::clone(answer);
        // A thread each: a long answer or a slow line keeps nobody else waiting, and a fault ends that one only.
        let _ = thread::Builder::new().spawn(move || {
            let _ = handle_connection(stream, &place, &*answer);
        });
    }
}

/// The connections there are, oldest wait first.
#[derive(Default)]
struct Connections {
    all: Mutex<Vec<Connection>>,
    ever: AtomicU64,
}

struct Connection {
    number: u64,
    stream: TcpStream,
    /// Whether a request is being answered; otherwise one is waited for.
    busy: bool,
}

impl Connections {
    fn all(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the connections there may be.
struct Place {
    open: Arc<Connections>,
    number: u64,
}

impl Place {
    /// A slot, if need be that of the connection idle for longest; none if all are being answered.
    fn take(open: &Arc<Connections>, stream: &TcpStream) -> Option<Self> {
        let stream = stream.try_clone().ok()?;
        let mut all = open.all();
        if all.len() >= MOST_CONNECTIONS {
            let oldest = all.iter().position(|connection| !connection.busy)?;
            // Its thread reads the end.
            let _ = all.remove(oldest).stream.shutdown(Shutdown::Both);
        }
        let number = open.ever.fetch_add(1, Ordering::Relaxed);
        all.push(Connection { number, stream, busy: false });
        Some(Self { open: Arc::clone(open), number })
    }

    /// Notes whether a request is being answered. A connection that was just answered goes to the end of the queue.
    fn set_busy(&self, busy: bool) {
        let mut all = self.open.all();
        if let Some(at) = all.iter().position(|connection| connection.number == self.number) {
            let connection = all.remove(at);
            all.push(Connection { busy, ..connection });
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.all().retain(|connection| connection.number != self.number);
    }
}

/// Requests of one connection, one after the other. An error is that the other side is gone.
fn handle_connection(stream: TcpStream, place: &Place, answer: &Answer) -> std::io::Result<()> {
    stream.set_write_timeout(Some(IDLE))?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let (asked, is_last) = match read(&mut reader)? {
            Heard::Request(asked) => (Ok(asked), false),
            Heard::BadRequest(status, why) => (Err(Reply::no(status, why)), true),
            Heard::End => return Ok(()),
        };
        let is_last = is_last || asked.as_ref().is_ok_and(|asked| asked.says("Connection", "close"));
        let packs = asked.as_ref().is_ok_and(|asked| asked.says("Accept-Encoding", "gzip"));
        let is_head = asked.as_ref().is_ok_and(|asked| asked.method == "HEAD");
        place.set_busy(true);
        let is_open = || is_open(reader.get_ref());
        let reply = asked.map_or_else(|no| no, |asked| answer(&asked, &is_open));
        let sent = write(reader.get_mut(), reply, packs, is_head, is_last);
        place.set_busy(false);
        sent?;
        if is_last {
            return reader.get_mut().shutdown(Shutdown::Write);
        }
    }
}

/// Whether the other side is still there. A browser closes the connection of a request that it aborts.
fn is_open(stream: &TcpStream) -> bool {
    let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let restored = stream.set_nonblocking(false);
    match peeked {
        Ok(bytes) => bytes > 0 && restored.is_ok(),
        Err(error) => error.kind() == ErrorKind::WouldBlock && restored.is_ok(),
    }
}

enum Heard {
    Request(Asked),
    /// A request that cannot be understood, and why; the connection ends.
    BadRequest(u16, &'static str),
    End,
}

/// A source of bytes that can be told how long to wait for more.
trait Patience {
    fn wait_at_most(&self, time: Duration) -> std::io::Result<()>;
}

impl Patience for BufReader<TcpStream> {
    fn wait_at_most(&self, time: Duration) -> std::io::Result<()> {
        self.get_ref().set_read_timeout(Some(time))
    }
}

/// Bytes in memory never wait.
impl Patience for &[u8] {
    fn wait_at_most(&self, _: Duration) -> std::io::Result<()> {
        Ok(())
    }
}

fn read(reader: &mut (impl BufRead + Patience)) -> std::io::Result<Heard> {
    let mut head = Vec::new();
    let mut began = None;
    reader.wait_at_most(IDLE)?;
    while !head.ends_with(b"\r\n\r\n") {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(Heard::End);
        }
        // Up to the end of a line, so that nothing of the body is taken.
        let len = buffer.iter().position(|byte| *byte == b'\n').map_or(buffer.len(), |at| at + 1);
        head.extend_from_slice(buffer.get(..len).unwrap_or_default());
        reader.consume(len);
        if head.len() > MOST_HEAD {
            return Ok(Heard::BadRequest(431, "request headers too large"));
        }
        let spent = began.get_or_insert_with(Instant::now).elapsed();
        match WHOLE_REQUEST.checked_sub(spent).filter(|left| !left.is_zero()) {
            Some(left) => reader.wait_at_most(left)?,
            None => return Ok(Heard::BadRequest(408, "too slow")),
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let Ok(httparse::Status::Complete(_)) = parsed.parse(&head) else {
        return Ok(Heard::BadRequest(400, "not an HTTP request"));
    };
    let (method, path) = (parsed.method.unwrap_or_default(), parsed.path.unwrap_or_default());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = parsed.headers.iter().map(|header| (header.name.to_owned(), text(header.value))).collect();
    let mut asked = Asked { method: method.to_owned(), path: path.to_owned(), headers, body: Vec::new() };
    if asked.header("Transfer-Encoding").is_some() {
        return Ok(Heard::BadRequest(501, "Transfer-Encoding is not supported; send Content-Length"));
    }
    let len = match asked.header("Content-Length").map(str::parse::<usize>) {
        None => 0,
        Some(Ok(len)) if len <= MOST_BODY => len,
        Some(Ok(_)) => return Ok(Heard::BadRequest(413, "request body too large")),
        Some(Err(_)) => return Ok(Heard::BadRequest(400, "Content-Length is not a number")),
    };
    let began = Instant::now();
    while asked.body.len() < len {
        let rest = (len - asked.body.len()) as u64;
        let mut piece = [0; 4096];
        let got = reader.by_ref().take(rest).read(&mut piece)?;
        if got == 0 {
            return Ok(Heard::End);
        }
        asked.body.extend_from_slice(piece.get(..got).unwrap_or_default());
        if began.elapsed() > WHOLE_REQUEST {
            return Ok(Heard::BadRequest(408, "too slow"));
        }
    }
    Ok(Heard::Request(asked))
}

fn write(
    stream: &mut TcpStream,
    reply: Reply,
    packs: bool,
    is_head: bool,
    is_last: bool,
) -> std::io::Result<()> {
    let Reply { status, kind, mut body, in_frames, kept, moved } = reply;
    let frames = if in_frames { "" } else { UNFRAMED };
    let keeping = if kept { KEPT } else { NOT_KEPT };
    let mut head = format!("HTTP/1.1 {status} \r\n{HEADERS}{keeping}{frames}Content-Type: {kind}\r\n");
    if packs && body.len() > WORTH_PACKING && kind != "application/gzip" {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(&body)?;
        body = packer.finish()?;
        head += "Content-Encoding: gzip\r\n";
    }
    if let Some(to) = moved {
        head += &format!("Location: {to}\r\n");
    }
    if is_last {
        head += "Connection: close\r\n";
    }
    head += &format!("Content-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    // The answer to HEAD is that to GET without its body.
    if is_head { Ok(()) } else { stream.write_all(&body) }
}

/// Hears all requests of a connection that says these bytes: how many there are, for tests of any bytes.
pub(crate) fn hear(mut bytes: &[u8]) -> usize {
    let mut heard = 0;
    while let Ok(Heard::Request(asked)) = read(&mut bytes) {
        debug_assert!(asked.body.len() <= MOST_BODY, "a body is bounded");
        heard += 1;
    }
    heard
}
