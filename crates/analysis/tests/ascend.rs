//! Profiles of NPUs: level and peak are those of the totals in the files, whatever the rows lack.

use crate::common::{input, read};
use vramscope_analysis::{Counter, Device, Moment, Status, verdict_notes};
use vramscope_snapshot::{Action, AscendPart, AscendProfile, DeviceId, ReadError, Snapshot};

const MIB: i64 = 1 << 20;
const OUTPUT: &str = "ascend/actor_update/worker0_4100_20261115064500000_ascend_pt/ASCEND_PROFILER_OUTPUT";

/// The totals of the fixture after each of its events, as its columns have them: MiB and bytes beyond.
const STATED: [i64; 11] = [
    12_000 * MIB + 8704,  // 8.5 KiB come: aten::empty_strided
    12_256 * MIB + 9216,  // 256 MiB and 512 bytes: aten::matmul, never released
    12_384 * MIB + 9728,  // 128 MiB and 512 bytes: aten::mul
    12_512 * MIB + 10240, // another
    12_384 * MIB + 9728,  // the first goes
    12_256 * MIB + 9216,  // the second goes
    12_320 * MIB + 9728,  // 64 MiB and 512 bytes: npu::npu_fusion_attention
    12_320 * MIB + 10240, // 512 bytes: aten::add, for 2.14 µs
    12_320 * MIB + 9728,  // they go
    12_320 * MIB + 1024,  // the 8.5 KiB go
    12_256 * MIB + 512,   // the 64 MiB go
];

fn profile(parts: &[(AscendPart, &[u8])]) -> Result<Snapshot, ReadError> {
    let mut profile = AscendProfile::new();
    for (part, bytes) in parts {
        profile.feed(*part, bytes);
    }
    profile.finish()
}

