//! All files that were named: the ranks of a run side by side.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use vramscope_analysis::Counter;
use vramscope_files::{Input, Opened};
use vramscope_snapshot::DeviceId;

use super::{put, row_of};
use crate::keys::Action;
use crate::list::List;
use crate::pane::{Reply, act_in_list};
use crate::theme::{Role, Theme};
use crate::words::{bytes, change, count, fit, fit_end, plural, printable, signed};

/// A rank stands out if it is off the median by more than this share and this many bytes.
const SHARE: f64 = 0.05;
const LEAST_BYTES: i64 = 8 << 20;

/// What is known of a file: that of the device with the longest trace.
#[derive(Clone, Debug)]
pub struct Figures {
    pub(crate) device: DeviceId,
    pub(crate) events: usize,
    pub(crate) peak: i64,
    pub(crate) end: i64,
    pub(crate) reserved: i64,
    pub(crate) gap: i64,
    pub(crate) ooms: usize,
    pub(crate) verdict: &'static str,
}

impl Figures {
    /// The figures of a file; `None` if nothing was allocated.
    pub fn new(opened: &Opened) -> Option<Self> {
        let is_host = |device| device == DeviceId::HOST;
        let replay = opened
            .replays
            .iter()
            .max_by_key(|replay| (!is_host(replay.device()), replay.events(), -replay.device().0))?;
        let peak = replay.peak(Counter::Requested);
        Some(Self {
            device: replay.device(),
            events: replay.events(),
            peak: peak.bytes,
            end: replay.counters(replay.end()).requested,
            reserved: replay.peak(Counter::Reserved).bytes,
            gap: replay.counters(peak.at).reserved.saturating_sub(peak.bytes),
            ooms: replay.ooms().len(),
            verdict: replay.verdict().status.name(),
        })
    }
}

/// How far a file is.
#[derive(Clone, Debug)]
pub(crate) enum Progress {
    Waiting,
    Failed(String),
    Known(Figures),
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) input: Input,
    pub(crate) progress: Progress,
}

impl Row {
    pub(crate) fn title(&self) -> String {
        let path = self.input.path.to_string_lossy();
        printable(&path)
    }

    fn rank(&self) -> String {
        match self.input.name.rank {
            Some((kind, number)) => format!("{} {number}", kind.label()),
            None => String::new(),
        }
    }

