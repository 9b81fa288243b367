//! Which allocations count: the filters that every verb has.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use regex_lite::Regex;
use vramscope_analysis::units::parse_bytes as size;
use vramscope_analysis::{
    Allocation, Counter, Finding, Moment, Peak, RankDigest, Replay, Span, State, Status, Weight, is_internal,
    lifetime_weights, live_weights, peak_of,
};
use vramscope_files::{Opened, find, open};
use vramscope_snapshot::{DeviceId, Event, FrameId, Pool, Snapshot, StackId};

use crate::args::{CacheArgs, Source, WeighArgs};
use crate::moment::MomentSpec;
use crate::progress::Bar;
use crate::text;

/// Filters as they are typed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArgs {
    /// Which device, if the file has several (default: the one with the longest trace)
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    pub(crate) device: Option<i32>,
    /// Only this stream handle; 0 is the default stream
    #[arg(long, value_name = "S")]
    pub(crate) stream: Option<u64>,
    /// Only this pool, e.g. 0,1; 0,0 is the default pool
    #[arg(long, value_name = "A,B", value_parser = pool)]
    pub(crate) pool: Option<Pool>,
    /// From this moment on
    #[arg(long, value_name = "MOMENT")]
    pub(crate) since: Option<MomentSpec>,
    /// Up to this moment
    #[arg(long, value_name = "MOMENT")]
    pub(crate) until: Option<MomentSpec>,
    /// Only allocations of at least this size, e.g. 512, 20MiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) min_size: Option<u64>,
    /// Only allocations with a frame that matches, as file:line name
    #[arg(long, value_name = "REGEX")]
    pub(crate) stack: Option<Regex>,
    /// Leave out frames of PyTorch, CPython and the C++ runtime; =false shows them
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    pub(crate) hide_internal: bool,
}

impl Default for FilterArgs {
    /// No filter was typed.
    fn default() -> Self {
        let (since, until) = (None, None);
        let (device, stream, pool, min_size, stack) = (None, None, None, None, None);
        Self { device, stream, pool, since, until, min_size, stack, hide_internal: true }
    }
}

fn pool(text: &str) -> Result<Pool, String> {
    let wrong = || format!("{text:?} is no pool: two numbers, e.g. 0,1");
    let (a, b) = text.trim_matches(['(', ')']).split_once(',').ok_or_else(wrong)?;
    Ok((a.trim().parse().map_err(|_| wrong())?, b.trim().parse().map_err(|_| wrong())?))
}

/// One device of one file, with the filters that apply to it.
pub(crate) struct Subject {
    pub(crate) opened: Arc<Opened>,
    replay: usize,
    filter: Filter,
}

/// Weights of stacks, and the moment they belong to; none if they are over a stretch.
pub(crate) struct Weighed {
    pub(crate) weights: Vec<Weight>,
    pub(crate) at: Option<Moment>,
}

/// Filters with everything looked up.
struct Filter {
    stream: Option<u64>,
    pool: Option<Pool>,
    min_size: u64,
    /// For each stack whether a frame matches.
    stacks: Option<Vec<bool>>,
    since: Option<Moment>,
    until: Option<Moment>,
    hide_internal: bool,
}

impl Subject {
    /// Opens one file and chooses the device.
    pub(crate) fn open(source: &Source) -> anyhow::Result<Self> {
        Self::open_path(&source.path, &source.filter, &source.output.cache)
    }

    /// Opens the file at a path and chooses the device.
    pub(crate) fn open_path(path: &PathBuf, filter: &FilterArgs, cache: &CacheArgs) -> anyhow::Result<Self> {
        let (inputs, errors) = find(std::slice::from_ref(path));
        if let Some(error) = errors.into_iter().next() {
            return Err(error.into());
        }
        let [input] = inputs.as_slice() else {
            let names: Vec<_> =
                inputs.iter().take(8).map(|input| format!("\n  {}", input.path.display())).collect();
            bail!("{} holds {} snapshots; name one of them:{}", path.display(), inputs.len(), names.concat());
        };
        let cache = cache.cache();
        let bar = Bar::new(&inputs);
        let opened = open(input, cache.as_ref(), &bar)?;
        drop(bar);
        Self::new(opened, filter)
    }

