//! Random pixels of random pictures against the definition, applied to the plain list of allocations.

use crate::common;
use proptest::prelude::*;
use vramscope_analysis::pictures::{Axis, Cell, Clock, Columns, Lane, Lanes, Pile, Rows, lanes};
use vramscope_analysis::pools::Pools;
use vramscope_analysis::{AllocIdx, Allocation, Counter, Device, Moment, Times};
use vramscope_snapshot::{DeviceId, EventTable};
use vramscope_testkit::allocator::Config;
use vramscope_testkit::{Dialect, Options, record};

fn bytes_of(counter: Counter, allocation: &Allocation) -> u64 {
    if counter == Counter::Requested { allocation.requested } else { allocation.size }
}

fn end_of(counter: Counter, allocation: &Allocation) -> Moment {
    if counter == Counter::Allocated { allocation.released } else { allocation.closed }
}

/// What counts at a moment, from the bottom up, with where each begins: private pools first, each with what it
/// holds and does not use.
fn stacked(replay: &Device, counter: Counter, pools: &Pools, at: Moment) -> Vec<(Cell, u64, u64)> {
    let mut low = 0;
    let mut cells = Vec::new();
    for (number, envelope) in pools.envelopes().iter().enumerate() {
        let base = low;
        cells.extend(together(replay, counter, at, &mut low, |index| {
            pools.envelope_of(index) == Some(number)
        }));
        let top = base + envelope.level(at).height() as u64;
        if top > low {
            cells.push((Cell::idle(number), low, top));
            low = top;
        }
    }
    cells.extend(together(replay, counter, at, &mut low, |index| pools.envelope_of(index).is_none()));
    cells
}

fn together(
    replay: &Device,
    counter: Counter,
    at: Moment,
    low: &mut u64,
    keep: impl Fn(AllocIdx) -> bool,
) -> Vec<(Cell, u64, u64)> {
    let counts = |a: &Allocation| a.opened <= at && at < end_of(counter, a);
    let mut live: Vec<_> =
        replay.allocations().iter().filter(|(index, a)| counts(a) && keep(*index)).collect();
    live.sort_by_key(|(index, a)| {
        let stays = if a.opened == Moment::START { u32::MAX - end_of(counter, a).0 } else { 0 };
        (a.opened, stays, *index)
    });
    let place = |(index, a): (AllocIdx, Allocation)| {
        let from = *low;
        *low += bytes_of(counter, &a);
        (Cell::of(index), from, *low)
    };
    live.into_iter().map(place).collect()
}

/// Where a pile ends.
fn top(stacked: &[(Cell, u64, u64)]) -> u64 {
    stacked.last().map_or(0, |(_, _, high)| *high)
}

/// The rows whose centres lie below some bytes.
fn rows_below(rows: &Rows, bytes: u64) -> usize {
    (0..rows.count).filter(|row| rows.centre(*row) < bytes as f64).count()
}

/// When each moment begins, by the definition: the start with the first event.
fn begins(events: &EventTable) -> Vec<i64> {
    let mut highest = i64::MIN;
    let mut times = Vec::new();
    for row in 0..events.len() {
        highest = highest.max(events.time_us(row).unwrap());
        times.push(highest - events.time_us(0).unwrap());
    }
    times.insert(0, 0);
    times
}

/// The moments of a column, by the definition.
fn moments_in(axis: Axis, begins: &[i64], left: f64, right: f64) -> Vec<usize> {
    let place = |m: usize| match axis {
        Axis::Events => (m as f64, m as f64 + 1.0),
        Axis::Time => (begins[m] as f64, begins.get(m + 1).map_or(f64::INFINITY, |&next| next as f64)),
    };
    (0..begins.len())
        .filter(|&m| {
            let (from, to) = place(m);
            from < right && (to > left || from >= left)
        })
        .collect()
}

fn options() -> impl Strategy<Value = Options> {
    (any::<u64>(), 200_u64..4000, 0_u32..2, any::<bool>(), prop_oneof![Just(0_u64), 50_u64..150]).prop_map(
        |(seed, events, pools, expandable, late_start)| Options {
            events,
            seed,
            pools,
            late_start,
            depth: (1, 3),
            frames: 20,
            allocator: Config { expandable, ..Config::default() },
            ..Options::default()
        },
    )
}

