//! What was read before, so that opening the same file again is instant.
//!
//! An entry is a file of columns: the snapshot and its replays, and a label that says of which file, in which state, and
//! which build of the program wrote it. It is used only if all of that still fits. It is mapped, and what is looked at is
//! checked first; where it is damaged, the file that it is of is read again.
//! Facts that were worked out from the whole trace, and answers, lie beside the entry in files of their own.
//! All of them are written beside their final name and renamed, so that a reader never sees half of one, and never
//! changed afterwards. They are for the user's eyes only, as snapshots name their code: what others could have written is not
//! used. Nothing here can fail an opening: what cannot be read or written is as if it were not there.

mod answers;
mod fingerprint;
mod kept;
mod room;

use std::fs::{self, File, Metadata};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use vramscope_analysis::Replay;
use vramscope_mapped::{Check, Mend, Store, Writer};
use vramscope_snapshot::{Snapshot, stored};
use xxhash_rust::xxh3::xxh3_64;

pub use answers::{Answer, Question};
pub(crate) use fingerprint::Fingerprint;
pub(crate) use kept::{Facts, Storing};
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
}

/// What an entry is of.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Label {
    build: String,
    source: Fingerprint,
}

impl Label {
    fn new(source: &Fingerprint) -> Self {
        Self { build: build().to_owned(), source: source.clone() }
    }
}

/// A file of the cache that does not have its name yet.
#[derive(Debug)]
struct Written {
    file: NamedTempFile,
    path: PathBuf,
    bytes: u64,
}

/// Identity of this build. What a replay says may change with any of them, and entries are as the machine has them.
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
        Self { folder, most_bytes: MOST_BYTES }
    }

    /// The same with another limit for all entries together.
    #[must_use]
    pub fn with_limit(self, most_bytes: u64) -> Self {
        Self { most_bytes, ..self }
    }

    /// Reason not to use the cache: others could read its folder, or put something into it.
    pub fn problem(&self) -> Option<String> {
        // A folder that is missing will be made.
        let is_private = is_private(&self.folder.metadata().ok()?);
        (!is_private).then(|| {
            format!(
                "the cache is not used: others have access to {}; chmod 700 it, or remove it",
                self.folder.display()
            )
        })
    }

    fn entry(&self, source: &Fingerprint) -> PathBuf {
        let name = xxh3_64(source.path.as_os_str().as_encoded_bytes());
        self.folder.join(format!("{name:016x}.columns"))
    }

    /// What was read of a file, if there is an entry for just this state of it. `mend` reads the file again.
    pub(crate) fn load(&self, source: &Fingerprint, mend: Mend) -> Option<(Snapshot, Vec<Replay>)> {
        let file = open_private(&self.entry(source)).ok()?;
        let store = Store::open(&file, Check::WhenTouched(mend), |label| is_of(label, source)).ok()??;
        let found = (stored::get(&store).ok()?, Replay::get_all(&store).ok()?);
        // The entry was of use: the oldest ones go first.
        let _ = file.set_modified(SystemTime::now());
        Some(found)
    }

    /// Removes the entry of a file.
    pub(crate) fn forget(&self, source: &Fingerprint) {
        let _ = fs::remove_file(self.entry(source));
    }

    /// Whether there is an entry for just this state of a file.
    fn has(&self, source: &Fingerprint) -> bool {
        let mut has = false;
        let look = |label: &[u8]| {
            has = is_of(label, source);
            false
        };
        let file = open_private(&self.entry(source));
        file.is_ok_and(|file| Store::open(&file, Check::Now, look).is_ok()) && has
    }

    /// Keeps what was read for the next time, and makes room for it.
    fn store<'a>(
        &self,
        source: &Fingerprint,
        snapshot: &Snapshot,
        replays: impl IntoIterator<Item = &'a Replay>,
    ) -> io::Result<()> {
        let entry = self.entry(source);
        let written =
            self.write_columns(entry.clone(), &Label::new(source), |out| put(snapshot, replays, out))?;
        self.forget_answers(&entry);
        self.keep(written)
    }

    /// Writes a file of columns.
    fn write_columns(
        &self,
        path: PathBuf,
        label: &impl Serialize,
        put: impl FnOnce(&mut Writer<&File>) -> io::Result<()>,
    ) -> io::Result<Written> {
        self.write(path, |file| {
            let mut out = Writer::new(file, self.most_bytes / 2)?;
            put(&mut out)?;
            out.finish(&serde_json::to_vec(label)?)
        })
    }

    /// Writes a file of the cache. `write` returns how many bytes it has. It is not synced, which would take as long as
    /// reading a snapshot: of what a crash leaves half written the checksums do not hold.
    fn write(&self, path: PathBuf, write: impl FnOnce(&File) -> io::Result<u64>) -> io::Result<Written> {
        make_private(&self.folder)?;
        let file = NamedTempFile::new_in(&self.folder)?;
        let bytes = write(file.as_file())?;
        Ok(Written { file, path, bytes })
    }

    /// Gives a file its name, and makes room for it.
    fn keep(&self, Written { file, path, bytes }: Written) -> io::Result<()> {
        self.make_room(bytes)?;
        file.persist(path)?;
        Ok(())
    }
}

/// Adds the columns of an entry to a file.
fn put<'a, W: Write + Seek>(
    snapshot: &Snapshot,
    replays: impl IntoIterator<Item = &'a Replay>,
    out: &mut Writer<W>,
) -> io::Result<()> {
    stored::put(snapshot, out)?;
    Replay::put_all(replays, out)
}

/// Columns of an entry in memory.
pub(crate) fn in_memory<'a>(
    snapshot: &Snapshot,
    replays: impl IntoIterator<Item = &'a Replay>,
) -> io::Result<Store> {
    let mut bytes = io::Cursor::new(Vec::new());
    let mut out = Writer::new(&mut bytes, u64::MAX)?;
    put(snapshot, replays, &mut out)?;
    out.finish(&[])?;
    Store::in_memory(bytes.get_ref()).map_err(io::Error::other)
}

/// Whether a label is that of a file in this state, as this build writes it.
fn is_of(label: &[u8], source: &Fingerprint) -> bool {
    serde_json::from_slice(label).is_ok_and(|label: Label| label.build == build() && label.source == *source)
}

/// Opens a file of the cache that nobody else can have written.
fn open_private(path: &Path) -> io::Result<File> {
    let (file, _) = open_regular(path, Links::Refuse, u64::MAX)?;
    if is_private(&file.metadata()?) { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Whether a file or folder is the user's, and nobody else's.
#[cfg(unix)]
fn is_private(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o077 == 0
}

/// Elsewhere the folder of the user's own data is.
#[cfg(not(unix))]
fn is_private(_: &Metadata) -> bool {
    true
}

/// Makes a folder that only the user can look into, if there is none.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    if is_private(&folder.metadata()?) { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}
