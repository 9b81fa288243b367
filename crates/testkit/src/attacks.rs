//! Hand-made hostile files: each aims at one way in which a reader could crash, hang, eat all memory, run code,
//! or count wrongly. None is larger than some 60 MB, most are under a kilobyte.
//!
//! What a reader owes for each of them: no panic, no more time and memory than the size of the file explains,
//! and either an answer with a warning or an error that names the place.

mod databases;

use crate::damage::OPCODES;
use crate::pickle::{Dialect, pickle};
use crate::value::{Record, Value, block, event, segment, snapshot};

/// Every attack with its name.
pub fn all() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = sharing();
    all.extend(lengths());
    all.extend(nesting());
    all.extend(memo());
    all.extend(code());
    all.extend(numbers());
    all.extend(collisions());
    all.extend(texts());
    all.extend(underflows());
    all.extend(databases::all());
    all
}

/// Every opcode on an empty stack, with zeros or an empty line for its argument.
fn underflows() -> Vec<(&'static str, Vec<u8>)> {
    let attack = |opcode: &u8| {
        let name: &'static str = format!("opcode {opcode:#04x} on an empty stack").leak();
        (name, vec![0x80, 4, *opcode, 0, 0, 0, 0, b'\n', 0, 0, 0, b'\n', b'.'])
    };
    OPCODES.iter().map(attack).collect()
}

