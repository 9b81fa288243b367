//! The search: a grid, then the neighbours of the best, then all orders of addresses for those that are left.

use rayon::prelude::*;
use vramscope_simulate::{Answer, Order, Outcome, Settings, Simulator};

use crate::whatif::Question;
use crate::whatif::batch::{self, Waiting, Watched};

/// Values of `max_split_size_mb` that are tried first.
const SPLITS: [u64; 7] = [20, 32, 64, 128, 256, 512, 1024];
/// Values of `roundup_power2_divisions`.
const DIVISIONS: [u64; 4] = [2, 4, 8, 16];
/// Values of `garbage_collection_threshold`, which need a limit.
const THRESHOLDS: [f64; 3] = [0.6, 0.8, 0.9];
/// Settings that are simulated with all orders.
const FINALISTS: usize = 6;
/// A setting is worth a change if it saves this part of the memory, or of the device calls.
const WORTH: f64 = 0.01;
/// The smallest limit is found to this part.
const PRECISION: f64 = 0.001;

/// What the search found.
pub(super) struct Found {
    /// The recorded settings.
    pub(super) baseline: Answer,
    /// The best others, least memory first.
    pub(super) finalists: Vec<Answer>,
    /// Better than the baseline whatever the addresses; `None` if nothing is.
    pub(super) least_memory: Option<Best>,
    pub(super) fewest_calls: Option<Best>,
    /// The smallest limit under which the recorded settings run.
    pub(super) baseline_limit: Option<u64>,
    pub(super) simulations: usize,
}

pub(super) struct Best {
    pub(super) answer: Answer,
    /// The smallest limit under which it still runs.
    pub(super) smallest_limit: Option<u64>,
}

/// A setting, and what became of it with the likeliest addresses.
struct Tried {
    settings: Settings,
    outcome: Outcome,
}

impl Tried {
    fn runs(&self) -> bool {
        self.outcome.out_of_memory.is_none()
    }

    /// Those that run come first, then those that need least memory.
    fn key(&self) -> (bool, u64, u64) {
        let counters = &self.outcome.counters;
        (!self.runs(), counters.reserved_peak, counters.device_allocs + counters.device_frees)
    }

    fn calls(&self) -> (bool, u64, u64) {
        let (fails, reserved, calls) = self.key();
        (fails, calls, reserved)
    }
}

pub(super) fn search(question: &Question) -> anyhow::Result<Found> {
    let simulator = &question.study.simulator;
    let recorded = question.recorded();
    let mut tried = all(simulator, grid(question));
    for _ in 0..2 {
        tried.sort_by_key(Tried::key);
        let known: Vec<&Settings> = tried.iter().map(|tried| &tried.settings).collect();
        let mut next: Vec<Settings> =
            tried.iter().take(2).flat_map(|best| neighbours(&best.settings)).collect();
        next.retain(|settings| !known.contains(&settings));
        tried.extend(all(simulator, next));
    }
    tried.retain(|tried| tried.settings != recorded);
    tried.sort_by_key(Tried::calls);
    let few_calls: Vec<Settings> = tried.iter().take(2).map(|tried| tried.settings.clone()).collect();
    tried.sort_by_key(Tried::key);
    let mut finalists: Vec<Settings> =
        tried.iter().take(FINALISTS).map(|tried| tried.settings.clone()).collect();
    finalists
        .extend(few_calls.into_iter().filter(|settings| !finalists.contains(settings)).collect::<Vec<_>>());
    finalists.insert(0, recorded);
    let watched = Watched { moments: Vec::new(), events: question.subject.replay().events(), stretches: 1 };
    let mut answers: Vec<Answer> =
        batch::answers(simulator, &finalists, &watched)?.into_iter().map(|run| run.answer).collect();
    let simulations = tried.len() + answers.iter().map(|answer| answer.orders).sum::<usize>();
    let baseline = answers.remove(0);
    answers.sort_by_key(|answer| (answer.out_of_memory, answer.reserved_peak.1, answer.device_allocs.1));
    let best = |answer: &Answer| Best {
        smallest_limit: smallest_limit(simulator, &answer.settings),
        answer: answer.clone(),
    };
    let least_memory = answers.iter().find(|answer| saves(answer, &baseline, |answer| answer.reserved_peak));
    let fewest_calls = answers
        .iter()
        .filter(|answer| saves(answer, &baseline, |answer| answer.device_allocs))
        .min_by_key(|answer| (answer.device_allocs.1, answer.reserved_peak.1));
    Ok(Found {
        baseline_limit: smallest_limit(simulator, &baseline.settings),
        least_memory: least_memory.map(best),
        fewest_calls: fewest_calls.map(best),
        finalists: answers,
        simulations,
        baseline,
    })
}

