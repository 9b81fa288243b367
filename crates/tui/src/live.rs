//! What is live at a moment, and the views of it: made when it is first looked at, kept until it changes.

use hashbrown::HashMap;
use vramscope_analysis::query::{Filter, Selection};
use vramscope_analysis::{
    AllocIdx, Allocation, CallTree, Direction, Line, Moment, State, Sum, Weight, by_line, live_weights,
};

use crate::document::Subject;
use crate::outline::{NodeId, Outline};

/// What the views of a moment show: which moment, and which allocations.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) at: Moment,
    /// The moment to compare with.
    pub(crate) mark: Option<Moment>,
    pub(crate) filter: ActiveFilter,
    /// What is live then, once a view has asked for it.
    pub(crate) live: Option<Live>,
}

impl Scope {
    pub(crate) fn new(at: Moment) -> Self {
        Self { at, mark: None, filter: ActiveFilter::default(), live: None }
    }

    /// What a list says that has no rows.
    pub(crate) fn nothing(&self) -> &'static str {
        match self.filter.is_empty() {
            true => "nothing is live at this moment",
            false => "nothing that is live at this moment passes the filter; Esc clears it",
        }
    }
}

/// A filter as it was typed, and as it was looked up in the trace that is shown.
#[derive(Debug, Default)]
pub(crate) struct ActiveFilter {
    pub(crate) text: String,
    selection: Option<Selection>,
}

impl ActiveFilter {
    /// Reads what was typed, and looks it up: goes through the trace at most once.
    pub(crate) fn new(text: &str, subject: Subject<'_>) -> Result<Self, String> {
        let filter = Filter::parse(text).map_err(|error| error.to_string())?;
        if !filter.leaves_out_allocations() {
            return Ok(Self::default());
        }
        let selection = filter.bind(subject.replay()).map_err(|error| error.to_string())?;
        Ok(Self { text: text.trim().to_owned(), selection: Some(selection) })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.selection.is_none()
    }

    /// The filter in the trace, if there is one.
    pub(crate) fn selection(&self) -> Option<&Selection> {
        self.selection.as_ref()
    }

    pub(crate) fn keeps(&self, subject: Subject<'_>, index: AllocIdx, allocation: &Allocation) -> bool {
        let snapshot = subject.snapshot();
        self.selection.as_ref().is_none_or(|selection| selection.keeps(snapshot, index, allocation))
    }

    /// Whether anything in the whole trace passes.
    pub(crate) fn matches_any(&self, subject: Subject<'_>) -> bool {
        subject
            .replay()
            .allocations()
            .iter()
            .any(|(index, allocation)| self.keeps(subject, index, &allocation))
    }
}

/// What is live at a moment and passes the filter.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) state: State,
    pub(crate) weights: Vec<Weight>,
    /// Requested bytes and number of what passes.
    pub(crate) total: Sum,
}

impl Live {
    pub(crate) fn new(subject: Subject<'_>, at: Moment, filter: &ActiveFilter) -> Self {
        let state = subject.replay().state(at);
        let keep = |index: AllocIdx, allocation: &_| filter.keeps(subject, index, allocation);
        let weights = live_weights(&state, keep);
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
        let keep = |frame| subject.doc.shows(frame, hide_internal);
        let tree = CallTree::new(subject.snapshot(), &self.weights, direction, keep);
        let (outline, numbers) = Outline::of_tree(&tree);
        let ends = self.weights.iter().zip(&tree.ends);
        let ends = ends.map(|(weight, &row)| (weight.stack, numbers.get(row).copied().unwrap_or(0)));
        (outline, Ends(ends.collect()))
    }

    /// The allocations that pass the filter, with the node in which each one's stack ends, heaviest first in each.
    pub(crate) fn members(&self, subject: Subject<'_>, filter: &ActiveFilter, ends: &Ends) -> Members {
        let mut rows: Vec<(NodeId, std::cmp::Reverse<u64>, AllocIdx)> = Vec::new();
        for &index in &self.state.live {
            let allocation = subject.replay().allocation(index);
            if !filter.keeps(subject, index, &allocation) {
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
        let live = Live::new(subject, at, &ActiveFilter::default());
        let mut lines: Vec<_> = by_line(subject.snapshot(), &live.weights).into_iter().collect();
        lines.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.bytes));
        Self { at, lines, total: live.total }
    }
}
