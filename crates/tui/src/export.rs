//! What is on the screen as JSON, for scripts and bug reports.

use serde_json::{Value, json};
use vramscope_analysis::pools::Pools;
use vramscope_analysis::tables::{
    ALLOCATIONS, DIFF, EVENTS, FINDINGS, HELD, POOLS, Record, Rows, TREE, TRIALS, event,
};
use vramscope_analysis::{Counter, Counters, Line, Moment};
use vramscope_format::table::{Column, Value as Cell};
use vramscope_snapshot::EventIdx;

use crate::app::App;
use crate::document::Subject;
use crate::insight::Insight;
use crate::keys::View;
use crate::outline::{Item, Outline};
use crate::pane::Pane;
use crate::ranks::{Progress, Ranks};
use crate::views::segments::Segment;
use crate::views::{Names, pools};

/// Rows of a list at most; `vramscope export` writes all of them.
const MOST_ROWS: usize = 10_000;

/// The view with its rows, those that are scrolled away included.
pub(crate) fn json(app: &App) -> Value {
    let Some(pane) = app.pane() else { return Value::Null };
    let subject = pane.subject();
    let snapshot = subject.snapshot();
    let body = match app.view() {
        View::Timeline => timeline(pane),
        View::Tree | View::Flame => {
            let rows = tree(&pane.calls.tree.outline, Names::Snapshot(snapshot));
            json!({"total_bytes": pane.scope.live.as_ref().map(|live| live.total.bytes), "rows": rows})
        }
        View::Allocations => {
            let pools = Pools::all(subject.replay());
            let makes = Rows::new(subject.replay(), &pools);
            let conclusions = &subject.wait_for_analysis().conclusions;
            rows(
                &ALLOCATIONS,
                pane.allocations.rows.iter().map(|&index| makes.allocation(index, conclusions)),
            )
        }
        View::Segments => rows(&HELD, pane.segments.rows.iter().map(segment)),
        View::Insights => rows(&FINDINGS, subject.wait_for_analysis().insights.iter().map(finding)),
        View::Ranks => {
            let ranks = &app.files.ranks;
            json!({"rows": (0..ranks.rows.len()).map(|row| rank(ranks, row)).collect::<Vec<_>>()})
        }
        View::Events => {
            let row = pane.events.selected_row();
            let around = row.saturating_sub(50)..(row + 50).min(subject.events().len());
            let replay = subject.replay();
            let event = |row: usize| {
                let row = EventIdx::from_index(row);
                event(replay, row, replay.counters(Moment::after(row)))
            };
            rows(&EVENTS, around.map(event))
        }
        View::Pools => rows(&POOLS, pane.pools.rows.iter().map(pool)),
        View::WhatIf => {
            let about = pane.whatif.trials.about();
            let rows = pane.whatif.trials.all().iter().filter_map(|trial| Some(&trial.simulated()?.row));
            let all = about.map(|about| &about.recorded).into_iter().chain(rows);
            let rows: Vec<_> = all.map(|row| json!(Record(&TRIALS, &row.cells()))).collect();
            json!({"about": about.map(|about| &about.about), "refused": about.map(|about| &about.refused), "rows": rows})
        }
        View::Diff => {
            json!({"title": app.diff.title(), "rows": diff(&app.diff.tree.outline, app.diff.names())})
        }
    };
    let at = pane.moment();
    json!({
        "schema": "vramscope/screen/1",
        "view": app.view().name(),
        "path": pane.doc.opened.path.display().to_string(),
        "device": subject.replay().device().0,
        "event": at.event().map(|event| event.0),
        "counters": counters(subject, subject.replay().counters(at)),
        "screen": body,
    })
}

/// Null where the file does not state it.
fn counters(subject: Subject<'_>, counters: Counters) -> Value {
    let stated = |counter: Counter| subject.has_counter(counter).then_some(counters[counter]);
    Counter::ALL.into_iter().map(|counter| (counter.name().to_owned(), json!(stated(counter)))).collect()
}

