//! What each module holds: its own memory and that of the modules in it, at a moment and at its peak.
//!
//! Groups are paths of modules (`model.layers.0.self_attn`), classes of them (`LlamaAttention`, or where the file names
//! none `model.layers.*.self_attn`: what a model has many of), or functions of the user's own source.

use std::sync::Arc;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use vramscope_replay::{AllocIdx, Allocation, Moment, Replay, State};
use vramscope_snapshot::{Snapshot, StackId};

use crate::conclusions::categories::ACTIVATIONS;
use crate::conclusions::each::Conclusions;
use crate::conclusions::known::KnownBy;
use crate::conclusions::modules::Modules;
use crate::device::Device;
use crate::questions::frames::{is_internal, user_frame};
use crate::shelf::Small;

/// What memory is grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModulesBy {
    /// Each module of the model.
    #[default]
    Module,
    /// Modules of one class; where it is not known, numbers in their paths do not count.
    Class,
    /// Functions of the user's own source.
    Function,
}

/// A module with what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleNode {
    /// Its path, class, or `file function`.
    pub path: String,
    /// The last part of it.
    pub name: String,
    /// Modules around it.
    pub depth: u32,
    /// What it and the modules in it hold.
    pub all: Held,
    /// What it holds itself.
    pub own: Held,
    /// The highest that `all.requested` was at any moment.
    pub peak: i64,
    /// When that was.
    pub peak_at: Moment,
}

/// What a module holds at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes that its forward pass asked for.
    pub requested: u64,
    /// Allocations.
    pub count: u64,
    /// Of `requested`, what is kept for the backward pass.
    pub activations: u64,
    /// Bytes beside `requested` that the backward pass made for it.
    pub backward: u64,
}

/// What of the modules of a device follows from the whole trace: the peaks of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModulePeaks {
    /// For each way of grouping, in the order of [`ModulesBy`], those of the nodes in order of appearance.
    peaks: [Vec<(i64, Moment)>; 3],
    /// For each module its class, where frames name it.
    classes: Vec<Option<String>>,
}

impl ModulePeaks {
    /// Works them out, in a few passes over the trace.
    pub fn new(device: &Device, conclusions: &Conclusions) -> Self {
        let (_snapshot, replay) = (device.snapshot(), device.replay());
        let modules = conclusions.modules();
        let classes = Classes::new(device, modules);
        let classes =
            (0..modules.names().len()).map(|row| classes.by_frame.get(&row).map(|&class| class.to_owned()));
        let mut found = Self { classes: classes.collect(), ..Self::default() };
        for by in [ModulesBy::Module, ModulesBy::Class, ModulesBy::Function] {
            let mut tree = Tree::default();
            let rows = Rows::new(device, conclusions, (by, Some(&found)), &mut tree);
            tree.find_peaks(replay, |index| rows.own(index));
            found.peaks[by as usize] = tree.nodes.iter().map(|node| (node.peak, node.peak_at)).collect();
        }
        found
    }
}

impl Held {
    fn add(&mut self, other: Self) {
        self.requested = self.requested.saturating_add(other.requested);
        self.count += other.count;
        self.activations = self.activations.saturating_add(other.activations);
        self.backward = self.backward.saturating_add(other.backward);
    }
}

/// Parts of a path that are told apart.
const MOST_PARTS: usize = 24;

/// The modules of a device, each below the one that it lies in, and what no module has. `keep` says which allocations
/// count; if all do, their peaks may be known.
pub fn module_tree(
    device: &Device,
    conclusions: &Conclusions,
    state: &State,
    (by, known): (ModulesBy, Option<&ModulePeaks>),
    keep: impl Fn(AllocIdx, &Allocation) -> bool,
) -> (Vec<ModuleNode>, Held) {
    let (_snapshot, replay) = (device.snapshot(), device.replay());
    let mut tree = Tree::default();
    let kept = |index: AllocIdx| keep(index, &replay.allocation(index));
    let rows = Rows::new(device, conclusions, (by, known), &mut tree);
    let mut outside = Held::default();
    for (index, allocation) in state.allocations().filter(|(index, allocation)| keep(*index, allocation)) {
        let requested = allocation.requested;
        let is_activation = conclusions.categories.of(index) == usize::from(ACTIVATIONS);
        let activations = if is_activation { requested } else { 0 };
        let held = Held { requested, count: 1, activations, backward: 0 };
        let own = rows.of(index, || allocation.recorded);
        match (own, own.map_or_else(|| rows.backward(index), |_| None)) {
            (Some(node), _) => tree.nodes[node].own.add(held),
            (None, Some(node)) => tree.nodes[node].own.add(Held { backward: requested, ..Held::default() }),
            (None, None) => outside.add(held),
        }
    }
    match known.and_then(|known| known.peaks.get(by as usize)) {
        Some(peaks) => {
            for (node, &(peak, at)) in tree.nodes.iter_mut().zip(peaks) {
                (node.peak, node.peak_at) = (peak, at);
            }
        }
        None => tree.find_peaks(replay, |index| rows.own(index).filter(|_| kept(index))),
    }
    (tree.into_order(), outside)
}

