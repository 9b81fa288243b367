//! Requests: a type for each, which knows the type of its answer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vramscope_analysis::pictures::Axis;
use vramscope_analysis::whatif::{Limit, Under};
use vramscope_analysis::{AllocIdx, Counter, GroupBy, Moment, RankDigest};

use crate::answers::{
    AllocationRow, Curve, DiffTree, LifetimeRow, MemoryMap, MomentInfo, Page, Response, SearchResults,
    StackRow, Summary, Tile, Tree,
};
use crate::details::Details;
use crate::events::EventRow;
use crate::here::{By, Here};
use crate::insights::Insights;
use crate::range::RangeChange;
use crate::report::{Report, ReportOf};
use crate::sets::{Group, SetLevels};
use crate::sql::{SqlCatalog, SqlResult, SqlRows};
use crate::whatif::{Simulable, Simulated, SimulatedMap};

/// A device of an opened file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Source {
    /// Which file, in the order of opening.
    pub file: u32,
    /// Which of its devices.
    pub device: u32,
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

/// When allocations live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// At any time.
    #[default]
    All,
    /// At a moment.
    LiveAt(Moment),
    /// At some time from one moment to before another.
    Overlap(Moment, Moment),
}

/// Which allocations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Which {
    /// When they live.
    pub scope: Scope,
    /// A filter as it is typed, see [`vramscope_analysis::query::Filter`].
    pub text: String,
    /// Only those that have this in common.
    pub group: Option<Group>,
}

/// What a table is sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Sort {
    /// Requested bytes.
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
    /// What they are for.
    Category,
    /// The module of the model.
    Module,
}

/// A page of a sorted table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Listing {
    /// Which allocations count.
    pub which: Which,
    /// By what.
    pub sort: Sort,
    /// The greatest first.
    pub descending: bool,
    /// First row.
    pub first: u32,
    /// Rows.
    pub count: u32,
}

/// Rows of a view that leave as CSV.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CsvOf {
    /// Of the table of allocations.
    Allocations(Listing),
    /// Of the lifetimes; a row that begins a group is an empty text.
    Lifetimes(Which, GroupBy),
    /// Of the table of stacks.
    Totals(Listing),
    /// Of the list of events.
    Events,
    /// Of a result of SQL; the first row has the names of its columns.
    Sql(u64),
}

/// What a call tree weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Weigh {
    /// Bytes live at a moment.
    Live(Moment),
    /// Bytes times events lived between two moments.
    Lifetime(Moment, Moment),
}

/// A request with the type of its answer.
pub trait Ask: Clone + PartialEq + Into<Request> {
    /// What comes back.
    type Answer;

    /// This request, if it is one of this type.
    fn of(request: &Request) -> Option<&Self>;

    /// Its answer, if the response is one.
    fn answer(response: &Response) -> Option<&Arc<Self::Answer>>;
}

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident as $ask:ident -> $reply:ident($answer:ty) {
        $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
    })*) => {
        /// A request.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Request {
            $($(#[$doc])* $name($ask),)*
        }

        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
            pub struct $ask {
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl From<$ask> for Request {
                fn from(ask: $ask) -> Self {
                    Self::$name(ask)
                }
            }

            impl Ask for $ask {
                type Answer = $answer;

                fn of(request: &Request) -> Option<&Self> {
                    if let Request::$name(ask) = request { Some(ask) } else { None }
                }

                fn answer(response: &Response) -> Option<&Arc<$answer>> {
                    if let Response::$reply(answer) = response { Some(answer) } else { None }
                }
            }
        )*
    };
}