fn timeline(pane: &Pane) -> Value {
    let subject = pane.subject();
    let event = |at: Moment| at.event().map(|event| event.0);
    let column = |column: &crate::views::timeline::Column| json!({"from": event(column.from), "to": event(column.to), "min": counters(subject, column.min), "max": counters(subject, column.max)});
    json!({
        "counter": pane.timeline.counter.name(),
        "rows": pane.timeline.columns().iter().map(column).collect::<Vec<_>>(),
    })
}

/// Rows as objects, up to [`MOST_ROWS`].
fn rows<'a, const N: usize>(columns: &[Column; N], rows: impl Iterator<Item = [Cell<'a>; N]>) -> Value {
    json!({"rows": rows.take(MOST_ROWS).map(|row| json!(Record(columns, &row))).collect::<Vec<_>>()})
}

fn segment<'a>(segment: &Segment) -> [Cell<'a>; HELD.len()] {
    let Segment { range, free, largest_hole, blocks, .. } = segment;
    [range.addr, range.size, *free, *largest_hole, *blocks as u64].map(Cell::from)
}

fn finding(found: &Insight) -> [Cell<'_>; FINDINGS.len()] {
    [
        found.kind.into(),
        found.severity.name().into(),
        found.bytes.into(),
        found.what.as_str().into(),
        found.advice.as_str().into(),
        found.at.event().map(|event| event.0).into(),
    ]
}

fn rank(ranks: &Ranks, number: usize) -> Value {
    let Some(row) = ranks.rows.get(number) else { return Value::Null };
    match (&row.progress, ranks.fleet.figures(number)) {
        (Progress::Failed(why), _) => json!({"path": row.title(), "error": why}),
        (_, Some(figures)) => {
            json!({"path": row.title(), "device": figures.device, "events": figures.events,
                "peak": figures.digest.peak, "end": figures.digest.end, "reserved_peak": figures.reserved_peak(),
                "gap": figures.gap(), "oom": figures.ooms, "verdict": figures.verdict})
        }
        (_, None) => json!({"path": row.title()}),
    }
}

fn pool<'a>(row: &pools::Row) -> [Cell<'a>; POOLS.len()] {
    [
        row.pool.map(|(a, _)| a).into(),
        row.pool.map(|(_, b)| b).into(),
        row.stream.into(),
        row.reserved.into(),
        row.requested.into(),
        row.free.into(),
        row.largest_hole.into(),
        (row.segments as u64).into(),
        (row.blocks as u64).into(),
    ]
}

/// The nodes of a tree below its root, with their depth.
fn nodes(outline: &Outline) -> impl Iterator<Item = (&Item, u32)> {
    let mut depths = vec![0_u32; outline.items().len()];
    outline.items().iter().enumerate().skip(1).take(MOST_ROWS).map(move |(id, item)| {
        let is_top = item.parent == 0;
        depths[id] = if is_top { 0 } else { depths.get(item.parent as usize).map_or(0, |depth| depth + 1) };
        (item, depths[id])
    })
}

fn tree(outline: &Outline, names: Names<'_>) -> Vec<Value> {
    let row = |(item, depth): (&Item, u32)| {
        let Line { file, line, name } = names.line(item.place);
        let (now, own) = (item.now, item.own);
        let row: [Cell<'_>; TREE.len()] = [
            depth.into(),
            now.bytes.into(),
            own.bytes.into(),
            now.count.into(),
            name.into(),
            file.into(),
            line.into(),
        ];
        json!(Record(&TREE, &row))
    };
    nodes(outline).map(row).collect()
}

fn diff(outline: &Outline, names: Names<'_>) -> Vec<Value> {
    let row = |(item, depth): (&Item, u32)| {
        let Line { file, line, name } = names.line(item.place);
        let (before, after) = (item.before, item.now);
        let row: [Cell<'_>; DIFF.len()] = [
            depth.into(),
            before.bytes.into(),
            after.bytes.into(),
            before.count.into(),
            after.count.into(),
            name.into(),
            file.into(),
            line.into(),
        ];
        json!(Record(&DIFF, &row))
    };
    nodes(outline).map(row).collect()
}
