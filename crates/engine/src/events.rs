//! The events of a device, a page at a time.

use serde::{Deserialize, Serialize};
use vramscope_analysis::AllocIdx;
use vramscope_snapshot::{Action, EventIdx, StackId};

use crate::answers::{LineId, Page};
use crate::device::{DeviceIndex, File};

/// More rows than a screen shows are not sent at once.
const MOST: u32 = 4096;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRow {
    /// Its number.
    pub event: u32,
    /// Microseconds since the first event.
    pub time: Option<i64>,
    /// `alloc`, `free_completed`, ...
    pub action: String,
    /// Bytes.
    pub size: u64,
    /// First address; of a failed allocation, bytes that the device had free.
    pub addr: u64,
    /// Whether it is a failed allocation.
    pub failed: bool,
    /// The allocation that it concerns.
    pub alloc: Option<AllocIdx>,
    /// What its color is made from.
    pub line: LineId,
    /// Where in the program it happened; empty if that was not recorded.
    pub place: String,
}

pub(crate) fn page(file: &File, device: &DeviceIndex, first: u32, count: u32) -> Page<EventRow> {
    let (snapshot, replay) = (&file.snapshot, &device.replay);
    let events = device.events(snapshot);
    let total = replay.end().0;
    let origin = device.clock(snapshot).map_or(0, |clock| clock.origin());
    let row = |at: u32| {
        let event = events.get(at as usize);
        let known = file.stack_name(event.stack);
        let action = match event.action {
            Action::Unknown => snapshot.text(snapshot.meta(event.meta).unknown_action),
            action => action.name(),
        };
        EventRow {
            event: at,
            time: events.time_us(at as usize).map(|time| time.saturating_sub(origin)),
            action: action.to_owned(),
            size: event.size,
            addr: event.addr,
            failed: event.action == Action::Oom,
            alloc: replay.allocation_of(EventIdx(at)),
            line: known.line,
            place: if event.stack == StackId::ABSENT { String::new() } else { known.place.clone() },
        }
    };
    let end = first.saturating_add(count.min(MOST)).min(total);
    Page { total, bytes: 0, first, rows: (first.min(end)..end).map(row).collect(), problem: None }
}
