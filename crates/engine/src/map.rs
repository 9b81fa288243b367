//! The map of memory at a moment.

use vramscope_analysis::Moment;

use crate::answers::{MapBlock, MapRange, MemoryMap};
use crate::device::{DeviceIndex, File};

pub(crate) fn map(file: &File, device: &DeviceIndex, at: Moment, categories: bool) -> MemoryMap {
    if categories {
        device.categories();
    }
    let replay = &device.replay;
    let at = at.min(replay.end());
    let state = replay.state(at);
    let mut ranges: Vec<MapRange> = state
        .ranges
        .iter()
        .map(|range| MapRange {
            addr: range.addr,
            size: range.size,
            stream: file.snapshot.stream(range.stream),
            pool: file.pool_name(range.pool),
            private: file.snapshot.pool(range.pool).is_some_and(|pool| pool != (0, 0)),
            expandable: range.expandable,
            blocks: Vec::new(),
        })
        .collect();
    for &index in &state.live {
        let allocation = replay.allocation(index);
        let after = ranges.partition_point(|range| range.addr <= allocation.addr);
        if let Some(range) = after.checked_sub(1).and_then(|range| ranges.get_mut(range)) {
            range.blocks.push(MapBlock {
                owner: device.owner(file, index, allocation.released <= at),
                addr: allocation.addr,
                size: allocation.size,
            });
        }
    }
    let lines = file.lines(ranges.iter().flat_map(|range| &range.blocks).map(|block| &block.owner));
    MemoryMap { at, counters: state.counters, largest_hole: state.largest_hole(), ranges, lines }
}
