//! Runs of thousands of ranks: what is kept of each file, who stands out, and all of them as a heat map.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vramscope_analysis::query::main_device;
use vramscope_analysis::{
    Counter, Device, HeatInput, HeatMap, LEAST_RANKS, LineDifference, Moment, Outlier, RankDigest, curve,
    outliers,
};
use vramscope_format::{Units, change};
use vramscope_naming::Name;
use vramscope_snapshot::{DeviceId, Snapshot};

use crate::insights::{Insight, rank_insights};

/// What is kept of a file: the figures of the device that is shown first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Which device.
    pub device: i32,
    /// `cuda:0`, or what the source calls it.
    pub device_name: String,
    /// Devices of the file.
    pub devices: usize,
    /// Events of the device.
    pub events: usize,
    /// What ranks are compared by.
    pub digest: RankDigest,
    /// Whether the file says how much is reserved.
    pub has_reserved: bool,
    /// How often memory ran out, on any device of the file.
    pub ooms: usize,
    /// The name of the verdict.
    pub verdict: String,
    /// The highest requested bytes of each part of the recording.
    pub curve: Vec<i64>,
}

impl Figures {
    /// The figures of a file; `None` if nothing was allocated.
    pub fn new(snapshot: &Snapshot, devices: &[Arc<Device>], name: &Name) -> Option<Self> {
        let replay = devices.get(main_device(snapshot, devices)?)?;
        let rank = name.rank.map(|(_, number)| number);
        let moments = (replay.peak(Counter::Requested), replay.end());
        Some(Self {
            digest: RankDigest::new(rank, replay, moments, |_, _| true),
            device: replay.device().0,
            device_name: snapshot.device_name(replay.device()),
            devices: devices.len(),
            events: replay.events(),
            has_reserved: snapshot.has_reserved(replay.device()),
            ooms: devices.iter().map(|replay| replay.ooms().len()).sum(),
            verdict: replay.verdict().status.name().to_owned(),
            curve: curve(replay, (Moment::START, replay.end())),
        })
    }

    /// The device.
    pub fn device(&self) -> DeviceId {
        DeviceId(self.device)
    }

    /// Reserved bytes at their highest, where the file has them.
    pub fn reserved_peak(&self) -> Option<i64> {
        self.has_reserved.then_some(self.digest.reserved_peak)
    }

    /// Reserved minus requested at the peak, where the file has them.
    pub fn gap(&self) -> Option<i64> {
        self.has_reserved.then_some(self.digest.gap)
    }
}

/// What a viewer shows of many ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetView {
    /// How many files there are.
    pub files: usize,
    /// How many of them are known.
    pub known: usize,
    /// Peaks of the ranks; the input of each cell is the number of its file.
    pub map: Option<HeatMap>,
    /// How many stand out.
    pub odd_count: usize,
    /// Those that stand out most.
    pub odd: Vec<OddRank>,
    /// What the comparison says is wrong, the worst first.
    pub insights: Vec<Insight>,
}

/// A rank that stands out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OddRank {
    /// Which file.
    pub file: usize,
    /// The rank in its name.
    pub rank: Option<u64>,
    /// By how much it is off the median.
    pub off: i64,
    /// The same in words.
    pub words: String,
    /// Where it differs most: the change, and the line.
    pub lines: Vec<(i64, String)>,
}

impl OddRank {
    fn new(file: usize, rank: Option<u64>, outlier: &Outlier) -> Self {
        let line = |line: &LineDifference| (line.bytes.saturating_sub(line.median), line.line.short());
        Self {
            file,
            rank,
            off: outlier.bytes.saturating_sub(outlier.median),
            words: outlier.words(Units::Binary),
            lines: outlier.lines.iter().map(line).collect(),
        }
    }

    /// The reason in words: how far it is off, and in which lines.
    pub fn reason(&self) -> String {
        let lines = self.lines.iter().map(|(by, line)| format!("\n{} {line}", change(*by)));
        format!("{}{}", self.words, lines.collect::<String>())
    }
}

/// Ranks of one run that are unlike the others, the largest difference first; each by its place among them.
pub fn odd_ranks<D: Borrow<RankDigest>>(ranks: &[D]) -> Vec<OddRank> {
    let ranks: Vec<&RankDigest> = ranks.iter().map(Borrow::borrow).collect();
    let found = outliers(&ranks);
    let odd = |outlier: &Outlier| {
        OddRank::new(outlier.row, ranks.get(outlier.row).and_then(|rank| rank.rank), outlier)
    };
    found.iter().map(odd).collect()
}

/// Files of runs, as far as their figures are known.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    files: Vec<(Name, Option<Box<Figures>>)>,
    known: usize,
    /// Who is unlike the others of its run; the largest difference of each.
    outliers: BTreeMap<usize, Outlier>,
    /// The same, the largest difference first.
    odd: Vec<usize>,
    is_compared: bool,
    /// Files that were known when they were compared last.
    compared: usize,
}

impl Fleet {
    /// More ranks than this are a heat map, and only one of them is in memory.
    pub const MANY: usize = 64;

