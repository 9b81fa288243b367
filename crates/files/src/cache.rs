//! What was read before, so that opening the same file again is instant.
//!
//! An entry is the snapshot as Arrow IPC and a small JSON file that says of which file, in which
//! state, and what the checksum of the Arrow data is. An entry is used only if all of that still fits.
//! Entries are written beside their final name and renamed, so that a reader never sees half of one. They are for the
//! user's eyes only, as snapshots name their code.
//! Nothing here can fail an opening: what cannot be read or written is as if it were not there.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use vramscope_snapshot::{Snapshot, ipc};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::folders::cache_folder;
use crate::regular::{Links, open_regular, read_regular};
use crate::sidecar::Sidecar;

/// Smaller files are read as fast as a cache entry would be.
const LEAST_BYTES: u64 = 2 << 20;

/// All entries together, unless [`Cache::with_limit`] says otherwise.
const MOST_BYTES: u64 = 4 << 30;

/// A file on its way into the cache that is older than this was left behind by a killed process.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Pieces of a file that are looked at to see that it is still the same.
const SAMPLES: u64 = 32;
const SAMPLE_BYTES: usize = 4 << 10;
const EDGE_BYTES: usize = 64 << 10;

/// A folder of entries.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    most_bytes: u64,
}

/// A label is a path and a few numbers, and the same for each file beside a snapshot.
const MOST_LABEL_BYTES: u64 = 1 << 20;

/// Which file, in which state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    path: PathBuf,
    state: State,
    /// Checksum of samples of the content.
    content: u64,
    /// The files beside it that were read with it.
    sidecars: Vec<(PathBuf, State)>,
}

/// What changes with a file, even if somebody puts size and time back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    size: u64,
    modified_ns: u128,
    /// Device, inode, and time of the last change of either content or inode.
    identity: Option<(u64, u64, i64, i64)>,
}

impl State {
    fn new(metadata: &fs::Metadata) -> io::Result<Self> {
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self { size: metadata.len(), modified_ns: modified.as_nanos(), identity: identity(metadata) })
    }
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps, reason = "elsewhere there is none")]
fn identity(metadata: &fs::Metadata) -> Option<(u64, u64, i64, i64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec()))
}

#[cfg(not(unix))]
fn identity(_: &fs::Metadata) -> Option<(u64, u64, i64, i64)> {
    None
}

/// The JSON file of an entry.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Label {
    version: String,
    source: Fingerprint,
    data_bytes: u64,
    data_checksum: u64,
}

impl Fingerprint {
    /// The state of a file, which is left at its beginning; `None` if it is too small to be cached.
    pub(crate) fn new(path: &Path, file: &mut File, sidecars: &[Sidecar]) -> io::Result<Option<Self>> {
        let metadata = file.metadata()?;
        let size = metadata.len();
        if !metadata.is_file() || size < LEAST_BYTES {
            return Ok(None);
        }
        let mut hash = Xxh3::new();
        let mut sample = vec![0; EDGE_BYTES];
        let mut take = |file: &mut File, at: u64, len: usize| -> io::Result<()> {
            file.seek(SeekFrom::Start(at))?;
            let sample = sample.get_mut(..len).unwrap_or_default();
            file.read_exact(sample)?;
            hash.update(sample);
            Ok(())
        };
        take(file, 0, EDGE_BYTES)?;
        take(file, size - EDGE_BYTES as u64, EDGE_BYTES)?;
        for sample in 1..=SAMPLES {
            take(file, size / (SAMPLES + 2) * sample, SAMPLE_BYTES)?;
        }
        file.rewind()?;
        let path = path.canonicalize()?;
        let beside = |file: &Sidecar| Ok((file.path().to_owned(), State::new(&file.metadata()?)?));
        let sidecars = sidecars.iter().map(beside).collect::<io::Result<_>>()?;
        Ok(Some(Self { path, state: State::new(&metadata)?, content: hash.digest(), sidecars }))
    }
}

