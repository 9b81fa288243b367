//! Lifetimes, grouped: what each group takes when, and its members as bars, a page at a time.

use std::sync::Arc;

use hashbrown::HashMap;
use vramscope_analysis::categories::DEFAULT_CATEGORIES;
use vramscope_analysis::pictures::{Columns, density};
use vramscope_analysis::{AllocIdx, Allocation, GroupBy, Moment, Sum};

use crate::answers::{LifetimeRow, LineId, Page};
use crate::device::{DeviceIndex, File};
use crate::protocol::{AskLifetimes, Which};
use crate::rows::{self, NoRows};
use crate::sets::Group;
use crate::tiles;

/// Marks a row that begins a group: the number of its first member follows.
const GROUP: u32 = 1 << 31;

/// Rows of a group besides its members: its name, and when it takes how much.
const HEAD: usize = 2;

pub(crate) fn page(
    file: &File,
    device: &DeviceIndex,
    ask: &AskLifetimes,
    go_on: &dyn Fn() -> bool,
) -> Result<Page<LifetimeRow>, NoRows> {
    let order = order(file, device, &ask.which, ask.group, go_on)?;
    let columns = tiles::columns(file, device, ask.stretch);
    let (from, to) = (ask.first as usize, (ask.first as usize).saturating_add(ask.count as usize));
    let (mut rows, mut total) = (Vec::new(), 0_usize);
    for members in order.split(|&row| is_group(row)).filter(|members| !members.is_empty()) {
        let key = key(file, device, members[0], ask.group);
        let is_open = ask.open.contains(&key);
        let len = HEAD + if is_open { members.len() } else { 0 };
        let group = Members { file, device, key, by: ask.group, members };
        for row in from.max(total)..to.min(total + len) {
            if !go_on() {
                return Err(NoRows::Stopped);
            }
            rows.push(match row - total {
                0 => group.head(is_open),
                1 => group.strip(&columns),
                place => group.bar(AllocIdx(members[place - HEAD])),
            });
        }
        total += len;
    }
    Ok(Page { total: total as u32, bytes: 0, first: ask.first, rows, problem: None })
}

/// The allocations of one group, in order of birth.
struct Members<'a> {
    file: &'a File,
    device: &'a DeviceIndex,
    key: u64,
    by: GroupBy,
    members: &'a [u32],
}

impl Members<'_> {
    fn each(&self) -> impl Iterator<Item = Allocation> + '_ {
        self.members.iter().map(|&row| self.device.replay.allocation(AllocIdx(row)))
    }

    /// The group as one that can be shown alone; phases and operators cannot.
    fn group(&self) -> Option<Group> {
        let first = self.device.replay.allocation(AllocIdx(self.members[0]));
        match self.by {
            GroupBy::Line => {
                Some(self.file.stack_name(first.stack).line).filter(|line| line.0 != 0).map(Group::Line)
            }
            GroupBy::Stack => Some(Group::Stack(first.stack)),
            GroupBy::Category => Some(Group::Category(self.key as u8)),
            GroupBy::Operator | GroupBy::Phase => None,
        }
    }

    fn time(&self, from: Moment, to: Moment) -> (i64, Option<i64>) {
        let clock = self.device.clock(&self.file.snapshot);
        clock.map_or((0, None), |clock| (clock.of(from), to.known().map(|at| clock.of(at))))
    }

    fn head(&self, open: bool) -> LifetimeRow {
        let end = self.device.replay.end();
        let (mut sum, mut life) = (Sum::default(), (Moment::NEVER, Moment::START));
        for a in self.each() {
            sum.count += 1;
            sum.bytes = sum.bytes.saturating_add(a.requested);
            life = (life.0.min(a.opened), life.1.max(a.closed));
        }
        LifetimeRow::Group {
            key: self.key,
            label: label(self.file, self.device, self.members[0], self.by),
            sum,
            weight: self.each().fold(0, |sum, a| sum.saturating_add(weight(&a, end))),
            open,
            group: self.group(),
            life: (life.0, life.1.known()),
            time: self.time(life.0, life.1),
        }
    }

    fn strip(&self, columns: &Columns) -> LifetimeRow {
        let lives = self.each().map(|a| (a.opened, a.closed, a.requested));
        let means = density(columns, lives);
        let most = means.iter().copied().fold(0.0, f64::max);
        // What is there at all is seen.
        let level =
            |mean: f64| if mean > 0.0 { (mean / most * 255.0).round().clamp(1.0, 255.0) as u8 } else { 0 };
        LifetimeRow::Strip {
            levels: means.into_iter().map(level).collect(),
            most: most as u64,
            group: self.group(),
        }
    }

    fn bar(&self, index: AllocIdx) -> LifetimeRow {
        let a = self.device.replay.allocation(index);
        LifetimeRow::Bar {
            owner: self.device.owner(self.file, index, false),
            released: a.released.known(),
            time: self.time(a.opened, a.closed),
            place: self.file.stack_name(a.stack).place.clone(),
        }
    }
}

/// Requested bytes times the events that they lived, as in the flame graph.
fn weight(a: &Allocation, end: Moment) -> u64 {
    a.requested.saturating_mul(a.closed.min(end).0.saturating_sub(a.opened.0).into())
}

/// The rows of the view: allocations, and where groups begin.
pub(crate) fn order(
    file: &File,
    device: &DeviceIndex,
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
fn key(file: &File, device: &DeviceIndex, row: u32, group: GroupBy) -> u64 {
    let a = device.replay.allocation(AllocIdx(row));
    match group {
        GroupBy::Line => u64::from(file.stack_name(a.stack).line.0),
        GroupBy::Operator => u64::from(LineId::of(&file.stack_name(a.stack).operator).0),
        GroupBy::Stack => u64::from(a.stack.0),
        GroupBy::Category => device.categories().of(AllocIdx(row)) as u64,
        GroupBy::Phase => {
            device.phases(&file.snapshot, a.opened).last().map_or(0, |name| u64::from(LineId::of(name).0))
        }
    }
}

fn label(file: &File, device: &DeviceIndex, row: u32, group: GroupBy) -> String {
    let a = device.replay.allocation(AllocIdx(row));
    let name = file.stack_name(a.stack);
    match group {
        GroupBy::Line | GroupBy::Stack => name.place.clone(),
        GroupBy::Operator => name.operator.clone(),
        GroupBy::Category => {
            let number = device.categories().of(AllocIdx(row));
            DEFAULT_CATEGORIES.get(number).map_or_else(String::new, |name| (*name).to_owned())
        }
        GroupBy::Phase => {
            device.phases(&file.snapshot, a.opened).pop().unwrap_or_else(|| "(no annotation)".into())
        }
    }
}

/// Groups sorted by bytes × lifetime, each begun by a mark; members in order of birth.
fn grouped(file: &File, device: &DeviceIndex, rows: Vec<u32>, group: GroupBy) -> Vec<u32> {
    let end = device.replay.end();
    let mut groups: HashMap<u64, (u64, Vec<u32>)> = HashMap::new();
    for row in rows {
        let (sum, members) = groups.entry(key(file, device, row, group)).or_default();
        *sum = sum.saturating_add(weight(&device.replay.allocation(AllocIdx(row)), end));
        members.push(row);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(key, (weight, _))| (std::cmp::Reverse(*weight), *key));
    let mut order = Vec::new();
    for (_, (_, mut members)) in groups {
        members.sort_by_key(|&row| (device.replay.allocation(AllocIdx(row)).opened, row));
        order.extend(members.first().map(|first| first | GROUP));
        order.extend(members);
    }
    order
}
