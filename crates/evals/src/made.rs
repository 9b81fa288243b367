//! Recordings of the programs in `evals/programs`: what each does to memory, on the simulated allocator.
//!
//! Lines are found by the numbers at their end (`#1`), so that a program can be edited.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::rc::Rc;

use anyhow::{Context as _, bail};
use vramscope_testkit::allocator::{Allocator, BlockId, Config};
use vramscope_testkit::pickle::{Dialect, pickle};
use vramscope_testkit::trace::{Action, Context, Counters, Event, SegmentInfo, State};
use vramscope_testkit::value::{Record, Value, block, event, frame, frames, segment, settings};

use crate::case::root;

const MIB: u64 = 1 << 20;
const DEFAULT: (u32, u32) = (0, 0);

/// The pickle that a program of `evals/programs` would have dumped.
pub fn recording(name: &str) -> anyhow::Result<Vec<u8>> {
    let (program, run): (&str, fn(&mut Run)) = match name {
        "kept_losses" => ("kept_losses", kept_losses),
        "growing_cache" => ("growing_cache", growing_cache),
        "empty_every_step" => ("empty_every_step", empty_every_step),
        "scattered" => ("scattered", scattered),
        "too_large" => ("too_large", too_large),
        "filled" => ("filled", filled),
        "other_stream" => ("other_stream", other_stream),
        "steady" => ("steady", steady),
        "late_sync" => ("late_sync", late_sync),
        other => bail!("there is no program {other:?}"),
    };
    let mut process = Run::new(program)?;
    run(&mut process);
    Ok(process.pickle())
}

/// A device of 1 GiB.
const CAPACITY: u64 = 1 << 30;

/// Gets every event.
type Sink = Box<dyn FnMut(&Event, &Counters)>;

/// A program that runs.
pub struct Run {
    allocator: Allocator<Sink>,
    events: Rc<RefCell<Vec<Event>>>,
    /// The frames of each mark, innermost first.
    stacks: BTreeMap<u32, Value>,
}

/// Where a mark is: its line, and the function around it.
fn marks(source: &str) -> BTreeMap<u32, (u32, String)> {
    let mut function = "<module>".to_owned();
    let mut found = BTreeMap::new();
    for (number, line) in (1..).zip(source.lines()) {
        if let Some(rest) = line.strip_prefix("def ") {
            function = rest.split('(').next().unwrap_or_default().to_owned();
        }
        if let Some(mark) = line.rsplit_once("  #").and_then(|(_, mark)| mark.parse().ok()) {
            found.insert(mark, (number, function.clone()));
        }
    }
    found
}

impl Run {
    fn new(program: &str) -> anyhow::Result<Self> {
        let path = root().join(format!("evals/programs/{program}.py"));
        let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let file = format!("/home/user/{program}.py");
        let marks = marks(&source);
        // The last mark is the call in main, which is below all others.
        let outer = marks.last_key_value().map(|(mark, place)| (*mark, place.clone()));
        let stack = |(mark, (line, function)): (&u32, &(u32, String))| {
            let mut stack = vec![frame(function, &file, *line)];
            if let Some((last, (line, outermost))) = &outer
                && last != mark
                && *outermost != *function
            {
                stack.push(frame(outermost, &file, *line));
            }
            (*mark, frames(&stack))
        };
        let stacks = marks.iter().map(stack).collect();
        let events = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&events);
        let config = Config { capacity: CAPACITY, ..Config::default() };
        let sink: Sink = Box::new(move |event, _| sink.borrow_mut().push(*event));
        Ok(Self { allocator: Allocator::new(config, sink), events, stacks })
    }

    /// Allocates at a mark.
    fn alloc(&mut self, mark: u32, bytes: u64) -> Option<BlockId> {
        self.allocator.time_us += 20;
        self.allocator.malloc(bytes, 0, DEFAULT, mark)
    }

    fn free(&mut self, mark: u32, id: Option<BlockId>) {
        self.allocator.time_us += 10;
        if let Some(id) = id {
            self.allocator.free(id, mark);
        }
    }

    fn frames(&self, context: Option<Context>) -> Value {
        context.and_then(|context| self.stacks.get(&context.site)).cloned().unwrap_or_else(|| frames(&[]))
    }

    fn pickle(self) -> Vec<u8> {
        let row = |found: &Event| {
            let row = event(found.action.name(), found.addr, found.size)
                .stream(found.stream)
                .time(1_800_000_000_000_000 + found.time_us)
                .frames(&self.frames(found.context));
            match found.action {
                Action::Oom => row.without("addr").set("device_free", found.addr),
                _ => row,
            }
        };
        let trace: Vec<Value> = self.events.borrow().iter().map(|event| row(event).into()).collect();
        let segments = self.allocator.segments();
        let held = segments.iter().map(|held| Value::from(self.segment(held)));
        let file = Record::new()
            .set("segments", Value::list(held))
            .set("device_traces", Value::list([Value::list(trace)]))
            .set("allocator_settings", settings())
            .set("external_annotations", Value::list(Vec::<Value>::new()));
        pickle(&file.into(), Dialect::Protocol(4))
    }

    fn segment(&self, held: &SegmentInfo) -> Record {
        let blocks = held.blocks.iter().map(|found| {
            let state = match found.state {
                State::Allocated => "active_allocated",
                State::PendingFree => "active_pending_free",
                State::Inactive | State::Unmapped => "inactive",
            };
            block(state, found.addr, found.size, found.requested).frames(&self.frames(found.context))
        });
        segment(held.addr, blocks).stream(held.stream)
    }
}

