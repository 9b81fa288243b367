//! Answers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vramscope_analysis::{AllocIdx, Counter, Counters, KnownBy, Line, Moment, Peak, RankDigest, Sum};
use vramscope_snapshot::{PoolId, StackId, StreamId};

use crate::details::Details;
use crate::events::EventRow;
use crate::here::Here;
use crate::insights::Insights;
use crate::protocol::Stretch;
use crate::range::RangeChange;
use crate::report::Report;
use crate::sets::{Group, SetLevels};
use crate::sql::{SqlCatalog, SqlResult, SqlRows};
use crate::whatif::{Simulable, Simulated, SimulatedMap};

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Response {
    /// To [`crate::AskSummary`].
    Summary(Arc<Summary>),
    /// To [`crate::AskTile`] and [`crate::AskLanes`].
    Tile(Arc<Tile>),
    /// To [`crate::AskOutline`]: bytes at the lower and upper edge in each column.
    Outline(Arc<Vec<Option<(u64, u64)>>>),
    /// To [`crate::AskCurve`].
    Curve(Arc<Curve>),
    /// To [`crate::AskLevels`].
    Levels(Arc<SetLevels>),
    /// To [`crate::AskHere`].
    Here(Arc<Here>),
    /// To [`crate::AskRange`].
    Range(Arc<RangeChange>),
    /// To [`crate::AskEvents`].
    Events(Arc<Page<EventRow>>),
    /// To [`crate::AskReport`].
    Report(Arc<Report>),
    /// To [`crate::AskMoment`].
    Moment(Arc<MomentInfo>),
    /// To [`crate::AskDetails`].
    Details(Arc<Details>),
    /// To [`crate::AskState`].
    State(Arc<MemoryMap>),
    /// To [`crate::AskTree`].
    Tree(Arc<Tree>),
    /// To [`crate::AskDiff`].
    Diff(Arc<DiffTree>),
    /// To [`crate::AskAllocations`].
    Allocations(Arc<Page<AllocationRow>>),
    /// To [`crate::AskStacks`].
    Stacks(Arc<Page<StackRow>>),
    /// To [`crate::AskCsv`].
    Csv(Arc<Page<String>>),
    /// To [`crate::AskLifetimes`].
    Lifetimes(Arc<Page<LifetimeRow>>),
    /// To [`crate::AskSearch`].
    Search(Arc<SearchResults>),
    /// To [`crate::AskInsights`].
    Insights(Arc<Insights>),
    /// To [`crate::AskRank`].
    Rank(Arc<RankDigest>),
    /// To [`crate::AskConvert`].
    Converted(Arc<(f64, f64)>),
    /// To [`crate::AskSimulable`].
    Simulable(Arc<Simulable>),
    /// To [`crate::AskSimulated`].
    Simulated(Arc<Simulated>),
    /// To [`crate::AskSimulatedCurve`].
    SimulatedCurve(Arc<Vec<Option<u64>>>),
    /// To [`crate::AskSimulatedMap`].
    SimulatedMap(Arc<SimulatedMap>),
    /// To [`crate::AskSqlCatalog`].
    SqlCatalog(Arc<SqlCatalog>),
    /// To [`crate::AskSql`].
    Sql(Arc<SqlResult>),
    /// To [`crate::AskSqlRows`].
    SqlRows(Arc<SqlRows>),
    /// There is no such file, device, allocation or result.
    Nothing,
}

/// A number that is the same for the same line of the user's program in every file; 0 where there is no line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LineId(pub u32);

impl LineId {
    /// The number of a place, or of any other name that has a color.
    pub fn of(place: &str) -> Self {
        Self(vramscope_format::color::number(place).max(1))
    }
}

/// A phase of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpanInfo {
    /// Its name.
    pub name: String,
    /// How many were open when it began.
    pub depth: u32,
    /// The moment before its first event.
    pub from: Moment,
    /// The moment after its last event.
    pub to: Moment,
    /// Microseconds since the first event.
    pub time: (i64, i64),
}