/// A part of a whole, as fractions: from everything to a thousandth.
fn part() -> impl Strategy<Value = (f64, f64)> {
    (0.0_f64..1.0, 0.0_f64..3.0).prop_map(|(at, zoom)| {
        let width = 10_f64.powf(-zoom);
        (at * (1.0 - width), at * (1.0 - width) + width)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_pixel_is_as_defined(
        options in options(),
        x in part(),
        y in part(),
        size in (1_usize..200, 1_usize..120),
        on_time in any::<bool>(),
        with_pools in any::<bool>(),
        counter in prop_oneof![Just(Counter::Requested), Just(Counter::Allocated), Just(Counter::Active)],
        pixels in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 40),
    ) {
        let snapshot = common::snapshot(&record(&options).pickle(Dialect::Protocol(4)));
        let replay = Device::new(snapshot.clone(), DeviceId(0));
        let events = snapshot.events(DeviceId(0));
        let times = Times::new(events);
        let clock = Clock::new(events, &times);
        let begins = begins(events);
        let counters: Vec<i64> = std::iter::once(replay.counters(Moment::START)[counter])
            .chain(replay.all_counters().map(|counters| counters[counter]))
            .collect();
        let axis = if on_time { Axis::Time } else { Axis::Events };
        let whole = if on_time { clock.unwrap().span().max(1) as f64 } else { f64::from(replay.end().0) + 1.0 };
        let x = (x.0 * whole, x.1 * whole);
        let peak = replay.peak(counter).bytes as f64 * 1.1;
        let rows = Rows::new((y.0 * peak, y.1 * peak), size.1);
        let columns = Columns::new(&replay, clock, axis, x, size.0);
        let pools = if with_pools { Pools::private(&replay) } else { Pools::default() };
        let pile = Pile::with_pools(&replay, counter, &pools);
        let picture = pile.picture(&replay, &columns, rows, &|| true).unwrap();
        let lanes = lanes(&replay);
        let placed: Vec<(Lane, _)> =
            lanes.iter().enumerate().map(|(n, lane)| (*lane, n * 7..n * 7 + 7)).collect();
        let height = placed.len() * 7;
        let map = Lanes::new(placed.clone()).picture(&replay, counter, &columns, height, &|| true).unwrap();

        for (column, row) in pixels {
            let (column, row) = (column.index(size.0), row.index(size.1));
            let step = (x.1 - x.0) / size.0 as f64;
            let (left, right) = (x.0 + column as f64 * step, x.0 + (column + 1) as f64 * step);
            let inside = moments_in(axis, &begins, left, right);
            let most = inside.iter().map(|&m| counters[m]).max().unwrap();
            let shown = Moment(*inside.iter().find(|&&m| counters[m] == most).unwrap() as u32);
            prop_assert_eq!(picture.shown[column], Some(shown), "column {}", column);
            let least = inside.iter().map(|&m| counters[m]).min().unwrap();
            let lowest = Moment(*inside.iter().find(|&&m| counters[m] == least).unwrap() as u32);
            let top = top(&stacked(&replay, counter, &pools, lowest));
            prop_assert_eq!(picture.solid[column], rows_below(&rows, top), "column {}", column);
            let centre = rows.low + (row as f64 + 0.5) * rows.step;
            let stacked = stacked(&replay, counter, &pools, shown);
            let owner = stacked.iter().find(|(_, low, high)| *low as f64 <= centre && centre < *high as f64);
            prop_assert_eq!(picture.at(column, row), owner.map_or(Cell::NONE, |(cell, ..)| *cell));
            if let Some(&(cell, low, high)) = stacked.get(row % stacked.len().max(1))
                && let Some(index) = cell.allocation()
            {
                prop_assert_eq!(pile.place(&replay, index, shown), Some((low, high)));
            }

            if height == 0 { continue }
            let row = row % height;
            let (lane, from) = &placed[row / 7];
            // From the lane's first address on: an address is too large for half a byte of a centre.
            let centre = Rows::new((0.0, lane.size as f64), 7).centre(row - from.start);
            let state = replay.state(shown);
            let below = |addr: u64| addr.saturating_sub(lane.addr) as f64 <= centre;
            let holds = |low: u64, size: u64| below(low) && !below(low + size);
            let block = state.live.iter().find(|&&index| {
                let a = replay.allocation(index);
                holds(a.addr, a.size)
            });
            let held = state.ranges.iter().any(|range| holds(range.addr, range.size));
            let expected = block.map_or(if held { Cell::HOLE } else { Cell::NONE }, |&index| Cell::of(index));
            prop_assert_eq!(map.at(column, row), expected, "row {} of the map", row);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    /// Some allocations alone stand on the ground, and a column shows the moment at which they are highest.
    #[test]
    fn a_pile_of_some_is_as_defined(
        options in options(),
        x in part(),
        size in (1_usize..120, 1_usize..80),
        third in 0_u32..3,
        counter in prop_oneof![Just(Counter::Requested), Just(Counter::Allocated), Just(Counter::Active)],
        pixels in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 30),
    ) {
        let snapshot = common::snapshot(&record(&options).pickle(Dialect::Protocol(4)));
        let replay = Device::new(snapshot.clone(), DeviceId(0));
        let keep = |index: AllocIdx| index.0 % 3 == third;
        let members: Vec<AllocIdx> =
            replay.allocations().iter().map(|(index, _)| index).filter(|index| keep(*index)).collect();
        let stacked = |at: Moment| together(&replay, counter, at, &mut 0, keep);
        let level = |at: usize| stacked(Moment(at as u32)).last().map_or(0, |(_, _, high)| *high);
        let pile = Pile::of(&replay, counter, &members);
        let most = (0..=replay.end().0 as usize).map(level).max().unwrap();
        prop_assert_eq!(pile.levels().unwrap().peak().bytes as u64, most);
        let whole = f64::from(replay.end().0) + 1.0;
        let x = (x.0 * whole, x.1 * whole);
        let rows = Rows::new((0.0, most.max(1) as f64 * 1.1), size.1);
        let columns = Columns::new(&replay, None, Axis::Events, x, size.0);
        let picture = pile.picture(&replay, &columns, rows, &|| true).unwrap();
        for (column, row) in pixels {
            let (column, row) = (column.index(size.0), row.index(size.1));
            let step = (x.1 - x.0) / size.0 as f64;
            let (left, right) = (x.0 + column as f64 * step, x.0 + (column + 1) as f64 * step);
            let inside = moments_in(Axis::Events, &vec![0; whole as usize], left, right);
            let shown = *inside.iter().max_by_key(|&&m| (level(m), std::cmp::Reverse(m))).unwrap();
            prop_assert_eq!(picture.shown[column], Some(Moment(shown as u32)), "column {}", column);
            let least = inside.iter().map(|&m| level(m)).min().unwrap();
            prop_assert_eq!(picture.solid[column], rows_below(&rows, least), "column {}", column);
            let centre = rows.centre(row);
            let stacked = stacked(Moment(shown as u32));
            let owner = stacked.iter().find(|(_, low, high)| *low as f64 <= centre && centre < *high as f64);
            prop_assert_eq!(picture.at(column, row), owner.map_or(Cell::NONE, |(cell, ..)| *cell));
        }
    }
}

fn event(action: &str, addr: u64, size: u64, time: u64) -> String {
    format!(r#"{{"action": "{action}", "addr": {addr}, "size": {size}, "time_us": {time}, "stream": 0}}"#)
}

/// 500 MiB stay, and spikes of many heights come and go, dozens in each column: the highest moments of columns make a
/// wave that is not there, the lowest do not. (At its end a file without segments has nothing.)
#[test]
fn what_stays_is_level_where_every_column_has_many_moments() {
    let mut events = vec![event("alloc", 4096, 500 << 20, 0)];
    for n in 1..20_000_u64 {
        let size = (1 + n / 50 * 37 % 127) << 20;
        for action in ["alloc", "free_requested", "free_completed"] {
            events.push(event(action, 1 << 40, size, n));
        }
    }
    let json = format!(r#"{{"segments": [], "device_traces": [[{}]]}}"#, events.join(","));
    let snapshot = common::snapshot(json.as_bytes());
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    let pile = Pile::new(&replay, Counter::Requested);
    // Two rows a MiB.
    let rows = Rows::new((0.0, f64::from(1000 << 20)), 2000);
    let columns = Columns::new(&replay, None, Axis::Events, (2.0, 59_000.0), 295);
    let picture = pile.picture(&replay, &columns, rows, &|| true).unwrap();
    assert!(picture.solid.iter().all(|&rows| rows == 1000), "{:?}", picture.solid);
    let tops: std::collections::BTreeSet<u64> =
        picture.shown.iter().map(|at| replay.counters(at.unwrap()).requested as u64).collect();
    assert!(tops.len() > 3, "the highest moments of columns differ: {tops:?}");
}

/// 300 000 events in 100 columns, and a spike of one event among them that is higher than all else.
#[test]
fn a_spike_of_one_event_is_seen_at_every_zoom() {
    let mut events = Vec::new();
    for n in 0..50_000_u64 {
        let size = if n == 31_234 { 900 << 20 } else { 1 << 20 };
        events.push(event("alloc", 4096, size, n));
        events.push(event("free_requested", 4096, size, n));
        events.push(event("free_completed", 4096, size, n));
    }
    let json = format!(r#"{{"segments": [], "device_traces": [[{}]]}}"#, events.join(","));
    let snapshot = common::snapshot(json.as_bytes());
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    let times = Times::new(snapshot.events(DeviceId(0)));
    let clock = Clock::new(snapshot.events(DeviceId(0)), &times);
    let pile = Pile::new(&replay, Counter::Requested);
    let rows = Rows::new((0.0, 1e9), 10);
    // The allocation is live after its event only: that moment, of the 150 001 that there are.
    let spike = Moment(31_234 * 3 + 1);
    for zoom in [1.0, 10.0, 1000.0, 100_000.0] {
        for (axis, whole, at) in
            [(Axis::Events, 150_001.0, f64::from(spike.0)), (Axis::Time, 49_999.0, 31_234.0)]
        {
            let width = whole / zoom;
            let left = (at - width * 0.405).clamp(0.0, whole - width);
            let columns = Columns::new(&replay, clock, axis, (left, left + width), 100);
            let picture = pile.picture(&replay, &columns, rows, &|| true).unwrap();
            let column = ((at - left) / width * 100.0) as usize;
            assert_eq!(picture.shown[column], Some(spike), "{axis:?} at zoom {zoom}");
            assert_eq!(picture.at(column, 8), Cell::of(AllocIdx(31_234)), "{axis:?} at zoom {zoom}");
        }
    }
}
