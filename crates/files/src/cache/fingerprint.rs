//! Which file an entry is of, and in which state.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::sidecar::Sidecar;

/// Smaller files are read as fast as a cache entry would be.
const LEAST_BYTES: u64 = 2 << 20;

/// Pieces of a file that are looked at to see that it is still the same.
const SAMPLES: u64 = 32;
const SAMPLE_BYTES: usize = 4 << 10;
const EDGE_BYTES: usize = 64 << 10;

/// Which file, in which state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    pub(super) path: PathBuf,
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