/// Which node each allocation belongs to.
struct Rows<'a> {
    conclusions: &'a Conclusions,
    by: ModulesBy,
    /// A node plus one for each module, or for each stack.
    nodes: Vec<u32>,
    /// For each allocation the module.
    replay: &'a Replay,
}

impl<'a> Rows<'a> {
    fn new(
        device: &'a Device,
        conclusions: &'a Conclusions,
        (by, known): (ModulesBy, Option<&ModulePeaks>),
        tree: &mut Tree,
    ) -> Self {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        let node = |path: Option<Vec<String>>| path.map_or(0, |path| tree.node(&path) + 1);
        let nodes = match by {
            ModulesBy::Module => {
                conclusions.modules().names().iter().map(|name| Some(parts(name))).map(node).collect()
            }
            ModulesBy::Class => {
                let modules = conclusions.modules();
                let classes = match known {
                    Some(known) => Classes::known(modules, known),
                    None => Classes::new(device, modules),
                };
                let names = conclusions.modules().names().iter().enumerate();
                let class = |(row, name): (usize, &String)| classes.of(row).unwrap_or_else(|| class(name));
                names.map(|row| Some(vec![class(row)])).map(node).collect()
            }
            ModulesBy::Function => {
                snapshot.stacks.ids().map(|stack| function(snapshot, stack)).map(node).collect()
            }
        };
        Self { conclusions, by, nodes, replay }
    }

    fn own(&self, index: AllocIdx) -> Option<usize> {
        self.of(index, || self.replay.allocation(index).recorded)
    }

    /// The same of an allocation whose stack is known.
    fn of(&self, index: AllocIdx, stack: impl FnOnce() -> StackId) -> Option<usize> {
        let row = match self.by {
            ModulesBy::Function => stack().index(),
            _ => self.conclusions.modules().row(index)?,
        };
        self.nodes.get(row)?.checked_sub(1).map(|node| node as usize)
    }

    /// The node that a backward pass made an allocation for.
    fn backward(&self, index: AllocIdx) -> Option<usize> {
        self.own(self.conclusions.modules().answers_to(index)?)
    }
}

/// A path in parts: `model.layers.0` has three.
fn parts(path: &str) -> Vec<String> {
    path.splitn(MOST_PARTS, '.').map(str::to_owned).collect()
}

/// A path without its numbers: `model.layers.*.mlp`.
fn class(path: &str) -> String {
    let part = |part: &str| match part.bytes().all(|byte| byte.is_ascii_digit()) {
        true => "*".to_owned(),
        false => part.to_owned(),
    };
    path.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// Classes of modules, where the file names them: metadata does, or frames of `LlamaMLP.forward`.
struct Classes<'a> {
    modules: &'a Modules,
    by_frame: HashMap<usize, &'a str>,
}

impl<'a> Classes<'a> {
    fn new(device: &'a Device, modules: &'a Modules) -> Self {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        let mut by_frame = HashMap::new();
        // A layer that is inferred is around the module that the innermost frame is in.
        if modules.known_by() == KnownBy::Recorded {
            let mut known: HashMap<StackId, Option<&str>> = HashMap::new();
            for (index, allocation) in replay.allocations().iter() {
                let Some(row) = modules.row(index).filter(|row| !by_frame.contains_key(row)) else {
                    continue;
                };
                let stack = allocation.recorded;
                let class = *known.entry(stack).or_insert_with(|| {
                    snapshot.frames(stack).find_map(|frame| forward_class(snapshot.text(frame.name)))
                });
                by_frame.extend(class.map(|class| (row, class)));
            }
        }
        Self { modules, by_frame }
    }

    fn known(modules: &'a Modules, known: &'a ModulePeaks) -> Self {
        let named = known.classes.iter().enumerate();
        Self { modules, by_frame: named.filter_map(|(row, class)| Some((row, class.as_deref()?))).collect() }
    }

