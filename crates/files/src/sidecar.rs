//! Files beside a snapshot that belong to it.

use std::path::{Path, PathBuf};

use vramscope_snapshot::{DeviceId, Snapshot, add_memory_usage};

use crate::regular::{Links, read_regular};

/// A table of a dozen modules is under a kilobyte.
const MOST_BYTES: u64 = 1 << 20;

/// Names that are looked at: the folder of a snapshot may be anybody's.
const MOST_NAMES: usize = 1 << 16;

/// One table for each device of a node.
const MOST_DEVICES: usize = 64;

/// An NPU that runs out of memory writes `oom_snapshot_<pid>_<time>.pickle`, and for each device
/// `device_<d>_memUsageInfo_<time>.csv` with what others than PyTorch hold. They belong together by their time;
/// where the snapshot's name has none, by being the only one of a device in the folder.
pub(crate) fn find(path: &Path) -> Vec<(i32, PathBuf)> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let wanted = stamp(&name.to_string_lossy());
    let mut found = Vec::new();
    for entry in folder.read_dir().into_iter().flatten().take(MOST_NAMES).flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((device, rest)) =
            name.strip_prefix("device_").and_then(|rest| rest.split_once("_memUsageInfo_"))
            && let (Ok(device), Some(time)) = (device.parse::<i32>(), stamp(rest))
            && wanted.as_ref().is_none_or(|wanted| *wanted == time)
        {
            found.push((device, entry.path()));
        }
    }
    found.sort();
    let of_device = found.chunk_by(|(a, _), (b, _)| a == b);
    of_device.filter(|files| files.len() == 1).flatten().take(MOST_DEVICES).cloned().collect()
}

/// Adds what such files say. One that cannot be read, or is no regular file, is as if it were not there.
pub(crate) fn add(snapshot: &mut Snapshot, found: &[(i32, PathBuf)]) {
    for (device, path) in found {
        if let Ok(csv) = read_regular(path, Links::Refuse, MOST_BYTES) {
            add_memory_usage(snapshot, DeviceId(*device), &csv);
        }
    }
}

/// The fourteen digits of a time in a name.
fn stamp(name: &str) -> Option<String> {
    name.split(|c: char| !c.is_ascii_digit()).find(|digits| digits.len() == 14).map(str::to_owned)
}
