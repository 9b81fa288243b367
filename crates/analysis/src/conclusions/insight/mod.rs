//! What looks wrong: findings, each with how much it is about, when, where, the evidence, and what to do.
//!
//! Each module of this folder looks for one thing. A finding of high severity says that the run failed or will
//! fail; a medium one that memory or time could be had; a low one is good to know. Healthy runs have none above
//! low.

mod attention;
mod churn;
mod driver;
mod finding;
mod forecast;
mod gap;
mod growth;
mod kept;
mod ledger;
mod oom;
mod pending;
mod pool;
mod program;
mod rounding;
mod training;
mod trial;
mod weights;

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use vramscope_format::Units;
use vramscope_replay::{AllocIdx, Counter, Moment, Replay, Status};
use vramscope_snapshot::{Frame, Snapshot, StackId};

use crate::device::Device;
use crate::questions::capacity::collects_garbage;
use crate::questions::compare::Line;
use crate::shelf::Small;

pub(crate) use driver::DriverCalls;
pub use finding::{Amount, Evidence, Finding, Kind, Severity, ShowBytes, Site, command};
pub use oom::GOES_ON;
use trial::Trial;

/// What every module looks at.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) replay: &'a Replay,
    pub(crate) bytes: ShowBytes<'a>,
    /// What the stacks say, where passes begin and end, what memory is for.
    device: &'a Device,
    /// Settings that findings suggest are tried here.
    trial: &'a Trial<'a>,
}

impl Case<'_> {
    /// `train.py:88 forward`, the file without its folders.
    fn place(&self, frame: Frame) -> String {
        Line::new(self.snapshot, frame).short()
    }

    fn line(&self, frame: Option<Frame>) -> Option<Line> {
        frame.map(|frame| Line::new(self.snapshot, frame))
    }

    /// Whether unused segments are given back before memory runs out.
    fn collects_garbage(&self) -> bool {
        collects_garbage(self.snapshot)
    }

    /// What a setting would do to the peak of reserved bytes, for the end of an advice.
    fn effect_of(&self, settings: &str) -> String {
        let peak = signed(self.replay.peak(Counter::Reserved).bytes);
        self.trial.effect(settings, peak, self.bytes)
    }

    /// The highest requested bytes of every step that ended before a moment.
    fn peaks_before(&self, at: Moment) -> Vec<u64> {
        let ended = self.device.steps().list.iter().filter(|step| step.is_complete && step.to < at);
        ended.map(|step| signed(self.replay.extremes(step.from, step.to).1.requested)).collect()
    }

    /// The category of an allocation.
    fn category(&self, index: AllocIdx) -> String {
        let categories = self.device.categories();
        categories.names().get(categories.of(index)).map_or_else(String::new, String::clone)
    }

    /// Time between two moments, as far as the events have times.
    fn micros(&self, from: Moment, to: Moment) -> Option<u64> {
        let events = self.snapshot.events(self.replay.device());
        let time = |moment: Moment| events.time_us(moment.event()?.index());
        let last = Moment(events.len() as u32);
        u64::try_from(time(to.min(last))?.saturating_sub(time(from.max(Moment(1)))?)).ok()
    }
}

/// All findings of a device, with sizes in binary units.
#[derive(Serialize, Deserialize)]
struct Findings(Vec<Finding>);

impl Small for Findings {
    const NAME: &'static str = "findings";
}

/// The findings about failed allocations, with sizes in binary units.
#[derive(Serialize, Deserialize)]
struct Failures(Vec<Finding>);

impl Small for Failures {
    const NAME: &'static str = "failures";
}

impl Device {
    /// Everything that looks wrong, worst first, and of the same severity most bytes first.
    pub fn findings(&self, units: Units) -> Vec<Finding> {
        let find = || find(self, &|bytes| units.size(bytes), every_kind);
        match units {
            Units::Binary => self.once(|| Findings(find())).0.clone(),
            _ => find(),
        }
    }

    /// Works out ahead what [`Device::findings`] needs last. A caller that has threads does both at once.
    pub fn prepare_findings(&self) {
        if weights::looks_at(self) {
            self.categories();
        }
    }

    /// The findings about failed allocations alone, in the order of the trace.
    pub fn failures(&self, units: Units) -> Vec<Finding> {
        let find = || {
            let mut found = find(self, &|bytes| units.size(bytes), oom::find);
            found.retain(|finding| finding.kind == Kind::OutOfMemory);
            found
        };
        match units {
            Units::Binary => self.once(|| Failures(find())).0.clone(),
            _ => find(),
        }
    }
}

