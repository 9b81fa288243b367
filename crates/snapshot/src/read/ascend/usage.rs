//! `device_<d>_memUsageInfo_<time>.csv`: what others than PyTorch held when an NPU's snapshot was taken.

use super::text::CsvTable;
use crate::model::{DeviceId, EventTable, Outside, Snapshot};
use crate::read::decimal::bytes;

const COLUMNS: [&str; 3] = ["moduleName", "curMemSize(MB)", "memPeakSize(MB)"];
const MIB: u64 = 1 << 20;

/// Adds what a side file of a snapshot says of a device.
pub fn add_memory_usage(snapshot: &mut Snapshot, device: DeviceId, csv: &[u8]) {
    let mut table = CsvTable::new("memUsageInfo", &COLUMNS);
    let mut found = Vec::new();
    let mut each = |row: &super::text::Row<'_>| {
        let (now, _) = bytes(row.cell(1), MIB).ok_or("its size is not a number")?;
        let peak = bytes(row.cell(2), MIB).map_or(now, |(peak, _)| peak);
        found.push((String::from_utf8_lossy(row.cell(0)).into_owned(), now, peak));
        Ok(())
    };
    table.feed(csv, &mut each);
    table.finish(&mut each);
    for (name, bytes, peak) in found {
        let name = snapshot.strings.push(&name);
        let time_us = EventTable::NO_TIME;
        snapshot.outside.push(Outside { device, name, time_us, bytes, peak });
    }
    snapshot.warnings.extend(table.warnings());
}
