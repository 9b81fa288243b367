//! Which allocations, events and segments count.

use std::ops::RangeInclusive;
use std::sync::Arc;

use vramscope_format::{parse_bytes, place};
use vramscope_replay::{AllocIdx, Allocation, Counter, Moment, Peak, Replay, State};
use vramscope_snapshot::{Event, EventIdx, Frame, FrameId, Pool, Snapshot, StackId};

use super::{MomentSpec, Pattern, QueryError, error};
use crate::conclusions::categories::Categories;
use crate::conclusions::insight::Finding;
use crate::device::Device;
use crate::questions::frames::{is_internal, no_frame, user_frame};
use crate::questions::pools::{DEFAULT_POOL, PoolTable, has_private};
use crate::questions::weights::{Weight, live_weights, peak_of};

/// What can be typed as a filter in one line, for prompts.
pub const FILTER_GRAMMAR: &str = "size>=20MiB size<1GiB pool=0,1 stream=0 category=activations phase=backward 0x7f3a10 (an address) \
     REGEX (on file:line name)";

/// A filter as it is typed. Empty means everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this stream handle.
    pub stream: Option<u64>,
    /// Only this pool.
    pub pool: Option<Pool>,
    /// Only at least this size.
    pub min_size: Option<u64>,
    /// Only at most this size.
    pub max_size: Option<u64>,
    /// Only stacks with a frame that matches each of these.
    pub stacks: Vec<Pattern>,
    /// Only this category.
    pub category: Option<String>,
    /// Only blocks around this address.
    pub address: Option<u64>,
    /// Only what was allocated in a phase of this name.
    pub phase: Option<String>,
    /// Not before this moment.
    pub since: Option<MomentSpec>,
    /// Not after this moment.
    pub until: Option<MomentSpec>,
    /// Frames of PyTorch, CPython and the C++ runtime are shown too.
    pub show_internal: bool,
}

impl Filter {
    /// Reads a filter in one line: `size>=20MiB pool=0,1 stack=REGEX`. Words without a name are patterns for stacks.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        Self::parse_with(text, Pattern::new)
    }

    /// The same for text that is searched while it is typed: what is not a pattern is taken literally.
    pub fn lenient(text: &str) -> Result<Self, QueryError> {
        Self::parse_with(text, |word| Pattern::lenient(word).ok_or_else(String::new))
    }

    fn parse_with(text: &str, pattern: fn(&str) -> Result<Pattern, String>) -> Result<Self, QueryError> {
        let mut filter = Self::default();
        let wrong = QueryError;
        for word in text.split_whitespace() {
            let value = |names: &[&str]| names.iter().find_map(|name| word.strip_prefix(name));
            if let Some(size) = value(&["size>=", "size>", ">=", ">"]) {
                filter.min_size = Some(parse_bytes(size).map_err(wrong)?);
            } else if let Some(size) = value(&["size<=", "size<", "<=", "<"]) {
                filter.max_size = Some(parse_bytes(size).map_err(wrong)?);
            } else if let Some(pool) = value(&["pool="]) {
                filter.pool = Some(parse_pool(pool).map_err(wrong)?);
            } else if let Some(stream) = value(&["stream="]) {
                filter.stream = Some(parse_stream(stream).map_err(wrong)?);
            } else if let Some(category) = value(&["category="]) {
                filter.category = Some(category.to_owned());
            } else if let Some(phase) = value(&["phase="]) {
                filter.phase = Some(phase.to_owned());
            } else if let Some(address) = parse_address(word) {
                filter.address = Some(address);
            } else {
                let text = value(&["stack="]).unwrap_or(word);
                filter.stacks.push(pattern(text).map_err(wrong)?);
            }
        }
        Ok(filter)
    }

    /// Whether some allocations are left out, whenever they lived.
    pub fn leaves_out_allocations(&self) -> bool {
        let Self { stream, pool, min_size, max_size, stacks, category, address, phase, .. } = self;
        stream.is_some()
            || pool.is_some()
            || min_size.is_some()
            || max_size.is_some()
            || !stacks.is_empty()
            || category.is_some()
            || address.is_some()
            || phase.is_some()
    }

    /// Looks everything up in the trace of one device.
    pub fn bind(&self, device: &Device) -> Result<Selection, QueryError> {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        let resolve =
            |spec: &Option<MomentSpec>| spec.as_ref().map(|spec| spec.resolve(device, None)).transpose();
        let (since, until) = (resolve(&self.since)?, resolve(&self.until)?);
        if let (Some(since), Some(until)) = (since, until)
            && since > until
        {
            return error("--since is after --until");
        }
        let matches =
            |stack: StackId| self.stacks.iter().all(|pattern| pattern.matches_stack(snapshot, stack));
        Ok(Selection {
            stacks: (!self.stacks.is_empty()).then(|| snapshot.stacks.ids().map(matches).collect()),
            pools: self.pool.filter(|_| has_private(snapshot)).map(|_| device.pools()),
            category: self.category.as_deref().map(|name| category(device, name)).transpose()?,
            phase: self.phase.as_deref().map(|name| phase(device, name)).transpose()?,
            bounds: since.is_some() || until.is_some(),
            range: (since.unwrap_or(Moment::START), until.unwrap_or(replay.end())),
            filter: self.clone(),
        })
    }
}

