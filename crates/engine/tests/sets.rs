//! Some allocations alone, and what is live by what it has in common.

use vramscope_analysis::{Counter, Moment};
use vramscope_engine::*;

use crate::common::{Recording, open};

/// The stretch of one moment.
fn only_at(at: Moment) -> Stretch {
    Stretch { axis: Axis::Events, x: (f64::from(at.0), f64::from(at.0) + 1.0), width: 1 }
}

fn group(group: Group) -> Which {
    Which { group: Some(group), ..Which::default() }
}

#[test]
fn what_is_here_adds_up_to_the_counter_by_anything() {
    let Recording { session, of, replay, .. } = open("oom");
    for at in [Moment(0), Moment(9_000), replay.peak(Counter::Requested).at, replay.end()] {
        for counter in [Counter::Requested, Counter::Allocated, Counter::Active] {
            for by in [By::Category, By::Line, By::Module, By::Pool, By::Stream] {
                let only = Which::default();
                let here = session.ask(AskHere { of, at, counter, by, only }).unwrap();
                assert_eq!(here.all.bytes as i64, replay.counters(at)[counter], "{counter:?} {by:?}");
                let rows: u64 = here.rows.iter().map(|row| row.sum.bytes).sum();
                assert_eq!(rows + here.rest.bytes, here.all.bytes);
                assert!(here.rows.is_sorted_by(|a, b| a.sum.bytes >= b.sum.bytes));
                assert!(here.rows.iter().all(|row| !row.name.is_empty()));
            }
        }
    }
}

#[test]
fn a_group_alone_has_the_level_that_it_has_among_all() {
    let Recording { session, of, replay, .. } = open("oom");
    let at = replay.peak(Counter::Requested).at;
    let counter = Counter::Requested;
    for by in [By::Category, By::Line, By::Pool] {
        let here = session.ask(AskHere { of, at, counter, by, only: Which::default() }).unwrap();
        for row in here.rows.iter().take(12) {
            let only = group(row.group.clone().unwrap());
            let ask = AskLevels { of, counter, stretch: only_at(at), only: only.clone() };
            let levels = session.ask(ask).unwrap();
            assert_eq!(levels.most, [Some(row.sum.bytes)], "{}", row.name);
            assert!(levels.peak.bytes as u64 >= row.sum.bytes);
            assert!(levels.life.0 <= at && at <= levels.life.1);
            let of_it = session.ask(AskHere { of, at, counter, by, only }).unwrap();
            assert_eq!((of_it.all, of_it.rows.len()), (row.sum, 1));
        }
    }
}

#[test]
fn a_picture_of_a_group_shows_nothing_else_and_stands_on_the_ground() {
    let Recording { session, of, replay, .. } = open("oom");
    let (at, counter) = (replay.peak(Counter::Requested).at, Counter::Requested);
    let here = AskHere { of, at, counter, by: By::Line, only: Which::default() };
    let row = session.ask(here).unwrap().rows[1].clone();
    let Some(Group::Line(line)) = row.group else { panic!("{row:?}") };
    let stretch = Stretch { axis: Axis::Events, x: (0.0, f64::from(replay.end().0) + 1.0), width: 200 };
    let levels = AskLevels { of, counter, stretch, only: group(Group::Line(line)) };
    let levels = session.ask(levels).unwrap();
    let y = (0.0, levels.peak.bytes as f64 * 1.1);
    let only = group(Group::Line(line));
    let ask = AskTile { of, counter, stretch, y, height: 100, pools: true, categories: false, only };
    let tile = session.ask(ask).unwrap();
    assert!(!tile.owners.is_empty());
    assert!(tile.owners.iter().all(|owner| owner.line == line));
    for (column, most) in levels.most.iter().enumerate() {
        let rows = (most.unwrap() as f64 / y.1 * 100.0).round() as usize;
        let painted = (0..100).filter(|&row| tile.owner(column, row).is_some()).count();
        assert!(painted.abs_diff(rows) <= 1, "column {column}: {painted} rows of {rows}");
        assert!(painted == 0 || tile.owner(column, 0).is_some(), "column {column} has a gap at the bottom");
    }
}

