//! Traces of PyTorch's profiler: the level is that of the totals which the trace states.

use crate::common;
use crate::common::{input, read};
use serde_json::Value;
use vramscope_analysis::{Counter, Device, Moment, Status, user_frame, verdict_notes};
use vramscope_snapshot::{Action, DeviceId};

/// The fixture is what PyTorch 2.15 wrote on a CPU. Each of its 227 events states the total after it.
#[test]
fn every_total_of_a_real_trace() {
    let bytes = input("kineto/t.json.xz");
    let snapshot = read(&bytes).unwrap();
    assert_eq!(snapshot.format, "xz, Kineto trace");
    let replay = Device::new(snapshot.clone(), DeviceId::HOST);

    let trace: Value = serde_json::from_slice(&common::unpack(&bytes)).unwrap();
    let stated: Vec<i64> = trace["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["name"] == "[memory]")
        .map(|event| event["args"]["Total Allocated"].as_i64().unwrap())
        .collect();
    assert_eq!(stated.len(), 227);
    let allocated: Vec<i64> = replay.all_counters().map(|counters| counters.allocated).collect();
    assert_eq!(allocated, stated);
    assert_eq!(replay.peak(Counter::Allocated).bytes, *stated.iter().max().unwrap());
    // It starts from nothing, and so nothing is missing.
    assert_eq!(replay.verdict().status, Status::Exact);
    assert!(!snapshot.has_reserved(DeviceId::HOST), "a CPU reserves nothing that could be stated");

    // The first event is at baseTimeNanoseconds 1790857026000000000 + 3868850436877.855 µs.
    let events = snapshot.events(DeviceId::HOST);
    assert_eq!(events.time_ns(0), Some(1_794_725_876_436_877_855));
    // It lies in aten::empty, in aten::randn, in line 5 of the script.
    let names: Vec<_> = snapshot.frames(events.get(0).stack).map(|frame| snapshot.text(frame.name)).collect();
    assert_eq!(names[..2], ["aten::empty", "aten::randn"]);
    let user = user_frame(&snapshot, events.get(0).stack).unwrap();
    assert_eq!((snapshot.text(user.file), user.line), ("kineto.py", 5));
}

/// A GPU whose allocator holds 1000 bytes when the profile begins.
///
/// | µs | what | allocated after it | reserved |
/// |---:|---|---:|---:|
/// | 10 | alloc 512 at 0x100 | 1512 | 4096 |
/// | 20 | free of 300 that no event allocated | 1212 | 4096 |
/// | 30 | alloc 2048 at 0x200 | 3260 | 8192 |
/// | 40 | out of memory: 9999 | 3260 | 8192 |
/// | 50 | free of 2048 | 1212 | 8192 |
const LATE: &str = r#"{"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
 "baseTimeNanoseconds": 1000000000000, "traceEvents": [
 {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "pid": 1, "tid": 1, "ts": 5, "dur": 30},
 {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#8", "pid": 1, "tid": 1, "ts": 35, "dur": 20},
 {"ph": "X", "cat": "cpu_op", "name": "aten::empty", "pid": 1, "tid": 1, "ts": 9, "dur": 2.5},
 {"ph": "X", "cat": "python_function", "name": "model.py(10): forward", "pid": 1, "tid": 1, "ts": 8, "dur": 40},
 {"ph": "X", "cat": "cpu_op", "name": "aten::elsewhere", "pid": 1, "tid": 2, "ts": 0, "dur": 100},
 {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 30.0015, "args": {"Bytes": 2048, "Addr": 512,
   "Device Type": 1, "Device Id": 0, "Total Allocated": 3260, "Total Reserved": 8192}},
 {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 10, "args": {"Bytes": 512, "Addr": 256,
   "Device Type": 1, "Device Id": 0, "Total Allocated": 1512, "Total Reserved": 4096}},
 {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 20, "args": {"Bytes": -300, "Addr": 768,
   "Device Type": 1, "Device Id": 0, "Total Allocated": 1212, "Total Reserved": 4096}},
 {"ph": "i", "name": "[OutOfMemory]", "pid": 1, "tid": 1, "ts": 40, "args": {"Bytes": 9999,
   "Device Type": 1, "Device Id": 0, "Total Allocated": 3260, "Total Reserved": 8192}},
 {"ph": "i", "name": "[memory]", "pid": 1, "tid": 9, "ts": 50, "args": {"Bytes": -2048, "Addr": 512,
   "Device Type": 1, "Device Id": 0, "Total Allocated": 1212, "Total Reserved": 8192}},
 {"ph": "i", "name": "[memory]", "pid": 1, "tid": 9, "ts": 51, "args": {"Bytes": 64, "Addr": 1,
   "Device Type": 0, "Device Id": -1, "Total Allocated": 64, "Total Reserved": 0}}]}"#;

#[test]
fn a_profile_that_begins_late_has_the_right_level() {
    let snapshot = read(LATE.as_bytes()).unwrap();
    let gpu = DeviceId(0);
    assert_eq!(snapshot.devices(), [DeviceId::HOST, gpu], "kinds of devices are told apart");
    assert_eq!((snapshot.device_name(gpu), snapshot.rank), ("GPU 0".into(), Some(3)));
    let replay = Device::new(snapshot.clone(), gpu);
    let levels: Vec<_> =
        replay.all_counters().map(|counters| (counters.allocated, counters.reserved)).collect();
    assert_eq!(levels, [(1512, 4096), (1212, 4096), (3260, 8192), (3260, 8192), (1212, 8192)]);
    assert_eq!(replay.counters(Moment::START).allocated, 1000);
    assert_eq!(replay.peak(Counter::Allocated).bytes, 3260);

    // At the peak: 700 of the 1000 from before are left, and both blocks of the trace.
    let mut live: Vec<_> = replay
        .state(replay.peak(Counter::Allocated).at)
        .live
        .iter()
        .map(|&index| (replay.allocation(index).size, replay.allocation(index).opened.event().is_some()))
        .collect();
    live.sort_unstable();
    assert_eq!(live, [(512, true), (700, false), (2048, true)]);

    assert_eq!(replay.verdict().status, Status::LateStart);
    let note = &verdict_notes(replay.verdict(), &vramscope_format::size)[0];
    assert!(note.starts_with("700 B were in use before the first event"), "{note}");
    assert_eq!((replay.ooms()[0].event.0, replay.ooms()[0].requested), (3, 9999));
}

#[test]
fn stacks_are_those_of_the_thread_and_steps_are_spans() {
    let snapshot = read(LATE.as_bytes()).unwrap();
    let events = snapshot.events(DeviceId(0));
    let stack = |row: usize| -> Vec<&str> {
        snapshot.frames(events.get(row).stack).map(|frame| snapshot.text(frame.name)).collect()
    };
    assert_eq!(stack(0), ["aten::empty", "forward"], "innermost first");
    assert_eq!(stack(2), ["forward"], "the operator is over");
    assert!(stack(4).is_empty(), "thread 9 runs nothing that is in the trace");
    assert_eq!(events.time_ns(2), Some(1_000_000_000_000 + 30_001), "to the nanosecond");
    assert_eq!(events.get(1).action, Action::FreeCompleted);

    let steps: Vec<_> = Device::new(snapshot.clone(), DeviceId(0))
        .spans()
        .iter()
        .map(|span| (snapshot.text(span.name).to_owned(), span.nth, span.from.0, span.to.0))
        .collect();
    assert_eq!(steps, [("ProfilerStep".into(), 0, 0, 3), ("ProfilerStep".into(), 1, 3, 5)]);
}

#[test]
fn a_trace_without_memory_says_how_to_record_it() {
    let trace =
        r#"{"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "aten::add", "ts": 1, "dur": 2}]}"#;
    let error = read(trace.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("profile_memory=True"), "{error}");
    let cut = &LATE[..LATE.find("\"ts\": 20").unwrap()];
    let snapshot = read(cut.as_bytes()).unwrap();
    assert_eq!(snapshot.events(DeviceId(0)).len(), 2, "what is intact of a cut file");
    assert_eq!(snapshot.damage.unwrap().offset, cut.len() as u64);
    let error = read(br#"{"traceEvents": [{"ph": "X"} {"#).unwrap_err().to_string();
    assert!(error.contains("damaged at byte 29: a comma"), "{error}");
}

/// Rows lack what the totals show: 100 bytes come and go unseen, and the end of a block is not written.
#[test]
fn what_no_event_explains_is_still_in_the_level() {
    let event = |ts: u32, bytes: i32, addr: u32, total: u32| {
        format!(
            r#"{{"name": "[memory]", "ph": "i", "tid": "main", "ts": {ts}, "args": {{"Bytes": {bytes}, "Addr": {addr},
              "Device Type": 20, "Device Id": 0, "Total Allocated": {total}}}}}"#
        )
    };
    let events = [
        event(1, 50, 1, 50),
        event(2, 10, 2, 160),
        event(3, 10, 3, 70),
        event(4, -10, 3, 10),
        event(5, 5, 4, 15),
    ];
    let snapshot = read(format!("{{\"traceEvents\": [{}]}}", events.join(",")).as_bytes()).unwrap();
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    let levels: Vec<_> = replay.all_counters().map(|counters| counters.allocated).collect();
    assert_eq!(levels, [50, 160, 70, 10, 15]);
    // At event 4 the 50 bytes of address 1 are gone, though no event frees them.
    let ended: Vec<_> = replay
        .allocations()
        .iter()
        .filter(|(_, block)| block.addr == 1)
        .map(|(_, block)| block.closed.0)
        .collect();
    assert_eq!(ended, [4]);
    assert_eq!(replay.verdict().status, Status::EventsSkipped);
    for at in 0..=5 {
        let state = replay.state(Moment(at));
        let sum: u64 = state.live.iter().map(|&index| replay.allocation(index).size).sum();
        assert_eq!(sum as i64, state.counters.active, "what lives adds up at {at}");
    }
}

/// What `deviceProperties` states of each accelerator is its capacity; a device without a number is none.
#[test]
fn the_memory_of_a_device_is_told() {
    let devices = r#""schemaVersion": 1, "deviceProperties": [
        {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85029158912, "numSms": 132},
        {"name": "?", "totalGlobalMem": 7}],"#;
    let trace = LATE.replacen(r#""schemaVersion": 1,"#, devices, 1);
    assert_eq!(read(trace.as_bytes()).unwrap().capacities, [(DeviceId(0), 85_029_158_912)]);
    assert_eq!(read(LATE.as_bytes()).unwrap().capacities, []);
}