/// A pool as it is typed: `0,1` or `(0, 1)`.
pub fn parse_pool(text: &str) -> Result<Pool, String> {
    let wrong = || format!("'{text}' is not a pool: two numbers, as in 0,1; 0,0 is the default pool");
    let (a, b) = text.trim_matches(['(', ')']).split_once(',').ok_or_else(wrong)?;
    Ok((a.trim().parse().map_err(|_| wrong())?, b.trim().parse().map_err(|_| wrong())?))
}

/// An address as people write it, also as PyTorch's page names a block: `0x7f3a10`, `b'7f3a10_3`; or
/// the handle of a segment, `g:7f3a10`.
pub fn parse_address(text: &str) -> Option<u64> {
    let digits = ["0x", "b'", "g:"].into_iter().find_map(|prefix| text.strip_prefix(prefix))?;
    u64::from_str_radix(digits.split('_').next()?, 16).ok()
}

/// A stream handle as it is typed: `0`, `0x7f3a10`.
pub fn parse_stream(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| {
        format!("'{text}' is not a stream: a handle such as 0 or 0x7f3a10; 0 is the default stream")
    })
}

fn category(device: &Device, name: &str) -> Result<(Arc<Categories>, usize), QueryError> {
    let categories = device.categories();
    let wanted = name.replace('_', " ").to_lowercase();
    let names = categories.names();
    match names.iter().position(|known| known.replace('_', " ").to_lowercase() == wanted) {
        Some(row) => Ok((categories, row)),
        None => error(format!("there is no category '{name}'; there are: {}", names.join(", "))),
    }
}

