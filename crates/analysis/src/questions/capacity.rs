//! How much a device has: by its name, by what a file tells.

use serde::{Deserialize, Serialize};
use vramscope_replay::{Counter, GRANULE, Moment, Oom, SMALL};
use vramscope_snapshot::{Action, Snapshot, StackId};

use crate::conclusions::insight::ShowBytes;
use crate::device::Device;
use vramscope_format::parse_bytes;

/// What the driver reports as total memory, in MiB.
const DEVICES: [(&str, u64); 20] = [
    ("A10", 23_028),
    ("A10G", 23_028),
    ("A100", 81_920),
    ("A100-40", 40_960),
    ("A100-80", 81_920),
    ("A6000", 49_140),
    ("B200", 183_359),
    ("GH200", 97_871),
    ("H20", 97_871),
    ("H100", 81_559),
    ("H200", 143_771),
    ("L4", 23_034),
    ("L40S", 46_068),
    ("MI300X", 196_592),
    ("RTX3090", 24_576),
    ("RTX4090", 24_564),
    ("RTX5090", 32_607),
    ("T4", 15_360),
    ("V100", 16_384),
    ("V100-32", 32_768),
];

/// Bytes of a device, from its name or from a size like `80GiB`.
pub fn capacity(text: &str) -> Result<u64, String> {
    let name: String = text.to_uppercase().chars().filter(|c| !matches!(c, ' ' | '_')).collect();
    if let Some((_, mib)) = DEVICES.iter().find(|(known, _)| *known == name) {
        return Ok(mib << 20);
    }
    parse_bytes(text).map_err(|error| {
        let names: Vec<_> = DEVICES.iter().map(|(name, _)| *name).collect();
        format!("{error}; or one of {}", names.join(", "))
    })
}

/// The most that a process could hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// Bytes.
    pub bytes: i64,
    /// Bytes that were held at some moment, so that it is not less. The same as `bytes` where a limit is known.
    pub at_least: i64,
    /// Whether it is a limit that the program set; it is below `bytes` then, unless it is known.
    pub is_limit: bool,
    /// Where `bytes` follows from a request that was refused: when that was.
    pub refused_at: Option<Moment>,
}

impl Capacity {
    /// What a file tells: a recorder asks the driver, a profile names the device, and a failed allocation says what the
    /// driver had left.
    pub fn of(device: &Device) -> Option<Self> {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let at_least = replay.peak(Counter::Reserved).bytes;
        if let Some(memory) = snapshot.device_memory(replay.device()) {
            let bytes = signed(memory.room());
            return Some(match memory.limit == Some(memory.room()) {
                true => Self { bytes, at_least: bytes, is_limit: true, refused_at: None },
                // Others may have held less before.
                false => Self { bytes: bytes.max(at_least), at_least, is_limit: false, refused_at: None },
            });
        }
        if let Some((_, bytes)) = snapshot.capacities.iter().find(|(device, _)| *device == replay.device()) {
            return Some(Self { bytes: signed(*bytes), at_least, is_limit: false, refused_at: None });
        }
        let of = |oom: &Oom| {
            let at = Moment::after(oom.event);
            let reserved = replay.counters(at).reserved;
            // With room on the device, a limit was in force: somewhere below what would have been reserved.
            let is_limit = oom.device_free >= oom.requested;
            let more = if is_limit { segment(snapshot, oom.requested) } else { oom.device_free };
            Self { bytes: reserved.saturating_add(signed(more)), at_least, is_limit, refused_at: Some(at) }
        };
        // Of several refusals the tightest counts, unless more was granted, as after a limit was raised.
        let last = of(replay.ooms().last()?);
        if !last.is_limit {
            return Some(last);
        }
        let failed = replay.ooms().iter().map(of).filter(|found| found.is_limit);
        let retried = retries(device).into_iter().map(|retry| {
            let bytes = retry.reserved.saturating_add(signed(retry.acquired));
            Self { bytes, refused_at: Some(retry.at), ..last }
        });
        let refused = failed.chain(retried).filter(|found| found.bytes >= at_least);
        Some(refused.min_by_key(|found| found.bytes).unwrap_or(last))
    }

