//! Pictures and curves as they are sent.

use std::sync::Arc;

use hashbrown::HashMap;
use vramscope_analysis::pictures::{Axis, Cell, Columns, Lanes, Picture, Rows};
use vramscope_analysis::{AllocIdx, Moment};

use crate::answers::{Curve, Tile};
use crate::device::{DeviceIndex, File};
use crate::protocol::{AskLanes, AskOutline, AskTile, Stretch, Which};
use crate::sets::{self, Set};

/// Wider or higher ones are no picture for a screen.
const MOST: u32 = 1 << 14;

/// All of a 5K screen, or half of an 8K one. Making a picture takes eight bytes a cell, and anybody with the token of
/// `vramscope serve` can ask for one: of more cells it has fewer rows.
const MOST_CELLS: u32 = 1 << 24;

fn rows(stretch: Stretch, height: u32) -> u32 {
    height.min(MOST).min(MOST_CELLS / stretch.width.clamp(1, MOST))
}

pub(crate) fn columns(file: &File, device: &DeviceIndex, stretch: Stretch) -> Columns {
    let clock = device.clock(&file.snapshot);
    Columns::new(&device.replay, clock, stretch.axis, stretch.x, stretch.width.min(MOST) as usize)
}

pub(crate) fn timeline(
    file: &File,
    device: &DeviceIndex,
    &AskTile { counter, stretch, y, height, pools, categories, ref only, .. }: &AskTile,
    go_on: &dyn Fn() -> bool,
) -> Option<Tile> {
    let columns = columns(file, device, stretch);
    let rows = Rows::new(y, rows(stretch, height) as usize);
    if categories {
        device.categories();
    }
    let set = some(file, device, only, go_on)?;
    let pile = match &set {
        Some(set) => set.pile(device, counter),
        None => device.pile(&file.snapshot, counter, pools),
    };
    let picture = pile.picture(&device.replay, &columns, rows, go_on)?;
    Some(tile(file, device, &picture, stretch, y))
}

pub(crate) fn lanes(
    file: &File,
    device: &DeviceIndex,
    &AskLanes { counter, stretch, lanes: ref wanted, height, categories, .. }: &AskLanes,
    go_on: &dyn Fn() -> bool,
) -> Option<Tile> {
    let columns = columns(file, device, stretch);
    let height = rows(stretch, height);
    let place = |&(lane, first, count): &(u32, u32, u32)| {
        let lane = *device.lanes().get(lane as usize)?;
        let first = first.min(height) as usize;
        Some((lane, first..first.saturating_add(count as usize).min(height as usize)))
    };
    let mut placed: Vec<_> = wanted.iter().filter_map(place).collect();
    placed.sort_by_key(|(lane, _)| lane.addr);
    if categories {
        device.categories();
    }
    let lanes = Lanes::new(placed);
    let picture = lanes.picture(&device.replay, counter, &columns, height as usize, go_on)?;
    Some(tile(file, device, &picture, stretch, (0.0, f64::from(height))))
}

/// The allocations of a picture, if it is not of all. The outer `None` says that it was stopped.
fn some(
    file: &File,
    device: &DeviceIndex,
    only: &Which,
    go_on: &dyn Fn() -> bool,
) -> Option<Option<Arc<Set>>> {
    if *only == Which::default() {
        return Some(None);
    }
    sets::set(file, device, only, go_on).map(Some)
}

/// Numbers allocations by their appearance here, so that a picture is small to send and quick to color.
fn tile(file: &File, device: &DeviceIndex, picture: &Picture, stretch: Stretch, y: (f64, f64)) -> Tile {
    let mut owners = Vec::new();
    let mut known: HashMap<(AllocIdx, bool), u32> = HashMap::new();
    let mut cells = Vec::with_capacity(picture.cells.len());
    for (column, at) in picture.cells.chunks(picture.height.max(1)).zip(&picture.shown) {
        for run in column.chunk_by(|a, b| a == b) {
            let cell = match run.first().map(|cell| (*cell, cell.allocation())) {
                Some((_, Some(index))) => {
                    let awaiting = at.is_some_and(|at| device.replay.allocation(index).released <= at);
                    *known.entry((index, awaiting)).or_insert_with(|| {
                        owners.push(device.owner(file, index, awaiting));
                        owners.len() as u32 - 1 + Tile::FIRST_OWNER
                    })
                }
                Some((Cell::HOLE, _)) => 1,
                Some((cell, _)) => {
                    cell.envelope().map_or(0, |envelope| Tile::FIRST_IDLE.saturating_add(envelope as u32))
                }
                None => 0,
            };
            cells.resize(cells.len() + run.len(), cell);
        }
    }
    let lines = file.lines(owners.iter());
    let solid = picture.solid.iter().map(|&rows| rows as u32).collect();
    Tile {
        stretch,
        y,
        height: picture.height as u32,
        shown: picture.shown.clone(),
        owners,
        lines,
        cells,
        solid,
    }
}

pub(crate) fn outline(
    file: &File,
    device: &DeviceIndex,
    &AskOutline { counter, stretch, alloc, pools, ref only, .. }: &AskOutline,
    go_on: &dyn Fn() -> bool,
) -> Option<Vec<Option<(u64, u64)>>> {
    let set = some(file, device, only, go_on)?;
    let pile = match &set {
        Some(set) if set.members.binary_search(&alloc).is_err() => return Some(Vec::new()),
        Some(set) => set.pile(device, counter),
        None => device.pile(&file.snapshot, counter, pools),
    };
    let shown = pile.shown(&device.replay, &columns(file, device, stretch));
    Some(shown.into_iter().map(|at| pile.place(&device.replay, alloc, at?)).collect())
}

pub(crate) fn curve(file: &File, device: &DeviceIndex, stretch: Stretch) -> Curve {
    let columns = columns(file, device, stretch);
    let most = columns.iter().map(|moments| {
        let (from, to) = moments?;
        Some(device.replay.extremes(from, to).1)
    });
    Curve { stretch, most: most.collect() }
}

/// A stretch on the other axis: from the first moment that it shows to the last.
pub(crate) fn convert(file: &File, device: &DeviceIndex, from: Axis, x: (f64, f64)) -> (f64, f64) {
    let Some(clock) = device.clock(&file.snapshot) else { return x };
    // A moment in part is a part of the time that it lasts.
    let time = |at: f64| {
        let (whole, part) = (at.max(0.0).floor(), at.max(0.0).fract());
        let begins = |moment: f64| clock.of(Moment((moment as u32).min(device.replay.end().0))) as f64;
        begins(whole) + (begins(whole + 1.0) - begins(whole)) * part
    };
    match from {
        Axis::Events => (time(x.0), time(x.1)),
        Axis::Time => (f64::from(clock.at(x.0).0), f64::from(clock.at(x.1).0) + 1.0),
    }
}