/// The stretches of a phase, in order and without overlaps.
fn phase(device: &Device, name: &str) -> Result<Vec<(Moment, Moment)>, QueryError> {
    let snapshot = device.snapshot();
    let wanted = vramscope_format::phase(name).to_lowercase();
    let mut found: Vec<_> = device
        .spans()
        .iter()
        .filter(|span| vramscope_format::phase(snapshot.text(span.name)).to_lowercase().contains(&wanted))
        .map(|span| (span.from, span.to))
        .collect();
    if found.is_empty() {
        return error(format!("no phase is called '{name}'; vramscope phases lists them"));
    }
    found.sort_unstable();
    let mut merged: Vec<(Moment, Moment)> = Vec::with_capacity(found.len());
    for (from, to) in found {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    Ok(merged)
}

/// A filter with everything looked up in the trace of one device.
#[derive(Debug)]
pub struct Selection {
    filter: Filter,
    /// For each stack whether it matches.
    stacks: Option<Vec<bool>>,
    /// Which pool each allocation lies in, where that counts and there are several.
    pools: Option<Arc<PoolTable>>,
    category: Option<(Arc<Categories>, usize)>,
    phase: Option<Vec<(Moment, Moment)>>,
    bounds: bool,
    range: (Moment, Moment),
}

impl Selection {
    /// The part of the trace that counts.
    pub fn range(&self) -> (Moment, Moment) {
        self.range
    }

    /// The same, if it is not all of it.
    pub fn bounds(&self) -> Option<(Moment, Moment)> {
        self.bounds.then_some(self.range)
    }

    /// Whether anything is left out.
    pub fn is_restricted(&self) -> bool {
        self.bounds || self.filter.leaves_out_allocations()
    }

    /// Whether some allocations are left out, whenever they lived.
    pub fn leaves_out_allocations(&self) -> bool {
        self.filter.leaves_out_allocations()
    }

    /// For each stack whether it matches, if allocations are left out by nothing else.
    pub fn only_stacks(&self) -> Option<&[bool]> {
        let others = Filter { stacks: Vec::new(), ..self.filter.clone() };
        self.stacks.as_deref().filter(|_| !others.leaves_out_allocations())
    }

    /// Whether frames of PyTorch itself are left out.
    pub fn hides_internal(&self) -> bool {
        !self.filter.show_internal
    }

    /// A moment of this trace, where "peak" means the highest within the part that counts.
    pub fn moment(&self, spec: &MomentSpec, device: &Device) -> Result<Moment, QueryError> {
        spec.resolve(device, self.bounds())
    }

    /// When a counter of the device was highest in the part that counts.
    pub fn peak(&self, replay: &Replay, counter: Counter) -> Peak {
        if !self.bounds {
            return replay.peak(counter);
        }
        let at = replay.highest(counter, self.range.0, self.range.1);
        Peak { bytes: replay.counters(at)[counter], at }
    }

    /// When the requested bytes of what counts were highest.
    pub fn kept_peak(&self, device: &Device) -> Peak {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        if !self.leaves_out_allocations() {
            return self.peak(replay, Counter::Requested);
        }
        peak_of(replay, self.range.0, self.range.1, |index, allocation| {
            self.keeps(snapshot, index, allocation)
        })
    }

    /// What each stack holds at a moment, of what counts.
    pub fn live(&self, snapshot: &Snapshot, state: &State) -> Vec<Weight> {
        live_weights(state, |index, allocation| self.keeps(snapshot, index, allocation))
    }

    /// The sizes that count.
    pub fn sizes(&self) -> RangeInclusive<u64> {
        self.filter.min_size.unwrap_or(0)..=self.filter.max_size.unwrap_or(u64::MAX)
    }

    fn keeps_size(&self, size: u64) -> bool {
        self.sizes().contains(&size)
    }

    fn keeps_stack(&self, stack: StackId) -> bool {
        self.stacks.as_ref().is_none_or(|stacks| stacks.get(stack.index()).copied().unwrap_or(false))
    }

    fn keeps_birth(&self, opened: Moment) -> bool {
        self.phase.as_ref().is_none_or(|stretches| {
            let next = stretches.partition_point(|(from, _)| *from < opened);
            next.checked_sub(1).and_then(|at| stretches.get(at)).is_some_and(|(_, to)| opened <= *to)
        })
    }

    /// Whether an allocation counts.
    pub fn keeps(&self, snapshot: &Snapshot, index: AllocIdx, allocation: &Allocation) -> bool {
        self.keeps_size(allocation.requested)
            && self.keeps_stack(allocation.stack)
            && self.filter.stream.is_none_or(|stream| snapshot.stream(allocation.stream) == stream)
            && (!self.bounds || allocation.closed > self.range.0 && allocation.opened <= self.range.1)
            && self.filter.pool.is_none_or(|pool| self.pool_of(index) == Some(pool))
            && self.category.as_ref().is_none_or(|(categories, row)| categories.of(index) == *row)
            && self.keeps_birth(allocation.opened)
            && self.keeps_address(allocation.addr, allocation.size)
    }

    fn keeps_address(&self, addr: u64, size: u64) -> bool {
        self.filter.address.is_none_or(|wanted| addr <= wanted && wanted < addr.saturating_add(size.max(1)))
    }

    fn pool_of(&self, index: AllocIdx) -> Option<Pool> {
        self.pools.as_ref().map_or(Some(DEFAULT_POOL), |pools| pools.pool_of(index))
    }

    /// Whether an event counts, apart from its time. An event whose pool was not recorded has that of its allocation
    /// or segment.
    pub fn keeps_event(&self, device: &Device, row: EventIdx, event: &Event) -> bool {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        self.keeps_size(event.size)
            && self.keeps_stack(event.stack)
            && self.filter.stream.is_none_or(|stream| snapshot.stream(event.stream) == stream)
            && self.keeps_birth(Moment::after(row))
            && self.keeps_address(event.addr, event.size)
            && self.filter.pool.is_none_or(|pool| self.event_pool(device, row, event) == Some(pool))
            && self.category.as_ref().is_none_or(|(categories, number)| {
                replay.allocation_of(row).is_some_and(|index| categories.of(index) == *number)
            })
    }

    fn event_pool(&self, device: &Device, row: EventIdx, event: &Event) -> Option<Pool> {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        let of_allocation = || self.pool_of(replay.allocation_of(row)?);
        let of_segment = || {
            let pool = snapshot.pool(replay.segment_of(row)?.pool);
            pool.or_else(|| (!has_private(snapshot)).then_some((0, 0)))
        };
        snapshot.pool(event.pool).or_else(of_allocation).or_else(of_segment)
    }

    /// Whether a segment counts, by its pool, stream and size.
    pub fn keeps_segment(&self, pool: Option<Pool>, stream: u64, size: u64) -> bool {
        self.keeps_size(size)
            && self.filter.stream.is_none_or(|wanted| wanted == stream)
            && self.filter.pool.is_none_or(|wanted| pool == Some(wanted))
    }

    /// Whether a finding counts: it is left out only where it is known to be about something else.
    pub fn keeps_finding(&self, finding: &Finding) -> bool {
        let site = &finding.site;
        self.filter.min_size.is_none_or(|min| finding.bytes >= min)
            && finding.when.1 >= self.range.0
            && finding.when.0 <= self.range.1
            && self.filter.stream.is_none_or(|stream| site.stream.is_none_or(|found| found == stream))
            && self.filter.pool.is_none_or(|pool| site.pool.is_none_or(|found| found == pool))
            && site.stack.is_none_or(|stack| self.keeps_stack(stack))
    }

    /// Whether a frame is shown in call trees and stacks.
    pub fn shows(&self, snapshot: &Snapshot, frame: FrameId) -> bool {
        let Frame { name, file, .. } = snapshot.stacks.frame(frame);
        let is_ours = !is_internal(snapshot.text(name), snapshot.text(file));
        (self.filter.show_internal || is_ours) && !snapshot.is_ignored(frame)
    }

    /// Where in the program a stack was: the user's own line, or the innermost of all if internal frames are shown.
    pub fn frame(&self, snapshot: &Snapshot, stack: StackId) -> Option<Frame> {
        match self.filter.show_internal {
            true => snapshot.frames(stack).next(),
            false => user_frame(snapshot, stack),
        }
    }

    /// The same in words: `train.py:88 forward`, or why there is no line.
    pub fn place(&self, snapshot: &Snapshot, stack: StackId) -> String {
        self.frame(snapshot, stack).map_or_else(
            || no_frame(snapshot, stack).to_owned(),
            |frame| place(snapshot.text(frame.file), frame.line, snapshot.text(frame.name)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_as_they_are_typed() {
        let filter = Filter::parse("size>=20MiB <1GiB pool=1,0 stream=0x10 softmax").unwrap();
        assert_eq!((filter.min_size, filter.max_size), (Some(20 << 20), Some(1 << 30)));
        assert_eq!((filter.pool, filter.stream, filter.stacks.len()), (Some((1, 0)), Some(16), 1));
        for wrong in ["size>=20parsecs", "pool=7", "stack=(", "stream=main"] {
            assert!(Filter::parse(wrong).is_err(), "{wrong}");
        }
        assert!(!Filter::parse("  ").unwrap().leaves_out_allocations());
    }

    #[test]
    fn pools_as_they_are_typed() {
        assert_eq!(parse_pool("0,1"), Ok((0, 1)));
        assert_eq!(parse_pool("(2, 0)"), Ok((2, 0)));
        assert!(parse_pool("7").unwrap_err().starts_with("'7' is not a pool"));
    }
}