fn fixture() -> Snapshot {
    profile(&[
        (AscendPart::OperatorMemory, &input(&format!("{OUTPUT}/operator_memory.csv"))),
        (AscendPart::MemoryRecord, &input(&format!("{OUTPUT}/memory_record.csv"))),
        (AscendPart::ModuleMemory, &input(&format!("{OUTPUT}/npu_module_mem.csv"))),
        (AscendPart::TraceView, &input(&format!("{OUTPUT}/trace_view.json"))),
        (AscendPart::Info, br#"{"config": {"role": "no"}, "rank_id": "5"}"#),
        (AscendPart::Info, br#"{"role": "actor_update"}"#),
    ])
    .unwrap()
}

fn check_totals(snapshot: &Snapshot) {
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    let allocated: Vec<i64> = replay.all_counters().map(|counters| counters.allocated).collect();
    assert_eq!(allocated, STATED);
    assert!(replay.all_counters().all(|counters| counters.reserved == 13_024 * MIB));
    assert!(replay.all_counters().all(|counters| counters.active == counters.allocated));
    assert_eq!(replay.counters(Moment::START).allocated, 12_000 * MIB);
    let peak = replay.peak(Counter::Allocated);
    assert_eq!((peak.bytes, peak.at), (12_512 * MIB + 10240, Moment(4)));
    assert_eq!(replay.verdict().status, Status::LateStart);
    let note = &verdict_notes(replay.verdict(), &vramscope_format::size)[0];
    assert!(note.starts_with("11.7 GiB were in use before the first event"), "{note}");
    // 1790000000000100.010 µs: a double would be off by a tenth of a microsecond.
    assert_eq!(snapshot.events(DeviceId(0)).time_ns(1), Some(1_790_000_000_000_100_010));
}

#[test]
fn every_total_of_the_tables() {
    let snapshot = fixture();
    assert_eq!(snapshot.format, "Ascend profile, CSV");
    assert_eq!((snapshot.rank, snapshot.role.as_deref()), (Some(5), Some("actor_update")));
    assert!(snapshot.warnings.is_empty(), "{:?}", snapshot.warnings);
    check_totals(&snapshot);
    // Either table alone has the same level.
    let operators = input(&format!("{OUTPUT}/operator_memory.csv"));
    check_totals(&read(&operators).unwrap());
    let curve = read(&input(&format!("{OUTPUT}/memory_record.csv"))).unwrap();
    let replay = Device::new(curve.clone(), DeviceId(0));
    assert_eq!(replay.all_counters().map(|counters| counters.allocated).collect::<Vec<_>>(), STATED);
    assert!(curve.events(DeviceId(0)).actions().all(|action| action == Action::Total));
}

/// The graph engine has an allocator of its own, with totals of its own: 100 MiB after its block came.
#[test]
fn the_graph_engine_is_a_device_of_its_own() {
    let snapshot = fixture();
    let graph = DeviceId(1024);
    assert_eq!(snapshot.device_name(graph), "NPU 0, graph engine");
    let replay = Device::new(snapshot.clone(), graph);
    let levels: Vec<_> =
        replay.all_counters().map(|counters| (counters.allocated, counters.reserved)).collect();
    assert_eq!(levels, [(100 * MIB, 200 * MIB), (99 * MIB, 200 * MIB)]);
}

#[test]
fn others_than_the_framework_are_listed() {
    let snapshot = fixture();
    let outside: Vec<_> =
        snapshot.outside.iter().map(|outside| (snapshot.text(outside.name), outside.bytes as i64)).collect();
    let expected = [
        ("WORKSPACE", 64 * MIB),
        ("APP", 13_924 * MIB),
        ("RUNTIME", 210 * MIB + MIB / 2),
        ("HCCL", 400 * MIB),
        ("APP", 13_024 * MIB),
    ];
    assert_eq!(outside, expected);
}

#[test]
fn stacks_are_of_the_operator_that_ran() {
    let snapshot = fixture();
    let events = snapshot.events(DeviceId(0));
    let stack = |row: usize| -> Vec<String> {
        let frames = snapshot.frames(events.get(row).stack);
        frames.map(|frame| format!("{}:{}", snapshot.text(frame.name), frame.line)).collect()
    };
    assert_eq!(stack(1), ["aten::matmul:0", "forward:10", "main:5"]);
}

/// Two threads run the same operator; one call is over, the other is running. Then both run.
#[test]
fn an_operator_that_is_over_allocates_nothing() {
    let slice = |tid: u32, ts: &str, dur: u32, line: u32| {
        format!(
            r#"{{"ph": "X", "name": "aten::mul", "pid": 1, "tid": {tid}, "ts": "{ts}", "dur": {dur}, "cat": "cpu_op",
               "args": {{"Call stack": "a.py({line}): f;\r\nb.py(1): g"}}}}"#
        )
    };
    let slices = [
        slice(1, "100.000", 50, 10),
        slice(2, "140.5", 5, 20),
        slice(1, "300.000", 50, 30),
        slice(2, "310", 90, 40),
    ];
    let trace = format!("[{}]", slices.join(","));
    let rows = "Name,Size(KB),Allocation Time(us),Device Type\naten::mul,1,149.000\t,NPU:0\naten::mul,1,250.000\t,NPU:0\n\
                aten::mul,1,320.000\t,NPU:0\naten::add,1,330.000\t,NPU:0\n";
    let snapshot =
        profile(&[(AscendPart::OperatorMemory, rows.as_bytes()), (AscendPart::TraceView, trace.as_bytes())])
            .unwrap();
    let lines: Vec<Vec<u32>> = snapshot
        .events(DeviceId(0))
        .iter()
        .map(|event| snapshot.frames(event.stack).map(|frame| frame.line).collect())
        .collect();
    // The later call of thread 2 ended at 145.5; at 250 none runs; at 320 both do, and the last that began counts.
    assert_eq!(lines, [vec![0, 10, 1], vec![0], vec![0, 40, 1], vec![0]]);
    let warning = &snapshot.warnings[0];
    assert!(warning.starts_with("1 allocations have the call stack of one of several threads"), "{warning}");
}

const HEADER: &str = "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),\
    Active Duration(us),Allocation Total Allocated(MB),Allocation Total Reserved(MB),Allocation Total Active(MB),\
    Release Total Allocated(MB),Release Total Reserved(MB),Release Total Active(MB),Stream Ptr,Device Type\r\n";

