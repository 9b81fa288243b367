//! What others than PyTorch held of the device when a request failed.
//!
//! With the capacity of the device that follows from the event: capacity − free − reserved. Who holds it is in the
//! sidecar, as it was at the dump; a recorder dumps while the request fails, so it is the same, unless the error was
//! caught long before.

use vramscope_replay::{Oom, State};
use vramscope_snapshot::{DeviceMemory, Holder};

use super::super::{Amount, Finding, ShowBytes};
use crate::device::Device;
use crate::questions::device::holders_words;

/// Memory outside PyTorch may change by this much between the event and the dump without being another situation.
const SAME: u64 = 256 << 20;

/// A CUDA context and cuBLAS take less than a fiftieth of a device.
const USUAL: u64 = 50;

/// What others held when a request failed.
pub(super) struct Elsewhere<'a> {
    memory: &'a DeviceMemory,
    bytes: u64,
    /// Who, if that is known for this moment.
    holders: &'a [(Holder, u64)],
}

impl<'a> Elsewhere<'a> {
    pub(super) fn of(device: &'a Device, oom: &Oom, state: &State) -> Option<Self> {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        let memory = snapshot.device_memory(replay.device())?;
        let reserved = super::super::signed(state.counters.reserved);
        let bytes = memory.capacity.saturating_sub(oom.device_free).saturating_sub(reserved);
        let is_same = bytes.abs_diff(memory.outside()) <= SAME;
        Some(Self { memory, bytes, holders: if is_same { &memory.holders } else { &[] } })
    }

    /// Bytes that certainly belong to other processes.
    fn of_processes(&self) -> u64 {
        let others = self.holders.iter().filter(|(holder, _)| holder.is_other_process());
        others.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// For the sentence of a finding, if it is more than any process needs: `, and 60.5 GiB of its 80.0 GiB held outside PyTorch (process 4711 60.0 GiB)`.
    pub(super) fn words(&self, bytes: ShowBytes<'_>) -> String {
        if self.bytes < self.memory.capacity / USUAL {
            return String::new();
        }
        format!(
            ", and {} of its {} held outside PyTorch{}",
            bytes(self.bytes),
            bytes(self.memory.capacity),
            holders_words(self.holders, bytes)
        )
    }

    /// What to do if other processes hold what is missing.
    pub(super) fn advice(&self, short: u64, bytes: ShowBytes<'_>) -> Option<String> {
        let held = self.of_processes();
        if held < short.max(1) {
            return None;
        }
        let mut named = self.holders.iter().filter(|(holder, _)| holder.is_other_process());
        Some(match (named.next(), named.next()) {
            (Some((Holder::Process(pid), _)), None) => format!(
                "End process {pid}, which holds {} of this device, or use another device",
                bytes(held)
            ),
            _ => format!(
                "End the other processes, which hold {} of this device, or use another device",
                bytes(held)
            ),
        })
    }

    pub(super) fn evidence(&self, finding: Finding) -> Finding {
        let finding = finding
            .with("memory of the device", Amount::Bytes(self.memory.capacity))
            .with("held outside PyTorch", Amount::Bytes(self.bytes));
        self.holders.iter().fold(finding, |finding, (holder, bytes)| {
            finding.at("held outside PyTorch by", holder.words(), *bytes)
        })
    }
}
