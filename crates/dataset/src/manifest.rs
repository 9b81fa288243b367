//! What a dataset holds already: a line of JSON per file that is complete, so that an export goes on where it stopped.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use vramscope_analysis::tables::Whole;
use vramscope_files::{Existing, Input};

use crate::Error;
use crate::key::Key;

/// Its name in the folder of the dataset. Engines pass over names that begin with `_`.
pub const MANIFEST: &str = "_manifest.jsonl";

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    schema: String,
    version: String,
    tables: Vec<String>,
}

/// A file that was read, and what was written for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Its path.
    pub(crate) source: String,
    /// Bytes of it and of what lies beside it, and when they changed last.
    pub(crate) stamp: (u64, u64),
    #[serde(flatten)]
    pub(crate) key: Key,
    /// The devices that were written.
    pub(crate) devices: Vec<i32>,
    /// Bytes of each file below the dataset.
    pub(crate) files: BTreeMap<PathBuf, u64>,
    /// What could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

impl Entry {
    /// Whether what was written for a file is all there, and the file is the same as then.
    pub(crate) fn is_complete(&self, dataset: &Path, input: &Input) -> bool {
        let is_there = |(path, bytes): (&PathBuf, &u64)| {
            dataset.join(path).metadata().is_ok_and(|metadata| metadata.len() == *bytes)
        };
        self.stamp == input.stamp() && self.files.iter().all(is_there)
    }
}

fn head() -> Head {
    Head {
        schema: "vramscope/dataset/1".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        tables: Whole::ALL.iter().map(|table| table.name().to_owned()).collect(),
    }
}

/// Reads the manifest of a dataset; the last entry of a file counts. A line that was cut is passed over.
pub(crate) fn read(dataset: &Path) -> Result<Option<Vec<Entry>>, Error> {
    let path = dataset.join(MANIFEST);
    let io = |error| Error::Io { path: path.clone(), error };
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let mut lines = BufReader::new(File::open(&path).map_err(io)?).lines();
    let first = lines.next().transpose().map_err(io)?.unwrap_or_default();
    let damaged = |problem: &str| Error::Damaged { path: path.clone(), problem: problem.to_owned() };
    let head: Head = serde_json::from_str(&first).map_err(|_| damaged("not a manifest of a dataset"))?;
    if (&*head.schema, &*head.version) != ("vramscope/dataset/1", env!("CARGO_PKG_VERSION")) {
        return Err(Error::OtherVersion { path: dataset.to_owned(), version: head.version });
    }
    let mut entries: HashMap<String, Entry> = HashMap::new();
    for line in lines {
        if let Ok(entry) = serde_json::from_str::<Entry>(&line.map_err(io)?)
            && entry.files.keys().all(|path| is_inside(path))
        {
            entries.insert(entry.source.clone(), entry);
        }
    }
    let mut entries: Vec<_> = entries.into_values().collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key).then_with(|| a.source.cmp(&b.source)));
    Ok(Some(entries))
}

/// Whether a path leads nowhere but into the dataset.
fn is_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// A manifest that entries are added to.
pub(crate) struct Manifest {
    file: Mutex<File>,
    path: PathBuf,
}

impl Manifest {
    /// Starts with what is known already.
    pub(crate) fn start(dataset: &Path, known: &[Entry]) -> Result<Self, Error> {
        let path = dataset.join(MANIFEST);
        let io = |error| Error::Io { path: path.clone(), error };
        let mut lines = line(&head()).map_err(io)?;
        for entry in known {
            lines.extend(line(entry).map_err(io)?);
        }
        vramscope_files::write(&path, Existing::Replace, &[], |out| out.write_all(&lines).map_err(io))?;
        let file = File::options().append(true).open(&path);
        let file = file.map_err(io)?;
        Ok(Self { file: Mutex::new(file), path })
    }

    /// Says that a file is complete.
    pub(crate) fn add(&self, entry: &Entry) -> Result<(), Error> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = line(entry).and_then(|line| file.write_all(&line));
        written.map_err(|error| Error::Io { path: self.path.clone(), error })
    }
}

fn line(value: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}
