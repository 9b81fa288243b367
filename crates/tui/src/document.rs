//! An opened file with the indices that drawing needs, made once when it is loaded.

use std::sync::{Arc, OnceLock};

use vramscope_analysis::categories::DEFAULT_CATEGORIES;
use vramscope_analysis::pictures::Levels;
use vramscope_analysis::pools::{Pools, known_pool};
use vramscope_analysis::query::main_device;
use vramscope_analysis::shapes::Shapes;
use vramscope_analysis::{
    Capacity, Conclusions, Counter, Device, Line, Moment, Span, Times, is_internal, is_internal_phase,
};
use vramscope_engine::{OpenFile, Request, Response, Session};
use vramscope_files::Opened;
use vramscope_format::{count, printable, since};
use vramscope_snapshot::{Action, EventIdx, EventTable, FrameId, PoolId, Snapshot, StackId};

use crate::insight::{Insight, insights};
use crate::means::Means;

/// What a mark on the axis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkKind {
    Oom,
    Held,
    GivenBack,
}

/// A point of the axis to jump to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) at: Moment,
    pub(crate) kind: MarkKind,
}

/// The indices of one device.
#[derive(Debug)]
pub(crate) struct DeviceIndex {
    pub(crate) times: Times,
    /// All spans, in order of beginning.
    pub(crate) spans: Vec<Span>,
    /// Rows of `spans` by lane: those of a lane do not overlap.
    pub(crate) lanes: Vec<Vec<usize>>,
    pub(crate) marks: Vec<Mark>,
    /// How much this process can hold, where the file says so.
    pub(crate) capacity: Option<Capacity>,
    analysis: OnceLock<Analysis>,
}

/// What is concluded about a device. It takes almost as long as reading the file, so the first picture does without.
#[derive(Debug)]
pub(crate) struct Analysis {
    pub(crate) insights: Vec<Insight>,
    /// What is said where there are none.
    pub(crate) nothing_found: String,
    /// Private pools over time.
    pub(crate) pools: Pools,
    pub(crate) conclusions: Conclusions,
    /// Requested bytes of each category over time.
    pub(crate) levels: Vec<Levels>,
    pub(crate) means: Means,
}

/// An opened file.
#[derive(Debug)]
pub struct Document {
    pub(crate) opened: Opened,
    devices: Vec<DeviceIndex>,
    /// For each frame whether it is PyTorch's or CPython's.
    internal: Vec<bool>,
    /// What byte counts may be, if the dimensions of the model are known.
    pub(crate) shapes: Option<Arc<Shapes>>,
    /// What simulates other settings, once somebody asks.
    session: OnceLock<Session>,
    /// What said that it is the same file when reading began, if that is known.
    pub(crate) stamp: Option<(u64, u64)>,
}

impl Document {
    /// A file with all that is concluded about it.
    pub fn new(opened: Opened) -> Self {
        let document = Self::unanalyzed(opened);
        document.analyze();
        document
    }

    /// A file with what the first picture needs: goes through the trace of every device once.
    pub(crate) fn unanalyzed(opened: Opened) -> Self {
        let snapshot = &opened.snapshot;
        let devices = opened.devices.iter().map(|replay| DeviceIndex::new(replay)).collect();
        let internal = (0..snapshot.stacks.frame_count())
            .map(|row| {
                let frame = snapshot.stacks.frame(FrameId::from_index(row));
                is_internal(snapshot.text(frame.name), snapshot.text(frame.file))
            })
            .collect();
        Self { opened, devices, internal, shapes: None, session: OnceLock::new(), stamp: None }
    }

    /// Draws the conclusions, unless it has them already. Takes a while: not for the thread that draws.
    pub fn analyze(&self) {
        for device in 0..self.devices.len() {
            Subject { doc: self, device }.wait_for_analysis();
        }
    }

    pub(crate) fn is_analyzed(&self) -> bool {
        self.devices.iter().all(|device| device.analysis.get().is_some())
    }

    /// Answers a request about a device of this file. Takes a while the first time: not for the thread that draws.
    pub fn answer(&self, request: &Request, go_on: &dyn Fn() -> bool) -> Option<Response> {
        let session = self.session.get_or_init(|| {
            let Opened { snapshot, devices, bytes, .. } = &self.opened;
            let mut session = Session::default();
            session.add(OpenFile::new(
                self.title(),
                "",
                *bytes,
                Arc::clone(snapshot),
                devices.iter().cloned(),
            ));
            session
        });
        session.answer(request, go_on)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// The name without folders.
    pub(crate) fn title(&self) -> String {
        let path = &self.opened.path;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        printable(if name == "-" { "standard input" } else { &name })
    }

    /// The device that is shown first.
    pub(crate) fn main_device(&self) -> usize {
        main_device(&self.opened.snapshot, &self.opened.devices).unwrap_or(0)
    }

    /// The names and findings of the other devices, as far as they have any.
    pub(crate) fn other_findings(&self, device: usize) -> impl Iterator<Item = (String, &[Insight])> + '_ {
        let others = (0..self.devices.len()).filter(move |other| *other != device);
        let others = others.map(|device| Subject { doc: self, device });
        others
            .filter(|other| !other.insights().is_empty())
            .map(|other| (other.device_name(), other.insights()))
    }

    /// Whether any frame is the user's own.
    pub(crate) fn has_own_frames(&self) -> bool {
        self.internal.iter().any(|internal| !internal)
    }

