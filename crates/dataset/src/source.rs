//! The tables of snapshots or of datasets, read a file at a time.

use std::collections::{BTreeMap, HashMap};
use std::fs::File as DiskFile;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use rayon::prelude::*;
use vramscope_analysis::tables::{DeviceTables, Everything, File, Whole};
use vramscope_files::{Cache, Input, OpenError, Opened, Progress, find, open};
use vramscope_format::table::{Column, Value};

use crate::Error;
use crate::batches::Batches;
use crate::key::{Key, keys};
use crate::manifest::{MANIFEST, read};

/// Bytes of files that stay open from one table to the next.
const KEPT_OPEN: u64 = 512 << 20;

/// A file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which one.
    pub path: PathBuf,
    /// Why; begins with the path.
    pub problem: String,
}

impl Problem {
    pub(crate) fn new(input: &Input, problem: String) -> Self {
        Self { path: input.path.clone(), problem }
    }
}

/// What is said of a file that was read and has nothing of any device.
pub(crate) fn nothing(opened: &Opened) -> Option<String> {
    opened.devices.is_empty().then(|| {
        let problems = opened.snapshot.problems();
        let why = if problems.is_empty() { "nothing was allocated".to_owned() } else { problems.join("; ") };
        format!("{}: {why}", opened.path.display())
    })
}

/// The columns of a table without its device, which is a key.
pub fn columns(table: Whole) -> Vec<Column> {
    table.columns().iter().filter(|column| column.name != "device").copied().collect()
}

/// Which files a question is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only this run.
    pub run: Option<String>,
    /// Only this step.
    pub step: Option<i64>,
    /// Only this rank.
    pub rank: Option<i64>,
    /// Only this device.
    pub device: Option<i64>,
}

impl Wanted {
    fn has(&self, key: &Key) -> bool {
        self.run.as_ref().is_none_or(|run| *run == key.run)
            && self.step.is_none_or(|step| step == key.step)
            && self.rank.is_none_or(|rank| rank == key.rank)
    }

    fn has_device(&self, device: i32) -> bool {
        self.device.is_none_or(|wanted| wanted == i64::from(device))
    }
}

/// Rows of one device of one file: the wanted columns, in the order of the table.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Which file.
    pub key: Arc<Key>,
    /// Which device.
    pub device: i32,
    /// The rows.
    pub batch: RecordBatch,
}

/// A file that a source has.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// Which run, step and rank it is.
    pub key: Arc<Key>,
    place: Place,
}

impl Found {
    /// Where a dataset has a table of a device of this file.
    fn stored(&self, root: &Path, table: Whole, device: i32) -> PathBuf {
        root.join(table.name()).join(self.key.folder(device)).join("data.parquet")
    }
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

#[derive(Clone, Debug)]
enum Place {
    Snapshot(Input),
    Dataset { root: Arc<Path>, devices: Vec<i32> },
}

/// Snapshots, folders of snapshots and datasets as one set of tables.
pub struct Source {
    files: Vec<Found>,
    cache: Option<Cache>,
    kept: Mutex<Kept>,
    problems: Mutex<BTreeMap<PathBuf, Problem>>,
}

#[derive(Default)]
struct Kept {
    files: HashMap<PathBuf, Arc<Opened>>,
    bytes: u64,
}

impl Source {
    /// What paths stand for; and what could not be found.
    pub fn new(paths: &[PathBuf], cache: Option<Cache>) -> Result<(Self, Vec<OpenError>), Error> {
        let mut files = Vec::new();
        let mut snapshots = Vec::new();
        for path in paths {
            if !path.join(MANIFEST).is_file() {
                snapshots.push(path.clone());
                continue;
            }
            let root: Arc<Path> = path.as_path().into();
            files.extend(read(path)?.unwrap_or_default().into_iter().map(|entry| Found {
                path: entry.source.into(),
                key: entry.key.into(),
                place: Place::Dataset { root: Arc::clone(&root), devices: entry.devices },
            }));
        }
        let (inputs, errors) = find(&snapshots);
        let given = files.iter().map(|file| (file.path.to_string_lossy().into_owned(), (*file.key).clone()));
        let keys = keys(&inputs, &given.collect());
        files.extend(inputs.into_iter().zip(keys).map(|(input, key)| Found {
            path: input.path.clone(),
            key: key.into(),
            place: Place::Snapshot(input),
        }));
        files.sort_by(|a, b| a.key.cmp(&b.key));
        Ok((Self { files, cache, kept: Mutex::default(), problems: Mutex::default() }, errors))
    }