    /// Whether a limit is known to the byte, not only what it lies between.
    pub fn is_exact(&self) -> bool {
        self.at_least == self.bytes
    }

    /// In words, as what a request ran into: `the per-process limit, 4.17 GiB to 4.20 GiB`.
    pub fn words(&self, bytes: ShowBytes<'_>) -> String {
        let amount = |n: i64| bytes(n.max(0).unsigned_abs());
        match self.is_limit {
            true if self.is_exact() => format!("the per-process limit of {}", amount(self.bytes)),
            true if amount(self.at_least) == amount(self.bytes) => {
                format!("the per-process limit of about {}", amount(self.bytes))
            }
            true => {
                format!("the per-process limit, {} to {}", amount(self.at_least), amount(self.bytes))
            }
            false => format!("the {} that this process could hold", amount(self.bytes)),
        }
    }
}

/// A request that was refused at first: the allocator released segments and then got one, by the same line of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The moment after the first release.
    pub at: Moment,
    /// Bytes that were reserved when it was refused.
    pub reserved: i64,
    /// Bytes of the segments that were released.
    pub released: u64,
    /// Bytes of the segment that was acquired then.
    pub acquired: u64,
}

/// The requests that were refused at first, before a moment.
pub fn refused_before(device: &Device, at: Moment) -> Vec<Refusal> {
    let (_snapshot, _replay) = (device.snapshot(), device.replay());
    let mut found = retries(device);
    found.retain(|refusal| refusal.at <= at);
    found
}

/// Garbage collection releases without being refused, so it says nothing.
fn retries(device: &Device) -> Vec<Refusal> {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    // A part of an expandable segment is not all that such a request needs.
    if collects_garbage(snapshot) || snapshot.settings.expandable_segments {
        return Vec::new();
    }
    let events = snapshot.events(replay.device());
    let mut found = Vec::new();
    // The first release of a run, and the bytes of all of them.
    let mut released: Option<(usize, u64)> = None;
    for (row, action) in events.actions().enumerate() {
        match action {
            Action::SegmentFree | Action::SegmentUnmap => {
                let (_, bytes) = released.get_or_insert((row, 0));
                *bytes = bytes.saturating_add(events.sizes()[row]);
                continue;
            }
            Action::SegmentAlloc | Action::SegmentMap => {
                let Some((first, bytes)) = released else { continue };
                let (before, taken) = (events.get(first), events.get(row));
                if before.stack == taken.stack && taken.stack != StackId::ABSENT {
                    found.push(Refusal {
                        at: Moment(first as u32 + 1),
                        reserved: replay.counters(Moment(first as u32)).reserved,
                        released: bytes,
                        acquired: taken.size,
                    });
                }
            }
            _ => {}
        }
        released = None;
    }
    found
}

/// Whether unused segments are released before an allocation fails: with `garbage_collection_threshold`.
pub(crate) fn collects_garbage(snapshot: &Snapshot) -> bool {
    snapshot.settings.all.iter().any(|(name, value)| {
        name == "garbage_collection_threshold" && value.parse::<f64>().is_ok_and(|threshold| threshold > 0.0)
    })
}

/// What the allocator asks the driver for to serve a request that nothing cached fits.
fn segment(snapshot: &Snapshot, requested: u64) -> u64 {
    let large = if snapshot.settings.expandable_segments { GRANULE } else { 10 * GRANULE };
    match requested {
        ..=SMALL => GRANULE,
        _ if requested < 5 * GRANULE => large.max(requested),
        _ => requested.checked_next_multiple_of(GRANULE).unwrap_or(requested),
    }
}

#[cfg(test)]
mod tests {
    use super::capacity;

    #[test]
    fn devices_by_name_and_sizes() {
        assert_eq!(capacity("h100"), Ok(81_559 << 20));
        assert_eq!(capacity("80GiB"), Ok(80 << 30));
        assert!(capacity("abacus").is_err_and(|error| error.contains("H100")));
    }
}
