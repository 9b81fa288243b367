//! Shapes that a recorder logged, by allocation.
//!
//! torch-snapkit logs address, shape and type of every operator's result. An address serves many allocations one after
//! the other, and operators that work in place log it again. So each allocation gets the first of what is logged at its
//! address, after what earlier allocations there got, that has as many bytes.

use hashbrown::HashMap;
use vramscope_replay::AllocIdx;
use vramscope_snapshot::{LoggedShape, Snapshot};

use crate::device::Device;

/// Results at one address that are looked at for one allocation.
const MOST_LOOKED_AT: usize = 64;

/// The shapes that were logged for the allocations of a device.
#[derive(Clone, Debug, Default)]
pub struct RecordedShapes(HashMap<AllocIdx, usize>);

impl RecordedShapes {
    /// Goes through the allocations once.
    pub fn new(device: &Device) -> Self {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        let shapes = &snapshot.extras.shapes;
        let mut found = HashMap::new();
        if shapes.is_empty() {
            return Self(found);
        }
        let device = replay.device();
        // What is left of the log of each address.
        let mut left: HashMap<u64, std::ops::Range<usize>> = HashMap::new();
        for (index, allocation) in replay.allocations().iter() {
            let log = left.entry(allocation.addr).or_insert_with(|| {
                let key = (device, allocation.addr);
                let start = shapes.partition_point(|logged| (logged.device, logged.addr) < key);
                let end = shapes.partition_point(|logged| (logged.device, logged.addr) <= key);
                start..end
            });
            let fits = |row: &usize| shapes[*row].bytes() == Some(allocation.requested);
            if let Some(row) = log.clone().take(MOST_LOOKED_AT).find(fits) {
                log.start = row + 1;
                found.insert(index, row);
            }
        }
        Self(found)
    }

    /// The shape of an allocation.
    pub fn of<'a>(&self, snapshot: &'a Snapshot, index: AllocIdx) -> Option<&'a LoggedShape> {
        snapshot.extras.shapes.get(*self.0.get(&index)?)
    }
}
