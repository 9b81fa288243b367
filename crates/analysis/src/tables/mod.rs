//! The tables that leave vramscope: `export`, the window's CSV files and the terminal's JSON have these columns.
//!
//! A table is defined once, as a list of [`Column`]s; [`Rows`] makes the rows that follow from a replay. The JSON
//! Schema of all tables and the columns in `docs/tables.md` are made from here, by the tests of this crate.

mod each;
mod ranks;
mod rows;

pub use each::{DeviceTables, Everything, Keep, Take, Whole};
pub use ranks::{AT_PEAK, File, PROBLEMS, RANKS, STEPS, at_peak, finding, rank, step};
pub use rows::{Rows, annotation, event, frame, segment, total};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json, json};
use vramscope_format::table::{Column, Kind, Value};

/// A table by name.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// As in file names and after `--table`.
    pub name: &'static str,
    /// What a row is.
    pub about: &'static str,
    /// What a row holds, in order.
    pub columns: &'static [Column],
}

const fn id(name: &'static str, about: &'static str) -> Column {
    Column::new(name, Kind::U32, "", about)
}

const fn number(name: &'static str, about: &'static str) -> Column {
    Column::new(name, Kind::U64, "", about)
}

const fn bytes(name: &'static str, about: &'static str) -> Column {
    Column::new(name, Kind::U64, "bytes", about)
}

const fn level(name: &'static str, about: &'static str) -> Column {
    Column::new(name, Kind::I64, "bytes", about)
}

const fn time(name: &'static str, about: &'static str) -> Column {
    Column::new(name, Kind::I64, "microseconds since 1970", about).or_null("the recording has no times")
}

const fn text(name: &'static str, about: &'static str) -> Column {
    Column::new(name, Kind::Text, "", about)
}

const fn flag(name: &'static str, about: &'static str) -> Column {
    Column::new(name, Kind::Flag, "", about)
}

const ADDR: Column = Column::new("addr", Kind::U64, "", "First address.");
const STREAM: Column = number("stream", "Stream handle; 0 is the default stream.");
const POOL_A: Column =
    Column::new("pool_a", Kind::I64, "", "First number of the pool; (0, 0) is the default pool.")
        .or_null("the pool is not known");
const POOL_B: Column =
    Column::new("pool_b", Kind::I64, "", "Second number of the pool.").or_null("the pool is not known");
const STACK: Column = id("stack", "Row of `stacks`; 0 and 1 have no frames: 0 was not recorded, 1 is empty.");
const FILE: Column = text("file", "File of the user's own line; empty if the stack has none.");
const LINE: Column = id("line", "Its number.");
const NAME: Column = text("name", "The function.");
const DEVICE: Column = Column::new("device", Kind::I32, "", "Device; -1 is the host.");
const DEPTH: Column = id("depth", "Frames above it.");

/// The life of every block.
pub const ALLOCATIONS: [Column; 23] = [
    id("allocation", "Number of the allocation."),
    ADDR,
    bytes("requested", "What the program asked for."),
    bytes("size", "Size of the block."),
    id("alloc_event", "The event that opened it.").or_null("it predates the recording"),
    id("release_event", "The event at which the program let go of it.").or_null("never"),
    id("free_event", "The event that closed it.").or_null("live at the end"),
    time("alloc_time_us", "When it was opened.").or_null("it predates the recording, or there are no times"),
    time("free_time_us", "When it was closed.").or_null("live at the end, or there are no times"),
    STREAM,
    POOL_A,
    POOL_B,
    STACK,
    flag("estimated", "Whether `size` is inferred."),
    FILE,
    LINE,
    NAME,
    text("category", "What it is for."),
    text("known_by", "How the category is known: `recorded`, `certain`, `likely` or `unknown`."),
    text(
        "phase",
        "The annotation that it was made in, else `forward`, `backward` or `optimizer`; empty if none.",
    ),
    text(
        "module",
        "The module of the model that made it, or that a backward pass made it for; empty if not known.",
    ),
    number("in_step", "The step that it was made in.").or_null("it was made outside of steps"),
    DEVICE,
];

/// The trace, with the counters after each event.
pub const EVENTS: [Column; 18] = [
    id("event", "Number of the event, from 0."),
    time("time_us", "When."),
    text("action", "As PyTorch names it."),
    Column::new("addr", Kind::U64, "", "First address.").or_null("of `oom`, which has none"),
    bytes("size", "Size."),
    bytes("device_free", "What the driver had free.").or_null("of all but `oom`"),
    STREAM,
    POOL_A,
    POOL_B,
    STACK,
    id("allocation", "Row of `allocations`.").or_null("it opens, releases or closes none"),
    level("requested", "Counter after the event."),
    level("allocated", "Counter after the event."),
    level("active", "Counter after the event."),
    level("reserved", "Counter after the event.").or_null("the file does not state it"),
    text("compile_context", "What `torch.compile` was compiling; empty if nothing."),
    text("user_metadata", "What the program attached; empty if nothing."),
    DEVICE,
];

