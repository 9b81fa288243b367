//! Allocations piled up in order of birth: the index behind the memory timeline.
//!
//! What is live at a moment is a part of what was born by then. So allocations are put in order of birth
//! and cut into nodes of [`LEAF`], these into nodes of [`FANOUT`] times as many, and so on. A node whose
//! allocations are all born keeps those that outlive the last of these births, sorted by their end, with
//! sums: how many of its bytes are live at any later moment is one binary search. What dies sooner is in
//! no list, and most allocations die soon, so the lists of larger nodes get short. The one node of each
//! size that is still filling up at the moment asked for is entered instead.
//!
//! A column of pixels visits only nodes that the centre of some pixel lies in. The allocations from
//! before the first event are sorted by their end: those that live are a prefix, and need one sum each.

use vramscope_replay::{AllocIdx, Allocations, Counter, Moment, Replay};

use crate::pictures::{Cell, Columns, Levels, Picture, Rows};
use crate::questions::envelope::Envelope;
use crate::questions::pools::Pools;

/// Allocations in the smallest node.
const LEAF: usize = 32;
/// Nodes in the next larger one.
const FANOUT: usize = 16;

/// The nodes of one size.
#[derive(Clone, Debug, Default)]
struct Level {
    /// Where the list of each node begins, and after the last where it ends.
    starts: Vec<usize>,
    /// Ends of allocations that outlive their node, in order.
    ends: Vec<Moment>,
    /// Bytes of this and all later ends of the node.
    sums: Vec<u64>,
}

impl Level {
    /// Bytes of a node that are live at a moment after its last birth.
    fn live(&self, node: usize, at: Moment) -> u64 {
        let (start, end) = (self.starts[node], self.starts[node + 1]);
        let first = start + self.ends[start..end].partition_point(|&ended| ended <= at);
        if first < end { self.sums[first] } else { 0 }
    }

    /// Adds a node with allocations (end, bytes) sorted by end.
    fn push(&mut self, sorted: &[(Moment, u64)]) {
        let start = self.ends.len();
        for &(end, bytes) in sorted {
            match self.ends.last() {
                Some(&last) if self.ends.len() > start && last == end => {
                    if let Some(sum) = self.sums.last_mut() {
                        *sum = sum.saturating_add(bytes);
                    }
                }
                _ => {
                    self.ends.push(end);
                    self.sums.push(bytes);
                }
            }
        }
        let mut sum = 0_u64;
        for bytes in self.sums[start..].iter_mut().rev() {
            sum = sum.saturating_add(*bytes);
            *bytes = sum;
        }
        self.starts.push(self.ends.len());
    }

    /// The list of a node as (end, bytes).
    fn list(&self, node: usize) -> impl Iterator<Item = (Moment, u64)> + '_ {
        let (start, end) = (self.starts[node], self.starts[node + 1]);
        (start..end).map(move |at| {
            let after = if at + 1 < end { self.sums[at + 1] } else { 0 };
            (self.ends[at], self.sums[at].saturating_sub(after))
        })
    }
}

/// The allocations of a device in stacking order, with sums.
#[derive(Clone, Debug)]
pub struct Pile {
    counter: Counter,
    /// From the bottom up: private pools, then all else.
    layers: Vec<Layer>,
    /// The level of a pile of some allocations; that of all of them is the counter of the device.
    levels: Option<Levels>,
}

/// Allocations that stand together.
#[derive(Clone, Debug)]
struct Layer {
    /// The envelope around them and its number, for a private pool.
    envelope: Option<(usize, Envelope)>,
    /// Allocations from before the first event, what stays longest first.
    earlier: Vec<AllocIdx>,
    /// Bytes of each of these and all before it.
    earlier_sums: Vec<u64>,
    /// The others in order of birth.
    order: Vec<AllocIdx>,
    /// Nodes from the smallest up.
    levels: Vec<Level>,
}

/// How an allocation counts.
#[derive(Clone, Copy)]
pub(super) struct Measure<'a> {
    allocations: &'a Allocations,
    counter: Counter,
}

impl<'a> Measure<'a> {
    /// By a counter. Reserved memory is not a pile of allocations: active ones take its place.
    pub(super) fn new(replay: &'a Replay, counter: Counter) -> Self {
        let counter = if counter == Counter::Reserved { Counter::Active } else { counter };
        Self { allocations: replay.allocations(), counter }
    }
}

