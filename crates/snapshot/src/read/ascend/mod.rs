//! Profiles of the Ascend PyTorch Profiler (NPU): one row per life of a block, with the allocator's totals.
//!
//! A profile is a folder of several files. [`AscendProfile`] takes their bytes, each with what it is, in
//! pieces and in any order; a file that is missing or damaged costs a warning. The tables come as CSV, and
//! since 2025 as one SQLite database of the same rows.

mod build;
mod columns;
mod database;
mod folder;
mod stacks;
mod text;
mod usage;

use super::ReadError;
use super::decimal::integer;
use super::intern::Strings;
use super::json::{Container, JsonReader, Sink};
use super::machine::Fault;
use super::oddities::Oddities;
use super::rows::Tables;
use super::trace::{Slice, TraceSink};
use crate::model::{Damage, Snapshot, StrId, Total};
use columns::{MEMORY_RECORD, MODULE_MEMORY, OPERATOR_MEMORY};
pub use folder::{AscendFolder, profile_rank};
use text::CsvTable;
pub use usage::add_memory_usage;

/// Which file of a profile bytes belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AscendPart {
    /// `operator_memory.csv`: the life of every block.
    OperatorMemory,
    /// `memory_record.csv`: the totals over time.
    MemoryRecord,
    /// `npu_module_mem.csv`: what others than the framework hold.
    ModuleMemory,
    /// `trace_view.json`: call stacks of operators.
    TraceView,
    /// `ascend_pytorch_profiler_<rank>.db`: all of these tables in one.
    Database,
    /// `profiler_info_<rank>.json` and `profiler_metadata.json`: rank and role.
    Info,
}

impl AscendPart {
    /// What a file of a profile is, by its name.
    pub fn of(name: &str) -> Option<Self> {
        let is_database = name.starts_with("ascend_pytorch_profiler") && name.ends_with(".db");
        let is_info = name.starts_with("profiler_info") && name.ends_with(".json");
        Some(match name {
            "operator_memory.csv" => Self::OperatorMemory,
            "memory_record.csv" => Self::MemoryRecord,
            "npu_module_mem.csv" => Self::ModuleMemory,
            "trace_view.json" => Self::TraceView,
            "profiler_metadata.json" => Self::Info,
            _ if is_info => Self::Info,
            _ if is_database => Self::Database,
            _ => return None,
        })
    }

    /// Which table a CSV file is, by its first line.
    pub(super) fn of_header(head: &[u8]) -> Option<Self> {
        let has =
            |words: &[&str]| words.iter().all(|word| memchr::memmem::find(head, word.as_bytes()).is_some());
        let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
        if has(&["Allocation Time(us)", "Size(KB)"]) && line.contains(&b',') {
            Some(Self::OperatorMemory)
        } else if has(&["Component", "Timestamp(us)", "Total Allocated(MB)"]) {
            Some(Self::MemoryRecord)
        } else if has(&["Component", "Timestamp(us)", "Total Reserved(MB)"]) {
            Some(Self::ModuleMemory)
        } else {
            None
        }
    }
}

/// The life of one block.
#[derive(Clone, Copy, Debug, Default)]
struct OpRow {
    name: StrId,
    size: u64,
    allocated_ns: i64,
    released_ns: Option<i64>,
    reusable_ns: Option<i64>,
    at_allocation: Total,
    at_release: Total,
    stream: u64,
    device: i32,
    /// Whether the graph engine's allocator made it, which has totals of its own.
    is_graph: bool,
}

/// Who a total is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Component {
    /// The framework's caching allocator.
    Framework,
    /// The graph engine.
    Graph,
    /// The sum of both, which stands beside each of them.
    Sum,
    /// Anybody else.
    Other(StrId),
}

impl Component {
    fn of(name: &[u8], strings: &mut Strings) -> Self {
        match name.trim_ascii() {
            b"PTA" => Self::Framework,
            b"GE" => Self::Graph,
            b"PTA+GE" => Self::Sum,
            other => Self::Other(strings.intern(other)),
        }
    }
}

/// Totals at a time.
#[derive(Clone, Copy, Debug)]
struct RecordRow {
    component: Component,
    time_ns: i64,
    total: Total,
    device: i32,
}

/// What the files of a profile hold, whichever form they have.
#[derive(Default)]
struct Rows {
    ops: Vec<OpRow>,
    records: Vec<RecordRow>,
    /// Operators with their call stacks, and what the program marked.
    slices: Vec<Slice>,
    /// Digits after the point of totals; `None` where they are whole bytes.
    decimals: Option<usize>,
    /// What was odd, in words.
    warnings: Vec<String>,
}