/// Frames of each stack, innermost first.
pub const STACKS: [Column; 3] =
    [id("stack", "Number of the stack."), id("position", "0 is innermost."), id("frame", "Row of `frames`.")];

/// Lines of the program.
pub const FRAMES: [Column; 5] = [
    id("frame", "Number of the frame."),
    text("file", "File."),
    id("line", "Line."),
    text("name", "Function."),
    flag("internal", "Whether it is PyTorch's, CPython's or the C++ runtime's."),
];

/// Memory held from the driver at the end.
pub const SEGMENTS: [Column; 12] = [
    ADDR,
    bytes("total_size", "Size of the segment."),
    bytes("allocated_size", "In blocks that are in use."),
    bytes("active_size", "In blocks that are in use or await their free."),
    bytes("requested_size", "What the program asked for."),
    STREAM,
    POOL_A,
    POOL_B,
    flag("expandable", "Whether it is part of an expandable segment."),
    id("blocks", "Blocks, free ones included."),
    STACK,
    DEVICE,
];

/// `record_function` spans.
pub const ANNOTATIONS: [Column; 9] = [
    text("name", "As it was recorded."),
    id("nth", "Which of its name, from 1."),
    id("depth", "Spans around it."),
    Column::new("start_us", Kind::I64, "microseconds since 1970", "When it began."),
    Column::new("end_us", Kind::I64, "microseconds since 1970", "When it ended.").or_null("it did not end"),
    id("first_event", "The first event in it."),
    id("last_event", "The last event in it.").or_null("there is none before its end"),
    level("peak_requested", "Highest requested bytes in it."),
    DEVICE,
];

/// Requested bytes by stack.
pub const TOTALS: [Column; 8] = [
    STACK,
    bytes("requested", "What its allocations asked for."),
    number("count", "How many allocations."),
    bytes("largest", "The largest of them."),
    FILE,
    LINE,
    NAME,
    text("operator", "The operator that allocated; empty if the stack names none."),
];

/// Segments at a moment.
pub const HELD: [Column; 5] = [
    ADDR,
    bytes("size", "Size of the segment."),
    bytes("free", "Free in it."),
    bytes("largest_hole", "The largest free range."),
    number("blocks", "Blocks in use."),
];

/// Blocks at a moment.
pub const BLOCKS: [Column; 5] = [
    Column::new("segment", Kind::U64, "", "First address of the segment."),
    ADDR,
    bytes("size", "Size of the block."),
    bytes("requested", "What the program asked for."),
    flag("awaiting_free", "Whether the program let go of it, and a stream still uses it."),
];

/// Pools at a moment.
pub const POOLS: [Column; 9] = [
    POOL_A,
    POOL_B,
    STREAM,
    bytes("reserved", "Held from the driver."),
    bytes("requested", "What the program asked for."),
    bytes("free", "Free in its segments."),
    bytes("largest_hole", "The largest free range."),
    number("segments", "Segments."),
    number("blocks", "Blocks in use."),
];

/// A call tree, each node below the one that it lies in.
pub const TREE: [Column; 7] = [
    DEPTH,
    bytes("bytes", "Of the node and everything below it."),
    bytes("own_bytes", "Allocated in the node itself."),
    number("count", "Allocations."),
    NAME,
    text("file", "File."),
    LINE,
];

/// Two call trees side by side, each node below the one that it lies in.
pub const DIFF: [Column; 8] = [
    DEPTH,
    bytes("before_bytes", "Before."),
    bytes("after_bytes", "After."),
    number("before_count", "Allocations before."),
    number("after_count", "Allocations after."),
    NAME,
    text("file", "File."),
    LINE,
];

/// What looks wrong.
pub const FINDINGS: [Column; 6] = [
    text("kind", "Which kind, as docs/insights.md lists them."),
    text("severity", "`high`, `medium` or `low`."),
    bytes("bytes", "Bytes that it is about."),
    text("title", "What was found."),
    text("advice", "What to do."),
    id("event", "The event to look at.").or_null("it is about the whole recording"),
];

/// Lanes of the segment timeline: memory that was ever held.
pub const LANES: [Column; 3] = [
    ADDR,
    bytes("size", "From the first address ever held to the last."),
    flag("expandable", "Whether it is an expandable segment."),
];

/// Settings of the allocator.
pub const SETTINGS: [Column; 2] = [text("setting", "Its name."), text("value", "Its value.")];

/// Allocator settings that were simulated, and the recording.
pub const TRIALS: [Column; 8] = [
    text("settings", "As in `PYTORCH_CUDA_ALLOC_CONF`, `defaults`, or `recording`."),
    bytes("reserved_peak", "Peak of reserved bytes."),
    bytes("gap", "The largest gap between reserved and requested bytes."),
    number("device_allocs", "Calls that took device memory."),
    number("device_frees", "Calls that gave it back."),
    number("retries", "Times that everything was released to serve a request.")
        .or_null("it is the recording"),
    text("result", "How it ends."),
    text("confidence", "How far it depends on the device's addresses."),
];

