//! Categories add up to the counters everywhere, and are what the recorded models say they must be.

use serde_json::Value;
use std::sync::Arc;
use vramscope_analysis::categories::{Categories, Rules, classify};
use vramscope_analysis::{Counter, Device, Moment, live_weights, moment_at_time};
use vramscope_snapshot::{DeviceId, Snapshot};

use crate::common::{recording, recording_at, recordings};

struct Run {
    name: &'static str,
    snapshot: Snapshot,
    replay: Device,
    categories: Categories,
}

impl Run {
    fn new(name: &'static str, rules: &str) -> Self {
        let snapshot = recording(name);
        let replay = Device::new(snapshot.clone(), DeviceId(0));
        let categories = classify(&replay, &Rules::parse(rules).unwrap());
        Self { name, snapshot, replay, categories }
    }

    /// The moment of a mark that was set while recording.
    fn mark(&self, label: &str) -> Moment {
        let oracle =
            std::fs::read_to_string(recordings().join(format!("{}.oracle.json", self.name))).unwrap();
        let oracle: Value = serde_json::from_str(&oracle).unwrap();
        let marks = oracle["marks"].as_array().unwrap();
        let mark = marks.iter().find(|mark| mark["label"] == label).unwrap();
        moment_at_time(self.snapshot.events(DeviceId(0)), mark["time_ns"].as_i64().unwrap() / 1000)
    }

    /// Requested bytes of a category at a moment.
    fn bytes(&self, category: &str, at: Moment) -> u64 {
        let row = self.categories.names().iter().position(|name| name == category).unwrap();
        self.categories.totals(&self.replay.state(at), |_, _| true)[row].requested
    }
}

const ROTARY: u64 = 32 * 4;

/// Bytes of the recorded Llama's weights in bfloat16: embedding and head, and in each layer queries and output,
/// keys and values, the MLP and two norms; the last norm; and a buffer that moves with them, the 32 frequencies
/// of rotary positions in float32.
fn llama_bytes(layers: u64) -> u64 {
    let layer = 2 * 512 * 512 + 2 * 256 * 512 + 3 * 1376 * 512 + 2 * 512;
    2 * (2 * 8192 * 512 + layers * layer + 512) + ROTARY
}

#[test]
fn categories_add_up_to_the_counters() {
    for entry in std::fs::read_dir(recordings()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "xz") {
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let snapshot = Arc::new(recording_at(&path));
        for replay in Device::all(&snapshot) {
            let categories = classify(&replay, &Rules::default());
            let series = categories.series(&replay, 40);
            assert!(series.at.len() <= 40 && series.at.is_sorted(), "{name}");
            for (row, &at) in series.at.iter().enumerate() {
                let state = replay.state(at);
                let totals = categories.totals(&state, |_, _| true);
                let requested: u64 = totals.iter().map(|total| total.requested).sum();
                let active: u64 = totals.iter().map(|total| total.active).sum();
                assert_eq!(requested as i64, state.counters.requested, "{name} {at:?}");
                assert_eq!(active as i64, state.counters.active, "{name} {at:?}");
                let weights: u64 = live_weights(&state, |_, _| true).iter().map(|w| w.bytes).sum();
                assert_eq!(requested, weights, "{name} {at:?}");
                let column = series.bytes.iter().map(|column| column[row]);
                assert!(column.eq(totals.iter().map(|total| total.requested as i64)), "{name} {at:?}");
            }
            let peak = series.bytes.iter().fold(vec![0; series.at.len()], |sums, column| {
                sums.iter().zip(column).map(|(sum, bytes)| sum + bytes).collect()
            });
            let highest = peak.into_iter().max().unwrap_or_default();
            assert_eq!(highest, replay.peak(Counter::Requested).bytes, "{name}: no peak is lost");
        }
    }
}

#[test]
fn training_has_weights_gradients_and_two_states_for_each() {
    let run = Run::new("llama_python", "");
    let (weights, trained) = (llama_bytes(6), llama_bytes(6) - ROTARY);
    let after = run.mark("step1.optimizer");
    let mid = run.mark("step1.forward");
    assert_eq!(run.bytes("parameters", after), weights);
    assert_eq!(run.bytes("optimizer state", after), 2 * trained, "Adam keeps two, as wide as the weights");
    assert_eq!(run.bytes("optimizer state", run.mark("step0.forward")), 0, "made in the first step");
    assert_eq!(run.bytes("gradients", run.mark("step1.backward")), trained);
    assert_eq!(run.bytes("gradients", mid), 0, "zero_grad() let them go");
    // The logits alone are 1024 · 8192 · 4 bytes; six layers keep at least their MLPs' inputs and outputs.
    assert!(run.bytes("activations", mid) > 32 << 20);
    assert!(run.bytes("activations", after) < 1 << 20, "nothing of the graph is left");
    assert_eq!(run.bytes("unknown", after), 0);
    // cuBLAS' workspaces: one of the program's thread, one of the autograd engine's.
    assert_eq!(run.bytes("workspaces", after), 2 * (32 << 20));
    assert!(run.bytes("other", after) < 1 << 20, "token ids and labels");
}

