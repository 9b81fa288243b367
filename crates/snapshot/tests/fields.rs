//! Every field of the format: input, question, expected answer. Each case is read from every dialect.

use crate::common;
use vramscope_snapshot::{
    Action, BlockState, DeviceId, EventTable, PoolId, ReadError, SegmentKind, Snapshot, StackId, Stage,
};
use vramscope_testkit::value::{
    Record, annotation, block, event, frame, frames, segment, settings, snapshot,
};
use vramscope_testkit::{Dialect, Value, json, pickle};

const NO_TRACE: [[Record; 0]; 0] = [];

/// Reads a value from every dialect and JSON, and asks the same question of each.
fn in_every_dialect(value: &Value, question: impl Fn(&Snapshot)) {
    let protocols = (0..=5).map(Dialect::Protocol).chain([Dialect::Cpp, Dialect::CppTagged]);
    for dialect in protocols {
        let snapshot =
            common::read(&pickle(value, dialect)).unwrap_or_else(|error| panic!("{dialect:?}: {error}"));
        assert_eq!(snapshot.warnings, [""; 0], "{dialect:?}");
        question(&snapshot);
    }
    question(&common::read(json(value).as_bytes()).unwrap());
}

fn events(snapshot: &Snapshot) -> &EventTable {
    snapshot.trace(DeviceId(0)).unwrap()
}

#[test]
fn an_event_with_everything() {
    let stack = frames(&[frame("forward", "/home/me/model.py", 12), frame("main", "train.py", 3)]);
    let file = snapshot(
        [] as [Record; 0],
        [[event("alloc", 0x7f00_0000_0200, 1000)
            .stream(94_000_000_000)
            .time(1_794_725_346_326_863)
            .set("compile_context", Value::text("Torch-Compiled Region: 0/0"))
            .set("user_metadata", Value::text("layer 3"))
            .pool(0, 7)
            .set("internal_metadata", Value::text("mallocWithAddress"))
            .set("category", Value::text("activation"))
            .frames(&stack)
            .set(
                "forward_frames",
                Value::list([Value::text("File a.py, line 1\n"), Value::text("File b.py, line 2\n")]),
            )]],
    );
    in_every_dialect(&file.into(), |snapshot| {
        let event = events(snapshot).get(0);
        assert_eq!((event.action, event.addr, event.size), (Action::Alloc, 0x7f00_0000_0200, 1000));
        assert_eq!(event.time_us, 1_794_725_346_326_863);
        assert_eq!(snapshot.stream(event.stream), 94_000_000_000);
        assert_eq!(snapshot.pool(event.pool), Some((0, 7)));
        let meta = snapshot.meta(event.meta);
        assert_eq!(snapshot.text(meta.compile_context), "Torch-Compiled Region: 0/0");
        assert_eq!(snapshot.text(meta.user_metadata), "layer 3");
        assert_eq!(snapshot.text(meta.internal_metadata), "mallocWithAddress");
        assert_eq!(snapshot.text(meta.category), "activation");
        assert_eq!(snapshot.text(meta.forward), "File a.py, line 1\nFile b.py, line 2\n");
        let stack: Vec<_> = snapshot
            .frames(event.stack)
            .map(|frame| (snapshot.text(frame.name), snapshot.text(frame.file), frame.line))
            .collect();
        assert_eq!(stack, [("forward", "/home/me/model.py", 12), ("main", "train.py", 3)]);
    });
}

#[test]
fn an_event_with_nothing() {
    let file = snapshot([] as [Record; 0], [[event("free_completed", 512, 100).without("stream")]]);
    in_every_dialect(&file.into(), |snapshot| {
        let event = events(snapshot).get(0);
        assert_eq!(event.stack, StackId::ABSENT);
        assert_eq!(event.pool, PoolId::UNKNOWN);
        assert_eq!(events(snapshot).time_us(0), None);
    });
}