/// Cells as people's tools leave them: quoted, with TABs, without a name, without an end, with a handle that
/// was saved as a fraction. One row has no size, one ends before it begins.
#[test]
fn odd_rows_cost_a_warning_at_most() {
    let rows = [
        "\"aten::empty\",\"4.0\",\"10.000\t\",,,,,100.0,200.0,100.0,,,,187650972.0,NPU:0",
        ",8,20.000\t,40.000\t,39.500\t,20.0,19.5,100.0078125,200.0,100.0078125,100.0,200.0,100.0,6,NPU:0",
        "aten::add,,25.000\t,,,,,100.0,200.0,100.0,,,,6,NPU:0",
        "aten::add,1,30.000\t,29.000\t,,,,100.0,200.0,100.0,,,,6,NPU:0",
    ];
    let table = format!("{HEADER}{}\r\n", rows.join("\r\n"));
    let snapshot = read(table.as_bytes()).unwrap();
    let warning = "operator_memory.csv: 2 rows are left out, the first is row 4: its size is not a number";
    assert_eq!(snapshot.warnings, [warning]);
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    let levels: Vec<_> = replay.all_counters().map(|counters| counters.allocated).collect();
    assert_eq!(levels, [100 * MIB, 100 * MIB + 8192, 100 * MIB]);
    let events = snapshot.events(DeviceId(0));
    assert_eq!(snapshot.stream(events.get(0).stream), 187_650_972);
    assert!(!events.get(1).stack.has_frames(), "a row without a name has no operator");
    assert_eq!(
        events.get(2).action,
        Action::FreeCompleted,
        "reusable before it is released is reusable then"
    );
}

/// A block that another stream still uses: released at 20 µs, reusable at 50.
#[test]
fn what_awaits_its_free_is_active() {
    let row = "aten::mul,1024,10.000\t,20.000\t,50.000\t,10,40,1.0,2.0,1.0,0.0,2.0,1.0,6,NPU:0";
    let snapshot = read(format!("{HEADER}{row}\n").as_bytes()).unwrap();
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    let levels: Vec<_> =
        replay.all_counters().map(|counters| (counters.allocated, counters.active)).collect();
    assert_eq!(levels, [(MIB, MIB), (0, MIB), (0, 0)]);
}

/// Older versions have no columns of what is active, and write totals with three digits.
#[test]
fn rounded_totals_make_no_noise() {
    let header = "Name,Size(KB),Allocation Time(us),Release Time(us),Duration(us),Allocation Total Allocated(MB),\
                  Allocation Total Reserved(MB),Release Total Allocated(MB),Release Total Reserved(MB),Device Type\n";
    // 8.5 KiB over 12 000 MiB are 12000.0083; 0.5 KiB more are 12000.0088.
    let rows = "aten::a,8.5,1.000\t,4.000\t,3,12000.008,13024.0,12000.0,13024.0,NPU:0\n\
                aten::b,0.5,2.000\t,3.000\t,1,12000.009,13024.0,12000.008,13024.0,NPU:0\n";
    let snapshot = read(format!("{header}{rows}").as_bytes()).unwrap();
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    assert_eq!(replay.allocations().len(), 3, "the two blocks, and what was there before");
    // A thousandth of a MiB is 1048 bytes.
    assert_eq!(snapshot.totals(DeviceId(0)).resolution(), 1048);
    let base = replay.counters(Moment::START).allocated;
    assert!((base - 12_000 * MIB).abs() <= 1048, "{base}");
    let levels: Vec<_> = replay.all_counters().map(|counters| counters.allocated - base).collect();
    assert_eq!(levels, [8704, 9216, 8704, 0]);
    assert!(!snapshot.has_active(DeviceId(0)) && snapshot.has_reserved(DeviceId(0)));
}

