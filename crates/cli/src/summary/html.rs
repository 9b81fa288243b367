//! The summary as a part of a page: what `report` shows without any script.

use vramscope_analysis::{Gap, Severity, Status};
use vramscope_engine::LineId;
use vramscope_engine::color::of_line;
use vramscope_format::html;

use super::report::{CountersJson, Device, File, Peaks, PhaseJson};
use crate::text;

/// Findings that are shown; the others are in the text below.
const FINDINGS: usize = 12;

/// What the page shows of a device beside its summary, by the name of the device.
pub(crate) struct Figure {
    /// Which device.
    pub(crate) device: String,
    /// The memory timeline.
    pub(crate) timeline: String,
    /// What memory is for.
    pub(crate) purposes: String,
    /// What other settings would have done.
    pub(crate) trials: String,
}

/// A part of a bar: what it is, how many bytes, and its color as CSS has it.
pub(crate) struct Piece {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) color: String,
}

/// A bar of the pieces of a whole, and what each is.
pub(crate) fn bar(pieces: &[Piece]) -> String {
    let whole = pieces.iter().fold(0_u64, |sum, piece| sum.saturating_add(piece.bytes)).max(1);
    let share = |piece: &Piece| 100.0 * piece.bytes as f64 / whole as f64;
    let parts: String = pieces
        .iter()
        .map(|piece| format!("<span style=\"width:{:.3}%;background:{}\"></span>", share(piece), piece.color))
        .collect();
    let key: String = pieces
        .iter()
        .map(|piece| {
            let (name, size) = (html(&text::printable(&piece.name)), text::size(piece.bytes));
            format!("<li><i style=\"background:{}\"></i>{name} <b>{size}</b></li>", piece.color)
        })
        .collect();
    format!("<div class=\"split\">{parts}</div>\n<ul class=\"key\">{key}</ul>\n")
}

