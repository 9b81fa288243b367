//! What is answered.

use serde::{Deserialize, Serialize};
use vramscope_analysis::RankDigest;

use crate::protocol::{Bytes, Stretch};

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Response {
    /// To [`crate::Request::Summary`].
    Summary(Box<Summary>),
    /// To [`crate::Request::Tile`] and [`crate::Request::Lanes`].
    Tile(Tile),
    /// To [`crate::Request::Outline`]: bytes at the lower and upper edge in each column.
    Outline(Vec<Option<(u64, u64)>>),
    /// To [`crate::Request::Curve`].
    Curve(Curve),
    /// To [`crate::Request::Moment`].
    Moment(Box<MomentInfo>),
    /// To [`crate::Request::Details`].
    Details(Box<Details>),
    /// To [`crate::Request::State`].
    State(Box<MemoryMap>),
    /// To [`crate::Request::Tree`].
    Tree(Tree),
    /// To [`crate::Request::Diff`].
    Diff(DiffTree),
    /// To [`crate::Request::Allocations`].
    Allocations(Page<AllocationRow>),
    /// To [`crate::Request::Stacks`].
    Stacks(Page<StackRow>),
    /// To [`crate::Request::Lifetimes`].
    Lifetimes(Page<LifetimeRow>),
    /// To [`crate::Request::Search`].
    Search(SearchResults),
    /// To [`crate::Request::Insights`].
    Insights(Vec<Insight>),
    /// To [`crate::Request::Rank`].
    Rank(Box<RankDigest>),
    /// To [`crate::Request::Convert`].
    Converted((f64, f64)),
    /// There is no such file, device or allocation.
    Nothing,
}

/// The four numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    /// What the program asked for.
    pub requested: i64,
    /// Rounded size of what the program holds.
    pub allocated: i64,
    /// Allocated, and what awaits its free.
    pub active: i64,
    /// Held from the driver.
    pub reserved: i64,
}

impl Numbers {
    /// One of them.
    pub fn get(&self, which: Bytes) -> i64 {
        match which {
            Bytes::Requested => self.requested,
            Bytes::Allocated => self.allocated,
            Bytes::Active => self.active,
            Bytes::Reserved => self.reserved,
        }
    }
}

impl From<vramscope_analysis::Counters> for Numbers {
    fn from(counters: vramscope_analysis::Counters) -> Self {
        let vramscope_analysis::Counters { requested, allocated, active, reserved } = counters;
        Self { requested, allocated, active, reserved }
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
    pub from: u32,
    /// The moment after its last event.
    pub to: u32,
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
    pub at: u32,
    /// Microseconds since the first event.
    pub time: i64,
    /// Bytes of the request.
    pub requested: u64,
    /// Bytes that the driver had free.
    pub device_free: u64,
}

/// What a file can tell at all; of the rest a view says that it is not in this file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Where blocks and segments lie.
    pub addresses: bool,
    /// What the program asked for, beside the size of the block that it got.
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
    /// What the process was for: `actor_update`; empty if nobody says.
    pub role: String,
    /// What the file can tell at all.
    pub told: Told,
    /// Why the file is not whole, and what is shown of it.
    pub damage: Option<String>,
    /// `cuda:0`, `host`, `NPU 0`.
    pub device: String,
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
    pub start: Numbers,
    /// At the end.
    pub end: Numbers,
    /// The highest of each, and when.
    pub peaks: [(i64, u32); 4],
    /// The same in microseconds since the first event.
    pub peak_times: [i64; 4],
    /// `exact`, `late start`, ...
    pub verdict: String,
    /// Whether every number is PyTorch's own.
    pub exact: bool,
    /// What the verdict means.
    pub notes: Vec<String>,
    /// What was odd in the file.
    pub warnings: Vec<String>,
    /// Allocator settings.
    pub settings: Vec<(String, String)>,
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
    /// Whether the file tells these bytes.
    pub fn tells(&self, bytes: Bytes) -> bool {
        match bytes {
            Bytes::Requested => self.told.requested,
            Bytes::Reserved => self.told.reserved,
            Bytes::Allocated | Bytes::Active => true,
        }
    }

