//! Tables of allocations and of stacks, a page at a time.

use std::sync::Arc;

use vramscope_analysis::query::{Filter, QueryError};
use vramscope_analysis::{AllocIdx, Allocation, Moment, tables};
use vramscope_format::Formulas;
use vramscope_format::table::csv_row;
use vramscope_snapshot::{EventIdx, StackId};

use crate::answers::{AllocationRow, Page, StackRow};
use crate::device::{DeviceIndex, File, Total, totals};
use crate::lifetimes;
use crate::protocol::{AskCsv, CsvOf, Listing, Scope, Sort, Which};

/// Rows between two checks whether to go on.
const STRIDE: u32 = 1 << 16;

/// More rows than a screen shows are not sent at once.
const MOST_ROWS: u32 = 100_000;

/// Why there are no rows.
pub(crate) enum NoRows {
    /// Cancelled.
    Stopped,
    /// The filter is not one.
    Problem(String),
}

impl From<QueryError> for NoRows {
    fn from(QueryError(problem): QueryError) -> Self {
        Self::Problem(problem)
    }
}

/// What is sent: `None` if stopped, and what is wrong with the filter in place of rows.
pub(crate) fn sent<Row>(page: Result<Page<Row>, NoRows>) -> Option<Page<Row>> {
    match page {
        Ok(page) => Some(page),
        Err(NoRows::Stopped) => None,
        Err(NoRows::Problem(problem)) => {
            Some(Page { total: 0, bytes: 0, first: 0, rows: Vec::new(), problem: Some(problem) })
        }
    }
}

