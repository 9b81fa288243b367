//! Inputs that grow in one direction each: what a test of scaling makes at n and at 4 n.
//!
//! Every shape is about linear in n, also as a file, so whatever answers it in more than linear time or memory
//! shows by comparison. n is about the number of events.

use crate::json::json;
use crate::pickle::{Dialect, pickle};
use crate::sqlite::{Cell, Database};
use crate::value::{Record, Value, annotation, block, event, frame, frames, segment, snapshot};

/// A kind of input, of any size.
#[derive(Clone, Copy)]
pub struct Shape {
    /// What grows.
    pub name: &'static str,
    /// Makes one of a size.
    pub make: fn(u64) -> Vec<u8>,
}

macro_rules! shapes {
    ($($name:literal: $make:expr;)*) => {
        /// All shapes.
        pub const SHAPES: &[Shape] = &[$(Shape { name: $name, make: $make },)*];
    };
}

shapes! {
    "a healthy trace": |n| trace(alternating(n, |i| event("alloc", place(i), 512).frames(&stack(i % 8, 6))));
    "one deep stack": |n| trace([event("alloc", MIB, 512).frames(&stack(0, n))]);
    "deep stacks of one shared list": |n| {
        let deep = stack(0, root(n) * 8);
        trace(alternating(root(n) * 8, move |i| event("alloc", place(i), 512).frames(&deep)))
    };
    "stacks that all differ": |n| trace(alternating(n, |i| event("alloc", place(i), 512).frames(&stack(i, 3))));
    "lines that all differ": |n| {
        trace(alternating(n, |i| event("alloc", place(i), 512).frames(&frames(&[line(&format!("f{i}"), i)]))))
    };
    "annotations in each other": |n| {
        let start = (0..n).map(|i| annotation("START", "in", i as i64));
        let end = (n..2 * n).map(|i| annotation("END", "in", i as i64));
        annotated(n, start.chain(end).collect())
    };
    "annotations one after the other": |n| {
        let mark = |i: u64| annotation(["START", "END"][i as usize % 2], &format!("step#{}", i / 2), i as i64);
        annotated(n, (0..2 * n).map(mark).collect())
    };
    "annotations never closed": |n| annotated(n, (0..n).map(|i| annotation("START", "p", i as i64)).collect());
    "annotations never closed, names that differ": |n| {
        annotated(n, (0..n).map(|i| annotation("START", &format!("p{i}"), i as i64)).collect())
    };
    "annotations that cross": |n| {
        let start = (0..n).map(|i| annotation("START", &format!("p{i}"), i as i64));
        let end = (0..n).map(|i| annotation("END", &format!("p{i}"), (n + i) as i64));
        annotated(2 * n, start.chain(end).collect())
    };
    "annotations that only end": |n| annotated(n, (0..n).map(|i| annotation("END", "p", i as i64)).collect());
    "segments at the end": |n| {
        let one = |i| segment(i * 4 * MIB, [block("active_allocated", i * 4 * MIB, MIB, MIB - 100)]);
        cpython(snapshot((0..n).map(one), [[]]))
    };
    "blocks of one segment": |n| {
        let one = |i| block(["active_allocated", "inactive"][i as usize % 2], i * 512, 512, 500);
        cpython(snapshot([segment(0, (0..n).map(one))], [[]]))
    };
    "segments taken and kept": |n| {
        trace((0..n).map(|i| event("segment_alloc", i * 4 * MIB, 2 * MIB)))
    };
    "segments taken and given back": |n| {
        let action = |i: u64| ["segment_alloc", "segment_free"][i as usize % 2];
        trace((0..n).map(|i| event(action(i), i / 2 % 64 * 4 * MIB, 2 * MIB)))
    };
    "segments given back that were never taken": |n| trace((0..n).map(|i| event("segment_free", i * 4 * MIB, MIB)));
    "pages mapped and unmapped": |n| {
        let action = |i: u64| ["segment_map", "segment_map", "segment_unmap"][i as usize % 3];
        trace((0..n).map(|i| event(action(i), i * 7919 % n * 2 * MIB, 2 * MIB)))
    };
    "pools": |n| trace(alternating(n, |i| event("alloc", place(i), 512).pool(i + 1, 0)));
    "pools of segments": |n| {
        let one = |i| segment(i * 4 * MIB, [block("inactive", i * 4 * MIB, MIB, 0)]).segment_pool(i, 1);
        cpython(snapshot((0..n).map(one), [[]]))
    };
    "streams": |n| trace(alternating(n, |i| event("alloc", place(i), 512).stream(i)));
    "devices": |n| {
        let one = |i| [event("segment_alloc", MIB, MIB).time(i as i64), event("alloc", MIB, 512).time(i as i64)];
        cpython(snapshot([], (0..n / 8).map(one)))
    };
    "huge sizes": |n| trace((0..n).map(|i| event("alloc", i << 40, 1 << 47)));
    "tiny blocks that all live": |n| trace((0..n).map(|i| event("alloc", place(i), 1 + i % 500)));
    "tiny blocks without stacks that live on": |n| {
        let blocks = (0..n).map(|i| block("active_allocated", i * 512, 512, 1 + i % 500));
        let allocs = (0..n).map(|i| event("alloc", i * 512, 1 + i % 500).time(i as i64));
        cpython(snapshot([segment(0, blocks)], [allocs]))
    };
    "one block that outlives all": |n| {
        let long = event("alloc", 1 << 40, MIB).frames(&stack(9, 4));
        trace([long].into_iter().chain(alternating(n, |i| event("alloc", place(i % 3), 512))))
    };
    "one address again and again": |n| trace((0..n).map(|i| event("alloc", MIB, 512 + i)));
    "blocks on top of each other": |n| trace((0..n).map(|i| event("alloc", i * 256, 4096 + i)));
    "frees of nothing": |n| {
        let action = |i: u64| ["free_requested", "free_completed", "segment_free", "segment_unmap"][i as usize % 4];
        trace((0..n).map(|i| event(action(i), place(i), 512)))
    };
    "frees that never complete": |n| {
        let action = |i: u64| ["alloc", "free_requested"][i as usize % 2];
        trace((0..n).map(|i| event(action(i), place(i / 2), 512).stream(i / 2 % 3)))
    };
    "out of memory": |n| trace((0..n).map(|i| event("oom", i, 1 << 30).time(i as i64).frames(&stack(i % 4, 3))));
    "snapshots": |n| trace((0..n).map(|i| event("snapshot", 0, i).time(i as i64)));
    "unknown actions": |n| trace((0..n).map(|i| event(&format!("action{i}"), place(i), 512)));
    "unknown keys": |n| trace((0..n).map(|i| event("alloc", place(i), 512).set(&format!("key{i}"), i)));
    "notes that all differ": |n| {
        let note = |i: u64| event("alloc", place(i), 512).set("user_metadata", Value::text(&format!("note {i}")));
        trace(alternating(n, note))
    };
    "one long name": |n| {
        let name = "n".repeat(20 * n as usize);
        let stack = frames(&[frame(&name, &name, 1)]);
        trace(alternating(64, move |i| event("alloc", place(i), 512).frames(&stack)))
    };
    "long names": |n| {
        let name = |i: u64| format!("{}{i}", "a::b<c, ".repeat(40));
        trace(alternating(n / 4, move |i| event("alloc", place(i), 512).frames(&frames(&[line(&name(i), i)]))))
    };
    "times that go back": |n| {
        let time = |i: u64| (1_000_000_000 - i * 997) as i64;
        trace(alternating(n, move |i| event("alloc", place(i), 512).time(time(i))))
    };
    "all at one time": |n| trace(alternating(n, |i| event("alloc", place(i), 512).time(5)));
    "JSON": |n| {
        let events = alternating(n, |i| event("alloc", place(i), 512).frames(&stack(i % 8, 4)));
        json(&snapshot([], [events]).into()).into_bytes()
    };
    "JSON: many values": |n| b"{}".repeat(8 * n as usize);
    "JSON: a list of lists": |n| format!("[{}0]", "[],".repeat(8 * n as usize)).into_bytes();
    "JSON: deep": |n| "[".repeat(8 * n as usize).into_bytes();
    "a profiler's trace": |n| {
        let mut rows = Vec::new();
        for i in 0..n {
            rows.push(slice("cpu_op", &format!("aten::op{}", i % 50), 10 * i, 8));
            rows.push(memory(10 * i + 1, if i % 2 == 0 { 512 } else { -512 }, place(i / 2)));
        }
        kineto(&rows)
    };
    "a profiler's calls in each other": |n| {
        let depth = |i: u64| slice("python_function", &format!("f.py({i}): f"), i, 2 * (n - i));
        let mut rows: Vec<String> = (0..n).map(depth).collect();
        rows.extend((0..n).map(|i| memory(i, 512, place(i))));
        kineto(&rows)
    };
    "a profiler's timeline": |n| {
        let rows: Vec<String> = (0..n).map(|i| format!("[{i}, {}, {}, 3]", i % 4, 512 * (1 + i % 9))).collect();
        format!("[{}]", rows.join(", ")).into_bytes()
    };
    "a table of operators": |n| {
        let row = |i: u64| format!("aten::op{},{},{i}.5,{}.5,{}\n", i % 9, 1 + i % 7, i + 20, i % 100);
        let rows: String = (0..n).map(row).collect();
        format!("Name,Size(KB),Allocation Time(us),Release Time(us),Allocation Total Allocated(MB)\n{rows}").into_bytes()
    };
    "a database": |n| {
        let mut database = names(&["aten::mul", "PTA", "model.py(3): forward"]);
        database.table("OP_MEMORY", &OPERATOR, (0..n).map(operator));
        let record = |i: u64| vec![Cell::Int(2), Cell::Int(1000 * i as i64), Cell::Int(1 << 20), Cell::Int(2 << 20)];
        let columns = ["component", "timestamp", "totalAllocated", "totalReserved"];
        database.table("MEMORY_RECORD", &columns, (0..n).map(record));
        database.bytes()
    };
    "a database of call stacks": |n| {
        let mut database = names(&["aten::mul", "model.py(3): forward", "train.py(7): main"]);
        database.table("OP_MEMORY", &OPERATOR, (0..n).map(operator));
        let chain = |i: u64| [vec![cell(i), Cell::Int(2), Cell::Int(0)], vec![cell(i), Cell::Int(3), Cell::Int(1)]];
        database.table("PYTORCH_CALLCHAINS", &["id", "stack", "stackDepth"], (0..n).flat_map(chain));
        let call = |i: u64| vec![cell(1000 * i), cell(1000 * i + 900), Cell::Int(1), Cell::Int(1), cell(i)];
        let columns = ["startNs", "endNs", "globalTid", "name", "callchainId"];
        database.table("PYTORCH_API", &columns, (0..n).map(call));
        database.bytes()
    };
    "a database whose rows are one row": |n| {
        let mut database = names(&["aten::mul"]);
        database.aliased("OP_MEMORY", &["size", "allocationTime"], &[Cell::Int(0), Cell::Int(1)], n as usize / 64);
        database.bytes()
    };
    "a database whose long row is every row": |n| {
        let mut database = names(&["aten::mul"]);
        let name = Cell::Text(vec![b'x'; 2000]);
        database.aliased("STRING_IDS", &["id", "value"], &[Cell::Null, name], n as usize / 64);
        database.table("OP_MEMORY", &OPERATOR, (0..10).map(operator));
        database.bytes()
    };
    "a database of one table under many names": |n| {
        let mut database = names(&["aten::mul"]);
        let root = database.table("OP_MEMORY", &OPERATOR, (0..n).map(operator));
        for name in ["MEMORY_RECORD", "NPU_MODULE_MEM", "MSTX_EVENTS", "STEP_TIME", "PYTORCH_CALLCHAINS", "PYTORCH_API"] {
            database.name(name, &OPERATOR, root);
        }
        database.bytes()
    };
    "a database of call stacks of long names": |n| {
        let long = "x".repeat(n as usize);
        let mut database = names(&["aten::mul", &long]);
        database.table("OP_MEMORY", &OPERATOR, (0..10).map(operator));
        let frames = (0..n).map(|i| vec![cell(i / 200), Cell::Int(2), cell(i)]);
        database.table("PYTORCH_CALLCHAINS", &["id", "stack", "stackDepth"], frames);
        database.bytes()
    };
}

