//! A small program's whole recording in memory: its events, the counters after each of them, and its end.
//! For tests; [`crate::write`] is for files of any size.

use std::collections::{BTreeMap, VecDeque};

use crate::pickle::{Dialect, pickle};
use crate::program::{Annotation, Options, Program};
use crate::stacks::StackTable;
use crate::trace::{Action, Context, Counters, Event, SegmentInfo, State};
use crate::value::{Record, Value, annotation, frame, no_frames, settings};

/// What one device recorded, and the truth about it.
#[derive(Clone, Debug)]
pub struct Device {
    /// The trace.
    pub events: Vec<Event>,
    /// The counters after each event of the trace.
    pub counters: Vec<Counters>,
    /// The counters before the first event of the trace.
    pub start: Counters,
    /// The segments at the end.
    pub segments: Vec<SegmentInfo>,
}

impl Device {
    /// The counters at the end.
    pub fn end(&self) -> Counters {
        self.counters.last().copied().unwrap_or(self.start)
    }

    /// The highest that each counter was, from the start of the trace on.
    pub fn peaks(&self) -> Counters {
        self.counters.iter().fold(self.start, |peaks, counters| peaks.max(*counters))
    }
}

/// What a program recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    /// How it was made.
    pub options: Options,
    /// The frames and call sites.
    pub stacks: StackTable,
    /// One for each device.
    pub devices: Vec<Device>,
    /// The marks of all devices.
    pub annotations: Vec<Annotation>,
}

/// Runs the program of these options, and keeps everything.
pub fn record(options: &Options) -> Recording {
    let program = Program::new(options.clone());
    let mut annotations = Vec::new();
    let mut devices = Vec::new();
    for number in 0..options.devices {
        let (mut events, mut counters) = (VecDeque::new(), VecDeque::new());
        let mut before = None;
        let ending = program.run(number, |event, after| {
            events.push_back(*event);
            counters.push_back(*after);
            if options.ring.is_some_and(|ring| events.len() as u64 > ring) {
                events.pop_front();
                before = counters.pop_front();
            }
        });
        annotations.extend(in_ring(ending.annotations, options.ring));
        devices.push(Device {
            events: events.into(),
            counters: counters.into(),
            start: before.unwrap_or(ending.start),
            segments: ending.segments,
        });
    }
    Recording { options: options.clone(), stacks: program.stacks, devices, annotations }
}

/// The marks have a ring of their own, of the same length.
pub(crate) fn in_ring(mut annotations: Vec<Annotation>, ring: Option<u64>) -> Vec<Annotation> {
    let lost = annotations.len().saturating_sub(ring.unwrap_or(u64::MAX) as usize);
    annotations.drain(..lost);
    annotations
}

impl Recording {
    /// The file of this recording.
    pub fn pickle(&self, dialect: Dialect) -> Vec<u8> {
        pickle(&self.value(dialect), dialect)
    }

    /// The recording as PyTorch's Python side builds it, or (for the order of keys) its C++ side.
    pub fn value(&self, dialect: Dialect) -> Value {
        let frames = self.stacks.frames.iter().map(|f| frame(&f.name, &f.filename, f.line)).collect();
        let mut builder = Builder {
            recording: self,
            cpp: !matches!(dialect, Dialect::Protocol(_)),
            frames,
            lists: BTreeMap::new(),
        };
        let (mut segments, mut traces) = (Vec::new(), Vec::new());
        for (number, device) in self.devices.iter().enumerate() {
            segments.extend(device.segments.iter().map(|segment| builder.segment(number, segment)));
        }
        for (number, device) in self.devices.iter().enumerate() {
            traces.push(Value::list(device.events.iter().map(|event| builder.event(number, event))));
        }
        let marks =
            self.annotations.iter().map(|a| annotation(a.stage, a.name, a.time_us).set("device", a.device));
        Record::new()
            .set("segments", Value::list(segments))
            .set("device_traces", Value::list(traces))
            .set("allocator_settings", self.settings())
            .set("external_annotations", Value::list(marks))
            .into()
    }

    fn settings(&self) -> Record {
        let config = &self.options.allocator;
        let divisions = config.roundup_power2_divisions.iter().enumerate();
        let divisions = divisions.fold(Record::new(), |all, (i, n)| all.set(&(1u32 << i).to_string(), *n));
        settings()
            .set("max_split_size", config.max_split_size.map_or(-1, i128::from))
            .set("expandable_segments", config.expandable)
            .set("roundup_power2_divisions", divisions)
    }
}

struct Builder<'a> {
    recording: &'a Recording,
    cpp: bool,
    frames: Vec<Value>,
    /// The list of each context that was used, by device and serial.
    lists: BTreeMap<(usize, u32), Value>,
}

