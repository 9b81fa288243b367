//! What an expert would say of a recording: of real ones, and of programs written down by hand.

use crate::common;
use serde_json::{Value, json};
use vramscope_analysis::categories::{Rules, classify};
use vramscope_analysis::{Device, Finding, Kind, KnownBy, Recipe, Severity, Shape, Stepwise, minimum};
use vramscope_format::Units;
use vramscope_snapshot::{DeviceId, Snapshot};

const MIB: u64 = 1 << 20;

fn replayed(snapshot: Snapshot) -> (Snapshot, Device) {
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    (snapshot, replay)
}

fn found(replay: &Device) -> Vec<Finding> {
    replay.findings(Units::Binary)
}

fn of(name: &str, kind: Kind) -> Option<Finding> {
    let (_, replay) = replayed(common::recording(name));
    found(&replay).into_iter().find(|finding| finding.kind == kind)
}

/// A program as it runs: blocks are taken and let go, each by a stack of (file, line, function), innermost first.
#[derive(Default)]
struct Program {
    events: Vec<Value>,
    live: Vec<(u64, u64)>,
    next: u64,
}

type Stack<'a> = &'a [(&'a str, u32, &'a str)];

impl Program {
    fn event(&mut self, action: &str, addr: u64, size: u64, stack: Stack<'_>) {
        let frames: Vec<_> = stack
            .iter()
            .map(|(file, line, name)| json!({"filename": file, "line": line, "name": name}))
            .collect();
        let time = self.events.len();
        self.events.push(json!({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time, "frames": frames}));
    }

    /// Every block has a segment of its own.
    fn take(&mut self, size: u64, stack: Stack<'_>) -> u64 {
        self.next += 1 << 40;
        let addr = self.next;
        self.event("segment_alloc", addr, size, stack);
        self.event("alloc", addr, size, stack);
        self.live.push((addr, size));
        addr
    }

    fn free(&mut self, addr: u64) {
        let at = self.live.iter().position(|block| block.0 == addr).unwrap();
        let (_, size) = self.live.remove(at);
        for action in ["free_requested", "free_completed", "segment_free"] {
            self.event(action, addr, size, &[("train.py", 90, "main")]);
        }
    }

    fn end(self) -> (Snapshot, Device) {
        let segment = |&(addr, size): &(u64, u64)| {
            let block = json!({"address": addr, "size": size, "requested_size": size, "state": "active_allocated", "frames": []});
            json!({"device": 0, "address": addr, "total_size": size, "stream": 0, "segment_type": "large",
                "segment_pool_id": [0, 0], "is_expandable": false, "blocks": [block]})
        };
        let segments: Vec<_> = self.live.iter().map(segment).collect();
        let text = json!({"segments": segments, "device_traces": [self.events]}).to_string();
        replayed(common::snapshot(text.as_bytes()))
    }
}

const MODULE: (&str, u32, &str) = ("/x/site-packages/torch/nn/modules/module.py", 1, "_call_impl");

/// Weights of two forward passes, with `kept` activations of 20 MiB from each of five lines in each.
fn forward_only(is_kept: bool) -> (Snapshot, Device) {
    let mut program = Program::default();
    for line in 0..4 {
        program.take(10 * MIB, &[("model.py", line, "__init__"), ("train.py", 1, "main")]);
    }
    for _ in 0..3 {
        let mut kept = Vec::new();
        let embed = program.take(MIB, &[("model.py", 49, "forward"), MODULE, ("train.py", 2, "main")]);
        for line in 50..55 {
            let block =
                program.take(20 * MIB, &[("model.py", line, "forward"), MODULE, ("train.py", 2, "main")]);
            if is_kept { kept.push(block) } else { program.free(block) }
        }
        program.free(embed);
        // The output is dropped, and with it the graph.
        program.take(512, &[("train.py", 3, "main")]);
        kept.into_iter().for_each(|block| program.free(block));
    }
    program.end()
}

#[test]
fn activations_without_a_backward_pass_want_no_grad() {
    let (_, replay) = forward_only(true);
    let found_here = found(&replay);
    let finding = found_here.iter().find(|finding| finding.kind == Kind::NoGrad).unwrap();
    assert_eq!((finding.severity, finding.known_by), (Severity::Medium, KnownBy::Likely));
    assert!(finding.bytes >= 100 * MIB, "five blocks of 20 MiB: {}", finding.what);
    assert!(finding.advice.contains("inference_mode"));
    let (_, replay) = forward_only(false);
    assert!(found(&replay).iter().all(|finding| finding.kind != Kind::NoGrad));
    for name in ["inference_kv", "insight_kv_decode", "insight_healthy_varlen", "oom"] {
        assert_eq!(of(name, Kind::NoGrad), None, "{name}");
    }
}