const MIB: u64 = 1 << 20;

const OPERATOR: [&str; 6] =
    ["name", "size", "allocationTime", "releaseTime", "allocationTotalAllocated", "deviceId"];

fn operator(i: u64) -> Vec<Cell> {
    let time = 1000 * i as i64;
    vec![
        Cell::Int(1),
        Cell::Int(512),
        Cell::Int(time),
        Cell::Int(time + 5000),
        Cell::Int(512 * 5),
        Cell::Int(0),
    ]
}

fn cell(n: u64) -> Cell {
    Cell::Int(n as i64)
}

/// A database with texts by number, from 1.
fn names(texts: &[&str]) -> Database {
    let mut database = Database::new(4096);
    let rows = texts.iter().zip(1..).map(|(text, id)| vec![Cell::Int(id), Cell::text(text)]);
    database.table("STRING_IDS", &["id", "value"], rows);
    database
}

fn kineto(rows: &[String]) -> Vec<u8> {
    format!("{{\"schemaVersion\": 1, \"traceEvents\": [\n{}\n]}}", rows.join(",\n")).into_bytes()
}

fn slice(category: &str, name: &str, start: u64, length: u64) -> String {
    format!(
        r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": 1, "tid": 1, "ts": {start}, "dur": {length}}}"#
    )
}