requests! {
    /// What there is to know at first.
    Summary as AskSummary -> Summary(Summary) {
        /// Whose.
        of: Source,
    }
    /// The memory timeline: which allocation owns each pixel.
    Tile as AskTile -> Tile(Tile) {
        /// Whose.
        of: Source,
        /// What is stacked.
        counter: Counter,
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
        /// Only these, piled up from zero.
        only: Which,
    }
    /// How many bytes some allocations take, column by column.
    Levels as AskLevels -> Levels(SetLevels) {
        /// Whose.
        of: Source,
        /// What is stacked.
        counter: Counter,
        /// From left to right.
        stretch: Stretch,
        /// Which allocations.
        only: Which,
    }
    /// What is live at a moment, by what it has in common.
    Here as AskHere -> Here(Here) {
        /// Whose.
        of: Source,
        /// Which moment.
        at: Moment,
        /// Which bytes.
        counter: Counter,
        /// What it is added up by.
        by: By,
        /// Only these.
        only: Which,
    }
    /// What happened in a part of the axis.
    Range as AskRange -> Range(RangeChange) {
        /// Whose.
        of: Source,
        /// Which axis `x` is on.
        axis: Axis,
        /// From where to where.
        x: (f64, f64),
    }
    /// A page of events.
    Events as AskEvents -> Events(Page<EventRow>) {
        /// Whose.
        of: Source,
        /// First event.
        first: u32,
        /// Events.
        count: u32,
    }
    /// A table that answers one question.
    Report as AskReport -> Report(Report) {
        /// Whose.
        of: Source,
        /// Which table.
        what: ReportOf,
        /// The moment that it is about, if it is about one.
        at: Moment,
    }
    /// The segment timeline.
    Lanes as AskLanes -> Tile(Tile) {
        /// Whose.
        of: Source,
        /// What decides the moment of a column.
        counter: Counter,
        /// From left to right.
        stretch: Stretch,
        /// Lanes by number, each with its first row and how many it takes, counted from the lowest.
        lanes: Vec<(u32, u32, u32)>,
        /// Rows.
        height: u32,
        /// As in [`AskTile`].
        categories: bool,
    }
    /// Where one allocation lies in the memory timeline, column by column.
    Outline as AskOutline -> Outline(Vec<Option<(u64, u64)>>) {
        /// Whose.
        of: Source,
        /// What is stacked.
        counter: Counter,
        /// From left to right.
        stretch: Stretch,
        /// Which allocation.
        alloc: AllocIdx,
        /// As in [`AskTile`].
        pools: bool,
        /// As in [`AskTile`].
        only: Which,
    }
    /// The four counters, column by column.
    Curve as AskCurve -> Curve(Curve) {
        /// Whose.
        of: Source,
        /// From left to right.
        stretch: Stretch,
    }
    /// What happened at a moment, and what is live.
    Moment as AskMoment -> Moment(MomentInfo) {
        /// Whose.
        of: Source,
        /// Which moment.
        at: Moment,
        /// Whether with what has to go through all that lives: the gap by cause, and how many live.
        whole: bool,
    }
    /// All about an allocation.
    Details as AskDetails -> Details(Details) {
        /// Whose.
        of: Source,
        /// Which allocation.
        alloc: AllocIdx,
        /// The moment at the cursor, for what is beside it.
        at: Moment,
    }
    /// The map of memory at a moment.
    State as AskState -> State(MemoryMap) {
        /// Whose.
        of: Source,
        /// Which moment.
        at: Moment,
        /// As in [`AskTile`].
        categories: bool,
    }
    /// A call tree.
    Tree as AskTree -> Tree(Tree) {
        /// Whose.
        of: Source,
        /// What it weighs.
        weigh: Weigh,
        /// From the innermost frame out.
        inverted: bool,
        /// Only the user's own frames.
        own: bool,
    }
    /// Two call trees as one.
    Diff as AskDiff -> Diff(DiffTree) {
        /// Whose, and when.
        before: (Source, Moment),
        /// Whose, and when.
        after: (Source, Moment),
        /// Only the user's own frames.
        own: bool,
    }
    /// A page of the table of allocations.
    Allocations as AskAllocations -> Allocations(Page<AllocationRow>) {
        /// Whose.
        of: Source,
        /// Which page of which.
        list: Listing,
    }
    /// A page of the table of stacks.
    Stacks as AskStacks -> Stacks(Page<StackRow>) {
        /// Whose.
        of: Source,
        /// Which page of which.
        list: Listing,
    }
    /// A page of lifetimes as bars.
    Lifetimes as AskLifetimes -> Lifetimes(Page<LifetimeRow>) {
        /// Whose.
        of: Source,
        /// Which allocations.
        which: Which,
        /// What bars are grouped by.
        group: GroupBy,
        /// The groups whose members are listed, by their keys; the others are folded.
        open: Vec<u64>,
        /// The columns that bytes of groups are shown in.
        stretch: Stretch,
        /// First row.
        first: u32,
        /// Rows.
        count: u32,
    }
    /// A page of rows as lines of CSV, with the columns that `export` writes.
    Csv as AskCsv -> Csv(Page<String>) {
        /// Whose.
        of: Source,
        /// Which rows, in which order.
        table: CsvOf,
        /// First row.
        first: u32,
        /// Rows.
        count: u32,
    }
    /// Moments, lines, phases and addresses that match a text.
    Search as AskSearch -> Search(SearchResults) {
        /// Whose.
        of: Source,
        /// The text: a moment, a filter, or an address.
        text: String,
    }
    /// What is compared between the ranks of a run.
    Rank as AskRank -> Rank(RankDigest) {
        /// Whose.
        of: Source,
    }
    /// What looks wrong.
    Insights as AskInsights -> Insights(Insights) {
        /// Whose.
        of: Source,
    }
    /// The same stretch on the other axis.
    Convert as AskConvert -> Converted((f64, f64)) {
        /// Whose.
        of: Source,
        /// Which axis `x` is on.
        from: Axis,
        /// From where to where.
        x: (f64, f64),
    }
    /// Whether and how the recording can be simulated under other allocator settings.
    Simulable as AskSimulable -> Simulable(Simulable) {
        /// Whose.
        of: Source,
        /// The limit that settings are simulated under.
        limit: Limit,
    }
    /// What other settings would have done. A request for more orders goes on from one for fewer.
    Simulated as AskSimulated -> Simulated(Simulated) {
        /// Whose.
        of: Source,
        /// Which settings.
        under: Under,
        /// Orders of device addresses to simulate.
        orders: u32,
    }
    /// Reserved bytes under other settings, column by column.
    SimulatedCurve as AskSimulatedCurve -> SimulatedCurve(Vec<Option<u64>>) {
        /// Whose.
        of: Source,
        /// Which settings.
        under: Under,
        /// From left to right.
        stretch: Stretch,
    }
    /// The map of memory under other settings at a moment.
    SimulatedMap as AskSimulatedMap -> SimulatedMap(SimulatedMap) {
        /// Whose.
        of: Source,
        /// Which settings.
        under: Under,
        /// Which moment.
        at: Moment,
    }
    /// What SQL can be asked.
    SqlCatalog as AskSqlCatalog -> SqlCatalog(SqlCatalog) {
    }
    /// A query over all files that are open.
    Sql as AskSql -> Sql(SqlResult) {
        /// The query.
        query: String,
        /// Counts up, so that the same query can be run again.
        run: u32,
    }
    /// Rows of the result of a query.
    SqlRows as AskSqlRows -> SqlRows(SqlRows) {
        /// Which result.
        result: u64,
        /// First row.
        first: u32,
        /// Rows.
        count: u32,
    }
}

