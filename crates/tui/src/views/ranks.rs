//! All files that were named: the ranks of a run side by side.

use std::collections::{BTreeMap, BTreeSet};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use vramscope_analysis::query::main_device;
use vramscope_analysis::{Counter, LEAST_RANKS, Moment, Outlier, RankDigest, Replay, compare_ranks, spans};
use vramscope_files::{Input, Opened};
use vramscope_format::{bytes, change, count, elide_place, fit, fit_end, plural, printable, width, words};
use vramscope_snapshot::DeviceId;

use super::bars::EIGHTHS;
use super::{put, row_of};
use crate::keys::Action;
use crate::list::List;
use crate::pane::{Reply, act_in_list};
use crate::theme::{Role, Theme};

/// What is known about a file: the figures of the device that is shown first.
#[derive(Clone, Debug)]
pub struct Figures {
    pub(crate) device: DeviceId,
    pub(crate) device_name: String,
    /// Devices of the file.
    pub(crate) devices: usize,
    pub(crate) events: usize,
    pub(crate) digest: RankDigest,
    /// Whether the file says how much is reserved.
    pub(crate) has_reserved: bool,
    /// How often memory ran out, on any device of the file.
    pub(crate) ooms: usize,
    pub(crate) verdict: &'static str,
    /// The most of each stretch of the run.
    pub(crate) levels: Vec<i64>,
}

impl Figures {
    /// The figures of a file; `None` if nothing was allocated.
    pub fn new(opened: &Opened) -> Option<Self> {
        let replay = opened.replays.get(main_device(&opened.snapshot, &opened.replays)?)?;
        let rank = opened.name.rank.map(|(_, number)| number);
        let spans = spans(&opened.snapshot, replay.device());
        let moments = (replay.peak(Counter::Requested), replay.end());
        let digest = RankDigest::new(rank, (&opened.snapshot, replay, &spans), moments, |_, _| true);
        Some(Self {
            digest,
            device: replay.device(),
            device_name: printable(&opened.snapshot.device_name(replay.device())),
            devices: opened.replays.len(),
            events: replay.events(),
            has_reserved: opened.snapshot.has_reserved(replay.device()),
            ooms: opened.replays.iter().map(|replay| replay.ooms().len()).sum(),
            verdict: replay.verdict().status.name(),
            levels: levels(replay),
        })
    }
}

/// The most requested bytes of each stretch of a run.
fn levels(replay: &Replay) -> Vec<i64> {
    let end = u64::from(replay.end().0);
    let moment = |number: u64| Moment((end * number / STRETCHES as u64) as u32);
    let most = |number: u64| replay.extremes(moment(number), moment(number + 1)).1.requested;
    (0..STRETCHES as u64).map(most).collect()
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
    n.map_or_else(|| "–".into(), bytes)
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
    /// What it is called in the list: unlike any other.
    pub(crate) label: String,
    pub(crate) progress: Progress,
}

impl Row {
    pub(crate) fn title(&self) -> String {
        let path = self.input.path.to_string_lossy();
        printable(&path)
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
    /// Whether there are enough ranks of one run for one to stand out.
    is_compared: bool,
    /// Ranks that were known when they were compared last.
    compared: usize,
}

/// More ranks than this are not compared again with each one that is read, and those that stand out come first.
const MANY: usize = 64;

impl Ranks {
    pub(crate) fn new(inputs: Vec<Input>) -> Self {
        let labels = labels(&inputs);
        let row = |(input, label)| Row { input, label, progress: Progress::Waiting };
        let rows: Vec<_> = inputs.into_iter().zip(labels).map(row).collect();
        Self { shown: (0..rows.len()).collect(), rows, ..Self::default() }
    }

    pub(crate) fn refresh(&mut self, height: usize) {
        self.shown = (0..self.rows.len()).collect();
        if self.order == Order::Peak {
            let peak = |row: usize| self.rows[row].figures().map_or(i64::MIN, |figures| figures.digest.peak);
            let mut shown = std::mem::take(&mut self.shown);
            shown.sort_by_key(|&row| std::cmp::Reverse(peak(row)));
            self.shown = shown;
        } else if self.rows.len() > MANY {
            let odd: BTreeMap<usize, usize> =
                self.outliers.iter().enumerate().map(|(place, (row, _))| (*row, place)).collect();
            self.shown.sort_by_key(|row| odd.get(row).copied().unwrap_or(usize::MAX));
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
        let known = self.rows.iter().filter(|row| row.figures().is_some()).count();
        let is_waiting = self.rows.iter().any(|row| matches!(row.progress, Progress::Waiting));
        if known > MANY && is_waiting && known < self.compared + self.compared / 4 {
            return;
        }
        self.compared = known;
        let mut runs: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (number, row) in self.rows.iter().enumerate().filter(|(_, row)| row.figures().is_some()) {
            runs.entry(run(row)).or_default().push(number);
        }
        self.outliers.clear();
        self.is_compared = runs.values().any(|rows| rows.len() >= LEAST_RANKS);
        for rows in runs.into_values() {
            let figures = rows.iter().filter_map(|&row| self.rows[row].figures());
            let digests: Vec<&RankDigest> = figures.map(|figures| &figures.digest).collect();
            let mut seen = BTreeSet::new();
            for outlier in compare_ranks(&digests).outliers {
                let row = rows[outlier.row];
                if seen.insert(row) {
                    self.outliers.push((row, outlier));
                }
            }
        }
    }

    /// `rank` where every file is one.
    pub(crate) fn noun(&self) -> &'static str {
        if self.rows.iter().all(|row| row.input.name.rank.is_some()) { "rank" } else { "file" }
    }

