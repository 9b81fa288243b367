//! As much of HTTP as a browser on this machine needs, with a bound on everything that somebody else decides.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// A browser opens six at most; a thread each, so there must be an end.
const MOST_CONNECTIONS: usize = 64;

/// Whoever says or takes nothing for so long is gone.
const IDLE: Duration = Duration::from_secs(60);

/// From the first byte of a request to its last one.
const WHOLE_REQUEST: Duration = Duration::from_secs(20);

/// Shorter answers are sent as they are.
const WORTH_PACKING: usize = 1 << 10;

/// What every answer says: nothing of this is kept, framed, guessed at or told to others.
const HEADERS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
                       Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n";

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
}

impl Reply {
    pub(super) fn ok(kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, kind, body: body.into() }
    }

    pub(super) fn no(status: u16, why: &str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: why.into() }
    }
}

/// Answers everybody who connects, for ever.
pub(super) fn serve(listener: &TcpListener, answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) {
    let (answer, open) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
    // Who could not connect is not here to be told.
    for stream in listener.incoming().flatten() {
        let place = Place::take(&open);
        if open.load(Ordering::Relaxed) > MOST_CONNECTIONS {
            continue;
        }
        let answer = Arc::clone(&answer);
        // A thread each: a long answer or a slow line keeps nobody else waiting, and a fault ends that one only.
        let _ = thread::Builder::new().spawn(move || {
            let _place = place;
            let _ = talk(stream, &*answer);
        });
    }
}

/// One of the connections there may be.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Requests of one connection, one after the other. An error is that the other side is gone.
fn talk(stream: TcpStream, answer: &dyn Fn(&Asked) -> Reply) -> std::io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(IDLE))?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let (asked, is_last) = match read(&mut reader)? {
            Heard::Request(asked) => (Ok(asked), false),
            Heard::Nonsense(status, why) => (Err(Reply::no(status, why)), true),
            Heard::End => return Ok(()),
        };
        let is_last = is_last || asked.as_ref().is_ok_and(|asked| asked.says("Connection", "close"));
        let packs = asked.as_ref().is_ok_and(|asked| asked.says("Accept-Encoding", "gzip"));
        let reply = asked.map_or_else(|no| no, |asked| answer(&asked));
        write(reader.get_mut(), reply, packs, is_last)?;
        if is_last {
            return reader.get_mut().shutdown(Shutdown::Write);
        }
    }
}

enum Heard {
    Request(Asked),
    /// What cannot be understood, and why; the connection is of no more use.
    Nonsense(u16, &'static str),
    End,
}

fn read(reader: &mut impl BufRead) -> std::io::Result<Heard> {
    let mut head = Vec::new();
    let mut began = None;
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
            return Ok(Heard::Nonsense(431, "too much before the question"));
        }
        if began.get_or_insert_with(Instant::now).elapsed() > WHOLE_REQUEST {
            return Ok(Heard::Nonsense(408, "too slow"));
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let Ok(httparse::Status::Complete(_)) = parsed.parse(&head) else {
        return Ok(Heard::Nonsense(400, "this is no HTTP"));
    };
    let (method, path) = (parsed.method.unwrap_or_default(), parsed.path.unwrap_or_default());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = parsed.headers.iter().map(|header| (header.name.to_owned(), text(header.value))).collect();
    let mut asked = Asked { method: method.to_owned(), path: path.to_owned(), headers, body: Vec::new() };
    if asked.header("Transfer-Encoding").is_some() {
        return Ok(Heard::Nonsense(501, "a body must say its length"));
    }
    let len = match asked.header("Content-Length").map(str::parse::<usize>) {
        None => 0,
        Some(Ok(len)) if len <= MOST_BODY => len,
        Some(Ok(_)) => return Ok(Heard::Nonsense(413, "too long for a question")),
        Some(Err(_)) => return Ok(Heard::Nonsense(400, "a length that is no number")),
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
            return Ok(Heard::Nonsense(408, "too slow"));
        }
    }
    Ok(Heard::Request(asked))
}

fn write(stream: &mut TcpStream, reply: Reply, packs: bool, is_last: bool) -> std::io::Result<()> {
    let Reply { status, kind, mut body } = reply;
    let mut head = format!("HTTP/1.1 {status} \r\n{HEADERS}Content-Type: {kind}\r\n");
    if packs && body.len() > WORTH_PACKING && kind != "application/gzip" {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(&body)?;
        body = packer.finish()?;
        head += "Content-Encoding: gzip\r\n";
    }
    if is_last {
        head += "Connection: close\r\n";
    }
    head += &format!("Content-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)
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