impl Measure<'_> {
    pub(super) fn bytes(self, index: AllocIdx) -> u64 {
        match self.counter {
            Counter::Requested => self.allocations.requested[index.index()],
            Counter::Allocated | Counter::Active | Counter::Reserved => self.allocations.size[index.index()],
        }
    }

    pub(super) fn born(self, index: AllocIdx) -> Moment {
        self.allocations.opened[index.index()]
    }

    pub(super) fn end(self, index: AllocIdx) -> Moment {
        match self.counter {
            Counter::Allocated => self.allocations.released[index.index()],
            Counter::Requested | Counter::Active | Counter::Reserved => {
                self.allocations.closed[index.index()]
            }
        }
    }
}

impl Pile {
    /// The pile of a counter.
    pub fn new(replay: &Replay, counter: Counter) -> Self {
        Self::with_pools(replay, counter, &Pools::default())
    }

    /// The same with the allocations of each of these pools together.
    pub fn with_pools(replay: &Replay, counter: Counter, pools: &Pools) -> Self {
        let measure = Measure::new(replay, counter);
        let counter = measure.counter;
        let envelopes = pools.envelopes();
        let mut members = vec![Vec::new(); envelopes.len() + 1];
        for index in (0..replay.allocations().len() as u32).map(AllocIdx) {
            if measure.born(index) < measure.end(index) {
                members[pools.envelope_of(index).unwrap_or(envelopes.len())].push(index);
            }
        }
        let around = envelopes.iter().cloned().enumerate().map(Some).chain([None]);
        let layers =
            members.into_iter().zip(around).map(|(all, envelope)| Layer::new(measure, all, envelope));
        Self { counter, layers: layers.collect(), levels: None }
    }

    /// A pile of some allocations only.
    pub fn of(replay: &Replay, counter: Counter, members: &[AllocIdx]) -> Self {
        let measure = Measure::new(replay, counter);
        let counter = measure.counter;
        let lives = |index: &AllocIdx| {
            index.index() < replay.allocations().len() && measure.born(*index) < measure.end(*index)
        };
        let members: Vec<AllocIdx> = members.iter().copied().filter(lives).collect();
        let life = |&index: &AllocIdx| (measure.born(index), measure.end(index), measure.bytes(index));
        let levels = Levels::new(members.iter().map(life));
        Self { counter, layers: vec![Layer::new(measure, members, None)], levels: Some(levels) }
    }

    /// The level of a pile of some allocations.
    pub fn levels(&self) -> Option<&Levels> {
        self.levels.as_ref()
    }

    /// The moment that each column shows.
    pub fn shown(&self, replay: &Replay, columns: &Columns) -> Vec<Option<Moment>> {
        match &self.levels {
            Some(levels) => columns.each(|from, to| levels.highest(from, to)),
            None => columns.shown(replay, self.counter),
        }
    }

    /// What is piled up.
    pub fn counter(&self) -> Counter {
        self.counter
    }

    /// The picture of some columns and rows; `None` if `go_on` says to stop.
    pub fn picture(
        &self,
        replay: &Replay,
        columns: &Columns,
        rows: Rows,
        go_on: &dyn Fn() -> bool,
    ) -> Option<Picture> {
        let shown = self.shown(replay, columns);
        let measure = self.measure(replay);
        let picture = Picture::paint(shown, rows.count, go_on, |at, column| {
            let mut low = 0;
            let mut pen = Pen::new(rows, column);
            for layer in &self.layers {
                low = Walk { layer, measure, at, pen: &mut pen }.run(low);
            }
        })?;
        let lowest = self.lowest(replay, columns).into_iter();
        let solid = lowest.map(|bytes| bytes.map_or(0, |bytes| rows.first_from(bytes as f64))).collect();
        Some(Picture { solid, ..picture })
    }

    /// How high the pile is at the lowest moment of each column.
    fn lowest(&self, replay: &Replay, columns: &Columns) -> Vec<Option<u64>> {
        let measure = self.measure(replay);
        columns.each(|from, to| match &self.levels {
            Some(levels) => levels.at(levels.lowest(from, to)),
            None => {
                let at = replay.lowest(self.counter, from, to);
                let heights = self.layers.iter().map(|layer| layer.height(measure, at));
                heights.fold(0, u64::saturating_add)
            }
        })
    }

    /// Where an allocation lies in the pile at a moment, in bytes from the bottom.
    pub fn place(&self, replay: &Replay, index: AllocIdx, at: Moment) -> Option<(u64, u64)> {
        let measure = self.measure(replay);
        if index.index() >= replay.allocations().len() {
            return None;
        }
        if !(measure.born(index) <= at && at < measure.end(index)) {
            return None;
        }
        let mut base = 0_u64;
        for layer in &self.layers {
            if let Some(low) = layer.place(measure, index, at) {
                let low = base.saturating_add(low);
                return Some((low, low.saturating_add(measure.bytes(index))));
            }
            base = base.saturating_add(layer.height(measure, at));
        }
        None
    }