#[test]
fn not_compiled_and_empty_stacks() {
    let file = snapshot(
        [] as [Record; 0],
        [[event("alloc", 512, 1)
            .set("compile_context", Value::text("N/A"))
            .set("frames", Value::list([] as [Value; 0]))]],
    );
    in_every_dialect(&file.into(), |snapshot| {
        let event = events(snapshot).get(0);
        assert_eq!(snapshot.meta(event.meta), vramscope_snapshot::Meta::default());
        assert_eq!(event.stack, StackId::EMPTY);
    });
}

#[test]
fn out_of_memory_has_what_was_free_instead_of_an_address() {
    let oom = event("oom", 0, 1 << 30).without("addr").set("device_free", 123_456_789_i64);
    in_every_dialect(&snapshot([] as [Record; 0], [[oom]]).into(), |snapshot| {
        let event = events(snapshot).get(0);
        assert_eq!((event.action, event.size, event.addr), (Action::Oom, 1 << 30, 123_456_789));
    });
}

#[test]
fn an_action_of_a_later_version_is_kept_with_its_word() {
    let file = pickle(&snapshot([] as [Record; 0], [[event("teleport", 5, 6)]]).into(), Dialect::Protocol(4));
    let snapshot = common::read(&file).unwrap();
    let event = events(&snapshot).get(0);
    assert_eq!(event.action, Action::Unknown);
    assert_eq!(snapshot.text(snapshot.meta(event.meta).unknown_action), "teleport");
    assert_eq!(
        snapshot.warnings,
        ["1 events have an action that this version does not know; kept, without effect on memory"]
    );
}

#[test]
fn segments_blocks_and_settings() {
    let stack = frames(&[frame("f", "a.py", 1)]);
    let blocks = [
        block("active_allocated", 0x20_0000, 512, 100).frames(&stack),
        block("active_pending_free", 0x20_0200, 1024, 1000),
        // The request of a free block is the last tenant's and means nothing.
        block("inactive", 0x20_0600, 0x1f_fa00, 777),
    ];
    let file = snapshot(
        [segment(0x20_0000, blocks)
            .segment_pool(0, 3)
            .stream(9)
            .set("is_expandable", Value::Bool(true))
            .word("segment_type", "small")],
        NO_TRACE,
    )
    .set(
        "allocator_settings",
        settings()
            .set("max_split_size", 33_554_432_i64)
            .set("PYTORCH_CUDA_ALLOC_CONF", Value::text("max_split_size_mb:32")),
    );
    in_every_dialect(&file.into(), |snapshot| {
        let [segment] = snapshot.segments_of(DeviceId(0)) else { panic!("one segment") };
        assert_eq!((segment.addr, segment.total_size), (0x20_0000, 2 << 20));
        assert_eq!((segment.kind, segment.expandable), (SegmentKind::Small, true));
        assert_eq!(snapshot.pool(segment.pool), Some((0, 3)));
        assert_eq!(snapshot.stream(segment.stream), 9);
        let blocks: Vec<_> =
            snapshot.blocks.of(segment).map(|b| (b.addr, b.size, b.requested, b.state)).collect();
        assert_eq!(
            blocks,
            [
                (0x20_0000, 512, 100, BlockState::Allocated),
                (0x20_0200, 1024, 1000, BlockState::PendingFree),
                (0x20_0600, 0x1f_fa00, 0, BlockState::Inactive)
            ]
        );
        assert_eq!(snapshot.settings.max_split_size, Some(32 << 20));
        let conf = snapshot.settings.all.iter().find(|(name, _)| name == "PYTORCH_CUDA_ALLOC_CONF");
        assert_eq!(conf.map(|(_, value)| value.as_str()), Some("max_split_size_mb:32"));
    });
}