/// A stretch of addresses that was held at some time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneInfo {
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// Whether it is an expandable segment.
    pub expandable: bool,
}

/// A failed allocation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OomInfo {
    /// The moment after it.
    pub at: Moment,
    /// Microseconds since the first event.
    pub time: i64,
    /// Bytes of the request.
    pub requested: u64,
    /// Bytes that the driver had free.
    pub device_free: u64,
}

/// What a file has at all; of the rest a view says that it is not in this file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Where blocks and segments lie.
    pub addresses: bool,
    /// Requested bytes, apart from the size of the block.
    pub requested: bool,
    /// Python frames, not only the name of an operator.
    pub stacks: bool,
    /// What is held from the driver.
    pub reserved: bool,
}

/// What there is to know of a device at first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the file.
    pub file: String,
    /// What the name says: `rank 3`.
    pub rank: String,
    /// What the process was for: `actor_update`; empty if that is not known.
    pub role: String,
    /// What the file has at all.
    pub has: Capabilities,
    /// Why the file is not whole, and what is shown of it.
    pub damage: Option<String>,
    /// `cuda:0`, `host`, `NPU 0`.
    pub device: String,
    /// Whether questions about all devices are about this one, see [`vramscope_analysis::query::devices`].
    pub by_default: bool,
    /// Whether SQL is built into the program that answers.
    pub has_sql: bool,
    /// Bytes of the device, where the file tells it.
    pub capacity: Option<u64>,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Its format.
    pub format: String,
    /// Events; the last moment.
    pub events: u32,
    /// Allocations.
    pub allocations: u32,
    /// Microseconds since 1970 of the first event, and from it to the last; `None` without a clock.
    pub time: Option<(i64, i64)>,
    /// At the start.
    pub start: Counters,
    /// At the end.
    pub end: Counters,
    /// The highest of each, and when, in the order of [`Counter::ALL`].
    pub peaks: [Peak; 4],
    /// The same in microseconds since the first event.
    pub peak_times: [i64; 4],
    /// How complete the recording is, in a word or two: `exact`, `late start`.
    pub status: String,
    /// The same in a sentence.
    pub verdict: String,
    /// Whether every number is PyTorch's own.
    pub exact: bool,
    /// What the verdict means.
    pub notes: Vec<String>,
    /// What was odd in the file.
    pub warnings: Vec<String>,
    /// Allocator settings.
    pub settings: Vec<(String, String)>,
    /// What a recorder wrote beside the file, by name, in words.
    pub recorded: Vec<(String, String)>,
    /// Phases in order of beginning.
    pub spans: Vec<SpanInfo>,
    /// Failed allocations.
    pub ooms: Vec<OomInfo>,
    /// Stretches of addresses, by address.
    pub lanes: Vec<LaneInfo>,
    /// Streams by number.
    pub streams: Vec<u64>,
    /// Pools by number, in words.
    pub pools: Vec<String>,
    /// Envelopes of private pools by number, in words.
    pub envelopes: Vec<String>,
}

impl Summary {
    /// When a counter was highest.
    pub fn peak(&self, counter: Counter) -> Peak {
        self.peaks[counter as usize]
    }

    /// The same in microseconds since the first event.
    pub fn peak_time(&self, counter: Counter) -> i64 {
        self.peak_times[counter as usize]
    }

    /// The highest of all counters, in bytes.
    pub fn highest(&self) -> i64 {
        self.peaks.iter().map(|peak| peak.bytes).max().unwrap_or_default()
    }

    /// The last moment.
    pub fn last(&self) -> Moment {
        Moment(self.events)
    }

    /// Whether the file tells these bytes.
    pub fn tells(&self, counter: Counter) -> bool {
        match counter {
            Counter::Requested => self.has.requested,
            Counter::Reserved => self.has.reserved,
            Counter::Allocated | Counter::Active => true,
        }
    }

