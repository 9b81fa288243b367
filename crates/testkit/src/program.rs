//! A random program that uses memory as a training run does, on the simulated allocator.
//!
//! Parameters first; then steps of forward (activations and temporaries per layer), backward (activations go in
//! reverse order, gradients come) and optimizer. Some tensors live on side streams, some frees wait for another
//! stream, some memory is in private pools, a little leaks, and now and then the cache is emptied. The seed
//! determines everything, so that a program can be run twice: once for its end, once for its events.

use crate::allocator::{Allocator, BlockId, Config};
use crate::rng::Rng;
use crate::stacks::StackTable;
use crate::trace::{Counters, Event, PoolId, SegmentInfo};

/// What to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many events each device records (a few more: a program stops between two operations).
    pub events: u64,
    /// Determines everything random.
    pub seed: u64,
    /// The number of devices; each runs a program of its own.
    pub devices: u32,
    /// The shortest and the longest stack.
    pub depth: (u32, u32),
    /// The number of different frames.
    pub frames: u32,
    /// The number of private pools.
    pub pools: u32,
    /// The number of side streams.
    pub streams: u32,
    /// Recording starts after this many events; what they allocated has no stack.
    pub late_start: u64,
    /// Only the last events are kept, up to this number; blocks keep their stacks.
    pub ring: Option<u64>,
    /// Events have a `pool_id` (PyTorch 2.12 and later).
    pub pool_id: bool,
    /// The allocator of each device.
    pub allocator: Config,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            events: 10_000,
            seed: 1,
            devices: 1,
            depth: (10, 40),
            frames: 1000,
            pools: 0,
            streams: 2,
            late_start: 0,
            ring: None,
            pool_id: false,
            allocator: Config::default(),
        }
    }
}

/// One `record_function` mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// `START` or `END`.
    pub stage: &'static str,
    /// What the program calls it.
    pub name: &'static str,
    /// The device that ran it.
    pub device: u32,
    /// When.
    pub time_us: i64,
}

/// What is known when a program has ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// The segments of the device.
    pub segments: Vec<SegmentInfo>,
    /// The counters before the first recorded event.
    pub start: Counters,
    /// The counters at the end.
    pub end: Counters,
    /// The marks that were recorded.
    pub annotations: Vec<Annotation>,
    /// The number of recorded events.
    pub events: u64,
    /// Every context's serial is below this.
    pub contexts: u32,
}

/// A program that can be run on any device, any number of times.
#[derive(Clone, Debug)]
pub struct Program {
    /// What to record.
    pub options: Options,
    /// Its frames and call sites.
    pub stacks: StackTable,
}

/// The first moment of every program.
const START_US: i64 = 1_780_000_000_000_000;
const MIB: u64 = 1 << 20;

impl Program {
    /// The program of these options.
    pub fn new(options: Options) -> Self {
        let stacks = StackTable::new(options.frames, options.depth, &mut Rng::new(options.seed ^ 0x57ac));
        Self { options, stacks }
    }

    /// Runs the program of one device. `sink` gets every recorded event, and the counters after it; the ring is
    /// not applied here.
    pub fn run(&self, device: u32, sink: impl FnMut(&Event, &Counters)) -> Ending {
        let options = &self.options;
        let config =
            Config { base: options.allocator.base + (u64::from(device) << 42), ..options.allocator.clone() };
        let mut allocator = Allocator::new(config, sink);
        allocator.set_recording(options.late_start == 0);
        allocator.time_us = START_US + i64::from(device);
        let mut run = Run {
            options,
            device,
            allocator,
            rng: Rng::new(options.seed.wrapping_mul(1_000_003) ^ u64::from(device)),
            sites: self.stacks.sites.len() as u64,
            waiting: Vec::new(),
            annotations: Vec::new(),
            start: Counters::default(),
            recording_from: (options.late_start == 0).then_some(0),
        };
        run.train();
        let from = run.recording_from.unwrap_or(run.allocator.events());
        Ending {
            segments: run.allocator.segments(),
            start: run.start,
            end: run.allocator.counters(),
            annotations: run.annotations,
            events: run.allocator.events() - from,
            contexts: run.allocator.contexts(),
        }
    }
}

struct Run<'a, S> {
    options: &'a Options,
    device: u32,
    allocator: Allocator<S>,
    rng: Rng,
    sites: u64,
    /// Deferred frees whose stream is still busy.
    waiting: Vec<BlockId>,
    annotations: Vec<Annotation>,
    start: Counters,
    /// The number of the first recorded event.
    recording_from: Option<u64>,
}