#[test]
fn annotations_and_pinned_host_memory() {
    let file = snapshot([] as [Record; 0], [[event("alloc", 512, 1)]])
        .set(
            "external_annotations",
            Value::list([annotation("START", "forward", 5), annotation("END", "forward", 9)]),
        )
        .set("host_segments", Value::list([segment(0x100, [block("active_allocated", 0x100, 256, 256)])]))
        .set("host_traces", Value::list([event("segment_alloc", 0x100, 256), event("alloc", 0x100, 256)]));
    in_every_dialect(&file.into(), |snapshot| {
        let marks: Vec<_> =
            snapshot.annotations.iter().map(|a| (snapshot.text(a.name), a.stage, a.time_us)).collect();
        assert_eq!(marks, [("forward", Stage::Start, 5), ("forward", Stage::End, 9)]);
        assert_eq!(snapshot.devices(), [DeviceId::HOST, DeviceId(0)]);
        assert_eq!(snapshot.trace(DeviceId::HOST).unwrap().len(), 2);
        assert_eq!(snapshot.segments_of(DeviceId::HOST).len(), 1);
    });
}

#[test]
fn frames_of_generated_code_keep_what_fx_knows() {
    let generated = Record::new()
        .word("name", "call")
        .word("filename", "/tmp/c.py")
        .set("line", 4_i64)
        .set("fx_node_op", Value::None)
        .set("fx_node_name", Value::text("addmm"))
        .set("fx_node_target", Value::text("aten.addmm"))
        .set("fx_original_trace", Value::text("File model.py, line 3"));
    let file = snapshot([] as [Record; 0], [[event("alloc", 512, 1).frames(&frames(&[generated.into()]))]]);
    in_every_dialect(&file.into(), |snapshot| {
        let frame = snapshot.frames(events(snapshot).get(0).stack).next().unwrap();
        let fx = snapshot.stacks.fx(frame).unwrap();
        assert_eq!(snapshot.text(fx.op), "");
        assert_eq!(snapshot.text(fx.name), "addmm");
        assert_eq!(snapshot.text(fx.target), "aten.addmm");
        assert_eq!(snapshot.text(fx.original_trace), "File model.py, line 3");
    });
}

/// PyTorch 1.13 and 2.0: no addresses, and the newest tenant of a block in its `history`.
#[test]
fn blocks_before_2_1() {
    let tenant = |size: i64, line| {
        Record::new()
            .set("addr", 0x1000_i64)
            .set("real_size", size)
            .frames(&frames(&[frame("f", "a.py", line)]))
    };
    let old = |state, size: i64| Record::new().set("size", size).word("state", state);
    let file = Value::list([Record::new()
        .set("device", 0_i64)
        .set("address", 0x1000_i64)
        .set("total_size", 4096_i64)
        .set("allocated_size", 2048_i64)
        .set("active_size", 2048_i64)
        .set(
            "blocks",
            Value::list([
                old("active_allocated", 512).set("history", Value::list([tenant(300, 7), tenant(400, 8)])),
                old("inactive", 2048).set("history", Value::list([tenant(5, 9)])),
                old("active_allocated", 1536),
            ]),
        )]);
    in_every_dialect(&file, |snapshot| {
        let [segment] = snapshot.segments_of(DeviceId(0)) else { panic!("one segment") };
        let blocks: Vec<_> = snapshot.blocks.of(segment).map(|b| (b.addr, b.size, b.requested)).collect();
        assert_eq!(blocks, [(0x1000, 512, 300), (0x1200, 2048, 0), (0x1a00, 1536, 1536)]);
        let first = snapshot.blocks.of(segment).next().unwrap();
        assert_eq!(snapshot.frames(first.stack).next().unwrap().line, 7);
    });
}

#[test]
fn addresses_above_2_to_the_63_as_each_writer_spells_them() {
    let high = 0xffff_8000_0000_0000_u64;
    // XPU: an unsigned integer of nine bytes. C++: the same bits as a negative number.
    let unsigned = snapshot([] as [Record; 0], [[event("alloc", 0, 1).set("addr", Value::Int(high.into()))]]);
    let signed =
        snapshot([] as [Record; 0], [[event("alloc", 0, 1).set("addr", Value::Int((high as i64).into()))]]);
    for file in [unsigned, signed] {
        let bytes = pickle(&file.into(), Dialect::Protocol(2));
        assert_eq!(events(&common::read(&bytes).unwrap()).get(0).addr, high);
    }
}

