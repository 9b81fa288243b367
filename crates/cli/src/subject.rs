//! One device of one file, with the filters that apply to it; and the loop that answers for every device.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{bail, ensure};
use vramscope_analysis::pools::known_pool;
use vramscope_analysis::query::{Handle, MomentSpec, QueryError, Selection, Thing, devices};
use vramscope_analysis::tables::Keep;
use vramscope_analysis::{
    AllocIdx, Allocation, Conclusions, Counter, Device, Finding, Made, Moment, Peak, Phase, Range,
    RankDigest, Span, State, Status, Weight, lifetime_weights, makers, phases_of, verdict_sentence,
};
use vramscope_files::{Opened, find, open};
use vramscope_snapshot::{Event, EventIdx, FrameId, Pool, Segment, Snapshot, StackId};

use crate::args::{CacheArgs, FilterArgs, OutputArgs, Source, WeighArgs};
use crate::batch::joined;
use crate::output::json_of_each;
use crate::progress::Bar;
use crate::style::{self, Role};
use crate::text;

/// One device of one file, with the filters that apply to it.
pub(crate) struct Subject {
    pub(crate) opened: Arc<Opened>,
    replay: usize,
    selection: Selection,
}

/// Weights of stacks, and the moment they belong to; none if they are over a stretch.
pub(crate) struct Weighed {
    pub(crate) weights: Vec<Weight>,
    pub(crate) at: Option<Moment>,
}

/// How an answer ends: with the exit code of the command.
pub(crate) type Answered = anyhow::Result<ExitCode>;

/// Prints the answer for one device at one moment.
pub(crate) type Each<'a> = &'a mut dyn FnMut(&Subject, Moment, &mut dyn Write) -> anyhow::Result<()>;

/// Opens one file and answers for every device that the question is about, as text or as JSON. A device on which the
/// moment does not exist is left out, unless that leaves none. JSON of several devices is a list of their answers.
pub(crate) fn answer(
    source: &Source,
    at: Option<&MomentSpec>,
    out: &mut dyn Write,
    each: Each<'_>,
) -> Answered {
    let subjects = open_path(&source.path, &source.filter, &source.output.cache)?;
    answer_of(&subjects, at, &source.output, out, each)
}

/// The same for a question that needs a map of memory: where segments and blocks lie.
pub(crate) fn answer_map(
    source: &Source,
    at: Option<&MomentSpec>,
    out: &mut dyn Write,
    each: Each<'_>,
) -> Answered {
    let subjects = open_path(&source.path, &source.filter, &source.output.cache)?;
    if let Some(subject) = subjects.first() {
        subject.needs_map()?;
    }
    answer_of(&subjects, at, &source.output, out, each)
}

fn answer_of(
    subjects: &[Subject],
    at: Option<&MomentSpec>,
    output: &OutputArgs,
    out: &mut dyn Write,
    each: Each<'_>,
) -> Answered {
    // A moment may exist on one device only.
    let at_each = |subject: &Subject| match at {
        Some(spec) => Ok(subject.moment(spec)?),
        None => Ok(subject.range().1),
    };
    answer_found(subjects, output, out, at_each, |subject, at, out| each(subject, *at, out))
}

