//! The columns of the CSV tables, and what their cells say.

use super::text::Row;
use super::{Component, OpRow, RecordRow, Rows};
use crate::model::Total;
use crate::read::decimal::{bytes, integer, micros_as_nanos};
use crate::read::intern::Strings;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// `operator_memory.csv`. Older versions leave out the columns of what is active.
pub(super) const OPERATOR_MEMORY: [&str; 13] = [
    "Name",
    "Size(KB)",
    "Allocation Time(us)",
    "Release Time(us)",
    "Active Release Time(us)",
    "Allocation Total Allocated(MB)",
    "Allocation Total Active(MB)",
    "Allocation Total Reserved(MB)",
    "Release Total Allocated(MB)",
    "Release Total Active(MB)",
    "Release Total Reserved(MB)",
    "Stream Ptr",
    "Device Type",
];

/// `memory_record.csv`.
pub(super) const MEMORY_RECORD: [&str; 6] = [
    "Component",
    "Timestamp(us)",
    "Total Allocated(MB)",
    "Total Active(MB)",
    "Total Reserved(MB)",
    "Device Type",
];

/// `npu_module_mem.csv`.
pub(super) const MODULE_MEMORY: [&str; 4] = ["Component", "Timestamp(us)", "Total Reserved(MB)", "Device"];

type Result = std::result::Result<(), &'static str>;

pub(super) fn operator(row: &Row<'_>, strings: &mut Strings, rows: &mut Rows) -> Result {
    let name = row.cell(0);
    let (size, _) = bytes(row.cell(1), KIB).ok_or("its size is not a number")?;
    let allocated_ns = micros_as_nanos(row.cell(2)).ok_or("it has no allocation time")?;
    let time = |column: usize| match row.cell(column) {
        b"" => Ok(None),
        text => micros_as_nanos(text).map(Some).ok_or("its release time is not a number"),
    };
    let (released_ns, reusable_ns) = (time(3)?, time(4)?);
    let released_ns = released_ns.or(reusable_ns);
    if released_ns.is_some_and(|released| released < allocated_ns) {
        return Err("it is released before it is allocated");
    }
    rows.ops.push(OpRow {
        name: strings.intern(name),
        size,
        allocated_ns,
        released_ns,
        reusable_ns,
        at_allocation: total(row, 5, &mut rows.decimals)?,
        at_release: total(row, 8, &mut rows.decimals)?,
        stream: stream(row.cell(11)),
        device: device(row.cell(12)),
        is_graph: name.starts_with(b"cann::"),
    });
    Ok(())
}

pub(super) fn record(row: &Row<'_>, strings: &mut Strings, rows: &mut Rows) -> Result {
    let time_ns = micros_as_nanos(row.cell(1)).ok_or("it has no time")?;
    let total = total(row, 2, &mut rows.decimals)?;
    let component = Component::of(row.cell(0), strings);
    rows.records.push(RecordRow { component, time_ns, total, device: device(row.cell(5)) });
    Ok(())
}

pub(super) fn module(row: &Row<'_>, strings: &mut Strings, rows: &mut Rows) -> Result {
    let time_ns = micros_as_nanos(row.cell(1)).ok_or("it has no time")?;
    let (reserved, _) = bytes(row.cell(2), MIB).ok_or("its size is not a number")?;
    // The name of the framework here is that of its whole process.
    let component = Component::Other(strings.intern(row.cell(0)));
    let total = Total { reserved: Some(reserved), ..Total::default() };
    rows.records.push(RecordRow { component, time_ns, total, device: device(row.cell(3)) });
    Ok(())
}

/// Three columns: allocated, active, reserved.
fn total(
    row: &Row<'_>,
    first: usize,
    decimals: &mut Option<usize>,
) -> std::result::Result<Total, &'static str> {
    let mut cell = |column: usize| match row.cell(column) {
        b"" => Ok(None),
        text => {
            let (total, digits) = bytes(text, MIB).ok_or("a total is not a number")?;
            *decimals = Some(decimals.unwrap_or_default().max(digits));
            Ok(Some(total))
        }
    };
    Ok(Total { allocated: cell(first)?, active: cell(first + 1)?, reserved: cell(first + 2)? })
}

/// A stream's handle: a number, in some versions with a fraction; 0 where there is none.
fn stream(text: &[u8]) -> u64 {
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.parse().ok().or_else(|| text.parse().ok().map(|handle: f64| handle as u64)).unwrap_or_default()
}

/// `NPU:3`.
fn device(text: &[u8]) -> i32 {
    let digits = text.rsplit(|&byte| byte == b':').next().unwrap_or_default();
    integer(digits).and_then(|device| i32::try_from(device).ok()).unwrap_or_default()
}
