//! What a recording has, whether that is as it should be, and how to record it better.

use serde::Serialize;
use vramscope_analysis::{
    Allocation, Moment, Span, Status, StepsBy, is_internal_phase, verdict_notes, verdict_sentence,
};
use vramscope_simulate::Study;
use vramscope_snapshot::{Action, EventIdx, EventTable, MetaId, StackId};

use crate::subject::Subject;
use crate::text;

/// One thing that a recording has or lacks.
#[derive(Serialize)]
pub(super) struct Fact {
    pub(super) name: &'static str,
    /// Whether the file has it.
    pub(super) present: bool,
    /// Whether it is as it should be.
    pub(super) ok: bool,
    /// How much of it there is, or what cannot be told without it.
    pub(super) about: String,
    pub(super) notes: Vec<String>,
    /// Lines of Python, or what else to do.
    pub(super) advice: Option<String>,
}

impl Fact {
    /// As it should be.
    fn good(name: &'static str, about: impl Into<String>) -> Self {
        Self { name, present: true, ok: true, about: about.into(), notes: Vec::new(), advice: None }
    }

    /// Not there, and nothing is wrong with that.
    fn none(name: &'static str, about: impl Into<String>) -> Self {
        Self { present: false, ..Self::good(name, about) }
    }

    /// There, but not as it should be.
    fn poor(name: &'static str, about: impl Into<String>, advice: &str) -> Self {
        Self { ok: false, advice: Some(advice.to_owned()), ..Self::good(name, about) }
    }

    /// Not there, and it should be.
    pub(super) fn missing(name: &'static str, about: impl Into<String>, advice: &str) -> Self {
        Self { present: false, ..Self::poor(name, about, advice) }
    }

    pub(super) fn mark(&self) -> char {
        match (self.ok, self.present) {
            (false, true) => '!',
            (false, false) => '✗',
            (true, true) => '✓',
            (true, false) => '·',
        }
    }
}

/// Everything that is looked at, in the order in which it matters.
pub(super) fn facts(subject: &Subject) -> Vec<Fact> {
    // Simulating takes as long as everything else.
    let (mut facts, simulation) = rayon::join(|| read_off(subject), || simulation(subject));
    facts.push(simulation);
    facts.extend(sidecar(subject));
    facts.extend(extras(subject));
    facts
}

/// Does the simulated allocator do what the recorded one did?
fn simulation(subject: &Subject) -> Fact {
    match Study::new(subject.snapshot(), subject.replay().device(), None) {
        Ok(study) if study.agreement.is_exact() => {
            Fact::good("simulation", "reproduces the recording: whatif is reliable")
        }
        Ok(_) => Fact::good("simulation", "does not reproduce the recording: whatif gives estimates"),
        Err(why) => Fact::none("simulation", why.to_string()),
    }
}

/// What can be read off the file.
fn read_off(subject: &Subject) -> Vec<Fact> {
    let (snapshot, replay) = (subject.snapshot(), subject.replay());
    let events = snapshot.events(replay.device());
    let mut facts = vec![verdict(subject), history(subject, events)];
    facts.extend(stacks(subject, events));
    facts.push(match snapshot.has.addresses {
        true => Fact::good("segments", "a map of memory: holes, fragmentation, pools"),
        false => {
            Fact::none("segments", "no map of memory: fragmentation, pools and what was free cannot be told")
        }
    });
    facts.extend(times(subject, events));
    facts.push(annotations(subject));
    let steps = replay.steps();
    facts.push(match steps.by {
        StepsBy::Nothing => Fact::none("steps", "no steps: growth and trends cannot be told"),
        by => Fact::good("steps", format!("{}, by {}", text::plural(steps.list.len(), "step"), by.words())),
    });
    let has_metadata = (0..events.len()).any(|row| {
        let meta = events.get(row).meta;
        meta != MetaId(0) && !snapshot.text(snapshot.meta(meta).user_metadata).is_empty()
    });
    facts.push(match has_metadata {
        true => Fact::good("metadata", "user metadata on events"),
        false => Fact::none("metadata", "no user metadata on events"),
    });
    facts
}

/// What a recorder wrote beside the file.
fn sidecar(subject: &Subject) -> Option<Fact> {
    let (snapshot, device) = (subject.snapshot(), subject.replay().device());
    let roles = snapshot.sidecar.as_ref()?.storages.len();
    let facts = vramscope_analysis::recorded(snapshot, device, &text::size);
    let what = format!(
        "a sidecar lists what {} for",
        match roles {
            1 => "1 tensor is".to_owned(),
            n => format!("{} tensors are", text::count(n as u64)),
        }
    );
    Some(Fact {
        notes: facts.into_iter().map(|(name, words)| format!("{name}: {words}")).collect(),
        ..Fact::good("sidecar", what)
    })
}