/// Scores of 64 MiB and their softmax in 128 MiB, inside a function for attention; 32 MiB of something else there.
#[test]
fn attention_scores_are_found_by_their_softmax() {
    let mut program = Program::default();
    let softmax = ("/x/site-packages/torch/nn/functional.py", 9, "softmax");
    let inside = |line: u32| ("model.py", line, "eager_attention_forward");
    program.take(100 * MIB, &[("model.py", 1, "__init__")]);
    program.take(64 * MIB, &[inside(10), MODULE]);
    program.take(128 * MIB, &[softmax, inside(11), MODULE]);
    program.take(48 * MIB, &[inside(12), MODULE]);
    let (_, replay) = program.end();
    let found = found(&replay);
    let scores = found.iter().find(|finding| finding.kind == Kind::AttentionScores).unwrap();
    assert_eq!(scores.bytes, 192 * MIB, "{}", scores.what);
    assert!(scores.advice.contains("sdpa"));
    assert_eq!(of("oom", Kind::AttentionScores), None, "fused attention");
}

/// Ten weights from line 5 and the same again from line 9; the third set has other sizes.
#[test]
fn the_same_weights_from_two_lines_are_there_twice() {
    let mut program = Program::default();
    for (line, larger) in [(5, 0), (9, 0), (12, MIB)] {
        for row in 1..=10 {
            program.take(
                row * 2 * MIB + larger,
                &[("/x/site-packages/torch/nn/modules/module.py", 2, "_apply"), ("train.py", line, "main")],
            );
        }
    }
    let (_, replay) = program.end();
    let found = found(&replay);
    let twice: Vec<_> = found.iter().filter(|finding| finding.kind == Kind::DoubledWeights).collect();
    // 2 × (1 + 2 + … + 10) MiB.
    assert_eq!(twice.iter().map(|finding| finding.bytes).collect::<Vec<_>>(), [110 * MIB]);
    assert!(
        twice[0].what.contains("train.py:5") && twice[0].what.contains("train.py:9"),
        "{}",
        twice[0].what
    );
    for name in ["llama_python", "oom", "insight_healthy_varlen"] {
        assert_eq!(of(name, Kind::DoubledWeights), None, "{name}");
    }
}

/// Hugging Face's default `use_cache` copies keys and values: 6 layers of 2 × 16 MiB in the last step of this run.
#[test]
fn a_cache_while_training_is_told() {
    let cache = of("oom", Kind::TrainingCache).unwrap();
    assert_eq!((cache.bytes, cache.severity), (6 * 2 * 16 * MIB, Severity::Low));
    assert!(cache.advice.contains("use_cache=False"));
    assert_eq!(of("inference_kv", Kind::TrainingCache), None, "inference needs it");
}

#[test]
fn a_pool_of_torch_compile_is_named_as_such() {
    let pool = of("compile_reduce_overhead", Kind::PrivatePool).unwrap();
    assert!(
        pool.what.contains("torch.compile") && !pool.advice.contains("Drop the MemPool"),
        "{}",
        pool.what
    );
    let other = of("mempool", Kind::PrivatePool).unwrap();
    assert!(other.what.contains("MemPool"), "{}", other.what);
}

/// Below the share that is worth a word, but a gigabyte, and caused by the setting.
#[test]
fn rounding_by_the_setting_itself_is_told() {
    let rounding = of("roundup_power2", Kind::Rounding).unwrap();
    assert!(
        rounding.bytes > 1000 * MIB && rounding.what.contains("roundup_power2_divisions"),
        "{}",
        rounding.what
    );
}

/// AdamW in float32: four times four bytes. A run that has room needs no advice about it.
#[test]
fn bytes_per_parameter_are_those_of_adam() {
    let (_, replay) = replayed(common::recording("llama_python"));
    let categories = classify(&replay, &Rules::default());
    let recipe = Recipe::new(&replay, &categories).unwrap();
    // 6 layers of 512 × 512 × 4 + 3 × 512 × 1376 + 2 × 512, embedding and head of 2 × 512 × 4096, a last norm of 512.
    assert_eq!((recipe.bytes_each(), recipe.weights), (16, recipe.parameters * 4));
    assert_eq!(of("llama_python", Kind::ParameterBytes), None);
}

