//! Memory by pool and stream at a moment.

use std::collections::{BTreeMap, BTreeSet};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use vramscope_analysis::pools::known_pool;
use vramscope_analysis::{Moment, State};
use vramscope_format::{bytes, count, fit, plural, pool, size, stream, width};
use vramscope_snapshot::{Pool, PoolId};

use super::{put, put_no_map, row_of, select};
use crate::document::Subject;
use crate::keys::Action;
use crate::list::List;
use crate::pane::{Pane, Reply, act_in_list};
use crate::theme::{Role, Theme};

/// One pool on one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    pub(crate) id: PoolId,
    pub(crate) pool: Option<Pool>,
    pub(crate) stream: u64,
    pub(crate) segments: usize,
    pub(crate) reserved: u64,
    pub(crate) free: u64,
    pub(crate) largest_hole: u64,
    pub(crate) blocks: usize,
    pub(crate) requested: u64,
    /// The peak of what a private pool held.
    pub(crate) peak: Option<i64>,
}

#[derive(Debug, Default)]
pub(crate) struct Pools {
    pub(crate) rows: Vec<Row>,
    pub(crate) list: List,
    made_for: Option<Moment>,
}

impl Pools {
    pub(crate) fn refresh(&mut self, subject: Subject<'_>, state: &State) {
        if self.made_for == Some(state.at) && !self.rows.is_empty() {
            return;
        }
        self.made_for = Some(state.at);
        let snapshot = subject.snapshot();
        let mut rows: BTreeMap<(Option<Pool>, u64), Row> = BTreeMap::new();
        let mut keys = Vec::new();
        for range in &state.ranges {
            let key = (known_pool(snapshot, range.pool), snapshot.stream(range.stream));
            let row = rows.entry(key).or_insert(Row {
                id: range.pool,
                pool: key.0,
                stream: key.1,
                ..Row::default()
            });
            row.segments += 1;
            row.reserved = row.reserved.saturating_add(range.size);
            keys.push(key);
        }
        for hole in &state.holes {
            if let Some(row) = keys.get(hole.range).and_then(|key| rows.get_mut(key)) {
                row.free = row.free.saturating_add(hole.size);
                row.largest_hole = row.largest_hole.max(hole.size);
            }
        }
        for &index in &state.live {
            let allocation = subject.replay().allocation(index);
            let range = state.ranges.partition_point(|range| range.addr <= allocation.addr).checked_sub(1);
            if let Some(row) = range.and_then(|range| keys.get(range)).and_then(|key| rows.get_mut(key)) {
                row.blocks += 1;
                row.requested = row.requested.saturating_add(allocation.requested);
            }
        }
        for row in rows.values_mut() {
            let pools = subject.analysis().map(|analysis| &analysis.pools);
            let envelope = pools.and_then(|pools| pools.find(row.pool, row.stream));
            row.peak = envelope.map(|envelope| envelope.peak().1.reserved);
        }
        self.rows = rows.into_values().collect();
        self.rows.sort_by_key(|row| std::cmp::Reverse(row.reserved));
    }

    /// How many pools there are, and on how many streams.
    fn counts(&self) -> (usize, usize) {
        let pools: BTreeSet<_> = self.rows.iter().map(|row| row.pool).collect();
        let streams: BTreeSet<_> = self.rows.iter().map(|row| row.stream).collect();
        (pools.len(), streams.len())
    }

    pub(crate) fn selected(&self) -> Option<PoolId> {
        self.rows.get(self.list.selected).map(|row| row.id)
    }

    pub(crate) fn act(&mut self, action: Action, height: isize) -> Reply {
        act_in_list(&mut self.list, self.rows.len(), action, height)
    }
}

pub(crate) fn draw(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    let (view, subject) = (&pane.pools, pane.subject());
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let Some(live) = &pane.scope.live else { return };
    if !subject.has_map() {
        return put_no_map(buffer, area, subject, theme);
    }
    let (pools, streams) = view.counts();
    let words = format!(
        "{} reserved in {} on {} · {}",
        bytes(live.state.counters.reserved),
        plural(pools, "pool"),
        plural(streams, "stream"),
        subject.moment_name(pane.scope.at)
    );
    put(buffer, area, area.x, area.y, &words, text);
    let is_narrow = area.width < 110;
    // Names and streams have columns of their own, so that all bars begin in the same place.
    let names: Vec<String> = view.rows.iter().map(|row| pool(row.pool)).collect();
    let handles: Vec<String> = view.rows.iter().map(|row| stream(row.stream)).collect();
    let widest = |texts: &[String], title: &str| {
        texts.iter().map(|text| width(text)).max().unwrap_or_default().max(width(title))
    };
    let (name_width, handle_width) = (widest(&names, "pool"), widest(&handles, "stream"));
    let cells = |row: [&str; 7], name: &str, handle: &str, peak: &str| {
        let [reserved, requested, active, idle, hole, segments, blocks] = row;
        match is_narrow {
            true => format!(
                "{reserved:>9} {active:>9} {idle:>9}  {name:name_width$}  {handle:handle_width$} {peak:>9}  "
            ),
            false => format!(
                "{reserved:>10}  {requested:>10}  {active:>10}  {idle:>10}  {hole:>12}  {segments:>8}  {blocks:>7}  \
                 {name:name_width$}  {handle:handle_width$}  {peak:>10}  "
            ),
        }
    };
    let titles = ["reserved", "requested", "active", "idle", "largest hole", "segments", "blocks"];
    put(buffer, row_of(area, 1), area.x, area.y + 1, &cells(titles, "pool", "stream", "peak"), dim);
    let list = Rect { y: area.y + 2, height: area.height.saturating_sub(2), ..area };
    let most = view.rows.first().map_or(1, |row| row.reserved.max(1));
    for row in 0..list.height {
        let Some(at) = view.list.at(row, view.rows.len()) else { break };
        let pool_row = &view.rows[at];
        let line = row_of(list, row);
        let active = pool_row.reserved.saturating_sub(pool_row.free);
        let [reserved, requested, in_use, idle, hole] =
            [pool_row.reserved, pool_row.requested, active, pool_row.free, pool_row.largest_hole].map(size);
        let (segments, blocks) = (count(pool_row.segments), count(pool_row.blocks));
        let peak = pool_row.peak.map_or(String::new(), bytes);
        let numbers = [&reserved, &requested, &in_use, &idle, &hole, &segments, &blocks].map(String::as_str);
        let text_of = cells(numbers, &names[at], &handles[at], &peak);
        let x = put(buffer, line, line.x, line.y, &fit(&text_of, line.width.into()), text);
        let room = f64::from(line.right().saturating_sub(x + 1));
        let bar = |n: u64| (n as f64 / most as f64 * room).round() as usize;
        let x = put(buffer, line, x, line.y, &"█".repeat(bar(active)), theme.style(Role::Bar));
        // Something is seen where there is something.
        let all = bar(pool_row.reserved).max(1);
        put(buffer, line, x, line.y, &"░".repeat(all.saturating_sub(bar(active))), dim);
        if at == view.list.selected {
            select(buffer, line, theme);
        }
    }
    if view.rows.is_empty() {
        put(buffer, list, list.x + 2, list.y, "nothing is reserved", dim);
    }
}
