//! Which allocations count: the filters that every verb has.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use regex_lite::Regex;
use vramscope_analysis::{
    Allocation, Moment, Replay, State, Status, Weight, is_internal, lifetime_weights, live_weights,
};
use vramscope_files::{Opened, find, open};
use vramscope_snapshot::{DeviceId, Event, FrameId, Pool, Snapshot, StackId};

use crate::args::{CacheArgs, WeighArgs};
use crate::moment::MomentSpec;
use crate::progress::Bar;
use crate::summary::sentence;
use crate::text;

/// Filters as they are typed.
#[derive(Debug, Default, Args)]
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
    /// Show the frames of PyTorch, CPython and the C++ runtime too
    #[arg(long)]
    pub(crate) show_internal: bool,
}

fn pool(text: &str) -> Result<Pool, String> {
    let wrong = || format!("{text:?} is no pool: two numbers, e.g. 0,1");
    let (a, b) = text.trim_matches(['(', ')']).split_once(',').ok_or_else(wrong)?;
    Ok((a.trim().parse().map_err(|_| wrong())?, b.trim().parse().map_err(|_| wrong())?))
}

/// A size in bytes, or with a binary or decimal unit.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = text.get(digits.len()..).unwrap_or_default().trim();
    let scale: f64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1_048_576.0,
        "g" | "gib" => 1_073_741_824.0,
        "t" | "tib" => 1_099_511_627_776.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        _ => return Err(format!("unknown unit {unit:?} in {text:?}: try MiB")),
    };
    match digits.parse::<f64>() {
        Ok(n) if n >= 0.0 && n.is_finite() => Ok((n * scale) as u64),
        _ => Err(format!("{text:?} is no size: try 20MiB")),
    }
}

/// One device of one file, with the filters that apply to it.
pub(crate) struct Subject {
    pub(crate) opened: Opened,
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
    show_internal: bool,
}

impl Subject {
    /// Opens one file and chooses the device.
    pub(crate) fn open(path: &PathBuf, filter: &FilterArgs, cache: &CacheArgs) -> anyhow::Result<Self> {
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

    /// Takes an opened file, shows its warnings and chooses the device.
    pub(crate) fn new(opened: Opened, filter: &FilterArgs) -> anyhow::Result<Self> {
        for warning in text::warnings(&opened.snapshot) {
            text::complain(&format!("warning: {}: {warning}", opened.path.display()));
        }
        let replay = choose(&opened, filter.device)?;
        let filter = Filter::new(filter, &opened.snapshot, &opened.replays[replay])?;
        Ok(Self { opened, replay, filter })
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.opened.snapshot
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
        let Filter { stream, pool, min_size, stacks, since, until, .. } = &self.filter;
        stream.is_some()
            || pool.is_some()
            || *min_size > 0
            || stacks.is_some()
            || since.is_some()
            || until.is_some()
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

    /// What each stack weighs, as it was asked for: at a moment, or over a stretch.
    pub(crate) fn weights(&self, weigh: &WeighArgs) -> anyhow::Result<Weighed> {
        let replay = self.replay();
        if weigh.lifetime {
            let (from, to) = self.range();
            let weights = lifetime_weights(replay, from, to, |allocation| self.keeps(allocation, None));
            return Ok(Weighed { weights, at: None });
        }
        let state = replay.state(self.moment(&weigh.at)?);
        let weights = live_weights(replay, &state, |allocation| self.keeps(allocation, Some(&state)));
        Ok(Weighed { weights, at: Some(state.at) })
    }

    /// Where in the program: the user's own line, or the innermost of all.
    pub(crate) fn place(&self, stack: StackId) -> String {
        match self.snapshot().frames(stack).next() {
            Some(frame) if self.filter.show_internal => text::frame(self.snapshot(), frame),
            _ => text::place(self.snapshot(), stack),
        }
    }

    /// The verdict, where numbers may be estimates.
    pub(crate) fn verdict(&self) -> Option<String> {
        let verdict = self.replay().verdict();
        (verdict.status != Status::Exact).then(|| sentence(verdict.status, verdict.estimated_bytes))
    }

    /// Whether a frame is to be shown.
    pub(crate) fn shows(&self, frame: FrameId) -> bool {
        let frame = self.snapshot().stacks.frame(frame);
        let (name, file) = (self.snapshot().text(frame.name), self.snapshot().text(frame.file));
        self.filter.show_internal || !is_internal(name, file)
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
        Ok(Self {
            stream: args.stream,
            pool: args.pool,
            min_size: args.min_size.unwrap_or(0),
            stacks,
            since: resolve(&args.since)?,
            until: resolve(&args.until)?,
            show_internal: args.show_internal,
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
    fn sizes_as_they_are_typed() {
        assert_eq!(size("512"), Ok(512));
        assert_eq!(size("20MiB"), Ok(20 << 20));
        assert_eq!(size("1.5 g"), Ok(3 << 29));
        assert_eq!(size("2MB"), Ok(2_000_000));
        assert!(size("20 parsecs").unwrap_err().contains("unknown unit"));
        assert!(size("-1").is_err());
    }

    #[test]
    fn pools_as_they_are_typed() {
        assert_eq!(pool("0,1"), Ok((0, 1)));
        assert_eq!(pool("(2, 0)"), Ok((2, 0)));
        assert!(pool("7").is_err());
    }
}