/// Ten weights of 8 MiB: AdamW adds as much for gradients and twice as much for moments.
fn adam(is_full: bool) -> Vec<Finding> {
    let backward = [("/x/site-packages/torch/_tensor.py", 1, "backward"), ("train.py", 4, "main")];
    let step = [("/x/site-packages/torch/optim/adamw.py", 7, "step"), ("train.py", 5, "main")];
    let mut program = Program::default();
    for line in 0..10 {
        program.take(8 * MIB, &[("model.py", line, "__init__"), ("train.py", 1, "main")]);
    }
    for pass in 0..2 {
        let kept = program.take(MIB, &[("model.py", 50, "forward"), MODULE, ("train.py", 2, "main")]);
        let gradients: Vec<_> = (0..10).map(|_| program.take(8 * MIB, &backward)).collect();
        program.free(kept);
        if pass == 0 {
            for _ in 0..20 {
                program.take(8 * MIB, &step);
            }
            gradients.into_iter().for_each(|gradient| program.free(gradient));
        }
    }
    if is_full {
        program.event("oom", 0, MIB, &[("model.py", 50, "forward"), MODULE, ("train.py", 2, "main")]);
    }
    let (_, replay) = program.end();
    found(&replay)
}

#[test]
fn bytes_per_parameter_are_reported_where_memory_is_short() {
    let full = adam(true);
    let finding = full.iter().find(|finding| finding.kind == Kind::ParameterBytes).unwrap();
    assert_eq!((finding.severity, finding.bytes), (Severity::Low, 4 * 80 * MIB));
    // 80 MiB of float32.
    assert!(finding.what.starts_with("20 971 520 parameters take 16 bytes each"), "{}", finding.what);
    assert_eq!(adam(false), [], "with room there is nothing to act on");
}

/// Autocast keeps a half of each of twelve weights until the backward pass; without its cache it frees them at once.
fn autocast(keeps: bool) -> Option<Finding> {
    let sizes = || (1..=12).map(|row| row * 2 * MIB);
    let mut program = Program::default();
    for size in sizes() {
        program.take(size, &[("model.py", 3, "__init__"), ("train.py", 1, "main")]);
    }
    for _ in 0..2 {
        let forward = |line: u32| [("model.py", line, "forward"), MODULE, ("train.py", 2, "main")];
        let mut kept = vec![program.take(MIB, &forward(49))];
        for size in sizes() {
            let copy = program.take(size / 2, &forward(50));
            kept.push(program.take(MIB, &forward(51)));
            if keeps { kept.push(copy) } else { program.free(copy) }
        }
        kept.push(program.take(MIB, &forward(60)));
        program.take(512, &[("/x/site-packages/torch/_tensor.py", 1, "backward"), ("train.py", 4, "main")]);
        kept.into_iter().for_each(|block| program.free(block));
    }
    let (_, replay) = program.end();
    found(&replay).into_iter().find(|finding| finding.kind == Kind::LowPrecisionCopies)
}

#[test]
fn copies_in_low_precision_are_those_of_autocast() {
    // 1 + 2 + … + 12 MiB.
    assert_eq!(autocast(true).unwrap().bytes, 78 * MIB);
    assert_eq!(autocast(false), None);
    assert_eq!(of("llama_python", Kind::LowPrecisionCopies), None, "float32");
    // GPT-2 under autocast: 17 329 152 parameters, 2 bytes each, but for what no matrix product reads.
    let (_, replay) =
        replayed(common::recording_at(&common::recordings().join("../roles/gpt2_amp.pickle.xz")));
    let found = found(&replay);
    let copies = found.iter().find(|finding| finding.kind == Kind::LowPrecisionCopies).unwrap();
    let all = 17_329_152 * 2;
    assert!(copies.bytes <= all && copies.bytes * 10 > all * 9, "{}", copies.what);
}

/// Growing tensors leave segments behind that nothing fits into again. PyTorch's rerun with expandable segments shows
/// that they were not needed.
#[test]
fn cached_segments_are_reported_if_a_setting_would_need_fewer() {
    let (_, replay) =
        replayed(common::recording_at(&common::recordings().join("../whatif/resize.default.pickle.xz")));
    let found = found(&replay);
    let cached = found.iter().find(|finding| finding.kind == Kind::Cached).unwrap();
    assert_eq!(cached.severity, Severity::Low, "memory sufficed");
    assert!(cached.advice.contains("expandable_segments:True (simulated: would run"), "{}", cached.advice);
    for name in ["insight_healthy_varlen", "rank0_memory_snapshot", "ring_buffer"] {
        assert_eq!(of(name, Kind::Cached), None, "{name}");
    }
}

