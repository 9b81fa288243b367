//! Keys that other recorders add are read, and what is not understood is kept as it is.

use vramscope_snapshot::{DeviceId, Reader, Snapshot, embedded};

/// As torch-snapkit writes it, with a key of nobody's, and metadata as newer versions of PyTorch have it.
const TEXT: &str = r#"{
    "segments": [],
    "device_traces": [[
        {"action": "alloc", "addr": 4096, "size": 2560, "stream": 0, "time_us": 1,
         "user_metadata": {"module": "model.norm", "step": 3, "tags": ["a", null]},
         "frames": [{"name": "main", "filename": "/home/me/run.py", "line": 2}]}
    ]],
    "source_code": {"/home/me/run.py": "import torch\n    y = model(x)\n"},
    "shape_data": [{"0x1000": [["aten.mm.default", [64, 10], "torch.float32"], ["aten.relu_.default", [640], "torch.bfloat16"]]}],
    "run_id": {"host": "node7", "ranks": [0, 1]}
}"#;

fn read(text: &str) -> Snapshot {
    let mut reader = Reader::new();
    reader.feed(text.as_bytes()).unwrap();
    reader.finish().unwrap()
}

fn check(snapshot: &Snapshot) {
    let extras = &snapshot.extras;
    assert_eq!(extras.source_line("/home/me/run.py", 2), Some("y = model(x)"));
    assert_eq!(extras.source_line("/home/me/run.py", 9), None);
    assert_eq!(extras.source_line("/other.py", 2), None);
    let [product, relu] = extras.shapes.as_slice() else { panic!("{:?}", extras.shapes) };
    assert_eq!((product.device, product.addr), (DeviceId(0), 0x1000));
    assert_eq!((product.operator.as_str(), product.dtype.as_str()), ("aten.mm.default", "float32"));
    assert_eq!((product.shape.as_slice(), product.bytes()), ([64, 10].as_slice(), Some(2560)));
    assert_eq!(relu.bytes(), Some(1280));
    assert_eq!(extras.raw, [("run_id".to_owned(), r#"{"host": "node7", "ranks": [0, 1]}"#.to_owned())]);
    assert_eq!(snapshot.unknown_keys, ["run_id"]);
    let event = snapshot.events(DeviceId(0)).get(0);
    let metadata = snapshot.text(snapshot.meta(event.meta).user_metadata);
    assert_eq!(metadata, r#"{"module": "model.norm", "step": 3, "tags": ["a", null]}"#);
}

#[test]
fn keys_of_other_recorders() {
    let snapshot = read(TEXT);
    check(&snapshot);
    let mut kept = Vec::new();
    embedded::encode(&snapshot, &mut kept).unwrap();
    let again = embedded::decode(&kept).unwrap();
    check(&again);
    assert_eq!(again.extras, snapshot.extras);
}

#[test]
fn wrong_types_are_left_out() {
    let text = TEXT
        .replace(r#"{"/home/me/run.py": "import torch\n    y = model(x)\n"}"#, "[1, 2]")
        .replace(r#""0x1000""#, r#""somewhere""#);
    let extras = read(&text).extras;
    assert!(extras.sources.is_empty() && extras.shapes.is_empty());
}