/// The bytes of a snapshot up to the value of `device_traces`, for traces written by hand.
fn before_traces() -> Vec<u8> {
    b"\x80\x04}\x94(\x8c\x08segments\x94]\x94\x8c\x0ddevice_traces\x94".to_vec()
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Small files that stand for enormous data.
fn sharing() -> Vec<(&'static str, Vec<u8>)> {
    // Memo 0 is the innermost list; every level holds the level below twice.
    let mut doubling = b"\x80\x04]\x94".to_vec();
    for level in 0..40u8 {
        doubling.extend([b'0', b']', 0x94, b'(', b'h', level, b'h', level, b'e']);
    }
    let mut in_snapshot = before_traces();
    in_snapshot.extend(b"]\x94K\x01a");
    for level in 0..40u8 {
        in_snapshot.extend([b'0', b']', 0x94, b'(', b'h', level + 4, b'h', level + 4, b'e']);
    }
    in_snapshot.extend(b"u.");
    doubling.push(b'.');
    let trace = Value::list((0..1000).map(|i| event("alloc", i << 20, 512).time(1)));
    let traces = Value::list(std::iter::repeat_n(trace, 100_000));
    let nothing: [Record; 0] = [];
    let same_trace = snapshot(nothing.clone(), [nothing.clone()]).set("device_traces", traces);
    let blocks = Value::list((0..2000).map(|i| block("active_allocated", i * 512, 512, 500)));
    let segments = (0..20_000).map(|i| segment(i << 30, []).set("blocks", blocks.clone()));
    let same_blocks = snapshot(segments, [nothing.clone()]);
    let same_event = Value::from(event("alloc", 512, 512).time(1));
    let events = Value::list(std::iter::repeat_n(same_event, 1_000_000));
    let repeated = snapshot(nothing.clone(), [nothing.clone()]).set("device_traces", Value::list([events]));
    let stack = Value::list(std::iter::repeat_n(crate::value::frame("f", "f.py", 1), 10_000));
    let long_stack: Vec<_> = (0..20_000).map(|i| event("alloc", i * 512, 512).frames(&stack)).collect();
    let one_event = Value::from(event("alloc", 512, 512).time(1));
    let one_trace = Value::list(std::iter::repeat_n(one_event, 20_000));
    let squared = Value::list(std::iter::repeat_n(one_trace, 20_000));
    let squared = snapshot(nothing.clone(), [nothing.clone()]).set("device_traces", squared);
    let text = Value::text(&"t".repeat(60_000));
    let chunks = Value::list(std::iter::repeat_n(text, 30_000));
    let joined = snapshot(nothing.clone(), [[event("alloc", 512, 512).set("forward_frames", chunks)]]);
    let cpp = |i| Value::list([Value::text(&format!("at::f{i}"))]);
    let cpp: Vec<_> =
        (0..5000).map(|i| event("alloc", i * 512, 512).frames(&stack).set("cpp_frames", cpp(i))).collect();
    let cpython = |record: Record| pickle(&record.into(), Dialect::Protocol(4));
    vec![
        ("one trace of one event 20 000 times as 20 000 devices", cpython(squared)),
        ("one text of 60 000 characters joined 30 000 times", cpython(joined)),
        ("one stack of 10 000 frames with 5000 C++ frames", cpython(snapshot(nothing.clone(), [cpp]))),
        ("lists of lists by GET, doubling 40 times", doubling),
        ("device_traces doubling 40 times", in_snapshot),
        ("one trace of 1000 events as 100 000 devices", cpython(same_trace)),
        ("one list of 2000 blocks in 20 000 segments", cpython(same_blocks)),
        ("one event object 1 000 000 times", cpython(repeated)),
        ("one stack of 10 000 frames on 20 000 events", cpython(snapshot(nothing, [long_stack]))),
    ]
}

/// Lengths that the file does not have.
fn lengths() -> Vec<(&'static str, Vec<u8>)> {
    let opcode = |opcode: u8, len: &[u8]| join(&[b"\x80\x04", &[opcode], len, b"abc."]);
    let (huge, most) = ((1u64 << 60).to_le_bytes(), u64::MAX.to_le_bytes());
    let int = i32::MAX.to_le_bytes();
    vec![
        ("BINUNICODE8 of 2^60 bytes", opcode(0x8d, &huge)),
        ("BINUNICODE8 of 2^64-1 bytes", opcode(0x8d, &most)),
        ("BINUNICODE of 2^32-1 bytes", opcode(b'X', &[0xff; 4])),
        ("BINBYTES8 of 2^60 bytes", opcode(0x8e, &huge)),
        ("BYTEARRAY8 of 2^60 bytes", opcode(0x96, &huge)),
        ("LONG4 of 2^31-1 bytes", opcode(0x8b, &int)),
        ("LONG4 of -1 bytes", opcode(0x8b, &[0xff; 4])),
        ("BINSTRING of -1 bytes", opcode(b'T', &[0xff; 4])),
        ("FRAME of 2^63 bytes", opcode(0x95, &(1u64 << 63).to_le_bytes())),
        ("FRAME of 2^64-1 bytes", opcode(0x95, &most)),
        (
            "FRAME of 0 bytes, a million times",
            join(&[b"\x80\x04", &[0x95, 0, 0, 0, 0, 0, 0, 0, 0].repeat(1_000_000), b"N."]),
        ),
        ("INT without an end of line", join(&[b"I", &b"1".repeat(1_000_000)])),
        ("LONG of a million digits", join(&[b"L", &b"9".repeat(1_000_000), b"L\n."])),
        ("UNICODE without an end of line", join(&[b"V", &b"a".repeat(1_000_000)])),
    ]
}

/// Depth that a recursive reader does not survive.
fn nesting() -> Vec<(&'static str, Vec<u8>)> {
    const MILLION: usize = 1_000_000;
    let pickled = |start: &[u8], end: &[u8]| {
        join(&[b"\x80\x04", &start.repeat(MILLION), &end.repeat(MILLION - 1), b"."])
    };
    let dict = |depth: usize| {
        join(&[b"\x80\x04\x8c\x01a\x940", &b"}h\0".repeat(depth), b"N", &b"s".repeat(depth), b"."])
    };
    let json = |start: &str, end: &str| (start.repeat(MILLION) + &end.repeat(MILLION)).into_bytes();
    vec![
        ("a million nested lists", pickled(b"]", b"a")),
        ("a million nested tuples", join(&[b"\x80\x04)", &[0x85].repeat(MILLION), b"."])),
        ("a million nested dicts", dict(MILLION)),
        ("a million marks", join(&[b"\x80\x04", &b"(".repeat(MILLION), b"."])),
        (
            "a million marks, closed as tuples",
            join(&[b"\x80\x04", &b"(".repeat(MILLION), &b"t".repeat(MILLION), b"."]),
        ),
        (
            "a million nested lists in device_traces",
            join(&[&before_traces(), &b"]".repeat(MILLION), &b"a".repeat(MILLION - 1), b"u."]),
        ),
        ("a million objects on the stack", join(&[b"\x80\x04", &b"N".repeat(MILLION), b"."])),
        ("a million DUPs", join(&[b"\x80\x04]", &b"2".repeat(MILLION), b"."])),
        ("JSON: a million nested arrays", json("[", "]")),
        ("JSON: a million nested arrays, not closed", json("[", "")),
        ("JSON: a million nested objects", json("{\"segments\":", "}")),
    ]
}

/// The memo, wrongly used.
fn memo() -> Vec<(&'static str, Vec<u8>)> {
    let far = b"\x80\x02Nr\xff\xff\xff\xff.".to_vec();
    let mut sparse = b"\x80\x02]".to_vec();
    for i in 0..1000u32 {
        sparse.push(b'r');
        sparse.extend((i * 4_000_000).to_le_bytes());
    }
    sparse.push(b'.');
    let itself = before_traces().into_iter().chain(*b"]\x94(h\x04h\x04eu.").collect();
    vec![
        ("a list that contains itself", b"\x80\x04]\x94h\0a.".to_vec()),
        ("a dict that is its own value", b"\x80\x04}\x94\x8c\x08segments\x94h\0s.".to_vec()),
        ("a dict that is its own device_traces", b"\x80\x04}\x94\x8c\x0ddevice_traces\x94h\0s.".to_vec()),
        ("device_traces that contains itself", itself),
        ("a tuple that contains itself", b"\x80\x04]\x94(h\0t\x94a0h\x01.".to_vec()),
        ("a frames list that contains itself", join(&[&before_traces(), b"]]}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x01\x8c\x04sizeK\x01\x8c\x06frames]\x94h\x04auaau."])),
        ("LONG_BINPUT at 2^32-1", far),
        ("LONG_BINPUT at a thousand places 4 000 000 apart", sparse),
        ("PUT at 10^30", b"Np1000000000000000000000000000000\n.".to_vec()),
        ("PUT at -1", b"Np-1\n.".to_vec()),
        ("GET of nothing", b"\x80\x04h\x07.".to_vec()),
        ("LONG_BINGET of nothing", b"\x80\x04j\xff\xff\xff\xff.".to_vec()),
        ("GET of text", b"gabc\n.".to_vec()),
        ("MEMOIZE of nothing", b"\x80\x04\x94.".to_vec()),
        ("MEMOIZE of a mark", b"\x80\x04(\x94h\0.".to_vec()),
    ]
}

/// Pickles that make CPython call something.
fn code() -> Vec<(&'static str, Vec<u8>)> {
    let in_trace = |object: &[u8]| join(&[&before_traces(), b"](](}(\x8c\x06action", object, b"ueeu."]);
    vec![
        ("GLOBAL os system, REDUCE", b"cos\nsystem\n(S'touch /tmp/vramscope-was-here'\ntR.".to_vec()),
        (
            "STACK_GLOBAL builtins eval, REDUCE",
            b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.".to_vec(),
        ),
        ("GLOBAL inside a trace", in_trace(b"cos\nsystem\n(\x8c\x02idtR")),
        (
            "restore_type_tag with too few arguments",
            b"\x80\x02ctorch.jit._pickle\nrestore_type_tag\n)R.".to_vec(),
        ),
        ("restore_type_tag on no tuple", b"\x80\x02ctorch.jit._pickle\nrestore_type_tag\n]R.".to_vec()),
        ("restore_type_tag as data", b"\x80\x02ctorch.jit._pickle\nrestore_type_tag\n.".to_vec()),
        (
            "restore_type_tag with an attribute",
            b"\x80\x02ctorch.jit._pickle\nrestore_type_tag.__globals__\n]X\x01\0\0\0a\x86R.".to_vec(),
        ),
        ("BUILD", b"\x80\x04}}b.".to_vec()),
        ("INST", b"(S'id'\nios\nsystem\n.".to_vec()),
        ("OBJ", b"(cos\nsystem\nS'id'\no.".to_vec()),
        ("NEWOBJ", b"\x80\x04cos\nsystem\n)\x81.".to_vec()),
        ("NEWOBJ_EX", b"\x80\x04cos\nsystem\n)}\x92.".to_vec()),
        ("EXT1", b"\x80\x02\x82\x01.".to_vec()),
        ("EXT2", b"\x80\x02\x83\x01\x01.".to_vec()),
        ("EXT4", b"\x80\x02\x84\xff\xff\xff\x7f.".to_vec()),
        ("PERSID", b"Pabc\n.".to_vec()),
        ("BINPERSID", b"\x80\x02K\x01Q.".to_vec()),
        ("NEXT_BUFFER", b"\x80\x05\x97.".to_vec()),
        ("READONLY_BUFFER", b"\x80\x05]\x98.".to_vec()),
        ("an unknown opcode", b"\x80\x04\xf3.".to_vec()),
        ("protocol 255", b"\x80\xff].".to_vec()),
        ("a set as segments", b"\x80\x04}\x8c\x08segments\x8f(K\x01\x90s.".to_vec()),
    ]
}

fn trace(events: impl IntoIterator<Item = Record>) -> Vec<u8> {
    pickle(&snapshot([], [events]).into(), Dialect::Protocol(4))
}

/// Integers at and over every edge.
fn numbers() -> Vec<(&'static str, Vec<u8>)> {
    let most = i64::MAX as u64;
    let raw_int = |int: &[u8]| {
        join(&[
            &before_traces(),
            b"](](}(\x8c\x06action\x8c\x05alloc\x8c\x04addr",
            int,
            b"\x8c\x04size",
            int,
            b"ueeu.",
        ])
    };
    let long4 = |len: u32, byte: u8| join(&[&[0x8b], &len.to_le_bytes(), &vec![byte; len as usize]]);
    let negative = |action, addr: i64| event(action, 0, 0).set("addr", addr).set("size", -512);
    let wrong = |key: &str, value: Value| trace([event("alloc", 4096, 512).set(key, value)]);
    let huge = |i| block("active_allocated", i, most, most);
    let sums = [segment(0, [huge(0), huge(1), huge(2)]), segment(1 << 63, [huge(5), huge(6)])];
    vec![
        (
            "negative sizes",
            trace([negative("segment_alloc", 4096), negative("alloc", 4096), negative("free_completed", -1)]),
        ),
        ("sizes of 2^63-1", trace((0..8).map(|i| event("alloc", i << 12, most)))),
        (
            "sizes of 2^64-1",
            trace((0..8).map(|i| event(if i % 2 == 0 { "segment_map" } else { "alloc" }, i << 12, u64::MAX))),
        ),
        ("addresses from 2^63 on", trace((0..8).map(|i| event("alloc", u64::MAX - i * 512, 512)))),
        ("segment sums that overflow", pickle(&snapshot(sums, [[]]).into(), Dialect::Protocol(4))),
        ("9-byte LONG1", raw_int(b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00")),
        ("300-byte LONG4", raw_int(&long4(300, 0x7f))),
        ("300-byte negative LONG4", raw_int(&long4(300, 0x80))),
        ("300-byte LONG4 of value 0", raw_int(&long4(300, 0))),
        ("255-byte LONG1", raw_int(&join(&[&[0x8a, 255], &[0x80; 255]]))),
        ("LONG1 of no bytes", raw_int(b"\x8a\0")),
        (
            "time going backwards",
            trace((0..1000).map(|i| event("alloc", i as u64 * 512, 512).time(1_000_000 - i * 997))),
        ),
        ("times at the edges", trace([i64::MIN, i64::MAX, 0, -1].map(|t| event("alloc", 512, 512).time(t)))),
        ("a size that is a float", wrong("size", Value::from(1e300))),
        ("a size that is NaN", wrong("size", Value::from(f64::NAN))),
        ("a size that is a string", wrong("size", Value::from("512"))),
        ("a size that is None", wrong("size", Value::None)),
        ("an action that is a list", wrong("action", Value::list(["alloc"]))),
        ("frames that are a number", wrong("frames", Value::from(5))),
        ("frames of numbers", wrong("frames", Value::list([1, 2, 3]))),
        ("a pool of one number", wrong("pool_id", Value::tuple([1]))),
        ("a pool of huge numbers", wrong("pool_id", Value::tuple([u64::MAX, u64::MAX]))),
        ("a stream of 2^64-1", wrong("stream", Value::from(u64::MAX))),
        ("a line number of -2^63", wrong("frames", Value::list([Value::dict([("line", i64::MIN)])]))),
        (
            "a device that is not there",
            pickle(&snapshot([segment(0, []).set("device", u64::MAX)], [[]]).into(), Dialect::Protocol(4)),
        ),
        (
            "device -1",
            pickle(&snapshot([segment(0, []).set("device", -1)], [[]]).into(), Dialect::Protocol(4)),
        ),
    ]
}

/// Events and segments that cannot have happened.
fn collisions() -> Vec<(&'static str, Vec<u8>)> {
    const MIB: u64 = 1 << 20;
    let overlapping = (0..10_000).map(|i| event("alloc", i * 256, 4096 + i));
    let nested = (0..10_000).map(|i| event("segment_alloc", i * 512, 100 * MIB));
    let orphans = (0..10_000).map(|i| {
        event(
            ["free_requested", "free_completed", "segment_free", "segment_unmap"][i as usize % 4],
            i << 12,
            512,
        )
    });
    let twice = (0..10_000).flat_map(|i| {
        [
            event("alloc", i << 12, 512),
            event("free_completed", i << 12, 512),
            event("free_completed", i << 12, 512),
        ]
    });
    let same = (0..1_000_000).map(|i| event("alloc", 4096, 512 + i));
    let holes = (0..10_000).map(|i| {
        event(if i % 2 == 0 { "segment_map" } else { "segment_unmap" }, (i * 7919 % 10_000) * MIB, 4 * MIB)
    });
    let segments = (0..10_000u64).map(|i| {
        segment(i << 9, [block("active_allocated", 0, MIB, MIB), block("inactive", u64::MAX, MIB, 1)])
    });
    let states = ["active_allocated", "inactive", "active_pending_free", "nonsense"];
    let odd_blocks = states.map(|state| block(state, 4096, 0, 0));
    let cpython = |segments: Vec<Record>| pickle(&snapshot(segments, [[]]).into(), Dialect::Protocol(4));
    vec![
        ("overlapping allocs", trace(overlapping)),
        ("overlapping segments", trace(nested)),
        ("frees of nothing", trace(orphans)),
        ("double frees", trace(twice)),
        ("a million allocs at one address", trace(same)),
        ("maps and unmaps that overlap", trace(holes)),
        ("overlapping segments with blocks elsewhere", cpython(segments.collect())),
        ("empty blocks at one address", cpython(vec![segment(4096, odd_blocks)])),
        ("a segment of size 0 ten thousand times", cpython(vec![segment(0, []); 10_000])),
    ]
}

/// Strings, JSON and HTML.
fn texts() -> Vec<(&'static str, Vec<u8>)> {
    let event_text = |action: &[u8]| join(&[&before_traces(), b"](](}(\x8c\x06action", action, b"ueeu."]);
    let json = |trace: &str| format!("{{\"segments\": [], \"device_traces\": [[{trace}]]}}").into_bytes();
    let html = |base64: &str| {
        format!("<!DOCTYPE html><script>const local_files = [{{\"name\": \"a.pickle\", \"base64\": \"{base64}\"}}]</script>").into_bytes()
    };
    vec![
        ("invalid UTF-8", event_text(b"\x8c\x06\xff\xfe\x80\xc3\xed\xa0")),
        ("UTF-8 of a surrogate", event_text(b"\x8c\x03\xed\xa0\x80")),
        ("a NUL in a string", event_text(b"\x8c\x05al\0oc")),
        ("bytes for a string", event_text(b"C\x05alloc")),
        ("protocol 0 escapes", b"V\\ud800\\udc00\\uZZZZ\\U00110000\\\n.".to_vec()),
        ("protocol 0 numbers", b"(lp0\nI\na.".to_vec()),
        ("protocol 0 float", b"(lp0\nF1e999999\naFnan\naF--1\na.".to_vec()),
        ("terminal escapes", event_text(b"\x8c\x0c\x1b[2J\x1b]0;x\x07\r\n")),
        ("nothing", Vec::new()),
        ("a lone STOP", b".".to_vec()),
        ("PROTO and nothing", b"\x80\x04".to_vec()),
        ("no STOP", b"\x80\x04}\x94".to_vec()),
        ("two pickles", b"\x80\x04}.\x80\x04}.".to_vec()),
        ("zeros", vec![0; 100_000]),
        (
            "JSON: huge numbers",
            json(&format!(
                "{{\"action\": \"alloc\", \"addr\": {}, \"size\": 1e999, \"time_us\": -{}}}",
                "9".repeat(5000),
                "9".repeat(40)
            )),
        ),
        ("JSON: escapes", json(r#"{"action": "\u0000\uD83D\uDE00\/\b\f", "addr": 1, "size": 1}"#)),
        ("JSON: an unpaired surrogate", json(r#"{"action": "\uD800", "addr": 1, "size": "\uDC00\uD800"}"#)),
        ("JSON: bad escapes", json(r#"{"action": "\x41\u12G4\"#)),
        (
            "JSON: the same key twice",
            json(r#"{"action": "alloc", "action": "oom", "addr": 1, "addr": [], "size": 1}"#),
        ),
        ("JSON: NaN", json(r#"{"action": "alloc", "addr": NaN, "size": -Infinity}"#)),
        ("JSON: a trailing comma", json(r#"{"action": "alloc", "addr": 1, "size": 1},"#)),
        ("JSON: cut", br#"{"segments": [], "device_traces": [[{"action": "all"#.to_vec()),
        ("JSON: a byte order mark", [b"\xef\xbb\xbf".to_vec(), json("")].concat()),
        ("HTML: broken base64", html("gAR9lCh!!!!@@@@====abc")),
        ("HTML: base64 of the wrong length", html("gAR9l")),
        (
            "HTML: base64 without an end",
            b"<html>const local_files = [{\"name\":\"a\",\"base64\":\"gAR9".to_vec(),
        ),
        ("HTML: no files", b"<html><body>const local_files = []</body></html>".to_vec()),
        ("HTML: a megabyte of <", b"<".repeat(1 << 20)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_differ_and_files_stay_small() {
        let all = all();
        let names: HashSet<_> = all.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), all.len());
        let largest = all.iter().max_by_key(|(_, bytes)| bytes.len()).unwrap();
        assert!(largest.1.len() < 64 << 20, "{} has {} bytes", largest.0, largest.1.len());
    }
}
