//! `export_memory_timeline`: bytes by category, as PyTorch's profiler saw them.
//!
//! Two forms hold data. `.json` is `[times, sizes]`, a row of bytes by category for each time; `.raw.json.gz`
//! is a list of `[time, action, bytes, category]`. Neither names blocks, so bytes of a category that come
//! and go are put down as blocks: in the raw form a row that takes bytes away ends the last block of that
//! size and category, in the other what came last goes first.

use hashbrown::HashMap;

use super::decimal::integer;
use super::intern::Strings;
use super::json::{Container, NOT_A_VALUE, Sink};
use super::machine::Fault;
use super::oddities::{Oddities, Oddity};
use super::rows::Tables;
use crate::model::{Action, DeviceId, Event, Has, MAX_SIZE, Meta, MetaId, Snapshot, Total, Trace};

/// Categories in the order of their numbers, as the profiler has them.
const CATEGORIES: [&str; 8] = [
    "PARAMETER",
    "OPTIMIZER_STATE",
    "INPUT",
    "TEMPORARY",
    "ACTIVATION",
    "GRADIENT",
    "AUTOGRAD_DETAIL",
    "UNKNOWN",
];
const UNKNOWN: usize = CATEGORIES.len() - 1;

/// Numbers of a row: no form has more than 9.
const MAX_NUMBERS: usize = 16;

/// Collects the numbers of a timeline.
#[derive(Default)]
pub(super) struct TimelineSink {
    /// What is inside the innermost list, of lists two or three deep.
    row: Vec<i64>,
    /// Times of the first form; the second has none here.
    times: Vec<i64>,
    /// Rows of the raw form.
    raw: Vec<[i64; 4]>,
    /// Rows of sizes by category.
    sizes: Vec<[i64; CATEGORIES.len()]>,
    /// Lists at the second level that have begun.
    lists: usize,
    depth: usize,
    odd: u64,
    done: bool,
    bytes_read: u64,
}

impl Sink for TimelineSink {
    fn begin(&mut self, container: Container, _at: u64) -> Result<(), Fault> {
        if container == Container::Object {
            return Err(Fault::Damaged("a memory timeline is made of lists of numbers"));
        }
        self.depth += 1;
        if self.depth == 2 {
            self.lists += 1;
            self.row.clear();
        } else if self.depth == 3 {
            self.row.clear();
        }
        Ok(())
    }

    fn end(&mut self, _container: Container, at: u64) -> Result<(), Fault> {
        self.bytes_read = at;
        match (self.depth, self.row.as_slice()) {
            // The leading number is that of an empty category.
            (3, [_, sizes @ ..]) if self.lists == 2 && !sizes.is_empty() => {
                let mut row = [0_i64; CATEGORIES.len()];
                for (category, bytes) in sizes.iter().enumerate() {
                    let sum = &mut row[category.min(UNKNOWN)];
                    *sum = sum.saturating_add(*bytes);
                }
                self.sizes.push(row);
            }
            (2, &[time, action, bytes, category]) if self.times.is_empty() => {
                self.raw.push([time, action, bytes, category]);
            }
            (2, []) | (1, _) => {}
            (2, few) if self.lists == 1 && few.len() < 4 => self.times = few.to_vec(),
            (2, _) if self.lists <= 2 => {}
            _ => self.odd += 1,
        }
        self.row.clear();
        self.depth -= 1;
        Ok(())
    }

    fn key(&mut self, _text: &[u8], _at: u64) -> Result<(), Fault> {
        Ok(())
    }

    fn string(&mut self, _text: &[u8], _at: u64) -> Result<(), Fault> {
        Err(Fault::Damaged("a memory timeline is made of lists of numbers"))
    }

