//! `vramscope doctor`: is this recording any good, and how to record a better one.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use vramscope_analysis::query::{NOTHING_RECORDED, QueryError};
use vramscope_analysis::{Allocation, Moment, Status};
use vramscope_snapshot::{Action, EventIdx, EventTable, StackId};

use crate::args::DoctorArgs;
use crate::subject::{Subject, answer};
use crate::text;

pub(crate) fn run(args: &DoctorArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let asked = answer(&args.source, None, out, &mut |subject, _, out| {
        let checks = checks(subject);
        if args.source.output.json {
            let report = Report {
                schema: "vramscope/doctor/2",
                device: Some(subject.replay().device().0),
                checks: &checks,
            };
            return Ok(vramscope_files::json(out, &report)?);
        }
        writeln!(out, "{}", subject.device())?;
        Ok(print(&checks, out)?)
    });
    // A recording of nothing is what this verb is for.
    match asked {
        Err(error) if error.downcast_ref().is_some_and(|QueryError(why)| why == NOTHING_RECORDED) => {
            let checks = [Check::bad(
                error.to_string(),
                "Record where the tensors are made, in the process that makes them, and dump after that:\n\
                 torch.cuda.memory._record_memory_history()\n...\n\
                 torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")",
            )];
            if args.source.output.json {
                let report = Report { schema: "vramscope/doctor/2", device: None, checks: &checks };
                vramscope_files::json(&mut *out, &report)?;
                writeln!(out)?;
            } else {
                print(&checks, out)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        asked => asked,
    }
}

fn print(checks: &[Check], out: &mut dyn Write) -> std::io::Result<()> {
    for check in checks {
        writeln!(out, "\n  {} {}", if check.ok { "✓" } else { "!" }, text::wrapped(&check.what, 4))?;
        for note in &check.notes {
            writeln!(out, "      {}", text::wrapped(&text::printable(note), 6))?;
        }
        for line in check.advice.iter().flat_map(|advice| advice.lines()) {
            writeln!(out, "      > {}", text::wrapped(line, 8))?;
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    /// None where nothing was allocated on any.
    device: Option<i32>,
    checks: &'a [Check],
}

/// One thing that was looked at.
#[derive(Serialize)]
struct Check {
    ok: bool,
    what: String,
    notes: Vec<String>,
    /// Lines of Python, or what else to do.
    advice: Option<String>,
}

impl Check {
    fn good(what: impl Into<String>) -> Self {
        Self { ok: true, what: what.into(), notes: Vec::new(), advice: None }
    }

    fn bad(what: impl Into<String>, advice: &str) -> Self {
        Self { ok: false, what: what.into(), notes: Vec::new(), advice: Some(advice.to_owned()) }
    }
}

fn checks(subject: &Subject) -> Vec<Check> {
    let events = subject.snapshot().events(subject.replay().device());
    let mut checks = vec![history(subject)];
    checks.extend(stacks(subject, events));
    checks.push(times(subject, events));
    checks.push(annotations(subject));
    checks.extend(sidecar(subject));
    checks.extend(extras(subject));
    checks
}

/// What a recorder wrote beside the file.
fn sidecar(subject: &Subject) -> Option<Check> {
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
    Some(Check {
        notes: facts.into_iter().map(|(name, words)| format!("{name}: {words}")).collect(),
        ..Check::good(what)
    })
}

/// What other recorders added, and what is not understood, as it is.
fn extras(subject: &Subject) -> Option<Check> {
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
    (!notes.is_empty()).then(|| Check { notes, ..Check::good("the recorder added keys of its own") })
}

/// Is the history complete?
fn history(subject: &Subject) -> Check {
    let verdict = subject.replay().verdict();
    let what = verdict.sentence();
    let advice = match verdict.status {
        Status::Exact => return Check::good(what),
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
    let mut check = Check::bad(what, advice);
    check.notes.clone_from(&verdict.notes);
    check
}

/// Does the file say where memory was allocated?
fn stacks(subject: &Subject, events: &EventTable) -> Vec<Check> {
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
    if allocs == 0 {
        return Vec::new();
    }
    let share = |part: usize| format!("{:.0}%", part as f64 / allocs as f64 * 100.0);
    let mut checks = Vec::new();
    if !subject.snapshot().has.stacks {
        let named = share(allocs - absent - empty);
        checks.push(Check::bad(
            format!("Python stacks are not in this file; {named} of the allocations name their operator"),
            "Profile with stacks:\ntorch.profiler.profile(profile_memory=True, with_stack=True)",
        ));
        return checks;
    }
    if absent == allocs {
        checks.push(Check::bad(
            "no allocation has a stack: recorded with context=None or context=\"state\"",
            "torch.cuda.memory._record_memory_history(context=\"all\")",
        ));
        return checks;
    }
    checks.push(at_peak(subject, &share(allocs - absent - empty)));
    if frees > 0 && same == frees && absent == 0 {
        checks.push(Check::bad(
            "frees carry the stack of their allocation (context=\"alloc\"): where memory is freed is not known",
            "torch.cuda.memory._record_memory_history(context=\"all\")",
        ));
    }
    checks
}

/// How much of what is live at the peak has a stack: what people want to know is where the bytes come from.
fn at_peak(subject: &Subject, of_allocations: &str) -> Check {
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
    let mut check = Check::good(format!(
        "{} of the bytes live at the peak have a stack, and {of_allocations} of all allocations",
        share(named)
    ));
    let most = all / 20;
    if absent > most {
        check.ok = false;
        check.notes.push(format!("{} have none: they are older than the recording", share(absent)));
        check.advice = Some(
            "Start recording before the model is made:\ntorch.cuda.memory._record_memory_history()".into(),
        );
    }
    if empty > most {
        check.ok = false;
        check.notes.push(format!(
            "{} have an empty one: they were made on threads without Python frames, such as autograd's",
            share(empty)
        ));
        let cpp = "C++ frames show what they are, at the price of larger files and slower dumps:\n\
                   torch.cuda.memory._record_memory_history(stacks=\"all\")";
        check.advice = Some(match check.advice.take() {
            Some(advice) => format!("{advice}\n{cpp}"),
            None => cpp.to_owned(),
        });
    }
    check
}

fn times(subject: &Subject, events: &EventTable) -> Check {
    let (from, to) = subject.range();
    let (from, to) = (from.0 as usize, to.0 as usize);
    match (from >= to, events.time_us(from)) {
        (true, _) => Check::bad("there are no events", "torch.cuda.memory._record_memory_history()"),
        (false, Some(first)) => {
            let last = events.time_us(to - 1).unwrap_or(first);
            let time = vramscope_format::duration(last.saturating_sub(first));
            Check::good(format!("{} over {time}", text::plural(to - from, "event")))
        }
        (false, None) => Check::bad(
            "events have no times: this writer has no clock (NPU, PyTorch before 2.2)",
            "Moments are named by their event number: --event N",
        ),
    }
}

fn annotations(subject: &Subject) -> Check {
    let snapshot = subject.snapshot();
    let mut spans = subject.spans();
    spans.retain(|span| !vramscope_analysis::is_internal_phase(snapshot.text(span.name)));
    let found = spans.len();
    if found > 0 {
        return Check::good(format!("{} mark phases of the program", text::plural(found, "annotation")));
    }
    Check::bad(
        "no annotations of your own: phases such as forward and backward cannot be told apart",
        "with torch.profiler.record_function(\"forward\"):\n    ...\n\
         # on other threads too: _record_memory_history(global_record_annotations=True)",
    )
}