    /// Files that are open already, none of which is read again.
    pub fn of_open(opened: Vec<Opened>) -> Self {
        let input = |opened: &Opened| Input::new(opened.path.clone(), opened.name.clone(), true);
        let inputs: Vec<Input> = opened.iter().map(input).collect();
        let keys = keys(&inputs, &HashMap::new());
        let mut files: Vec<Found> = inputs
            .into_iter()
            .zip(keys)
            .map(|(input, key)| Found {
                path: input.path.clone(),
                key: key.into(),
                place: Place::Snapshot(input),
            })
            .collect();
        files.sort_by(|a, b| a.key.cmp(&b.key));
        let kept = opened.into_iter().map(|opened| (opened.path.clone(), Arc::new(opened)));
        let kept = Kept { files: kept.collect(), bytes: KEPT_OPEN };
        Self { files, cache: None, kept: Mutex::new(kept), problems: Mutex::default() }
    }

    /// All files, by key.
    pub fn files(&self) -> &[Found] {
        &self.files
    }

    /// Those that a question is about.
    pub fn wanted(&self, wanted: &Wanted) -> Vec<Found> {
        self.files.iter().filter(|file| wanted.has(&file.key)).cloned().collect()
    }

    /// Bytes that reading a table of some files takes, as far as they are not open.
    pub fn bytes(&self, files: &[Found], table: Whole) -> u64 {
        let bytes = |file: &Found| match &file.place {
            Place::Snapshot(input) if lock(&self.kept).files.contains_key(&input.path) => 0,
            Place::Snapshot(input) => input.bytes(),
            Place::Dataset { root, devices } => {
                let size = |device: &i32| size(&file.stored(root, table, *device));
                devices.iter().map(size).sum()
            }
        };
        files.iter().map(bytes).fold(0, u64::saturating_add)
    }

    /// What could not be read so far.
    pub fn problems(&self) -> Vec<Problem> {
        lock(&self.problems).values().cloned().collect()
    }

    /// Rows of some files, each read by a thread of its own. A file that cannot be read is a problem, and the others are
    /// there.
    pub fn read(
        &self,
        files: &[Found],
        table: Whole,
        wanted: &Wanted,
        is_wanted: &(dyn Fn(&str) -> bool + Sync),
        progress: &dyn Progress,
    ) -> Result<Vec<Chunk>, Error> {
        let each = |file: &Found| self.chunks(file, table, wanted, is_wanted, progress);
        let chunks: Result<Vec<Vec<Chunk>>, Error> = files.par_iter().map(each).collect();
        Ok(chunks?.into_iter().flatten().collect())
    }