    pub(crate) fn figures(&self) -> Option<&Figures> {
        match &self.progress {
            Progress::Known(figures) => Some(figures),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    #[default]
    Name,
    Peak,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ranks {
    pub(crate) rows: Vec<Row>,
    /// Rows in the order in which they are shown.
    shown: Vec<usize>,
    order: Order,
    pub(crate) list: List,
}

impl Ranks {
    pub(crate) fn new(inputs: Vec<Input>) -> Self {
        let rows: Vec<_> =
            inputs.into_iter().map(|input| Row { input, progress: Progress::Waiting }).collect();
        Self { shown: (0..rows.len()).collect(), rows, ..Self::default() }
    }

    pub(crate) fn refresh(&mut self, height: usize) {
        self.shown = (0..self.rows.len()).collect();
        if self.order == Order::Peak {
            let peak = |row: usize| self.rows[row].figures().map_or(i64::MIN, |figures| figures.peak);
            let mut shown = std::mem::take(&mut self.shown);
            shown.sort_by_key(|&row| std::cmp::Reverse(peak(row)));
            self.shown = shown;
        }
        self.list.scroll(self.shown.len(), height);
    }

    /// The selected row of `rows`.
    pub(crate) fn selected(&self) -> Option<usize> {
        self.shown.get(self.list.selected).copied()
    }

    pub(crate) fn act(&mut self, action: Action, height: isize) -> Reply {
        if action == Action::Sort {
            let (order, words) = match self.order {
                Order::Name => (Order::Peak, "highest peak first"),
                Order::Peak => (Order::Name, "by name"),
            };
            self.order = order;
            return Reply::Say(words.into());
        }
        act_in_list(&mut self.list, self.rows.len(), action, height)
    }

    /// The lower median of what the ranks of the same run have; `None` if they are too few to compare.
    fn median(&self, row: &Row, value: fn(&Figures) -> i64) -> Option<i64> {
        let name = &row.input.name;
        let same_run = self.rows.iter().filter(|other| {
            let other = &other.input.name;
            (&other.group, other.step, other.oom) == (&name.group, name.step, name.oom)
        });
        let mut values: Vec<i64> = same_run.filter_map(Row::figures).map(value).collect();
        values.sort_unstable();
        (values.len() >= 3).then(|| values[(values.len() - 1) / 2])
    }

    /// How far a rank is off the others, if it stands out.
    fn off(&self, row: &Row, value: fn(&Figures) -> i64) -> Option<i64> {
        let (own, median) = (value(row.figures()?), self.median(row, value)?);
        let off = own.saturating_sub(median);
        (off.abs() >= LEAST_BYTES && off.abs() as f64 >= median.max(1) as f64 * SHARE).then_some(off)
    }
}

pub(crate) fn draw(buffer: &mut Buffer, area: Rect, ranks: &Ranks, open: &[&std::path::Path], theme: &Theme) {
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let known = ranks.rows.iter().filter(|row| row.figures().is_some()).count();
    let words = match known {
        n if n == ranks.rows.len() => plural(n, "file"),
        n => format!("{} of {} read", count(n as u64), plural(ranks.rows.len(), "file")),
    };
    put(buffer, area, area.x, area.y, &words, text);
    let header = format!(
        "  {:8} {:>10}  {:>10}  {:>10}  {:>10}  {:>4}  verdict",
        "rank", "peak", "end", "reserved", "gap", "oom"
    );
    put(buffer, row_of(area, 1), area.x, area.y + 1, &header, dim);
    let list = Rect { y: area.y + 2, height: area.height.saturating_sub(3), ..area };
    let highest =
        ranks.rows.iter().filter_map(Row::figures).map(|figures| figures.peak).max().unwrap_or(1).max(1);
    for number in 0..list.height {
        let Some(at) = ranks.list.at(number, ranks.shown.len()) else { break };
        let row = &ranks.rows[ranks.shown[at]];
        let line = row_of(list, number);
        let is_open = open.contains(&row.input.path.as_path());
        let mark = if is_open { "● " } else { "  " };
        let x = put(buffer, line, line.x, line.y, mark, theme.style(Role::Accent));
        let x = put(buffer, line, x, line.y, &format!("{:8} ", fit(&row.rank(), 8)), text);
        match &row.progress {
            Progress::Waiting => {
                put(buffer, line, x, line.y, "…", dim);
            }
            Progress::Failed(why) => {
                put(
                    buffer,
                    line,
                    x,
                    line.y,
                    &fit(why, line.right().saturating_sub(x).into()),
                    theme.style(Role::Danger),
                );
            }
            Progress::Known(figures) => {
                let off =
                    ranks.off(row, |figures| figures.peak).or_else(|| ranks.off(row, |figures| figures.end));
                let numbers = format!(
                    "{:>10}  {:>10}  {:>10}  {:>10}  ",
                    signed(figures.peak),
                    signed(figures.end),
                    signed(figures.reserved),
                    signed(figures.gap)
                );
                let style = if off.is_some() { theme.style(Role::Warm) } else { text };
                let x = put(buffer, line, x, line.y, &numbers, style);
                let oom = if figures.ooms > 0 { theme.style(Role::Danger) } else { dim };
                let x = put(buffer, line, x, line.y, &format!("{:>4}  ", figures.ooms), oom);
                let x = put(buffer, line, x, line.y, &format!("{:14}  ", figures.verdict), dim);
                let room = f64::from(line.right().saturating_sub(x + 12)).min(40.0);
                let cells = (figures.peak.max(0) as f64 / highest as f64 * room).round() as usize;
                let x = put(buffer, line, x, line.y, &"█".repeat(cells), theme.style(Role::Bar));
                if let Some(off) = off {
                    put(buffer, line, x + 1, line.y, &format!("▲ {}", change(off)), theme.style(Role::Warm));
                }
            }
        }
        if at == ranks.list.selected {
            buffer.set_style(line, theme.style(Role::Selected));
        }
    }
    if let Some(row) = ranks.selected().and_then(|row| ranks.rows.get(row)) {
        let foot = row_of(area, area.height.saturating_sub(1));
        let size = row.input.path.metadata().map_or(String::new(), |data| format!("  {}", bytes(data.len())));
        let words = fit_end(&format!("{}{size}", row.title()), area.width.into());
        put(buffer, foot, foot.x, foot.y, &words, dim);
    }
}