fn find(device: &Device, bytes: ShowBytes<'_>, look: fn(&Case<'_>) -> Vec<Finding>) -> Vec<Finding> {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let trial = Trial::new(snapshot, replay.device());
    let case = Case { snapshot, replay, bytes, device, trial: &trial };
    let mut findings = look(&case);
    findings.iter_mut().for_each(|finding| finding.devices = vec![replay.device()]);
    number(&mut findings);
    findings
}

/// Numbers the findings of each kind by when they begin.
fn number(findings: &mut [Finding]) {
    let mut order: Vec<&mut Finding> = findings.iter_mut().collect();
    order.sort_by_key(|finding| (finding.kind, finding.when));
    let mut before: Option<(Kind, u32)> = None;
    for finding in order {
        let number = before.filter(|(kind, _)| *kind == finding.kind).map_or(1, |(_, number)| number + 1);
        finding.number = number;
        before = Some((finding.kind, number));
    }
}

fn every_kind(case: &Case<'_>) -> Vec<Finding> {
    let calls = DriverCalls::new(case.device).settled(case);
    let mut findings = oom::find(case);
    let ledger = ledger::Ledger::new(case);
    findings.extend(kept::find(&ledger));
    findings.extend(program::find(&ledger));
    // Where stacks show no cycles, the phases that the program marks do, or else the troughs of the curve.
    let is_said =
        findings.iter().any(|found| matches!(found.kind, Kind::Growth | Kind::KeptGraph | Kind::Copies));
    if !is_said {
        findings.extend(growth::find(case).filter(|_| !ledger.tells()));
    }
    // An error that holes explain says more of them than the moment when most was held.
    let is_explained = findings.iter().any(|found| found.kind == Kind::Fragmentation);
    findings.extend(
        gap::find(case, &calls)
            .into_iter()
            .filter(|found| found.kind != Kind::Fragmentation || !is_explained),
    );
    findings.extend(pool::find(case));
    findings.extend(rounding::find(case));
    findings.extend(pending::find(case));
    findings.extend(driver::find(case, &calls));
    findings.extend(churn::find(case));
    let forecast = forecast::find(case);
    let is_short = !case.replay.ooms().is_empty() || calls.retries > 0 || forecast.is_some();
    findings.extend(forecast);
    findings.extend(training::find(case));
    findings.extend(attention::find(case));
    findings.extend(weights::find(case, is_short));
    // The last error ended the run, and comes before what explains it.
    let errors = findings.iter().filter(|finding| finding.kind == Kind::OutOfMemory);
    let last = errors.map(|finding| finding.when).max();
    let is_last = |finding: &Finding| finding.kind == Kind::OutOfMemory && Some(finding.when) == last;
    findings.sort_by_key(|finding| {
        (Reverse(finding.severity), !is_last(finding), Reverse(finding.bytes), finding.kind)
    });
    findings
}

/// What is said of a device without findings: that nothing looks wrong, as far as the file can tell, and what it cannot tell.
/// `bytes` writes sizes.
pub fn nothing_found(device: &Device, bytes: ShowBytes<'_>) -> String {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let verdict = replay.verdict();
    if verdict.status == Status::StateOnly || replay.events() == 0 {
        return "no findings: without a history there is little to find; vramscope doctor says how to record one"
            .to_owned();
    }
    let mut missing = Vec::new();
    let has_stack = |stack: &StackId| *stack != StackId::ABSENT && *stack != StackId::EMPTY;
    if !replay.allocations().stack.iter().any(has_stack) {
        missing.push("no allocation has a stack, so no line can be named".to_owned());
    }
    if !snapshot.has.addresses {
        missing.push("segments and holes are not in it".to_owned());
    }
    if verdict.status != Status::Exact {
        // The verdict itself stands above; here its name is enough.
        missing.push(vramscope_format::words(verdict.status.name()));
    }
    match missing.is_empty() {
        true => {
            let peak = |counter| bytes(signed(replay.peak(counter).bytes));
            let [requested, reserved] = [Counter::Requested, Counter::Reserved].map(peak);
            format!("nothing looks wrong: requested peaks at {requested}, reserved at {reserved}")
        }
        false => format!("nothing looks wrong as far as this file can tell: {}", missing.join("; ")),
    }
}

fn signed(bytes: i64) -> u64 {
    bytes.max(0).unsigned_abs()
}

/// A moment as users type it.
fn moment(at: Moment) -> String {
    at.event().map_or_else(|| "start".to_owned(), |event| event.0.to_string())
}
