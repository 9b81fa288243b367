//! One language for questions: which allocations, and when. Every surface parses what its user types into these
//! types, so that the same words mean the same everywhere.
//!
//! - [`MomentSpec`] is a moment as it is typed: `peak`, `oom:2`, `in:backward#3:end`.
//! - [`Filter`] says which allocations, events and segments count, from when to when, and which frames are shown.
//!   [`Filter::bind`] looks everything up in one device's trace and gives a [`Selection`].
//! - [`Handle`] names one event, allocation, stack, segment, line or finding: `e:1832`, `s:44`, `train.py:88`.
//! - [`devices`] is the one rule for which devices a question is about: all that the file has, unless one is named.

mod filter;
mod handle;
mod moment;
mod pattern;

pub use filter::{FILTER_GRAMMAR, Filter, Selection, parse_address, parse_pool, parse_stream};
pub use handle::{HANDLE_GRAMMAR, Handle, Thing, ends_with_path};
pub use moment::{InPhase, MOMENT_GRAMMAR, MomentSpec};
pub use pattern::Pattern;

use vramscope_replay::Counter;
use vramscope_snapshot::{DeviceId, Snapshot};

use crate::device::Device;

/// Why a question cannot be answered: a sentence for the person who typed it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct QueryError(pub String);

pub(crate) fn error<T>(message: impl Into<String>) -> Result<T, QueryError> {
    Err(QueryError(message.into()))
}

/// What a file says that has no device at all.
pub const NOTHING_RECORDED: &str = "nothing was allocated on any device while recording";

/// Rows of the devices that a question is about: the device that is named, or else all; pinned host memory only if it is
/// named or there is nothing else.
pub fn devices(
    snapshot: &Snapshot,
    all_devices: &[impl AsRef<Device>],
    named: Option<DeviceId>,
) -> Result<Vec<usize>, QueryError> {
    let number = |at: &usize| all_devices[*at].as_ref().device();
    let all = || 0..all_devices.len();
    if all_devices.is_empty() {
        return error(NOTHING_RECORDED);
    }
    if let Some(device) = named {
        let found: Vec<_> = all().filter(|at| number(at) == device).collect();
        if found.is_empty() {
            let known: Vec<_> = all().map(|at| snapshot.device_name(number(&at))).collect();
            let wanted = snapshot.device_name(device);
            return error(format!("there is no {wanted} in this file; it has: {}", known.join(", ")));
        }
        return Ok(found);
    }
    let found: Vec<_> = all().filter(|at| number(at) != DeviceId::HOST).collect();
    Ok(if found.is_empty() { all().collect() } else { found })
}

/// The device to show first where only one can be: one that ran out of memory, else the one with the highest peak.
pub fn main_device(snapshot: &Snapshot, all_devices: &[impl AsRef<Device>]) -> Option<usize> {
    let rank = |at: &usize| {
        let replay = all_devices[*at].as_ref();
        (!replay.ooms().is_empty(), replay.peak(Counter::Requested).bytes, std::cmp::Reverse(*at))
    };
    devices(snapshot, all_devices, None).ok()?.into_iter().max_by_key(rank)
}

/// A device as it is typed: `0`, `cuda:1`, `host`.
pub fn parse_device(text: &str) -> Result<DeviceId, String> {
    let number = text.rsplit(':').next().unwrap_or(text);
    match (text, number.parse()) {
        ("host" | "cpu", _) => Ok(DeviceId::HOST),
        (_, Ok(number)) => Ok(DeviceId(number)),
        _ => Err(format!("'{text}' is not a device (try 0, cuda:1, host)")),
    }
}
