//! Findings as JSON and as text, the same wherever they are shown.

use std::borrow::Cow;
use std::io::Write;

use serde::Serialize;
use vramscope_analysis::query::Thing;
use vramscope_analysis::{Amount, Evidence, Finding, KnownBy, Line, Moment, Severity, command};
use vramscope_snapshot::Pool;

use crate::output::FrameJson;
use crate::style::{self, Role};
use crate::subject::Subject;
use crate::text;

#[derive(Serialize)]
pub(crate) struct FindingJson {
    /// The same whenever the same thing is found again.
    id: String,
    /// What `show` takes; none where it is about several files.
    handle: Option<String>,
    /// None where it is about several files.
    device: Option<i32>,
    devices: Vec<i32>,
    pub(crate) kind: &'static str,
    pub(crate) severity: &'static str,
    known_by: &'static str,
    pub(crate) bytes: u64,
    /// The events after which it begins and ends; none before the first.
    first_event: Option<u32>,
    last_event: Option<u32>,
    rank: Option<u64>,
    pool: Option<Pool>,
    stream: Option<u64>,
    segment: Option<u64>,
    line: Option<LineJson>,
    stack: Vec<LineJson>,
    what: String,
    evidence: Vec<EvidenceJson>,
    advice: String,
}

/// A line of the program that has left its file.
#[derive(Serialize)]
struct LineJson {
    name: String,
    file: String,
    line: u32,
}

impl From<&Line> for LineJson {
    fn from(line: &Line) -> Self {
        let Line { file, line, name } = line.clone();
        Self { name, file, line }
    }
}

impl From<FrameJson<'_>> for LineJson {
    fn from(frame: FrameJson<'_>) -> Self {
        Self { name: frame.name.to_owned(), file: frame.file.to_owned(), line: frame.line }
    }
}

#[derive(Serialize)]
struct EvidenceJson {
    name: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    #[serde(flatten)]
    value: AmountJson,
    /// The command that shows it, without the program and the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<String>,
}

#[derive(Serialize)]
#[serde(tag = "unit", content = "value", rename_all = "snake_case")]
enum AmountJson {
    Bytes(u64),
    Count(u64),
    Share(f64),
    Microseconds(u64),
    Text(String),
}

impl From<&Evidence> for EvidenceJson {
    fn from(evidence: &Evidence) -> Self {
        let value = match &evidence.value {
            Amount::Bytes(n) => AmountJson::Bytes(*n),
            Amount::Count(n) => AmountJson::Count(*n),
            Amount::Share(share) => AmountJson::Share(*share),
            Amount::Micros(us) => AmountJson::Microseconds(*us),
            Amount::Text(text) => AmountJson::Text(text.clone()),
        };
        Self {
            name: evidence.name.clone(),
            place: evidence.place.clone(),
            value,
            query: evidence.query.clone(),
        }
    }
}

impl FindingJson {
    /// A finding of a file; without one, of several.
    pub(crate) fn new(subject: Option<&Subject>, finding: &Finding) -> Self {
        let snapshot = subject.map(Subject::snapshot);
        let event = |moment: Moment| moment.event().map(|event| event.0);
        let stack = snapshot.zip(finding.site.stack).map(|(snapshot, stack)| {
            snapshot.frames(stack).map(|frame| FrameJson::new(snapshot, frame).into()).collect()
        });
        Self {
            id: finding.id(),
            handle: subject.map(|subject| subject.handle(Thing::Finding(finding.name()))),
            device: subject.map(|subject| subject.replay().device().0),
            devices: finding.devices.iter().map(|device| device.0).collect(),
            kind: finding.kind.name(),
            severity: finding.severity.name(),
            known_by: finding.known_by.name(),
            bytes: finding.bytes,
            first_event: event(finding.when.0),
            last_event: event(finding.when.1),
            rank: finding.site.rank,
            pool: finding.site.pool,
            stream: finding.site.stream,
            segment: finding.site.segment,
            line: finding.site.line.as_ref().map(LineJson::from),
            stack: stack.unwrap_or_default(),
            what: finding.what.clone(),
            evidence: finding.evidence.iter().map(EvidenceJson::from).collect(),
            advice: finding.advice.clone(),
        }
    }
}

/// A number with its unit.
fn amount(amount: &Amount) -> String {
    text::printable(&amount.words(&text::size))
}

/// The finding and its advice.
pub(crate) fn print_short(finding: &Finding, out: &mut dyn Write) -> std::io::Result<()> {
    let mark = match finding.severity {
        Severity::High => style::paint(Role::Bad, "!!"),
        Severity::Medium => style::paint(Role::Warning, " !"),
        Severity::Low => style::paint(Role::Dim, " ·"),
    };
    writeln!(out, " {mark} {}", text::wrapped(&text::printable(&finding.what), 4))?;
    if finding.severity > Severity::Low {
        let advice = text::wrapped(&text::printable(&finding.advice), 6);
        writeln!(out, "    {} {advice}", style::paint(Role::Dim, "→"))?;
    }
    Ok(())
}

/// The finding with everything that it rests on. Its handle is empty where it is about several files.
pub(crate) fn print_long(
    finding: &Finding,
    handle: &str,
    file: &str,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let (role, mark) = match finding.severity {
        Severity::High => (Role::Bad, "!!"),
        Severity::Medium => (Role::Warning, "! "),
        Severity::Low => (Role::Dim, "· "),
    };
    let size = match finding.bytes {
        0 => String::new(),
        n => text::size(n),
    };
    let mut kind = vramscope_format::words(finding.kind.name());
    if finding.known_by == KnownBy::Likely {
        kind.push_str(" (likely)");
    }
    let heading = format!(
        "\n  {} {size:>10}  {}  {handle}",
        style::paint(role, mark),
        style::paint(Role::Strong, &kind)
    );
    writeln!(out, "{}", heading.trim_end())?;
    let line = |out: &mut dyn Write, text: &str| writeln!(out, "     {}", text::wrapped(text, 5));
    line(out, &text::printable(&finding.what))?;
    for Evidence { name, place, value, .. } in &finding.evidence {
        let place = place.as_ref().map_or_else(String::new, |place| format!(" {}", text::printable(place)));
        let fact = match value {
            Amount::Text(text) => format!("       {:>12}  {name}: {}", "", text::printable(text)),
            value => format!("       {:>12}  {name}{place}", amount(value)),
        };
        writeln!(out, "{}", style::paint(Role::Dim, &fact))?;
    }
    if let Some(when) = when(finding) {
        writeln!(out, "{}", style::paint(Role::Dim, &format!("       {:>12}  {when}", "")))?;
    }
    for query in finding.queries() {
        let query = text::printable(&command(query, file));
        writeln!(out, "{}", style::paint(Role::Dim, &format!("       {:>12}  {query}", "")))?;
    }
    line(out, &format!("→ {}", text::printable(&finding.advice)))
}

fn when(finding: &Finding) -> Option<String> {
    let name = |moment: Moment| moment.event().map_or_else(|| "start".into(), |event| text::count(event.0));
    match finding.when {
        (from, to) if from == to => Some(format!("at event {}", name(to))),
        (Moment::START, _) => None,
        (from, to) => Some(format!("events {} to {}", name(from), name(to))),
    }
}
