//! Modules are those that the program recorded; without metadata, layers follow from the order of the forward pass.

use std::collections::BTreeMap;
use std::path::Path;

use vramscope_analysis::categories::DEFAULT_CATEGORIES;
use vramscope_analysis::{Conclusions, Counter, Device, KnownBy, ModulesBy, module_tree};
use vramscope_snapshot::{DeviceId, Snapshot};

use crate::common::recording_at;

struct Run {
    snapshot: Snapshot,
    replay: Device,
    conclusions: Conclusions,
}

impl Run {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/roles");
        let snapshot = recording_at(&folder.join(format!("{name}.pickle.xz")));
        let replay = Device::new(snapshot.clone(), DeviceId(0));
        let conclusions = replay.conclusions();
        Self { snapshot, replay, conclusions }
    }
}

/// What each module holds at the peak is what `user_metadata` adds up to.
#[test]
fn recorded_modules_are_the_sums_by_metadata() {
    let run = Run::new("llama_modules");
    let Run { snapshot, replay, conclusions } = &run;
    assert_eq!(conclusions.modules().known_by(), KnownBy::Recorded);
    let state = replay.state(replay.peak(Counter::Requested).at);
    let events = snapshot.events(DeviceId(0));
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for &index in &state.live {
        let allocation = replay.allocation(index);
        let Some(event) = allocation.opened.event() else { continue };
        let path = snapshot.text(snapshot.meta(events.get(event.index()).meta).user_metadata);
        // A module has what the modules in it have.
        let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
        for end in ends.filter(|end| *end > 0) {
            *sums.entry(path[..end].to_owned()).or_default() += allocation.requested;
        }
    }
    let (nodes, outside) = module_tree(replay, conclusions, &state, (ModulesBy::Module, None), |_, _| true);
    let held: BTreeMap<_, _> = nodes
        .iter()
        .filter(|node| node.all.requested > 0)
        .map(|node| (node.path.clone(), node.all.requested))
        .collect();
    assert_eq!(held, sums);
    let roots: u64 =
        nodes.iter().filter(|node| node.depth == 0).map(|n| n.all.requested + n.all.backward).sum();
    assert_eq!((roots + outside.requested) as i64, state.counters.requested, "nothing is lost");
    let layer = nodes.iter().find(|node| node.path == "model.layers.0").unwrap();
    assert!(layer.peak >= layer.all.requested as i64 && layer.all.activations == layer.all.requested);
}

/// The same program with and without metadata makes the same allocations in the same order.
#[test]
fn inferred_layers_are_the_recorded_ones() {
    let (plain, named) = (Run::new("llama_adamw"), Run::new("llama_modules"));
    assert_eq!(plain.conclusions.modules().known_by(), KnownBy::Likely);
    assert_eq!(plain.replay.allocations().len(), named.replay.allocations().len());
    let (mut all, mut same) = (0, 0);
    for (index, allocation) in plain.replay.allocations().iter() {
        let category = plain.conclusions.categories.of(index);
        let recorded = named.conclusions.modules().of(index).and_then(|path| path.strip_prefix("model."));
        let recorded: Option<Vec<&str>> = recorded.map(|path| path.split('.').take(2).collect());
        let recorded = recorded.filter(|parts| parts[0] == "layers").map(|parts| parts.join("."));
        let inferred = plain.conclusions.modules().of(index).map(str::to_owned);
        if DEFAULT_CATEGORIES[category] == "activations" && (recorded.is_some() || inferred.is_some()) {
            all += allocation.requested;
            same += if recorded == inferred { allocation.requested } else { 0 };
        }
    }
    assert!(all > 0 && same * 100 >= all * 95, "{same} of {all}");
}

/// Encoder and decoder are two loops of three layers each.
#[test]
fn each_loop_has_its_own_layers() {
    let run = Run::new("t5_adafactor");
    let mut names = run.conclusions.modules().names().to_vec();
    names.sort();
    let expected: Vec<String> = ["layers", "layers2"]
        .iter()
        .flat_map(|name| (0..3).map(move |nth| format!("{name}.{nth}")))
        .collect();
    assert_eq!(names, expected);
}

/// The gradients of a layer come while the backward pass is at that layer: last layers first.
#[test]
fn backward_memory_belongs_to_the_layer_that_it_answers_to() {
    let run = Run::new("llama_adamw");
    let modules = run.conclusions.modules();
    let names = run.conclusions.categories.names();
    let gradients = run.replay.allocations().iter().filter(|(index, allocation)| {
        names[run.conclusions.categories.of(*index)] == "gradients" && allocation.requested > 1 << 20
    });
    let layers: Vec<&str> = gradients.filter_map(|(index, _)| modules.of_backward(index)).collect();
    assert!(layers.len() > 20, "{layers:?}");
    let steps: Vec<_> = layers.chunk_by(|a, b| a >= b).collect();
    assert_eq!(steps.len(), 3, "one way down in each of three steps: {layers:?}");
}