fn memory(time: u64, bytes: i64, addr: u64) -> String {
    format!(
        r#"{{"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": {time}, "args": {{"Device Type": 1, "Device Id": 0, "Bytes": {bytes}, "Addr": {addr}, "Total Allocated": 5120, "Total Reserved": 9000}}}}"#
    )
}

/// Where the i-th block lies.
fn place(i: u64) -> u64 {
    MIB + i * 1024
}

fn root(n: u64) -> u64 {
    n.isqrt().max(1)
}

/// Events that allocate, each freed two events later, so that few live.
fn alternating(n: u64, alloc: impl Fn(u64) -> Record) -> impl Iterator<Item = Record> {
    (0..n / 3).flat_map(move |i| {
        let opened = alloc(i).time_if_absent(i as i64);
        let free = |action: &str| opened.clone().word("action", action);
        [opened.clone(), free("free_requested"), free("free_completed")]
    })
}

fn line(name: &str, line: u64) -> Value {
    frame(name, "model.py", line as u32)
}

/// A stack of `depth` frames; stacks of other numbers differ from it at the innermost frame.
fn stack(number: u64, depth: u64) -> Value {
    let inner = line(&format!("inner{number}"), number);
    let outer = (1..depth).map(|i| line(&format!("f{}", i % 1000), i));
    Value::list([inner].into_iter().chain(outer))
}

fn cpython(snapshot: Record) -> Vec<u8> {
    pickle(&snapshot.into(), Dialect::Protocol(4))
}

fn trace(events: impl IntoIterator<Item = Record>) -> Vec<u8> {
    cpython(snapshot([], [events]))
}

/// A trace of which half of the blocks is never freed, under these marks.
fn annotated(n: u64, marks: Vec<Record>) -> Vec<u8> {
    let events = (0..n / 2).map(|i| event("alloc", place(i), 512).time(2 * i as i64));
    cpython(snapshot([], [events]).set("external_annotations", Value::list(marks)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_grow_as_their_number_does() {
        for shape in SHAPES {
            let (small, large) = ((shape.make)(400).len(), (shape.make)(1600).len());
            assert!(large > small && large < 5 * small + 20_000, "{}: {small} and {large} bytes", shape.name);
        }
        assert!(SHAPES.len() >= 30);
    }
}
