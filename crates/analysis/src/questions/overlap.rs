//! What lived at the same time: at a moment, or at any time between two, by operator or by stack.

use std::cmp::Reverse;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use vramscope_format::phase;
use vramscope_replay::{AllocIdx, Allocation, Moment};
use vramscope_snapshot::{Snapshot, StackId};

use crate::device::Device;
use crate::questions::compare::Line;
use crate::questions::frames::{innermost, user_frame};
use crate::questions::spans::open_spans;

/// What allocations are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum GroupBy {
    /// The operator of the framework, where the file names it; else the innermost frame.
    Operator,
    /// The user's own line.
    Line,
    /// The whole stack.
    Stack,
    /// What the memory is for.
    Category,
    /// The innermost annotation that was open.
    Phase,
}

/// Allocations of one operator, line or stack that lived at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// What they have in common; empty where the file does not say.
    pub name: String,
    /// Bytes requested by all of them. Over a stretch not all of them lived at once.
    pub bytes: u64,
    /// The allocations, largest first.
    pub allocations: Vec<AllocIdx>,
}

/// The operator at the top of a stack: `aten::mm`. The innermost frame where no operator is named.
pub fn operator(snapshot: &Snapshot, stack: StackId) -> Option<String> {
    let is_operator =
        |name: &str, file: &str| file.is_empty() && name.contains("::") && !name.contains(['(', '<', ' ']);
    let mut frames = snapshot.frames(stack);
    let named = frames.find(|frame| is_operator(snapshot.text(frame.name), snapshot.text(frame.file)));
    // C++ stacks begin with the code that recorded them; the ATen kernel above it is the operator.
    let kernel = || {
        snapshot.frames(stack).find(|frame| {
            let name = snapshot.text(frame.name);
            name.starts_with("at::_ops::") || name.starts_with("at::native::")
        })
    };
    let frame = named.or_else(kernel).or_else(|| innermost(snapshot, stack))?;
    Some(Line::new(snapshot, frame).short())
}

/// The allocations that live at any moment from one to another, both included, in groups: those with most
/// bytes first. `keep` says which allocations count.
pub fn overlap(
    device: &Device,
    (from, to): (Moment, Moment),
    by: GroupBy,
    keep: impl Fn(AllocIdx, &Allocation) -> bool,
) -> Vec<Overlap> {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let categories = (by == GroupBy::Category).then(|| device.categories());
    let spans = if by == GroupBy::Phase { device.spans() } else { &[] };
    let name = |index: AllocIdx, allocation: &Allocation| match by {
        GroupBy::Operator => operator(snapshot, allocation.stack).unwrap_or_default(),
        GroupBy::Line => user_frame(snapshot, allocation.stack)
            .map(|frame| Line::new(snapshot, frame).short())
            .unwrap_or_default(),
        GroupBy::Stack => {
            let frames = snapshot.frames(allocation.stack).map(|frame| Line::new(snapshot, frame).short());
            frames.collect::<Vec<_>>().join(" ← ")
        }
        GroupBy::Category => {
            let known = categories.as_ref();
            known.and_then(|known| known.names().get(known.of(index)).cloned()).unwrap_or_default()
        }
        GroupBy::Phase => {
            let open = open_spans(spans, allocation.opened);
            open.last().map_or_else(String::new, |span| phase(snapshot.text(span.name)).to_owned())
        }
    };
    // Many allocations share a stack, so names that follow from it are made once.
    let is_by_stack = !matches!(by, GroupBy::Category | GroupBy::Phase);
    let mut names: HashMap<StackId, usize> = HashMap::new();
    let mut groups: Vec<Overlap> = Vec::new();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    let mut found = replay.overlapping_rows(from, to);
    // So those of each group come largest first.
    found.sort_by_key(|(index, allocation)| (Reverse(allocation.requested), *index));
    for (index, allocation) in found {
        if !keep(index, &allocation) {
            continue;
        }
        let mut group_of = || {
            let name = name(index, &allocation);
            *by_name.entry(name.clone()).or_insert_with(|| {
                groups.push(Overlap { name, bytes: 0, allocations: Vec::new() });
                groups.len() - 1
            })
        };
        let group =
            if is_by_stack { *names.entry(allocation.stack).or_insert_with(group_of) } else { group_of() };
        if let Some(group) = groups.get_mut(group) {
            group.bytes = group.bytes.saturating_add(allocation.requested);
            group.allocations.push(index);
        }
    }
    groups.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    groups
}
