//! What is asked.
//!
//! Numbers are plain: a moment is how many events have happened, an allocation its row, bytes are bytes.

use serde::{Deserialize, Serialize};

/// A device of an opened file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Source {
    /// Which file, in the order of opening.
    pub file: u32,
    /// Which of its devices.
    pub device: u32,
}

/// Which of PyTorch's four numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Bytes {
    /// What the program asked for.
    #[default]
    Requested,
    /// Rounded size of what the program holds.
    Allocated,
    /// Allocated, and what awaits its free.
    Active,
    /// Held from the driver.
    Reserved,
}

impl Bytes {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Requested, Self::Allocated, Self::Active, Self::Reserved];

    /// The word for it.
    pub fn name(self) -> &'static str {
        self.counter().name()
    }

    pub(crate) fn counter(self) -> vramscope_analysis::Counter {
        vramscope_analysis::Counter::ALL[self as usize]
    }
}

/// What runs from left to right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Axis {
    /// Every event is as wide as any other.
    #[default]
    Events,
    /// Microseconds since the first event.
    Time,
}

/// A stretch of an axis, cut into columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// Which axis.
    pub axis: Axis,
    /// From where to where.
    pub x: (f64, f64),
    /// Columns.
    pub width: u32,
}

/// Which allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// All.
    #[default]
    All,
    /// Those live at a moment.
    LiveAt(u32),
    /// Those that live at some time from one moment to before another.
    Overlap(u32, u32),
}

/// Which allocations, and in which order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Filter {
    /// When they live.
    pub scope: Scope,
    /// What some frame, the address or the pool says; everything if empty.
    pub text: String,
    /// Only those of a stack.
    pub stack: Option<u32>,
}

/// What a table is sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Sort {
    /// Bytes asked for.
    #[default]
    Requested,
    /// Bytes of the block.
    Size,
    /// When they began.
    Opened,
    /// Events that they lived.
    Lifetime,
    /// Bytes times events.
    Pressure,
    /// Where they were allocated.
    Place,
    /// First address.
    Addr,
    /// How many.
    Count,
}

/// What bars are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum GroupBy {
    /// The user's own line.
    #[default]
    Line,
    /// The innermost function: the operator.
    Operator,
    /// The whole stack.
    Stack,
    /// What the memory is for.
    Category,
    /// The innermost annotation that was open.
    Phase,
}

/// What a call tree weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Weigh {
    /// Bytes live at a moment.
    Live(u32),
    /// Bytes times events lived between two moments.
    Lifetime(u32, u32),
}

/// A question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// What there is to know at first.
    Summary(Source),
    /// The memory timeline: which allocation owns each pixel.
    Tile {
        /// Whose.
        of: Source,
        /// What is stacked.
        bytes: Bytes,
        /// From left to right.
        stretch: Stretch,
        /// Bytes at the lower and the upper edge.
        y: (f64, f64),
        /// Rows.
        height: u32,
        /// Whether private pools stand together, with what they hold and do not use.
        pools: bool,
        /// Whether owners say what they are for, which takes a while the first time.
        categories: bool,
    },
    /// The segment timeline.
    Lanes {
        /// Whose.
        of: Source,
        /// What decides the moment of a column.
        bytes: Bytes,
        /// From left to right.
        stretch: Stretch,
        /// Lanes by number, each with its first row and how many it takes, counted from the lowest.
        lanes: Vec<(u32, u32, u32)>,
        /// Rows.
        height: u32,
        /// As in [`Request::Tile`].
        categories: bool,
    },
    /// Where one allocation lies in the memory timeline, column by column.
    Outline {
        /// Whose.
        of: Source,
        /// What is stacked.
        bytes: Bytes,
        /// From left to right.
        stretch: Stretch,
        /// Which allocation.
        alloc: u32,
        /// As in [`Request::Tile`].
        pools: bool,
    },
    /// The four counters, column by column.
    Curve {
        /// Whose.
        of: Source,
        /// From left to right.
        stretch: Stretch,
    },
    /// What is to be said about a moment.
    Moment {
        /// Whose.
        of: Source,
        /// Which moment.
        at: u32,
        /// Whether with what has to go through all that lives: the gap by cause, and how many live.
        whole: bool,
    },
    /// All about an allocation.
    Details {
        /// Whose.
        of: Source,
        /// Which allocation.
        alloc: u32,
        /// The moment at the cursor, for what is beside it.
        at: u32,
    },
    /// The map of memory at a moment.
    State {
        /// Whose.
        of: Source,
        /// Which moment.
        at: u32,
    },
    /// A call tree.
    Tree {
        /// Whose.
        of: Source,
        /// What it weighs.
        weigh: Weigh,
        /// From the innermost frame out.
        inverted: bool,
        /// Only the user's own frames.
        own: bool,
    },
    /// Two call trees as one.
    Diff {
        /// Whose, and when.
        before: (Source, u32),
        /// Whose, and when.
        after: (Source, u32),
        /// Only the user's own frames.
        own: bool,
    },
    /// A page of the table of allocations.
    Allocations {
        /// Whose.
        of: Source,
        /// Which.
        filter: Filter,
        /// By what.
        sort: Sort,
        /// The greatest first.
        descending: bool,
        /// First row.
        first: u32,
        /// Rows.
        count: u32,
    },
    /// A page of the table of stacks.
    Stacks {
        /// Whose.
        of: Source,
        /// Which allocations count.
        filter: Filter,
        /// By what.
        sort: Sort,
        /// The greatest first.
        descending: bool,
        /// First row.
        first: u32,
        /// Rows.
        count: u32,
    },
    /// A page of bars.
    Lifetimes {
        /// Whose.
        of: Source,
        /// Which.
        filter: Filter,
        /// Together with what.
        group: GroupBy,
        /// First row.
        first: u32,
        /// Rows.
        count: u32,
    },
    /// Lines, annotations, events and addresses that fit a text.
    Search {
        /// Whose.
        of: Source,
        /// The text.
        text: String,
    },
    /// What is compared between the ranks of a run.
    Rank(Source),
    /// What is worth knowing.
    Insights(Source),
    /// The same stretch on the other axis.
    Convert {
        /// Whose.
        of: Source,
        /// Which axis `x` is on.
        from: Axis,
        /// From where to where.
        x: (f64, f64),
    },
}
