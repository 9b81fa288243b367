//! Fetches the bytes of an input on a second thread, ahead of the parser.
//!
//! Nobody joins the thread, so nobody can wait for one that waits in turn. Each side blocks in one place only: the
//! thread in sending a full chunk, which fails as soon as the receiver is dropped; the receiver for the next chunk, for
//! a moment at a time, so that reading can be cancelled although a pipe stays silent. Empty chunks go back through a
//! channel that neither side ever waits for. A thread that is still in a blocking `read` of an abandoned pipe ends with
//! that call or with the process.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

/// Small enough to stay in the processor's cache between reading and parsing.
pub(crate) const CHUNK: usize = 1 << 19;

/// Chunks that wait, beside the one that is being read and the one that is being parsed: more would not stay in the
/// processor's cache.
const CHUNKS_WAITING: usize = 1;

/// How long a silent source can delay a cancellation.
const PATIENCE: Duration = Duration::from_millis(50);

/// An input being fetched. Dropping it abandons the rest.
pub(crate) struct Fetching {
    full: Receiver<io::Result<Vec<u8>>>,
    empty: Sender<Vec<u8>>,
}

/// What came next.
pub(crate) enum Fetched {
    Chunk(Vec<u8>),
    /// Nothing yet: the time to look whether anybody still wants it.
    Nothing,
    End,
}

impl Fetching {
    /// Starts to fetch. The source is opened on the thread, since opening a pipe waits for its writer.
    pub(crate) fn start<R: Read>(open: impl FnOnce() -> io::Result<R> + Send + 'static) -> io::Result<Self> {
        let (full_sender, full) = sync_channel(CHUNKS_WAITING);
        let (empty, empty_receiver) = channel();
        thread::Builder::new().name("fetch".into()).spawn(move || match open() {
            Ok(mut source) => fetch(&mut source, &full_sender, &empty_receiver),
            Err(error) => drop(full_sender.send(Err(error))),
        })?;
        Ok(Self { full, empty })
    }

    /// Waits a moment for the next chunk.
    pub(crate) fn next(&self) -> io::Result<Fetched> {
        match self.full.recv_timeout(PATIENCE) {
            Ok(Ok(chunk)) if chunk.is_empty() => Ok(Fetched::End),
            Ok(Ok(chunk)) => Ok(Fetched::Chunk(chunk)),
            Ok(Err(error)) => Err(error),
            Err(RecvTimeoutError::Timeout) => Ok(Fetched::Nothing),
            // The end is always announced: a thread that is gone without a word has lost the rest of the file.
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("reading stopped unexpectedly")),
        }
    }

    /// Gives a chunk back to be filled again.
    pub(crate) fn give_back(&self, chunk: Vec<u8>) {
        let _ = self.empty.send(chunk);
    }
}

fn fetch(source: &mut dyn Read, full: &SyncSender<io::Result<Vec<u8>>>, empty: &Receiver<Vec<u8>>) {
    loop {
        // A new one comes zeroed from the system: most of thousands of small files would never fill it.
        let mut chunk = empty.try_recv().unwrap_or_else(|_| vec![0; CHUNK]);
        chunk.resize(CHUNK, 0);
        let result = read_some(source, &mut chunk).map(|len| {
            chunk.truncate(len);
            chunk
        });
        let is_last = !matches!(&result, Ok(chunk) if !chunk.is_empty());
        if full.send(result).is_err() || is_last {
            return;
        }
    }
}

/// Reads once, again if a signal came in between.
pub(crate) fn read_some(source: &mut dyn Read, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