    fn chunks(
        &self,
        file: &Found,
        table: Whole,
        wanted: &Wanted,
        is_wanted: &(dyn Fn(&str) -> bool + Sync),
        progress: &dyn Progress,
    ) -> Result<Vec<Chunk>, Error> {
        let mut chunks = Vec::new();
        let mut take = |device: i32, batch: RecordBatch| {
            if batch.num_rows() > 0 && wanted.has_device(device) {
                chunks.push(Chunk { key: Arc::clone(&file.key), device, batch });
            }
        };
        match &file.place {
            Place::Dataset { root, devices } => {
                for &device in devices.iter().filter(|device| wanted.has_device(**device)) {
                    if progress.is_cancelled() {
                        return Ok(chunks);
                    }
                    let path = file.stored(root, table, device);
                    // A file that could not be read has problems and no other table.
                    if device == -1 && !path.exists() {
                        continue;
                    }
                    stored(&path, table, is_wanted, &mut |batch| take(device, batch))?;
                    progress.advance(size(&path));
                }
            }
            Place::Snapshot(input) => match self.open(input, progress) {
                Ok(opened) => {
                    if let Some(problem) = nothing(&opened) {
                        self.problem(input, table, "warning", problem, is_wanted, &mut take)?;
                    }
                    let path = opened.path.to_string_lossy();
                    let about = File { path: &path, role: opened.name.role.as_deref().unwrap_or_default() };
                    let replays = opened.devices.iter();
                    for replay in replays.filter(|replay| wanted.has_device(replay.device().0)) {
                        let device = DeviceTables::new(replay, about);
                        let mut batches = Batches::new(table, is_wanted);
                        let mut push = |row: &[Value<'_>]| -> Result<(), Error> {
                            batches.push(row)?.into_iter().for_each(|batch| take(replay.device().0, batch));
                            Ok(())
                        };
                        device.each_row(table, &Everything(replay.end()), &mut push)?;
                        take(replay.device().0, batches.flush()?);
                    }
                }
                // In a folder there may be other things than snapshots.
                Err(error) if !input.named && error.is_another_kind() => {}
                Err(error) => {
                    self.problem(input, table, "error", error.to_string(), is_wanted, &mut take)?;
                }
            },
        }
        Ok(chunks)
    }

    /// Notes what is wrong with a file, and makes a row of it where that is asked for.
    fn problem(
        &self,
        input: &Input,
        table: Whole,
        severity: &str,
        problem: String,
        is_wanted: &(dyn Fn(&str) -> bool + Sync),
        take: &mut dyn FnMut(i32, RecordBatch),
    ) -> Result<(), Error> {
        if table == Whole::Problems {
            let mut batches = Batches::new(table, is_wanted);
            let path = input.path.to_string_lossy();
            batches.push(&[(&*path).into(), severity.into(), problem.as_str().into()])?;
            take(-1, batches.flush()?);
        }
        lock(&self.problems).insert(input.path.clone(), Problem::new(input, problem));
        Ok(())
    }

    /// Opens a file, or takes it from those that stayed open.
    fn open(&self, input: &Input, progress: &dyn Progress) -> Result<Arc<Opened>, OpenError> {
        if let Some(opened) = lock(&self.kept).files.get(&input.path) {
            return Ok(Arc::clone(opened));
        }
        let opened = Arc::new(open(input, self.cache.as_ref(), progress)?);
        let mut kept = lock(&self.kept);
        // Standard input cannot be read again.
        if input.is_stdin() || kept.bytes.saturating_add(opened.bytes) <= KEPT_OPEN {
            kept.bytes = kept.bytes.saturating_add(opened.bytes);
            kept.files.insert(input.path.clone(), Arc::clone(&opened));
        }
        Ok(opened)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rows of a Parquet file.
fn stored(
    path: &Path,
    table: Whole,
    is_wanted: &dyn Fn(&str) -> bool,
    take: &mut dyn FnMut(RecordBatch),
) -> Result<(), Error> {
    let io = |error| Error::Io { path: path.to_owned(), error };
    let damaged =
        |error: &dyn std::fmt::Display| Error::Damaged { path: path.to_owned(), problem: error.to_string() };
    let file = DiskFile::open(path).map_err(io)?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| damaged(&error))?;
    let names = || builder.schema().fields().iter().map(|field| field.name().as_str());
    if !names().eq(columns(table).iter().map(|column| column.name)) {
        return Err(damaged(&format_args!("has other columns than the table {}", table.name())));
    }
    let roots = names().enumerate().filter(|(_, name)| is_wanted(name)).map(|(at, _)| at);
    let roots: Vec<usize> = roots.collect();
    let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
    let reader =
        builder.with_projection(mask).with_batch_size(1 << 14).build().map_err(|error| damaged(&error))?;
    for batch in reader {
        take(batch.map_err(|error| damaged(&error))?);
    }
    Ok(())
}
