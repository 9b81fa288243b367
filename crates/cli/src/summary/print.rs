//! The summary as text.

use std::io::Write;

use vramscope_analysis::{Gap, Severity, Status};

use super::report::{CountersJson, Device, File, PeakJson, Peaks, PhaseJson, RestJson};
use crate::finding;
use crate::style::{self, Role};
use crate::table::Table;
use crate::text;

/// Findings that are shown; the others are counted.
const FINDINGS: usize = 6;

impl File {
    pub(super) fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        write!(
            out,
            "{} · {} · {}",
            style::paint(Role::Strong, &text::path(std::path::Path::new(&self.path))),
            self.format,
            text::size(self.bytes)
        )?;
        if let (Some(kind), Some(rank)) = (self.rank_kind, self.rank) {
            write!(out, " · {kind} {rank}")?;
        }
        if let Some(role) = &self.role {
            write!(out, " · {}", text::printable(role))?;
        }
        if let Some(step) = self.step {
            write!(out, " · step {step}")?;
        }
        writeln!(out)?;
        if let Some(recorder) = self.recorder.as_ref().filter(|recorder| !recorder.words.is_empty()) {
            writeln!(out, "{}", style::paint(Role::Dim, &text::printable(&recorder.words)))?;
        }
        if self.devices.is_empty() && self.is_damaged {
            writeln!(out, "  truncated: the file is cut before its first event or segment is complete")?;
        } else if self.devices.is_empty() {
            writeln!(out, "  nothing was allocated on any device while recording")?;
        }
        self.devices.iter().try_for_each(|device| device.print(&self.path, out))
    }
}

impl Device {
    fn print(&self, path: &str, out: &mut dyn Write) -> std::io::Result<()> {
        write!(
            out,
            "{} · {} · {}",
            self.name,
            text::plural(self.events, "event"),
            text::plural(self.allocations, "allocation"),
        )?;
        if let Some(segments) = self.segments {
            write!(out, " · {}", text::plural(segments, "segment"))?;
        }
        writeln!(out, " · {}", text::plural(self.stacks, "stack"))?;
        let role = if self.verdict.kind == Status::Exact { Role::Fine } else { Role::Warning };
        writeln!(out, "  {}", style::paint(role, &text::wrapped(&self.verdict.sentence, 2)))?;
        for note in &self.verdict.notes {
            writeln!(out, "  - {}", text::wrapped(&text::printable(note), 4))?;
        }
        if self.no_match {
            let all = text::plural(self.allocations, "allocation");
            return writeln!(
                out,
                "  {}",
                style::paint(Role::Warning, &format!("no match: the filters leave none of {all}"))
            );
        }
        self.print_counters(out)?;
        if let Some(chart) = &self.chart {
            writeln!(out, "\n{chart}")?;
        }
        self.print_lines(out)?;
        self.print_gap(out)?;
        self.print_outside(out)?;
        self.print_phases(out)?;
        self.print_findings(path, out)
    }