    /// What these bytes are called: without the program's own requests, the sizes are those of the blocks.
    pub fn name_of(&self, counter: Counter) -> &'static str {
        match counter {
            Counter::Requested if !self.has.requested => Counter::Allocated.name(),
            counter => counter.name(),
        }
    }
}

/// An allocation in a picture, with what its color depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Which allocation.
    pub alloc: AllocIdx,
    /// Whether it awaits its free here.
    pub awaiting: bool,
    /// Its stack.
    pub stack: StackId,
    /// Its line.
    pub line: LineId,
    /// Requested bytes.
    pub requested: u64,
    /// When it began; [`Moment::START`] if before the first event.
    pub opened: Moment,
    /// When its block was free again; `None` if it is live at the end.
    pub closed: Option<Moment>,
    /// Its stream.
    pub stream: StreamId,
    /// Its pool.
    pub pool: PoolId,
    /// What it is for: a row of [`vramscope_analysis::categories::DEFAULT_CATEGORIES`], or [`Owner::NOT_ASKED`].
    pub category: u8,
}

impl Owner {
    /// The category of an owner while nobody has asked for categories.
    pub const NOT_ASKED: u8 = u8::MAX;

    /// Events that it lived, in a recording that ends at `last`.
    pub fn events(&self, last: Moment) -> u32 {
        self.closed.unwrap_or(last).0.saturating_sub(self.opened.0)
    }

    /// From when to when it lived, in words.
    pub fn life(&self) -> String {
        let event =
            |at: Moment| at.event().map_or_else(String::new, |event| vramscope_format::count(event.0));
        match (self.opened.event(), self.closed) {
            (None, None) => "live throughout the recording".into(),
            (None, Some(closed)) => format!("before the first event to event {}", event(closed)),
            (Some(_), None) => format!("event {} to the end", event(self.opened)),
            (Some(_), Some(closed)) => format!("event {} to {}", event(self.opened), event(closed)),
        }
    }
}

/// A picture as an id buffer, column by column, each from the lowest row up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tile {
    /// Columns.
    pub stretch: Stretch,
    /// Bytes at the lower and the upper edge.
    pub y: (f64, f64),
    /// Rows.
    pub height: u32,
    /// The moment that each column shows; `None` outside the recording.
    pub shown: Vec<Option<Moment>>,
    /// Who owns pixels here.
    pub owners: Vec<Owner>,
    /// What the lines of owners are called, by number.
    pub lines: Vec<(LineId, String)>,
    /// 0 for nothing, 1 for free memory that is held, from 2 on rows of `owners`, and from [`Tile::FIRST_IDLE`] on
    /// what a private pool holds and does not use, by the number of its envelope.
    #[serde(with = "crate::cells")]
    pub cells: Vec<u32>,
    /// The rows of each column that lie below its lowest moment: what is above is in use for a part of the column
    /// only. Empty where every column has one moment to show.
    pub solid: Vec<u32>,
}

impl Tile {
    /// Cells before those of owners.
    pub const FIRST_OWNER: u32 = 2;
    /// Cells before those of idle memory in private pools.
    pub const FIRST_IDLE: u32 = 1 << 31;

    /// What a line of an owner is called.
    pub fn line(&self, line: LineId) -> &str {
        line_name(&self.lines, line)
    }

    /// What a cell belongs to.
    pub fn owner_of(&self, cell: u32) -> Option<&Owner> {
        self.owners.get(cell.checked_sub(Self::FIRST_OWNER)? as usize)
    }

    /// The owner of a pixel; rows count from the lowest.
    pub fn owner(&self, column: usize, row: usize) -> Option<&Owner> {
        self.owner_of(self.cell(column, row)?)
    }

