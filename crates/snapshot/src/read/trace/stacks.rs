//! Which operators and Python functions were running when memory was allocated.

use hashbrown::HashMap;

use super::{MemoryEvent, Slice, SliceKind};
use crate::model::{Frame, FrameId, Fx, StackId, StrId};
use crate::read::oddities::Oddity;
use crate::read::rows::Tables;

/// Frames of names, looked up once per name.
#[derive(Default)]
pub(in crate::read) struct Frames(HashMap<StrId, FrameId>);

impl Frames {
    pub(in crate::read) fn get(&mut self, tables: &mut Tables, name: StrId) -> FrameId {
        *self.0.entry(name).or_insert_with(|| {
            let frame = frame_of(tables, name);
            tables.stacks.intern_frame(frame, Fx::default())
        })
    }
}

/// The frame that a name stands for: `model.py(10): forward`, or an operator without a file.
fn frame_of(tables: &mut Tables, name: StrId) -> Frame {
    let text = tables.strings.table.get(name);
    let place = text.split_once("): ").and_then(|(place, function)| {
        let (file, line) = place.rsplit_once('(')?;
        Some((file.to_owned(), line.parse().ok()?, function.to_owned()))
    });
    match place {
        Some((file, line, function)) if !file.is_empty() => Frame {
            name: tables.strings.intern(function.as_bytes()),
            file: tables.strings.intern(file.as_bytes()),
            line,
            fx: 0,
        },
        _ => Frame { name, ..Frame::default() },
    }
}

/// Gives each memory event, which are in the order of time, the stack of slices that enclose it on its
/// thread.
pub(super) fn enclosing(slices: &mut [Slice], memory: &[MemoryEvent], tables: &mut Tables) -> Vec<StackId> {
    // Of slices that begin together the longer is the outer one; of equal ones the first that is written.
    slices.sort_by_key(|slice| (slice.thread, slice.start_ns, std::cmp::Reverse(slice.end_ns)));
    let mut by_thread: Vec<u32> = (0..memory.len() as u32).collect();
    by_thread.sort_by_key(|&row| memory[row as usize].thread);
    let mut stacks = vec![StackId::ABSENT; memory.len()];
    let mut frames = Frames::default();
    let mut open: Vec<Slice> = Vec::new();
    let mut scratch: Vec<FrameId> = Vec::new();
    let mut current: Option<StackId> = None;
    let mut next = 0;
    for row in by_thread {
        let event = &memory[row as usize];
        if open.last().is_some_and(|slice| slice.thread != event.thread) {
            open.clear();
            current = None;
        }
        while let Some(slice) = slices.get(next)
            && (slice.thread, slice.start_ns) <= (event.thread, event.time_ns)
        {
            next += 1;
            if slice.thread == event.thread && slice.kind != SliceKind::Annotation {
                while open.pop_if(|outer| outer.end_ns < slice.start_ns).is_some() {}
                open.push(*slice);
                current = None;
            }
        }
        while open.pop_if(|slice| slice.end_ns < event.time_ns).is_some() {
            current = None;
        }
        let stack = match current {
            Some(stack) => stack,
            None => {
                scratch.clear();
                if tables.afford(4 * open.len() as u64) {
                    // A slice that another one outlives is over, wherever it stands.
                    let running = open.iter().rev().filter(|slice| slice.end_ns >= event.time_ns);
                    scratch.extend(running.map(|slice| frames.get(tables, slice.name)));
                } else {
                    tables.oddities.note(Oddity::DeepStack);
                    scratch.extend(open.last().map(|slice| frames.get(tables, slice.name)));
                }
                if scratch.is_empty() { StackId::ABSENT } else { tables.stacks.intern(&scratch) }
            }
        };
        current = Some(stack);
        stacks[row as usize] = stack;
    }
    stacks
}