impl Cache {
    /// The user's cache: `$XDG_CACHE_HOME/vramscope`, or `~/.cache/vramscope`.
    pub fn of_user() -> Option<Self> {
        cache_folder().map(Self::in_folder)
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

    fn files(&self, source: &Fingerprint) -> (PathBuf, PathBuf) {
        let name = format!("{:016x}", xxh3_64(source.path.as_os_str().as_encoded_bytes()));
        (self.folder.join(format!("{name}.json")), self.folder.join(format!("{name}.arrow")))
    }

    /// The snapshot of a file, if there is an entry for just this state of it.
    pub(crate) fn load(&self, source: &Fingerprint) -> Option<Snapshot> {
        let (label_path, data_path) = self.files(source);
        let label: Label =
            serde_json::from_slice(&read_regular(&label_path, Links::Refuse, MOST_LABEL_BYTES).ok()?).ok()?;
        if label.version != ipc::VERSION || label.source != *source {
            return None;
        }
        let (mut data, bytes) = open_regular(&data_path, Links::Refuse, u64::MAX).ok()?;
        if bytes != label.data_bytes {
            return None;
        }
        if checksum(&mut data).ok()? != (label.data_bytes, label.data_checksum) {
            return None;
        }
        data.rewind().ok()?;
        let snapshot = ipc::decode(BufReader::with_capacity(1 << 20, &data)).ok()?;
        // The entry was of use: the oldest ones go first.
        let _ = data.set_modified(SystemTime::now());
        Some(snapshot)
    }

    /// Keeps a snapshot for the next time, and makes room for it.
    pub(crate) fn store(&self, source: &Fingerprint, snapshot: &Snapshot) {
        let _ = self.try_store(source, snapshot);
    }

    fn try_store(&self, source: &Fingerprint, snapshot: &Snapshot) -> io::Result<()> {
        make_private(&self.folder)?;
        let (label_path, data_path) = self.files(source);
        let data = tempfile::NamedTempFile::new_in(&self.folder)?;
        let mut counted =
            Counted { out: data.as_file(), hash: Xxh3::new(), bytes: 0, most_bytes: self.most_bytes / 2 };
        let mut out = BufWriter::with_capacity(1 << 20, &mut counted);
        ipc::encode(snapshot, &mut out)?;
        out.flush()?;
        drop(out);
        let (data_bytes, data_checksum) = (counted.bytes, counted.hash.digest());
        self.make_room(data_bytes)?;
        let version = ipc::VERSION.to_owned();
        let label = Label { version, source: source.clone(), data_bytes, data_checksum };
        let mut label_file = tempfile::NamedTempFile::new_in(&self.folder)?;
        label_file.write_all(&serde_json::to_vec(&label)?)?;
        data.persist(data_path)?;
        label_file.persist(label_path)?;
        Ok(())
    }

    /// Removes the entries that were not used for longest until `more` bytes fit.
    fn make_room(&self, more: u64) -> io::Result<()> {
        let mut entries = Vec::new();
        let mut total = more;
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let path = entry.path();
            let Ok(metadata) = entry.metadata() else { continue };
            let age =
                metadata.modified().ok().and_then(|modified| modified.elapsed().ok()).unwrap_or_default();
            if entry.file_name().as_encoded_bytes().starts_with(b".tmp") && age > ABANDONED {
                fs::remove_file(&path).ok();
            }
            if path.extension().is_some_and(|ending| ending == "arrow") {
                total += metadata.len();
                entries.push((metadata.modified().unwrap_or(UNIX_EPOCH), metadata.len(), path));
            }
        }
        entries.sort();
        for (_, bytes, path) in entries {
            if total <= self.most_bytes {
                break;
            }
            fs::remove_file(path.with_extension("json")).ok();
            if fs::remove_file(path).is_ok() {
                total -= bytes;
            }
        }
        Ok(())
    }
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

fn checksum(file: &mut File) -> io::Result<(u64, u64)> {
    let mut hash = Xxh3::new();
    let mut chunk = vec![0; 1 << 18];
    let mut bytes = 0;
    loop {
        let len = file.read(&mut chunk)?;
        if len == 0 {
            return Ok((bytes, hash.digest()));
        }
        bytes += len as u64;
        hash.update(chunk.get(..len).unwrap_or_default());
    }
}

/// Counts and sums up what is written, and stops when it is too much.
struct Counted<W> {
    out: W,
    hash: Xxh3,
    bytes: u64,
    most_bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes > self.most_bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let len = self.out.write(bytes)?;
        self.hash.update(bytes.get(..len).unwrap_or_default());
        self.bytes += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