#[test]
fn odd_values_are_counted_and_do_not_stop_the_rest() {
    let odd = [
        event("alloc", 512, 0).set("size", -5_i64),
        event("alloc", 512, 0).set("size", Value::text("many")),
        event("alloc", 512, 0).set("frames", 3_i64),
        event("alloc", 512, 700),
    ];
    let bytes = pickle(&snapshot([] as [Record; 0], [odd]).into(), Dialect::Protocol(4));
    let snapshot = common::read(&bytes).unwrap();
    assert_eq!(events(&snapshot).sizes(), [0, 0, 0, 700]);
    assert_eq!(
        snapshot.warnings,
        [
            "2 sizes are negative, absurdly large or no integers; read as 0 bytes",
            "1 stacks are no lists of frames; read as absent"
        ]
    );
}

#[test]
fn invalid_utf_8_is_replaced() {
    let mut bytes = pickle(
        &snapshot([] as [Record; 0], [[event("alloc", 512, 1).frames(&frames(&[frame("caf?", "a.py", 1)]))]])
            .into(),
        Dialect::Cpp,
    );
    let at = bytes.windows(4).position(|window| window == b"caf?").unwrap();
    bytes[at + 3] = 0xe9;
    let snapshot = common::read(&bytes).unwrap();
    let frame = snapshot.frames(events(&snapshot).get(0).stack).next().unwrap();
    assert_eq!(snapshot.text(frame.name), "caf\u{fffd}");
}

#[test]
fn more_than_a_thousand_frames() {
    let deep: Vec<_> = (0..2500).map(|line| frame("recurse", "deep.py", line)).collect();
    let file = snapshot([] as [Record; 0], [[event("alloc", 512, 1).frames(&frames(&deep))]]);
    in_every_dialect(&file.into(), |snapshot| {
        let stack = events(snapshot).get(0).stack;
        let lines: Vec<_> = snapshot.frames(stack).map(|frame| frame.line).collect();
        assert_eq!(lines, (0..2500).collect::<Vec<_>>());
    });
}

/// Stacks are found again by the bytes that spell them, as long as these mean what they did.
#[test]
fn the_same_references_to_another_frame() {
    let text = |text: &str, number: u8| {
        [&[0x8c, text.len() as u8], text.as_bytes(), &[b'q', number]].concat() // SHORT_BINUNICODE, BINPUT
    };
    let key = |number: u8| vec![b'h', number]; // BINGET
    let byte = |n: u8| vec![b'K', n]; // BININT1
    let list = |items: Vec<Vec<u8>>| [b"](".to_vec(), items.concat(), b"e".to_vec()].concat();
    let dict = |items: Vec<Vec<u8>>| [b"}(".to_vec(), items.concat(), b"u".to_vec()].concat();
    let event = |frames: Vec<Vec<u8>>| {
        dict(vec![key(1), key(2), key(3), byte(64), key(4), byte(8), key(5), list(frames)])
    };
    let first_frame = dict(vec![
        text("name", 6),
        text("forward", 7),
        text("filename", 8),
        text("model.py", 9),
        text("line", 10),
        byte(1),
    ]);
    let other_frame = dict(vec![key(6), key(7), key(8), key(9), key(10), byte(2)]);
    let put = |frame: Vec<u8>| [frame, vec![b'q', 11]].concat();
    let first = dict(vec![
        text("action", 1),
        text("alloc", 2),
        text("addr", 3),
        byte(64),
        text("size", 4),
        byte(8),
        text("frames", 5),
        list(vec![put(first_frame)]),
    ]);
    let references = || event(vec![key(11); 8]);
    let put_anew = event(vec![put(other_frame)]);
    let events = [first, references(), references(), put_anew, references(), references()];
    let top = [text("device_traces", 12), list(vec![list(events.to_vec())])].concat();
    let bytes = [b"\x80\x04}q\x00(".to_vec(), top, b"u.".to_vec()].concat();

    let snapshot = common::read(&bytes).unwrap();
    let lines = |stack| snapshot.frames(stack).map(|frame| frame.line).collect::<Vec<_>>();
    let stacks: Vec<_> = self::events(&snapshot).iter().map(|event| lines(event.stack)).collect();
    assert_eq!(stacks, [vec![1], vec![1; 8], vec![1; 8], vec![2], vec![2; 8], vec![2; 8]]);
}

