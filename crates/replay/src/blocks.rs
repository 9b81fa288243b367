//! Every block of memory, split, handed out and merged as PyTorch does it.
//!
//! Blocks of a range are a doubly linked list in address order, and free blocks are found by their
//! first address: an allocation takes the free block that begins at its address, so each event costs
//! a look-up and a few links. The only result is the exact size of every allocation; the picture of
//! memory at a moment follows from those sizes.
//!
//! A trace with holes contradicts itself. Then the address of an allocation is taken as the truth: a
//! free block is always handed out from its start, so what lies before belongs to the block before;
//! and a block that something else is allocated inside has been freed unseen, or is smaller than
//! thought.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use vramscope_snapshot::{Action, EventIdx, EventTable, StreamId};

use crate::allocations::{AllocIdx, Moment};
use crate::pairing::Pairing;
use crate::ranges::{Range, RangeHistory};
use crate::rounding::{Rules, UNIT};

#[derive(Clone, Copy, Debug)]
struct Node {
    addr: u64,
    size: u64,
    prev: u32,
    next: u32,
    /// The allocation in it, [`FREE`], or [`END`] for the empty node that closes a range.
    owner: u32,
}

const NIL: u32 = u32::MAX;
const FREE: u32 = u32::MAX;
const END: u32 = u32::MAX - 1;

/// The list of a range: its first node, which keeps its place because merging keeps the left node, and
/// the node that closes it.
#[derive(Clone, Copy, Debug)]
struct List {
    stream: StreamId,
    end: u64,
    first: u32,
    close: u32,
}

/// Steps along lists after which the free blocks are kept in order too: looking them up costs little
/// then, but keeping them costs on every event, which only few traces need.
const STEPS_BEFORE_ORDER: u64 = 1 << 22;

/// Most further steps, per event and in all, before the map gives up on
/// contradictions: real traces need hardly any.
const STEPS_PER_EVENT: u64 = 64;
const STEPS_BASE: u64 = 1 << 22;

pub(crate) struct BlockMap<'a> {
    rules: &'a Rules,
    pairing: &'a mut Pairing,
    nodes: Vec<Node>,
    unused: Vec<u32>,
    free: HashMap<u64, u32>,
    /// The same by address, from the time on that it is worth it.
    free_in_order: Option<BTreeMap<u64, u32>>,
    lists: BTreeMap<u64, List>,
    /// The node of each allocation while it lives.
    place: Vec<u32>,
    steps: u64,
    steps_in_reserve: u64,
    /// Whether blocks are now split as in expandable segments: the setting may change while
    /// recording, and what kind of memory is taken next shows it.
    expandable: bool,
    /// Both kinds of memory are taken, so it is not certain when the setting changed.
    mixed: bool,
    now: EventIdx,
}

/// Gives every allocation its size.
pub(crate) fn assign_sizes(
    pairing: &mut Pairing,
    ranges: &RangeHistory,
    events: &EventTable,
    rules: &Rules,
    expandable: bool,
) {
    let kinds = ranges.changes.iter().filter(|change| change.held);
    let mut kinds = kinds.map(|change| change.range.expandable);
    let first_kind = kinds.next();
    let mixed = first_kind.is_some_and(|first| kinds.any(|kind| kind != first));
    let place = vec![NIL; pairing.allocations.len()];
    let mut map = BlockMap {
        rules,
        pairing,
        nodes: Vec::new(),
        unused: Vec::new(),
        free: HashMap::new(),
        free_in_order: None,
        lists: BTreeMap::new(),
        place,
        steps: STEPS_BEFORE_ORDER,
        steps_in_reserve: STEPS_BASE + STEPS_PER_EVENT * events.len() as u64,
        expandable: first_kind.unwrap_or(expandable),
        mixed,
        now: EventIdx(0),
    };
    map.start(ranges);
    map.run(ranges, events);
    map.settle();
}

