//! Facts that follow from the whole trace of a file, so that a question about a part of it need not go through all.
//!
//! A fact is worked out when it is first asked for, since opening a file does not need it, and lies beside the entry: one
//! file for each fact and device. The command that reads the file keeps those that it needed, too.

use std::collections::HashSet;
use std::io::{self, Cursor, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use vramscope_analysis::Replay;
use vramscope_analysis::categories::Curves;
use vramscope_analysis::pools::PoolTable;
use vramscope_analysis::{
    CallTable, Conclusions, Finding, Fragmentation, Lives, Minimum, ModulePeaks, Span, SpanSums, Stepwise,
};
use vramscope_mapped::{Check, Store, StoreError, Writer};
use vramscope_snapshot::stored::{get_small, put_small};
use vramscope_snapshot::{DeviceId, Snapshot};

use super::{Cache, Fingerprint, is_of, label, open_private};

/// The ending of these files.
pub(super) const ENDING: &str = "kept";

/// A fact that is kept.
pub(crate) trait Keep: Sized {
    /// The word for it in names of files.
    const NAME: &'static str;

    fn put<W: Write + Seek>(&self, out: &mut Writer<W>) -> io::Result<()>;
    fn get(store: &Store) -> Result<Self, StoreError>;
}

impl Keep for Conclusions {
    const NAME: &'static str = "conclusions";

    fn put<W: Write + Seek>(&self, out: &mut Writer<W>) -> io::Result<()> {
        self.put(out)
    }

    fn get(store: &Store) -> Result<Self, StoreError> {
        Self::get(store)
    }
}

impl Keep for CallTable {
    const NAME: &'static str = "calls";

    fn put<W: Write + Seek>(&self, out: &mut Writer<W>) -> io::Result<()> {
        self.put(out)
    }

    fn get(store: &Store) -> Result<Self, StoreError> {
        Self::get(store)
    }
}

impl Keep for PoolTable {
    const NAME: &'static str = "pools";

    fn put<W: Write + Seek>(&self, out: &mut Writer<W>) -> io::Result<()> {
        self.put(out)
    }

    fn get(store: &Store) -> Result<Self, StoreError> {
        Self::get(store)
    }
}

/// What is found about failed allocations.
#[derive(Serialize, Deserialize)]
pub(crate) struct Failures(pub(crate) Vec<Finding>);

impl Small for Failures {
    const NAME: &'static str = "failures";
}

/// Something that is decoded as a whole.
trait Small: Serialize + DeserializeOwned {
    const NAME: &'static str;
}

impl Small for Vec<Finding> {
    const NAME: &'static str = "findings";
}

impl Small for Vec<Span> {
    const NAME: &'static str = "spans";
}

impl Small for Vec<SpanSums> {
    const NAME: &'static str = "span_sums";
}

impl Small for Curves {
    const NAME: &'static str = "curves";
}

impl Small for ModulePeaks {
    const NAME: &'static str = "modules";
}

impl Small for Stepwise {
    const NAME: &'static str = "steps";
}

impl Small for Lives {
    const NAME: &'static str = "lives";
}

impl Small for Fragmentation {
    const NAME: &'static str = "fragmentation";
}

impl Small for Minimum {
    const NAME: &'static str = "minimum";
}

impl<T: Small> Keep for T {
    const NAME: &'static str = T::NAME;

    fn put<W: Write + Seek>(&self, out: &mut Writer<W>) -> io::Result<()> {
        put_small(T::NAME, self, out)
    }

    fn get(store: &Store) -> Result<Self, StoreError> {
        get_small(T::NAME, store)
    }
}

/// Facts about a file in the cache.
#[derive(Debug)]
pub(crate) struct Facts {
    cache: Cache,
    source: Fingerprint,
    /// The thread that writes the entry, and then what is kept beside it.
    storing: Mutex<Option<Storing>>,
}

#[derive(Debug)]
struct Storing {
    facts: Sender<(PathBuf, Vec<u8>)>,
    known: HashSet<PathBuf>,
    thread: JoinHandle<()>,
}

impl Facts {
    /// Facts about a file that has an entry.
    pub(crate) fn of_entry(cache: Cache, source: Fingerprint) -> Self {
        Self { cache, source, storing: Mutex::new(None) }
    }

    /// Facts about a file that was read, whose entry is written meanwhile.
    pub(crate) fn storing(
        cache: Cache,
        source: Fingerprint,
        snapshot: Arc<Snapshot>,
        replays: Vec<Arc<Replay>>,
    ) -> Self {
        let (facts, waiting) = channel::<(PathBuf, Vec<u8>)>();
        let (own_cache, own_source) = (cache.clone(), source.clone());
        let store = move || {
            if cache.store(&source, &snapshot, replays.iter().map(Arc::as_ref)).is_err() {
                return;
            }
            // Whoever wants to change the snapshot would have to copy it.
            drop((snapshot, replays));
            for (path, bytes) in waiting {
                let _ = cache.write_all(&path, &bytes);
            }
        };
        let storing = thread::Builder::new().spawn(store).ok();
        let storing = storing.map(|thread| Storing { facts, known: HashSet::new(), thread });
        Self { cache: own_cache, source: own_source, storing: Mutex::new(storing) }
    }

    /// Waits until the entry is written and all facts are beside it.
    pub(crate) fn wait(&self) {
        let storing = self.storing.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Storing { facts, thread, .. }) = storing {
            drop(facts);
            let _ = thread.join();
        }
    }

    /// A fact about a device: what is kept of it, else what `make` makes, which is kept then.
    pub(crate) fn once<T: Keep>(&self, device: DeviceId, make: impl FnOnce() -> T) -> T {
        let path = self.path::<T>(device);
        let is_storing = self.storing.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !is_storing && let Some(kept) = self.load(&path) {
            return kept;
        }
        let made = make();
        match self.storing.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(storing) => {
                let mut file = Cursor::new(Vec::new());
                if storing.known.insert(path.clone()) && self.write(&made, &mut file).is_ok() {
                    let _ = storing.facts.send((path, file.into_inner()));
                }
            }
            None => {
                let _ = self.cache.write(&path, |file| self.write(&made, file));
            }
        }
        made
    }

    fn path<T: Keep>(&self, device: DeviceId) -> PathBuf {
        let entry = self.cache.entry(&self.source);
        let entry = entry.file_stem().unwrap_or_default().to_string_lossy();
        self.cache.folder.join(format!("{entry}-{}-{}.{ENDING}", device.0, T::NAME))
    }

    fn load<T: Keep>(&self, path: &Path) -> Option<T> {
        let file = open_private(path).ok()?;
        let store = Store::open(&file, Check::Now, |label| is_of(label, &self.source)).ok()??;
        let found = T::get(&store).ok()?;
        let _ = file.set_modified(std::time::SystemTime::now());
        Some(found)
    }

    fn write<T: Keep>(&self, made: &T, file: impl Write + Seek) -> io::Result<u64> {
        let mut out = Writer::new(file, self.cache.most_bytes / 2)?;
        made.put(&mut out)?;
        out.finish(&label(&self.source)?)
    }
}

impl Drop for Facts {
    fn drop(&mut self) {
        self.wait();
    }
}
