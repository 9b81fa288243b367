//! Snapshots as a Parquet dataset, partitioned by run, step, rank and device.
//!
//! A worker has one file in memory at a time. Every Parquet file is written beside its place and renamed, and a line of the
//! manifest says when all files of a snapshot are there: an export that was stopped goes on with the others.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use rayon::prelude::*;
use vramscope_analysis::tables::{DeviceTables, Everything, File, Whole};
use vramscope_files::{Cache, Existing, Input, Opened, Progress, open};
use vramscope_format::table::Value;

use crate::Error;
use crate::batches::Batches;
use crate::key::{Key, keys};
use crate::manifest::{Entry, Manifest, read};
use crate::source::{Problem, nothing};

/// Rows of a row group: what an engine reads or passes over at once.
const ROW_GROUP: usize = 1 << 17;

/// What an export did.
#[derive(Debug, Default)]
pub struct Written {
    /// Files that were read and written.
    pub files: usize,
    /// Files that were there already.
    pub skipped: usize,
    /// Files in the folders that are of another kind.
    pub others: usize,
    /// Bytes of what was written.
    pub bytes: u64,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

/// Writes the tables of all inputs into a folder. What is complete there from before is skipped; what cannot be read
/// becomes a row of `problems`. An error of the file system ends it, and leaves what is complete.
pub fn write(
    inputs: &[Input],
    dataset: &Path,
    cache: Option<&Cache>,
    progress: &dyn Progress,
) -> Result<Written, Error> {
    let known = start(dataset)?;
    let given = known.iter().map(|entry| (entry.source.clone(), entry.key.clone())).collect();
    let manifest = Manifest::start(dataset, &known)?;
    let known: HashMap<&str, &Entry> = known.iter().map(|entry| (&*entry.source, entry)).collect();
    let written = Mutex::new(Written::default());
    let tally = |add: &dyn Fn(&mut Written)| add(&mut written.lock().unwrap_or_else(PoisonError::into_inner));
    let work: Vec<_> = inputs.iter().zip(keys(inputs, &given)).collect();
    work.par_iter().try_for_each(|(input, key)| -> Result<(), Error> {
        let before = known.get(&*input.path.to_string_lossy());
        if let Some(before) = before.filter(|before| before.is_complete(dataset, input)) {
            progress.advance(input.bytes());
            tally(&|written| {
                written.skipped += 1;
                written.problems.extend(before.problem.clone().map(|problem| Problem::new(input, problem)));
            });
            return Ok(());
        }
        let stamp = input.stamp();
        let mut parts = Parts { dataset, key, files: BTreeMap::new() };
        let (devices, problem) = match open(input, cache, progress) {
            Ok(opened) => match nothing(&opened) {
                None => (parts.snapshot(&opened)?, None),
                Some(problem) => {
                    parts.problem(input, "warning", &problem)?;
                    (vec![-1], Some(problem))
                }
            },
            Err(error) if !input.named && error.is_another_kind() => {
                tally(&|written| written.others += 1);
                return Ok(());
            }
            Err(error) => {
                let problem = error.to_string();
                parts.problem(input, "error", &problem)?;
                (vec![-1], Some(problem))
            }
        };
        if let Some(before) = before {
            for stale in before.files.keys().filter(|path| !parts.files.contains_key(*path)) {
                let _ = fs::remove_file(dataset.join(stale));
            }
        }
        let bytes: u64 = parts.files.values().sum();
        let source = input.path.to_string_lossy().into_owned();
        let files = parts.files;
        let entry = Entry { source, stamp, key: key.clone(), devices, files, problem: problem.clone() };
        manifest.add(&entry)?;
        tally(&|written| {
            written.files += 1;
            written.bytes += bytes;
            written.problems.extend(problem.clone().map(|problem| Problem::new(input, problem)));
        });
        Ok(())
    })?;
    let mut written = written.into_inner().unwrap_or_else(PoisonError::into_inner);
    written.problems.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(written)
}

/// Makes the folder, and reads what it holds already. A folder with anything else in it is left alone.
fn start(dataset: &Path) -> Result<Vec<Entry>, Error> {
    let io = |error| Error::Io { path: dataset.to_owned(), error };
    fs::create_dir_all(dataset).map_err(io)?;
    let known = read(dataset)?;
    // An export that was killed at once has left no more than a temporary file.
    let mut entries = fs::read_dir(dataset).map_err(io)?.flatten();
    if known.is_none() && entries.any(|entry| !vramscope_files::is_temporary(&entry.path())) {
        return Err(Error::NotADataset { path: dataset.to_owned() });
    }
    vramscope_files::remove_abandoned(dataset);
    Ok(known.unwrap_or_default())
}

/// The files of one snapshot.
struct Parts<'a> {
    dataset: &'a Path,
    key: &'a Key,
    files: BTreeMap<PathBuf, u64>,
}

