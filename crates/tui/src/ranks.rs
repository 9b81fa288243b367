//! All files that were named: how far each is read, in which order they are listed, and the heat map of many.

use std::collections::BTreeSet;

use ratatui::layout::Rect;
use vramscope_analysis::HeatMap;
use vramscope_engine::{Figures, Fleet};
use vramscope_files::Input;
use vramscope_format::{Units, count, plural, printable};

use crate::keys::Action;
use crate::list::List;
use crate::pane::{Reply, act_in_list};
use crate::views::ranks::Places;

/// How far a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Waiting,
    Failed(String),
    Known,
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) input: Input,
    /// What it is called in the list: unlike any other.
    pub(crate) label: String,
    pub(crate) progress: Progress,
}

impl Row {
    pub(crate) fn title(&self) -> String {
        printable(&self.input.path.to_string_lossy())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    /// By name; of many, those that stand out first.
    #[default]
    Name,
    Peak,
}

/// What a heat map was made of: how many ranks, the selected one, rows and columns.
type MadeOf = (usize, usize, (usize, usize));

#[derive(Clone, Debug, Default)]
pub(crate) struct Ranks {
    pub(crate) rows: Vec<Row>,
    /// What is known of each row.
    pub(crate) fleet: Fleet,
    /// Rows of which nothing is known yet.
    waiting: usize,
    /// Rows in the order in which they are shown, and what that was made of.
    pub(crate) shown: Vec<usize>,
    shown_for: Option<(Order, usize)>,
    order: Order,
    pub(crate) list: List,
    pub(crate) heat: Option<HeatMap>,
    heat_for: Option<MadeOf>,
}

impl Ranks {
    pub(crate) fn new(inputs: Vec<Input>) -> Self {
        let labels = labels(&inputs);
        let fleet = Fleet::new(inputs.iter().map(|input| input.name.clone()));
        let row = |(input, label)| Row { input, label, progress: Progress::Waiting };
        let rows: Vec<_> = inputs.into_iter().zip(labels).map(row).collect();
        Self { waiting: rows.len(), fleet, rows, ..Self::default() }
    }

    /// Whether there are too many for a row each.
    pub(crate) fn is_many(&self) -> bool {
        self.rows.len() > Fleet::MANY
    }

    /// Whether any file is still to be read.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Takes what is known of a file now.
    pub(crate) fn set(&mut self, number: usize, figures: Result<Figures, String>) {
        let Some(row) = self.rows.get_mut(number) else { return };
        self.waiting -= usize::from(row.progress == Progress::Waiting);
        match figures {
            Ok(figures) => {
                self.fleet.set(number, figures);
                row.progress = Progress::Known;
            }
            Err(why) => row.progress = Progress::Failed(why),
        }
        self.fleet.compare(self.waiting == 0);
    }

    pub(crate) fn refresh(&mut self, body: Rect) {
        // The order of names stays as it is while few are read one by one.
        let key = (self.order, self.fleet.compared());
        if self.shown_for != Some(key) {
            let selected = self.selected().filter(|_| self.list.selected > 0);
            self.shown_for = Some(key);
            self.shown = match self.order {
                Order::Name if self.is_many() => self.fleet.odd_first().collect(),
                _ => (0..self.rows.len()).collect(),
            };
            if self.order == Order::Peak {
                let peak = |row: usize| self.fleet.figures(row).map_or(i64::MIN, |known| known.digest.peak);
                self.shown.sort_by_cached_key(|&row| std::cmp::Reverse(peak(row)));
            }
            // What was selected stays so, wherever it is now.
            let at = selected.and_then(|row| self.shown.iter().position(|&other| other == row));
            self.list.selected = at.unwrap_or(self.list.selected);
        }
        let places = Places::new(body, self);
        self.list.scroll(self.shown.len(), usize::from(places.list.height / places.lines));
        let Some(size) = places.cells().filter(|_| self.is_many()) else {
            self.heat = None;
            return;
        };
        let of = self.selected().unwrap_or(0);
        let key = (self.fleet.compared(), of, size);
        if self.heat_for != Some(key) {
            // The map of a run is the same for all of its ranks.
            let is_same_run = |(known, other, other_size): MadeOf| {
                let run = |row| self.fleet.name(row).map(|name| (&name.group, name.step, name.oom));
                (known, other_size) == (key.0, size) && run(other) == run(of)
            };
            if !self.heat_for.is_some_and(is_same_run) {
                self.heat = self.fleet.heat(of, size);
            }
            self.heat_for = Some(key);
        }
    }

