//! Folders that are Ascend profiles: which files are read, and in which order.

use std::fs::File;
use std::path::{Path, PathBuf};

use vramscope_snapshot::naming::{self, Name};
use vramscope_snapshot::{AscendPart, AscendProfile, Snapshot};

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

/// Reads a profile. A file that cannot be read costs a warning.
pub(crate) fn read(input: &Input, progress: &dyn Progress) -> Result<(Snapshot, u64), OpenError> {
    let mut reading = Reading { input, progress, bytes: 0, warnings: Vec::new() };
    let mut snapshot = reading.tables()?;
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

    fn tables(&mut self) -> Result<Snapshot, OpenError> {
        let mut profile = self.profile();
        for (part, path) in files(&self.input.path) {
            self.feed(&mut profile, part, &path);
        }
        profile.finish().map_err(|error| OpenError::Read { path: self.input.path.clone(), error })
    }

    fn feed(&mut self, profile: &mut AscendProfile, part: AscendPart, path: &Path) {
        let mut chunk = vec![0; CHUNK];
        let mut source = match File::open(path) {
            Ok(file) => file,
            Err(error) => return self.warn(path, &error),
        };
        loop {
            match read_some(&mut source, &mut chunk) {
                Ok(0) => return,
                Ok(len) => {
                    profile.feed(part, chunk.get(..len).unwrap_or_default());
                    self.bytes += len as u64;
                    self.progress.advance(len as u64);
                }
                Err(error) => return self.warn(path, &error),
            }
        }
    }

    fn warn(&mut self, path: &Path, error: &dyn std::fmt::Display) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.warnings.push(format!("{name}: {error}"));
    }
}