/// Reads the files of one profile.
///
/// ```
/// use vramscope_snapshot::{AscendPart, AscendProfile};
/// let mut profile = AscendProfile::new();
/// profile.feed(AscendPart::OperatorMemory, b"Name,Size(KB),Allocation Time(us),Allocation Total Allocated(MB),Device Type\n");
/// profile.feed(AscendPart::OperatorMemory, b"aten::mul,8.5,1790000000000000.000\t,12000.00830078125,NPU:0\n");
/// let snapshot = profile.finish()?;
/// assert_eq!(snapshot.traces[0].events.sizes(), [8704]);
/// # Ok::<_, vramscope_snapshot::ReadError>(())
/// ```
pub struct AscendProfile {
    strings: Strings,
    rows: Rows,
    operators: CsvTable,
    records: CsvTable,
    modules: CsvTable,
    trace: Option<Box<JsonReader<TraceSink>>>,
    trace_fault: Option<(u64, String)>,
    database: Vec<u8>,
    info: Vec<u8>,
    bytes: u64,
    rank: Option<u64>,
    role: Option<String>,
}

impl Default for AscendProfile {
    fn default() -> Self {
        Self::new()
    }
}

/// `profiler_info.json` is a few hundred bytes; settings can make it longer.
const MAX_INFO: usize = 1 << 20;

impl AscendProfile {
    /// A profile of which no file has been read.
    pub fn new() -> Self {
        Self {
            strings: Strings::new(),
            rows: Rows::default(),
            operators: CsvTable::new("operator_memory.csv", &OPERATOR_MEMORY),
            records: CsvTable::new("memory_record.csv", &MEMORY_RECORD),
            modules: CsvTable::new("npu_module_mem.csv", &MODULE_MEMORY),
            trace: None,
            trace_fault: None,
            database: Vec::new(),
            info: Vec::new(),
            bytes: 0,
            rank: None,
            role: None,
        }
    }

    /// Names the rank, which is in the name of a file. What the files themselves say comes first.
    #[must_use]
    pub fn with_rank(self, rank: Option<u64>) -> Self {
        Self { rank, ..self }
    }

    /// Takes the next bytes of one of the files.
    pub fn feed(&mut self, part: AscendPart, chunk: &[u8]) {
        self.bytes = self.bytes.saturating_add(chunk.len() as u64);
        let (strings, rows) = (&mut self.strings, &mut self.rows);
        match part {
            AscendPart::OperatorMemory => {
                self.operators.feed(chunk, &mut |row| columns::operator(row, strings, rows));
            }
            AscendPart::MemoryRecord => {
                self.records.feed(chunk, &mut |row| columns::record(row, strings, rows));
            }
            AscendPart::ModuleMemory => {
                self.modules.feed(chunk, &mut |row| columns::module(row, strings, rows));
            }
            AscendPart::TraceView => {
                let trace = self
                    .trace
                    .get_or_insert_with(|| Box::new(JsonReader::new(TraceSink::new(Strings::new()))));
                if self.trace_fault.is_none()
                    && let Err(fault) = trace.feed(chunk)
                {
                    self.trace_fault = Some((trace.offset, fault.to_string()));
                }
            }
            // Its pages refer to each other in any order.
            AscendPart::Database => self.database.extend_from_slice(chunk),
            AscendPart::Info => {
                let room = MAX_INFO.saturating_sub(self.info.len());
                self.info.extend_from_slice(chunk.get(..chunk.len().min(room)).unwrap_or_default());
            }
        }
    }

    /// The profile as a snapshot, with what is odd in its files as warnings.
    pub fn finish(mut self) -> Result<Snapshot, ReadError> {
        self.close_tables();
        self.read_trace();
        self.read_info();
        let format = if self.database.is_empty() { "Ascend profile, CSV" } else { "Ascend profile, SQLite" };
        let damage = self.read_database()?;
        let Self { strings, mut rows, bytes, rank, role, .. } = self;
        let in_tables =
            [&self.operators, &self.records, &self.modules].into_iter().find_map(CsvTable::damage);
        let damage = damage.or(in_tables);
        for table in [&self.operators, &self.records, &self.modules] {
            rows.warnings.extend(table.warnings());
        }
        if rows.ops.is_empty() && rows.records.is_empty() {
            return Err(nothing(damage, &rows.warnings));
        }
        let tables = Tables::of(strings, Oddities::default(), bytes);
        let snapshot = build::build(rows, tables);
        Ok(Snapshot { format: format.into(), rank, role, damage, ..snapshot })
    }

