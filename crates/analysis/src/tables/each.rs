//! Every row of a table that a file has as a whole.

use vramscope_format::Units;
use vramscope_format::table::{Column, Value};
use vramscope_replay::{AllocIdx, Allocation, Moment};
use vramscope_snapshot::{Event, EventIdx, FrameId, Segment, Snapshot};

use super::ranks::{File, at_peak, finding, rank, step};
use super::rows::{annotation, event};
use super::{
    ALLOCATIONS, ANNOTATIONS, AT_PEAK, EVENTS, FINDINGS, FRAMES, PROBLEMS, RANKS, Rows, SEGMENTS, STACKS,
    STEPS, frame,
};
use crate::device::Device;
use crate::questions::pools::Pools;

/// A table that a file has as a whole: what `export`, a dataset and `sql` are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Whole {
    /// The life of every block.
    Allocations,
    /// The trace, with the counters after each event.
    Events,
    /// Frames of each stack.
    Stacks,
    /// Lines of the program.
    Frames,
    /// Memory held from the driver at the end.
    Segments,
    /// `record_function` spans.
    Annotations,
    /// What looks wrong.
    Findings,
    /// Totals of each rank.
    Ranks,
    /// What was live at the peak.
    AtPeak,
    /// Steps.
    Steps,
    /// What could not be read.
    Problems,
}

impl Whole {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Allocations,
        Self::Events,
        Self::Stacks,
        Self::Frames,
        Self::Segments,
        Self::Annotations,
        Self::Findings,
        Self::Ranks,
        Self::AtPeak,
        Self::Steps,
        Self::Problems,
    ];

    /// As in file names and in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocations => "allocations",
            Self::Events => "events",
            Self::Stacks => "stacks",
            Self::Frames => "frames",
            Self::Segments => "segments",
            Self::Annotations => "annotations",
            Self::Findings => "findings",
            Self::Ranks => "ranks",
            Self::AtPeak => "at_peak",
            Self::Steps => "steps",
            Self::Problems => "problems",
        }
    }

    /// What a row holds.
    pub const fn columns(self) -> &'static [Column] {
        match self {
            Self::Allocations => &ALLOCATIONS,
            Self::Events => &EVENTS,
            Self::Stacks => &STACKS,
            Self::Frames => &FRAMES,
            Self::Segments => &SEGMENTS,
            Self::Annotations => &ANNOTATIONS,
            Self::Findings => &FINDINGS,
            Self::Ranks => &RANKS,
            Self::AtPeak => &AT_PEAK,
            Self::Steps => &STEPS,
            Self::Problems => &PROBLEMS,
        }
    }

    /// Whether it has a row per event or per allocation.
    pub const fn is_long(self) -> bool {
        matches!(self, Self::Allocations | Self::Events)
    }
}

/// Says which rows count.
pub trait Keep {
    /// The stretch of the trace.
    fn range(&self) -> (Moment, Moment);
    /// Whether an allocation counts.
    fn allocation(&self, index: AllocIdx, allocation: &Allocation) -> bool;
    /// Whether an event in the stretch counts.
    fn event(&self, row: EventIdx, event: &Event) -> bool;
    /// Whether a segment counts.
    fn segment(&self, segment: &Segment) -> bool;
}

/// All rows of a device.
#[derive(Clone, Copy, Debug)]
pub struct Everything(
    /// The end of its trace.
    pub Moment,
);

impl Keep for Everything {
    fn range(&self) -> (Moment, Moment) {
        (Moment::START, self.0)
    }

    fn allocation(&self, _: AllocIdx, _: &Allocation) -> bool {
        true
    }

    fn event(&self, _: EventIdx, _: &Event) -> bool {
        true
    }

    fn segment(&self, _: &Segment) -> bool {
        true
    }
}

/// Takes in a row.
pub type Take<'a, E> = &'a mut dyn FnMut(&[Value<'_>]) -> Result<(), E>;

/// The tables of one device of a file.
#[derive(Clone, Copy)]
pub struct DeviceTables<'a> {
    device: &'a Device,
    file: File<'a>,
}

impl<'a> DeviceTables<'a> {
    /// The tables of a device.
    pub fn new(device: &'a Device, file: File<'a>) -> Self {
        Self { device, file }
    }

    /// Hands out every row of a table. Stacks, frames and problems are those of the file.
    pub fn each_row<E>(&self, table: Whole, keep: &dyn Keep, take: Take<'_, E>) -> Result<(), E> {
        let device = self.device;
        let (snapshot, replay) = (device.snapshot(), device.replay());
        match table {
            Whole::Allocations => self.allocations(keep, take),
            Whole::Events => self.events(keep, take),
            Whole::Stacks => stacks(snapshot, take),
            Whole::Frames => {
                let mut ids = (0_u32..).take(snapshot.stacks.frame_count()).map(FrameId);
                ids.try_for_each(|id| take(&frame(snapshot, id)))
            }
            Whole::Segments => {
                let mut kept =
                    snapshot.segments_of(replay.device()).iter().filter(|segment| keep.segment(segment));
                kept.try_for_each(|segment| take(&super::segment(device, segment)))
            }
            Whole::Annotations => device.spans().iter().try_for_each(|span| take(&annotation(device, span))),
            Whole::Findings => {
                device.findings(Units::Binary).iter().try_for_each(|found| take(&finding(found)))
            }
            Whole::Ranks => take(&rank(device, self.file)),
            Whole::AtPeak => at_peak(device, &device.conclusions()).iter().try_for_each(|row| take(row)),
            Whole::Steps => {
                let stepwise = device.stepwise();
                stepwise.rows.iter().try_for_each(|row| take(&step(replay, row)))
            }
            Whole::Problems => snapshot
                .problems()
                .into_iter()
                .try_for_each(|problem| take(&[self.file.path.into(), "warning".into(), problem.into()])),
        }
    }

    fn allocations<E>(&self, keep: &dyn Keep, take: Take<'_, E>) -> Result<(), E> {
        let device = self.device;
        let replay = device.replay();
        let pools = Pools::all(device);
        let conclusions = device.conclusions();
        let rows = Rows::new(device, &pools);
        let mut all = replay.allocations().iter();
        all.try_for_each(|(index, allocation)| match keep.allocation(index, &allocation) {
            true => take(&rows.allocation(index, &conclusions)),
            false => Ok(()),
        })
    }

    fn events<E>(&self, keep: &dyn Keep, take: Take<'_, E>) -> Result<(), E> {
        let (snapshot, replay) = (self.device.snapshot(), self.device.replay());
        let events = snapshot.events(replay.device());
        let (from, to) = keep.range();
        let counters = replay.all_counters().skip(from.0 as usize);
        (from.0..to.0).map(EventIdx).zip(counters).try_for_each(|(row, after)| {
            match keep.event(row, &events.get(row.index())) {
                true => take(&event(self.device, row, after)),
                false => Ok(()),
            }
        })
    }
}

fn stacks<E>(snapshot: &Snapshot, take: Take<'_, E>) -> Result<(), E> {
    let stacks = &snapshot.stacks;
    for id in stacks.ids() {
        for (position, frame) in (0_u32..).zip(stacks.get(id)) {
            take(&[id.0.into(), position.into(), frame.0.into()])?;
        }
    }
    Ok(())
}
