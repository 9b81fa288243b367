//! Files beside a snapshot that belong to it.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use vramscope_snapshot::{DeviceId, Snapshot, add_memory_usage, add_sidecar};

use crate::regular::{Links, read_regular};

/// A table of a dozen modules is under a kilobyte.
const MOST_USAGE_BYTES: u64 = 1 << 20;

/// A tensor takes about 120 bytes: the parameters, gradients and optimizer state of any model.
const MOST_RECORDER_BYTES: u64 = 64 << 20;

/// Names that are looked at: the folder of a snapshot may be anybody's.
const MOST_NAMES: usize = 1 << 16;

/// One table for each device of a node.
const MOST_DEVICES: usize = 64;

/// A file beside a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sidecar {
    /// What others than PyTorch hold of an NPU.
    Usage(i32, PathBuf),
    /// What vramscope's recorder wrote.
    Recorder(PathBuf),
}

impl Sidecar {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Usage(_, path) | Self::Recorder(path) => path,
        }
    }

    fn links(&self) -> Links {
        match self {
            Self::Usage(..) => Links::Refuse,
            // Who links the snapshots of a run together links their sidecars, too.
            Self::Recorder(_) => Links::Follow,
        }
    }

    /// What says whether it has changed.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        match self.links() {
            Links::Refuse => self.path().symlink_metadata(),
            Links::Follow => self.path().metadata(),
        }
    }
}

/// A table of what others hold of a device: the device, the time in its name, the path.
type Usage = (i32, String, PathBuf);

/// The tables of folders, each listed once: of thousands of ranks in a folder, not each lists it again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folders(Arc<Mutex<HashMap<PathBuf, Arc<[Usage]>>>>);

/// What was listed says nothing about an input.
impl PartialEq for Folders {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Folders {}

impl Folders {
    fn usages(&self, folder: &Path) -> Arc<[Usage]> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(usages) = known.get(folder) {
            return Arc::clone(usages);
        }
        let usages: Arc<[Usage]> = list(folder).into();
        known.insert(folder.to_owned(), Arc::clone(&usages));
        usages
    }
}

/// All tables in a folder, by device.
fn list(folder: &Path) -> Vec<Usage> {
    let mut found = Vec::new();
    for entry in folder.read_dir().into_iter().flatten().take(MOST_NAMES).flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((device, rest)) =
            name.strip_prefix("device_").and_then(|rest| rest.split_once("_memUsageInfo_"))
            && let (Ok(device), Some(time)) = (device.parse::<i32>(), stamp(rest))
        {
            found.push((device, time, entry.path()));
        }
    }
    found.sort();
    found
}

/// The files that belong to a snapshot.
pub(crate) fn find(path: &Path, folders: &Folders) -> Vec<Sidecar> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let name = name.to_string_lossy();
    let listed = folders.usages(if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let mut found = usage(&listed, &name);
    let recorder = folder.join(vramscope_naming::sidecar(&name));
    if recorder.symlink_metadata().is_ok() {
        found.push(Sidecar::Recorder(recorder));
    }
    found
}

/// An NPU that runs out of memory writes `oom_snapshot_<pid>_<time>.pickle`, and for each device
/// `device_<d>_memUsageInfo_<time>.csv` with what others than PyTorch hold. They belong together by their time;
/// where the snapshot's name has none, by being the only one of a device in the folder.
fn usage(listed: &[Usage], name: &str) -> Vec<Sidecar> {
    let wanted = stamp(name);
    let found = listed.iter().filter(|(_, time, _)| wanted.as_ref().is_none_or(|wanted| wanted == time));
    let found: Vec<&Usage> = found.collect();
    let of_device = found.chunk_by(|(a, ..), (b, ..)| a == b);
    let only = of_device.filter(|files| files.len() == 1).flatten().take(MOST_DEVICES);
    only.map(|(device, _, path)| Sidecar::Usage(*device, path.clone())).collect()
}

/// Adds what such files say. One that cannot be read produces a warning.
pub(crate) fn add(snapshot: &mut Snapshot, path: &Path, found: &[Sidecar]) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for sidecar in found {
        match sidecar {
            // In a shared folder anything may have that name: what is no regular file is as if it were not there.
            Sidecar::Usage(device, path) => {
                if let Ok(csv) = read_regular(path, sidecar.links(), MOST_USAGE_BYTES) {
                    add_memory_usage(snapshot, DeviceId(*device), &csv);
                }
            }
            Sidecar::Recorder(beside) => match read_recorder(beside, path) {
                Ok(json) => add_sidecar(snapshot, vramscope_naming::stem(&name), &json),
                Err(error) => snapshot.warnings.push(format!("the sidecar is not used: {error}")),
            },
        }
    }
}

/// Reads what the recorder wrote. Links are followed inside the folder of the snapshot, and to the folder that the snapshot
/// itself is linked from: a sidecar that leads elsewhere could show any file of the user to whoever asked for the snapshot.
fn read_recorder(sidecar: &Path, snapshot: &Path) -> io::Result<Vec<u8>> {
    let (target, snapshot_target) = (sidecar.canonicalize()?, snapshot.canonicalize()?);
    let folder = match snapshot.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.canonicalize()?,
        _ => Path::new(".").canonicalize()?,
    };
    if !target.starts_with(folder) && target.parent() != snapshot_target.parent() {
        return Err(io::Error::other("it is a link out of its folder"));
    }
    read_regular(sidecar, Links::Follow, MOST_RECORDER_BYTES)
}

/// The fourteen digits of a time in a name.
fn stamp(name: &str) -> Option<String> {
    name.split(|c: char| !c.is_ascii_digit()).find(|digits| digits.len() == 14).map(str::to_owned)
}