impl BlockMap<'_> {
    /// The state before the first event: the ranges held, and in them the allocations from before.
    fn start(&mut self, ranges: &RangeHistory) {
        let allocations = &mut self.pairing.allocations;
        let mut earlier: Vec<AllocIdx> = (0..allocations.len() as u32)
            .map(AllocIdx)
            .filter(|index| allocations.opened[index.index()] == Moment::START)
            .collect();
        earlier.sort_by_key(|index| allocations.addr[index.index()]);
        let mut earlier = earlier.into_iter().peekable();
        for range in ranges.start.iter() {
            while earlier.next_if(|index| self.pairing.allocations.addr[index.index()] < range.addr).is_some()
            {
            }
            let close = self.new_list(range);
            let mut at = range.addr;
            while let Some(index) =
                earlier.next_if(|index| self.pairing.allocations.addr[index.index()] < range.end())
            {
                let row = index.index();
                let addr = self.pairing.allocations.addr[row];
                if addr < at {
                    continue; // Overlaps the one before: only a damaged file has this.
                }
                let next = earlier.peek().map_or(range.end(), |next| {
                    self.pairing.allocations.addr[next.index()].clamp(addr, range.end())
                });
                let size = self.earlier_size(index, next - addr, range.expandable);
                self.push_free(close, at, addr - at);
                let node = self.push_before(close, addr, size, index.0);
                self.place[row] = node;
                at = addr + size;
            }
            self.push_free(close, at, range.end().saturating_sub(at));
        }
    }

    /// The size of a block from before the trace, with `room` bytes up to the next. If it is live at
    /// the end the file has it. Otherwise it follows from the request, except for large blocks, which
    /// may hold up to 1 MiB more: then room that no block of its own could fill is part of it.
    fn earlier_size(&mut self, index: AllocIdx, room: u64, expandable: bool) -> u64 {
        let row = index.index();
        if let Some(&size) = self.pairing.final_sizes.get(&index.0) {
            return size.min(room);
        }
        let rounded = self.rules.round(self.pairing.allocations.requested[row]);
        let size = self.rules.taken(rounded, room, expandable).min(room);
        let certain = self.rules.is_certain(rounded, expandable) || (size == room && rounded <= room);
        self.pairing.allocations.estimated.set(row, (!certain).into());
        size
    }

    fn run(&mut self, ranges: &RangeHistory, events: &EventTable) {
        let mut lost = std::mem::take(&mut self.pairing.lost_ends);
        let mut next_lost = 0;
        let links = std::mem::take(&mut self.pairing.links);
        for (row, (&link, action)) in links.iter().zip(events.actions()).enumerate() {
            let event = EventIdx::from_index(row);
            self.now = event;
            while let Some(&(at, index)) = lost.get(next_lost)
                && at <= event
            {
                self.free(index);
                next_lost += 1;
            }
            if let Some(segment) = link.as_segment() {
                let Some(change) = ranges.changes.get(segment) else { continue };
                if change.held {
                    self.expandable = change.range.expandable;
                    self.hold(&change.range);
                } else {
                    self.give_back(&change.range);
                }
            } else if let Some(index) = link.as_allocation() {
                let now = Moment::after(event);
                if action == Action::Alloc {
                    self.allocate(index);
                } else if self.pairing.allocations.closed[index.index()] == now {
                    self.free(index);
                }
            }
        }
        self.pairing.links = links;
        // What was found out on the way joins what was known before, in the order of the events.
        lost.append(&mut self.pairing.lost_ends);
        lost.sort_unstable();
        lost.dedup();
        self.pairing.lost_ends = lost;
    }

    /// Allocations that are live at the end have the size that the file gives them; others that never
    /// found a place have at least what they asked for.
    fn settle(&mut self) {
        let Pairing { allocations, final_sizes, facts, .. } = &mut *self.pairing;
        let placed = allocations.size.to_mut();
        for (row, size) in placed.iter_mut().enumerate().filter(|(_, size)| **size == 0) {
            if !final_sizes.contains_key(&(row as u32)) {
                *size = self.rules.round(allocations.requested[row]);
                allocations.estimated.set(row, 1);
            }
        }
        for (&row, &size) in &*final_sizes {
            let row = row as usize;
            let replayed = std::mem::replace(&mut placed[row], size);
            if replayed != size && allocations.opened[row] != Moment::START {
                facts.differing += 1;
                facts.differing_bytes = facts.differing_bytes.saturating_add(replayed.abs_diff(size));
            }
            allocations.estimated.set(row, 0);
        }
    }

    fn allocate(&mut self, index: AllocIdx) {
        let row = index.index();
        let addr = self.pairing.allocations.addr[row];
        let rounded = self.rules.round(self.pairing.allocations.requested[row]);
        let Some(node) = self.take_free(addr).or_else(|| self.make_room_at(addr)) else {
            self.contradiction();
            return;
        };
        let least = self.pairing.allocations.requested[row].max(1).next_multiple_of(UNIT);
        if self.nodes[node as usize].size < rounded {
            if self.nodes[node as usize].size < least {
                self.make_room_after(node, least);
            }
            self.adjusted(index);
        }
        let block = self.nodes[node as usize];
        let taken = self.rules.taken(rounded, block.size, self.expandable);
        if self.mixed && taken != self.rules.taken(rounded, block.size, !self.expandable) {
            self.adjusted(index);
        }
        if taken < block.size {
            let rest = self.insert_after(node, block.addr + taken, block.size - taken, FREE);
            self.add_free(block.addr + taken, rest);
        }
        let place = &mut self.nodes[node as usize];
        place.size = taken;
        place.owner = index.0;
        self.place[row] = node;
        self.pairing.allocations.size[row] = taken;
    }

    fn free(&mut self, index: AllocIdx) {
        let node = std::mem::replace(&mut self.place[index.index()], NIL);
        if node == NIL {
            return;
        }
        let Node { addr, size, prev, .. } = self.nodes[node as usize];
        self.nodes[node as usize].owner = FREE;
        self.pairing.allocations.size[index.index()] = size;
        if prev != NIL && self.nodes[prev as usize].owner == FREE {
            // The block before takes it in, and what follows if that is free too.
            self.unlink(node);
            self.nodes[prev as usize].size += size;
            self.merge_with_next(prev);
        } else {
            self.add_free(addr, node);
            self.merge_with_next(node);
        }
    }

    /// Joins a free block with a free block after it.
    fn merge_with_next(&mut self, node: u32) {
        let left = self.nodes[node as usize];
        if left.owner != FREE || left.next == NIL {
            return;
        }
        let right = self.nodes[left.next as usize];
        if right.owner != FREE {
            return;
        }
        self.take_free(right.addr);
        self.unlink(left.next);
        self.nodes[node as usize].size += right.size;
    }

    fn hold(&mut self, range: &Range) {
        let before = self.lists.range(..=range.addr).next_back().map(|(&start, &list)| (start, list));
        if range.size == 0
            || range.addr.checked_add(range.size).is_none()
            || before.is_some_and(|(_, list)| list.end > range.addr)
            || self.lists.range(range.addr..range.end()).next().is_some()
        {
            self.contradiction();
            return;
        }
        // As in `RangeSet`: mapped ranges of one stream join.
        let joins = |list: &List| range.expandable && list.stream == range.stream;
        let left = before.filter(|(_, list)| list.end == range.addr && joins(list));
        let right = self.lists.get(&range.end()).copied().filter(joins);
        let (start, close) = match left {
            Some((start, list)) => (start, list.close),
            None => (range.addr, self.new_list(range)),
        };
        let node = self.push_before(close, range.addr, range.size, FREE);
        self.add_free(range.addr, node);
        if let Some(list) = self.lists.get_mut(&start) {
            list.end = range.end();
            if list.first == NIL {
                list.first = node;
            }
        }
        if let Some(right) = right {
            // The left list goes on with the nodes of the right one, up to its end.
            self.unlink(close);
            let nodes = &mut self.nodes;
            nodes[node as usize].next = right.first;
            if right.first != NIL {
                nodes[right.first as usize].prev = node;
            }
            self.lists.remove(&range.end());
            if let Some(list) = self.lists.get_mut(&start) {
                list.end = right.end;
                list.close = right.close;
            }
            self.merge_with_next(node);
        }
        let prev = self.nodes[node as usize].prev;
        if prev != NIL {
            self.merge_with_next(prev);
        }
    }

    fn give_back(&mut self, range: &Range) {
        let found = self.lists.range(..=range.addr).next_back().map(|(&start, &list)| (start, list));
        let Some((start, list)) = found.filter(|(_, list)| range.end() <= list.end) else {
            self.contradiction();
            return;
        };
        let Some(node) = self.find(&list, range.addr) else {
            self.contradiction();
            return;
        };
        // Whatever still lives there must have been freed unseen.
        self.free_range(node, range.end());
        let Some(node) = self.find(&list, range.addr) else { return };
        let block = self.nodes[node as usize];
        if block.owner != FREE || block.addr + block.size < range.end() {
            self.contradiction();
            return;
        }
        self.take_free(block.addr);
        let before = range.addr - block.addr;
        let after = block.addr + block.size - range.end();
        // The part of the list from here on becomes a list of its own, or nothing.
        let mut rest = block.next;
        if after > 0 {
            rest = self.insert_after(node, range.end(), after, FREE);
            self.add_free(range.end(), rest);
        }
        let prev = block.prev;
        let left_close = self.new_node(Node { addr: range.addr, size: 0, prev: NIL, next: NIL, owner: END });
        let last_left = if before > 0 {
            self.nodes[node as usize].size = before;
            self.add_free(block.addr, node);
            node
        } else {
            self.unused.push(node);
            prev
        };
        self.nodes[rest as usize].prev = NIL;
        self.nodes[left_close as usize].prev = last_left;
        self.lists.remove(&start);
        if last_left == NIL {
            self.unused.push(left_close);
        } else {
            self.nodes[last_left as usize].next = left_close;
            self.lists.insert(start, List { end: range.addr, close: left_close, ..list });
        }
        if rest == list.close {
            self.unused.push(rest);
        } else {
            self.lists.insert(range.end(), List { first: rest, ..list });
        }
    }

    #[inline]
    fn add_free(&mut self, addr: u64, node: u32) {
        self.free.insert(addr, node);
        if let Some(in_order) = &mut self.free_in_order {
            in_order.insert(addr, node);
        }
    }

    #[inline]
    fn take_free(&mut self, addr: u64) -> Option<u32> {
        if let Some(in_order) = &mut self.free_in_order {
            in_order.remove(&addr);
        }
        self.free.remove(&addr)
    }

    /// One step along a list, if there are any left.
    fn step(&mut self) -> Option<()> {
        if self.steps == 0 {
            if self.free_in_order.is_none() {
                self.free_in_order = Some(self.free.iter().map(|(&addr, &node)| (addr, node)).collect());
            }
            self.steps = std::mem::take(&mut self.steps_in_reserve);
        }
        self.steps = self.steps.checked_sub(1)?;
        Some(())
    }

    /// The node that contains an address.
    fn find(&mut self, list: &List, addr: u64) -> Option<u32> {
        if let Some(&node) = self.free.get(&addr) {
            return Some(node);
        }
        let mut node = list.first;
        if node != NIL
            && let Some(in_order) = &self.free_in_order
            && let Some((&start, &free)) = in_order.range(..=addr).next_back()
            && start >= self.nodes[node as usize].addr
        {
            // The free block before it, if not the one around it, is as good a place to begin.
            node = free;
        }
        while node != NIL {
            self.step()?;
            let block = self.nodes[node as usize];
            if block.owner == END {
                return None;
            }
            if addr < block.addr + block.size {
                return (block.addr <= addr).then_some(node);
            }
            node = block.next;
        }
        None
    }

    /// A free block that begins at an address where none does: see the head of this file. The block
    /// is no longer among the free ones.
    fn make_room_at(&mut self, addr: u64) -> Option<u32> {
        let (_, &list) = self.lists.range(..=addr).next_back().filter(|(_, list)| addr < list.end)?;
        let node = self.find(&list, addr)?;
        let block = self.nodes[node as usize];
        let offset = addr - block.addr;
        if block.owner == FREE {
            // The block before is larger than thought, if it can be.
            let prev = block.prev;
            self.take_free(block.addr);
            let rest = self.insert_after(node, addr, block.size - offset, FREE);
            self.nodes[node as usize].size = offset;
            if prev != NIL && self.nodes[prev as usize].owner < END {
                self.nodes[prev as usize].size += offset;
                let owner = AllocIdx(self.nodes[prev as usize].owner);
                self.pairing.allocations.size[owner.index()] = self.nodes[prev as usize].size;
                self.adjusted(owner);
                self.unlink(node);
            } else {
                self.contradiction();
                self.add_free(block.addr, node);
            }
            return Some(rest);
        }
        let owner = AllocIdx(block.owner);
        if offset > 0
            && offset.is_multiple_of(UNIT)
            && self.pairing.allocations.requested[owner.index()] <= offset
        {
            // It is smaller than thought.
            let rest = self.insert_after(node, addr, block.size - offset, FREE);
            self.nodes[node as usize].size = offset;
            self.pairing.allocations.size[owner.index()] = offset;
            self.adjusted(owner);
            self.add_free(addr, rest);
            self.merge_with_next(rest);
            return self.take_free(addr);
        }
        self.lose(block.owner);
        if let Some(node) = self.take_free(addr) {
            return Some(node);
        }
        // The block has merged with a free one before it.
        let (_, &list) = self.lists.range(..=addr).next_back()?;
        let node = self.find(&list, addr)?;
        let block = self.nodes[node as usize];
        if block.owner != FREE || addr <= block.addr {
            return None;
        }
        let rest = self.insert_after(node, addr, block.addr + block.size - addr, FREE);
        self.nodes[node as usize].size = addr - block.addr;
        Some(rest)
    }

    /// Makes a block that was taken off the free ones long enough, by freeing what follows.
    fn make_room_after(&mut self, node: u32, wanted: u64) {
        loop {
            let block = self.nodes[node as usize];
            let next = block.next;
            if block.size >= wanted || next == NIL || self.step().is_none() {
                return;
            }
            let following = self.nodes[next as usize];
            match following.owner {
                END => return,
                FREE => {
                    self.take_free(following.addr);
                    self.unlink(next);
                    self.nodes[node as usize].size += following.size;
                }
                // The block counts as free until it is handed out, so the freed one merges into it.
                owner => self.lose(owner),
            }
        }
    }

    /// Frees what lives between a node and an address.
    fn free_range(&mut self, first: u32, end: u64) {
        let mut owners = Vec::new();
        let mut node = first;
        while node != NIL && self.step().is_some() {
            let block = self.nodes[node as usize];
            if block.owner == END || block.addr >= end {
                break;
            }
            if block.owner != FREE {
                owners.push(block.owner);
            }
            node = block.next;
        }
        for owner in owners {
            self.contradiction();
            self.lose(owner);
        }
    }

    /// Ends an allocation here, because something else shows that it has ended.
    fn lose(&mut self, owner: u32) {
        let index = AllocIdx(owner);
        if self.pairing.final_sizes.contains_key(&owner) {
            // The file says that it lives on, so its place is the error.
            self.contradiction();
            self.free(index);
            return;
        }
        let allocations = &mut self.pairing.allocations;
        allocations.end(index, Moment::after(self.now));
        self.pairing.facts.lost_frees += 1;
        let bytes = &mut self.pairing.facts.lost_free_bytes;
        *bytes = bytes.saturating_add(allocations.requested[index.index()]);
        self.pairing.lost_ends.push((self.now, index));
        self.free(index);
    }

    /// The rules alone do not give the size of this one.
    fn adjusted(&mut self, index: AllocIdx) {
        self.pairing.facts.adjusted += 1;
        self.pairing.allocations.estimated.set(index.index(), 1);
    }

    fn contradiction(&mut self) {
        self.pairing.facts.contradictions += 1;
    }

    fn new_list(&mut self, range: &Range) -> u32 {
        let close = self.new_node(Node { addr: range.end(), size: 0, prev: NIL, next: NIL, owner: END });
        self.lists.insert(range.addr, List { stream: range.stream, end: range.end(), first: NIL, close });
        close
    }

    fn push_free(&mut self, close: u32, addr: u64, size: u64) {
        if size > 0 {
            let node = self.push_before(close, addr, size, FREE);
            self.add_free(addr, node);
        }
    }

    /// Adds a node at the end of a list.
    fn push_before(&mut self, close: u32, addr: u64, size: u64, owner: u32) -> u32 {
        let prev = self.nodes[close as usize].prev;
        let node = self.new_node(Node { addr, size, prev, next: close, owner });
        self.nodes[close as usize].prev = node;
        if prev == NIL {
            if let Some((_, list)) = self.lists.range_mut(..=addr).next_back() {
                list.first = node;
            }
        } else {
            self.nodes[prev as usize].next = node;
        }
        node
    }

    fn insert_after(&mut self, node: u32, addr: u64, size: u64, owner: u32) -> u32 {
        let next = self.nodes[node as usize].next;
        let new = self.new_node(Node { addr, size, prev: node, next, owner });
        self.nodes[node as usize].next = new;
        if next != NIL {
            self.nodes[next as usize].prev = new;
        }
        new
    }

    fn new_node(&mut self, node: Node) -> u32 {
        if let Some(unused) = self.unused.pop() {
            self.nodes[unused as usize] = node;
            return unused;
        }
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    fn unlink(&mut self, node: u32) {
        let Node { prev, next, .. } = self.nodes[node as usize];
        if prev != NIL {
            self.nodes[prev as usize].next = next;
        }
        if next != NIL {
            self.nodes[next as usize].prev = prev;
        }
        self.unused.push(node);
    }
}