impl Parts<'_> {
    /// Writes all tables of all devices, and says which devices there are.
    fn snapshot(&mut self, opened: &Opened) -> Result<Vec<i32>, Error> {
        let path = opened.path.to_string_lossy();
        let file = File { path: &path, role: opened.name.role.as_deref().unwrap_or_default() };
        for replay in &opened.devices {
            let device = DeviceTables::new(replay, file);
            for table in Whole::ALL {
                self.write(table, replay.device().0, |packing| {
                    device.each_row(table, &Everything(replay.end()), &mut |row| packing.push(row))
                })?;
            }
        }
        Ok(opened.devices.iter().map(|replay| replay.device().0).collect())
    }

    /// Writes that a file could not be read, or has nothing in it.
    fn problem(&mut self, input: &Input, severity: &str, problem: &str) -> Result<(), Error> {
        let path = input.path.to_string_lossy();
        self.write(Whole::Problems, -1, |packing| {
            packing.push(&[(&*path).into(), severity.into(), problem.into()])
        })
    }

    fn write(
        &mut self,
        table: Whole,
        device: i32,
        rows: impl FnOnce(&mut Packing) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut packing = Packing::new(table)?;
        rows(&mut packing)?;
        let bytes = packing.finish()?;
        let path = Path::new(table.name()).join(self.key.folder(device)).join("data.parquet");
        let place = self.dataset.join(&path);
        if let Some(folder) = place.parent() {
            let io = |error| Error::Io { path: folder.to_owned(), error };
            fs::create_dir_all(folder).map_err(io)?;
            vramscope_files::remove_abandoned(folder);
        }
        vramscope_files::write(&place, Existing::Replace, &[], |out| -> Result<(), Error> {
            out.write_all(&bytes).map_err(|error| Error::Io { path: place.clone(), error })
        })?;
        self.files.insert(path, bytes.len() as u64);
        Ok(())
    }
}

/// Rows that become a Parquet file. What is packed is small, so it stays in memory until it is complete.
struct Packing {
    writer: ArrowWriter<Vec<u8>>,
    batches: Batches,
}

impl Packing {
    fn new(table: Whole) -> Result<Self, Error> {
        let batches = Batches::new(table, |_| true);
        let properties = WriterProperties::builder()
            .set_compression(compression())
            .set_max_row_group_row_count(Some(ROW_GROUP))
            .set_created_by(concat!("vramscope ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer = ArrowWriter::try_new(Vec::new(), batches.schema().clone(), Some(properties))?;
        Ok(Self { writer, batches })
    }

    fn push(&mut self, row: &[Value<'_>]) -> Result<(), Error> {
        if let Some(batch) = self.batches.push(row)? {
            self.writer.write(&batch)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<u8>, Error> {
        if self.batches.is_pending() {
            self.writer.write(&self.batches.flush()?)?;
        }
        Ok(self.writer.into_inner()?)
    }
}

#[cfg(feature = "zstd")]
fn compression() -> Compression {
    Compression::ZSTD(parquet::basic::ZstdLevel::default())
}

#[cfg(not(feature = "zstd"))]
fn compression() -> Compression {
    Compression::SNAPPY
}