/// Four transformer layers of width 256 and 1024 in float32, an embedding of 4096 tokens, and a head: DDP's first
/// bucket takes all their gradients. Before the second forward pass two others take its place.
#[test]
fn buckets_are_gradients() {
    let layer = (768 + 256 + 1024 + 1024) * 256 + 768 + 256 + 1024 + 256 + 4 * 256;
    let weights = 4 * (4096 * 256 + 4 * layer + 4096 * 256 + 4096);
    let run = Run::new("rank0_memory_snapshot", "");
    assert_eq!(run.bytes("parameters", run.replay.end()), weights);
    // As large is what DDP makes first to send the weights to all ranks, and lets go at once.
    let mut flat = run.replay.allocations().iter().map(|(_, a)| a).filter(|a| a.requested == weights);
    let (broadcast, bucket) = (flat.next().unwrap(), flat.next().unwrap());
    assert_eq!(run.bytes("gradients", broadcast.opened), 0);
    assert_eq!(run.bytes("gradients", bucket.opened), weights);
    // At the peak the second backward pass has begun: the new buckets, and the gradients of the head.
    let peak = run.replay.peak(Counter::Requested).at;
    let head = 4 * (4096 * 256 + 4096);
    assert_eq!(run.bytes("gradients", peak), weights + head);
}

#[test]
fn a_kept_graph_is_activations() {
    let run = Run::new("leak_graph", "");
    let grown = |label: &str| run.bytes("activations", run.mark(label));
    let step = grown("step3.optimizer") - grown("step2.optimizer");
    assert!(step > 30 << 20, "{step}");
    let rest = |label: &str| {
        let names = ["parameters", "optimizer state", "other", "workspaces"];
        names.map(|name| run.bytes(name, run.mark(label)))
    };
    let [weights, state, other, workspaces] = rest("step2.optimizer");
    // The graph also keeps the token ids, which the script makes: 1024 of 8 bytes.
    assert_eq!(rest("step3.optimizer"), [weights, state, other + 8192, workspaces], "nothing else grows");
}

#[test]
fn generating_keeps_keys_and_values() {
    let run = Run::new("inference_kv", "");
    let end = run.mark("generated");
    assert_eq!(run.bytes("parameters", end), llama_bytes(4));
    // The last to be made: 2 sequences of 159 tokens, 4 heads of 64, two bytes; four layers, keys and values.
    let row = run.categories.names().iter().position(|name| name == "KV cache").unwrap();
    let highest = run.categories.series(&run.replay, 1).most[row];
    let cache = 4 * 2 * (2 * 159 * 4 * 64 * 2);
    let one_layer_twice = cache + cache / 8;
    assert!((cache..=one_layer_twice).contains(&highest), "{highest}");
    assert_eq!([run.bytes("gradients", end), run.bytes("optimizer state", end)], [0, 0]);
}

#[test]
fn a_users_rules_come_first_and_in_order() {
    let rules = "
        [[rule]]
        category = \"logits\"
        stack = 'loss_utils\\.py:\\d+ ForCausalLMLoss'
        min_size = \"8MiB\"
        [[rule]]
        category = \"Gradients\"     # a category of ours, however it is spelled
        stack = \"_init_group\"
        [[rule]]
        category = \"norms\"
        max_size = 1024
        lifetime = \"5000..\"
    ";
    let (run, plain) = (Run::new("llama_python", rules), Run::new("llama_python", ""));
    let at = run.mark("step1.optimizer");
    assert_eq!(run.categories.names()[9..], ["logits", "norms"]);
    let gradients = |run: &Run| run.bytes("gradients", at);
    // The states of the 13 norms are no larger than 1024 bytes, but the earlier rule has them.
    assert_eq!(gradients(&run), gradients(&plain) + 2 * (llama_bytes(6) - ROTARY));
    assert_eq!(run.bytes("optimizer state", at), 0);
    assert_eq!(plain.bytes("parameters", at) - run.bytes("parameters", at), 13 * 1024 + ROTARY);
}