/// Steps of 100, 200, 400 and 800 MiB: the next needs 1600. No limit is known, so it may still fit.
#[test]
fn steps_that_double_are_forecast() {
    let mut program = Program::default();
    for step in 0..4 {
        let forward = [("model.py", 1, "forward"), MODULE];
        let block = program.take((100 * MIB) << step, &forward);
        program.take(1024, &[("/x/site-packages/torch/_tensor.py", 1, "backward"), ("train.py", 4, "main")]);
        program.free(block);
        program.take(512, &[("/x/site-packages/torch/optim/adamw.py", 7, "step"), ("train.py", 5, "main")]);
    }
    let (_, replay) = program.end();
    let stepwise = Stepwise::new(&replay, replay.steps().clone(), None);
    let peaks: Vec<_> = stepwise.rows.iter().map(|row| row.peak.bytes as u64 / MIB).collect();
    assert_eq!(peaks, [100, 200, 400, 800]);
    let trend = stepwise.trend.as_ref().unwrap();
    assert_eq!((trend.shape, trend.next / MIB, stepwise.fits()), (Shape::Geometric, 1600, None));
    let found = found(&replay);
    let warned = found.iter().find(|finding| finding.kind == Kind::WillNotFit).unwrap();
    assert_eq!((warned.severity, warned.bytes / MIB), (Severity::Medium, 1600));
    assert_eq!(of("llama_python", Kind::WillNotFit), None);
}

/// PyTorch's own counters say what each of the six steps adds: 123 MiB, which outlive the step after.
#[test]
fn what_outlives_a_step_is_what_it_leaks() {
    let (_, replay) = replayed(common::recording("leak_graph"));
    let stepwise = Stepwise::new(&replay, replay.steps().clone(), None);
    assert_eq!(stepwise.rows.len(), 6);
    let grown: Vec<i64> = stepwise.rows[2..].iter().map(|row| row.growth).collect();
    assert_eq!(stepwise.outlived, 4);
    let per_step: u64 = stepwise.outliving.iter().map(|kept| kept.per_step).sum();
    assert!(
        grown.iter().all(|growth| growth.unsigned_abs().abs_diff(per_step) < MIB),
        "{grown:?} {per_step}"
    );
    // Only some allocations: those of one size.
    let large = |_, allocation: &vramscope_analysis::Allocation| allocation.requested >= 16 * MIB;
    let kept = Stepwise::new(&replay, replay.steps().clone(), Some(&large));
    assert!(kept.rows.iter().zip(&stepwise.rows).all(|(some, all)| some.peak.bytes < all.peak.bytes));
}

/// Rank 2 keeps its output of each step: 4096 × 1024 floats, 16 MiB. What the second step alone keeps on every rank, the
/// buckets of DDP, is no habit.
#[test]
fn what_one_step_keeps_is_not_per_step() {
    let per_step = |rank: u32| {
        let (_, replay) = replayed(common::recording(&format!("rank{rank}_memory_snapshot")));
        let stepwise = Stepwise::new(&replay, replay.steps().clone(), None);
        assert_eq!((stepwise.rows.len(), stepwise.outlived), (6, 4));
        stepwise.outliving.iter().map(|kept| kept.per_step).sum::<u64>()
    };
    assert_eq!([per_step(0), per_step(2)], [0, 16 << 20]);
}

/// Nothing needs less than what is live at once, and no packing more than the allocator that ran.
#[test]
fn the_minimum_lies_between_what_is_live_and_what_was_reserved() {
    for name in ["llama_python", "oom", "expandable", "max_split", "inference_kv", "threads"] {
        let (_, replay) = replayed(common::recording(name));
        let found = minimum(&replay);
        let requested = replay.peak(vramscope_analysis::Counter::Requested).bytes;
        let reserved = replay.peak(vramscope_analysis::Counter::Reserved).bytes;
        assert!(
            requested <= found.bound.bytes && found.bound.bytes as u64 <= found.packed,
            "{name}: {found:?}"
        );
        assert!((found.packed as i64) < reserved, "{name}: {found:?}, reserved {reserved}");
    }
}

/// 8 MiB go, 12 come, 4 lie between: best fit ends at 24. Knowing the run, 16 are enough, as no more is live at once.
#[test]
fn a_packing_that_knows_the_run_is_better() {
    let mut program = Program::default();
    let stack: Stack<'_> = &[("train.py", 1, "main")];
    let first = program.take(8 * MIB, stack);
    program.take(4 * MIB, stack);
    program.free(first);
    program.take(12 * MIB, stack);
    let (_, replay) = program.end();
    let found = minimum(&replay);
    assert_eq!((found.bound.bytes as u64, found.packed), (16 * MIB, 16 * MIB), "best fit leaves a hole of 8");
}