    /// What bytes are called here. Where the file does not tell what was asked for, what was given stands for it.
    pub fn name_of(&self, bytes: Bytes) -> &'static str {
        match bytes {
            Bytes::Requested if !self.told.requested => Bytes::Allocated.name(),
            bytes => bytes.name(),
        }
    }
}

/// An allocation in a tile, with what its color depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Which allocation.
    pub alloc: u32,
    /// Whether it awaits its free here.
    pub awaiting: bool,
    /// No allocation, but what a private pool holds and does not use; `pool` is the number of its envelope.
    pub idle: bool,
    /// Its stack.
    pub stack: u32,
    /// A number that is the same for the same line of the user's program in every file.
    pub line: u32,
    /// Bytes asked for.
    pub requested: u64,
    /// When it began; 0 if before the first event.
    pub opened: u32,
    /// When it ended; `u32::MAX` if it did not.
    pub closed: u32,
    /// Its stream.
    pub stream: u32,
    /// Its pool.
    pub pool: u32,
    /// What it is for: a row of [`vramscope_analysis::categories::DEFAULT_CATEGORIES`], if that was asked for.
    pub category: u8,
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
    /// The moment that each column shows; `u32::MAX` outside the recording.
    pub shown: Vec<u32>,
    /// Who owns pixels here.
    pub owners: Vec<Owner>,
    /// What the lines of owners are called, by number.
    pub lines: Vec<(u32, String)>,
    /// 0 for nothing, 1 for free memory that is held, and from 2 on rows of `owners`.
    #[serde(with = "crate::cells")]
    pub cells: Vec<u32>,
}

impl Tile {
    /// Cells before those of owners.
    pub const FIRST_OWNER: u32 = 2;

    /// What a line of an owner is called.
    pub fn line(&self, line: u32) -> &str {
        let found = self.lines.binary_search_by_key(&line, |(line, _)| *line).ok();
        found.and_then(|at| self.lines.get(at)).map_or("", |(_, name)| name)
    }

    /// The owner of a pixel; rows count from the lowest.
    pub fn owner(&self, column: usize, row: usize) -> Option<&Owner> {
        if row >= self.height as usize {
            return None;
        }
        let cell = *self.cells.get(column * self.height as usize + row)?;
        self.owners.get(cell.checked_sub(Self::FIRST_OWNER)? as usize)
    }
}

/// The counters column by column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Columns.
    pub stretch: Stretch,
    /// The most of each counter in each column; `None` outside the recording.
    pub most: Vec<Option<Numbers>>,
}

/// What is to be said about a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MomentInfo {
    /// Which.
    pub at: u32,
    /// Microseconds since 1970 of its event.
    pub time: Option<i64>,
    /// The counters.
    pub numbers: Numbers,
    /// What happened: `alloc 16.0 MiB`.
    pub event: String,
    /// The allocation that it concerns.
    pub alloc: Option<u32>,
    /// Names of the annotations that are open, outermost first.
    pub phases: Vec<String>,
    /// Reserved minus requested by cause, largest first.
    pub gap: Vec<(String, u64)>,
    /// Allocations that live.
    pub live: u32,
}

/// A frame of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameInfo {
    /// Function.
    pub name: String,
    /// File.
    pub file: String,
    /// Line.
    pub line: u32,
    /// Whether it is PyTorch's, CPython's or the C++ runtime's.
    pub internal: bool,
}

/// A block beside another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// The allocation in it; `None` for free memory.
    pub alloc: Option<u32>,
    /// Bytes.
    pub size: u64,
    /// Where it was allocated.
    pub place: String,
}