    /// The selected row of `rows`.
    pub(crate) fn selected(&self) -> Option<usize> {
        self.shown.get(self.list.selected).copied()
    }

    /// Selects a row of `rows`.
    pub(crate) fn select(&mut self, row: usize) {
        if let Some(at) = self.shown.iter().position(|&other| other == row) {
            self.list.selected = at;
        }
    }

    pub(crate) fn act(&mut self, action: Action, height: isize) -> Reply {
        if action == Action::Sort {
            let (order, words) = match self.order {
                Order::Name => (Order::Peak, "highest peak first"),
                Order::Peak if self.is_many() => (Order::Name, "those that stand out first"),
                Order::Peak => (Order::Name, "by name"),
            };
            self.order = order;
            return Reply::Say(words.into());
        }
        act_in_list(&mut self.list, self.rows.len(), action, height)
    }

    /// `rank` where every file is one.
    pub(crate) fn noun(&self) -> &'static str {
        if self.fleet.are_ranks() { "rank" } else { "file" }
    }

    /// How many there are, and how many of them are read.
    pub(crate) fn how_many(&self) -> String {
        match self.fleet.known() {
            n if n == self.rows.len() => plural(n, self.noun()),
            n => format!("{} of {} read", count(n), plural(self.rows.len(), self.noun())),
        }
    }

    /// How many files there are, and which one stands out most; nothing to say about one alone.
    pub(crate) fn note(&self) -> Option<String> {
        let all = self.rows.len();
        if all < 2 {
            return None;
        }
        let number = plural(all, self.noun());
        let odd = self.fleet.odd();
        let label = |row: usize| self.rows.get(row).map_or("", |row| row.label.as_str());
        let most = odd.first().and_then(|&row| Some((row, self.fleet.outlier(row)?)));
        Some(match most {
            Some((row, outlier)) => {
                let more = match odd {
                    [] | [_] => String::new(),
                    [_, one] => format!("; so does {}", label(*one)),
                    [_, several @ ..] => format!("; so do {} others", count(several.len())),
                };
                format!("{number}: {} stands out, {}{more}", label(row), outlier.words(Units::Binary))
            }
            None if self.waiting > 0 => format!("{number}, {} of them read", count(all - self.waiting)),
            None if self.fleet.is_compared() => format!("{number}, none stands out"),
            None => number,
        })
    }
}

/// What each file is called, in as few words as tell it from the others: its role and rank or its file name, with
/// its step, or its path.
fn labels(inputs: &[Input]) -> Vec<String> {
    let short = |input: &Input| {
        let role = input.name.role.clone();
        let rank = Some(input.name.rank_text()).filter(|rank| !rank.is_empty());
        match (role, rank) {
            (role, Some(rank)) => role.into_iter().chain([rank]).collect::<Vec<_>>().join(" "),
            _ => input.path.file_name().unwrap_or(input.path.as_os_str()).to_string_lossy().into_owned(),
        }
    };
    let with_step = |input: &Input| match input.name.step {
        Some(step) => format!("{} step {step}", short(input)),
        None => short(input),
    };
    let path = |input: &Input| input.path.to_string_lossy().into_owned();
    let ways: [&dyn Fn(&Input) -> String; 2] = [&short, &with_step];
    let all = |way: &dyn Fn(&Input) -> String| inputs.iter().map(|input| printable(&way(input))).collect();
    let are_different = |labels: &Vec<String>| labels.iter().collect::<BTreeSet<_>>().len() == labels.len();
    ways.into_iter().map(all).find(are_different).unwrap_or_else(|| all(&path))
}
