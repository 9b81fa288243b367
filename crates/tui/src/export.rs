//! What is on the screen as JSON, for scripts and bug reports.

use serde_json::{Value, json};
use vramscope_analysis::{Counter, Counters, Moment, Place};

use crate::app::App;
use crate::branches::Branches;
use crate::document::Subject;
use crate::keys::View;
use crate::pane::Pane;
use crate::views::Names;
use crate::views::ranks::Progress;

/// Rows of a list at most; `vramscope export` writes all of them.
const MOST_ROWS: usize = 10_000;

/// The view with its rows, those that are scrolled away included.
pub(crate) fn json(app: &App) -> Value {
    let Some(pane) = app.pane() else { return Value::Null };
    let subject = pane.subject();
    let body = match app.view() {
        View::Timeline => timeline(pane),
        View::Tree => {
            json!({"total_bytes": pane.scope.live.as_ref().map(|live| live.total.bytes), "rows": tree(&pane.calls.tree, Names::Snapshot(subject.snapshot()), false)})
        }
        View::Flame => {
            let cells = crate::views::flame::cells(pane, u16::MAX, 64);
            let names = Names::Snapshot(subject.snapshot());
            let cell = |cell: &crate::views::flame::Cell| {
                let item = pane.calls.tree.outline.get(cell.node)?;
                Some(
                    json!({"depth": cell.depth, "bytes": item.now.bytes, "count": item.now.count, "frame": names.long(item.place)}),
                )
            };
            json!({"rows": cells.iter().filter_map(cell).take(MOST_ROWS).collect::<Vec<_>>()})
        }
        View::Allocations => {
            let row = |&index: &_| {
                let allocation = subject.replay().allocation(index);
                json!({"addr": allocation.addr, "requested": allocation.requested, "allocated": allocation.size,
                    "alloc_event": allocation.opened.event().map(|event| event.0), "place": subject.place(allocation.stack)})
            };
            json!({"rows": pane.allocations.rows.iter().take(MOST_ROWS).map(row).collect::<Vec<_>>()})
        }
        View::Segments => {
            let row = |segment: &crate::views::segments::Segment| {
                json!({"addr": segment.range.addr, "size": segment.range.size, "free": segment.free,
                    "largest_hole": segment.largest_hole, "blocks": segment.blocks})
            };
            json!({"rows": pane.segments.rows.iter().take(MOST_ROWS).map(row).collect::<Vec<_>>()})
        }
        View::Insights => {
            let row = |insight: &crate::insight::Insight| {
                json!({"kind": insight.kind, "severity": insight.severity.name(), "what": insight.what, "bytes": insight.bytes, "advice": insight.advice,
                    "event": insight.at.event().map(|event| event.0)})
            };
            json!({"rows": subject.index().insights.iter().map(row).collect::<Vec<_>>()})
        }
        View::Ranks => {
            let row = |row: &crate::views::ranks::Row| match &row.progress {
                Progress::Known(figures) => {
                    json!({"path": row.title(), "device": figures.device.0, "events": figures.events,
                    "peak": figures.digest.peak, "end": figures.digest.end, "reserved_peak": figures.reserved_peak(), "gap": figures.gap(),
                    "oom": figures.ooms, "verdict": figures.verdict})
                }
                Progress::Failed(why) => json!({"path": row.title(), "error": why}),
                Progress::Waiting => json!({"path": row.title()}),
            };
            json!({"rows": app.files.ranks.rows.iter().map(row).collect::<Vec<_>>()})
        }
        View::Events => {
            let row = pane.events.selected_row();
            let from = row.saturating_sub(50);
            let event = |row: usize| {
                let event = subject.events().get(row);
                json!({"event": row, "action": event.action.name(), "size": event.size, "addr": event.addr,
                    "time_us": subject.events().time_us(row), "place": subject.place(event.stack)})
            };
            json!({"rows": (from..(row + 50).min(subject.events().len())).map(event).collect::<Vec<_>>()})
        }
        View::Pools => {
            let row = |row: &crate::views::pools::Row| {
                json!({"pool": row.pool, "stream": row.stream, "reserved": row.reserved, "requested": row.requested,
                    "free": row.free, "largest_hole": row.largest_hole, "segments": row.segments, "blocks": row.blocks})
            };
            json!({"rows": pane.pools.rows.iter().map(row).collect::<Vec<_>>()})
        }
        View::Diff => {
            json!({"title": app.diff.title(), "rows": tree(&app.diff.tree, app.diff.names(), true)})
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

/// What the file does not tell is null.
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

fn tree(tree: &Branches, names: Names<'_>, is_diff: bool) -> Vec<Value> {
    let row = |row: &crate::branches::Row| {
        let item = tree.outline.get(row.node)?;
        let sum = if row.is_own { item.own } else { item.now };
        let frames: Vec<_> = (row.node..=tree.last_of(*row))
            .filter_map(|node| tree.outline.get(node))
            .filter(|item| item.place != Place::Root)
            .map(|item| names.long(item.place))
            .collect();
        let mut value = json!({"depth": row.depth, "bytes": sum.bytes, "count": sum.count, "own": row.is_own, "frames": frames});
        if is_diff && let Some(object) = value.as_object_mut() {
            let before = if row.is_own { item.own_before } else { item.before };
            object.insert("before_bytes".into(), before.bytes.into());
            object.insert("before_count".into(), before.count.into());
        }
        Some(value)
    };
    tree.rows.iter().take(MOST_ROWS).filter_map(row).collect()
}