    /// Opens one file that must have a map of memory: where segments and blocks lie.
    pub(crate) fn open_map(source: &Source) -> anyhow::Result<Self> {
        let subject = Self::open(source)?;
        if !subject.snapshot().has.addresses {
            bail!(
                "{}: segments, holes and pools are not in this file ({}): it lists blocks and totals. A snapshot has them: \
                 torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")",
                source.path.display(),
                subject.snapshot().format
            );
        }
        Ok(subject)
    }

    /// Takes an opened file, shows its warnings and chooses the device.
    pub(crate) fn new(opened: Opened, filter: &FilterArgs) -> anyhow::Result<Self> {
        for warning in text::warnings(&opened.snapshot) {
            text::complain(&format!("warning: {}: {warning}", opened.path.display()));
        }
        Self::quiet(opened, filter)
    }

    /// Takes an opened file and chooses the device.
    pub(crate) fn quiet(opened: Opened, filter: &FilterArgs) -> anyhow::Result<Self> {
        let replay = choose(&opened, filter.device)?;
        Self::of(&Arc::new(opened), replay, filter)
    }

    /// Every device of a file that the filters leave.
    pub(crate) fn each(opened: Opened, filter: &FilterArgs) -> anyhow::Result<Vec<Self>> {
        let opened = Arc::new(opened);
        match filter.device {
            Some(_) => Ok(vec![Self::of(&opened, choose(&opened, filter.device)?, filter)?]),
            None => (0..opened.replays.len()).map(|replay| Self::of(&opened, replay, filter)).collect(),
        }
    }

    fn of(opened: &Arc<Opened>, replay: usize, filter: &FilterArgs) -> anyhow::Result<Self> {
        let filter = Filter::new(filter, &opened.snapshot, &opened.replays[replay])?;
        Ok(Self { opened: Arc::clone(opened), replay, filter })
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.opened.snapshot
    }

    /// Whether the file tells how much is held from the driver.
    pub(crate) fn has_reserved(&self) -> bool {
        self.snapshot().has_reserved(self.replay().device())
    }

    pub(crate) fn replay(&self) -> &Replay {
        &self.opened.replays[self.replay]
    }

    /// A moment of this trace.
    pub(crate) fn moment(&self, spec: &MomentSpec) -> anyhow::Result<Moment> {
        spec.resolve(self.snapshot(), self.replay())
    }

    /// The stretch of the trace that `--since` and `--until` leave.
    pub(crate) fn range(&self) -> (Moment, Moment) {
        (self.filter.since.unwrap_or(Moment::START), self.filter.until.unwrap_or(self.replay().end()))
    }

    /// Whether anything but the device is restricted.
    pub(crate) fn is_filtered(&self) -> bool {
        self.leaves_out_allocations() || self.filter.since.is_some() || self.filter.until.is_some()
    }

    /// Whether some allocations are left out, whenever they lived.
    pub(crate) fn leaves_out_allocations(&self) -> bool {
        let Filter { stream, pool, min_size, stacks, .. } = &self.filter;
        stream.is_some() || pool.is_some() || *min_size > 0 || stacks.is_some()
    }

    /// When a counter of the device was highest in the stretch that is looked at.
    pub(crate) fn peak(&self, counter: Counter) -> Peak {
        let (from, to) = self.range();
        if (from, to) == (Moment::START, self.replay().end()) {
            return self.replay().peak(counter);
        }
        let at = self.replay().highest(counter, from, to);
        Peak { bytes: self.replay().counters(at)[counter], at }
    }

    /// When the requested bytes of what passes the filters were highest.
    pub(crate) fn kept_peak(&self) -> Peak {
        if !self.leaves_out_allocations() {
            return self.peak(Counter::Requested);
        }
        let (from, to) = self.range();
        // Where the trace does not name pools, those at the end serve for all.
        let state = self.filter.pool.map(|_| self.replay().state(to));
        peak_of(self.replay(), from, to, |allocation| self.keeps(allocation, state.as_ref()))
    }

    /// What each stack holds at a moment, of what passes the filters.
    pub(crate) fn live(&self, state: &State) -> Vec<Weight> {
        live_weights(self.replay(), state, |allocation| self.keeps(allocation, Some(state)))
    }

    /// Whether an event passes the filters, apart from its time.
    pub(crate) fn keeps_event(&self, event: &Event) -> bool {
        let Filter { stream, pool, min_size, stacks, .. } = &self.filter;
        event.size >= *min_size
            && stream.is_none_or(|stream| self.snapshot().stream(event.stream) == stream)
            && stacks.as_ref().is_none_or(|stacks| stacks.get(event.stack.index()).copied().unwrap_or(false))
            && pool.is_none_or(|pool| self.snapshot().pool(event.pool) == Some(pool))
    }

    /// Whether a segment passes the filters.
    pub(crate) fn keeps_segment(&self, pool: Option<Pool>, stream: u64, size: u64) -> bool {
        let Filter { stream: wanted_stream, pool: wanted_pool, min_size, .. } = &self.filter;
        size >= *min_size
            && wanted_stream.is_none_or(|wanted| wanted == stream)
            && wanted_pool.is_none_or(|wanted| pool == Some(wanted))
    }

    /// Whether a finding is about something that passes the filters.
    pub(crate) fn keeps_finding(&self, finding: &Finding) -> bool {
        let Filter { stream, pool, min_size, stacks, .. } = &self.filter;
        let (from, to) = self.range();
        let site = &finding.site;
        finding.bytes >= *min_size
            && finding.when.1 >= from
            && finding.when.0 <= to
            && stream.is_none_or(|stream| site.stream.is_none_or(|found| found == stream))
            && pool.is_none_or(|pool| site.pool.is_none_or(|found| found == pool))
            && stacks.as_ref().is_none_or(|stacks| {
                site.stack.is_some_and(|stack| stacks.get(stack.index()).copied().unwrap_or(false))
            })
    }

    /// What is kept of this rank to compare it with others.
    pub(crate) fn digest(&self, rank: Option<u64>, spans: &[Span]) -> RankDigest {
        let about = (self.snapshot(), self.replay(), spans);
        let when = (self.kept_peak(), self.range().1);
        RankDigest::new(rank, about, when, |allocation, state| self.keeps(allocation, Some(state)))
    }

    /// What each stack weighs, as it was asked for: at a moment, or over a stretch.
    pub(crate) fn weights(&self, weigh: &WeighArgs) -> anyhow::Result<Weighed> {
        let replay = self.replay();
        if weigh.lifetime {
            let (from, to) = self.range();
            let weights = lifetime_weights(replay, from, to, |allocation| self.keeps(allocation, None));
            return Ok(Weighed { weights, at: None });
        }
        let state = replay.state(self.moment(&weigh.at)?);
        Ok(Weighed { weights: self.live(&state), at: Some(state.at) })
    }

    /// Where in the program: the user's own line, or the innermost of all.
    pub(crate) fn place(&self, stack: StackId) -> String {
        match self.snapshot().frames(stack).next() {
            Some(frame) if !self.filter.hide_internal => text::frame(self.snapshot(), frame),
            _ => text::place(self.snapshot(), stack),
        }
    }

    /// The verdict, where numbers may be estimates.
    pub(crate) fn verdict(&self) -> Option<String> {
        let verdict = self.replay().verdict();
        (verdict.status != Status::Exact).then(|| text::sentence(verdict.status, verdict.estimated_bytes))
    }

    /// Whether what PyTorch does itself is left out.
    pub(crate) fn hides_internal(&self) -> bool {
        self.filter.hide_internal
    }

    /// Whether a frame is to be shown.
    pub(crate) fn shows(&self, frame: FrameId) -> bool {
        let frame = self.snapshot().stacks.frame(frame);
        let (name, file) = (self.snapshot().text(frame.name), self.snapshot().text(frame.file));
        !self.filter.hide_internal || !is_internal(name, file)
    }

    /// Whether an allocation passes the filters. `state` resolves the pool where the trace does not say.
    pub(crate) fn keeps(&self, allocation: &Allocation, state: Option<&State>) -> bool {
        let Filter { stream, pool, min_size, stacks, since, until, .. } = &self.filter;
        allocation.requested >= *min_size
            && stream.is_none_or(|stream| self.snapshot().stream(allocation.stream) == stream)
            && stacks
                .as_ref()
                .is_none_or(|stacks| stacks.get(allocation.stack.index()).copied().unwrap_or(false))
            && since.is_none_or(|since| allocation.closed > since)
            && until.is_none_or(|until| allocation.opened <= until)
            && pool.is_none_or(|pool| {
                let id =
                    state.map_or(allocation.pool, |state| state.pool_of(allocation.addr, allocation.pool));
                self.snapshot().pool(id) == Some(pool)
            })
    }
}