/// 30 GiB for 0.2 ms among 100 000 rows: the highest there is, and it is seen.
#[test]
fn a_short_spike_is_not_lost() {
    use std::fmt::Write;
    let mut table = HEADER.to_owned();
    for row in 0..100_000_u64 {
        let time = 1_790_000_000_000_000 + 10 * row;
        // The totals of rows inside the spike include it.
        let base = if (61_804..61_824).contains(&row) { 30_770 } else { 50 };
        writeln!(
            table,
            "aten::mul,1,{time}.000\t,{}.000\t,,,,{base}.0009765625,30900.0,,{base}.0,30900.0,,6,NPU:0",
            time + 5
        )
        .unwrap();
        if row == 61_803 {
            let (from, to) = (time + 6, time + 206);
            writeln!(
                table,
                "aten::cat,31457280,{from}.250\t,{to}.250\t,,,,30770.0,30900.0,,50.0,99.0,,6,NPU:0"
            )
            .unwrap();
        }
    }
    let snapshot = read(table.as_bytes()).unwrap();
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    let peak = replay.peak(Counter::Allocated);
    // 30 720 MiB over 50 MiB; while it lives, 1 KiB comes and goes.
    assert_eq!(peak.bytes, 30_770 * MIB + 1024);
    let (_, max) = replay.extremes(Moment(0), replay.end());
    assert_eq!(max.allocated, peak.bytes, "and in the extremes that charts are drawn from");
    let operator = replay
        .state(peak.at)
        .live
        .iter()
        .map(|&index| replay.allocation(index))
        .max_by_key(|a| a.size)
        .unwrap();
    let frame = snapshot.frames(operator.stack).next().unwrap();
    assert_eq!((snapshot.text(frame.name), operator.size as i64), ("aten::cat", 30_720 * MIB));
}

#[test]
fn a_cut_table_knows_it() {
    let table = format!("{HEADER}aten::mul,1,10.000\t,,,,,1.0,2.0,1.0,,,,6,NPU:0\r\naten::add,1,20.0");
    let snapshot = read(table.as_bytes()).unwrap();
    let damage = snapshot.damage.clone().unwrap();
    assert_eq!(
        (damage.offset, damage.reason.as_str()),
        (table.len() as u64, "operator_memory.csv ends inside row 3")
    );
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    assert_eq!((replay.events(), replay.verdict().status), (1, Status::Truncated));
    let error = read(format!("{HEADER}nothing here\n").as_bytes()).unwrap_err().to_string();
    assert!(error.contains("operator_memory.csv: 1 rows are left out, the first is row 2"), "{error}");
}

/// The database has the rows of the tables, in bytes and nanoseconds.
#[test]
fn every_total_of_the_database() {
    let bytes = input(&format!("{OUTPUT}/ascend_pytorch_profiler_0.db"));
    let snapshot = read(&bytes).unwrap();
    assert_eq!((snapshot.format.as_str(), snapshot.rank), ("Ascend profile, SQLite", Some(0)));
    check_totals(&snapshot);
    let tables = fixture();
    let (a, b) = (snapshot.events(DeviceId(0)), tables.events(DeviceId(0)));
    assert!(a.actions().eq(b.actions()));
    assert_eq!(a.sizes(), b.sizes());
}

const GIB: i64 = 1 << 30;

