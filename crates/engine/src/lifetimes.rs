//! Lifetimes as bars, grouped, a page at a time.

use hashbrown::HashMap;
use vramscope_analysis::AllocIdx;
use vramscope_analysis::categories::DEFAULT_CATEGORIES;

use crate::answers::{LifetimeRow, Page};
use crate::device::{Device, File};
use crate::protocol::{Filter, GroupBy};
use crate::rows;

/// Marks a row that begins a group: the number of its first member follows.
const GROUP: u32 = 1 << 31;

pub(crate) fn page(
    file: &File,
    device: &Device,
    filter: &Filter,
    group: GroupBy,
    first: u32,
    count: u32,
    go_on: &dyn Fn() -> bool,
) -> Option<Page<LifetimeRow>> {
    let replay = &device.replay;
    let order = device.order(format!("lifetimes {filter:?} {group:?}"), || {
        let rows = rows::filtered(file, device, filter, go_on)?;
        Some(grouped(file, device, rows, group))
    })?;
    let clock = device.clock(&file.snapshot);
    let start = (first as usize).min(order.len());
    let end = start.saturating_add(count as usize).min(order.len());
    let row = |place: usize| match order[place] {
        mark if mark & GROUP != 0 => {
            let members = order[place + 1..].iter().take_while(|&&row| row & GROUP == 0);
            let (mut count, mut bytes) = (0, 0_u64);
            for &row in members {
                count += 1;
                bytes = bytes.saturating_add(replay.allocation(AllocIdx(row)).requested);
            }
            LifetimeRow::Group { label: label(file, device, mark & !GROUP, group), count, bytes }
        }
        row => {
            let index = AllocIdx(row);
            let a = replay.allocation(index);
            LifetimeRow::Bar {
                owner: device.owner(file, index, false),
                released: a.released.0,
                time: clock
                    .map_or((0, 0), |clock| (clock.of(a.opened), clock.of(a.closed.min(replay.end())))),
                place: file.stack_name(a.stack).place.clone(),
            }
        }
    };
    let rows = (start..end).map(row).collect();
    Some(Page { total: order.len() as u32, bytes: 0, first, rows })
}

/// What a group is known by.
fn key(file: &File, device: &Device, row: u32, group: GroupBy) -> u64 {
    let a = device.replay.allocation(AllocIdx(row));
    match group {
        GroupBy::Line => u64::from(file.stack_name(a.stack).line),
        GroupBy::Operator => u64::from(crate::device::line_number(&file.stack_name(a.stack).operator)),
        GroupBy::Stack => u64::from(a.stack.0),
        GroupBy::Category => device.categories(&file.snapshot).of(AllocIdx(row)) as u64,
        GroupBy::Phase => device
            .phases(&file.snapshot, a.opened)
            .last()
            .map_or(0, |name| u64::from(crate::device::line_number(name))),
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

/// Groups by bytes, the most first, each begun by a mark; members in order of birth.
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
