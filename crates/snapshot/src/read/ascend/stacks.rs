//! Which call stack an allocation has: that of the operator of its name which was running.
//!
//! Rows name an operator and a time, but no thread. A slice of that name must be running at that time; of
//! several, the one that began last is the innermost. Where slices of two threads fit, the choice is a
//! guess, and that is counted.

use hashbrown::HashMap;

use crate::model::{FrameId, StackId, StrId};
use crate::read::rows::Tables;
use crate::read::trace::{Frames, Slice};

/// Slices of one name that are looked at for one allocation.
const LOOK_BACK: usize = 64;

pub(super) struct Stacks {
    /// Slices with a call stack, by name and beginning, each with the latest end of those before it.
    slices: Vec<(Slice, i64)>,
    by_name: HashMap<StrId, std::ops::Range<usize>>,
    frames: Frames,
    /// Frames of a call stack, looked up once.
    call_stacks: HashMap<StrId, Vec<FrameId>>,
    /// Stacks of operators that nothing is known of but their name.
    plain: HashMap<StrId, StackId>,
    /// Allocations that slices of several threads fit.
    pub(super) ambiguous: u64,
    /// Allocations that have a call stack.
    pub(super) found: u64,
}

impl Stacks {
    pub(super) fn new(slices: Vec<Slice>) -> Self {
        let mut slices: Vec<(Slice, i64)> = slices
            .into_iter()
            .filter(|slice| slice.call_stack != StrId::EMPTY && slice.name != StrId::EMPTY)
            .map(|slice| (slice, 0))
            .collect();
        slices.sort_by_key(|(slice, _)| (slice.name, slice.start_ns));
        let mut by_name: HashMap<StrId, std::ops::Range<usize>> = HashMap::new();
        let mut latest = i64::MIN;
        for (row, (slice, end)) in slices.iter_mut().enumerate() {
            let rows = by_name.entry(slice.name).or_insert(row..row);
            latest = if rows.start == row { slice.end_ns } else { latest.max(slice.end_ns) };
            *end = latest;
            rows.end = row + 1;
        }
        let (frames, call_stacks, plain) = (Frames::default(), HashMap::new(), HashMap::new());
        Self { slices, by_name, frames, call_stacks, plain, ambiguous: 0, found: 0 }
    }

    /// The stack of an allocation by an operator: the operator, and who called it.
    pub(super) fn get(&mut self, tables: &mut Tables, operator: StrId, time_ns: i64) -> StackId {
        let Some(call_stack) = self.running(operator, time_ns) else {
            let Self { frames, plain, .. } = self;
            return *plain.entry(operator).or_insert_with(|| match operator {
                StrId::EMPTY => StackId::ABSENT,
                operator => {
                    let frame = frames.get(tables, operator);
                    tables.stacks.intern(&[frame])
                }
            });
        };
        self.found += 1;
        let Self { frames, call_stacks, .. } = self;
        let mut stack = vec![frames.get(tables, operator)];
        let callers = call_stacks.entry(call_stack).or_insert_with(|| {
            let text = tables.strings.table.get(call_stack).to_owned();
            let lines = text.split(';').map(str::trim).filter(|line| !line.is_empty());
            lines
                .map(|line| {
                    let line = tables.strings.intern(line.as_bytes());
                    frames.get(tables, line)
                })
                .collect()
        });
        if tables.afford(callers.len() as u64) {
            stack.extend_from_slice(callers);
        }
        tables.stacks.intern(&stack)
    }

    fn running(&mut self, operator: StrId, time_ns: i64) -> Option<StrId> {
        let rows = self.slices.get(self.by_name.get(&operator)?.clone())?;
        let begun = rows.partition_point(|(slice, _)| slice.start_ns <= time_ns);
        let before = rows.get(..begun)?.iter().rev().take(LOOK_BACK);
        // Where the latest end of all that began before lies before the time, nothing runs any more.
        let before = before.take_while(|(_, latest)| *latest >= time_ns);
        let mut running = before.map(|(slice, _)| slice).filter(|slice| slice.end_ns >= time_ns);
        let innermost = running.next()?;
        self.ambiguous += u64::from(running.any(|other| other.thread != innermost.thread));
        Some(innermost.call_stack)
    }
}