/// A step of training: two activations that go, and the gradient between them.
fn step(run: &mut Run, first: u32, second: u32, bytes: u64) {
    let hidden = run.alloc(first, bytes);
    let out = run.alloc(second, bytes / 2);
    let gradient = run.alloc(second, bytes);
    run.free(second, out);
    run.free(second, gradient);
    run.free(first, hidden);
}

fn kept_losses(run: &mut Run) {
    run.alloc(6, 120 * MIB);
    for _ in 0..24 {
        step(run, 1, 2, 12 * MIB);
        run.alloc(5, 9 * MIB);
    }
}

fn growing_cache(run: &mut Run) {
    run.alloc(5, 80 * MIB);
    for _ in 0..30 {
        let tokens = run.alloc(1, 2 * MIB);
        run.alloc(2, 11 * MIB);
        let text = run.alloc(4, 24 * MIB);
        run.free(4, text);
        run.free(1, tokens);
    }
}

fn empty_every_step(run: &mut Run) {
    run.alloc(4, 100 * MIB);
    for _ in 0..30 {
        step(run, 1, 2, 40 * MIB);
        run.allocator.empty_cache(3);
    }
}

/// Two buffers of 8 MiB share a segment of 20 MiB with two vectors of 2, which pin it.
fn scattered(run: &mut Run) {
    let mut buffers = Vec::new();
    for _ in 0..100 {
        buffers.push(run.alloc(1, 8 * MIB));
        run.alloc(2, 2 * MIB);
    }
    buffers.into_iter().for_each(|buffer| run.free(3, buffer));
    run.alloc(5, 600 * MIB);
}

fn too_large(run: &mut Run) {
    run.alloc(2, 60 * MIB);
    run.alloc(3, 60 * MIB);
    run.alloc(1, 3600 * MIB);
}

fn filled(run: &mut Run) {
    while run.alloc(1, 48 * MIB).is_some() {}
}

/// Segments of 240 MiB of which 110 are free, for stream 7 alone.
fn other_stream(run: &mut Run) {
    let on = |run: &mut Run, mark: u32, bytes: u64| run.allocator.malloc(bytes, 7, DEFAULT, mark);
    let raw: Vec<_> = (0..4).map(|_| on(run, 1, 240 * MIB)).collect();
    raw.into_iter().for_each(|id| run.free(2, id));
    for _ in 0..4 {
        on(run, 3, 130 * MIB);
    }
    run.alloc(5, 90 * MIB);
}

fn steady(run: &mut Run) {
    run.alloc(3, 100 * MIB);
    for _ in 0..30 {
        step(run, 1, 2, 40 * MIB);
    }
}

fn late_sync(run: &mut Run) {
    for _ in 0..40 {
        let result = run.alloc(1, 32 * MIB);
        if let Some(id) = result {
            run.allocator.free_deferred(id, 2);
            run.allocator.time_us += 5000;
            let next = run.alloc(1, 32 * MIB);
            run.free(2, next);
            run.allocator.stream_done(id);
        }
    }
}