    /// The envelope of the private pool whose idle memory a pixel is.
    pub fn idle(&self, column: usize, row: usize) -> Option<u32> {
        self.cell(column, row)?.checked_sub(Self::FIRST_IDLE)
    }

    /// The rows of a column that lie below its lowest moment.
    pub fn solid(&self, column: usize) -> usize {
        self.solid.get(column).copied().unwrap_or(self.height) as usize
    }

    /// The first moment that is shown, and the last.
    pub fn moments(&self) -> Option<(Moment, Moment)> {
        let known = || self.shown.iter().copied().flatten();
        Some((known().min()?, known().max()?))
    }

    fn cell(&self, column: usize, row: usize) -> Option<u32> {
        let height = self.height as usize;
        (row < height).then(|| self.cells.get(column * height + row).copied()).flatten()
    }
}

/// The counters column by column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Columns.
    pub stretch: Stretch,
    /// The most of each counter in each column; `None` outside the recording.
    pub most: Vec<Option<Counters>>,
}

/// What happened at a moment, and what is live.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MomentInfo {
    /// Which.
    pub at: Moment,
    /// Microseconds since 1970 of its event.
    pub time: Option<i64>,
    /// The counters.
    pub counters: Counters,
    /// What happened: `alloc 16.0 MiB`.
    pub event: String,
    /// The allocation that it concerns.
    pub alloc: Option<AllocIdx>,
    /// Names of the annotations that are open, outermost first.
    pub phases: Vec<String>,
    /// Reserved minus requested by cause, largest first.
    pub gap: Vec<(String, u64)>,
    /// Allocations that live.
    pub live: u32,
}

/// A block in the map of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapBlock {
    /// With what its color depends on.
    pub owner: Owner,
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
}

/// A segment in the map of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapRange {
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// Stream handle.
    pub stream: u64,
    /// Pool in words.
    pub pool: String,
    /// Whether the pool is a private one.
    pub private: bool,
    /// Whether it is an expandable segment.
    pub expandable: bool,
    /// Its blocks by address; what is between them is free.
    pub blocks: Vec<MapBlock>,
}

/// The map of memory at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryMap {
    /// Which moment.
    pub at: Moment,
    /// The counters.
    pub counters: Counters,
    /// What is held, by address.
    pub ranges: Vec<MapRange>,
    /// Bytes of the largest hole.
    pub largest_hole: u64,
    /// What the lines of owners are called, by number.
    pub lines: Vec<(LineId, String)>,
}

impl MemoryMap {
    /// What a line of an owner is called.
    pub fn line(&self, line: LineId) -> &str {
        line_name(&self.lines, line)
    }
}

/// What a line is called, in a list by number.
fn line_name(lines: &[(LineId, String)], line: LineId) -> &str {
    let found = lines.binary_search_by_key(&line, |(line, _)| *line).ok();
    found.and_then(|at| lines.get(at)).map_or("", |(_, name)| name)
}

/// What a node of a tree stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Label {
    /// A frame; words in brackets take the place of the function where there is none.
    pub at: Line,
    /// What its color is made from.
    pub color: LineId,
}

/// A node of a call tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeNode {
    /// Row of [`Tree::labels`].
    pub label: u32,
    /// Bytes.
    pub bytes: u64,
    /// Allocations.
    pub count: u64,
    /// Bytes beyond its children.
    pub own: u64,
    /// Rows of [`Tree::nodes`], heaviest first.
    pub children: Vec<u32>,
}

/// A call tree. Row 0 is the root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// What nodes stand for.
    pub labels: Vec<Label>,
    /// All nodes.
    pub nodes: Vec<TreeNode>,
}

/// A node of two call trees as one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffTreeNode {
    /// Row of [`DiffTree::labels`].
    pub label: u32,
    /// What it had before.
    pub before: Sum,
    /// What it has after.
    pub after: Sum,
    /// Rows of [`DiffTree::nodes`], the largest change first.
    pub children: Vec<u32>,
}

