//! What is live at a moment, and the views of it: made when it is first looked at, kept until it changes.

use hashbrown::HashMap;
use vramscope_analysis::{
    AllocIdx, CallTree, Direction, Line, Moment, State, Sum, Weight, by_line, live_weights,
};

use crate::document::Subject;
use crate::filter::Filter;
use crate::outline::{NodeId, Outline};

/// What is live at a moment and passes the filter.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) state: State,
    pub(crate) weights: Vec<Weight>,
    /// Requested bytes and number of what passes.
    pub(crate) total: Sum,
}

impl Live {
    pub(crate) fn new(subject: Subject<'_>, at: Moment, filter: &Filter) -> Self {
        let state = subject.replay().state(at);
        let snapshot = subject.snapshot();
        let keep =
            |_: AllocIdx, allocation: &_| filter.is_empty() || filter.keeps(snapshot, &state, allocation);
        let weights = live_weights(subject.replay(), &state, keep);
        let total = weights.iter().fold(Sum::default(), |sum, weight| Sum {
            bytes: sum.bytes.saturating_add(weight.bytes),
            count: sum.count + weight.count,
        });
        Self { state, weights, total }
    }

    /// The call tree, and the node in which each stack ends.
    pub(crate) fn tree(
        &self,
        subject: Subject<'_>,
        direction: Direction,
        hide_internal: bool,
    ) -> (Outline, Ends) {
        let keep = |frame| !hide_internal || !subject.doc.is_internal(frame);
        let tree = CallTree::new(subject.snapshot(), &self.weights, direction, keep);
        let (outline, numbers) = Outline::of_tree(&tree);
        let ends = self.weights.iter().zip(&tree.ends);
        let ends = ends.map(|(weight, &row)| (weight.stack, numbers.get(row).copied().unwrap_or(0)));
        (outline, Ends(ends.collect()))
    }

    /// The allocations that pass the filter, with the node in which each one's stack ends, heaviest first in each.
    pub(crate) fn members(&self, subject: Subject<'_>, filter: &Filter, ends: &Ends) -> Members {
        let snapshot = subject.snapshot();
        let mut rows: Vec<(NodeId, std::cmp::Reverse<u64>, AllocIdx)> = Vec::new();
        for &index in &self.state.live {
            let allocation = subject.replay().allocation(index);
            if !filter.is_empty() && !filter.keeps(snapshot, &self.state, &allocation) {
                continue;
            }
            let node = ends.0.get(&allocation.stack).copied().unwrap_or(0);
            rows.push((node, std::cmp::Reverse(allocation.requested), index));
        }
        rows.sort_unstable();
        Members(rows.into_iter().map(|(node, _, index)| (node, index)).collect())
    }
}

/// The node in which each stack ends.
#[derive(Debug, Default)]
pub(crate) struct Ends(HashMap<vramscope_snapshot::StackId, NodeId>);

/// Live allocations in the order of the tree.
#[derive(Debug, Default)]
pub(crate) struct Members(Vec<(NodeId, AllocIdx)>);

impl Members {
    /// The allocations below a node, or only its own.
    pub(crate) fn of(&self, outline: &Outline, node: NodeId, is_own: bool) -> &[(NodeId, AllocIdx)] {
        let end = match outline.get(node) {
            Some(item) if !is_own => item.end,
            _ => node + 1,
        };
        let from = self.0.partition_point(|&(of, _)| of < node);
        let to = self.0.partition_point(|&(of, _)| of < end);
        self.0.get(from..to).unwrap_or_default()
    }
}

/// The heaviest lines at a moment: what the first screen says about it.
#[derive(Debug)]
pub(crate) struct Glance {
    pub(crate) at: Moment,
    pub(crate) lines: Vec<(Line, Sum)>,
    pub(crate) total: Sum,
}

impl Glance {
    pub(crate) fn new(subject: Subject<'_>, at: Moment) -> Self {
        let live = Live::new(subject, at, &Filter::default());
        let mut lines: Vec<_> = by_line(subject.snapshot(), &live.weights).into_iter().collect();
        lines.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.bytes));
        Self { at, lines, total: live.total }
    }
}