impl Filter {
    fn new(args: &FilterArgs, snapshot: &Snapshot, replay: &Replay) -> anyhow::Result<Self> {
        let resolve =
            |spec: &Option<MomentSpec>| spec.as_ref().map(|spec| spec.resolve(snapshot, replay)).transpose();
        let stacks = args.stack.as_ref().map(|regex| {
            let matches = |stack: StackId| {
                snapshot.frames(stack).any(|frame| {
                    let (file, name) = (snapshot.text(frame.file), snapshot.text(frame.name));
                    regex.is_match(&format!("{file}:{} {name}", frame.line))
                })
            };
            snapshot.stacks.ids().map(matches).collect()
        });
        let (since, until) = (resolve(&args.since)?, resolve(&args.until)?);
        if let (Some(since), Some(until)) = (since, until)
            && since > until
        {
            bail!("--since is after --until");
        }
        Ok(Self {
            stream: args.stream,
            pool: args.pool,
            min_size: args.min_size.unwrap_or(0),
            stacks,
            since,
            until,
            hide_internal: args.hide_internal,
        })
    }
}

/// The device that was asked for, or the one with the longest trace.
fn choose(opened: &Opened, device: Option<i32>) -> anyhow::Result<usize> {
    let replays = &opened.replays;
    match device {
        Some(device) => {
            let known: Vec<_> = replays.iter().map(|replay| replay.device().0.to_string()).collect();
            let found = replays.iter().position(|replay| replay.device() == DeviceId(device));
            found.with_context(|| {
                format!("there is no device {device}; the snapshot has: {}", known.join(", "))
            })
        }
        None => (0..replays.len())
            .max_by_key(|&at| {
                let is_host = replays[at].device() == DeviceId::HOST;
                (!is_host, replays[at].events(), std::cmp::Reverse(at))
            })
            .context("nothing was allocated on any device while recording"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_as_they_are_typed() {
        assert_eq!(pool("0,1"), Ok((0, 1)));
        assert_eq!(pool("(2, 0)"), Ok((2, 0)));
        assert!(pool("7").is_err());
    }
}