    /// How many files there are, and which one stands out most; nothing to say about one alone.
    pub(crate) fn note(&self) -> Option<String> {
        let all = self.rows.len();
        if all < 2 {
            return None;
        }
        let number = plural(all, self.noun());
        let waiting = self.rows.iter().filter(|row| matches!(row.progress, Progress::Waiting)).count();
        let off = |(_, outlier): &&(usize, Outlier)| outlier.bytes.abs_diff(outlier.median);
        let most = self.outliers.iter().max_by_key(off);
        Some(match most {
            Some((row, outlier)) => {
                let others = self.outliers.iter().map(|(other, _)| other).filter(|other| *other != row);
                let others: Vec<_> = others.map(|&other| self.rows[other].label.as_str()).collect();
                let more = match others.as_slice() {
                    [] => String::new(),
                    [one] => format!("; so does {one}"),
                    several => format!("; so do {} others", count(several.len())),
                };
                format!("{number}: {} stands out, {}{more}", self.rows[*row].label, outlier_words(outlier))
            }
            None if waiting > 0 => format!("{number}, {} of them read", count(all - waiting)),
            None if self.is_compared => format!("{number}, none stands out"),
            None => number,
        })
    }

    fn outlier(&self, row: usize) -> Option<&Outlier> {
        self.outliers.iter().find(|(number, _)| *number == row).map(|(_, outlier)| outlier)
    }
}

/// How far a rank is off the others.
fn outlier_words(outlier: &Outlier) -> String {
    format!(
        "{} at the {}, {} than the median of {}",
        bytes(outlier.bytes),
        outlier.when,
        match outlier.bytes.saturating_sub(outlier.median) {
            less if less < 0 => format!("{} less", bytes(less.saturating_neg())),
            more => format!("{} more", bytes(more)),
        },
        bytes(outlier.median)
    )
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

/// Stretches of a run that its curve has.
const STRETCHES: usize = 40;

/// The curve of a run on the scale of all of them, the most of each stretch in an eighth of a cell.
fn sparkline(levels: &[i64], highest: i64, room: usize) -> String {
    let cell = |column: usize| {
        let (from, to) = (column * levels.len() / room, ((column + 1) * levels.len() / room));
        let most = levels.get(from..to.max(from + 1)).unwrap_or_default().iter().max().copied().unwrap_or(0);
        let eighths = (most.max(0) as f64 / highest as f64 * 8.0).round().clamp(0.0, 8.0) as usize;
        // Something is seen where there is something.
        EIGHTHS[if most > 0 { eighths.max(1) } else { 0 }]
    };
    (0..room).map(cell).collect()
}

/// Lines below the list: the path, and why a rank stands out.
const FOOT: u16 = 5;

pub(crate) fn draw(buffer: &mut Buffer, area: Rect, ranks: &Ranks, open: &[&std::path::Path], theme: &Theme) {
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let known = ranks.rows.iter().filter(|row| row.figures().is_some()).count();
    let how_many = match known {
        n if n == ranks.rows.len() => plural(n, ranks.noun()),
        n => format!("{} of {} read", count(n), plural(ranks.rows.len(), ranks.noun())),
    };
    put(buffer, area, area.x, area.y, &how_many, text);
    let names = ranks.rows.iter().map(|row| width(&row.label)).max().unwrap_or_default();
    let names = names.clamp(8, usize::from(area.width / 4).max(8));
    let header = format!(
        "  {:names$} {:>10}  {:>10}  {:>10}  {:>10}  {:>4}  verdict",
        ranks.noun(),
        "peak",
        "end",
        "reserved",
        "gap",
        "oom"
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
        let x = put(buffer, line, x, line.y, &format!("{:names$} ", fit_end(&row.label, names)), text);
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
                    bytes(digest.peak),
                    bytes(digest.end),
                    stated(figures.reserved_peak()),
                    stated(figures.gap())
                );
                let style = if off.is_some() { theme.style(Role::Warm) } else { text };
                let x = put(buffer, line, x, line.y, &numbers, style);
                let oom = if figures.ooms > 0 { theme.style(Role::Danger) } else { dim };
                let x = put(buffer, line, x, line.y, &format!("{:>4}  ", figures.ooms), oom);
                let x = put(buffer, line, x, line.y, &format!("{:16}  ", words(figures.verdict)), dim);
                let room = usize::from(line.right().saturating_sub(x + 12)).min(STRETCHES);
                let curve = sparkline(&figures.levels, highest, room);
                let x = put(buffer, line, x, line.y, &curve, theme.style(Role::Bar));
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
    let device = match row.figures() {
        Some(figures) if figures.devices > 1 => {
            format!("  ({}, one of {})", figures.device_name, plural(figures.devices, "device"))
        }
        _ => String::new(),
    };
    let room = usize::from(area.width).saturating_sub(width(&device));
    let about = format!("{}{device}", fit_end(&row.title(), room));
    put(buffer, foot, foot.x, foot.y, &about, dim);
    if let Some(outlier) = ranks.outlier(number) {
        put(buffer, row_of(foot, 1), foot.x, foot.y + 1, &outlier_words(outlier), theme.style(Role::Warm));
        for (number, off) in outlier.lines.iter().enumerate() {
            let line = row_of(foot, number as u16 + 2);
            let by = format!("{:>12}  ", change(off.bytes.saturating_sub(off.median)));
            let x = put(buffer, line, line.x, line.y, &by, text);
            let room = usize::from(line.right().saturating_sub(x));
            put(buffer, line, x, line.y, &elide_place(&printable(&off.line.short()), room), text);
        }
    }
}