/// The same for a question that some devices cannot answer: those are left out, unless that leaves none. `make` finds the
/// answer of a device before anything is printed.
pub(crate) fn answer_found<'a, T>(
    subjects: &'a [Subject],
    output: &OutputArgs,
    out: &mut dyn Write,
    make: impl Fn(&'a Subject) -> anyhow::Result<T>,
    mut write: impl FnMut(&'a Subject, &T, &mut dyn Write) -> anyhow::Result<()>,
) -> Answered {
    let mut found = Vec::new();
    let mut failed = None;
    for subject in subjects {
        match make(subject) {
            Ok(answer) => found.push((subject, answer)),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    if let Some(error) = failed.filter(|_| found.is_empty()) {
        return Err(error);
    }
    if output.json {
        json_of_each(&found, out, |(subject, answer), out| write(subject, answer, out))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (number, (subject, answer)) in found.iter().enumerate() {
        match number {
            0 => writeln!(out, "{}", style::paint(Role::Strong, &subject.path()))?,
            _ => writeln!(out)?,
        }
        write(subject, answer, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the file at a path; one subject per device that the filters leave.
pub(crate) fn open_path(
    path: &PathBuf,
    filter: &FilterArgs,
    cache: &CacheArgs,
) -> anyhow::Result<Vec<Subject>> {
    let (inputs, errors) = find(std::slice::from_ref(path));
    ensure!(!inputs.is_empty(), joined(&errors));
    errors.iter().for_each(|error| text::complain(&error.to_string()));
    let [input] = inputs.as_slice() else {
        let names: Vec<_> =
            inputs.iter().take(8).map(|input| format!("\n  {}", input.path.display())).collect();
        let count = inputs.len();
        let path = path.display();
        let more = count.saturating_sub(names.len());
        let more = if more > 0 { format!("\n  … {more} more") } else { String::new() };
        bail!(
            "{path} holds {count} snapshots; name one of them, or compare all with vramscope ranks {path}:{}{more}",
            names.concat()
        );
    };
    let cache = cache.cache();
    let bar = Bar::new(&inputs);
    let opened = open(input, cache.as_ref(), &bar)?;
    drop(bar);
    for warning in text::warnings(&opened.snapshot) {
        text::complain(&format!("warning: {}: {warning}", text::path(&opened.path)));
    }
    Subject::each(opened, filter)
}

/// The one device that an output of one device is about.
pub(crate) fn one_device(subjects: &[Subject]) -> anyhow::Result<&Subject> {
    match subjects {
        [only] => Ok(only),
        several => {
            let names: Vec<_> = several.iter().map(Subject::device).collect();
            bail!("the file has {}: name one with --device", names.join(", "))
        }
    }
}

impl Subject {
    /// Every device of a file that the filters leave.
    pub(crate) fn each(opened: Opened, filter: &FilterArgs) -> anyhow::Result<Vec<Self>> {
        filter.ignore_frames(&opened);
        let found = devices(&opened.snapshot, &opened.devices, filter.device)?;
        let opened = Arc::new(opened);
        let filter = filter.filter();
        let subject = |replay: usize| {
            let selection = filter.bind(&opened.devices[replay])?;
            Ok(Self { opened: Arc::clone(&opened), replay, selection })
        };
        // Phases and moments that bound a filter may exist on one device only.
        let mut subjects = Vec::new();
        let mut failed: Option<QueryError> = None;
        for replay in found {
            match subject(replay) {
                Ok(subject) => subjects.push(subject),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) if subjects.is_empty() => Err(error.into()),
            _ => Ok(subjects),
        }
    }

    /// Refuses where the file has no map of memory.
    fn needs_map(&self) -> anyhow::Result<()> {
        if self.snapshot().has.addresses {
            return Ok(());
        }
        bail!(
            "{}: segments, holes and pools are not in this file ({}): it lists blocks and totals. A snapshot has them: \
             torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")",
            self.path(),
            self.snapshot().format
        )
    }

    /// The path as it is shown.
    pub(crate) fn path(&self) -> String {
        text::path(&self.opened.path)
    }

    /// What the device is called.
    pub(crate) fn device(&self) -> String {
        text::printable(&self.snapshot().device_name(self.replay().device()))
    }

    /// The line above every answer: which device and when; below it the verdict, where numbers may be estimates, and
    /// whether the filters leave anything.
    pub(crate) fn print_heading(&self, when: &str, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out, "{} · {when}", self.device())?;
        if let Some(verdict) = self.verdict() {
            writeln!(out, "  {}", style::paint(Role::Warning, &text::wrapped(&verdict, 2)))?;
        }
        if self.is_empty() {
            let all = text::plural(self.replay().allocations().len(), "allocation");
            writeln!(
                out,
                "  {}",
                style::paint(Role::Warning, &format!("no match: the filters leave none of {all}"))
            )?;
        }
        Ok(())
    }

    /// The same for a moment.
    pub(crate) fn print_moment(&self, at: Moment, out: &mut dyn Write) -> std::io::Result<()> {
        let events = self.snapshot().events(self.replay().device());
        self.print_heading(&text::when(events, at.event()), out)
    }

    /// Whether the filters leave no allocation at all.
    pub(crate) fn is_empty(&self) -> bool {
        if self.selection.only_stacks().is_some() {
            return makers(&self.made()).next().is_none();
        }
        self.selection.leaves_out_allocations()
            && !self.replay().allocations().iter().any(|(index, allocation)| self.keeps(index, &allocation))
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.opened.snapshot
    }

    /// Whether the file tells how much is held from the driver.
    pub(crate) fn has_reserved(&self) -> bool {
        self.snapshot().has_reserved(self.replay().device())
    }

    pub(crate) fn replay(&self) -> &Device {
        &self.opened.devices[self.replay]
    }

    /// What is concluded about the allocations of this device.
    pub(crate) fn conclusions(&self) -> Conclusions {
        self.replay().conclusions()
    }

    /// What is worth a word about this device.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        vramscope_files::findings(self.replay(), style::units())
    }

    /// What is to be said about allocations that failed.
    pub(crate) fn failures(&self) -> Vec<Finding> {
        self.replay().failures(style::units())
    }

    /// The phases of this device in the part of the trace that is looked at, of spans that `keep` keeps; and how many of
    /// those it does not.
    pub(crate) fn phases(&self, keep: impl Fn(&Span) -> bool) -> (Vec<Phase>, usize) {
        let spans = self.spans();
        let sums = self.replay().span_sums();
        let (from, to) = self.range();
        let inside = spans.iter().zip(sums.iter()).filter(|(span, _)| span.to >= from && span.from <= to);
        let (kept, others): (Vec<_>, Vec<_>) = inside.partition(|(span, _)| keep(span));
        (phases_of(self.snapshot(), kept.into_iter()), others.len())
    }

    /// The annotations as spans, in order of beginning.
    pub(crate) fn spans(&self) -> &[Span] {
        self.replay().spans()
    }

    /// The handle of a thing in this file and on this device, as it is printed.
    pub(crate) fn handle(&self, thing: Thing) -> String {
        let device = (self.opened.devices.len() > 1).then(|| self.replay().device());
        Handle { thing, device }.to_string()
    }

    /// A moment of this trace.
    pub(crate) fn moment(&self, spec: &MomentSpec) -> Result<Moment, QueryError> {
        self.selection.moment(spec, self.replay())
    }

    /// The stretch of the trace that `--since` and `--until` leave.
    pub(crate) fn range(&self) -> (Moment, Moment) {
        self.selection.range()
    }

    /// The sizes that pass the filters.
    pub(crate) fn sizes(&self) -> RangeInclusive<u64> {
        self.selection.sizes()
    }

    /// Whether anything but the device is restricted.
    pub(crate) fn is_filtered(&self) -> bool {
        self.selection.is_restricted()
    }

    /// Whether some allocations are left out, whenever they lived.
    pub(crate) fn leaves_out_allocations(&self) -> bool {
        self.selection.leaves_out_allocations()
    }

    /// When a counter of the device was highest in the stretch that is looked at.
    pub(crate) fn peak(&self, counter: Counter) -> Peak {
        self.selection.peak(self.replay(), counter)
    }

    /// When the requested bytes of what passes the filters were highest.
    pub(crate) fn kept_peak(&self) -> Peak {
        self.selection.kept_peak(self.replay())
    }

    /// What each stack holds at a moment, of what passes the filters.
    pub(crate) fn live(&self, state: &State) -> Vec<Weight> {
        self.selection.live(self.snapshot(), state)
    }

    /// The allocations that pass the filters, in order. Of a long trace only those of the stretch are looked at.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (AllocIdx, Allocation)> {
        let allocations = self.replay().allocations();
        let all = 0..allocations.len() as u32;
        let part = self.selection.bounds().map(|(from, to)| self.replay().in_stretch(from, to));
        let (all, part) = match part {
            Some(part) => (0..0, part),
            None => (all, Vec::new()),
        };
        let indices = all.map(AllocIdx).chain(part);
        let kept = indices.map(|index| (index, allocations.get(index)));
        kept.filter(|(index, allocation)| self.keeps(*index, allocation))
    }

    /// What each stack made, of what passes the filters, by the number of the stack.
    pub(crate) fn made(&self) -> Cow<'_, [Made]> {
        let replay = self.replay();
        let is_by_stack = !self.leaves_out_allocations() || self.selection.only_stacks().is_some();
        let made = match self.selection.bounds() {
            _ if !is_by_stack => Cow::Owned(Made::by_stack(replay.end(), self.kept())),
            None => replay.made(),
            Some((from, to)) => Cow::Owned(replay.made_between(from, to)),
        };
        match self.selection.only_stacks() {
            None => made,
            Some(stacks) => {
                let kept = |(made, &keep): (&Made, &bool)| if keep { *made } else { Made::default() };
                Cow::Owned(made.iter().zip(stacks).map(kept).collect())
            }
        }
    }

    /// What each stack holds at a moment, of what passes the filters, by stack.
    pub(crate) fn live_by_stack(&self, at: Moment) -> HashMap<StackId, Weight> {
        let weights = self.live(&self.replay().state(at)).into_iter();
        weights.map(|weight| (weight.stack, weight)).collect()
    }

    /// Whether an event passes the filters, apart from its time.
    pub(crate) fn keeps_event(&self, row: EventIdx, event: &Event) -> bool {
        self.selection.keeps_event(self.replay(), row, event)
    }

    /// Whether a segment passes the filters.
    pub(crate) fn keeps_segment(&self, pool: Option<Pool>, stream: u64, size: u64) -> bool {
        self.selection.keeps_segment(pool, stream, size)
    }

    /// The same for a range of memory that is held.
    pub(crate) fn keeps_range(&self, range: &Range) -> bool {
        let snapshot = self.snapshot();
        let pool = known_pool(snapshot, range.pool);
        self.keeps_segment(pool, snapshot.stream(range.stream), range.size)
    }

    /// Whether a finding is about something that passes the filters.
    pub(crate) fn keeps_finding(&self, finding: &Finding) -> bool {
        self.selection.keeps_finding(finding)
    }

    /// What is kept of this rank to compare it with others.
    pub(crate) fn digest(&self, rank: Option<u64>) -> RankDigest {
        let when = (self.kept_peak(), self.range().1);
        RankDigest::new(rank, self.replay(), when, |index, allocation| self.keeps(index, allocation))
    }

    /// What each stack weighs, as it was asked for: at a moment, or over a stretch.
    pub(crate) fn weights(&self, weigh: &WeighArgs, at: Moment) -> Weighed {
        if weigh.lifetime {
            let (from, to) = self.range();
            let keep = |index, allocation: &_| self.keeps(index, allocation);
            return Weighed { weights: lifetime_weights(self.replay(), from, to, keep), at: None };
        }
        Weighed { weights: self.live(&self.replay().state(at)), at: Some(at) }
    }

    /// Where in the program: the user's own line, or the innermost of all.
    pub(crate) fn place(&self, stack: StackId) -> String {
        text::printable(&self.selection.place(self.snapshot(), stack))
    }

    /// The verdict, where numbers may be estimates.
    pub(crate) fn verdict(&self) -> Option<String> {
        let verdict = self.replay().verdict();
        (verdict.status != Status::Exact).then(|| verdict_sentence(verdict, &text::size))
    }

    /// Whether what PyTorch does itself is left out.
    pub(crate) fn hides_internal(&self) -> bool {
        self.selection.hides_internal()
    }

    /// Whether a frame is to be shown.
    pub(crate) fn shows(&self, frame: FrameId) -> bool {
        self.selection.shows(self.snapshot(), frame)
    }

    /// Whether an allocation passes the filters.
    pub(crate) fn keeps(&self, index: AllocIdx, allocation: &Allocation) -> bool {
        self.selection.keeps(self.snapshot(), index, allocation)
    }
}

/// What leaves as a table passes the filters.
impl Keep for Subject {
    fn range(&self) -> (Moment, Moment) {
        self.selection.range()
    }

    fn allocation(&self, index: AllocIdx, allocation: &Allocation) -> bool {
        self.keeps(index, allocation)
    }

    fn event(&self, row: EventIdx, event: &Event) -> bool {
        self.keeps_event(row, event)
    }

    fn segment(&self, segment: &Segment) -> bool {
        let (pool, stream) = (self.snapshot().pool(segment.pool), self.snapshot().stream(segment.stream));
        self.keeps_segment(pool, stream, segment.total_size)
    }
}
