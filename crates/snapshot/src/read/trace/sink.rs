//! The tokens of a trace into rows.

use hashbrown::HashMap;

use super::{MemoryEvent, Slice, SliceKind};
use crate::model::StrId;
use crate::read::decimal::{integer, micros_as_nanos};
use crate::read::intern::Strings;
use crate::read::json::{Container, NOT_A_VALUE, Sink};
use crate::read::machine::Fault;
use crate::read::oddities::{Oddities, Oddity};

/// Collects what matters of a trace.
pub(in crate::read) struct TraceSink {
    pub(in crate::read) strings: Strings,
    pub(in crate::read) slices: Vec<Slice>,
    pub(in crate::read) memory: Vec<MemoryEvent>,
    /// What times are relative to, in nanoseconds.
    pub(in crate::read) base_ns: i64,
    pub(in crate::read) rank: Option<u64>,
    /// Accelerators by number, and the memory of each.
    pub(in crate::read) capacities: Vec<(i64, u64)>,
    pub(in crate::read) oddities: Oddities,
    pub(in crate::read) bytes_read: u64,
    done: bool,
    depth: usize,
    /// How deep the list of events lies, once it has begun.
    events_depth: Option<usize>,
    in_distributed_info: bool,
    in_devices: bool,
    /// Number and memory of the device that is being read.
    device: (Option<i64>, Option<u64>),
    key: Key,
    event: Raw,
    name: Vec<u8>,
    call_stack: Vec<u8>,
    threads: HashMap<(Id, Id), u32>,
    last_thread: Option<((Id, Id), u32)>,
}

/// More devices are in no machine.
const MOST_DEVICES: usize = 256;

/// A process or thread: a number, or a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Id {
    #[default]
    None,
    Number(i64),
    Name(StrId),
}

/// The keys that matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Key {
    #[default]
    Other,
    TraceEvents,
    BaseTime,
    DistributedInfo,
    Rank,
    DeviceProperties,
    DeviceNumber,
    DeviceMemory,
    Phase,
    Category,
    Name,
    Process,
    Thread,
    Time,
    Duration,
    Bytes,
    Addr,
    DeviceType,
    DeviceId,
    TotalAllocated,
    TotalReserved,
    CallStack,
}

/// The fields of the event that is being read.
#[derive(Clone, Copy, Debug, Default)]
struct Raw {
    is_slice: bool,
    kind: Option<SliceKind>,
    pid: Id,
    tid: Id,
    time_ns: Option<i64>,
    duration_ns: i64,
    memory: MemoryEvent,
    has_bytes: bool,
}

impl TraceSink {
    pub(in crate::read) fn new(strings: Strings) -> Self {
        Self {
            strings,
            slices: Vec::new(),
            memory: Vec::new(),
            base_ns: 0,
            rank: None,
            capacities: Vec::new(),
            oddities: Oddities::default(),
            bytes_read: 0,
            done: false,
            depth: 0,
            events_depth: None,
            in_distributed_info: false,
            in_devices: false,
            device: (None, None),
            key: Key::Other,
            event: Raw::default(),
            name: Vec::new(),
            call_stack: Vec::new(),
            threads: HashMap::new(),
            last_thread: None,
        }
    }

    /// Whether tokens at this depth are fields of an event, or of what is attached to one.
    fn level(&self) -> Level {
        match self.events_depth {
            Some(events) if self.depth == events + 1 => Level::Event,
            Some(events) if self.depth == events + 2 => Level::Args,
            None if self.depth == 1 => Level::Top,
            Some(events) if events == 2 && self.depth == 1 => Level::Top,
            _ if self.depth == 2 && self.in_distributed_info => Level::DistributedInfo,
            _ if self.depth == 3 && self.in_devices => Level::Device,
            _ => Level::Other,
        }
    }

    fn thread(&mut self) -> u32 {
        let thread = (self.event.pid, self.event.tid);
        if let Some((last, number)) = self.last_thread
            && last == thread
        {
            return number;
        }
        let next = self.threads.len() as u32;
        let number = *self.threads.entry(thread).or_insert(next);
        self.last_thread = Some((thread, number));
        number
    }

    fn end_event(&mut self) {
        let is_oom = self.name == b"[OutOfMemory]";
        if self.name == b"[memory]" || is_oom {
            match self.event.time_ns {
                Some(time_ns) if self.event.has_bytes => {
                    let thread = self.thread();
                    self.memory.push(MemoryEvent { time_ns, thread, is_oom, ..self.event.memory });
                }
                _ => self.oddities.note(Oddity::TimeMissing),
            }
        } else if let (true, Some(kind), Some(start_ns)) =
            (self.event.is_slice, self.event.kind, self.event.time_ns)
        {
            let (thread, name) = (self.thread(), self.strings.intern(&self.name));
            let call_stack = self.strings.intern(&self.call_stack);
            let end_ns = start_ns.saturating_add(self.event.duration_ns.max(0));
            self.slices.push(Slice { start_ns, end_ns, thread, name, call_stack, kind });
        }
    }