    fn measure<'a>(&self, replay: &'a Replay) -> Measure<'a> {
        Measure::new(replay, self.counter)
    }
}

impl Layer {
    fn new(measure: Measure<'_>, all: Vec<AllocIdx>, envelope: Option<(usize, Envelope)>) -> Self {
        let (mut earlier, mut order): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|&index| measure.born(index) == Moment::START);
        earlier.sort_by_key(|&index| (std::cmp::Reverse(measure.end(index)), index));
        if !order.is_sorted_by_key(|&index| measure.born(index)) {
            order.sort_by_key(|&index| measure.born(index));
        }
        let mut sum = 0_u64;
        let add = |&index: &AllocIdx| {
            sum = sum.saturating_add(measure.bytes(index));
            sum
        };
        let earlier_sums = earlier.iter().map(add).collect();
        let levels = levels(measure, &order);
        Self { envelope, earlier, earlier_sums, order, levels }
    }

    /// Bytes from the bottom of the layer to an allocation that lives, if it is in it.
    fn place(&self, measure: Measure<'_>, index: AllocIdx, at: Moment) -> Option<u64> {
        let born = measure.born(index);
        if born == Moment::START {
            let key = |other: &AllocIdx| (std::cmp::Reverse(measure.end(*other)), *other);
            let place = self.earlier.binary_search_by_key(&key(&index), key).ok()?;
            return Some(place.checked_sub(1).map_or(0, |below| self.earlier_sums[below]));
        }
        let place = self.order.binary_search_by_key(&(born, index), |&other| (measure.born(other), other));
        Some(self.earlier_live(measure, at).1.saturating_add(self.sum_below(measure, place.ok()?, at)))
    }

    /// Bytes of what lives at a moment, or of what its pool holds if that is more.
    fn height(&self, measure: Measure<'_>, at: Moment) -> u64 {
        let born = self.order.partition_point(|&index| measure.born(index) <= at);
        let live = self.earlier_live(measure, at).1.saturating_add(self.sum_below(measure, born, at));
        live.max(self.held(at))
    }

    /// Bytes that its pool holds.
    fn held(&self, at: Moment) -> u64 {
        self.envelope.as_ref().map_or(0, |(_, envelope)| envelope.level(at).height().max(0) as u64)
    }

    /// How many of the earliest live at a moment, and their bytes.
    fn earlier_live(&self, measure: Measure<'_>, at: Moment) -> (usize, u64) {
        let count = self.earlier.partition_point(|&index| measure.end(index) > at);
        (count, count.checked_sub(1).map_or(0, |last| self.earlier_sums[last]))
    }

    /// Bytes live at a moment among the first `count` births.
    fn sum_below(&self, measure: Measure<'_>, count: usize, at: Moment) -> u64 {
        let mut sum = 0_u64;
        self.cover(count, &mut |part| {
            sum = sum.saturating_add(match part {
                Part::Node { level, node } => self.levels[level].live(node, at),
                Part::Single(place) => self.live_bytes(measure, place, at),
            });
            true
        });
        sum
    }

    fn live_bytes(&self, measure: Measure<'_>, place: usize, at: Moment) -> u64 {
        let index = self.order[place];
        if measure.end(index) > at { measure.bytes(index) } else { 0 }
    }

    /// The first `count` births as whole nodes, the largest first, and what is left over one by one;
    /// until `visit` has had enough.
    fn cover(&self, count: usize, visit: &mut dyn FnMut(Part) -> bool) {
        let mut done = 0;
        for level in (0..self.levels.len()).rev() {
            let size = node_size(level);
            while done + size <= count {
                if !visit(Part::Node { level, node: done / size }) {
                    return;
                }
                done += size;
            }
        }
        for place in done..count {
            if !visit(Part::Single(place)) {
                return;
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Part {
    Node { level: usize, node: usize },
    Single(usize),
}

/// Allocations in a node of a level.
fn node_size(level: usize) -> usize {
    LEAF * FANOUT.pow(level as u32)
}

/// Lists of whole nodes, level by level.
fn levels(measure: Measure<'_>, order: &[AllocIdx]) -> Vec<Level> {
    let mut levels: Vec<Level> = Vec::new();
    let mut list = Vec::new();
    let mut nodes = order.len() / LEAF;
    while nodes > 0 {
        let size = node_size(levels.len());
        let mut level = Level { starts: vec![0], ..Level::default() };
        for node in 0..nodes {
            let last_birth = measure.born(order[(node + 1) * size - 1]);
            list.clear();
            match levels.last() {
                None => {
                    let members = order[node * size..(node + 1) * size].iter();
                    list.extend(members.map(|&index| (measure.end(index), measure.bytes(index))));
                }
                Some(below) => list.extend((0..FANOUT).flat_map(|child| below.list(node * FANOUT + child))),
            }
            list.retain(|&(end, _)| end > last_birth);
            // The stable sort finds the runs that the smaller nodes come in.
            list.sort_by_key(|&(end, _)| end);
            level.push(&list);
        }
        levels.push(level);
        nodes /= FANOUT;
    }
    levels
}

/// A column being painted from the bottom up. It keeps the first row that is not painted or passed yet, so that
/// most allocations, which no centre of a row lies in, cost one comparison.
struct Pen<'a> {
    rows: Rows,
    column: &'a mut [Cell],
    row: usize,
    /// Bytes at the centre of that row; without end above the last.
    centre: f64,
}

impl<'a> Pen<'a> {
    fn new(rows: Rows, column: &'a mut [Cell]) -> Self {
        let mut pen = Self { rows, column, row: 0, centre: 0.0 };
        pen.move_to(rows.first_from(0.0));
        pen
    }

    fn move_to(&mut self, row: usize) {
        self.row = row;
        self.centre = if row < self.rows.count { self.rows.centre(row) } else { f64::INFINITY };
    }

    /// Whether every row whose centre lies below `high` is painted.
    fn is_past(&self, high: u64) -> bool {
        high as f64 <= self.centre
    }

    /// Whether the column is painted to its top.
    fn is_full(&self) -> bool {
        self.row >= self.rows.count
    }

    /// The rows up to `high`; the next begin there.
    fn up_to(&mut self, high: u64) -> &mut [Cell] {
        let first = self.row;
        if !self.is_past(high) {
            self.move_to(self.rows.first_from(high as f64).max(first));
        }
        &mut self.column[first..self.row]
    }
}

/// One layer of a column being painted.
struct Walk<'a, 'c> {
    layer: &'a Layer,
    measure: Measure<'a>,
    at: Moment,
    pen: &'a mut Pen<'c>,
}

impl Walk<'_, '_> {
    /// Paints the layer from `base` up, and says how far it reaches.
    fn run(&mut self, base: u64) -> u64 {
        let layer = self.layer;
        let (earlier, height) = layer.earlier_live(self.measure, self.at);
        self.earlier(base, earlier, height);
        let born = layer.order.partition_point(|&index| self.measure.born(index) <= self.at);
        let mut low = base.saturating_add(height);
        layer.cover(born, &mut |part| {
            low = match part {
                Part::Node { level, node } => self.node(level, node, low),
                Part::Single(place) => self.single(place, low),
            };
            // Whatever is stacked above the picture is not seen.
            !self.pen.is_full()
        });
        let Some((number, _)) = layer.envelope else { return low };
        let top = base.saturating_add(layer.held(self.at)).max(low);
        self.pen.up_to(top).fill(Cell::idle(number));
        top
    }

    fn earlier(&mut self, base: u64, live: usize, height: u64) {
        let sums = &self.layer.earlier_sums;
        let end_of = |place: usize| base.saturating_add(sums[place]) as f64;
        let (rows, first, start) = (self.pen.rows, self.pen.centre, self.pen.row);
        let mut place = sums.partition_point(|&sum| base.saturating_add(sum) as f64 <= first);
        for (row, cell) in (start..).zip(self.pen.up_to(base.saturating_add(height))) {
            while place + 1 < live && end_of(place) <= rows.centre(row) {
                place += 1;
            }
            if let Some(&index) = self.layer.earlier.get(place) {
                *cell = Cell::of(index);
            }
        }
    }

    /// Paints a node whose allocations are all born, from `low` up, and says how far it reaches.
    fn node(&mut self, level: usize, node: usize, low: u64) -> u64 {
        let live = self.layer.levels[level].live(node, self.at);
        let high = low.saturating_add(live);
        if self.pen.is_past(high) {
            return high;
        }
        let mut low = low;
        if level == 0 {
            for place in node * LEAF..(node + 1) * LEAF {
                low = self.single(place, low);
            }
        } else {
            for child in node * FANOUT..(node + 1) * FANOUT {
                low = self.node(level - 1, child, low);
            }
        }
        high
    }

    fn single(&mut self, place: usize, low: u64) -> u64 {
        let high = low.saturating_add(self.layer.live_bytes(self.measure, place, self.at));
        if !self.pen.is_past(high) {
            self.pen.up_to(high).fill(Cell::of(self.layer.order[place]));
        }
        high
    }
}
