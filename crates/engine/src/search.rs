//! Finding things by what they are called.

use std::collections::BTreeMap;

use vramscope_analysis::AllocIdx;
use vramscope_snapshot::{FrameId, Snapshot, StackId, StrId};

use crate::answers::{Hit, SearchResults};
use crate::device::{Device, File};

/// Results of each kind that are worth listing.
const MOST_HITS: usize = 40;

/// An address as people write it: `0x7f…`.
pub(crate) fn address(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("b'"))?;
    u64::from_str_radix(digits.split('_').next()?, 16).ok()
}

/// The stacks with a frame whose file, line or function contains a text, whatever its case.
pub(crate) fn stacks(snapshot: &Snapshot, text: &str) -> Vec<StackId> {
    let wanted = text.trim().to_lowercase();
    if wanted.is_empty() {
        return Vec::new();
    }
    let contains = |id: StrId| snapshot.text(id).to_lowercase().contains(&wanted);
    let fits: Vec<bool> = (0..snapshot.stacks.frame_count())
        .map(|row| {
            let frame = snapshot.stacks.frame(FrameId::from_index(row));
            contains(frame.name)
                || contains(frame.file)
                || format!("{}:{}", snapshot.text(frame.file), frame.line).to_lowercase().ends_with(&wanted)
        })
        .collect();
    let any = |&stack: &StackId| {
        snapshot.stacks.get(stack).iter().any(|frame| fits.get(frame.index()).copied().unwrap_or_default())
    };
    snapshot.stacks.ids().filter(any).collect()
}

pub(crate) fn search(file: &File, device: &Device, text: &str) -> SearchResults {
    let (snapshot, replay) = (&file.snapshot, &device.replay);
    let mut results = SearchResults { text: text.to_owned(), ..SearchResults::default() };
    let wanted = text.trim().to_lowercase();
    if wanted.is_empty() {
        return results;
    }
    if let Some(addr) = address(&wanted) {
        let covers = |row: &u32| {
            let a = replay.allocation(AllocIdx(*row));
            a.addr <= addr && addr < a.addr.saturating_add(a.size.max(1))
        };
        for row in (0..replay.allocations().len() as u32).filter(covers) {
            let a = replay.allocation(AllocIdx(row));
            results.found = (results.found.0 + 1, results.found.1.saturating_add(a.requested));
            if results.hits.len() < MOST_HITS {
                let place = file.stack_name(a.stack).place.clone();
                results.hits.push(Hit::Address {
                    alloc: row,
                    requested: a.requested,
                    place,
                    opened: a.opened.0,
                });
            }
        }
        return results;
    }
    let number: String = wanted.trim_start_matches("event").chars().filter(|c| !c.is_whitespace()).collect();
    if let Ok(event) = number.parse::<u32>()
        && event < replay.end().0
    {
        results.hits.push(Hit::Event(event));
    }
    phases(file, device, &wanted, &mut results);
    let mut lines: BTreeMap<u32, Hit> = BTreeMap::new();
    for stack in stacks(snapshot, &wanted) {
        let Some(total) = device.totals().get(&stack) else { continue };
        results.stacks.push(stack.0);
        results.found = (results.found.0 + total.count, results.found.1.saturating_add(total.bytes));
        let name = file.stack_name(stack);
        let hit = lines.entry(name.line).or_insert_with(|| Hit::Line {
            place: name.place.clone(),
            count: 0,
            bytes: 0,
            largest: total.largest,
            line: name.line,
        });
        if let Hit::Line { count, bytes, .. } = hit {
            *count += total.count;
            *bytes = bytes.saturating_add(total.bytes);
        }
    }
    let mut lines: Vec<Hit> = lines.into_values().collect();
    lines.sort_by_key(|hit| std::cmp::Reverse(if let Hit::Line { bytes, .. } = hit { *bytes } else { 0 }));
    lines.truncate(MOST_HITS);
    results.hits.extend(lines);
    results
}

fn phases(file: &File, device: &Device, wanted: &str, results: &mut SearchResults) {
    let mut found: BTreeMap<StrId, (u32, (u32, u32))> = BTreeMap::new();
    for span in &device.spans {
        found.entry(span.name).or_insert((0, (span.from.0, span.to.0))).0 += 1;
    }
    let named =
        found.into_iter().map(|(name, (count, first))| (file.snapshot.text(name).to_owned(), count, first));
    let fits = named.filter(|(name, ..)| name.to_lowercase().contains(wanted)).take(MOST_HITS);
    results.hits.extend(fits.map(|(name, count, first)| Hit::Phase { name, count, first }));
}