/// The allocations that pass a filter, by number.
pub(crate) fn filtered(
    file: &File,
    device: &DeviceIndex,
    which: &Which,
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<u32>, NoRows> {
    let (snapshot, replay) = (&file.snapshot, &device.replay);
    let selection = Filter::lenient(&which.text)?.bind(replay)?;
    let keeps = |index: AllocIdx, allocation: &Allocation| {
        which.group.as_ref().is_none_or(|group| group.has(file, device, index, allocation))
            && selection.keeps(snapshot, index, allocation)
    };
    let mut found = Vec::new();
    if let Scope::LiveAt(at) = which.scope {
        let live = replay.state(at.min(replay.end())).live;
        found.extend(
            live.iter().filter(|&&index| keeps(index, &replay.allocation(index))).map(|index| index.0),
        );
        found.sort_unstable();
        return Ok(found);
    }
    for row in 0..replay.allocations().len() as u32 {
        if row.is_multiple_of(STRIDE) && !go_on() {
            return Err(NoRows::Stopped);
        }
        let allocation = replay.allocation(AllocIdx(row));
        let lives = match which.scope {
            Scope::Overlap(from, to) => allocation.opened < to && allocation.closed > from,
            Scope::All | Scope::LiveAt(_) => true,
        };
        if lives && keeps(AllocIdx(row), &allocation) {
            found.push(row);
        }
    }
    Ok(found)
}

fn page<Row>(order: &[u32], bytes: u64, first: u32, count: u32, row: impl FnMut(&u32) -> Row) -> Page<Row> {
    let start = (first as usize).min(order.len());
    let end = start.saturating_add(count.min(MOST_ROWS) as usize).min(order.len());
    Page {
        total: order.len() as u32,
        bytes,
        first,
        rows: order[start..end].iter().map(row).collect(),
        problem: None,
    }
}

/// The allocations that a listing is about, in its order.
fn sorted(
    file: &File,
    device: &DeviceIndex,
    list: &Listing,
    go_on: &dyn Fn() -> bool,
) -> Result<Arc<Vec<u32>>, NoRows> {
    let replay = &device.replay;
    let lived = |a: &Allocation| u64::from(a.closed.min(replay.end()).0.saturating_sub(a.opened.0));
    let key = format!("allocations {:?} {:?} {}", list.which, list.sort, list.descending);
    device.order(key, || {
        let mut rows = filtered(file, device, &list.which, go_on)?;
        let number = |row: &u32| {
            let a = replay.allocation(AllocIdx(*row));
            match list.sort {
                Sort::Size => a.size,
                Sort::Opened => u64::from(a.opened.0),
                Sort::Lifetime => lived(&a),
                Sort::Pressure => a.requested.saturating_mul(lived(&a)),
                Sort::Addr => a.addr,
                Sort::Place => u64::from(a.stack.0),
                Sort::Requested | Sort::Count | Sort::Category | Sort::Module => a.requested,
            }
        };
        if matches!(list.sort, Sort::Place | Sort::Category | Sort::Module) {
            let conclusions = (list.sort != Sort::Place).then(|| device.conclusions());
            let name = |row: &u32| {
                let concluded = conclusions.map(|found| found.of(replay, AllocIdx(*row)));
                match (list.sort, concluded) {
                    (Sort::Category, Some(concluded)) => concluded.category,
                    (Sort::Module, Some(concluded)) => concluded.module.unwrap_or_default(),
                    _ => &file.stack_name(replay.allocation(AllocIdx(*row)).stack).place,
                }
            };
            rows.sort_by(|a, b| name(a).cmp(name(b)));
            if list.descending {
                rows.reverse();
            }
        } else if list.descending {
            rows.sort_by_cached_key(|row| (std::cmp::Reverse(number(row)), *row));
        } else {
            rows.sort_by_cached_key(|row| (number(row), *row));
        }
        Ok(rows)
    })
}

pub(crate) fn allocations(
    file: &File,
    device: &DeviceIndex,
    list: &Listing,
    go_on: &dyn Fn() -> bool,
) -> Result<Page<AllocationRow>, NoRows> {
    let replay = &device.replay;
    let order = sorted(file, device, list, go_on)?;
    let bytes =
        order.iter().fold(0_u64, |sum, &row| sum.saturating_add(replay.allocation(AllocIdx(row)).requested));
    let clock = device.clock(&file.snapshot);
    let conclusions = device.conclusions();
    Ok(page(&order, bytes, list.first, list.count, |&row| {
        let a = replay.allocation(AllocIdx(row));
        let concluded = conclusions.of(replay, AllocIdx(row));
        AllocationRow {
            owner: device.owner(file, AllocIdx(row), false),
            addr: a.addr,
            size: a.size,
            lived_us: clock
                .zip(a.closed.known())
                .map(|(clock, closed)| clock.of(closed).saturating_sub(clock.of(a.opened))),
            category: concluded.category.to_owned(),
            known_by: concluded.known_by,
            module: concluded.module.unwrap_or_default().to_owned(),
            place: file.stack_name(a.stack).place.clone(),
        }
    }))
}

pub(crate) fn stacks(
    file: &File,
    device: &DeviceIndex,
    list: &Listing,
    go_on: &dyn Fn() -> bool,
) -> Result<Page<StackRow>, NoRows> {
    let totals = if list.which == Which::default() {
        device.totals().clone()
    } else {
        let rows = filtered(file, device, &list.which, go_on)?;
        totals(&device.replay, rows.into_iter().map(AllocIdx))
    };
    let row = |(stack, total): (StackId, Total)| {
        let name = file.stack_name(stack);
        StackRow {
            stack,
            line: name.line,
            sum: total.sum,
            largest: total.largest,
            largest_bytes: total.largest_bytes,
            place: name.place.clone(),
            operator: name.operator.clone(),
        }
    };
    let mut rows: Vec<StackRow> = totals.into_iter().map(row).collect();
    rows.sort_by(|a, b| {
        let order = match list.sort {
            Sort::Count => a.sum.count.cmp(&b.sum.count),
            Sort::Size => a.largest_bytes.cmp(&b.largest_bytes),
            Sort::Place => a.place.cmp(&b.place),
            _ => a.sum.bytes.cmp(&b.sum.bytes),
        };
        let order = if list.descending { order.reverse() } else { order };
        order.then(a.stack.cmp(&b.stack))
    });
    let bytes = rows.iter().fold(0_u64, |sum, row| sum.saturating_add(row.sum.bytes));
    let total = rows.len() as u32;
    let first = (list.first as usize).min(rows.len());
    let rows = rows.into_iter().skip(first).take(list.count.min(MOST_ROWS) as usize).collect();
    Ok(Page { total, bytes, first: list.first, rows, problem: None })
}

/// A page of rows as lines of CSV.
pub(crate) fn csv(
    file: &File,
    device: &DeviceIndex,
    AskCsv { table, first, count, .. }: &AskCsv,
    go_on: &dyn Fn() -> bool,
) -> Result<Page<String>, NoRows> {
    let order = match table {
        CsvOf::Totals(list) => {
            let list = Listing { first: *first, count: *count, ..list.clone() };
            let Page { total, bytes, first, rows, problem } = stacks(file, device, &list, go_on)?;
            let line = |row: &StackRow| {
                csv_row(
                    &tables::total(&file.snapshot, row.stack, row.sum, row.largest_bytes),
                    Formulas::Escape,
                )
            };
            return Ok(Page { total, bytes, first, rows: rows.iter().map(line).collect(), problem });
        }
        CsvOf::Events => return Ok(events_csv(device, *first, *count)),
        // The session answers it: it is of no device.
        CsvOf::Sql(_) => return Ok(Page { total: 0, bytes: 0, first: 0, rows: Vec::new(), problem: None }),
        CsvOf::Allocations(list) => sorted(file, device, list, go_on)?,
        CsvOf::Lifetimes(which, group) => lifetimes::order(file, device, which, *group, go_on)?,
    };
    let rows = device.table_rows();
    let conclusions = device.conclusions();
    // Rows are counted as the view shows them; one that begins a group has nothing to write.
    let line = |&row: &u32| match lifetimes::is_group(row) {
        true => String::new(),
        false => csv_row(&rows.allocation(AllocIdx(row), conclusions), Formulas::Escape),
    };
    Ok(page(&order, 0, *first, *count, line))
}

/// A page of events as lines of CSV.
fn events_csv(device: &DeviceIndex, first: u32, count: u32) -> Page<String> {
    let replay = &device.replay;
    let total = replay.end().0;
    let end = first.saturating_add(count.min(MOST_ROWS)).min(total);
    let line = |row: u32| {
        let event = EventIdx(row);
        let after = replay.counters(Moment::after(event));
        csv_row(&tables::event(replay, event, after), Formulas::Escape)
    };
    Page { total, bytes: 0, first, rows: (first.min(end)..end).map(line).collect(), problem: None }
}
