//! Databases that are put together from the bytes of an input, so that most of them are nearly sound: the tables that
//! are looked for, rows of numbers and texts, then a few bytes changed.

use vramscope_testkit::sqlite::{Cell, Database};

const TABLES: &[(&str, &[&str])] = &[
    ("STRING_IDS", &["id", "value"]),
    (
        "OP_MEMORY",
        &[
            "name",
            "size",
            "allocationTime",
            "releaseTime",
            "allocationTotalAllocated",
            "streamPtr",
            "deviceId",
        ],
    ),
    (
        "MEMORY_RECORD",
        &["component", "timestamp", "totalAllocated", "totalActive", "totalReserved", "deviceId"],
    ),
    ("NPU_MODULE_MEM", &["moduleId", "timestampNs", "totalReserved", "deviceId"]),
    ("MSTX_EVENTS", &["startNs", "endNs", "message"]),
    ("STEP_TIME", &["id", "startNs", "endNs"]),
    ("PYTORCH_CALLCHAINS", &["id", "stack", "stackDepth"]),
    ("PYTORCH_API", &["startNs", "endNs", "globalTid", "name", "callchainId"]),
    ("RANK_DEVICE_MAP", &["rankId"]),
];

/// Bytes that are taken one after the other; zeros after the last.
struct Taken<'a>(std::slice::Iter<'a, u8>);

impl Taken<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    fn number(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    fn cell(&mut self) -> Cell {
        match self.byte() {
            0..=9 => Cell::Null,
            10..=120 => Cell::Int(self.byte().into()),
            121..=180 => Cell::Int(i64::from(self.number()) << (self.byte() % 32)),
            181..=190 => Cell::Int(i64::from(self.number()) - (1 << 31)),
            191..=240 => Cell::Text(vec![b'a' + self.byte() % 26; self.byte().into()]),
            _ => Cell::Text(vec![b'x'; usize::from(self.byte()) * 40]),
        }
    }
}

/// The database that an input describes.
pub(crate) fn database(bytes: &[u8]) -> Vec<u8> {
    let mut taken = Taken(bytes.iter());
    let mut database = Database::new(512 << (taken.byte() % 4));
    let mut roots = vec![1];
    for _ in 0..1 + taken.byte() % 10 {
        let (name, columns) = TABLES[usize::from(taken.byte()) % TABLES.len()];
        match taken.byte() {
            0..=20 => database.aliased(name, columns, &[taken.cell(), taken.cell(), taken.cell()], 2),
            21..=30 => database.overlapping(name, columns, 2),
            31..=50 => database.name(name, columns, roots[usize::from(taken.byte()) % roots.len()]),
            rows => {
                let rows = (0..rows % 40).map(|_| columns.iter().map(|_| taken.cell()).collect());
                let rows: Vec<Vec<Cell>> = rows.collect();
                roots.push(database.table(name, columns, rows));
            }
        }
    }
    let mut file = database.bytes();
    for _ in 0..taken.byte() % 8 {
        let at = taken.number() as usize % file.len().max(1);
        file[at] = taken.byte();
    }
    file
}
