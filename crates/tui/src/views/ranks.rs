//! All files that were named: the ranks of a run side by side.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;
use vramscope_analysis::{Counter, Outlier, RankDigest, compare_ranks, spans};
use vramscope_files::{Input, Opened};
use vramscope_snapshot::DeviceId;

use super::{put, row_of};
use crate::keys::Action;
use crate::list::List;
use crate::pane::{Reply, act_in_list};
use crate::theme::{Role, Theme};
use crate::words::{change, count, fit, fit_end, plural, printable, signed};

/// What is known of a file: that of the device with the longest trace.
#[derive(Clone, Debug)]
pub struct Figures {
    pub(crate) device: DeviceId,
    pub(crate) events: usize,
    pub(crate) digest: RankDigest,
    /// Whether the file tells how much is held from the driver.
    pub(crate) has_reserved: bool,
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
        let rank = opened.name.rank.map(|(_, number)| number);
        let spans = spans(&opened.snapshot, replay.device());
        let moments = (replay.peak(Counter::Requested), replay.end());
        let digest = RankDigest::new(rank, (&opened.snapshot, replay, &spans), moments, |_, _| true);
        Some(Self {
            digest,
            device: replay.device(),
            events: replay.events(),
            has_reserved: opened.snapshot.has_reserved(replay.device()),
            ooms: replay.ooms().len(),
            verdict: replay.verdict().status.name(),
        })
    }
}

impl Figures {
    pub(crate) fn reserved_peak(&self) -> Option<i64> {
        self.has_reserved.then_some(self.digest.reserved_peak)
    }

    pub(crate) fn gap(&self) -> Option<i64> {
        self.has_reserved.then_some(self.digest.gap)
    }
}

/// Bytes, where the file has them.
fn stated(n: Option<i64>) -> String {
    n.map_or_else(|| "not there".into(), signed)
}

/// How far a file is.
#[derive(Clone, Debug)]
pub(crate) enum Progress {
    Waiting,
    Failed(String),
    Known(Box<Figures>),
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

    /// `rank 3`, after its role where it has one: `actor_update rank 3`.
    fn rank(&self) -> String {
        let role = self.input.name.role.as_deref().map(printable);
        let rank = self.input.name.rank.map(|(kind, number)| format!("{} {number}", kind.label()));
        role.into_iter().chain(rank).collect::<Vec<_>>().join(" ")
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
    /// Who is unlike the others of its run, by row; the largest difference of each.
    outliers: Vec<(usize, Outlier)>,
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
            let peak = |row: usize| self.rows[row].figures().map_or(i64::MIN, |figures| figures.digest.peak);
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

    /// Compares the ranks of each run, as far as they are known.
    pub(crate) fn compare(&mut self) {
        let run = |row: &Row| {
            let name = &row.input.name;
            (name.group.clone(), name.step, name.oom)
        };
        let mut runs: std::collections::BTreeMap<_, Vec<usize>> = std::collections::BTreeMap::new();
        for (number, row) in self.rows.iter().enumerate().filter(|(_, row)| row.figures().is_some()) {
            runs.entry(run(row)).or_default().push(number);
        }
        self.outliers.clear();
        for rows in runs.into_values() {
            let figures = rows.iter().filter_map(|&row| self.rows[row].figures());
            let digests: Vec<RankDigest> = figures.map(|figures| figures.digest.clone()).collect();
            for outlier in compare_ranks(&digests).outliers {
                let row = rows[outlier.row];
                if self.outlier(row).is_none() {
                    self.outliers.push((row, outlier));
                }
            }
        }
    }

    fn outlier(&self, row: usize) -> Option<&Outlier> {
        self.outliers.iter().find(|(number, _)| *number == row).map(|(_, outlier)| outlier)
    }
}

/// Lines below the list: the path, and why a rank stands out.
const FOOT: u16 = 5;

pub(crate) fn draw(buffer: &mut Buffer, area: Rect, ranks: &Ranks, open: &[&std::path::Path], theme: &Theme) {
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let known = ranks.rows.iter().filter(|row| row.figures().is_some()).count();
    let words = match known {
        n if n == ranks.rows.len() => plural(n, "file"),
        n => format!("{} of {} read", count(n as u64), plural(ranks.rows.len(), "file")),
    };
    put(buffer, area, area.x, area.y, &words, text);
    let names = ranks.rows.iter().map(|row| row.rank().width()).max().unwrap_or_default();
    let names = names.clamp(8, usize::from(area.width / 4).max(8));
    let header = format!(
        "  {:names$} {:>10}  {:>10}  {:>10}  {:>10}  {:>4}  verdict",
        "rank", "peak", "end", "reserved", "gap", "oom"
    );
    put(buffer, row_of(area, 1), area.x, area.y + 1, &header, dim);
    let list = Rect { y: area.y + 2, height: area.height.saturating_sub(2 + FOOT), ..area };
    let highest = ranks
        .rows
        .iter()
        .filter_map(Row::figures)
        .map(|figures| figures.digest.peak)
        .max()
        .unwrap_or(1)
        .max(1);
    for number in 0..list.height {
        let Some(at) = ranks.list.at(number, ranks.shown.len()) else { break };
        let row = &ranks.rows[ranks.shown[at]];
        let line = row_of(list, number);
        let is_open = open.contains(&row.input.path.as_path());
        let mark = if is_open { "● " } else { "  " };
        let x = put(buffer, line, line.x, line.y, mark, theme.style(Role::Accent));
        let x = put(buffer, line, x, line.y, &format!("{:names$} ", fit_end(&row.rank(), names)), text);
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
                let digest = &figures.digest;
                let outlier = ranks.outlier(ranks.shown[at]);
                let off = outlier.map(|outlier| outlier.bytes.saturating_sub(outlier.median));
                let numbers = format!(
                    "{:>10}  {:>10}  {:>10}  {:>10}  ",
                    signed(digest.peak),
                    signed(digest.end),
                    stated(figures.reserved_peak()),
                    stated(figures.gap())
                );
                let style = if off.is_some() { theme.style(Role::Warm) } else { text };
                let x = put(buffer, line, x, line.y, &numbers, style);
                let oom = if figures.ooms > 0 { theme.style(Role::Danger) } else { dim };
                let x = put(buffer, line, x, line.y, &format!("{:>4}  ", figures.ooms), oom);
                let x = put(buffer, line, x, line.y, &format!("{:14}  ", figures.verdict), dim);
                let room = f64::from(line.right().saturating_sub(x + 12)).min(40.0);
                let cells = (digest.peak.max(0) as f64 / highest as f64 * room).round() as usize;
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
    let foot = Rect { y: area.bottom().saturating_sub(FOOT), height: FOOT.min(area.height), ..area };
    let Some(number) = ranks.selected() else { return };
    let row = &ranks.rows[number];
    put(buffer, foot, foot.x, foot.y, &fit_end(&row.title(), area.width.into()), dim);
    if let Some(outlier) = ranks.outlier(number) {
        let words = format!(
            "{} at the {}, the others {}: {}",
            signed(outlier.bytes),
            outlier.when,
            signed(outlier.median),
            change(outlier.bytes.saturating_sub(outlier.median))
        );
        put(buffer, row_of(foot, 1), foot.x, foot.y + 1, &words, theme.style(Role::Warm));
        for (number, off) in outlier.lines.iter().enumerate() {
            let place = crate::words::line(&off.line);
            let words = format!("{:>12}  {place}", change(off.bytes.saturating_sub(off.median)));
            let line = row_of(foot, number as u16 + 2);
            put(buffer, line, line.x, line.y, &words, text);
        }
    }
}
