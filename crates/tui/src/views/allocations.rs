//! Live allocations one by one: all of them, or those below a call.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use vramscope_analysis::query::Pattern;
use vramscope_analysis::{AllocIdx, Moment, Place};
use vramscope_format::{count, elide_place, fit, plural, size};

use super::{matches_frame, put, row_of, select, share_cell};
use crate::calls::{Calls, Detail};
use crate::document::Subject;
use crate::keys::Action;
use crate::list::List;
use crate::live::{Live, Members};
use crate::outline::Outline;
use crate::pane::{Pane, Reply, act_in_list};
use crate::theme::{Role, Theme};

/// The order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    #[default]
    Size,
    Oldest,
    Newest,
    Address,
}

impl Order {
    const fn name(self) -> &'static str {
        match self {
            Self::Size => "largest first",
            Self::Oldest => "oldest first",
            Self::Newest => "newest first",
            Self::Address => "by address",
        }
    }

    const fn next(self) -> Self {
        match self {
            Self::Size => Self::Oldest,
            Self::Oldest => Self::Newest,
            Self::Newest => Self::Address,
            Self::Address => Self::Size,
        }
    }
}

/// Part of a tree: the places that lead to it, and whether only what is its own.
type Below = (Vec<Place>, bool);

#[derive(Debug, Default)]
pub(crate) struct Allocations {
    pub(crate) rows: Vec<AllocIdx>,
    pub(crate) list: List,
    order: Order,
    below: Below,
    /// What the rows were made for.
    made_for: Option<(Moment, Order, Below, u64)>,
    wanted: Option<AllocIdx>,
    pub(crate) found: Option<Pattern>,
}

impl Allocations {
    pub(crate) fn show_below(&mut self, below: Below) {
        if below != self.below {
            self.below = below;
            self.list = List::default();
        }
    }

    /// Selects an allocation when the rows are known, among all of them.
    pub(crate) fn choose(&mut self, index: AllocIdx) {
        self.below = Below::default();
        self.wanted = Some(index);
    }

    pub(crate) fn selected(&self) -> Option<AllocIdx> {
        self.rows.get(self.list.selected).copied()
    }

    pub(crate) fn refresh(
        &mut self,
        subject: Subject<'_>,
        live: &Live,
        members: &Members,
        outline: &Outline,
        height: usize,
    ) {
        let key = (live.state.at, self.order, self.below.clone(), live.total.bytes ^ live.total.count);
        if self.made_for.as_ref() != Some(&key) {
            let kept = self.selected();
            let node = outline.find(&self.below.0);
            self.rows = members.of(outline, node, self.below.1).iter().map(|&(_, index)| index).collect();
            let replay = subject.replay();
            match self.order {
                Order::Size => self.rows.sort_by_cached_key(|&index| {
                    (std::cmp::Reverse(replay.allocation(index).requested), index)
                }),
                Order::Oldest => {
                    self.rows.sort_unstable_by_key(|&index| (replay.allocation(index).opened, index));
                }
                Order::Newest => self.rows.sort_unstable_by_key(|&index| {
                    std::cmp::Reverse((replay.allocation(index).opened, index))
                }),
                Order::Address => {
                    self.rows.sort_unstable_by_key(|&index| (replay.allocation(index).addr, index));
                }
            }
            self.wanted = self.wanted.or(kept);
            self.made_for = Some(key);
        }
        if let Some(wanted) = self.wanted.take()
            && let Some(row) = self.rows.iter().position(|&index| index == wanted)
        {
            self.list.selected = row;
        }
        self.list.scroll(self.rows.len(), height);
    }

    pub(crate) fn act(&mut self, action: Action, height: isize) -> Reply {
        match action {
            Action::Sort => {
                self.order = self.order.next();
                Reply::Say(self.order.name().into())
            }
            _ => act_in_list(&mut self.list, self.rows.len(), action, height),
        }
    }

    /// Goes to the next allocation whose line matches, around the end.
    pub(crate) fn go_to_match(&mut self, subject: Subject<'_>, forwards: bool, is_here: bool) -> bool {
        let (Some(pattern), len) = (&self.found, self.rows.len()) else { return false };
        let snapshot = subject.snapshot();
        // Many allocations share a stack: each is looked at once.
        let mut known = hashbrown::HashMap::new();
        let mut is_match = |row: usize| {
            let stack = subject.replay().allocation(self.rows[row]).stack;
            *known.entry(stack).or_insert_with(|| {
                snapshot.frames(stack).any(|frame| matches_frame(pattern, snapshot, frame))
            })
        };
        let start = usize::from(!is_here);
        let found = (start..=len).map(|step| match forwards {
            true => (self.list.selected + step) % len.max(1),
            false => (self.list.selected + len - step % len.max(1)) % len.max(1),
        });
        let found = found.filter(|&row| row < len).find(|&row| is_match(row));
        if let Some(row) = found {
            self.list.selected = row;
        }
        found.is_some()
    }
}

/// How much is shown about the selected allocation: the list alone says too little.
pub(crate) fn detail(calls: &Calls) -> Detail {
    if calls.detail == Detail::All { Detail::All } else { Detail::Some }
}

pub(crate) fn draw(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    let (rows, info) = super::tree::layout(area, detail(&pane.calls));
    let view = &pane.allocations;
    let subject = pane.subject();
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    super::tree::draw_moment(buffer, row_of(rows, 0), pane, theme);
    let names = super::Names::Snapshot(subject.snapshot());
    let scope = view.below.0.last().map_or("all".into(), |&place| format!("below {}", names.short(place)));
    let words = format!("{}, {}, {scope}", plural(view.rows.len(), "allocation"), view.order.name());
    put(buffer, row_of(rows, 1), rows.x, rows.y + 1, &fit(&words, rows.width.into()), dim);
    let header = format!("{:>10}  {:>5}  {:>9}  {:>10}  where", "requested", "total", "allocated", "freed");
    put(buffer, row_of(rows, 2), rows.x, rows.y + 2, &header, dim);
    let list = Rect { y: rows.y + 3, height: rows.height.saturating_sub(3), ..rows };
    let total = pane.scope.live.as_ref().map_or(0, |live| live.total.bytes);
    for row in 0..list.height {
        let Some(at) = view.list.at(row, view.rows.len()) else { break };
        let allocation = subject.replay().allocation(view.rows[at]);
        let born = allocation.opened.event().map_or("before".into(), |event| count(event.0));
        let freed = match allocation.released {
            Moment::NEVER => "never".into(),
            released if released <= pane.scope.at => "awaits".into(),
            released => released.event().map_or("before".into(), |event| count(event.0)),
        };
        let share = allocation.requested as f64 / total.max(1) as f64;
        let line = row_of(list, row);
        let numbers =
            format!("{:>10}  {}", size(allocation.requested), share_cell(allocation.requested, total));
        let x = put(buffer, line, line.x, line.y, &numbers, theme.style(Role::Heat(share)));
        let x = put(buffer, line, x, line.y, &format!("  {born:>9}  {freed:>10}  "), dim);
        let room = usize::from(line.right().saturating_sub(x));
        put(buffer, line, x, line.y, &elide_place(&subject.place(allocation.stack), room), text);
        if at == view.list.selected {
            select(buffer, line, theme);
        }
    }
    if view.rows.is_empty() {
        put(buffer, list, list.x + 2, list.y, pane.scope.nothing(), dim);
    }
    if let Some(facts) = pane.calls.info.as_ref().filter(|_| info.height > 0) {
        super::info::draw(buffer, info, info.y == rows.y, facts, theme);
    }
}