/// Whether a setting runs whatever the addresses and is better than the baseline at its best, or runs where the
/// baseline does not.
fn saves(answer: &Answer, baseline: &Answer, of: fn(&Answer) -> (u64, u64)) -> bool {
    let needs = (of(baseline).0 as f64 * (1.0 - WORTH)) as u64;
    answer.out_of_memory == 0 && (baseline.out_of_memory > 0 || of(answer).1 <= needs)
}

/// The settings that are tried first.
fn grid(question: &Question) -> Vec<Settings> {
    let base = Settings { limit: question.limit, device: question.recorded().device, ..Settings::default() };
    let largest = {
        let requests = question.study.simulator.requests();
        (0..requests.allocations()).map(|allocation| requests.size(allocation)).max().unwrap_or_default()
    };
    let split = |mib: u64| Settings { max_split: Some(mib << 20), ..base.clone() };
    let divide = |of: &Settings, n: u64| Settings { divisions: [n; 16], ..of.clone() };
    let expandable = Settings { expandable: true, ..base.clone() };
    let splits: Vec<Settings> =
        SPLITS.iter().filter(|&&mib| mib << 20 <= largest).map(|&mib| split(mib)).collect();
    let mut grid = vec![base.clone(), expandable.clone(), question.recorded()];
    grid.extend(DIVISIONS.iter().map(|&n| divide(&base, n)));
    grid.extend(DIVISIONS.iter().map(|&n| divide(&expandable, n)));
    if base.limit.is_some() {
        for &gc_threshold in &THRESHOLDS {
            grid.push(Settings { gc_threshold, ..base.clone() });
            let with_splits = splits.iter().map(|split| Settings { gc_threshold, ..split.clone() });
            grid.extend(with_splits);
        }
    }
    grid.extend(splits);
    let mut distinct: Vec<Settings> = Vec::new();
    for settings in grid {
        if !distinct.contains(&settings) {
            distinct.push(settings);
        }
    }
    distinct
}

/// Settings close to one: half and double steps of what it sets.
fn neighbours(settings: &Settings) -> Vec<Settings> {
    let mut close = Vec::new();
    if let Some(max) = settings.max_split {
        let mib = max >> 20;
        for mib in [mib * 3 / 4, mib * 3 / 2, mib * 7 / 8, mib * 5 / 4] {
            close.push(Settings { max_split: Some(mib.max(20) << 20), ..settings.clone() });
        }
    }
    if settings.gc_threshold > 0.0 {
        for step in [-0.1, -0.05, 0.05] {
            let gc_threshold = ((settings.gc_threshold + step) * 100.0).round() / 100.0;
            if gc_threshold > 0.0 && gc_threshold < 1.0 {
                close.push(Settings { gc_threshold, ..settings.clone() });
            }
        }
    }
    let [n, ..] = settings.divisions;
    if n > 1 {
        close.push(Settings { divisions: [n * 2; 16], ..settings.clone() });
    }
    close
}

/// Simulates settings with the likeliest addresses.
fn all(simulator: &Simulator, settings: Vec<Settings>) -> Vec<Tried> {
    let bar = Waiting::new(settings.len());
    settings
        .into_par_iter()
        .map(|settings| {
            let outcome = simulator.run(&settings, Order::Predicted, &mut ());
            bar.one_more();
            Tried { settings, outcome }
        })
        .collect()
}

/// The smallest limit under which a setting runs with every order of addresses: by bisection with the likeliest one,
/// then upwards until the others run, too.
fn smallest_limit(simulator: &Simulator, settings: &Settings) -> Option<u64> {
    let runs = |limit: u64, orders: &[Order]| {
        let settings = Settings { limit: Some(limit), ..settings.clone() };
        orders.par_iter().all(|&order| simulator.run(&settings, order, &mut ()).out_of_memory.is_none())
    };
    let likeliest = &Answer::orders(settings)[..1];
    let free = Settings { limit: None, ..settings.clone() };
    let counters = simulator.run(&free, Order::Predicted, &mut ()).counters;
    let step = |limit: u64| ((limit as f64 * PRECISION) as u64).max(2 << 20);
    // What is allocated at the peak has to fit; and with room to spare it does.
    let (mut low, mut high) = (counters.allocated_peak.min(counters.reserved_peak), counters.reserved_peak);
    let most = high.saturating_add(high / 8);
    if !runs(high, likeliest) {
        (low, high) = (high, most);
    }
    while high.saturating_sub(low) > step(high) {
        let middle = low + (high - low) / 2;
        if runs(middle, likeliest) { high = middle } else { low = middle }
    }
    while !runs(high, Answer::orders(settings)) {
        high += 4 * step(high);
        if high > most {
            return None;
        }
    }
    Some(high)
}
