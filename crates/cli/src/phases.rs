//! `vramscope phases`: annotated phases with what they did to memory.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use vramscope_analysis::{Phase, is_internal_phase, phase_name, phases, spans};

use crate::args::PhasesArgs;
use crate::filter::Subject;
use crate::style::{self, Role};
use crate::text;

pub(crate) fn run(args: &PhasesArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let subject = Subject::open(&args.source)?;
    let (snapshot, (from, to)) = (subject.snapshot(), subject.range());
    let mut spans = spans(snapshot, subject.replay().device());
    spans.retain(|span| span.to >= from && span.from <= to);
    if subject.hides_internal() {
        spans.retain(|span| !is_internal_phase(snapshot.text(span.name)));
    }
    let phases = phases(snapshot, subject.replay(), &spans);
    if args.source.output.json {
        let phases = phases.iter().map(|phase| PhaseJson::new(&subject, phase)).collect();
        let device = subject.replay().device().0;
        vramscope_files::json(&mut *out, &Report { schema: "vramscope/phases/1", device, phases })?;
        writeln!(out)?;
    } else {
        print(&subject, &phases, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    device: i32,
    phases: Vec<PhaseJson<'a>>,
}

#[derive(Serialize)]
struct PhaseJson<'a> {
    name: &'a str,
    count: u32,
    lane: u32,
    depth: u32,
    peak: i64,
    peak_event: Option<u32>,
    growth: i64,
    last_growth: i64,
    allocations: u64,
    first_event: Option<u32>,
    last_event: Option<u32>,
    time_us: u64,
}

impl<'a> PhaseJson<'a> {
    fn new(subject: &'a Subject, phase: &Phase) -> Self {
        let event = |moment: vramscope_analysis::Moment| moment.event().map(|event| event.0);
        Self {
            name: phase_name(subject.snapshot().text(phase.name)),
            count: phase.count,
            lane: phase.lane,
            depth: phase.depth,
            peak: phase.peak.bytes,
            peak_event: event(phase.peak.at),
            growth: phase.growth,
            last_growth: phase.last_growth,
            allocations: phase.allocations,
            first_event: event(phase.stretch.0),
            last_event: event(phase.stretch.1),
            time_us: phase.time_us,
        }
    }
}

fn print(subject: &Subject, phases: &[Phase], out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{}", text::printable(&subject.opened.path.display().to_string()))?;
    if phases.is_empty() {
        return writeln!(
            out,
            "\n  no annotations: with torch.profiler.record_function(\"forward\"): ... makes one"
        );
    }
    let heading = format!(
        "  {:>10}  {:>10}  {:>10}  {:>11}  {:>9}  {:>6}  phase",
        "peak", "left", "last left", "allocations", "time", "times"
    );
    writeln!(out, "\n{}", style::paint(Role::Dim, &heading))?;
    let room = text::columns().saturating_sub(72).max(20);
    let highest = phases.iter().map(|phase| phase.peak.bytes).max().unwrap_or(0);
    for phase in phases {
        // Phases inside others are indented; those of another thread are marked.
        let lane = if phase.lane > 0 { format!("[{}] ", phase.lane) } else { String::new() };
        let name = phase_name(subject.snapshot().text(phase.name));
        let name = format!("{}{lane}{}", "  ".repeat(phase.depth.min(8) as usize), text::printable(name));
        let peak = format!("{:>10}", text::bytes(phase.peak.bytes));
        let role = if phase.peak.bytes == highest { Role::Warning } else { Role::Plain };
        writeln!(
            out,
            "  {}  {:>10}  {:>10}  {:>11}  {:>9}  {:>6}  {}",
            style::paint(role, &peak),
            text::signed(phase.growth),
            text::signed(phase.last_growth),
            text::count(phase.allocations),
            text::duration(phase.time_us),
            text::count(phase.count),
            text::fit(&name, room)
        )?;
    }
    writeln!(
        out,
        "\n{}",
        style::paint(
            Role::Dim,
            "  left: bytes at the end of a phase more than at its beginning, of all together"
        )
    )
}
