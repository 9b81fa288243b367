//! `NAME.vramscope.json`: what vramscope's recorder writes beside a snapshot. docs/schema/sidecar.json describes it.
//!
//! Fields that are not known are left out or null, and unknown ones are ignored. A sidecar that cannot be read, or that
//! belongs to another snapshot, produces a warning and changes nothing else.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::{
    DeviceId, DeviceMemory, EventTable, Holder, Outside, Pinned, Sidecar, Snapshot, Source, Storage,
    TensorRole,
};

const SCHEMA: &str = "vramscope/sidecar/1";

/// Devices of one process; PyTorch numbers them with 8 bits.
const MOST_DEVICES: usize = 256;

/// Processes that are named one by one; the others are summed up.
const MOST_PROCESSES: usize = 8;

/// Characters that are kept of a version, a device's name or a setting.
const MOST_TEXT: usize = 4096;

/// A sidecar is written after its snapshot. Clocks may be set back by a little meanwhile.
const CLOCK_US: i64 = 1_000_000;

#[derive(Deserialize)]
struct File {
    schema: String,
    #[serde(default)]
    snapshot: String,
    #[serde(default)]
    reason: String,
    time_us: Option<i64>,
    rank: Option<u64>,
    pid: Option<u64>,
    #[serde(default)]
    versions: BTreeMap<String, Option<String>>,
    allocator: Option<Allocator>,
    #[serde(default)]
    devices: Vec<Device>,
    host_memory: Option<BTreeMap<String, i64>>,
    pinned_tensors: Option<PinnedTensors>,
    #[serde(default)]
    nccl: Vec<Nccl>,
    roles: Option<Roles>,
    sources: Option<BTreeMap<String, BTreeMap<String, String>>>,
}

#[derive(Deserialize)]
struct Allocator {
    backend: Option<String>,
    settings: Option<String>,
}

#[derive(Deserialize)]
struct Device {
    device: i32,
    name: Option<String>,
    capacity: Option<u64>,
    free: Option<u64>,
    reserved: Option<u64>,
    limit: Option<u64>,
    processes: Option<Vec<Process>>,
}

#[derive(Deserialize)]
struct Process {
    pid: u64,
    bytes: u64,
}

#[derive(Deserialize)]
struct PinnedTensors {
    bytes: u64,
    rounded: u64,
}

#[derive(Deserialize)]
struct Nccl {
    stats: BTreeMap<String, i64>,
}

#[derive(Deserialize)]
struct Roles {
    #[serde(default)]
    storages: Vec<Tensor>,
}

#[derive(Deserialize)]
struct Tensor {
    name: String,
    role: String,
    device: i32,
    address: u64,
    bytes: u64,
}

/// Adds what a sidecar says. `name` is the snapshot's file name without the endings that say how it is packed.
pub fn add_sidecar(snapshot: &mut Snapshot, name: &str, json: &[u8]) {
    let warn = |snapshot: &mut Snapshot, what: String| {
        snapshot.warnings.push(format!("the sidecar is not used: {what}"));
    };
    let file: File = match serde_json::from_slice(json) {
        Ok(file) => file,
        Err(error) => return warn(snapshot, format!("it cannot be read ({error})")),
    };
    if file.schema != SCHEMA {
        return warn(snapshot, format!("its schema is not {SCHEMA}"));
    }
    match fits(snapshot, name, &file) {
        Ok(()) => add(snapshot, file),
        Err(why) => warn(snapshot, why),
    }
}

/// Whether a sidecar is this snapshot's. Both may have been renamed together; then their contents have to agree.
fn fits(snapshot: &Snapshot, name: &str, file: &File) -> Result<(), String> {
    let last = snapshot.traces.iter().filter_map(|trace| {
        let row = trace.events.len().checked_sub(1)?;
        trace.events.time_us(row)
    });
    if let (Some(written), Some(last)) = (file.time_us, last.max())
        && written.saturating_add(CLOCK_US) < last
    {
        return Err("it is older than the last event of the snapshot".to_owned());
    }
    let named = file.snapshot.split_once(".pickle").map_or(file.snapshot.as_str(), |(stem, _)| stem);
    let held = |device: i32| {
        let segments = snapshot.segments_of(DeviceId(device)).iter();
        segments.fold(0_u64, |sum, segment| sum.saturating_add(segment.total_size))
    };
    let agrees = |device: &Device| device.reserved.is_some_and(|bytes| bytes == held(device.device));
    match named == name || file.devices.iter().any(agrees) {
        true => Ok(()),
        false => Err(format!("it belongs to {}", short(&file.snapshot))),
    }
}

fn short(text: &str) -> String {
    text.chars().take(MOST_TEXT).collect()
}