    fn word(&mut self, word: &[u8], at: u64) -> Result<(), Fault> {
        self.bytes_read = at;
        let number = match word {
            [b'-', digits @ ..] => integer(digits).map(|n| -n),
            digits => integer(digits),
        };
        // Averages of a profiler may have a fraction.
        let number = number.or_else(|| {
            let number: f64 = std::str::from_utf8(word).ok()?.parse().ok()?;
            (number.abs() < 9e18).then_some(number as i64)
        });
        let Some(number) = number else { return Err(Fault::Damaged(NOT_A_VALUE)) };
        // The first list of the first form is as long as the timeline.
        if self.depth == 2 && self.lists == 1 && self.row.len() == 4 && self.times.is_empty() {
            self.times.append(&mut self.row);
        }
        if !self.times.is_empty() && self.depth == 2 && self.lists == 1 {
            self.times.push(number);
        } else if self.row.len() < MAX_NUMBERS {
            self.row.push(number);
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

/// The snapshot of a timeline, and what it is in words; `None` if it has no rows.
pub(super) fn build(sink: TimelineSink) -> Option<(Snapshot, &'static str)> {
    let mut sink = sink;
    // A timeline of up to four times looks like a raw row until the sizes follow.
    if !sink.sizes.is_empty() && sink.times.is_empty() {
        sink.times = sink.raw.pop().map(Vec::from).unwrap_or_default();
    }
    let mut oddities = Oddities::default();
    oddities.add(Oddity::TimelineRow, sink.odd);
    let mut made = Blocks::new(Tables::of(Strings::new(), oddities, sink.bytes_read));
    let kind = if !sink.sizes.is_empty() {
        made.levels(&sink.times, &sink.sizes);
        "memory timeline"
    } else if !sink.raw.is_empty() {
        made.raw(&sink.raw);
        // torch numbers its four actions from 1, torch_npu from 0. An event at no time was there before,
        // which is torch's 1.
        let is_npu = sink.raw.iter().any(|&[time, action, ..]| action == 0 || action == 1 && time >= 0);
        if is_npu { "raw memory timeline (torch_npu)" } else { "raw memory timeline" }
    } else {
        return None;
    };
    Some((made.finish(), kind))
}

struct Blocks {
    tables: Tables,
    metas: [MetaId; CATEGORIES.len()],
    trace: Trace,
    /// What is allocated, by the rows so far.
    allocated: u64,
    next_addr: u64,
}

impl Blocks {
    fn new(mut tables: Tables) -> Self {
        let metas = CATEGORIES.map(|name| {
            let category = tables.strings.intern(name.as_bytes());
            tables.meta(Meta { category, ..Meta::default() })
        });
        Self { tables, metas, trace: Trace::default(), allocated: 0, next_addr: 1 }
    }

    fn push(&mut self, action: Action, addr: u64, size: u64, category: usize, time_ns: Option<i64>) {
        self.allocated = match action {
            Action::Alloc => self.allocated.saturating_add(size),
            _ => self.allocated.saturating_sub(size),
        };
        let event = Event { action, addr, size, meta: self.metas[category.min(UNKNOWN)], ..Event::default() };
        self.trace.events.push_at(&event, time_ns);
        self.trace.totals.push(Total { allocated: Some(self.allocated), ..Total::default() });
    }

    fn raw(&mut self, rows: &[[i64; 4]]) {
        let mut open: HashMap<(u64, usize), Vec<u64>> = HashMap::new();
        for &[time, _, bytes, category] in rows {
            let category = usize::try_from(category).unwrap_or(UNKNOWN).min(UNKNOWN);
            let size = bytes.unsigned_abs();
            if size > MAX_SIZE || bytes == 0 {
                self.tables.oddities.add(Oddity::Size, u64::from(size > MAX_SIZE));
                continue;
            }
            // -1 is the time of what was there before.
            let time = (time >= 0).then_some(time);
            let blocks = open.entry((size, category)).or_default();
            if bytes > 0 {
                let addr = self.next_addr + 1;
                blocks.push(addr);
                self.next_addr = addr;
                self.push(Action::Alloc, addr, size, category, time);
            } else if let Some(addr) = blocks.pop() {
                self.push(Action::FreeCompleted, addr, size, category, time);
            } else {
                self.tables.oddities.note(Oddity::TimelineRow);
            }
        }
    }

    fn levels(&mut self, times: &[i64], rows: &[[i64; CATEGORIES.len()]]) {
        if times.len() != rows.len() {
            self.tables.oddities.add(Oddity::TimelineRow, times.len().abs_diff(rows.len()) as u64);
        }
        let blocks = cut_into_blocks(rows.get(..times.len().min(rows.len())).unwrap_or_default());
        // Bytes that come and go: in the order of time, and at one time first what goes. So nothing is higher
        // between two rows than in them.
        let mut changes: Vec<(usize, bool, usize)> = Vec::with_capacity(2 * blocks.len());
        for (number, block) in blocks.iter().enumerate() {
            changes.push((block.from, true, number));
            changes.extend(block.to.map(|to| (to, false, number)));
        }
        changes.sort_unstable();
        let base = self.next_addr;
        self.next_addr += blocks.len() as u64;
        for (row, is_alloc, number) in changes {
            let Some(block) = blocks.get(number) else { continue };
            let time = times.get(row).and_then(|time| time.checked_mul(1000));
            let action = if is_alloc { Action::Alloc } else { Action::FreeCompleted };
            self.push(action, base + number as u64, block.bytes, block.category, time);
        }
    }

    fn finish(self) -> Snapshot {
        let snapshot = Snapshot {
            has: Has { addresses: false, requested: false, stacks: false },
            device_names: vec![(DeviceId(0), "device".into())],
            ..Snapshot::default()
        };
        self.tables.into_snapshot(vec![self.trace], snapshot)
    }
}

/// Bytes of a category that came at one row and went at another.
struct Part {
    from: usize,
    to: Option<usize>,
    bytes: u64,
    category: usize,
}

/// Levels as blocks: what came last goes first, and what goes only in part is two blocks.
fn cut_into_blocks(rows: &[[i64; CATEGORIES.len()]]) -> Vec<Part> {
    let mut parts = Vec::new();
    for category in 0..CATEGORIES.len() {
        let mut open: Vec<(usize, u64)> = Vec::new();
        let mut level = 0_u64;
        for (row, sizes) in rows.iter().enumerate() {
            let wanted = u64::try_from(sizes[category]).unwrap_or_default().min(MAX_SIZE);
            if wanted > level {
                open.push((row, wanted - level));
            }
            let mut less = level.saturating_sub(wanted);
            while less > 0
                && let Some((from, bytes)) = open.pop()
            {
                let gone = bytes.min(less);
                parts.push(Part { from, to: Some(row), bytes: gone, category });
                if gone < bytes {
                    open.push((from, bytes - gone));
                }
                less -= gone;
            }
            level = wanted;
        }
        parts.extend(open.into_iter().map(|(from, bytes)| Part { from, to: None, bytes, category }));
    }
    parts
}