    fn id(&mut self, text: &[u8]) -> Id {
        integer(text).map_or_else(|| Id::Name(self.strings.intern(text)), Id::Number)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Top,
    DistributedInfo,
    Device,
    Event,
    Args,
    Other,
}

/// A kind of slice that is worth keeping.
fn kind(category: &[u8]) -> Option<SliceKind> {
    match category {
        b"cpu_op" | b"Operator" => Some(SliceKind::Operator),
        b"python_function" => Some(SliceKind::Python),
        b"user_annotation" => Some(SliceKind::Annotation),
        _ => None,
    }
}

impl Sink for TraceSink {
    fn begin(&mut self, container: Container, at: u64) -> Result<(), Fault> {
        self.bytes_read = at;
        self.depth += 1;
        if self.events_depth.is_none()
            && container == Container::Array
            && (self.depth == 1 || self.depth == 2 && self.key == Key::TraceEvents)
        {
            self.events_depth = Some(self.depth);
        }
        if self.depth == 2 && self.key == Key::DistributedInfo {
            self.in_distributed_info = true;
        }
        if self.depth == 2 && self.key == Key::DeviceProperties {
            self.in_devices = true;
        }
        if self.level() == Level::Device {
            self.device = (None, None);
        }
        if container == Container::Object && self.level() == Level::Event {
            self.event = Raw::default();
            self.name.clear();
            self.call_stack.clear();
        }
        self.key = Key::Other;
        Ok(())
    }

    fn end(&mut self, container: Container, _at: u64) -> Result<(), Fault> {
        if container == Container::Object && self.level() == Level::Event {
            self.end_event();
        }
        if self.level() == Level::Device
            && let (Some(number), Some(memory)) = self.device
            && self.capacities.len() < MOST_DEVICES
        {
            self.capacities.push((number, memory));
        }
        if self.depth == 2 {
            self.in_distributed_info = false;
            self.in_devices = false;
        }
        if self.events_depth == Some(self.depth) && self.depth > 1 {
            // What is called the list of events comes once; a second list of that name would be lost, and
            // then its fields must not be taken for those of the file.
            self.events_depth = None;
        }
        self.depth = self.depth.saturating_sub(1);
        self.key = Key::Other;
        Ok(())
    }

    fn key(&mut self, text: &[u8], _at: u64) -> Result<(), Fault> {
        self.key = match (self.level(), text) {
            (Level::Top, b"traceEvents") => Key::TraceEvents,
            (Level::Top, b"baseTimeNanoseconds") => Key::BaseTime,
            (Level::Top, b"distributedInfo") => Key::DistributedInfo,
            (Level::DistributedInfo, b"rank") => Key::Rank,
            (Level::Top, b"deviceProperties") => Key::DeviceProperties,
            (Level::Device, b"id") => Key::DeviceNumber,
            (Level::Device, b"totalGlobalMem") => Key::DeviceMemory,
            (Level::Event, b"ph") => Key::Phase,
            (Level::Event, b"cat") => Key::Category,
            (Level::Event, b"name") => Key::Name,
            (Level::Event, b"pid") => Key::Process,
            (Level::Event, b"tid") => Key::Thread,
            (Level::Event, b"ts") => Key::Time,
            (Level::Event, b"dur") => Key::Duration,
            (Level::Args, b"Bytes") => Key::Bytes,
            (Level::Args, b"Addr") => Key::Addr,
            (Level::Args, b"Device Type") => Key::DeviceType,
            (Level::Args, b"Device Id") => Key::DeviceId,
            (Level::Args, b"Total Allocated") => Key::TotalAllocated,
            (Level::Args, b"Total Reserved") => Key::TotalReserved,
            (Level::Args, b"Call stack") => Key::CallStack,
            _ => Key::Other,
        };
        Ok(())
    }

    fn string(&mut self, text: &[u8], _at: u64) -> Result<(), Fault> {
        match std::mem::take(&mut self.key) {
            Key::Phase => self.event.is_slice = text == b"X",
            Key::Category => self.event.kind = kind(text),
            Key::Name => text.clone_into(&mut self.name),
            Key::CallStack => text.clone_into(&mut self.call_stack),
            Key::Process => self.event.pid = self.id(text),
            Key::Thread => self.event.tid = self.id(text),
            // Ascend writes times as strings.
            Key::Time => self.event.time_ns = micros_as_nanos(text),
            Key::Duration => self.event.duration_ns = micros_as_nanos(text).unwrap_or_default(),
            _ => {}
        }
        Ok(())
    }

    fn word(&mut self, word: &[u8], at: u64) -> Result<(), Fault> {
        self.bytes_read = at;
        let is_value = matches!(word, b"true" | b"false" | b"null" | b"NaN" | b"Infinity" | b"-Infinity")
            || word.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-');
        if !is_value {
            return Err(Fault::Damaged(NOT_A_VALUE));
        }
        let signed = || match word {
            [b'-', digits @ ..] => integer(digits).map(|n| -n),
            digits => integer(digits),
        };
        let total = || signed().and_then(|n| u64::try_from(n).ok());
        let memory = &mut self.event.memory;
        match std::mem::take(&mut self.key) {
            Key::BaseTime => self.base_ns = signed().unwrap_or_default(),
            Key::Rank => self.rank = total(),
            Key::DeviceNumber => self.device.0 = signed(),
            Key::DeviceMemory => self.device.1 = total(),
            Key::Process => self.event.pid = signed().map_or(Id::None, Id::Number),
            Key::Thread => self.event.tid = signed().map_or(Id::None, Id::Number),
            Key::Time => self.event.time_ns = micros_as_nanos(word),
            Key::Duration => self.event.duration_ns = micros_as_nanos(word).unwrap_or_default(),
            Key::Bytes => {
                self.event.has_bytes = signed().is_some();
                memory.bytes = signed().unwrap_or_default();
            }
            // Addresses may use all 64 bits.
            Key::Addr => {
                memory.addr = std::str::from_utf8(word).ok().and_then(|n| n.parse().ok()).unwrap_or_default();
            }
            Key::DeviceType => memory.device_type = signed().unwrap_or_default(),
            Key::DeviceId => memory.device_id = signed().unwrap_or_default(),
            Key::TotalAllocated => memory.allocated = total(),
            Key::TotalReserved => memory.reserved = total(),
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, at: u64) -> Result<(), Fault> {
        self.bytes_read = at;
        self.done = true;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }
}