/// SQLite itself wrote it, with pages of 512 bytes, so that its trees are three pages deep and a text of 3000
/// bytes goes on in other pages: 1000 blocks of 512 to 3584 bytes, one after another, over 1 GiB.
#[test]
fn a_database_with_everything() {
    let bytes = input("ascend_db/ascend_pytorch_profiler.db");
    let snapshot = read(&bytes).unwrap();
    assert_eq!(
        snapshot.warnings,
        ["OP_MEMORY: 1 rows are left out, the first is row 1002: it has no size or no time"]
    );
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    let mut expected: Vec<i64> = Vec::new();
    for row in 0..1000 {
        expected.extend([GIB + 512 * (row % 7 + 1), GIB]);
    }
    // 1 MiB that stays; then 4 KiB from before go, which only MEMORY_RECORD shows.
    expected.extend([GIB + MIB, GIB + MIB - 4096]);
    assert_eq!(replay.all_counters().map(|counters| counters.allocated).collect::<Vec<_>>(), expected);
    assert_eq!(replay.verdict().status, Status::EventsSkipped);
    let graph = Device::new(snapshot.clone(), DeviceId(1024));
    assert_eq!(graph.all_counters().map(|counters| counters.allocated).collect::<Vec<_>>(), [9999, 5903]);

    assert_eq!(snapshot.rank, Some(12));
    let outside = snapshot.outside[0];
    assert_eq!((snapshot.text(outside.name), outside.bytes as i64), ("APP", 5 * GIB));
    let stack = |row: usize| -> Vec<&str> {
        let stack = snapshot.events(DeviceId(0)).get(row).stack;
        snapshot.frames(stack).map(|frame| snapshot.text(frame.name)).collect()
    };
    assert_eq!(stack(2000), ["aten::cat", "forward", "main"], "the call chain of the operator that runs");
    assert_eq!(
        (stack(2), stack(20), stack(0)),
        (vec!["aten::cat"], vec![], vec![]),
        "empty and unknown names"
    );
    let spans: Vec<_> =
        replay.spans().iter().map(|span| (snapshot.text(span.name).to_owned(), span.to.0)).collect();
    // The range ends at 600 µs. Marks have whole microseconds, so a block that goes at 600.5 µs is in it.
    assert_eq!(spans, [("generate_sequences".into(), 1202), ("ProfilerStep".into(), 2002)]);
}

/// A page in the middle of OP_MEMORY is overwritten: what comes before it is there, and the page is named.
#[test]
fn a_damaged_page_is_named() {
    let mut bytes = input("ascend_db/ascend_pytorch_profiler.db");
    let page = bytes.len() / 2 / 512;
    bytes[page * 512..(page + 1) * 512].fill(0xee);
    let snapshot = read(&bytes).unwrap();
    let damage = snapshot.damage.clone().unwrap();
    assert_eq!(damage.offset as usize, page * 512);
    let said = format!("OP_MEMORY: page {} of the database is damaged: it is no part of a table", page + 1);
    assert_eq!(damage.reason, said);
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    assert!((100..1900).contains(&replay.events()), "{}", replay.events());

    let error = read(&bytes[..50]).unwrap_err().to_string();
    assert!(error.contains("shorter than its header"), "{error}");
    // Another profiler's database: the name of the table is another one.
    let mut other = input(&format!("{OUTPUT}/ascend_pytorch_profiler_0.db"));
    for name in [&b"OP_MEMORY"[..], b"MEMORY_RECORD"] {
        while let Some(at) = other.windows(name.len()).position(|text| text == name) {
            other[at] = b'X';
        }
    }
    let error = read(&other).unwrap_err().to_string();
    assert!(error.contains("without the tables OP_MEMORY"), "{error}");
}

/// Who lived at the peak of the fixture: two blocks of aten::mul, one of aten::matmul, one of aten::empty_strided,
/// and what was there before.
#[test]
fn what_overlaps_at_the_peak_by_operator() {
    use vramscope_analysis::{GroupBy, overlap};
    let snapshot = fixture();
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    let groups = |from: u32, to: u32| -> Vec<(String, i64, usize)> {
        let found = overlap(&replay, (Moment(from), Moment(to)), GroupBy::Operator, |_, _| true);
        found.into_iter().map(|group| (group.name, group.bytes as i64, group.allocations.len())).collect()
    };
    let expected = [
        ("", 12_000 * MIB, 1),
        ("aten::mul", 256 * MIB + 1024, 2),
        ("aten::matmul", 256 * MIB + 512, 1),
        ("aten::empty_strided", 8704, 1),
    ];
    assert_eq!(groups(4, 4), expected.map(|(name, bytes, count)| (name.to_owned(), bytes, count)));
    // From after the peak to the end of the next event but one: the blocks of mul are still there at its beginning.
    let names: Vec<_> = groups(5, 8).into_iter().map(|(name, _, count)| (name, count)).collect();
    let expected = [("", 1), ("aten::matmul", 1), ("aten::mul", 1), ("npu::npu_fusion_attention", 1)];
    let expected = [&expected[..], &[("aten::empty_strided", 1), ("aten::add", 1)]].concat();
    assert_eq!(names, expected.into_iter().map(|(name, count)| (name.to_owned(), count)).collect::<Vec<_>>());
}
