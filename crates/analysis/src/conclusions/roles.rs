//! Which allocations a recorder named: storages of parameters, buffers, gradients and optimizer state at the dump.
//!
//! A storage lies in the block that was live at its address when the snapshot was written. What that block is for holds
//! for its whole life, back to the event that made it.

use hashbrown::{HashMap, HashSet};
use vramscope_replay::{AllocIdx, Moment, Replay};
use vramscope_snapshot::{Snapshot, Storage, TensorRole};

/// The recorded role of each allocation that has one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roles<'a> {
    of: HashMap<AllocIdx, &'a Storage>,
}

impl<'a> Roles<'a> {
    /// The roles of a device's allocations. Of several storages in one block, the role with most bytes counts.
    pub(crate) fn new(snapshot: &'a Snapshot, replay: &Replay) -> Self {
        let storages = snapshot.sidecar.as_deref().map(|sidecar| sidecar.storages.as_slice());
        let on_device = |storage: &&Storage| storage.device == replay.device();
        let mut storages: Vec<&Storage> = storages.unwrap_or_default().iter().filter(on_device).collect();
        if storages.is_empty() {
            return Self::default();
        }
        storages.sort_by_key(|storage| storage.addr);
        let live = replay.allocations().iter().filter(|(_, allocation)| {
            allocation.closed == Moment::NEVER && allocation.released == Moment::NEVER
        });
        let mut of = HashMap::new();
        for (index, allocation) in live {
            let end = allocation.addr.saturating_add(allocation.size);
            let from = storages.partition_point(|storage| storage.addr < allocation.addr);
            let inside = storages.get(from..).unwrap_or_default();
            let inside =
                inside.get(..inside.partition_point(|storage| storage.addr < end)).unwrap_or_default();
            if let Some(storage) = heaviest(inside) {
                of.insert(index, storage);
            }
        }
        Self { of }
    }

    /// Whether none were recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The storage that says what an allocation is for.
    pub(crate) fn of(&self, index: AllocIdx) -> Option<&'a Storage> {
        self.of.get(&index).copied()
    }

    /// The module that each allocation with a role belongs to.
    pub(crate) fn modules(&self, snapshot: &'a Snapshot) -> HashMap<AllocIdx, &'a str> {
        let sidecar = snapshot.sidecar.as_deref();
        let all = || sidecar.into_iter().flat_map(|sidecar| &sidecar.storages);
        let parameters: HashSet<&str> = all()
            .filter(|storage| storage.role == TensorRole::Parameter)
            .map(|storage| snapshot.text(storage.name))
            .collect();
        self.of
            .iter()
            .filter_map(|(index, storage)| Some((*index, module(snapshot.text(storage.name), &parameters)?)))
            .collect()
    }
}

/// The largest storage of the role that has most bytes of a block.
fn heaviest<'a>(inside: &[&'a Storage]) -> Option<&'a Storage> {
    let mut sums = [0_u64; TensorRole::ALL.len()];
    for storage in inside {
        let sum = &mut sums[storage.role as usize];
        *sum = sum.saturating_add(storage.bytes);
    }
    let key =
        |storage: &&&Storage| (sums[storage.role as usize], storage.bytes, std::cmp::Reverse(storage.addr));
    inside.iter().max_by_key(key).copied()
}

/// The path of the module that a tensor belongs to: `layers.0.attn` of `layers.0.attn.weight`, and of the optimizer's
/// `layers.0.attn.weight.exp_avg`, which has the name of a parameter in front.
fn module<'a>(name: &'a str, parameters: &HashSet<&str>) -> Option<&'a str> {
    let is_parameter = |end: &usize| name.get(..*end).is_some_and(|part| parameters.contains(part));
    let ends = name.rmatch_indices('.').map(|(at, _)| at);
    let parameter = std::iter::once(name.len()).chain(ends).find(is_parameter).unwrap_or(name.len());
    name.get(..parameter)?.rsplit_once('.').map(|(module, _)| module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_of_a_tensor() {
        let parameters = HashSet::from(["layers.0.attn.weight", "head"]);
        let module = |name| module(name, &parameters);
        assert_eq!(module("layers.0.attn.weight"), Some("layers.0.attn"));
        assert_eq!(module("layers.0.attn.weight.state.0.exp_avg"), Some("layers.0.attn"));
        assert_eq!(module("layers.0.norm.running_mean"), Some("layers.0.norm"), "a buffer");
        assert_eq!(module("head"), None);
        assert_eq!(module("head.exp_avg"), None, "of a parameter that no module has");
    }
}