#[test]
fn code_is_refused_by_name_and_place() {
    // cos\nsystem\n: the classic.
    let error = common::read(b"\x80\x02cos\nsystem\nU\x02lsq\x00\x85R.").unwrap_err();
    assert_eq!(error, ReadError::Refused { name: "os.system".into(), offset: 2 });
    let stack_global = b"\x80\x04\x8c\x05posix\x8c\x06system\x93.";
    let error = common::read(stack_global).unwrap_err();
    assert_eq!(error, ReadError::Refused { name: "posix.system".into(), offset: 17 });
    assert!(error.to_string().starts_with("refused: the pickle wants to load posix.system at byte 17"));
}

#[test]
fn other_things_are_described() {
    let why = |bytes: &[u8]| common::read(bytes).unwrap_err().to_string();
    assert!(why(b"").contains("0 bytes"));
    assert!(why(b"PK\x03\x04rest of a zip").contains("torch.save() checkpoint?"));
    assert!(why(br#"{"weights": []}"#).contains("a dictionary with the keys `weights`"));
    assert!(why(b"[1, 2]").contains("a list, but not of segments"));
    assert!(why(b"<html><img src='data:image/png;base64,AAAA'></html>").contains("only a picture"));
    assert!(why(b"\x80\x04}\x94.").contains("it holds nothing"));
    assert!(why(b"\x80\x04}\x94\xff").contains("damaged at byte 4: unknown pickle opcode 0xff"));
    // A cut so early that nothing is complete is no error: nothing is what is intact.
    let cut = common::read(b"\x80\x04\x95\x10").unwrap();
    assert!(cut.is_empty() && cut.damage.is_some());
}

#[test]
fn what_follows_the_end_is_mentioned_unless_it_is_padding() {
    let file = pickle(&snapshot([] as [Record; 0], [[event("alloc", 512, 1)]]).into(), Dialect::Protocol(4));
    let with = |rest: &[u8]| common::read(&[file.as_slice(), rest].concat()).unwrap().warnings;
    assert_eq!(with(&[0; 3]), [""; 0], "trace_plot pads with zeros");
    let expected = format!(
        "{} bytes follow the end of the snapshot at byte {}; they are not read",
        file.len(),
        file.len()
    );
    assert_eq!(with(&file), [expected], "two snapshots in one file");
}

/// Entries of a trace that are no events cost nothing but themselves.
#[test]
fn entries_that_are_no_events_are_left_out() {
    let alloc = |i: u64| Value::from(event("alloc", i * 512, 1).time(i as i64));
    let entries = [alloc(0), Value::None, alloc(1), Value::text("x"), alloc(2), alloc(3)];
    let file = snapshot([] as [Record; 0], [[] as [Record; 0]])
        .set("device_traces", Value::list([Value::list(entries), Value::list([alloc(7)])]));
    let snapshot = common::read(&pickle(&file.into(), Dialect::Protocol(4))).unwrap();
    let times: Vec<_> = events(&snapshot).iter().map(|event| event.time_us).collect();
    assert_eq!(times, [0, 1, 2, 3]);
    assert_eq!(snapshot.trace(DeviceId(1)).unwrap().len(), 1);
    assert_eq!(snapshot.warnings, ["2 entries of a trace are no events; left out"]);
}
