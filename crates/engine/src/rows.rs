//! Tables of allocations and of stacks, a page at a time.

use hashbrown::{HashMap, HashSet};
use vramscope_analysis::{AllocIdx, Allocation, Moment};
use vramscope_snapshot::StackId;

use crate::answers::{AllocationRow, Page, StackRow};
use crate::device::{Device, File};
use crate::protocol::{Filter, Scope, Sort};
use crate::search;

/// Rows between two questions whether to go on.
const STRIDE: u32 = 1 << 16;

/// More rows than a screen shows are not sent at once.
const MOST_ROWS: u32 = 100_000;

/// A page of a table.
pub(crate) struct Wanted<'a> {
    pub(crate) filter: &'a Filter,
    pub(crate) sort: Sort,
    pub(crate) descending: bool,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

impl<'a> Wanted<'a> {
    pub(crate) fn new(filter: &'a Filter, sort: Sort, descending: bool, first: u32, count: u32) -> Self {
        Self { filter, sort, descending, first, count }
    }
}

/// The allocations that pass a filter, by number. `None` if stopped.
pub(crate) fn filtered(
    file: &File,
    device: &Device,
    filter: &Filter,
    go_on: &dyn Fn() -> bool,
) -> Option<Vec<u32>> {
    let replay = &device.replay;
    let passes = Passes::new(file, filter);
    let mut found = Vec::new();
    if let Scope::LiveAt(at) = filter.scope {
        let state = replay.state(Moment(at).min(replay.end()));
        found.extend(
            state.live.iter().filter(|&&index| passes.test(&replay.allocation(index))).map(|index| index.0),
        );
        found.sort_unstable();
        return Some(found);
    }
    for row in 0..replay.allocations().len() as u32 {
        if row.is_multiple_of(STRIDE) && !go_on() {
            return None;
        }
        let allocation = replay.allocation(AllocIdx(row));
        let lives = match filter.scope {
            Scope::Overlap(from, to) => allocation.opened.0 < to && allocation.closed.0 > from,
            Scope::All | Scope::LiveAt(_) => true,
        };
        if lives && passes.test(&allocation) {
            found.push(row);
        }
    }
    Some(found)
}

/// A filter made ready.
struct Passes {
    stacks: Option<HashSet<StackId>>,
    addr: Option<u64>,
}

impl Passes {
    fn new(file: &File, filter: &Filter) -> Self {
        let addr = search::address(&filter.text);
        let by_text = || search::stacks(&file.snapshot, &filter.text).into_iter().collect();
        let stacks = match filter.stack {
            Some(stack) => Some(std::iter::once(StackId(stack)).collect()),
            None => (!filter.text.is_empty() && addr.is_none()).then(by_text),
        };
        Self { stacks, addr }
    }

    fn test(&self, allocation: &Allocation) -> bool {
        self.stacks.as_ref().is_none_or(|stacks| stacks.contains(&allocation.stack))
            && self.addr.is_none_or(|addr| {
                allocation.addr <= addr && addr < allocation.addr.saturating_add(allocation.size.max(1))
            })
    }
}

fn page<Row>(order: &[u32], bytes: u64, first: u32, count: u32, row: impl FnMut(&u32) -> Row) -> Page<Row> {
    let start = (first as usize).min(order.len());
    let end = start.saturating_add(count.min(MOST_ROWS) as usize).min(order.len());
    Page { total: order.len() as u32, bytes, first, rows: order[start..end].iter().map(row).collect() }
}

/// The numbers that a filter leaves, with the key that pages of the same are kept under.
fn kept(kind: &str, wanted: &Wanted<'_>) -> String {
    format!("{kind} {:?} {:?} {}", wanted.filter, wanted.sort, wanted.descending)
}

