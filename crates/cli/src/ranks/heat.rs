//! Thousands of ranks on one screen: ranks downwards, steps or time to the right, the shade is the peak.

use std::collections::BTreeMap;
use std::io::{self, Write};

use vramscope_analysis::{HeatInput, HeatMap};

use super::Rank;
use crate::style::{self, Role};
use crate::text;

/// Rows and columns at most.
const SIZE: (usize, usize) = (32, 48);

/// The ranks of one run over the time of their recordings.
pub(super) fn over_time<'a>(ranks: impl Iterator<Item = &'a Rank>, out: &mut dyn Write) -> io::Result<()> {
    let inputs: Vec<HeatInput<'_>> = ranks.map(HeatInput::from).collect();
    HeatMap::over_time(&inputs, SIZE).map_or(Ok(()), |map| print(&map, out))
}

/// The ranks of each run over its steps, where files of several steps were named.
pub(super) fn by_step(ranks: &[&Rank], out: &mut dyn Write) -> io::Result<()> {
    let mut runs: BTreeMap<&str, Vec<HeatInput<'_>>> = BTreeMap::new();
    for rank in ranks {
        runs.entry(&rank.group).or_default().push((*rank).into());
    }
    for map in runs.into_values().filter_map(|inputs| HeatMap::by_step(&inputs, SIZE)) {
        writeln!(out)?;
        print(&map, out)?;
    }
    Ok(())
}

fn print(map: &HeatMap, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  {}", style::paint(Role::Strong, &map.title))?;
    for row in &map.rows {
        let cells = row.cells.iter().map(|cell| cell.map_or(" ", |cell| map.shade(cell.bytes)));
        writeln!(out, "  {:>11} {}", row.label(), cells.collect::<String>())?;
    }
    let (low, high) = map.range;
    let [lowest, .., highest] = HeatMap::SHADES;
    writeln!(out, "  {:>11} {lowest} {} … {highest} {}", "", text::bytes(low), text::bytes(high))
}