/// What other recorders added, and what is not understood, as it is.
fn extras(subject: &Subject) -> Option<Fact> {
    let extras = &subject.snapshot().extras;
    let mut notes = Vec::new();
    if !extras.sources.is_empty() {
        notes.push(format!(
            "{}: lines of the program beside frames",
            text::plural(extras.sources.len(), "source file")
        ));
    }
    if !extras.shapes.is_empty() {
        notes.push(format!("{}: shapes of tensors", text::plural(extras.shapes.len(), "logged result")));
    }
    notes.extend(extras.raw.iter().map(|(key, raw)| format!("`{key}` is not understood: {raw}")));
    (!notes.is_empty()).then(|| Fact { notes, ..Fact::good("extras", "the recorder added keys of its own") })
}

/// Is the history complete?
fn verdict(subject: &Subject) -> Fact {
    let verdict = subject.replay().verdict();
    let what = verdict_sentence(verdict, &text::size);
    let advice = match verdict.status {
        Status::Exact => return Fact::good("verdict", what),
        Status::LateStart => {
            "Start recording before the first tensor is made, at the top of the script:\n\
             torch.cuda.memory._record_memory_history()"
        }
        Status::RingOverflow => {
            let events = subject.replay().events();
            // A ring that is full has as many events as it holds, which people choose as a round number.
            if !events.is_multiple_of(100) && !events.is_power_of_two() {
                "Dump before the history is cleared: calling _record_memory_history() again, or with enabled=None, \
                 clears it"
            } else if events < 1_000_000 {
                "Keep more of the history, or record a shorter part of the run:\n\
                 torch.cuda.memory._record_memory_history(max_entries=1_000_000)"
            } else {
                "Keep more of the history, or record a shorter part of the run:\n\
                 torch.cuda.memory._record_memory_history(max_entries=100_000_000)"
            }
        }
        Status::EventsSkipped => {
            "Record all actions: leave skip_actions out:\ntorch.cuda.memory._record_memory_history()"
        }
        Status::SettingsChanged => {
            "Set the allocator once, before the program starts:\nPYTORCH_CUDA_ALLOC_CONF=... python train.py"
        }
        Status::Truncated => {
            "The file was cut while it was written or copied. Compare its size with the original; dump before the \
             process is killed:\ntorch.cuda.memory._dump_snapshot(\"snapshot.pickle\")"
        }
        Status::StateOnly => {
            "Record the history too; enabled=\"state\" or None keeps none:\n\
             torch.cuda.memory._record_memory_history(enabled=\"all\")"
        }
    };
    // A profile has no knobs of the recorder, and its totals give the level all the same.
    let advice = match (subject.snapshot().has.addresses, verdict.status) {
        (false, Status::LateStart | Status::EventsSkipped) => {
            "The level is that of the file's totals. What makes it up from the first byte on is in a snapshot:\n\
             torch.cuda.memory._record_memory_history()"
        }
        _ => advice,
    };
    let fact = Fact::poor("verdict", what, advice);
    let notes =
        verdict_notes(verdict, &text::size).into_iter().filter(|note| !fact.about.contains(note.as_str()));
    Fact { notes: notes.collect(), ..fact }
}

/// What happened, and how long that took.
fn history(subject: &Subject, events: &EventTable) -> Fact {
    let (from, to) = subject.range();
    let (from, to) = (from.0 as usize, to.0 as usize);
    if from >= to {
        // The verdict says how to record one.
        let about = "only the state at the end: no peak, no growth, no lifetimes";
        return Fact { ok: false, ..Fact::none("history", about) };
    }
    let over = events.time_us(from).map_or_else(String::new, |first| {
        let last = events.time_us(to - 1).unwrap_or(first);
        format!(" over {}", vramscope_format::duration(last.saturating_sub(first)))
    });
    Fact::good("history", format!("{}{over}: what happened when", text::plural(to - from, "event")))
}