impl Builder<'_> {
    fn list(&mut self, device: usize, context: Context) -> Value {
        let site = &self.recording.stacks.sites[context.site as usize];
        let list = || Value::list(site.iter().map(|frame| self.frames[*frame as usize].clone()));
        self.lists.entry((device, context.serial)).or_insert_with(list).clone()
    }

    fn event(&mut self, device: usize, event: &Event) -> Record {
        let addr = if event.action == Action::Oom { "device_free" } else { "addr" };
        let mut record = Record::new()
            .word("action", event.action.name())
            .set(addr, event.addr)
            .set("size", event.size)
            .stream(event.stream);
        if !self.cpp {
            record = record.time(event.time_us);
        }
        record = record.set("compile_context", "N/A").word("user_metadata", "");
        if self.cpp {
            record = record.time(event.time_us);
        }
        if self.recording.options.pool_id {
            record = record.pool(event.pool.0.into(), event.pool.1.into());
        }
        match event.context {
            Some(context) => record.frames(&self.list(device, context)),
            None => record,
        }
    }

    fn segment(&mut self, device: usize, segment: &SegmentInfo) -> Record {
        let record = Record::new()
            .set("device", device as u64)
            .set("address", segment.addr)
            .set("total_size", segment.bytes.reserved)
            .set("allocated_size", segment.bytes.allocated)
            .set("active_size", segment.bytes.active)
            .set("requested_size", segment.bytes.requested)
            .stream(segment.stream)
            .word("segment_type", if segment.small { "small" } else { "large" })
            .segment_pool(segment.pool.0.into(), segment.pool.1.into())
            .set("is_expandable", self.recording.options.allocator.expandable);
        let mut blocks = Vec::new();
        for block in &segment.blocks {
            let frames = block.context.map_or_else(no_frames, |context| self.list(device, context));
            let state = block_state(block.state);
            let record = crate::value::block(state, block.addr, block.size, block.requested).frames(&frames);
            blocks.push(record);
        }
        match segment.context {
            Some(context) => record.set("blocks", Value::list(blocks)).frames(&self.list(device, context)),
            None => record.frames(&no_frames()).set("blocks", Value::list(blocks)),
        }
    }
}

pub(crate) fn block_state(state: State) -> &'static str {
    match state {
        State::Allocated => "active_allocated",
        State::PendingFree => "active_pending_free",
        State::Inactive | State::Unmapped => "inactive",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocator::{Config, Stacks};

    fn sums(segments: &[SegmentInfo]) -> Counters {
        segments.iter().fold(Counters::default(), |sum, segment| Counters {
            requested: sum.requested + segment.bytes.requested,
            allocated: sum.allocated + segment.bytes.allocated,
            active: sum.active + segment.bytes.active,
            reserved: sum.reserved + segment.bytes.reserved,
        })
    }

    fn variants() -> Vec<Options> {
        let options = Options { events: 20_000, pools: 2, ..Options::default() };
        let with = |allocator: Config| Options { allocator, ..options.clone() };
        vec![
            with(Config { expandable: true, ..Config::default() }),
            with(Config { roundup_power2_divisions: [8; 16], ..Config::default() }),
            with(Config { max_split_size: Some(40 << 20), capacity: 5 << 29, ..Config::default() }),
            with(Config { capacity: 5 << 29, ..Config::default() }),
            with(Config { capacity: 5 << 29, expandable: true, ..Config::default() }),
            Options { late_start: 5000, devices: 2, ..options.clone() },
            Options { ring: Some(3000), ..options.clone() },
            options,
        ]
    }

    #[test]
    fn the_segments_at_the_end_add_up_to_the_counters() {
        for options in variants() {
            for device in record(&options).devices {
                assert_eq!(sums(&device.segments), device.end(), "{options:?}");
            }
        }
    }

    #[test]
    fn requested_and_reserved_follow_from_the_sizes_of_the_events() {
        for options in variants() {
            for device in record(&options).devices {
                let (mut requested, mut reserved) = (device.start.requested, device.start.reserved);
                for (event, counters) in device.events.iter().zip(&device.counters) {
                    match event.action {
                        Action::Alloc => requested += event.size,
                        Action::FreeCompleted => requested -= event.size,
                        Action::SegmentAlloc | Action::SegmentMap => reserved += event.size,
                        Action::SegmentFree | Action::SegmentUnmap => reserved -= event.size,
                        Action::FreeRequested | Action::Snapshot | Action::Oom => {}
                    }
                    assert_eq!((requested, reserved), (counters.requested, counters.reserved), "{event:?}");
                }
            }
        }
    }

    #[test]
    fn the_variants_do_what_they_are_for() {
        let seen = |options: &Options, action| {
            record(options).devices[0].events.iter().any(|event| event.action == action)
        };
        let variants = variants();
        assert!(seen(&variants[0], Action::SegmentUnmap));
        assert!(seen(&variants[2], Action::Oom));
        assert!(seen(&variants[3], Action::Oom));
        assert!(seen(&variants[4], Action::Oom));
        assert!(seen(&variants[7], Action::SegmentFree));
        let late = record(&variants[5]);
        assert!(late.devices[0].start.active > 0);
        let old = late.devices[0].segments.iter().flat_map(|segment| &segment.blocks);
        assert!(old.filter(|block| block.state == State::Allocated).any(|block| block.context.is_none()));
        let ring = record(&variants[6]);
        assert_eq!(ring.devices[0].events.len(), 3000);
        let live = ring.devices[0].segments.iter().flat_map(|segment| &segment.blocks);
        assert!(live.filter(|block| block.state == State::Allocated).all(|block| block.context.is_some()));
    }

    #[test]
    fn stacks_are_kept_as_asked() {
        let with = |stacks| {
            let allocator = Config { stacks, ..Config::default() };
            let device = record(&Options { events: 3000, allocator, ..Options::default() }).devices.remove(0);
            let blocks = device.segments.iter().flat_map(|segment| &segment.blocks);
            let free = device.events.iter().find(|event| event.action == Action::FreeRequested).unwrap();
            let alloc =
                device.events.iter().find(|e| e.action == Action::Alloc && e.addr == free.addr).unwrap();
            (blocks.filter(|block| block.context.is_some()).count() > 0, alloc.context, free.context)
        };
        assert_eq!(with(Stacks::None), (false, None, None));
        assert_eq!(with(Stacks::State), (true, None, None));
        let (blocks, alloc, free) = with(Stacks::Alloc);
        assert!(blocks && alloc.is_some() && alloc == free);
        let (blocks, alloc, free) = with(Stacks::All);
        assert!(blocks && alloc.is_some() && free.is_some() && alloc != free);
    }
}
