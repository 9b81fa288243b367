//! One input, read and replayed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use vramscope_analysis::{Device, Finding};
use vramscope_format::Units;
use vramscope_mapped::Store;
use vramscope_naming::Name;
use vramscope_snapshot::{ReadError, Reader, Snapshot};

use crate::cache::{Cache, Facts, Fingerprint, Storing, in_memory};
use crate::fetch::{Fetched, Fetching};
use crate::find::Input;
use crate::regular::{Links, open_regular};
use crate::sidecar::Sidecar;
use crate::walk::LeftOut;
use crate::{profile, sidecar};

/// Why an input could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file system says no.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is no snapshot, or nothing of it is intact.
    #[error("{}: {error}", path.display())]
    Read {
        /// Which path.
        path: PathBuf,
        /// Why.
        error: ReadError,
    },
    /// Cancelled.
    #[error("{}: reading was cancelled", path.display())]
    Cancelled {
        /// Which path.
        path: PathBuf,
    },
    /// A folder in which nothing is a snapshot.
    #[error(
        "{}: no memory snapshot among {files} files. Record one with torch.cuda.memory._record_memory_history() and \
         torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")",
        folder.display()
    )]
    NoSnapshots {
        /// Which folder.
        folder: PathBuf,
        /// Files looked at.
        files: usize,
    },
    /// Part of a folder was not looked at.
    #[error("{0}")]
    LeftOut(LeftOut),
}

impl OpenError {
    /// Whether the file is sound but of another kind, as many are in a folder.
    pub fn is_another_kind(&self) -> bool {
        matches!(
            self,
            Self::Read {
                error: ReadError::OtherFormat(_)
                    | ReadError::NotASnapshot(_)
                    | ReadError::Refused { .. }
                    | ReadError::Empty,
                ..
            }
        )
    }
}

/// An input that is ready for any question.
#[derive(Debug)]
pub struct Opened {
    /// Where it came from.
    pub path: PathBuf,
    /// What its path says about it.
    pub name: Name,
    /// Bytes of the file.
    pub bytes: u64,
    /// What the file says.
    pub snapshot: Arc<Snapshot>,
    /// The devices, replayed.
    pub devices: Vec<Arc<Device>>,
    /// Whether it came from the cache.
    pub from_cache: bool,
    /// The entry in the cache being written. Dropping the last handle to the file waits for it.
    storing: Option<Arc<Storing>>,
}

impl Opened {
    /// What somebody else has read and replayed. `path` may stand for what is no file.
    pub fn of(path: PathBuf, bytes: u64, snapshot: Arc<Snapshot>, devices: Vec<Arc<Device>>) -> Self {
        let name = vramscope_naming::name(&path.to_string_lossy().replace('\\', "/"));
        ready(&Input::new(path, name, true), bytes, snapshot, devices)
    }

    /// A second handle to the same file. Both share the snapshot and its devices.
    pub fn again(&self) -> Self {
        Self {
            path: self.path.clone(),
            name: self.name.clone(),
            bytes: self.bytes,
            snapshot: Arc::clone(&self.snapshot),
            devices: self.devices.clone(),
            from_cache: self.from_cache,
            storing: self.storing.clone(),
        }
    }

    /// Waits until the cache is written, which goes on in the background after opening. Otherwise that happens when the last
    /// handle to the file is dropped.
    pub fn wait_until_cached(&self) {
        if let Some(storing) = &self.storing {
            storing.wait();
        }
    }
}

/// Everything that looks wrong on a device. What findings need last is worked out beside the rest.
pub fn findings(device: &Device, units: Units) -> Vec<Finding> {
    rayon::join(|| device.prepare_findings(), || device.findings(units)).1
}

/// Receives progress while a file is read.
pub trait Progress: Sync {
    /// That many more bytes were read.
    fn advance(&self, bytes: u64);

    /// That many more bytes are to be read, where that is not known from the beginning.
    fn expect(&self, _bytes: u64) {}

