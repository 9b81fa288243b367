//! Shapes of a real model's tensors.
//!
//! The recorded model is a Llama of 6 layers. Its first allocations are its weights in bfloat16, in the order
//! of the modules: 8 MiB = 8192 · 512 · 2 of embedding, 512 KiB = 512 · 512 · 2 of queries, 256 KiB of keys and
//! values (4 heads of 64), 1376 KiB = 1376 · 512 · 2 of the MLP, 1 KiB = 512 · 2 of a norm. The labels have
//! 8192 B = 1024 · 8, padded by one per sequence 8224 B = 1028 · 8: four sequences of 256 tokens.

use std::path::Path;

use vramscope_analysis::Device;
use vramscope_analysis::shapes::{Clues, Dims, Kind, SHOWN, Shapes};
use vramscope_snapshot::{DeviceId, Reader};

const DIMS: &str = "hidden=512,intermediate=1376,vocab=8192,heads=8,kv=4,layers=6,batch=4,seq=256";

#[test]
fn a_recorded_llama_is_explained() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings");
    let mut reader = Reader::new();
    reader.feed(&std::fs::read(folder.join("llama_python.pickle.xz")).unwrap()).unwrap();
    let snapshot = reader.finish().unwrap();
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    let shapes = Shapes::new(&Dims::from_flags(DIMS).unwrap());
    let best = |requested, stack| {
        let hints = shapes.hints(requested, &Clues::of_stack(&snapshot, stack));
        hints.into_iter().next().filter(|hint| hint.confidence >= SHOWN)
    };
    let mut all = replay.allocations().iter().map(|(_, allocation)| allocation);
    let weights: Vec<_> = all.by_ref().take(8).collect();
    let found: Vec<_> = weights.iter().map(|w| best(w.requested, w.stack).unwrap().what).collect();
    let (qo, kv, mlp) = ("q_proj or o_proj", "k_proj or v_proj", "gate_proj, up_proj or down_proj");
    assert_eq!(found, ["embedding or lm_head", qo, kv, kv, qo, mlp, mlp, mlp]);

    let (mut bytes, mut explained, mut activations) = (0, 0, 0);
    for allocation in all.filter(|allocation| allocation.requested >= 64 << 10) {
        bytes += allocation.requested;
        if let Some(hint) = best(allocation.requested, allocation.stack) {
            explained += allocation.requested;
            activations += u64::from(hint.kind == Kind::Activation) * allocation.requested;
        }
    }
    println!("{:.1} % of bytes explained", explained as f64 / bytes as f64 * 100.0);
    assert!(explained * 100 > bytes * 90, "{explained} of {bytes} bytes");
    assert!(activations * 2 > explained, "most that a step allocates is activations");
}
