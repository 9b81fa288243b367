//! The findings of the analysis with their numbers in words, as the list shows them.

use vramscope_analysis::{Counter, Device, Finding, Kind, Line, Moment, Replay, Severity};
use vramscope_files::findings;
use vramscope_format::{Units, printable, size};

/// One finding.
#[derive(Clone, Debug)]
pub(crate) struct Insight {
    pub(crate) severity: Severity,
    pub(crate) kind: &'static str,
    pub(crate) bytes: u64,
    /// Where to look: the highest moment of what it is about, or the first retry.
    pub(crate) at: Moment,
    pub(crate) what: String,
    /// The evidence, by name.
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) advice: String,
    /// The line that it is about.
    pub(crate) line: Option<Line>,
    /// Whether the map of segments shows it, rather than the tree.
    pub(crate) is_of_segments: bool,
}

/// The findings of a device, most severe first.
pub(crate) fn insights(replay: &Device) -> Vec<Insight> {
    findings(replay, Units::Binary).into_iter().map(|finding| insight(replay, finding)).collect()
}

fn insight(replay: &Replay, finding: Finding) -> Insight {
    let (from, to) = finding.when;
    let mut facts: Vec<(String, String)> = Vec::new();
    facts.push(("known".into(), finding.known_by.name().into()));
    if let Some(place) = &finding.site.line {
        facts.push(("line".into(), printable(&place.short())));
    }
    facts.extend(finding.facts(&size, "FILE").into_iter().map(|(name, value)| (name, printable(&value))));
    let is_of_segments = matches!(
        finding.kind,
        Kind::Fragmentation | Kind::Cached | Kind::PrivatePool | Kind::Unsplit | Kind::Retries
    );
    Insight {
        is_of_segments,
        line: finding.site.line,
        severity: finding.severity,
        kind: finding.kind.name(),
        bytes: finding.bytes,
        at: match finding.kind {
            // A retry is an event, wherever most was requested.
            Kind::Retries => from,
            _ => replay.highest(Counter::Requested, from, to.max(from)),
        },
        what: printable(&finding.what),
        facts,
        advice: printable(&finding.advice),
    }
}