    /// Whether to stop: asked after every chunk.
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl Progress for () {
    fn advance(&self, _: u64) {}
}

/// Opens one input, from the cache if that holds it.
pub fn open(input: &Input, cache: Option<&Cache>, progress: &dyn Progress) -> Result<Opened, OpenError> {
    let io_error = |error| OpenError::Io { path: input.path.clone(), error };
    let fetched = |fetching: io::Result<Fetching>, bytes| {
        let (snapshot, bytes) = read(&fetching.map_err(io_error)?, bytes, &input.path, progress)?;
        Ok((snapshot, bytes))
    };
    if input.is_stdin() {
        let (snapshot, bytes) = fetched(Fetching::start(|| Ok(io::stdin())), 0)?;
        return Ok(opened(input, bytes, snapshot, None));
    }
    let metadata = input.path.metadata().map_err(io_error)?;
    if metadata.is_dir() {
        let (snapshot, bytes) = profile::read(input, progress)?;
        return Ok(opened(input, bytes, snapshot, None));
    }
    if !metadata.is_file() && input.named {
        // A pipe, which the user may name; whatever else is found in a folder has to be a regular file.
        let path = input.path.clone();
        let (snapshot, bytes) = fetched(Fetching::start(move || File::open(path)), 0)?;
        return Ok(opened(input, bytes, snapshot, None));
    }
    let (mut file, bytes) = open_regular(&input.path, Links::Follow, u64::MAX).map_err(io_error)?;
    let sidecars = sidecar::find(&input.path, &input.folders);
    let fingerprint = match cache {
        Some(_) => Fingerprint::new(&input.path, &mut file, &sidecars).ok().flatten(),
        None => None,
    };
    if let (Some(cache), Some(fingerprint)) = (cache, &fingerprint) {
        let (again, source, path, beside) =
            (cache.clone(), fingerprint.clone(), input.path.clone(), sidecars.clone());
        let mend = move || mended(&again, &source, &path, &beside);
        if let Some((snapshot, replays)) = cache.load(fingerprint, Box::new(mend)) {
            progress.advance(bytes);
            let snapshot = Arc::new(snapshot);
            let facts = Arc::new(Facts::new(cache.clone(), fingerprint.clone()));
            let devices = replays.into_iter().map(|replay| Device::of(Arc::clone(&snapshot), replay));
            let devices = devices.map(|device| facts.of(device)).collect();
            return Ok(Opened { from_cache: true, ..ready(input, bytes, snapshot, devices) });
        }
    }
    let (mut snapshot, bytes) = fetched(Fetching::start(|| Ok(file)), bytes)?;
    sidecar::add(&mut snapshot, &input.path, &sidecars);
    Ok(opened(input, bytes, snapshot, cache.cloned().zip(fingerprint)))
}

/// Columns of a file whose entry turned out to be damaged while it was used. Where the file cannot be read any more either,
/// there is no answer: the program ends.
fn mended(cache: &Cache, source: &Fingerprint, path: &Path, sidecars: &[Sidecar]) -> Store {
    cache.forget(source);
    let again = || -> Result<Store, String> {
        let (mut file, bytes) =
            open_regular(path, Links::Follow, u64::MAX).map_err(|error| error.to_string())?;
        let now = Fingerprint::new(path, &mut file, sidecars).map_err(|error| error.to_string())?;
        if now.as_ref() != Some(source) {
            return Err("it has changed".to_owned());
        }
        let fetching = Fetching::start(|| Ok(file)).map_err(|error| error.to_string())?;
        let (mut snapshot, _) = read(&fetching, bytes, path, &()).map_err(|error| error.to_string())?;
        sidecar::add(&mut snapshot, path, sidecars);
        // In turn: whoever waits for these columns may occupy all other threads.
        let snapshot = Arc::new(snapshot);
        let devices = Device::all(&snapshot);
        in_memory(&snapshot, devices.iter().map(Device::replay)).map_err(|error| error.to_string())
    };
    again().unwrap_or_else(|error| {
        eprintln!(
            "vramscope: {}: what the cache has of it is damaged, and it cannot be read again: {error}; run the command again",
            path.display()
        );
        std::process::exit(2)
    })
}

/// Opens a snapshot that is in memory already.
pub fn open_bytes(name: &str, bytes: &[u8]) -> Result<Opened, OpenError> {
    let path = PathBuf::from(name);
    let mut parsing = Parsing::new(bytes.len() as u64, &path, &());
    parsing.feed(bytes)?;
    let (snapshot, bytes) = parsing.finish()?;
    let input = Input::new(path, Name::default(), true);
    Ok(opened(&input, bytes, snapshot, None))
}

/// Opens many inputs in parallel and gives each to `use_it`; results come in the order of the inputs,
/// and no more files are in memory than there are threads.
pub fn open_each<T: Send>(
    inputs: &[Input],
    cache: Option<&Cache>,
    progress: &dyn Progress,
    use_it: impl Fn(Opened) -> T + Sync,
) -> Vec<Result<T, OpenError>> {
    inputs.par_iter().map(|input| open(input, cache, progress).map(&use_it)).collect()
}

/// Replays what was read, and puts that into the cache in the background.
fn opened(input: &Input, bytes: u64, snapshot: Snapshot, cache: Option<(Cache, Fingerprint)>) -> Opened {
    let snapshot = Arc::new(snapshot);
    let devices = Device::all_with(&snapshot, &both).into_iter();
    let Some((cache, source)) = cache else {
        return ready(input, bytes, snapshot, devices.map(Arc::new).collect());
    };
    let facts = Arc::new(Facts::new(cache, source));
    let devices: Vec<_> = devices.map(|device| facts.of(device)).collect();
    let storing = Some(Arc::new(facts.store_entry(Arc::clone(&snapshot), devices.clone())));
    Opened { storing, ..ready(input, bytes, snapshot, devices) }
}

/// Does two things at once, where there are cores for it.
fn both(one: &mut (dyn FnMut() + Send), other: &mut (dyn FnMut() + Send)) {
    rayon::join(one, other);
}

/// What is read and replayed.
fn ready(input: &Input, bytes: u64, snapshot: Arc<Snapshot>, devices: Vec<Arc<Device>>) -> Opened {
    let (path, name) = (input.path.clone(), input.name.clone().with_what_the_file_says(&snapshot));
    Opened { path, name, bytes, snapshot, devices, from_cache: false, storing: None }
}

/// Parses what is fetched, to its end.
fn read(
    source: &Fetching,
    bytes: u64,
    path: &Path,
    progress: &dyn Progress,
) -> Result<(Snapshot, u64), OpenError> {
    let mut parsing = Parsing::new(bytes, path, progress);
    loop {
        match source.next().map_err(|error| OpenError::Io { path: path.to_owned(), error })? {
            Fetched::Chunk(chunk) => {
                parsing.feed(&chunk)?;
                source.give_back(chunk);
            }
            Fetched::Nothing => parsing.check()?,
            Fetched::End => return parsing.finish(),
        }
    }
}

/// A reader that knows where its bytes come from.
struct Parsing<'a> {
    reader: Reader,
    bytes: u64,
    path: &'a Path,
    progress: &'a dyn Progress,
}