    fn close_tables(&mut self) {
        let (strings, rows) = (&mut self.strings, &mut self.rows);
        self.operators.finish(&mut |row| columns::operator(row, strings, rows));
        self.records.finish(&mut |row| columns::record(row, strings, rows));
        self.modules.finish(&mut |row| columns::module(row, strings, rows));
    }

    /// Takes over what a database has, and says where it is damaged.
    fn read_database(&mut self) -> Result<Option<Damage>, ReadError> {
        let bytes = std::mem::take(&mut self.database);
        if bytes.is_empty() {
            return Ok(None);
        }
        let facts = database::read(&bytes, &mut self.strings, &mut self.rows)
            .map_err(|error| ReadError::OtherFormat(format!("an SQLite database, but {error}")))?;
        if !facts.is_profile {
            return Err(ReadError::OtherFormat(NO_MEMORY_TABLES.into()));
        }
        self.rank = facts.rank.or(self.rank);
        Ok(facts.damage)
    }

    /// Takes over what a trace has of call stacks.
    fn read_trace(&mut self) {
        let Some(trace) = self.trace.take() else { return };
        let fault = self.trace_fault.take().or_else(|| {
            (!trace.sink.is_done()).then(|| (trace.offset, "the file ends inside a list".to_owned()))
        });
        if let Some((offset, reason)) = fault {
            let warning = format!(
                "trace_view.json is damaged at byte {offset}: {reason}; call stacks after that are missing"
            );
            self.rows.warnings.push(warning);
        }
        let TraceSink { strings, slices, .. } = trace.sink;
        for mut slice in slices {
            slice.name = self.strings.intern(strings.table.get(slice.name).as_bytes());
            slice.call_stack = self.strings.intern(strings.table.get(slice.call_stack).as_bytes());
            self.rows.slices.push(slice);
        }
    }

    fn read_info(&mut self) {
        // Several small files one after another.
        let info = std::mem::take(&mut self.info);
        let mut rest = info.trim_ascii_start();
        while !rest.is_empty() {
            let mut json = JsonReader::new(InfoSink::default());
            let read = json.feed(rest);
            self.role = self.role.take().or(json.sink.role);
            self.rank = json.sink.rank.or(self.rank);
            let used = usize::try_from(json.offset).unwrap_or(usize::MAX).saturating_add(1);
            if read.is_err() || !json.sink.done {
                break;
            }
            rest = rest.get(used..).unwrap_or_default().trim_ascii_start();
        }
    }
}

const NO_MEMORY_TABLES: &str = "an SQLite database without the tables OP_MEMORY and MEMORY_RECORD of an Ascend profile. \
     Recorded without profile_memory=True, or by another profiler?";

/// Why there is nothing to show.
fn nothing(damage: Option<Damage>, warnings: &[String]) -> ReadError {
    match damage {
        Some(Damage { offset, reason }) => ReadError::Damaged { offset, reason },
        None if !warnings.is_empty() => ReadError::OtherFormat(format!("an Ascend profile, but {}", warnings.join("; "))),
        None => ReadError::OtherFormat(
            "an Ascend profile without memory. Record it with torch_npu.profiler.profile(profile_memory=True)".into(),
        ),
    }
}

/// The rank and the role that small JSON files name.
#[derive(Default)]
struct InfoSink {
    depth: usize,
    key: Vec<u8>,
    rank: Option<u64>,
    role: Option<String>,
    done: bool,
}

/// A role is a word or two.
const MAX_ROLE: usize = 80;

impl InfoSink {
    fn value(&mut self, text: &[u8]) {
        match self.key.as_slice() {
            b"rank_id" if self.depth == 1 => {
                self.rank = integer(text).and_then(|rank| u64::try_from(rank).ok()).or(self.rank);
            }
            b"role" if self.depth == 1 && !text.is_empty() => {
                self.role = Some(String::from_utf8_lossy(text).chars().take(MAX_ROLE).collect());
            }
            _ => {}
        }
    }
}

impl Sink for InfoSink {
    fn begin(&mut self, _container: Container, _at: u64) -> Result<(), Fault> {
        self.depth += 1;
        Ok(())
    }

    fn end(&mut self, _container: Container, _at: u64) -> Result<(), Fault> {
        self.depth -= 1;
        Ok(())
    }

    fn key(&mut self, text: &[u8], _at: u64) -> Result<(), Fault> {
        self.key = text.to_owned();
        Ok(())
    }

    fn string(&mut self, text: &[u8], _at: u64) -> Result<(), Fault> {
        self.value(text);
        Ok(())
    }

    fn word(&mut self, word: &[u8], _at: u64) -> Result<(), Fault> {
        self.value(word);
        Ok(())
    }

    fn finish(&mut self, _at: u64) -> Result<(), Fault> {
        self.done = true;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }
}