    /// Files of which only the names are known.
    pub fn new(names: impl IntoIterator<Item = Name>) -> Self {
        Self { files: names.into_iter().map(|name| (name, None)).collect(), ..Self::default() }
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// How many figures are known.
    pub fn known(&self) -> usize {
        self.known
    }

    /// How many figures were known when the ranks were compared last.
    pub fn compared(&self) -> usize {
        self.compared
    }

    /// Whether every file is a rank.
    pub fn are_ranks(&self) -> bool {
        self.files.iter().all(|(name, _)| name.rank.is_some())
    }

    /// What the path of a file says.
    pub fn name(&self, file: usize) -> Option<&Name> {
        self.files.get(file).map(|(name, _)| name)
    }

    /// The figures of a file, once they are known.
    pub fn figures(&self, file: usize) -> Option<&Figures> {
        self.files.get(file)?.1.as_deref()
    }

    /// All figures that are known, with their files.
    pub fn all_figures(&self) -> impl Iterator<Item = (usize, &Figures)> {
        self.files.iter().enumerate().filter_map(|(file, (_, figures))| Some((file, figures.as_deref()?)))
    }

    /// Takes the figures of a file.
    pub fn set(&mut self, file: usize, figures: Figures) {
        if let Some((_, known)) = self.files.get_mut(file) {
            self.known += usize::from(known.is_none());
            *known = Some(figures.into());
        }
    }

    /// Compares the ranks of each run, as far as they are known. Of many, not with each one that is read: all are
    /// compared again when a quarter more is known, and when reading `is_over`.
    pub fn compare(&mut self, is_over: bool) -> bool {
        if self.known > Self::MANY && !is_over && self.known < self.compared + self.compared / 4 {
            return false;
        }
        self.compared = self.known;
        self.outliers.clear();
        self.odd.clear();
        let runs = self.runs();
        self.is_compared = runs.iter().any(|files| files.len() >= LEAST_RANKS);
        let mut found: Vec<(usize, Outlier)> = Vec::new();
        for files in runs {
            let digests: Vec<_> = self.digests(&files).collect();
            let outliers = outliers(&digests).into_iter();
            found.extend(outliers.filter_map(|outlier| Some((*files.get(outlier.row)?, outlier))));
        }
        found.sort_by_key(|(_, outlier)| {
            std::cmp::Reverse(outlier.bytes.saturating_sub(outlier.median).saturating_abs())
        });
        for (file, outlier) in found {
            if let std::collections::btree_map::Entry::Vacant(entry) = self.outliers.entry(file) {
                self.odd.push(file);
                entry.insert(outlier);
            }
        }
        true
    }

    /// The files of each run whose figures are known.
    fn runs(&self) -> Vec<Vec<usize>> {
        let mut runs: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (file, (name, figures)) in self.files.iter().enumerate() {
            if figures.is_some() {
                runs.entry((name.group.as_str(), name.step, name.oom)).or_default().push(file);
            }
        }
        runs.into_values().collect()
    }

    fn digests(&self, files: &[usize]) -> impl Iterator<Item = &RankDigest> {
        files.iter().filter_map(|&file| Some(&self.figures(file)?.digest))
    }

    /// Whether there are enough ranks of one run for one to stand out.
    pub fn is_compared(&self) -> bool {
        self.is_compared
    }

    /// Who stands out, the largest difference first.
    pub fn odd(&self) -> &[usize] {
        &self.odd
    }

    /// How a file stands out, if it does.
    pub fn outlier(&self, file: usize) -> Option<&Outlier> {
        self.outliers.get(&file)
    }

    /// All files, those that stand out first.
    pub fn odd_first(&self) -> impl Iterator<Item = usize> {
        let others = (0..self.files.len()).filter(|file| !self.outliers.contains_key(file));
        self.odd.iter().copied().chain(others)
    }

    /// The run of a file with at most these rows and columns: over its steps if it has several, else over time. The
    /// input of each cell is the number of its file.
    pub fn heat(&self, of: usize, size: (usize, usize)) -> Option<HeatMap> {
        let Name { group, step, oom, .. } = self.name(of)?;
        let in_group =
            self.all_figures().filter(|(file, _)| self.name(*file).is_some_and(|name| name.group == *group));
        let in_group: Vec<_> = in_group.collect();
        let steps: BTreeSet<_> =
            in_group.iter().filter_map(|(file, _)| self.name(*file).and_then(|name| name.step)).collect();
        let is_shown = |(file, _): &(usize, &Figures)| {
            steps.len() > 1 || self.name(*file).is_some_and(|name| (name.step, name.oom) == (*step, *oom))
        };
        let (files, inputs): (Vec<usize>, Vec<HeatInput<'_>>) = in_group
            .into_iter()
            .filter(is_shown)
            .map(|(file, figures)| {
                let step = self.name(file).and_then(|name| name.step);
                let digest = &figures.digest;
                (file, HeatInput { rank: digest.rank, step, peak: digest.peak, curve: &figures.curve })
            })
            .unzip();
        let mut map = HeatMap::new(&inputs, size)?;
        for cell in map.rows.iter_mut().flat_map(|row| &mut row.cells).flatten() {
            cell.input = files.get(cell.input).copied().unwrap_or(of);
        }
        Some(map)
    }

    /// What a viewer shows, with the map of the run that a file is in.
    pub fn view(&self, of: usize, size: (usize, usize)) -> FleetView {
        let odd = self.odd.iter().filter_map(|&file| {
            Some(OddRank::new(file, self.figures(file)?.digest.rank, self.outlier(file)?))
        });
        let mut insights = self.insights();
        insights.truncate(Self::MANY);
        FleetView {
            files: self.len(),
            known: self.known,
            map: self.heat(of, size),
            odd_count: self.odd.len(),
            odd: odd.take(Self::MANY).collect(),
            insights,
        }
    }

    /// What the comparison says is wrong, in each run the worst first.
    pub fn insights(&self) -> Vec<Insight> {
        let runs = self.runs().into_iter();
        runs.flat_map(|files| rank_insights(&self.digests(&files).collect::<Vec<_>>())).collect()
    }
}
