//! What a device has as a whole, and who holds it: in words, as every surface says it.

use vramscope_snapshot::{DeviceId, DeviceMemory, Holder, Pinned, Sidecar, Snapshot};

use crate::conclusions::insight::ShowBytes;

/// Holders that a sentence names; the others are summed up.
const NAMED: usize = 4;

/// What is known of a device as a whole, by name, in words: memory of the device, pinned memory, versions, settings. Most
/// of it is in the sidecar.
pub fn recorded(snapshot: &Snapshot, device: DeviceId, bytes: ShowBytes<'_>) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    facts.extend(snapshot.device_memory(device).map(|memory| ("memory", device_sentence(memory, bytes))));
    // Pinned memory is the host's. It is said beside the first device, too, since nobody asks for the host first.
    let devices = snapshot.devices();
    let has_host = devices.contains(&DeviceId::HOST);
    let first = devices.into_iter().find(|device| *device != DeviceId::HOST);
    if device == DeviceId::HOST || first == Some(device) {
        let pinned = snapshot.pinned().filter(|pinned| pinned.peak.max(pinned.held) > 0);
        let see = if has_host && device != DeviceId::HOST { "; see device host" } else { "" };
        facts.extend(pinned.map(|pinned| ("pinned host memory", pinned_sentence(&pinned, bytes) + see)));
    }
    if let Some(sidecar) = snapshot.sidecar.as_deref() {
        facts.push(("versions", versions(sidecar)));
        facts.extend(sidecar.backend.iter().map(|backend| ("allocator", backend.clone())));
        facts.extend(sidecar.alloc_conf.iter().map(|conf| ("PYTORCH_ALLOC_CONF", conf.clone())));
    }
    facts.retain(|(_, words)| !words.is_empty());
    facts
}

/// What was running: `torch 2.14.0 · cuda 13.0 · driver 580.65`.
pub fn versions(sidecar: &Sidecar) -> String {
    let words: Vec<_> = sidecar.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    words.join(" · ")
}

/// Memory of a device in one sentence: `139 GiB on the device: 60.2 GiB reserved by PyTorch, 3.20 GiB outside PyTorch
/// (process 4711 2.60 GiB, CUDA context and libraries 600 MiB), 75.7 GiB free`.
pub fn device_sentence(memory: &DeviceMemory, bytes: ShowBytes<'_>) -> String {
    let limit = match memory.limit {
        Some(limit) => format!("; per-process limit {}", bytes(limit)),
        None => String::new(),
    };
    format!(
        "{} on the device: {} reserved by PyTorch, {} outside PyTorch{}, {} free{limit}",
        bytes(memory.capacity),
        bytes(memory.reserved),
        bytes(memory.outside()),
        holders_words(&memory.holders, bytes),
        bytes(memory.free),
    )
}

/// Who holds what is outside PyTorch, in brackets; nothing if nobody is known.
pub(crate) fn holders_words(holders: &[(Holder, u64)], bytes: ShowBytes<'_>) -> String {
    let (named, rest) = holders.split_at(holders.len().min(NAMED));
    let mut words: Vec<_> =
        named.iter().map(|(holder, held)| format!("{} {}", holder.words(), bytes(*held))).collect();
    let rest = rest.iter().fold(0, |sum: u64, (_, held)| sum.saturating_add(*held));
    if rest > 0 {
        words.push(format!("others {}", bytes(rest)));
    }
    match words.is_empty() {
        true => String::new(),
        false => format!(" ({})", words.join(", ")),
    }
}

/// Pinned host memory in one sentence, with what rounding to powers of two costs.
pub fn pinned_sentence(pinned: &Pinned, bytes: ShowBytes<'_>) -> String {
    let blocks = match pinned.blocks {
        0 => String::new(),
        n => format!(" in {}", vramscope_format::plural(n, "block")),
    };
    let held = format!(
        "{} held{blocks}, {} of it in use, peak {}",
        bytes(pinned.held),
        bytes(pinned.active),
        bytes(pinned.peak.max(pinned.held))
    );
    match pinned.tensors {
        Some((asked, rounded)) if rounded > asked => format!(
            "{held}; {} lost to rounding: tensors of {} are in blocks of {}, since PyTorch rounds each up to a power \
             of two",
            bytes(rounded - asked),
            bytes(asked),
            bytes(rounded)
        ),
        Some((1.., _)) => format!("{held}; nothing lost to rounding"),
        _ => format!("{held}; PyTorch rounds each request up to a power of two"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn show(bytes: u64) -> String {
        format!("{} GiB", bytes / GIB)
    }

    #[test]
    fn what_a_device_has_and_who_holds_it() {
        let memory = DeviceMemory {
            capacity: 80 * GIB,
            free: 8 * GIB,
            reserved: 60 * GIB,
            limit: Some(64 * GIB),
            holders: vec![(Holder::Process(4711), 9 * GIB), (Holder::Nccl, 2 * GIB), (Holder::Context, GIB)],
            ..DeviceMemory::default()
        };
        assert_eq!((memory.outside(), memory.room()), (12 * GIB, 64 * GIB));
        assert_eq!(
            device_sentence(&memory, &show),
            "80 GiB on the device: 60 GiB reserved by PyTorch, 12 GiB outside PyTorch (process 4711 9 GiB, NCCL 2 GiB, \
             CUDA context and libraries 1 GiB), 8 GiB free; per-process limit 64 GiB"
        );
    }

    #[test]
    fn pinned_memory_names_what_rounding_costs() {
        let pinned = Pinned {
            blocks: 3,
            held: 32 * GIB,
            peak: 32 * GIB,
            active: 32 * GIB,
            tensors: Some((20 * GIB, 32 * GIB)),
        };
        let said = pinned_sentence(&pinned, &show);
        assert!(said.starts_with(
            "32 GiB held in 3 blocks, 32 GiB of it in use, peak 32 GiB; 12 GiB lost to rounding"
        ));
    }
}
