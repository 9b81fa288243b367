//! Lifetimes as bars, grouped, a page at a time.

use std::sync::Arc;

use hashbrown::HashMap;
use vramscope_analysis::categories::DEFAULT_CATEGORIES;
use vramscope_analysis::{AllocIdx, GroupBy, Sum};

use crate::answers::{LifetimeRow, LineId, Page};
use crate::device::{Device, File};
use crate::protocol::{AskLifetimes, Which};
use crate::rows::{self, NoRows};

/// Marks a row that begins a group: the number of its first member follows.
const GROUP: u32 = 1 << 31;

pub(crate) fn page(
    file: &File,
    device: &Device,
    &AskLifetimes { ref which, group, first, count, .. }: &AskLifetimes,
    go_on: &dyn Fn() -> bool,
) -> Result<Page<LifetimeRow>, NoRows> {
    let replay = &device.replay;
    let order = order(file, device, which, group, go_on)?;
    let clock = device.clock(&file.snapshot);
    let start = (first as usize).min(order.len());
    let end = start.saturating_add(count as usize).min(order.len());
    let row = |place: usize| match order[place] {
        mark if mark & GROUP != 0 => {
            let members = order[place + 1..].iter().take_while(|&&row| row & GROUP == 0);
            let mut sum = Sum::default();
            for &row in members {
                sum.count += 1;
                sum.bytes = sum.bytes.saturating_add(replay.allocation(AllocIdx(row)).requested);
            }
            LifetimeRow::Group { label: label(file, device, mark & !GROUP, group), sum }
        }
        row => {
            let index = AllocIdx(row);
            let a = replay.allocation(index);
            LifetimeRow::Bar {
                owner: device.owner(file, index, false),
                released: a.released.known(),
                time: clock
                    .map_or((0, None), |clock| (clock.of(a.opened), a.closed.known().map(|at| clock.of(at)))),
                place: file.stack_name(a.stack).place.clone(),
            }
        }
    };
    let rows = (start..end).map(row).collect();
    Ok(Page { total: order.len() as u32, bytes: 0, first, rows, problem: None })
}

/// The rows of the view: allocations, and where groups begin.
pub(crate) fn order(
    file: &File,
    device: &Device,
    which: &Which,
    group: GroupBy,
    go_on: &dyn Fn() -> bool,
) -> Result<Arc<Vec<u32>>, NoRows> {
    device.order(format!("lifetimes {which:?} {group:?}"), || {
        let rows = rows::filtered(file, device, which, go_on)?;
        Ok(grouped(file, device, rows, group))
    })
}

/// Whether a row begins a group, and is no allocation.
pub(crate) fn is_group(row: u32) -> bool {
    row & GROUP != 0
}

/// What a group is known by.
fn key(file: &File, device: &Device, row: u32, group: GroupBy) -> u64 {
    let a = device.replay.allocation(AllocIdx(row));
    match group {
        GroupBy::Line => u64::from(file.stack_name(a.stack).line.0),
        GroupBy::Operator => u64::from(LineId::of(&file.stack_name(a.stack).operator).0),
        GroupBy::Stack => u64::from(a.stack.0),
        GroupBy::Category => device.categories(&file.snapshot).of(AllocIdx(row)) as u64,
        GroupBy::Phase => {
            device.phases(&file.snapshot, a.opened).last().map_or(0, |name| u64::from(LineId::of(name).0))
        }
    }
}

fn label(file: &File, device: &Device, row: u32, group: GroupBy) -> String {
    let a = device.replay.allocation(AllocIdx(row));
    let name = file.stack_name(a.stack);
    match group {
        GroupBy::Line | GroupBy::Stack => name.place.clone(),
        GroupBy::Operator => name.operator.clone(),
        GroupBy::Category => {
            let number = device.categories(&file.snapshot).of(AllocIdx(row));
            DEFAULT_CATEGORIES.get(number).map_or_else(String::new, |name| (*name).to_owned())
        }
        GroupBy::Phase => {
            device.phases(&file.snapshot, a.opened).pop().unwrap_or_else(|| "(no annotation)".into())
        }
    }
}

/// Groups sorted by bytes, each begun by a mark; members in order of birth.
fn grouped(file: &File, device: &Device, rows: Vec<u32>, group: GroupBy) -> Vec<u32> {
    let mut groups: HashMap<u64, (u64, Vec<u32>)> = HashMap::new();
    for row in rows {
        let (bytes, members) = groups.entry(key(file, device, row, group)).or_default();
        *bytes = bytes.saturating_add(device.replay.allocation(AllocIdx(row)).requested);
        members.push(row);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(key, (bytes, _))| (std::cmp::Reverse(*bytes), *key));
    let mut order = Vec::new();
    for (_, (_, mut members)) in groups {
        members.sort_by_key(|&row| (device.replay.allocation(AllocIdx(row)).opened, row));
        order.extend(members.first().map(|first| first | GROUP));
        order.extend(members);
    }
    order
}
