//! What looks wrong, with the allocations that each finding is about.

use std::borrow::Borrow;

use serde::{Deserialize, Serialize};
use vramscope_analysis::{AllocIdx, Finding, KnownBy, Moment, RankDigest, Severity, compare_ranks};
use vramscope_format::{Units, size, words};

use crate::answers::LineId;
use crate::device::{DeviceIndex, File};
use crate::sets::Group;

/// What looks wrong on a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Insights {
    /// The worst first.
    pub found: Vec<Insight>,
    /// What is said if there is none: nothing, as far as the file can tell, and what it cannot tell.
    pub silence: String,
}

/// A finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Insight {
    /// What kind: `growth`, `fragmentation`, ...
    pub kind: String,
    /// How bad it is.
    pub severity: Severity,
    /// How it is known.
    pub known_by: KnownBy,
    /// In one line.
    pub title: String,
    /// The evidence: a name, and a value.
    pub evidence: Vec<(String, String)>,
    /// What to do.
    pub advice: String,
    /// Bytes that it is about.
    pub bytes: u64,
    /// From which moment to which.
    pub when: Option<(Moment, Moment)>,
    /// An allocation to look at.
    pub alloc: Option<AllocIdx>,
    /// The allocations that it is about, if they have something in common.
    pub group: Option<Group>,
    /// The same in words.
    pub about: String,
    /// `when` in microseconds since the first event.
    pub time: (i64, i64),
}

/// What looks wrong, the worst first.
pub(crate) fn insights(file: &File, device: &DeviceIndex) -> Insights {
    let found = device.replay.findings(Units::Binary);
    let largest = |finding: &Finding| Some(device.totals().get(&finding.site.stack?)?.largest);
    let clock = device.clock(&file.snapshot);
    let time = |at: Moment| clock.map_or(0, |clock| clock.of(at.min(device.replay.end())));
    let of_one = |finding: &Finding| {
        let (group, about) = about(file, finding).unzip();
        let time = (time(finding.when.0), time(finding.when.1));
        let about = about.unwrap_or_default();
        Insight { alloc: largest(finding), group, about, time, ..insight(finding) }
    };
    let found = found.iter().map(of_one).collect();
    Insights { found, silence: vramscope_analysis::nothing_found(&device.replay, &size) }
}

/// The allocations that a finding is about, and what they are called: those of its line, or of its pool.
fn about(file: &File, finding: &Finding) -> Option<(Group, String)> {
    if let Some(stack) = finding.site.stack {
        let known = file.stack_name(stack);
        let group = if known.line == LineId(0) { Group::Stack(stack) } else { Group::Line(known.line) };
        return Some((group, known.place.clone()));
    }
    let pool = finding.site.pool?;
    Some((file.pool_group(pool)?, vramscope_format::pool(Some(pool))))
}

/// What the comparison of ranks says is wrong, the worst first.
pub fn rank_insights<D: Borrow<RankDigest>>(ranks: &[D]) -> Vec<Insight> {
    let found = vramscope_analysis::rank_insights(ranks, &compare_ranks(ranks), &size);
    found.iter().map(|finding| Insight { when: None, ..insight(finding) }).collect()
}

fn insight(finding: &Finding) -> Insight {
    Insight {
        kind: words(finding.kind.name()),
        severity: finding.severity,
        known_by: finding.known_by,
        title: finding.what.clone(),
        evidence: finding.facts(&size, "FILE"),
        advice: finding.advice.clone(),
        bytes: finding.bytes,
        when: Some(finding.when),
        ..Insight::default()
    }
}