/// All tables.
pub const TABLES: [Table; 20] = [
    Table { name: "allocations", about: "The life of every block", columns: &ALLOCATIONS },
    Table { name: "events", about: "The trace, with the counters after each event", columns: &EVENTS },
    Table { name: "stacks", about: "Frames of each stack, innermost first", columns: &STACKS },
    Table { name: "frames", about: "Lines of the program", columns: &FRAMES },
    Table { name: "segments", about: "Memory held from the driver at the end", columns: &SEGMENTS },
    Table { name: "annotations", about: "record_function spans", columns: &ANNOTATIONS },
    Table { name: "ranks", about: "Totals of each rank", columns: &RANKS },
    Table {
        name: "at_peak",
        about: "What was live when requested bytes were highest, by line, category, phase and module",
        columns: &AT_PEAK,
    },
    Table { name: "steps", about: "Steps of each rank", columns: &STEPS },
    Table { name: "problems", about: "Files that could not be read, or only in part", columns: &PROBLEMS },
    Table { name: "totals", about: "Requested bytes by stack", columns: &TOTALS },
    Table { name: "held", about: "Segments at a moment", columns: &HELD },
    Table { name: "blocks", about: "Blocks at a moment", columns: &BLOCKS },
    Table { name: "pools", about: "Pools at a moment", columns: &POOLS },
    Table { name: "tree", about: "A call tree, each node below the one that it lies in", columns: &TREE },
    Table { name: "diff", about: "Two call trees side by side", columns: &DIFF },
    Table { name: "findings", about: "What looks wrong", columns: &FINDINGS },
    Table { name: "lanes", about: "Lanes of the segment timeline", columns: &LANES },
    Table { name: "settings", about: "Settings of the allocator", columns: &SETTINGS },
    Table {
        name: "trials",
        about: "The recording under other allocator settings, simulated",
        columns: &TRIALS,
    },
];

/// A row that is serialized as an object: names and values.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a>(pub &'a [Column], pub &'a [Value<'a>]);

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Cell<'a>(&'a Value<'a>);
        impl Serialize for Cell<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self.0 {
                    Value::Missing => serializer.serialize_none(),
                    Value::Flag(flag) => serializer.serialize_bool(*flag),
                    Value::Signed(number) => serializer.serialize_i64(*number),
                    Value::Unsigned(number) => serializer.serialize_u64(*number),
                    Value::Text(text) => serializer.serialize_str(text),
                }
            }
        }
        serializer.collect_map(self.0.iter().zip(self.1).map(|(column, value)| (column.name, Cell(value))))
    }
}

/// The JSON Schema of a row of each table.
pub fn schema() -> Json {
    let column = |column: &Column| {
        let kind = column.kind.name();
        let mut about = column.about.to_owned();
        let mut schema = Map::new();
        if let Some(null) = column.null {
            about += &format!(" null: {null}.");
            schema.insert("type".into(), json!([kind, "null"]));
        } else {
            schema.insert("type".into(), kind.into());
        }
        if matches!(column.kind, Kind::U32 | Kind::U64) {
            schema.insert("minimum".into(), 0.into());
        }
        if !column.unit.is_empty() {
            schema.insert("unit".into(), column.unit.into());
        }
        schema.insert("description".into(), about.into());
        (column.name.to_owned(), Json::Object(schema))
    };
    let table = |table: &Table| {
        let names: Vec<_> = table.columns.iter().map(|column| column.name).collect();
        let schema = json!({
            "description": format!("{}.", table.about),
            "type": "object",
            "properties": table.columns.iter().map(column).collect::<Map<_, _>>(),
            "required": names,
            "additionalProperties": false,
        });
        (table.name.to_owned(), schema)
    };
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "vramscope/tables/1",
        "description": "A row of each table, as `export --format jsonl` and the terminal's JSON write it.",
        "$defs": TABLES.iter().map(table).collect::<Map<_, _>>(),
    })
}

/// All tables as Markdown: a list of columns for each.
pub fn markdown() -> String {
    let mut text = String::new();
    for table in &TABLES {
        text += &format!(
            "### `{}`\n{}.\n\n| column | type | what it says |\n|---|---|---|\n",
            table.name, table.about
        );
        for column in table.columns {
            let unit = if column.unit.is_empty() { String::new() } else { format!(", {}", column.unit) };
            let null = column.null.map_or_else(String::new, |null| format!(" Null: {null}."));
            let (name, kind, about) = (column.name, column.kind.name(), column.about);
            text += &format!("| `{name}` | {kind}{unit} | {about}{null} |\n");
        }
        text.push('\n');
    }
    text
}