/// Does the file say where memory was allocated?
fn stacks(subject: &Subject, events: &EventTable) -> Vec<Fact> {
    let (mut allocs, mut absent, mut empty, mut frees, mut same) =
        (0_usize, 0_usize, 0_usize, 0_usize, 0_usize);
    let (from, to) = subject.range();
    for (row, event) in events.iter().enumerate().take(to.0 as usize).skip(from.0 as usize) {
        if !subject.keeps_event(EventIdx::from_index(row), &event) {
            continue;
        }
        match event.action {
            Action::Alloc => {
                allocs += 1;
                absent += usize::from(event.stack == StackId::ABSENT);
                empty += usize::from(event.stack == StackId::EMPTY);
            }
            Action::FreeRequested => {
                let event_idx = EventIdx::from_index(row);
                if let Some(index) = subject.replay().allocation_of(event_idx) {
                    frees += 1;
                    same += usize::from(subject.replay().allocation(index).recorded == event.stack);
                }
            }
            _ => {}
        }
    }
    let share = |part: usize| format!("{:.0}%", part as f64 / allocs as f64 * 100.0);
    if !subject.snapshot().has.stacks {
        let named = share(allocs - absent - empty);
        return vec![Fact::missing(
            "stacks",
            format!("Python stacks are not in this file; {named} of the allocations name their operator"),
            "Profile with stacks:\ntorch.profiler.profile(profile_memory=True, with_stack=True)",
        )];
    }
    if absent == allocs && allocs > 0 {
        return vec![Fact::missing(
            "stacks",
            "no allocation has a stack: recorded with context=None or context=\"state\"",
            "torch.cuda.memory._record_memory_history(context=\"all\")",
        )];
    }
    let of_allocations = (allocs > 0).then(|| share(allocs - absent - empty));
    let mut facts = vec![at_peak(subject, of_allocations.as_deref())];
    if frees > 0 && same == frees && absent == 0 {
        facts.push(Fact::poor(
            "frees",
            "frees carry the stack of their allocation (context=\"alloc\"): where memory is freed is not known",
            "torch.cuda.memory._record_memory_history(context=\"all\")",
        ));
    }
    facts
}

/// How much of what is live at the peak has a stack: what people want to know is where the bytes come from.
fn at_peak(subject: &Subject, of_allocations: Option<&str>) -> Fact {
    let (mut all, mut absent, mut empty) = (0_u64, 0_u64, 0_u64);
    let replay = subject.replay();
    let live = replay.state(subject.kept_peak().at).live;
    for block in live.into_iter().map(|index| (index, replay.allocation(index))) {
        if !subject.keeps(block.0, &block.1) {
            continue;
        }
        let Allocation { recorded, opened, requested, .. } = block.1;
        all = all.saturating_add(requested);
        match recorded {
            StackId::ABSENT => absent = absent.saturating_add(requested),
            StackId::EMPTY if opened == Moment::START => absent = absent.saturating_add(requested),
            StackId::EMPTY => empty = empty.saturating_add(requested),
            _ => {}
        }
    }
    let share = |bytes: u64| text::share(bytes, all.max(1));
    let named = all.saturating_sub(absent).saturating_sub(empty);
    if named == 0 && all > 0 {
        let advice = "torch.cuda.memory._record_memory_history(context=\"all\")";
        return Fact::missing(
            "stacks",
            "nothing that is live at the peak has a stack: no line can be named",
            advice,
        );
    }
    let of_allocations =
        of_allocations.map_or_else(String::new, |share| format!(", and {share} of all allocations"));
    let mut fact = Fact::good(
        "stacks",
        format!("{} of the bytes live at the peak have a stack{of_allocations}", share(named)),
    );
    let most = all / 20;
    if absent > most {
        fact.ok = false;
        fact.notes.push(format!("{} have none: they are older than the recording", share(absent)));
        fact.advice = Some(
            "Start recording before the model is made:\ntorch.cuda.memory._record_memory_history()".into(),
        );
    }
    if empty > most {
        fact.ok = false;
        fact.notes.push(format!(
            "{} have an empty one: they were made on threads without Python frames, such as autograd's",
            share(empty)
        ));
        let cpp = "C++ frames show what they are, at the price of larger files and slower dumps:\n\
                   torch.cuda.memory._record_memory_history(stacks=\"all\")";
        fact.advice = Some(match fact.advice.take() {
            Some(advice) => format!("{advice}\n{cpp}"),
            None => cpp.to_owned(),
        });
    }
    fact
}

fn times(subject: &Subject, events: &EventTable) -> Option<Fact> {
    let (from, to) = subject.range();
    (from < to).then(|| match events.time_us(from.0 as usize) {
        Some(_) => Fact::good("times", "events have times"),
        None => Fact::missing(
            "times",
            "events have no times: this writer has no clock (NPU, PyTorch before 2.2)",
            "Moments are named by their event number: --event N",
        ),
    })
}

fn annotations(subject: &Subject) -> Fact {
    let snapshot = subject.snapshot();
    let is_own = |span: &&Span| !is_internal_phase(snapshot.text(span.name));
    let found = subject.spans().iter().filter(is_own).count();
    if found > 0 {
        let about = format!("{} mark phases of the program", text::plural(found, "annotation"));
        return Fact::good("annotations", about);
    }
    Fact::missing(
        "annotations",
        "no annotations of your own: phases such as forward and backward cannot be told apart",
        "with torch.profiler.record_function(\"forward\"):\n    ...\n\
         # on other threads too: _record_memory_history(global_record_annotations=True)",
    )
}
