//! What looks wrong, as the list shows it.

use vramscope_analysis::{Moment, Replay, Span, gap, growth};
use vramscope_snapshot::Snapshot;

use crate::words::{bytes, frame, plural, signed};

/// How grave it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gravity {
    High,
    Medium,
    Low,
}

/// One finding.
#[derive(Clone, Debug)]
pub(crate) struct Insight {
    pub(crate) gravity: Gravity,
    pub(crate) bytes: u64,
    /// Where to look.
    pub(crate) at: Moment,
    pub(crate) what: String,
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) advice: String,
}

/// Everything that looks wrong on a device, gravest first.
pub(crate) fn insights(snapshot: &Snapshot, replay: &Replay, _spans: &[Span]) -> Vec<Insight> {
    let mut found = Vec::new();
    for oom in replay.ooms().iter().take(20) {
        let at = Moment::after(oom.event);
        let state = replay.state(at);
        let free: u64 = state.holes.iter().map(|hole| hole.size).sum();
        found.push(Insight {
            gravity: Gravity::High,
            bytes: oom.requested,
            at,
            what: format!(
                "Out of memory at event {}: {} asked, {} free on the device",
                vramscope_analysis::units::count(oom.event.0),
                bytes(oom.requested),
                bytes(oom.device_free)
            ),
            facts: vec![
                ("requested".into(), signed(state.counters.requested)),
                ("reserved".into(), signed(state.counters.reserved)),
                ("free in holes".into(), bytes(free)),
                ("largest hole".into(), bytes(state.largest_hole())),
            ],
            advice: if free >= oom.requested {
                "Try expandable_segments:True: what was free would have been enough, in one piece".into()
            } else {
                "Hold less at this moment: the tree says what was live".into()
            },
        });
    }
    if let Some(growth) = growth(snapshot, replay) {
        let at = replay.end();
        found.push(Insight {
            gravity: Gravity::High,
            bytes: growth.bytes,
            at,
            what: format!(
                "Memory grows by {} with each {:?}",
                bytes(growth.bytes_per_step),
                snapshot.text(growth.phase)
            ),
            facts: growth.lines.iter().take(5).map(|&(line, n)| (bytes(n), frame(snapshot, line))).collect(),
            advice: format!(
                "Detach what is kept from step to step: {}",
                plural(growth.repetitions, "repetition")
            ),
        });
    }
    let peak = replay.peak(vramscope_analysis::Counter::Reserved);
    let gap = gap(snapshot, replay, &replay.state(peak.at));
    let (cause, most) = gap.parts()[0];
    if most >= 64 << 20 && most as f64 >= peak.bytes.max(0) as f64 * 0.15 {
        found.push(Insight {
            gravity: Gravity::Medium,
            bytes: most,
            at: peak.at,
            what: format!("{} of what is reserved is not requested: {cause}", bytes(most)),
            facts: gap.parts().iter().map(|&(cause, n)| (cause.replace('_', " "), bytes(n))).collect(),
            advice: "Look at the segments at this moment".into(),
        });
    }
    found
}