impl<S: FnMut(&Event, &Counters)> Run<'_, S> {
    fn train(&mut self) {
        let layers = self.rng.range(12, 32);
        let mut kept = Vec::new();
        for i in 0..layers * 9 {
            if self.done() {
                return;
            }
            let size = if i % 3 == 0 { self.size(i) } else { *self.rng.pick(&[4, 8, 12]) * MIB };
            kept.extend(self.malloc(size, 0, (0, 0), i));
        }
        while !self.done() {
            self.mark("START", "## step ##");
            self.step(layers, &mut kept);
            self.mark("END", "## step ##");
        }
    }

    fn step(&mut self, layers: u64, kept: &mut Vec<BlockId>) {
        self.mark("START", "## forward ##");
        let mut activations = Vec::new();
        for layer in 0..layers {
            let mut temporaries = Vec::new();
            for op in 0..self.rng.range(3, 9) {
                let call = 1000 + layer * 16 + op;
                let (stream, pool) = (self.stream(), self.pool());
                let size = self.size(call);
                let Some(id) = self.malloc(size, stream, pool, call) else { continue };
                let lives = if self.rng.percent(55) { &mut temporaries } else { &mut activations };
                lives.push(id);
            }
            for id in temporaries {
                self.free(id, 1000 + layer);
            }
            if self.done() {
                break;
            }
        }
        self.mark("END", "## forward ##");
        self.mark("START", "## backward ##");
        let mut gradients = Vec::new();
        while let Some(id) = activations.pop() {
            if self.done() {
                return;
            }
            let call = 2000 + activations.len() as u64;
            let size = self.size(call);
            let gradient = self.malloc(size, 0, (0, 0), call);
            if self.rng.percent(3) {
                self.tick();
                let site = self.site(call);
                self.allocator.free_deferred(id, site);
                self.waiting.push(id);
            } else {
                self.free(id, call);
            }
            match gradient {
                Some(gradient) if self.rng.percent(20) => gradients.push(gradient),
                Some(gradient) => self.free(gradient, call + 1),
                None => {}
            }
        }
        self.mark("END", "## backward ##");
        for id in gradients {
            self.free(id, 3000);
        }
        kept.extend(self.malloc(512, 0, (0, 0), 3001));
        let site = self.site(3002);
        match self.rng.below(200) {
            0..=3 => self.allocator.empty_cache(site),
            4 => self.allocator.snapshot_marker(),
            5..=9 if !kept.is_empty() => {
                let old = kept.swap_remove(self.rng.index(kept.len()));
                self.free(old, 3003);
            }
            _ => {}
        }
    }

    fn done(&self) -> bool {
        self.allocator.events() >= self.options.late_start + self.options.events
    }

    fn malloc(&mut self, size: u64, stream: u64, pool: PoolId, call: u64) -> Option<BlockId> {
        self.tick();
        if !self.waiting.is_empty() && self.rng.percent(3) {
            let id = self.waiting.remove(0);
            self.allocator.stream_done(id);
        }
        let site = self.site(call);
        self.allocator.malloc(size, stream, pool, site)
    }

    fn free(&mut self, id: BlockId, call: u64) {
        self.tick();
        let site = self.site(call + 5000);
        self.allocator.free(id, site);
    }

    /// Between two operations: time goes on, and a late recording may start.
    fn tick(&mut self) {
        self.allocator.time_us += *self.rng.pick(&[0, 1, 1, 2, 4, 20, 60]);
        if self.recording_from.is_none() && self.allocator.events() >= self.options.late_start {
            self.allocator.set_recording(true);
            self.recording_from = Some(self.allocator.events());
            self.start = self.allocator.counters();
        }
    }

    fn mark(&mut self, stage: &'static str, name: &'static str) {
        self.tick();
        if self.recording_from.is_some() {
            let time_us = self.allocator.time_us;
            self.annotations.push(Annotation { stage, name, device: self.device, time_us });
        }
    }

    /// The same call comes from the same place in every step, mostly.
    fn site(&mut self, call: u64) -> u32 {
        let call = if self.rng.percent(10) { call + self.rng.below(3) } else { call };
        (Rng::new(call).next_u64() % self.sites) as u32
    }

    /// The same call needs the same bytes in every step, mostly.
    fn size(&mut self, call: u64) -> u64 {
        let mut fixed = Rng::new(call ^ self.options.seed);
        let rng = if self.rng.percent(80) { &mut fixed } else { &mut self.rng };
        match rng.below(100) {
            0..40 => *rng.pick(&[4, 8, 512, 1024, 2048, 4096, 16384, 65536, 262_144]),
            40..60 => rng.range(1, 900_000),
            60..97 => *rng.pick(&[2, 4, 8, 8, 16, 16, 32]) * MIB + *rng.pick(&[0, 0, 0, 512, 1000]),
            _ => *rng.pick(&[64, 128, 192]) * MIB,
        }
    }

    fn stream(&mut self) -> u64 {
        if self.options.streams == 0 || !self.rng.percent(7) {
            return 0;
        }
        94_000_000_000_000 + 4096 * self.rng.below(self.options.streams.into())
    }

    fn pool(&mut self) -> PoolId {
        if self.options.pools == 0 || !self.rng.percent(20) {
            return (0, 0);
        }
        // Half are pools of the user, half are of captured graphs.
        let n = self.rng.below(self.options.pools.into()) as u32;
        if n.is_multiple_of(2) { (0, n / 2 + 1) } else { (n / 2 + 1, 0) }
    }
}