/// A color as CSS has it.
pub(crate) fn css([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

impl File {
    /// Everything about the file. Its text ends it, for people who copy it.
    pub(crate) fn html(&self, name: &str, figures: &[Figure], text: &str) -> String {
        let mut page = format!("<h2>{}</h2>\n<p>{}</p>\n", html(name), html(&self.about()));
        for warning in &self.warnings {
            page += &format!("<p class=\"mark\">{}</p>\n", html(&text::printable(warning)));
        }
        if self.devices.is_empty() {
            page += "<p>Nothing was allocated on any device while recording.</p>\n";
        }
        for device in &self.devices {
            let figure = figures.iter().find(|figure| figure.device == device.name);
            page += &device.html(figure);
        }
        page + &format!("<details><summary>As text</summary><pre>{}</pre></details>\n", html(text))
    }

    fn about(&self) -> String {
        let mut words = vec![self.format.clone(), text::size(self.bytes)];
        if let (Some(kind), Some(rank)) = (self.rank_kind, self.rank) {
            words.push(format!("{kind} {rank}"));
        }
        words.extend(self.step.map(|step| format!("step {step}")));
        words.extend(self.role.clone());
        words.extend(self.recorder.as_ref().map(|recorder| recorder.words.clone()));
        words.retain(|word| !word.is_empty());
        text::printable(&words.join(" · "))
    }
}

impl Device {
    fn html(&self, figure: Option<&Figure>) -> String {
        let is_fine = self.verdict.kind == Status::Exact;
        let (fine, mark) = if is_fine { (" fine", "●") } else { ("", "▲") };
        let (word, rest) = self.verdict.sentence.split_once(':').unwrap_or((&self.verdict.sentence, ""));
        let mut page = format!(
            "<h3>{} <span class=\"mark{fine}\">{mark} {}</span></h3>\n",
            html(&text::printable(&self.name)),
            html(word)
        );
        for note in std::iter::once(rest.trim()).chain(self.verdict.notes.iter().map(String::as_str)) {
            if !note.is_empty() {
                page += &format!("<p class=\"dim\">{}</p>\n", html(&text::printable(note)));
            }
        }
        page += &self.numbers();
        page += figure.map_or("", |figure| figure.timeline.as_str());
        page += &self.findings_html();
        page += figure.map_or("", |figure| figure.purposes.as_str());
        page += &self.memory_html();
        page += &self.lines_html();
        page += &self.gap_html();
        page += &self.counters_html();
        page += &self.phases_html();
        page + figure.map_or("", |figure| figure.trials.as_str())
    }

    fn numbers(&self) -> String {
        let peak = &self.peak;
        let mut shown = vec![(text::bytes(peak.allocated.bytes), "peak allocated")];
        let sizes = self.sizes();
        if sizes == "requested" {
            shown.insert(0, (text::bytes(peak.requested.bytes), "peak requested"));
        }
        shown.extend(peak.reserved.map(|peak| (text::bytes(peak.bytes), "peak reserved")));
        let at_end = format!("{sizes} at the end");
        shown.push((text::bytes(self.end.requested), at_end.as_str()));
        shown.push((text::count(self.events as u64), "events"));
        shown.push((text::count(self.allocations as u64), "allocations"));
        if self.failed() > 0 {
            shown.push((text::count(self.failed() as u64), "failed allocations"));
        }
        let items: String = shown
            .iter()
            .map(|(number, what)| format!("<li><b>{number}</b><span>{what}</span></li>"))
            .collect();
        format!("<ul class=\"numbers\">{items}</ul>\n")
    }

    fn findings_html(&self) -> String {
        if self.found.is_empty() {
            return String::new();
        }
        let mut page = String::from("<h4>Findings</h4>\n<ol class=\"findings\">\n");
        for finding in self.found.iter().take(FINDINGS) {
            let severity = finding.severity.name();
            let mark = match finding.severity {
                Severity::High => "high",
                Severity::Medium => "medium",
                Severity::Low => "",
            };
            let advice = match finding.advice.is_empty() {
                true => String::new(),
                false => format!("<p>{}</p>", html(&text::printable(&finding.advice))),
            };
            page += &format!(
                "<li class=\"{mark}\"><small>{severity} · {}</small><p>{}</p>{advice}</li>\n",
                finding.known_by.name(),
                html(&text::printable(&finding.what))
            );
        }
        page + "</ol>\n"
    }

    /// What the device has as a whole, and who holds it.
    fn memory_html(&self) -> String {
        let mut page = String::new();
        if let Some(memory) = &self.memory {
            let piece = |name: &str, bytes: u64, color: &str| Piece {
                name: name.to_owned(),
                bytes,
                color: color.to_owned(),
            };
            let mut pieces = vec![piece("reserved by PyTorch", memory.reserved, "var(--accent)")];
            let shades = ["#d55e00", "#e69f00", "#cc79a7", "#9a6fb0"];
            for (holder, shade) in self.outside.iter().zip(shades.iter().cycle()) {
                pieces.push(piece(&holder.name, holder.bytes, shade));
            }
            pieces.push(piece("free", memory.free, "var(--free)"));
            page += &format!("<h4>Memory of the device <span>{}</span></h4>\n", text::size(memory.capacity));
            page += &bar(&pieces);
        }
        for (name, words) in self.recorded.iter().filter(|(name, _)| *name != "memory" && *name != "versions")
        {
            page += &format!("<p class=\"dim\">{name}: {}</p>\n", html(&text::printable(words)));
        }
        page
    }

    fn lines_html(&self) -> String {
        if self.live_at_peak.is_empty() {
            return String::new();
        }
        let sum = self
            .live_at_peak
            .iter()
            .fold(self.rest_at_peak.bytes, |sum, line| sum.saturating_add(line.bytes));
        let heaviest = self.live_at_peak.first().map_or(1, |line| line.bytes).max(1);
        let row = |bytes: u64, count: u64, label: &str, color: Option<String>| {
            let swatch =
                color.map_or_else(String::new, |color| format!("<i style=\"background:{color}\"></i>"));
            let width = (100.0 * bytes as f64 / heaviest as f64).min(100.0);
            format!(
                "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"bar\">\
                 <span style=\"width:{width:.1}%\"></span></td><td class=\"n\">{}</td><td class=\"wide\">{swatch}{}</td></tr>\n",
                text::size(bytes),
                text::share(bytes, sum.max(1)),
                text::count(count),
                html(label)
            )
        };
        let heading = match self.verdict.kind {
            Status::StateOnly => "Live, by line",
            _ => "Live at the peak, by line",
        };
        let mut page = format!(
            "<h4>{heading}</h4>\n<div class=\"scroll\"><table>\n<tr><th class=\"n\">requested</th>\
             <th class=\"n\">share</th><th></th><th class=\"n\">count</th><th>line</th></tr>\n"
        );
        for line in &self.live_at_peak {
            let color = css(of_line(LineId::of(&line.label), 1));
            page += &row(line.bytes, line.count, &line.label, Some(color));
        }
        if self.rest_at_peak.lines > 0 {
            let words = text::plural(self.rest_at_peak.lines, "more line");
            page += &row(self.rest_at_peak.bytes, self.rest_at_peak.count, &words, None);
        }
        page + "</table></div>\n"
    }

    fn gap_html(&self) -> String {
        let Some(gap) = self.gap_at_peak.filter(Gap::is_worth_a_word) else { return String::new() };
        let waiting = gap.waiting_sentence(&text::size);
        let waiting = waiting.map_or_else(String::new, |words| format!("<p>{}</p>\n", html(&words)));
        format!(
            "<h4>Reserved but not requested at the peak <span>{}</span></h4>\n<p>{}</p>\n{waiting}",
            text::size(gap.total),
            html(&gap.sentence(&text::size))
        )
    }

    fn counters_html(&self) -> String {
        let row = |label: &str, counters: CountersJson| {
            let cells: String =
                self.cells(counters).iter().map(|cell| format!("<td class=\"n\">{cell}</td>")).collect();
            format!("<tr><th>{label}</th>{cells}</tr>\n")
        };
        let Peaks { requested, allocated, active, reserved } = &self.peak;
        let peak = CountersJson {
            requested: requested.bytes,
            allocated: allocated.bytes,
            active: active.bytes,
            reserved: reserved.map(|reserved| reserved.bytes),
        };
        let head: String = ["requested", "allocated", "active", "reserved"]
            .map(|name| format!("<th class=\"n\">{name}</th>"))
            .concat();
        let rows = match self.verdict.kind {
            Status::StateOnly => row("state", self.end),
            _ => row("start", self.start) + &row("peak", peak) + &row("end", self.end),
        };
        format!("<h4>Counters</h4>\n<table class=\"small\">\n<tr><th></th>{head}</tr>\n{rows}</table>\n")
    }

    fn phases_html(&self) -> String {
        if self.phases.is_empty() {
            return String::new();
        }
        let mut page = String::from(
            "<h4>Phases</h4>\n<table class=\"small\">\n<tr><th class=\"n\">peak</th><th class=\"n\">times</th>\
             <th class=\"n\">allocations</th><th>phase</th></tr>\n",
        );
        for PhaseJson { name, count, peak, allocations, .. } in &self.phases {
            page += &format!(
                "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>\n",
                text::bytes(*peak),
                text::count(*count),
                text::count(*allocations),
                html(&text::printable(name))
            );
        }
        page + "</table>\n"
    }
}
