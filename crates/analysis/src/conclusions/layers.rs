//! Layers without metadata: one line of a model that calls modules again and again within a forward pass.
//!
//! Stacks name no instances, but their order does. Within one call of a `forward` function lines only go forward, so a
//! line that goes back, under the same calling line, is the next call. A line that makes several calls which allocate
//! alike is a loop over layers; its calls are numbered from 0, as `nn.ModuleList` does.

use hashbrown::HashMap;
use vramscope_replay::{AllocIdx, Replay};
use vramscope_snapshot::{FrameId, Snapshot, StackId};

use crate::conclusions::passes::{Part, Pass, Passes};
use crate::conclusions::stacks::Stacks;

/// The names of layers, and for each allocation a row of them plus one; 0 for none.
pub(super) fn layers(
    snapshot: &Snapshot,
    replay: &Replay,
    stacks: &Stacks,
    passes: &Passes,
) -> (Vec<String>, Vec<u32>) {
    let calls = Calls::new(snapshot);
    let mut found = Found { names: Vec::new(), rows: HashMap::new(), loops: HashMap::new() };
    let mut of = Vec::new();
    let allocations = replay.allocations();
    for pass in passes.of(Part::Forward) {
        let made: Vec<AllocIdx> = replay.source().opened_between(pass.from, pass.to).collect();
        let (tree, nodes) =
            follow(&calls, stacks, pass, made.iter().map(|index| allocations.stack[index.index()]));
        let is_layer = tree.loops();
        for (index, node) in made.iter().zip(nodes) {
            let Some((site, number)) = node.and_then(|node| tree.layer(node, &is_layer)) else { continue };
            if of.is_empty() {
                of = vec![0; allocations.len()];
            }
            of[index.index()] = found.row(site, number);
        }
    }
    (found.names, of)
}

/// Names of layers: those of the first loop are `layers.0`, of the second `layers2.0`.
struct Found {
    names: Vec<String>,
    rows: HashMap<(u64, u32), u32>,
    loops: HashMap<u64, usize>,
}

impl Found {
    fn row(&mut self, site: u64, number: u32) -> u32 {
        let nth = self.loops.len() + 1;
        let nth = *self.loops.entry(site).or_insert(nth);
        *self.rows.entry((site, number)).or_insert_with(|| {
            let loop_name = if nth == 1 { "layers".to_owned() } else { format!("layers{nth}") };
            self.names.push(format!("{loop_name}.{number}"));
            self.names.len() as u32
        })
    }
}

/// The `forward` frames of every stack, outermost first.
struct Calls {
    ends: Vec<usize>,
    frames: Vec<FrameId>,
    /// File and line of each frame.
    lines: Vec<(u32, u32)>,
}

impl Calls {
    fn new(snapshot: &Snapshot) -> Self {
        let table = &snapshot.stacks;
        let ids = || (0..table.frame_count()).map(FrameId::from_index);
        let is_call: Vec<bool> = ids().map(|id| snapshot.text(table.frame(id).name) == "forward").collect();
        let lines = ids().map(|id| (table.frame(id).file.0, table.frame(id).line)).collect();
        let mut calls = Self { ends: Vec::new(), frames: Vec::new(), lines };
        for stack in table.ids() {
            let inside = table.get(stack).iter().rev().filter(|id| is_call.get(id.index()) == Some(&true));
            calls.frames.extend(inside);
            calls.ends.push(calls.frames.len());
        }
        calls
    }

    fn get(&self, stack: StackId) -> &[FrameId] {
        let Some(&end) = self.ends.get(stack.index()) else { return &[] };
        let start = stack.index().checked_sub(1).and_then(|row| self.ends.get(row)).copied().unwrap_or(0);
        self.frames.get(start..end).unwrap_or_default()
    }

    /// Whether a call that was at one line can be at another now.
    fn goes_on(&self, from: FrameId, to: FrameId) -> bool {
        let line = |id: FrameId| self.lines.get(id.index()).copied().unwrap_or_default();
        let ((from_file, from_line), (to_file, to_line)) = (line(from), line(to));
        from_file == to_file && from_line <= to_line
    }
}

/// One call of a module within a pass.
struct Node {
    parent: u32,
    /// The lines from the outermost call to the one that made this call, as one number.
    site: u64,
    /// Which call of that line, from 0.
    number: u32,
    /// Allocations in it and in what it calls.
    allocations: u32,
}

