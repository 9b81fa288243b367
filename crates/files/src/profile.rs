//! Folders that are Ascend profiles, read from a disk.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use vramscope_naming::{Name, PROFILE_OUTPUT};
use vramscope_snapshot::{AscendFolder, AscendPart, Snapshot, profile_rank};

use crate::fetch::{CHUNK, read_some};
use crate::find::Input;
use crate::open::{OpenError, Progress};
use crate::regular::{Links, open_regular};

/// Files of a folder that are looked at; a profile has a few dozen.
const MOST_FILES: usize = 1 << 14;

/// Whether a folder is a profile: by its name, or by what is in it.
pub(crate) fn is_profile(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    vramscope_naming::is_profile_folder(&name)
        || name == PROFILE_OUTPUT
        || is_folder(&folder.join(PROFILE_OUTPUT))
}

/// Whether a path is a folder itself: a link may lead anywhere.
fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
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
    let files = files(folder);
    let rank = profile_rank(files.iter().map(|(name, ..)| name.as_str()));
    let name: Name = vramscope_naming::profile_name(&path.to_string_lossy().replace('\\', "/"), rank);
    Input::new(folder.to_owned(), name, named)
}

/// Bytes of the files of a profile that may be read.
pub(crate) fn bytes(folder: &Path) -> u64 {
    files(folder).iter().filter(|(name, ..)| AscendPart::of(name).is_some()).map(|(_, bytes, _)| bytes).sum()
}

/// The files of a profile with their names and sizes, in a fixed order.
pub(crate) fn files(folder: &Path) -> Vec<(String, u64, PathBuf)> {
    let mut found = Vec::new();
    let is_output = folder.file_name().is_some_and(|name| name == PROFILE_OUTPUT);
    let above = folder.parent().filter(|_| is_output);
    let output = folder.join(PROFILE_OUTPUT);
    let output = Some(output.as_path()).filter(|output| is_folder(output));
    for place in [above, Some(folder), output].into_iter().flatten() {
        for entry in place.read_dir().into_iter().flatten().take(MOST_FILES).flatten() {
            // Of the entry itself: what a link leads to is not part of the profile.
            if let Ok(metadata) = entry.metadata()
                && metadata.is_file()
            {
                found.push((entry.file_name().to_string_lossy().into_owned(), metadata.len(), entry.path()));
            }
        }
    }
    found.sort_by(|a, b| a.2.cmp(&b.2));
    found
}

/// Reads a profile. A file that cannot be read costs a warning.
pub(crate) fn read(input: &Input, progress: &dyn Progress) -> Result<(Snapshot, u64), OpenError> {
    let files = files(&input.path);
    let mut folder = AscendFolder::new(files.iter().map(|(name, bytes, _)| (name.clone(), *bytes)).collect());
    let mut chunk = vec![0; CHUNK];
    while let Some(place) = folder.next_file() {
        let Some((_, _, path)) = files.get(place) else { continue };
        let mut feed = || -> io::Result<bool> {
            let (file, bytes) = open_regular(path, Links::Refuse, u64::MAX)?;
            // What is still being written has an end here.
            let mut file = file.take(bytes);
            loop {
                let len = read_some(&mut file, &mut chunk)?;
                if len == 0 || progress.is_cancelled() {
                    return Ok(len == 0);
                }
                folder.feed(chunk.get(..len).unwrap_or_default());
                progress.advance(len as u64);
            }
        };
        match feed() {
            Ok(true) => {}
            Ok(false) => return Err(OpenError::Cancelled { path: input.path.clone() }),
            Err(error) => folder.lose(&error),
        }
    }
    folder.finish().map_err(|error| OpenError::Read { path: input.path.clone(), error })
}