    fn of(&self, row: usize) -> Option<String> {
        self.modules.class(row).or_else(|| self.by_frame.get(&row).copied()).map(str::to_owned)
    }
}

/// The class of a qualified name: `LlamaMLP.forward` is one of `LlamaMLP`.
fn forward_class(name: &str) -> Option<&str> {
    name.strip_suffix(".forward")?.rsplit('.').next()
}

/// The function of the user's own source that a stack is in, below its file.
fn function(snapshot: &Snapshot, stack: StackId) -> Option<Vec<String>> {
    let frame = user_frame(snapshot, stack)?;
    let (file, name) = (snapshot.text(frame.file), snapshot.text(frame.name));
    if is_internal(name, file) {
        return None;
    }
    let file = file.rsplit(['/', '\\']).next().unwrap_or(file).to_owned();
    // Newer versions of Python name the class too: `LlamaMLP.forward`.
    Some(std::iter::once(file).chain(name.splitn(MOST_PARTS, '.').map(str::to_owned)).collect())
}

#[derive(Default)]
struct Tree {
    nodes: Vec<ModuleNode>,
    parents: Vec<Option<usize>>,
    children: HashMap<(Option<usize>, String), usize>,
}

impl Tree {
    /// The node of a path, with all that it lies in.
    fn node(&mut self, parts: &[String]) -> u32 {
        let mut at = None;
        for (depth, part) in parts.iter().enumerate() {
            let next = self.nodes.len();
            let node = *self.children.entry((at, part.clone())).or_insert(next);
            if node == next {
                let path = at.map_or_else(
                    || part.clone(),
                    |parent: usize| format!("{}.{part}", self.nodes[parent].path),
                );
                self.nodes.push(ModuleNode {
                    path,
                    name: part.clone(),
                    depth: depth as u32,
                    all: Held::default(),
                    own: Held::default(),
                    peak: 0,
                    peak_at: Moment::START,
                });
                self.parents.push(at);
            }
            at = Some(node);
        }
        at.unwrap_or_default() as u32
    }

    /// The highest that each node was, with what lies in it, in one pass over the trace.
    fn find_peaks(&mut self, replay: &Replay, node_of: impl Fn(AllocIdx) -> Option<usize>) {
        let mut now = vec![0_i64; self.nodes.len()];
        replay.each_moment(|at, effects| {
            for effect in effects {
                let Some((index, bytes)) = effect.requested(replay) else { continue };
                let Some(node) = node_of(index) else { continue };
                let mut next = Some(node);
                while let Some(node) = next {
                    now[node] = now[node].saturating_add(bytes);
                    if now[node] > self.nodes[node].peak {
                        self.nodes[node].peak = now[node];
                        self.nodes[node].peak_at = at;
                    }
                    next = self.parents[node];
                }
            }
        });
    }

    /// The nodes with their sums, each below the one that it lies in, in order of appearance.
    fn into_order(mut self) -> Vec<ModuleNode> {
        // Children come after their parents, so sums go up from the last.
        for node in (0..self.nodes.len()).rev() {
            let own = self.nodes[node].own;
            self.nodes[node].all.add(own);
            if let Some(parent) = self.parents[node] {
                let all = self.nodes[node].all;
                self.nodes[parent].all.add(all);
            }
        }
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut roots = Vec::new();
        for (node, parent) in self.parents.iter().enumerate() {
            parent.map_or(&mut roots, |parent| &mut children[parent]).push(node);
        }
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut stack: Vec<usize> = roots.into_iter().rev().collect();
        while let Some(node) = stack.pop() {
            order.push(self.nodes[node].clone());
            stack.extend(children[node].iter().rev());
        }
        order
    }
}

impl Small for ModulePeaks {
    const NAME: &'static str = "modules";
}

impl Device {
    /// The peaks of all modules.
    pub fn module_peaks(&self) -> Arc<ModulePeaks> {
        self.once(|| ModulePeaks::new(self, &self.conclusions()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_name_their_class() {
        assert_eq!(forward_class("LlamaMLP.forward"), Some("LlamaMLP"));
        assert_eq!(forward_class("forward"), None);
    }

    #[test]
    fn numbers_make_no_class() {
        assert_eq!(class("model.layers.12.self_attn"), "model.layers.*.self_attn");
        assert_eq!(class("lm_head"), "lm_head");
    }
}
