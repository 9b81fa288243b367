//! `vramscope phases`: annotated phases with what they did to memory.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use vramscope_analysis::{Phase, Span, is_internal_phase, phase_name};

use crate::args::PhasesArgs;
use crate::style::{self, Role};
use crate::subject::{Subject, answer};
use crate::table::Table;
use crate::text;

pub(crate) fn run(args: &PhasesArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    answer(&args.source, None, out, &mut |subject, _, out| {
        let is_shown =
            |span: &Span| !subject.hides_internal() || !is_internal_phase(subject.snapshot().text(span.name));
        let (phases, hidden) = subject.phases(is_shown);
        if args.source.output.json {
            let phases = phases.iter().map(|phase| PhaseJson::new(subject, phase)).collect();
            let device = subject.replay().device().0;
            return Ok(vramscope_files::json(out, &Report { schema: "vramscope/phases/1", device, phases })?);
        }
        Ok(print(subject, &phases, hidden, out)?)
    })
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

fn print(subject: &Subject, phases: &[Phase], hidden: usize, out: &mut dyn Write) -> std::io::Result<()> {
    subject.print_heading(&text::plural(phases.len(), "phase"), out)?;
    let hidden = match hidden {
        0 => String::new(),
        n => format!("{} of PyTorch itself; --hide-internal=false shows them", text::plural(n, "annotation")),
    };
    if phases.is_empty() {
        let hidden = if hidden.is_empty() { hidden } else { format!("\n  {hidden}") };
        return writeln!(
            out,
            "\n  no annotations of your own: with torch.profiler.record_function(\"forward\"): ... makes one{hidden}"
        );
    }
    writeln!(out)?;
    let mut table = Table::new("phase")
        .column("peak")
        .column("growth")
        .optional("last growth", 2)
        .optional("allocations", 1)
        .column("time")
        .column("times");
    let highest = phases.iter().map(|phase| phase.peak.bytes).max().unwrap_or(0);
    for phase in phases {
        // Phases inside others are indented; those of another thread are marked.
        let lane = if phase.lane > 0 { format!("[{}] ", phase.lane) } else { String::new() };
        let name = phase_name(subject.snapshot().text(phase.name));
        let name = format!("{}{lane}{}", "  ".repeat(phase.depth.min(8) as usize), text::printable(name));
        let role = if phase.peak.bytes == highest { Role::Warning } else { Role::Plain };
        let row = [
            text::bytes(phase.peak.bytes),
            text::signed(phase.growth),
            text::signed(phase.last_growth),
            text::count(phase.allocations),
            text::duration(phase.time_us),
            text::count(phase.count),
        ];
        table.painted(role, row, name);
    }
    table.print(out)?;
    writeln!(out, "\n  {}", style::paint(Role::Dim, "growth: net growth over all runs of the phase"))?;
    if !hidden.is_empty() {
        writeln!(out, "  {}", style::paint(Role::Dim, &hidden))?;
    }
    Ok(())
}