#[test]
fn a_finding_says_which_allocations_it_is_about() {
    let Recording { session, of, replay, .. } = open("oom");
    let found = &session.ask(AskInsights { of }).unwrap().found;
    let failed = found.iter().find(|insight| insight.kind == "out of memory").unwrap();
    assert_eq!(failed.when.unwrap().1, Moment::after(replay.ooms().last().unwrap().event));
    for insight in found.iter().filter(|insight| insight.group.is_some()) {
        assert!(!insight.about.is_empty());
        let only = group(insight.group.clone().unwrap());
        let ask = AskLevels { of, counter: Counter::Requested, stretch: only_at(Moment(0)), only };
        assert!(session.ask(ask).unwrap().sum.count > 0, "{}", insight.title);
    }
}

#[test]
fn a_range_says_what_began_and_ended_and_which_lines_grew() {
    let Recording { session, of, replay, .. } = open("oom");
    let end = f64::from(replay.end().0) + 1.0;
    for (from, to) in [(0, 1_000), (3_000, 9_000), (11_000, replay.end().0)] {
        let x = (f64::from(from), f64::from(to) + 1.0);
        let change = session.ask(AskRange { of, axis: Axis::Events, x }).unwrap();
        assert_eq!((change.from, change.to), (Moment(from), Moment(to)));
        let level = |at: u32| replay.counters(Moment(at)).requested;
        assert_eq!(change.net, level(to) - level(from));
        assert_eq!(change.net, change.allocated.bytes as i64 - change.freed.bytes as i64);
        let most = (from..=to).map(level).max().unwrap();
        assert_eq!(change.peak.bytes, most);
        assert!(change.lines.is_sorted_by(|a, b| a.net >= b.net));
    }
    let nothing = session.ask(AskRange { of, axis: Axis::Events, x: (end + 5.0, end + 9.0) }).unwrap();
    assert_eq!(nothing.allocated.count, 0);
}

#[test]
fn events_come_in_order_with_the_allocation_that_they_concern() {
    let Recording { session, of, replay, .. } = open("oom");
    let page = session.ask(AskEvents { of, first: 100, count: 50 }).unwrap();
    assert_eq!((page.total, page.rows.len(), page.rows[0].event), (replay.end().0, 50, 100));
    for row in page.rows.iter().filter(|row| row.action == "alloc") {
        let a = replay.allocation(row.alloc.unwrap());
        assert_eq!((a.opened, a.addr), (Moment(row.event + 1), row.addr));
    }
    let last = session.ask(AskEvents { of, first: replay.end().0 - 3, count: 50 }).unwrap();
    assert_eq!(last.rows.len(), 3);
    assert!(last.rows.iter().any(|row| row.failed), "the recording ends with the failure");
}

#[test]
fn every_report_has_as_many_cells_as_columns_or_says_why_it_is_empty() {
    for name in ["oom", "expandable"] {
        let Recording { session, of, replay, .. } = open(name);
        let at = replay.peak(Counter::Requested).at;
        for what in
            [ReportOf::Modules, ReportOf::Phases, ReportOf::Steps, ReportOf::Pools, ReportOf::Fragmentation]
        {
            let report = session.ask(AskReport { of, what, at }).unwrap();
            assert!(!report.heading.is_empty());
            for row in &report.rows {
                assert_eq!(row.cells.len(), report.columns.len(), "{what:?} {}", row.name);
                assert!((0.0..=1.0).contains(&row.share));
            }
        }
        let pools = session.ask(AskReport { of, what: ReportOf::Pools, at }).unwrap();
        let reserved: i64 = pools.rows.iter().map(|row| row.cells[0].0).sum();
        assert_eq!(reserved, replay.counters(at).reserved);
    }
}

#[test]
fn the_tenants_of_an_address_are_all_that_ever_covered_it() {
    let Recording { session, of, replay, .. } = open("oom");
    for index in (0..replay.allocations().len() as u32).step_by(37).map(vramscope_analysis::AllocIdx) {
        let a = replay.allocation(index);
        let details = session.ask(AskDetails { of, alloc: index, at: a.opened }).unwrap();
        let covers = |b: &vramscope_analysis::Allocation| b.addr <= a.addr && a.addr < b.addr + b.size.max(1);
        let all = replay.allocations().iter().filter(|(_, b)| covers(b)).count();
        assert_eq!(details.tenancies as usize, all);
        let tenants = &details.tenants;
        assert!(tenants.iter().any(|tenant| tenant.owner.alloc == index));
        assert!(tenants.is_sorted_by_key(|tenant| tenant.owner.opened));
        // One after the other: nobody moves in before the one before has left.
        for pair in tenants.windows(2) {
            assert!(pair[0].owner.closed.unwrap() <= pair[1].owner.opened);
        }
    }
}