/// The calls of a pass. The first node is the pass itself.
struct Tree {
    nodes: Vec<Node>,
    /// Calls made by each line of each call: the nodes.
    calls: HashMap<(u32, FrameId), Vec<u32>>,
}

/// Deeper calls are not told apart: models nest a dozen deep.
const MOST_DEPTH: usize = 64;

/// Follows the calls of a pass through its allocations, and says for each which call made it.
fn follow(
    calls: &Calls,
    stacks: &Stacks,
    pass: &Pass,
    made: impl ExactSizeIterator<Item = StackId>,
) -> (Tree, Vec<Option<u32>>) {
    let root = Node { parent: 0, site: 0, number: 0, allocations: 0 };
    let mut tree = Tree { nodes: vec![root], calls: HashMap::new() };
    let mut current: Vec<(FrameId, u32)> = Vec::new();
    let mut last_stack = None;
    let mut nodes = Vec::with_capacity(made.len());
    for stack in made {
        let chain = calls.get(stack);
        let chain = chain.get(..MOST_DEPTH.min(chain.len())).unwrap_or_default();
        if chain.is_empty() || stacks.part(stack) != Some(pass.part) {
            nodes.push(None);
            continue;
        }
        if last_stack != Some(stack) {
            let mut depth = 0;
            // As far as the calls are the ones before.
            while depth < chain.len().min(current.len()) {
                let (frame, node) = current[depth];
                if frame != chain[depth] && !calls.goes_on(frame, chain[depth]) {
                    break;
                }
                let moved = frame != chain[depth];
                current[depth] = (chain[depth], node);
                depth += 1;
                if moved {
                    break;
                }
            }
            current.truncate(depth);
            while current.len() < chain.len() {
                let node = match current.last() {
                    Some(&(frame, parent)) => tree.call(parent, frame),
                    // The outermost function: all of the pass.
                    None => tree.call(0, chain[0]),
                };
                current.push((chain[current.len()], node));
            }
            last_stack = Some(stack);
        }
        let node = current.last().map(|(_, node)| *node);
        nodes.push(node);
        let mut at = node;
        while let Some(node) = at {
            tree.nodes[node as usize].allocations += 1;
            at = (node != 0).then(|| tree.nodes[node as usize].parent);
        }
    }
    (tree, nodes)
}

impl Tree {
    /// A new call by a line of a call.
    fn call(&mut self, parent: u32, line: FrameId) -> u32 {
        let node = self.nodes.len() as u32;
        let made = self.calls.entry((parent, line)).or_default();
        let number = made.len() as u32;
        made.push(node);
        let site =
            (self.nodes[parent as usize].site ^ (u64::from(line.0) + 1)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.nodes.push(Node { parent, site, number, allocations: 0 });
        node
    }

    /// Lines that loop over layers, by the call that they are in: most of their calls allocate alike.
    fn loops(&self) -> Vec<bool> {
        let mut is_layer = vec![false; self.nodes.len()];
        for ((parent, _), made) in &self.calls {
            // The outermost function is the model.
            if *parent == 0 || made.len() < 2 {
                continue;
            }
            let mut counts: Vec<u32> =
                made.iter().map(|&node| self.nodes[node as usize].allocations).collect();
            counts.sort_unstable();
            let usual = counts[counts.len() / 2];
            let alike = counts.iter().filter(|&&count| count.abs_diff(usual) * 4 <= usual).count();
            // The first may do more: T5's makes the position bias for all.
            if usual >= LEAST_ALLOCATIONS && alike >= 2 && alike * 2 > made.len() {
                made.iter().for_each(|&node| is_layer[node as usize] = true);
            }
        }
        is_layer
    }

    /// The outermost layer that a call lies in: where it is called, and its number.
    fn layer(&self, mut node: u32, is_layer: &[bool]) -> Option<(u64, u32)> {
        let mut found = None;
        while node != 0 {
            let call = &self.nodes[node as usize];
            if is_layer[node as usize] {
                found = Some((call.site, call.number));
            }
            node = call.parent;
        }
        found
    }
}

/// A layer allocates more than once: what allocates once is an operation.
const LEAST_ALLOCATIONS: u32 = 2;
