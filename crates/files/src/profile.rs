//! Folders that are Ascend profiles: which files are read, and in which order.

use std::fs::File;
use std::path::{Path, PathBuf};

use vramscope_snapshot::naming::{self, Name};
use vramscope_snapshot::{AscendPart, AscendProfile, ReadError, Snapshot};

use crate::find::Input;
use crate::open::{CHUNK, OpenError, Progress, read_some};

/// Where the profiler puts its tables.
const OUTPUT: &str = "ASCEND_PROFILER_OUTPUT";

/// Whether a folder is a profile: by its name, or by what is in it.
pub(crate) fn is_profile(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    naming::is_profile_folder(&name) || name == OUTPUT || folder.join(OUTPUT).is_dir()
}

/// A profile as an input; its name is that of its path below `root`.
pub(crate) fn input(folder: &Path, root: &Path, named: bool) -> Input {
    let inside = folder.strip_prefix(root).ok().filter(|inside| inside.components().count() > 1);
    let path =
        inside.map_or_else(|| folder.canonicalize().unwrap_or_else(|_| folder.to_owned()), Path::to_owned);
    // Of a path that was typed the role is its last folder but one; the rest is nobody's step.
    let path = match inside {
        Some(_) => path,
        None => path.iter().rev().take(2).collect::<Vec<_>>().into_iter().rev().collect(),
    };
    let rank = files(folder).iter().find_map(|(_, path)| {
        let stem = path.file_stem()?.to_string_lossy().into_owned();
        stem.strip_prefix("profiler_info_")?.parse().ok()
    });
    let name: Name = naming::profile_name(&path.to_string_lossy().replace('\\', "/"), rank);
    Input { path: folder.to_owned(), name, named }
}

/// The files of a profile that are read, in a fixed order.
pub(crate) fn files(folder: &Path) -> Vec<(AscendPart, PathBuf)> {
    let mut found = Vec::new();
    let is_output = folder.file_name().is_some_and(|name| name == OUTPUT);
    let above = folder.parent().filter(|_| is_output);
    let output = folder.join(OUTPUT);
    for place in [above, Some(folder), Some(output.as_path())].into_iter().flatten() {
        for entry in place.read_dir().into_iter().flatten().flatten() {
            let name = entry.file_name();
            if let Some(part) = AscendPart::of(&name.to_string_lossy()) {
                found.push((part, entry.path()));
            }
        }
    }
    found.sort_by(|a, b| a.1.cmp(&b.1));
    found
}

/// Whether a file holds blocks or the level.
fn is_table(part: AscendPart) -> bool {
    matches!(part, AscendPart::OperatorMemory | AscendPart::MemoryRecord)
}

/// Reads a profile. A file that cannot be read costs a warning.
pub(crate) fn read(input: &Input, progress: &dyn Progress) -> Result<(Snapshot, u64), OpenError> {
    let mut reading = Reading { input, progress, bytes: 0, warnings: Vec::new() };
    let mut snapshot = reading.any()?;
    let Reading { bytes, mut warnings, .. } = reading;
    warnings.append(&mut snapshot.warnings);
    snapshot.warnings = warnings;
    Ok((snapshot, bytes))
}

struct Reading<'a> {
    input: &'a Input,
    progress: &'a dyn Progress,
    bytes: u64,
    warnings: Vec<String>,
}

impl Reading<'_> {
    fn profile(&self) -> AscendProfile {
        AscendProfile::new().with_rank(self.input.name.rank.map(|(_, rank)| rank))
    }

    /// The database if there is one that can be read, else the tables.
    fn any(&mut self) -> Result<Snapshot, OpenError> {
        let files = files(&self.input.path);
        let has_tables = files.iter().any(|(part, _)| is_table(*part));
        if let Some((_, path)) = files.iter().find(|(part, _)| *part == AscendPart::Database) {
            let result = self.database(&files, path);
            match result {
                Err(OpenError::Read { error, .. }) if has_tables => self.warn(path, &error),
                result => return result,
            }
        }
        self.finish(files.iter().filter(|(part, _)| *part != AscendPart::Database))
    }

    fn database(&mut self, files: &[(AscendPart, PathBuf)], path: &Path) -> Result<Snapshot, OpenError> {
        for ending in ["-wal", "-journal"] {
            let beside = PathBuf::from(format!("{}{ending}", path.display()));
            if beside.metadata().is_ok_and(|metadata| metadata.len() > 0) {
                let error = format!(
                    "an SQLite database whose writer has not finished: {ending} beside it is not empty. Was the profiler \
                     killed? sqlite3 FILE \"PRAGMA wal_checkpoint(TRUNCATE)\" completes it"
                );
                return Err(OpenError::Read { path: path.to_owned(), error: ReadError::OtherFormat(error) });
            }
        }
        let used = |part: AscendPart| {
            matches!(part, AscendPart::Database | AscendPart::ModuleMemory | AscendPart::Info)
        };
        let snapshot = self.finish(files.iter().filter(|(part, _)| used(*part)))?;
        // A database without call chains may lie beside a trace that has them.
        if !snapshot.has.stacks && files.iter().any(|(part, _)| *part == AscendPart::TraceView) {
            return self
                .finish(files.iter().filter(|(part, _)| used(*part) || *part == AscendPart::TraceView));
        }
        Ok(snapshot)
    }

    fn finish<'f>(
        &mut self,
        files: impl Iterator<Item = &'f (AscendPart, PathBuf)>,
    ) -> Result<Snapshot, OpenError> {
        let mut profile = self.profile();
        self.bytes = 0;
        for (part, path) in files {
            self.feed(&mut profile, *part, path)?;
        }
        profile.finish().map_err(|error| OpenError::Read { path: self.input.path.clone(), error })
    }

    /// Reads one file. What goes wrong with it costs a warning; only being called off ends everything.
    fn feed(&mut self, profile: &mut AscendProfile, part: AscendPart, path: &Path) -> Result<(), OpenError> {
        let mut chunk = vec![0; CHUNK];
        let mut source = match File::open(path) {
            Ok(file) => file,
            Err(error) => {
                self.warn(path, &error);
                return Ok(());
            }
        };
        loop {
            match read_some(&mut source, &mut chunk) {
                Ok(0) => return Ok(()),
                Ok(len) => {
                    profile.feed(part, chunk.get(..len).unwrap_or_default());
                    self.bytes += len as u64;
                    self.progress.advance(len as u64);
                    if self.progress.is_cancelled() {
                        return Err(OpenError::Cancelled { path: self.input.path.clone() });
                    }
                }
                Err(error) => {
                    self.warn(path, &error);
                    return Ok(());
                }
            }
        }
    }

    fn warn(&mut self, path: &Path, error: &dyn std::fmt::Display) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.warnings.push(format!("{name}: {error}"));
    }
}