/// All about an allocation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Details {
    /// Which.
    pub alloc: u32,
    /// With what its color depends on.
    pub owner: Owner,
    /// First address.
    pub addr: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes of the block.
    pub size: u64,
    /// Whether `size` is inferred.
    pub estimated: bool,
    /// When it began.
    pub opened: u32,
    /// When the program let it go.
    pub released: u32,
    /// When its block was free again.
    pub closed: u32,
    /// Microseconds since 1970 of these three.
    pub times: [Option<i64>; 3],
    /// Stack, innermost frame first.
    pub frames: Vec<FrameInfo>,
    /// Where it was freed, if that was recorded.
    pub free_frames: Vec<FrameInfo>,
    /// The user's own line.
    pub place: String,
    /// Stream handle.
    pub stream: u64,
    /// Pool in words.
    pub pool: String,
    /// What the memory is for, as far as it can be told.
    pub category: String,
    /// Names of the annotations that were open when it began, outermost first.
    pub phases: Vec<String>,
    /// Shapes that it could have, the likeliest first.
    pub shapes: Vec<String>,
    /// What was attached to its event, by name.
    pub notes: Vec<(String, String)>,
    /// The segment around it at its birth: first address and bytes.
    pub segment: Option<(u64, u64)>,
    /// What lies before and after it at the moment asked for, or at its birth.
    pub neighbours: [Option<Neighbour>; 2],
    /// Allocations of the same stack in all, and their bytes.
    pub same_stack: (u64, u64),
    /// Of these, those live at the moment asked for.
    pub same_stack_live: (u64, u64),
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
    pub at: u32,
    /// The counters.
    pub numbers: Numbers,
    /// What is held, by address.
    pub ranges: Vec<MapRange>,
    /// Bytes of the largest hole.
    pub largest_hole: u64,
}

/// What a node of a tree stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Label {
    /// Function, or words in brackets.
    pub name: String,
    /// File.
    pub file: String,
    /// Line.
    pub line: u32,
    /// The same number as in [`Owner::line`].
    pub color: u32,
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
    /// Bytes and allocations before.
    pub before: (u64, u64),
    /// Bytes and allocations after.
    pub after: (u64, u64),
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
    /// Microseconds that it lived, if there is a clock.
    pub lived_us: Option<i64>,
    /// Where it was allocated.
    pub place: String,
}

/// A row of the table of stacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackRow {
    /// Its number.
    pub stack: u32,
    /// The same number as in [`Owner::line`].
    pub line: u32,
    /// Bytes asked for, of all its allocations.
    pub bytes: u64,
    /// Allocations.
    pub count: u64,
    /// The largest of them.
    pub largest: u32,
    /// Bytes of the largest.
    pub largest_bytes: u64,
    /// The user's own line.
    pub place: String,
    /// The innermost function.
    pub operator: String,
}

/// A row of the chart of lifetimes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LifetimeRow {
    /// Begins a group.
    Group {
        /// What its members have in common.
        label: String,
        /// Members.
        count: u32,
        /// Their bytes.
        bytes: u64,
    },
    /// A member.
    Bar {
        /// Which, with what its color depends on.
        owner: Owner,
        /// When the program let it go.
        released: u32,
        /// Microseconds since the first event of its beginning and its end.
        time: (i64, i64),
        /// Where it was allocated.
        place: String,
    },
}

/// Something that fits a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hit {
    /// A line of the program.
    Line {
        /// `train.py:88 forward`.
        place: String,
        /// Allocations made there.
        count: u64,
        /// Their bytes.
        bytes: u64,
        /// The largest of them.
        largest: u32,
        /// The same number as in [`Owner::line`].
        line: u32,
    },
    /// An annotation: its name, how often it comes, the first from and to.
    Phase {
        /// Its name.
        name: String,
        /// How often it comes.
        count: u32,
        /// The first: from which moment to which.
        first: (u32, u32),
    },
    /// An event by number.
    Event(u32),
    /// An allocation by address.
    Address {
        /// Which allocation.
        alloc: u32,
        /// Bytes asked for.
        requested: u64,
        /// Where it was allocated.
        place: String,
        /// When.
        opened: u32,
    },
}

/// What fits a search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchResults {
    /// The text.
    pub text: String,
    /// Stacks with a frame that fits, in order.
    pub stacks: Vec<u32>,
    /// The results, best first.
    pub hits: Vec<Hit>,
    /// Allocations that fit, and their bytes.
    pub found: (u64, u64),
}

/// Something worth knowing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Insight {
    /// What kind: `leak`, `fragmentation`, ...
    pub kind: String,
    /// 0 is a note, 1 a warning, 2 serious.
    pub severity: u8,
    /// In one line.
    pub title: String,
    /// What shows it: a name, and what it is.
    pub evidence: Vec<(String, String)>,
    /// What to do.
    pub advice: String,
    /// Bytes that it is about.
    pub bytes: i64,
    /// From which moment to which.
    pub when: Option<(u32, u32)>,
    /// An allocation to look at.
    pub alloc: Option<u32>,
}
