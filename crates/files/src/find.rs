//! What the user named, as a list of inputs.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use vramscope_naming::Name;
use vramscope_snapshot::{PROBE_BYTES, looks_like_snapshot};

use crate::regular::{Links, open_regular};
use crate::sidecar::Folders;
use crate::walk::{Entry, walk};
use crate::{OpenError, profile, sidecar};

/// One input to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Where it is; `-` is standard input.
    pub path: PathBuf,
    /// What its path says about it.
    pub name: Name,
    /// Whether it must be a snapshot: the user named it, or its name says so and its content cannot.
    pub named: bool,
    /// What lies in folders, shared by all that were found together.
    pub(crate) folders: Folders,
}

impl Input {
    /// A path, and what it says.
    pub fn new(path: PathBuf, name: Name, named: bool) -> Self {
        Self { path, name, named, folders: Folders::default() }
    }

    /// Whether it is standard input.
    pub fn is_stdin(&self) -> bool {
        self.path == Path::new("-")
    }

    /// The files that opening it reads.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        if self.is_stdin() {
            return vec![PathBuf::from("/dev/stdin")];
        }
        match self.path.is_dir() {
            true => profile::files(&self.path).into_iter().map(|(.., path)| path).collect(),
            false => {
                let beside = sidecar::find(&self.path, &self.folders);
                let beside = beside.iter().map(|file| file.path().to_owned());
                std::iter::once(self.path.clone()).chain(beside).collect()
            }
        }
    }

    /// Bytes of the files that opening it reads, and when the newest of them changed, in nanoseconds since 1970: whether
    /// it is still the same.
    pub fn stamp(&self) -> (u64, u64) {
        let (mut bytes, mut newest) = (0_u64, 0);
        for metadata in self.files().iter().filter_map(|path| path.metadata().ok()) {
            let changed = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            bytes = bytes.saturating_add(metadata.len());
            newest = newest.max(changed.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
        }
        (bytes, newest)
    }

    /// Bytes that will be read, as far as that is known.
    pub fn bytes(&self) -> u64 {
        let size = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
        match self.path.is_dir() {
            true => profile::bytes(&self.path),
            false => size(&self.path),
        }
    }
}

/// The inputs that paths stand for. A folder stands for every snapshot below it, found by content; its files are ordered by
/// run, step and rank. Links are followed as long as they stay in the folder. A file stands for itself, whatever it
/// contains. Folders without any snapshot, and parts of folders that were not looked at, come back as errors, beside what
/// was found.
pub fn find(paths: &[PathBuf]) -> (Vec<Input>, Vec<OpenError>) {
    find_until(paths, &|| false)
}

/// [`find`] that stops, with what was found by then, when `is_cancelled` says so: it is asked for every file.
pub fn find_until(paths: &[PathBuf], is_cancelled: &dyn Fn() -> bool) -> (Vec<Input>, Vec<OpenError>) {
    let mut inputs = Vec::new();
    let mut errors = Vec::new();
    for path in paths {
        if path == Path::new("-") || !path.is_dir() {
            let name = vramscope_naming::name(&path.to_string_lossy());
            inputs.push(Input::new(path.clone(), name, true));
        } else if profile::is_profile(path) {
            inputs.push(profile::input(path, path, true));
        } else {
            in_folder(path, is_cancelled, &mut inputs, &mut errors);
        }
    }
    let folders = Folders::default();
    for input in &mut inputs {
        input.folders = folders.clone();
    }
    (inputs, errors)
}

fn in_folder(
    folder: &Path,
    is_cancelled: &dyn Fn() -> bool,
    inputs: &mut Vec<Input>,
    errors: &mut Vec<OpenError>,
) {
    let mut files = 0;
    let mut found = Vec::new();
    let left_out = walk(folder, is_cancelled, &mut |entry| match entry {
        Entry::Folder(path) if profile::is_profile(path) => {
            found.push(profile::input(path, folder, false));
            false
        }
        Entry::Folder(_) => true,
        Entry::File(path) => {
            if !vramscope_naming::is_sidecar(&path.file_name().unwrap_or_default().to_string_lossy()) {
                files += 1;
                found.extend(looked_into(path, folder));
            }
            true
        }
    });
    if found.is_empty() && !is_cancelled() {
        errors.push(OpenError::NoSnapshots { folder: folder.to_owned(), files });
    }
    errors.extend(left_out.into_iter().map(OpenError::LeftOut));
    found.sort_by(|a, b| a.name.key().cmp(&b.name.key()).then_with(|| a.path.cmp(&b.path)));
    inputs.append(&mut found);
}

/// The input that a file in a folder is, if it is one.
fn looked_into(path: &Path, folder: &Path) -> Option<Input> {
    let inside = path.strip_prefix(folder).unwrap_or(path);
    let name = vramscope_naming::name(&inside.to_string_lossy().replace('\\', "/"));
    let by_name = || {
        let ending = path.extension().unwrap_or_default();
        name.rank.is_some() || ending == "pickle" || ending == "pkl"
    };
    let named = match probe(path) {
        Probe::Snapshot => false,
        // The debris of a crash: a rank must not vanish without a word.
        Probe::CannotTell if by_name() => true,
        Probe::CannotTell | Probe::Other => return None,
    };
    Some(Input::new(path.to_owned(), name, named))
}

/// A path as people write it: Windows puts `\\?\` in front of those that were made absolute.
pub fn as_written(path: &Path) -> &Path {
    let rest = path.to_str().and_then(|text| text.strip_prefix(r"\\?\"));
    // What is on a share has another beginning, and is left as it is.
    rest.filter(|rest| rest.as_bytes().get(1) == Some(&b':')).map_or(path, Path::new)
}

/// What a look at the beginning of a file says.
enum Probe {
    Snapshot,
    Other,
    /// It is empty or cannot be read.
    CannotTell,
}

fn probe(path: &Path) -> Probe {
    let mut head = Vec::new();
    let read = open_regular(path, Links::Follow, u64::MAX)
        .and_then(|(file, _)| file.take(PROBE_BYTES as u64).read_to_end(&mut head));
    match read {
        Err(_) | Ok(0) => Probe::CannotTell,
        Ok(_) if looks_like_snapshot(&head) => Probe::Snapshot,
        Ok(_) => Probe::Other,
    }
}
