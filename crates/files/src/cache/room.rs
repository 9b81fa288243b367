//! What is in the cache, and how much of it may be there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use vramscope_mapped::{Check, Store};

use super::{Cache, Label, open_private};
use crate::regular::{Links, read_regular};

/// A file on its way into the cache that is older than this was left behind by a killed process.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The file that holds the limit that the user has set.
const LIMIT: &str = "limit";

/// Endings of files that lie beside an entry, and go with it.
const BESIDE: [&str; 2] = ["answer", super::kept::ENDING];

/// Endings of files in the cache. The last two are those of versions before.
const ENDINGS: [&str; 5] = ["columns", BESIDE[0], BESIDE[1], "arrow", "json"];

/// What is kept of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file that was read; `None` if the entry is another version's, or damaged.
    pub source: Option<PathBuf>,
    /// Bytes of the entry.
    pub bytes: u64,
    /// Answers that are kept with it.
    pub answers: usize,
    /// When it was last of use.
    pub used: SystemTime,
    path: PathBuf,
}

impl Cache {
    /// Where entries are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes that all entries may have together.
    pub fn limit(&self) -> u64 {
        self.most_bytes
    }

    /// The limit that the user has set.
    pub(super) fn kept_limit(&self) -> Option<u64> {
        let text = read_regular(&self.folder.join(LIMIT), Links::Refuse, 64).ok()?;
        str::from_utf8(&text).ok()?.trim().parse().ok()
    }

    /// Sets the limit, for all commands from now on, and removes what exceeds it.
    pub fn set_limit(&self, most_bytes: u64) -> io::Result<()> {
        let text = format!("{most_bytes}\n");
        let write = |mut file: &File| file.write_all(text.as_bytes()).map(|()| text.len() as u64);
        self.keep(self.write(self.folder.join(LIMIT), write)?)?;
        self.clone().with_limit(most_bytes).make_room(0)
    }

    /// What is kept, what was used last first. Answers count with what they were worked out from.
    pub fn entries(&self) -> Vec<Entry> {
        let has = |entry: &Entry, ours: &str| entry.path.extension().is_some_and(|ending| ending == ours);
        let is_beside = |entry: &Entry| BESIDE.iter().any(|ending| has(entry, ending));
        let (beside, mut entries): (Vec<_>, Vec<_>) =
            self.files().unwrap_or_default().into_iter().partition(is_beside);
        for entry in &mut entries {
            let name = entry.path.file_stem().unwrap_or_default().as_encoded_bytes();
            let own = beside.iter().filter(|file| {
                file.path.file_name().unwrap_or_default().as_encoded_bytes().starts_with(name)
            });
            for file in own {
                entry.bytes += file.bytes;
                entry.answers += usize::from(has(file, "answer"));
            }
            let read = open_private(&entry.path).ok().and_then(|file| {
                let mut label = None;
                let keep = |bytes: &[u8]| {
                    label = serde_json::from_slice::<Label>(bytes).ok();
                    false
                };
                Store::open(&file, Check::Now, keep).ok()?;
                label
            });
            entry.source = read.map(|label| label.source.path);
        }
        entries.reverse();
        entries
    }

    /// Removes all entries; returns how many bytes that were.
    pub fn clear(&self) -> io::Result<u64> {
        let mut bytes = 0;
        for entry in self.files()? {
            fs::remove_file(&entry.path)?;
            bytes += entry.bytes;
        }
        Ok(bytes)
    }

    /// Removes answers that were worked out from an entry that is about to be replaced.
    pub(super) fn forget_answers(&self, entry: &Path) {
        let name = entry.file_stem().unwrap_or_default().as_encoded_bytes();
        for file in self.files().unwrap_or_default() {
            let stem = file.path.file_stem().unwrap_or_default().as_encoded_bytes();
            if stem.starts_with(name) && stem.get(name.len()) == Some(&b'-') {
                fs::remove_file(&file.path).ok();
            }
        }
    }

    /// Files of the cache, what was not used for longest first.
    fn files(&self) -> io::Result<Vec<Entry>> {
        let mut files = Vec::new();
        let listed = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
            listed => listed?,
        };
        for entry in listed.flatten() {
            let path = entry.path();
            let Ok(metadata) = entry.metadata() else { continue };
            let used = metadata.modified().unwrap_or(UNIX_EPOCH);
            if entry.file_name().as_encoded_bytes().starts_with(b".tmp")
                && used.elapsed().unwrap_or_default() > ABANDONED
            {
                fs::remove_file(&path).ok();
                continue;
            }
            let is_ours = path.extension().is_some_and(|ending| ENDINGS.iter().any(|ours| ending == *ours));
            if is_ours && metadata.is_file() {
                files.push(Entry { source: None, bytes: metadata.len(), answers: 0, used, path });
            }
        }
        files.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
        Ok(files)
    }

    /// Removes the entries that were not used for longest until `more` bytes fit.
    pub(super) fn make_room(&self, more: u64) -> io::Result<()> {
        let files = self.files()?;
        let mut total = files.iter().fold(more, |sum, file| sum.saturating_add(file.bytes));
        for file in files {
            if total <= self.most_bytes {
                break;
            }
            if fs::remove_file(&file.path).is_ok() {
                total -= file.bytes;
            }
        }
        Ok(())
    }
}