    /// Whether a frame is shown in call trees.
    pub(crate) fn shows(&self, frame: FrameId, hide_internal: bool) -> bool {
        let is_internal = self.internal.get(frame.index()).copied().unwrap_or(false);
        let is_hidden = hide_internal && is_internal;
        !is_hidden && !self.opened.snapshot.is_ignored(frame)
    }
}

impl DeviceIndex {
    fn new(replay: &Device) -> Self {
        let snapshot = replay.snapshot();
        let events = replay.event_table();
        let spans = replay.spans().to_vec();
        let mut lanes: Vec<Vec<usize>> = Vec::new();
        for (row, span) in spans.iter().enumerate() {
            // What PyTorch marks by itself can be searched for, and is not drawn.
            if is_internal_phase(snapshot.text(span.name)) {
                continue;
            }
            let depth = ((span.lane + span.depth) as usize).min(MOST_LANES - 1);
            lanes.resize_with(lanes.len().max(depth + 1), Vec::new);
            // Of spans that overlap although none lies in the other, the first is drawn.
            let free = lanes[depth].last().is_none_or(|&last| spans[last].to <= span.from);
            if free {
                lanes[depth].push(row);
            }
        }
        let kind = |action: Action| match action {
            Action::Oom => Some(MarkKind::Oom),
            Action::SegmentAlloc | Action::SegmentMap => Some(MarkKind::Held),
            Action::SegmentFree | Action::SegmentUnmap => Some(MarkKind::GivenBack),
            _ => None,
        };
        let marks = events
            .actions()
            .enumerate()
            .filter_map(|(row, action)| Some(Mark { at: Moment(row as u32 + 1), kind: kind(action)? }));
        Self {
            times: Times::new(events),
            lanes,
            marks: marks.collect(),
            capacity: Capacity::of(replay),
            spans,
            analysis: OnceLock::new(),
        }
    }
}

impl Analysis {
    fn new(replay: &Device) -> Self {
        let conclusions = replay.conclusions();
        let categories = &conclusions.categories;
        let levels = Levels::of_groups(replay, Counter::Requested, DEFAULT_CATEGORIES.len(), |index| {
            categories.of(index)
        });
        Self {
            levels,
            insights: insights(replay),
            nothing_found: vramscope_analysis::nothing_found(replay, &vramscope_format::size),
            pools: Pools::private(replay),
            means: Means::new(replay),
            conclusions,
        }
    }
}

/// Spans that lie deeper share the last lane.
const MOST_LANES: usize = 8;

/// One device of a document: what every view is about.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) doc: &'a Document,
    pub(crate) device: usize,
}

impl<'a> Subject<'a> {
    pub(crate) fn snapshot(self) -> &'a Snapshot {
        &self.doc.opened.snapshot
    }

    pub(crate) fn replay(self) -> &'a Device {
        &self.doc.opened.devices[self.device]
    }

    pub(crate) fn events(self) -> &'a EventTable {
        self.snapshot().events(self.replay().device())
    }

    pub(crate) fn index(self) -> &'a DeviceIndex {
        &self.doc.devices[self.device]
    }

    /// What is concluded, once it is.
    pub(crate) fn analysis(self) -> Option<&'a Analysis> {
        self.index().analysis.get()
    }

    /// What is concluded; draws the conclusions if nobody has, or waits for whoever does.
    pub(crate) fn wait_for_analysis(self) -> &'a Analysis {
        let index = self.index();
        index.analysis.get_or_init(|| Analysis::new(self.replay()))
    }

    /// The findings, most severe first; none while they are looked for.
    pub(crate) fn insights(self) -> &'a [Insight] {
        self.analysis().map_or(&[], |analysis| &analysis.insights)
    }

    /// The time of a moment: that of the event it follows, or of the first event.
    pub(crate) fn time(self, at: Moment) -> Option<i64> {
        self.events().time_us(at.event().map_or(0, EventIdx::index))
    }

    /// How long after the first event: `+1.355 s`.
    pub(crate) fn since(self, at: Moment, decimals: usize) -> Option<String> {
        let (first, _) = self.index().times.range()?;
        Some(since(self.time(at)?.saturating_sub(first), decimals))
    }

    /// `event 12 345`, or `start`.
    pub(crate) fn moment_name(self, at: Moment) -> String {
        match at.event() {
            Some(event) => format!("event {}", count(event.0)),
            None => "start".into(),
        }
    }

    /// The user's own line of a stack.
    pub(crate) fn place(self, stack: StackId) -> String {
        printable(&Line::of(self.snapshot(), stack).short())
    }

    /// What a pool is called.
    pub(crate) fn pool_name(self, pool: PoolId) -> String {
        vramscope_format::pool(known_pool(self.snapshot(), pool))
    }

    /// `cuda:0`, or what the source calls it.
    pub(crate) fn device_name(self) -> String {
        printable(&self.snapshot().device_name(self.replay().device()))
    }

    /// Whether the file says how much is reserved.
    pub(crate) fn has_reserved(self) -> bool {
        self.snapshot().has_reserved(self.replay().device())
    }

    /// Whether the file has the addresses of blocks and segments.
    pub(crate) fn has_map(self) -> bool {
        self.snapshot().has.addresses
    }

    /// Whether the file has a counter.
    pub(crate) fn has_counter(self, counter: Counter) -> bool {
        match counter {
            Counter::Requested | Counter::Allocated => true,
            Counter::Active => self.snapshot().has_active(self.replay().device()),
            Counter::Reserved => self.has_reserved(),
        }
    }
}