fn add(snapshot: &mut Snapshot, mut file: File) {
    snapshot.rank = snapshot.rank.or(file.rank);
    let known = |device: &Device| (0..MOST_DEVICES as i32).contains(&device.device);
    file.devices.retain(known);
    file.devices.truncate(MOST_DEVICES);
    let mut sidecar = Sidecar {
        reason: short(&file.reason),
        versions: versions(&file.versions),
        backend: file.allocator.as_ref().and_then(|allocator| allocator.backend.as_deref()).map(short),
        alloc_conf: file.allocator.as_ref().and_then(|allocator| allocator.settings.as_deref()).map(short),
        pinned: pinned(&file),
        ..Sidecar::default()
    };
    let nccl = nccl(&file);
    for device in &file.devices {
        let id = DeviceId(device.device);
        let Some(capacity) = device.capacity else { continue };
        snapshot.capacities.retain(|(known, _)| *known != id);
        snapshot.capacities.push((id, capacity));
        let (Some(free), Some(reserved)) = (device.free, device.reserved) else { continue };
        let model = device.name.as_deref().map(short);
        let limit = device.limit.filter(|limit| *limit < capacity);
        let mut memory =
            DeviceMemory { device: id, model, capacity, free, reserved, limit, holders: Vec::new() };
        memory.holders = holders(device, &memory, file.pid, nccl);
        for &(holder, bytes) in &memory.holders {
            let name = snapshot.strings.push(&holder.words());
            let time_us = EventTable::NO_TIME;
            snapshot.outside.push(Outside { device: id, name, time_us, bytes, peak: bytes });
        }
        sidecar.devices.push(memory);
    }
    sidecar.devices.sort_by_key(|memory| memory.device);
    sidecar.devices.dedup_by_key(|memory| memory.device);
    if let Some(roles) = file.roles {
        sidecar.storages = storages(snapshot, roles.storages);
    }
    for (name, lines) in file.sources.into_iter().flatten() {
        let lines = lines.into_iter().filter_map(|(line, text)| Some((line.parse().ok()?, text)));
        snapshot.extras.sources.push(Source::of_lines(name, lines.collect()));
    }
    snapshot.extras.sources.sort_by(|a, b| a.file.cmp(&b.file));
    snapshot.extras.sources.dedup_by(|a, b| a.file == b.file);
    snapshot.sidecar = Some(Box::new(sidecar));
}

/// The versions that are known, PyTorch's first.
fn versions(said: &BTreeMap<String, Option<String>>) -> Vec<(String, String)> {
    ["torch", "cuda", "hip", "driver", "python"]
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), short(said.get(*name)?.as_deref()?))))
        .collect()
}

/// What `torch.cuda.host_memory_stats()` says, and the tensors that the recorder found.
fn pinned(file: &File) -> Option<Pinned> {
    let stats = file.host_memory.as_ref()?;
    let stat = |name: &str| stats.get(name).and_then(|value| u64::try_from(*value).ok());
    Some(Pinned {
        blocks: stat("allocations.current").unwrap_or_default(),
        held: stat("allocated_bytes.current")?,
        peak: stat("allocated_bytes.peak").unwrap_or_default(),
        active: stat("active_bytes.current").unwrap_or_default(),
        tensors: file.pinned_tensors.as_ref().map(|tensors| (tensors.bytes, tensors.rounded)),
    })
}

/// Bytes of all communicators. They are on the only device of a process; of several, it is not said which.
fn nccl(file: &File) -> u64 {
    let totals = file.nccl.iter().filter_map(|group| {
        let total = group.stats.iter().find(|(name, _)| *name == "total" || name.ends_with("_total"))?;
        u64::try_from(*total.1).ok()
    });
    if file.devices.len() == 1 { totals.fold(0, u64::saturating_add) } else { 0 }
}

/// Who holds what is outside PyTorch, as far as the driver tells. The parts add up to it.
fn holders(device: &Device, memory: &DeviceMemory, pid: Option<u64>, nccl: u64) -> Vec<(Holder, u64)> {
    let mut rest = memory.outside();
    let mut found: Vec<(Holder, u64)> = Vec::new();
    let mut take = |holder: Holder, bytes: u64| {
        let bytes = bytes.min(rest);
        rest -= bytes;
        if bytes > 0 {
            found.push((holder, bytes));
        }
    };
    let processes = device.processes.as_deref().unwrap_or_default();
    // In a container, process ids are those of the host; a lone process is still this one.
    let own = processes.iter().position(|process| Some(process.pid) == pid).or(match processes {
        [process] if process.bytes >= memory.reserved => Some(0),
        _ => None,
    });
    let Some(own) = own else {
        take(Holder::Nccl, nccl);
        take(Holder::Unknown, u64::MAX);
        return found;
    };
    let mut others: Vec<&Process> =
        processes.iter().enumerate().filter(|(row, _)| *row != own).map(|(_, process)| process).collect();
    others.sort_by_key(|process| (std::cmp::Reverse(process.bytes), process.pid));
    let unnamed = others.split_off(others.len().min(MOST_PROCESSES));
    for process in others {
        take(Holder::Process(process.pid), process.bytes);
    }
    let unnamed = unnamed.iter().fold(0, |sum: u64, process| sum.saturating_add(process.bytes));
    take(Holder::OtherProcesses, unnamed);
    let own = processes.get(own).map_or(0, |process| process.bytes.saturating_sub(memory.reserved));
    take(Holder::Nccl, nccl.min(own));
    take(Holder::Context, own.saturating_sub(nccl));
    take(Holder::Unlisted, u64::MAX);
    found
}

/// Storages with a role that is known, by device and address; of several at one address the largest.
fn storages(snapshot: &mut Snapshot, tensors: Vec<Tensor>) -> Vec<Storage> {
    let mut storages = Vec::with_capacity(tensors.len());
    for Tensor { name, role, device, address, bytes } in tensors {
        let Some(role) = TensorRole::ALL.into_iter().find(|known| known.name() == role) else { continue };
        if address > 0 && bytes > 0 {
            let name = snapshot.strings.push(&name);
            storages.push(Storage { device: DeviceId(device), addr: address, bytes, role, name });
        }
    }
    storages.sort_by_key(|storage| (storage.device, storage.addr, std::cmp::Reverse(storage.bytes)));
    storages.dedup_by_key(|storage| (storage.device, storage.addr));
    storages
}
