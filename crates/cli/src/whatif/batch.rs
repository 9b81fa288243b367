//! Many simulations at once, on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;
use vramscope_simulate::{Answer, Counters, Curve, Moments, Order, Outcome, Settings, Simulator};

/// What is kept of the first order of every setting.
pub(crate) struct Watched {
    /// How many events have happened at each moment that was asked for, in any order.
    pub(crate) moments: Vec<u32>,
    /// Events of the recording.
    pub(crate) events: usize,
    /// Stretches of the curves.
    pub(crate) stretches: usize,
}

/// One setting, answered.
pub(crate) struct Run {
    pub(crate) answer: Answer,
    /// The counters at each moment that was asked for.
    pub(crate) moments: Vec<Counters>,
    /// Highest reserved and requested bytes of each stretch.
    pub(crate) curve: (Vec<u64>, Vec<u64>),
}

struct Seen {
    outcome: Outcome,
    moments: Vec<Counters>,
    curve: (Vec<u64>, Vec<u64>),
}

/// Simulates every setting with every order of addresses.
pub(crate) fn answers(
    simulator: &Simulator,
    settings: &[Settings],
    watched: &Watched,
) -> anyhow::Result<Vec<Run>> {
    let jobs: Vec<(usize, Order)> = settings
        .iter()
        .enumerate()
        .flat_map(|(at, settings)| Answer::orders(settings).iter().map(move |&order| (at, order)))
        .collect();
    let bar = Waiting::new(jobs.len());
    let seen: Vec<Seen> = jobs
        .par_iter()
        .map(|&(at, order)| {
            let seen = watch(simulator, &settings[at], order, watched);
            bar.one_more();
            seen
        })
        .collect();
    drop(bar);
    let mut seen = seen.into_iter();
    settings
        .iter()
        .map(|settings| {
            let mut mine = seen.by_ref().take(Answer::orders(settings).len());
            let first = mine.next().context("nothing was simulated")?;
            let Seen { outcome, moments, curve } = first;
            let outcomes = std::iter::once(outcome).chain(mine.map(|seen| seen.outcome)).collect();
            let answer = Answer::of(settings.clone(), outcomes).context("nothing was simulated")?;
            Ok(Run { answer, moments, curve })
        })
        .collect()
}

fn watch(simulator: &Simulator, settings: &Settings, order: Order, watched: &Watched) -> Seen {
    if order != Order::Predicted {
        let outcome = simulator.run(settings, order, &mut ());
        return Seen { outcome, moments: Vec::new(), curve: (Vec::new(), Vec::new()) };
    }
    let mut sorted = watched.moments.clone();
    sorted.sort_unstable();
    let mut observer = (Moments::new(sorted.clone()), Curve::new(watched.events, watched.stretches));
    let outcome = simulator.run(settings, order, &mut observer);
    let (moments, curve) = observer;
    let found = moments.finish();
    let of = |moment: &u32| sorted.binary_search(moment).ok().and_then(|at| found.get(at)).copied();
    Seen { outcome, moments: watched.moments.iter().filter_map(of).collect(), curve: curve.finish() }
}

/// How many simulations are done, for somebody who waits at a terminal.
pub(crate) struct Waiting {
    bar: ProgressBar,
    done: AtomicUsize,
}

/// Nobody wonders before this.
const PATIENCE: Duration = Duration::from_millis(500);

impl Waiting {
    pub(crate) fn new(jobs: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(jobs as u64), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("simulating {bar:30} {pos} of {len}, {eta} left") {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Self { bar, done: AtomicUsize::new(0) }
    }

    pub(crate) fn one_more(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
        if self.bar.is_hidden() && self.bar.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(self.done.load(Ordering::Relaxed) as u64);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