impl Request {
    /// The devices that it is about, to be renumbered.
    pub fn sources(&mut self) -> Vec<&mut Source> {
        match self {
            Self::Summary(AskSummary { of })
            | Self::Insights(AskInsights { of })
            | Self::Rank(AskRank { of })
            | Self::Tile(AskTile { of, .. })
            | Self::Levels(AskLevels { of, .. })
            | Self::Here(AskHere { of, .. })
            | Self::Range(AskRange { of, .. })
            | Self::Events(AskEvents { of, .. })
            | Self::Report(AskReport { of, .. })
            | Self::Lanes(AskLanes { of, .. })
            | Self::Outline(AskOutline { of, .. })
            | Self::Curve(AskCurve { of, .. })
            | Self::Moment(AskMoment { of, .. })
            | Self::Details(AskDetails { of, .. })
            | Self::State(AskState { of, .. })
            | Self::Tree(AskTree { of, .. })
            | Self::Allocations(AskAllocations { of, .. })
            | Self::Stacks(AskStacks { of, .. })
            | Self::Lifetimes(AskLifetimes { of, .. })
            | Self::Csv(AskCsv { of, .. })
            | Self::Search(AskSearch { of, .. })
            | Self::Convert(AskConvert { of, .. })
            | Self::Simulable(AskSimulable { of, .. })
            | Self::Simulated(AskSimulated { of, .. })
            | Self::SimulatedCurve(AskSimulatedCurve { of, .. })
            | Self::SimulatedMap(AskSimulatedMap { of, .. }) => vec![of],
            Self::Diff(AskDiff { before, after, .. }) => vec![&mut before.0, &mut after.0],
            Self::SqlCatalog(_) | Self::Sql(_) | Self::SqlRows(_) => Vec::new(),
        }
    }
}