pub(crate) fn allocations(
    file: &File,
    device: &Device,
    wanted: &Wanted<'_>,
    go_on: &dyn Fn() -> bool,
) -> Option<Page<AllocationRow>> {
    let replay = &device.replay;
    let lived = |a: &Allocation| u64::from(a.closed.min(replay.end()).0.saturating_sub(a.opened.0));
    let order = device.order(kept("allocations", wanted), || {
        let mut rows = filtered(file, device, wanted.filter, go_on)?;
        let number = |row: &u32| {
            let a = replay.allocation(AllocIdx(*row));
            match wanted.sort {
                Sort::Size => a.size,
                Sort::Opened => u64::from(a.opened.0),
                Sort::Lifetime => lived(&a),
                Sort::Pressure => a.requested.saturating_mul(lived(&a)),
                Sort::Addr => a.addr,
                Sort::Place => u64::from(a.stack.0),
                Sort::Requested | Sort::Count => a.requested,
            }
        };
        if wanted.sort == Sort::Place {
            let name = |row: &u32| &file.stack_name(replay.allocation(AllocIdx(*row)).stack).place;
            rows.sort_by(|a, b| name(a).cmp(name(b)));
            if wanted.descending {
                rows.reverse();
            }
        } else if wanted.descending {
            rows.sort_by_cached_key(|row| (std::cmp::Reverse(number(row)), *row));
        } else {
            rows.sort_by_cached_key(|row| (number(row), *row));
        }
        Some(rows)
    })?;
    let bytes =
        order.iter().fold(0_u64, |sum, &row| sum.saturating_add(replay.allocation(AllocIdx(row)).requested));
    let clock = device.clock(&file.snapshot);
    Some(page(&order, bytes, wanted.first, wanted.count, |&row| {
        let a = replay.allocation(AllocIdx(row));
        AllocationRow {
            owner: device.owner(file, AllocIdx(row), false),
            addr: a.addr,
            size: a.size,
            lived_us: clock.map(|clock| clock.of(a.closed.min(replay.end())) - clock.of(a.opened)),
            place: file.stack_name(a.stack).place.clone(),
        }
    }))
}

pub(crate) fn stacks(
    file: &File,
    device: &Device,
    wanted: &Wanted<'_>,
    go_on: &dyn Fn() -> bool,
) -> Option<Page<StackRow>> {
    let replay = &device.replay;
    let everything = Filter::default();
    let mut sums: HashMap<StackId, StackRow> = HashMap::new();
    let mut add = |stack: StackId, bytes: u64, count: u64, largest: u32, largest_bytes: u64| {
        let name = file.stack_name(stack);
        let row = sums.entry(stack).or_insert_with(|| StackRow {
            stack: stack.0,
            line: name.line,
            bytes: 0,
            count: 0,
            largest,
            largest_bytes: 0,
            place: name.place.clone(),
            operator: name.operator.clone(),
        });
        row.bytes = row.bytes.saturating_add(bytes);
        row.count += count;
        if largest_bytes > row.largest_bytes {
            (row.largest, row.largest_bytes) = (largest, largest_bytes);
        }
    };
    if *wanted.filter == everything {
        for (&stack, total) in device.totals() {
            add(stack, total.bytes, total.count, total.largest, total.largest_bytes);
        }
    } else {
        for row in filtered(file, device, wanted.filter, go_on)? {
            let a = replay.allocation(AllocIdx(row));
            add(a.stack, a.requested, 1, row, a.requested);
        }
    }
    let mut rows: Vec<StackRow> = sums.into_values().collect();
    rows.sort_by(|a, b| {
        let order = match wanted.sort {
            Sort::Count => a.count.cmp(&b.count),
            Sort::Size => a.largest_bytes.cmp(&b.largest_bytes),
            Sort::Place => a.place.cmp(&b.place),
            _ => a.bytes.cmp(&b.bytes),
        };
        let order = if wanted.descending { order.reverse() } else { order };
        order.then(a.stack.cmp(&b.stack))
    });
    let bytes = rows.iter().fold(0_u64, |sum, row| sum.saturating_add(row.bytes));
    let total = rows.len() as u32;
    let first = (wanted.first as usize).min(rows.len());
    let rows = rows.into_iter().skip(first).take(wanted.count.min(MOST_ROWS) as usize).collect();
    Some(Page { total, bytes, first: wanted.first, rows })
}