/// Two call trees as one. Row 0 is the root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffTree {
    /// What nodes stand for.
    pub labels: Vec<Label>,
    /// All nodes.
    pub nodes: Vec<DiffTreeNode>,
}

/// Some rows of many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<Row> {
    /// How many there are in all.
    pub total: u32,
    /// Their bytes together.
    pub bytes: u64,
    /// Number of the first row here.
    pub first: u32,
    /// The rows.
    pub rows: Vec<Row>,
    /// Why the filter is not one.
    pub problem: Option<String>,
}

/// A row of the table of allocations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationRow {
    /// With what its color depends on.
    pub owner: Owner,
    /// First address.
    pub addr: u64,
    /// Bytes of the block.
    pub size: u64,
    /// Microseconds that it lived, if it ended and there is a clock.
    pub lived_us: Option<i64>,
    /// What it is for.
    pub category: String,
    /// How that is known.
    pub known_by: KnownBy,
    /// The module of the model that it belongs to; empty if not known.
    pub module: String,
    /// Where it was allocated.
    pub place: String,
}

/// A row of the table of stacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackRow {
    /// Its number.
    pub stack: StackId,
    /// Its line.
    pub line: LineId,
    /// All its allocations.
    pub sum: Sum,
    /// The largest of them.
    pub largest: AllocIdx,
    /// Bytes of the largest.
    pub largest_bytes: u64,
    /// The user's own line.
    pub place: String,
    /// The operator, or the innermost frame.
    pub operator: String,
}

/// A row of the chart of lifetimes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LifetimeRow {
    /// Begins a group.
    Group {
        /// What it is known by.
        key: u64,
        /// What its members have in common.
        label: String,
        /// All members.
        sum: Sum,
        /// Requested bytes times the events that they lived.
        weight: u64,
        /// Whether its members follow.
        open: bool,
        /// The same as a group that can be shown alone.
        group: Option<Group>,
        /// From its first birth to its last end, if all of it ended.
        life: (Moment, Option<Moment>),
        /// The same in microseconds since the first event.
        time: (i64, Option<i64>),
    },
    /// When a group takes how much: the second row of each.
    Strip {
        /// Mean bytes in each column, as shares of the most: 255 is all of it.
        levels: Vec<u8>,
        /// The most of these means.
        most: u64,
        /// What its color is made from.
        group: Option<Group>,
    },
    /// A member.
    Bar {
        /// Which, with what its color depends on.
        owner: Owner,
        /// When the program freed it.
        released: Option<Moment>,
        /// Microseconds since the first event of its beginning, and of its end if it ended.
        time: (i64, Option<i64>),
        /// Where it was allocated.
        place: String,
    },
}

/// Something that matches a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hit {
    /// A moment, as it was typed.
    Moment {
        /// Which.
        at: Moment,
        /// Microseconds since the first event.
        time: i64,
    },
    /// A line of the program.
    Line {
        /// `train.py:88 forward`.
        place: String,
        /// Allocations made there.
        sum: Sum,
        /// The largest of them.
        largest: AllocIdx,
        /// What its color is made from.
        line: LineId,
    },
    /// An annotation.
    Phase {
        /// Its name.
        name: String,
        /// How often it comes.
        count: u32,
        /// The first: from which moment to which.
        first: (Moment, Moment),
        /// The same in microseconds since the first event.
        time: (i64, i64),
    },
    /// An allocation by address.
    Address {
        /// Which allocation.
        owner: Owner,
        /// First address.
        addr: u64,
        /// Where it was allocated.
        place: String,
    },
}

/// What matches a search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchResults {
    /// Stacks with an allocation that matches, in order.
    pub stacks: Vec<StackId>,
    /// The results, best first.
    pub hits: Vec<Hit>,
    /// All allocations that match.
    pub found: Sum,
    /// Why the text is not a moment or a filter, if it looks like one.
    pub problem: Option<String>,
}
