//! What was worked out from the whole trace of an entry, so that a question about a part of it need not go through all.
//!
//! It is worked out when it is first asked for, since opening a file does not need it, and lies beside the entry: one
//! file for each thing and device.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use vramscope_analysis::categories::Curves;
use vramscope_analysis::pools::PoolTable;
use vramscope_analysis::{
    CallTable, Conclusions, Finding, Fragmentation, Lives, Minimum, ModulePeaks, Span, SpanSums, Stepwise,
};
use vramscope_mapped::{Store, StoreError, Writer, is_damaged};
use vramscope_snapshot::DeviceId;
use vramscope_snapshot::stored::{get_small, put_small};

use super::{Cache, Fingerprint, Label, build, is_of};
use crate::regular::{Links, open_regular};

/// The ending of these files.
pub(super) const ENDING: &str = "kept";

/// Something that is kept.
pub(crate) trait Keep: Sized {
    /// The word for it in names of files.
    const NAME: &'static str;

    fn put(&self, out: &mut Writer<&File>) -> io::Result<()>;
    fn get(store: &Store) -> Result<Self, StoreError>;
}

impl Keep for Conclusions {
    const NAME: &'static str = "conclusions";

    fn put(&self, out: &mut Writer<&File>) -> io::Result<()> {
        self.put(out)
    }

    fn get(store: &Store) -> Result<Self, StoreError> {
        Self::get(store)
    }
}

impl Keep for CallTable {
    const NAME: &'static str = "calls";

    fn put(&self, out: &mut Writer<&File>) -> io::Result<()> {
        self.put(out)
    }

    fn get(store: &Store) -> Result<Self, StoreError> {
        Self::get(store)
    }
}

impl Keep for PoolTable {
    const NAME: &'static str = "pools";

    fn put(&self, out: &mut Writer<&File>) -> io::Result<()> {
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

    fn put(&self, out: &mut Writer<&File>) -> io::Result<()> {
        put_small(T::NAME, self, out)
    }

    fn get(store: &Store) -> Result<Self, StoreError> {
        get_small(T::NAME, store)
    }
}

impl Cache {
    /// Something about a device of an entry: what is kept beside it, else what `make` makes, which is kept then.
    pub(crate) fn kept<T: Keep>(
        &self,
        source: &Fingerprint,
        device: DeviceId,
        make: impl FnOnce() -> T,
    ) -> T {
        self.load_kept(source, device).unwrap_or_else(|| {
            let made = make();
            if !is_damaged() {
                let _ = self.keep(source, device, &made);
            }
            made
        })
    }

    fn kept_file<T: Keep>(&self, source: &Fingerprint, device: DeviceId) -> PathBuf {
        let entry = self.entry(source);
        let entry = entry.file_stem().unwrap_or_default().to_string_lossy();
        self.folder.join(format!("{entry}-{}-{}.{ENDING}", device.0, T::NAME))
    }

    fn load_kept<T: Keep>(&self, source: &Fingerprint, device: DeviceId) -> Option<T> {
        let path = self.kept_file::<T>(source, device);
        let (file, _) = open_regular(&path, Links::Refuse, u64::MAX).ok()?;
        let store = Store::open(&file, self.access, |label| is_of(label, source)).ok()??;
        let found = T::get(&store).ok()?;
        let _ = file.set_modified(std::time::SystemTime::now());
        (!is_damaged()).then_some(found)
    }

    fn keep<T: Keep>(&self, source: &Fingerprint, device: DeviceId, made: &T) -> io::Result<()> {
        let file = tempfile::NamedTempFile::new_in(&self.folder)?;
        let mut out = Writer::new(file.as_file(), self.most_bytes / 2)?;
        made.put(&mut out)?;
        let label = Label { build: build().to_owned(), source: source.clone() };
        let bytes = out.finish(&serde_json::to_vec(&label)?)?;
        self.make_room(bytes)?;
        file.persist(self.kept_file::<T>(source, device))?;
        Ok(())
    }
}
