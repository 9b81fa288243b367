//! Finding moments, lines, phases and addresses by what is typed.

use std::collections::BTreeMap;

use vramscope_analysis::query::{Filter, MomentSpec, Pattern, QueryError, parse_address};
use vramscope_analysis::{AllocIdx, Allocation, Sum};
use vramscope_snapshot::StrId;

use crate::answers::{Hit, LineId, SearchResults};
use crate::device::{DeviceIndex, File, Total, totals};

/// Results of each kind that are worth listing.
const MOST_HITS: usize = 40;

pub(crate) fn search(file: &File, device: &DeviceIndex, text: &str) -> SearchResults {
    let mut results = SearchResults::default();
    let text = text.trim();
    let text = text.strip_prefix("event ").map_or(text, str::trim);
    let outcome = match (text, parse_address(text)) {
        ("", _) => Ok(()),
        (_, Some(addr)) => {
            addresses(file, device, addr, &mut results);
            Ok(())
        }
        _ if is_moment(text) => moment(file, device, text, &mut results),
        _ => {
            phases(file, device, text, &mut results);
            lines(file, device, text, &mut results)
        }
    };
    results.problem = outcome.err().map(|QueryError(problem)| problem);
    results
}

/// Whether a text can only be a moment. The bare name of a phase is searched for.
fn is_moment(text: &str) -> bool {
    match text.parse() {
        Ok(MomentSpec::In { nth, .. }) => text.starts_with("in:") || nth.is_some(),
        Ok(_) => true,
        Err(_) => text.starts_with(['+', '@']) || text.starts_with("peak:") || text.starts_with("oom:"),
    }
}

fn moment(
    file: &File,
    device: &DeviceIndex,
    text: &str,
    results: &mut SearchResults,
) -> Result<(), QueryError> {
    let spec: MomentSpec = text.parse().map_err(QueryError)?;
    let at = spec.resolve(&device.replay, None)?;
    let time = device.clock(&file.snapshot).map_or(0, |clock| clock.of(at));
    results.hits.push(Hit::Moment { at, time });
    Ok(())
}

/// Blocks around an address, or at an address that begins with the digits typed so far.
fn addresses(file: &File, device: &DeviceIndex, wanted: u64, results: &mut SearchResults) {
    let begins = |addr: u64| {
        let digits = |n: u64| n.checked_ilog(16).unwrap_or(0);
        digits(addr).checked_sub(digits(wanted)).is_some_and(|more| addr >> (4 * more) == wanted)
    };
    let matches =
        |a: &Allocation| begins(a.addr) || a.addr <= wanted && wanted < a.addr.saturating_add(a.size.max(1));
    let replay = &device.replay;
    for row in 0..replay.allocations().len() as u32 {
        let a = replay.allocation(AllocIdx(row));
        if !matches(&a) {
            continue;
        }
        results.found.count += 1;
        results.found.bytes = results.found.bytes.saturating_add(a.requested);
        if results.hits.len() < MOST_HITS {
            let (owner, place) =
                (device.owner(file, AllocIdx(row), false), file.stack_name(a.stack).place.clone());
            results.hits.push(Hit::Address { owner, addr: a.addr, place });
        }
    }
}

/// The lines of the allocations that a filter keeps, those with most bytes first.
fn lines(
    file: &File,
    device: &DeviceIndex,
    text: &str,
    results: &mut SearchResults,
) -> Result<(), QueryError> {
    let (snapshot, replay) = (&file.snapshot, &device.replay);
    let selection = Filter::lenient(text)?.bind(replay)?;
    let kept = replay.allocations().iter().filter(|(index, a)| selection.keeps(snapshot, *index, a));
    let mut stacks: Vec<_> = totals(replay, kept.map(|(index, _)| index)).into_iter().collect();
    stacks.sort_unstable_by_key(|(stack, _)| *stack);
    // Lines by number, with what is found and the name.
    let mut lines: BTreeMap<LineId, (Total, &str)> = BTreeMap::new();
    for (stack, total) in stacks {
        results.stacks.push(stack);
        add(&mut results.found, total.sum);
        let name = file.stack_name(stack);
        let (line, _) = lines.entry(name.line).or_insert((Total::default(), &name.place));
        if line.sum.count == 0 || total.largest_bytes > line.largest_bytes {
            (line.largest, line.largest_bytes) = (total.largest, total.largest_bytes);
        }
        add(&mut line.sum, total.sum);
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by_key(|(_, (total, _))| std::cmp::Reverse(total.sum.bytes));
    let hit = |(line, (total, place)): (LineId, (Total, &str))| Hit::Line {
        place: place.to_owned(),
        sum: total.sum,
        largest: total.largest,
        line,
    };
    results.hits.extend(lines.into_iter().take(MOST_HITS).map(hit));
    Ok(())
}

fn add(sum: &mut Sum, more: Sum) {
    sum.count += more.count;
    sum.bytes = sum.bytes.saturating_add(more.bytes);
}

fn phases(file: &File, device: &DeviceIndex, text: &str, results: &mut SearchResults) {
    let snapshot = &file.snapshot;
    let Some(pattern) = Pattern::lenient(text) else { return };
    let clock = device.clock(snapshot);
    let time = |at| clock.map_or(0, |clock| clock.of(at));
    let mut found: BTreeMap<StrId, Hit> = BTreeMap::new();
    for span in device.replay.spans().iter().filter(|span| pattern.is_match(snapshot.text(span.name))) {
        let hit = found.entry(span.name).or_insert_with(|| Hit::Phase {
            name: vramscope_format::phase(snapshot.text(span.name)).to_owned(),
            count: 0,
            first: (span.from, span.to),
            time: (time(span.from), time(span.to)),
        });
        if let Hit::Phase { count, .. } = hit {
            *count += 1;
        }
    }
    results.hits.extend(found.into_values().take(MOST_HITS));
}
