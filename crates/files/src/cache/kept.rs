//! Answers about an entry that went through the whole trace, so that nobody goes through it again for them.
//!
//! Each is worked out when it is first asked for, since opening a file does not need it, and lies beside the entry: one
//! file for each answer and device.

use std::io;
use std::path::PathBuf;

use vramscope_analysis::{Put, Shelf};
use vramscope_mapped::{Store, Writer, is_damaged};
use vramscope_snapshot::DeviceId;

use super::{Cache, Fingerprint, Label, build, is_of};
use crate::regular::{Links, open_regular};

/// The ending of these files.
pub(super) const ENDING: &str = "kept";

/// An entry of the cache, beside which answers are kept.
#[derive(Debug)]
pub(crate) struct EntryShelf {
    cache: Cache,
    source: Fingerprint,
}

impl EntryShelf {
    pub(crate) fn new(cache: Cache, source: Fingerprint) -> Self {
        Self { cache, source }
    }

    fn file(&self, device: DeviceId, name: &str) -> PathBuf {
        let entry = self.cache.entry(&self.source);
        let entry = entry.file_stem().unwrap_or_default().to_string_lossy();
        self.cache.folder.join(format!("{entry}-{}-{name}.{ENDING}", device.0))
    }

    fn try_store(&self, device: DeviceId, name: &str, put: Put<'_>) -> io::Result<()> {
        let Self { cache, source } = self;
        let file = tempfile::NamedTempFile::new_in(&cache.folder)?;
        let mut out = Writer::new(file.as_file(), cache.most_bytes / 2)?;
        put(&mut out)?;
        let label = Label { build: build().to_owned(), source: source.clone() };
        let bytes = out.finish(&serde_json::to_vec(&label)?)?;
        cache.make_room(bytes)?;
        file.persist(self.file(device, name))?;
        Ok(())
    }
}

impl Shelf for EntryShelf {
    fn load(&self, device: DeviceId, name: &str) -> Option<Store> {
        let (file, _) = open_regular(&self.file(device, name), Links::Refuse, u64::MAX).ok()?;
        let store = Store::open(&file, self.cache.access, |label| is_of(label, &self.source)).ok()??;
        let _ = file.set_modified(std::time::SystemTime::now());
        (!is_damaged()).then_some(store)
    }

    fn store(&self, device: DeviceId, name: &str, put: Put<'_>) {
        if !is_damaged() {
            let _ = self.try_store(device, name, put);
        }
    }
}
