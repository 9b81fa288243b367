//! What was read before, so that opening the same file again is instant.
//!
//! An entry is a file of columns: the snapshot and its replays, and a label that says of which file, in which state, and
//! which build of the program wrote it. It is used only if all of that still fits. A command that asks one question maps
//! it and reads the pages that it needs; see [`Access`] for what it has to do in the end.
//! Entries are written beside their final name and renamed, so that a reader never sees half of one, and one that is
//! mapped stays what it is. They are for the user's eyes only, as snapshots name their code.
//! Nothing here can fail an opening: what cannot be read or written is as if it were not there.

mod answers;
mod fingerprint;
mod kept;
mod room;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use vramscope_analysis::Replay;
use vramscope_mapped::{Access, Store, Writer, forget_damage, is_damaged};
use vramscope_snapshot::{Snapshot, stored};
use xxhash_rust::xxh3::xxh3_64;

pub use answers::{Answer, Question};
pub(crate) use fingerprint::Fingerprint;
pub(crate) use kept::EntryShelf;
pub use room::Entry;

use crate::folders::cache_folder;
use crate::regular::{Links, open_regular};

/// All entries together, unless [`Cache::with_limit`] says otherwise.
const MOST_BYTES: u64 = 10 << 30;

/// A folder of entries.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    most_bytes: u64,
    access: Access,
}

/// What an entry is of.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Label {
    build: String,
    source: Fingerprint,
}

/// Set once an entry turned out to be damaged while it was used.
static DISTRUSTED: AtomicBool = AtomicBool::new(false);

/// Whether an entry that was mapped turned out to be damaged, or was cut. Then what was worked out from it is wrong.
pub fn is_cache_damaged() -> bool {
    is_damaged()
}

/// Begins anew without entries, after an answer from a damaged one was discarded: files are read, and what is read takes
/// the place of the entry.
pub fn distrust_cache() {
    DISTRUSTED.store(true, Ordering::Release);
    forget_damage();
}

/// Which build this is. What a replay says may change with any of them, and entries are as the machine has them.
fn build() -> &'static str {
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD.get_or_init(|| {
        let program = std::env::current_exe().and_then(fs::metadata).ok();
        let modified = program.as_ref().and_then(|program| program.modified().ok());
        let since =
            modified.and_then(|modified| modified.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let bytes = program.map_or(0, |program| program.len());
        format!("{} {bytes} {}", env!("CARGO_PKG_VERSION"), since.as_nanos())
    })
}

impl Cache {
    /// The user's cache: `$XDG_CACHE_HOME/vramscope`, or `~/.cache/vramscope`.
    pub fn of_user() -> Option<Self> {
        let cache = Self::in_folder(cache_folder()?);
        Some(match cache.kept_limit() {
            Some(most_bytes) => cache.with_limit(most_bytes),
            None => cache,
        })
    }

    /// A cache in a folder, which is made when something is stored.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { folder, most_bytes: MOST_BYTES, access: Access::Copied }
    }

    /// The same with another limit for all entries together.
    #[must_use]
    pub fn with_limit(self, most_bytes: u64) -> Self {
        Self { most_bytes, ..self }
    }

    /// The same for a program that answers and ends: of an entry it reads only what it needs, and discards its answer if
    /// [`is_cache_damaged`] says so in the end.
    #[must_use]
    pub fn mapped(self) -> Self {
        Self { access: Access::Mapped, ..self }
    }

    fn entry(&self, source: &Fingerprint) -> PathBuf {
        let name = xxh3_64(source.path.as_os_str().as_encoded_bytes());
        self.folder.join(format!("{name:016x}.columns"))
    }

    /// What was read of a file, if there is an entry for just this state of it.
    pub(crate) fn load(&self, source: &Fingerprint) -> Option<(Snapshot, Vec<Replay>)> {
        if DISTRUSTED.load(Ordering::Acquire) {
            return None;
        }
        let (file, _) = open_regular(&self.entry(source), Links::Refuse, u64::MAX).ok()?;
        let store = Store::open(&file, self.access, |label| is_of(label, source)).ok()??;
        let found = (stored::get(&store).ok()?, Replay::get_all(&store).ok()?);
        if is_damaged() {
            return None;
        }
        // The entry was of use: the oldest ones go first.
        let _ = file.set_modified(SystemTime::now());
        Some(found)
    }

    /// Whether there is an entry for just this state of a file.
    fn has(&self, source: &Fingerprint) -> bool {
        let mut has = false;
        let look = |label: &[u8]| {
            has = is_of(label, source);
            false
        };
        let file = open_regular(&self.entry(source), Links::Refuse, u64::MAX);
        file.is_ok_and(|(file, _)| Store::open(&file, Access::Mapped, look).is_ok()) && has
    }

    /// Keeps what was read for the next time, and makes room for it.
    pub(crate) fn store<'a>(
        &self,
        source: &Fingerprint,
        snapshot: &Snapshot,
        replays: impl IntoIterator<Item = &'a Replay>,
    ) {
        let _ = self.try_store(source, snapshot, replays);
    }

    fn try_store<'a>(
        &self,
        source: &Fingerprint,
        snapshot: &Snapshot,
        replays: impl IntoIterator<Item = &'a Replay>,
    ) -> io::Result<()> {
        make_private(&self.folder)?;
        let file = tempfile::NamedTempFile::new_in(&self.folder)?;
        let mut out = Writer::new(file.as_file(), self.most_bytes / 2)?;
        stored::put(snapshot, &mut out)?;
        Replay::put_all(replays, &mut out)?;
        let label = Label { build: build().to_owned(), source: source.clone() };
        let bytes = out.finish(&serde_json::to_vec(&label)?)?;
        self.make_room(bytes)?;
        let entry = self.entry(source);
        self.forget_answers(&entry);
        file.persist(entry)?;
        Ok(())
    }
}

/// Whether a label is that of a file in this state, as this build writes it.
fn is_of(label: &[u8], source: &Fingerprint) -> bool {
    serde_json::from_slice(label).is_ok_and(|label: Label| label.build == build() && label.source == *source)
}

/// Makes a folder that only the user can look into.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        builder.mode(0o700).create(folder)?;
        if folder.metadata()?.permissions().mode() & 0o777 != 0o700 {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
        }
        Ok(())
    }
    #[cfg(not(unix))]
    builder.create(folder)
}
