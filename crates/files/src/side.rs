//! Files beside a snapshot that belong to it.

use std::path::Path;

use vramscope_snapshot::{DeviceId, Snapshot, add_memory_usage};

/// A table of a dozen modules is under a kilobyte.
const MOST_BYTES: u64 = 1 << 20;

/// An NPU that runs out of memory writes `oom_snapshot_<pid>_<time>.pickle`, and for each device
/// `device_<d>_memUsageInfo_<time>.csv` with what others than PyTorch hold. They belong together by their time;
/// where the snapshot's name has none, by being the only one of a device in the folder.
pub(crate) fn add(snapshot: &mut Snapshot, path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let wanted = stamp(&name.to_string_lossy());
    let mut found = Vec::new();
    for entry in folder.read_dir().into_iter().flatten().flatten() {
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
    for (device, path) in &found {
        let is_only_one = found.iter().filter(|(other, _)| other == device).count() == 1;
        let is_short = path.metadata().is_ok_and(|metadata| metadata.len() <= MOST_BYTES);
        if is_only_one
            && is_short
            && let Ok(csv) = std::fs::read(path)
        {
            add_memory_usage(snapshot, DeviceId(*device), &csv);
        }
    }
}

/// The fourteen digits of a time in a name.
fn stamp(name: &str) -> Option<String> {
    name.split(|c: char| !c.is_ascii_digit()).find(|digits| digits.len() == 14).map(str::to_owned)
}