    fn print_counters(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out)?;
        let mut table = Table::new("")
            .left("", 0)
            .column("requested")
            .column("allocated")
            .column("active")
            .column("reserved");
        let row = |label: &str, counters: CountersJson| {
            let [requested, allocated, active, reserved] = self.cells(counters);
            [label.to_owned(), requested, allocated, active, reserved]
        };
        let Peaks { requested, allocated, active, reserved } = &self.peak;
        // Without a history there is one moment.
        if self.verdict.kind == Status::StateOnly {
            table.row(row("state", self.end), "");
            return table.print(out);
        }
        if self.start.reserved.is_some_and(|bytes| bytes != 0) || self.start.requested != 0 {
            table.row(row("start", self.start), "");
        }
        let peaks = CountersJson {
            requested: requested.bytes,
            allocated: allocated.bytes,
            active: active.bytes,
            reserved: reserved.map(|reserved| reserved.bytes),
        };
        table.painted(Role::Strong, row("peak", peaks), "");
        table.row(row("end", self.end), "");
        table.print(out)?;
        writeln!(out)?;
        match (requested.event, requested.time_us) {
            (Some(event), Some(time)) => {
                writeln!(out, "  peak at event {}, {}", text::count(event), text::time(time))?;
            }
            (Some(event), None) => writeln!(out, "  peak at event {}", text::count(event))?,
            (None, _) if self.events > 0 => writeln!(out, "  the peak is at the start")?,
            (None, _) => {}
        }
        if let Some(PeakJson { bytes, event, .. }) = self.kept_peak {
            let event =
                event.map_or_else(|| "the start".into(), |event| format!("event {}", text::count(event)));
            writeln!(out, "  what passes the filters is highest at {event}: {}", text::bytes(bytes))?;
        }
        Ok(())
    }

    fn print_lines(&self, out: &mut dyn Write) -> std::io::Result<()> {
        if self.live_at_peak.is_empty() {
            return Ok(());
        }
        let sum = self
            .live_at_peak
            .iter()
            .fold(self.rest_at_peak.bytes, |sum, line| sum.saturating_add(line.bytes));
        let total = sum.max(1) as f64;
        let heading = if self.verdict.kind == Status::StateOnly {
            "live, by line"
        } else {
            "live at the peak, by line"
        };
        let mut table = Table::new(heading).column(self.sizes()).column("share").column("count");
        writeln!(out)?;
        let mut row = |bytes: u64, count: u64, label: String| {
            let share = bytes as f64 / total;
            let cells = [text::size(bytes), text::percent(share), text::count(count)];
            table.painted(style::heat(share), cells, label);
        };
        for line in &self.live_at_peak {
            row(line.bytes, line.count, line.label.clone());
        }
        let RestJson { lines, bytes, count } = self.rest_at_peak;
        if lines > 0 {
            row(bytes, count, text::plural(lines, "more line"));
        }
        table.print(out)
    }

    fn print_gap(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let Some(gap) = self.gap_at_peak.filter(Gap::is_worth_a_word) else { return Ok(()) };
        let total = text::size(gap.total);
        writeln!(out, "\n  reserved but not requested at the peak: {total}")?;
        writeln!(out, "    {}", text::wrapped(&gap.sentence(&text::size), 4))?;
        match gap.waiting_sentence(&text::size) {
            Some(waiting) => writeln!(out, "    {}", text::wrapped(&waiting, 4)),
            None => Ok(()),
        }
    }

    fn print_outside(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let memory: Vec<_> = self.recorded.iter().filter(|(name, _)| name.ends_with("memory")).collect();
        if !memory.is_empty() {
            writeln!(out)?;
            for (name, words) in &memory {
                // The sentence about the device says what it is about.
                let words = if *name == "memory" { words.clone() } else { format!("{name}: {words}") };
                writeln!(out, "  {}", text::wrapped(&text::printable(&words), 4))?;
            }
            return Ok(());
        }
        if self.outside.is_empty() {
            return Ok(());
        }
        let shown = self.outside.iter().map(|outside| {
            let name = text::printable(&outside.name);
            match outside.peak > outside.bytes {
                true => format!("{name} {} (peak {})", text::size(outside.bytes), text::size(outside.peak)),
                false => format!("{name} {}", text::size(outside.bytes)),
            }
        });
        let shown = shown.collect::<Vec<_>>().join(" · ");
        writeln!(out, "\n  outside the allocator, as the file lists it:\n    {}", text::wrapped(&shown, 4))
    }

    fn print_phases(&self, out: &mut dyn Write) -> std::io::Result<()> {
        if self.phases.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let mut table = Table::new("phase").column("peak").column("times").optional("allocations", 1);
        for PhaseJson { name, count, peak, allocations, .. } in &self.phases {
            table.row(
                [text::bytes(*peak), text::count(*count), text::count(*allocations)],
                text::printable(name),
            );
        }
        table.print(out)
    }

    fn print_findings(&self, path: &str, out: &mut dyn Write) -> std::io::Result<()> {
        if self.found.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        for finding in self.found.iter().take(FINDINGS) {
            finding::print_short(finding, out)?;
        }
        let more = self.found.len().saturating_sub(FINDINGS);
        let has_more_to_say = self.found.iter().any(|finding| finding.severity > Severity::Low);
        if more > 0 || has_more_to_say {
            let count = if more > 0 { format!("{more} more, and details") } else { "details".into() };
            let hint = format!("    {count}: vramscope insights {}", text::printable(path));
            writeln!(out, "{}", style::paint(Role::Dim, &hint))?;
        }
        Ok(())
    }
}