impl<'a> Parsing<'a> {
    fn new(expected: u64, path: &'a Path, progress: &'a dyn Progress) -> Self {
        Self { reader: Reader::new().expect_len(expected), bytes: 0, path, progress }
    }

    fn feed(&mut self, chunk: &[u8]) -> Result<(), OpenError> {
        self.bytes += chunk.len() as u64;
        let path = self.path;
        self.reader.feed(chunk).map_err(|error| OpenError::Read { path: path.to_owned(), error })?;
        // Packed bytes are only collected until the end: what takes time comes then.
        if !self.reader.is_packed() {
            self.progress.advance(chunk.len() as u64);
        }
        self.check()
    }

    fn check(&self) -> Result<(), OpenError> {
        match self.progress.is_cancelled() {
            true => Err(OpenError::Cancelled { path: self.path.to_owned() }),
            false => Ok(()),
        }
    }

    fn finish(self) -> Result<(Snapshot, u64), OpenError> {
        let Self { reader, bytes, path, progress } = self;
        let unpacked = &mut |bytes| {
            progress.advance(bytes);
            !progress.is_cancelled()
        };
        match reader.finish_with(unpacked) {
            Ok(snapshot) => Ok((snapshot, bytes)),
            Err(ReadError::Cancelled) => Err(OpenError::Cancelled { path: path.to_owned() }),
            Err(error) => Err(OpenError::Read { path: path.to_owned(), error }),
        }
    }
}
