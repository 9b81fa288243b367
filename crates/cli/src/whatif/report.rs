//! The JSON of `whatif`.

use serde::Serialize;
use vramscope_analysis::{Counter, Moment};
use vramscope_simulate::{Action, Agreement, Answer, Counters, End, OutOfMemory};

use super::Question;
use super::batch::Run;
use crate::output::FrameJson;

/// Stretches of the curves.
pub(super) const STRETCHES: usize = 200;

#[derive(Serialize)]
pub(crate) struct Report<'a> {
    schema: &'static str,
    path: String,
    device: i32,
    events: usize,
    recorded: Recorded,
    self_check: SelfCheck,
    /// What is assumed about the program, in words.
    assumptions: &'a [String],
    settings: Vec<Simulated<'a>>,
}

impl<'a> Report<'a> {
    pub(super) fn new(question: &'a Question, assumptions: &'a [String], runs: &'a [Run]) -> Self {
        let subject = &question.subject;
        Self {
            schema: "vramscope/whatif/1",
            path: subject.opened.path.display().to_string(),
            device: subject.replay().device().0,
            events: subject.replay().events(),
            recorded: Recorded::new(question),
            self_check: SelfCheck::new(&question.study.agreement),
            assumptions,
            settings: runs.iter().map(|run| Simulated::new(question, run)).collect(),
        }
    }
}

/// The recording itself.
#[derive(Serialize)]
struct Recorded {
    settings: String,
    /// Lowest and highest limit that explains it; null if nothing was refused.
    limit_between: Option<[u64; 2]>,
    requested_peak: i64,
    reserved_peak: i64,
    gap_at_peak: i64,
    device_allocs: usize,
    device_frees: usize,
    /// Events at which memory ran out.
    out_of_memory: Vec<u32>,
    /// Highest reserved bytes in equal stretches of the trace.
    reserved: Vec<i64>,
}

impl Recorded {
    fn new(question: &Question) -> Self {
        let replay = question.subject.replay();
        let facts = question.study.simulator.requests().facts();
        let calls = question.study.simulator.requests().device_calls();
        let taken = calls.iter().filter(|call| call.action.takes()).count();
        let peak = replay.peak(Counter::Reserved);
        Self {
            settings: question.study.recorded.to_string(),
            limit_between: facts.limit.map(|(low, high)| [low, high]),
            requested_peak: replay.peak(Counter::Requested).bytes,
            reserved_peak: peak.bytes,
            gap_at_peak: peak.bytes - replay.counters(peak.at).requested,
            device_allocs: taken,
            device_frees: calls.len() - taken,
            out_of_memory: facts.failures.iter().map(|moment| moment.saturating_sub(1)).collect(),
            reserved: recorded_curve(question, STRETCHES),
        }
    }
}

/// Highest reserved bytes of the recording in each stretch, as [`vramscope_simulate::Curve`] cuts them.
pub(super) fn recorded_curve(question: &Question, stretches: usize) -> Vec<i64> {
    let replay = question.subject.replay();
    let events = replay.events() as u64;
    let count = stretches.max(1) as u64;
    let start = |stretch: u64| Moment(((stretch * events).div_ceil(count)) as u32);
    (0..count)
        .map(|stretch| {
            let (from, to) = (start(stretch), start(stretch + 1));
            replay.counters(replay.highest(Counter::Reserved, from, to)).reserved
        })
        .collect()
}

#[derive(Serialize)]
struct SelfCheck {
    exact: bool,
    recorded: usize,
    simulated: usize,
    equal: usize,
    first_difference: Option<DifferenceJson>,
}

#[derive(Serialize)]
struct DifferenceJson {
    event: Option<u32>,
    recorded: Option<Call>,
    simulated: Option<Call>,
}

#[derive(Serialize)]
struct Call {
    action: &'static str,
    bytes: u64,
}

impl SelfCheck {
    fn new(agreement: &Agreement) -> Self {
        let call = |(action, bytes): (Action, u64)| Call { action: action.name(), bytes };
        let Agreement { recorded, simulated, equal, ref first_difference, decided: _ } = *agreement;
        Self {
            exact: agreement.is_exact(),
            recorded,
            simulated,
            equal,
            first_difference: first_difference.as_ref().map(|difference| DifferenceJson {
                event: difference.moment.checked_sub(1),
                recorded: difference.recorded.map(call),
                simulated: difference.simulated.map(call),
            }),
        }
    }
}

#[derive(Serialize)]
struct Simulated<'a> {
    settings: String,
    limit: Option<u64>,
    oom: Option<OomJson<'a>>,
    /// The event at which a request succeeded that had failed in the recording; the simulation ends there.
    past_recorded_oom: Option<u32>,
    counters: Counters,
    largest_gap: u64,
    largest_free_block: u64,
    segments: usize,
    confidence: Confidence,
    moments: Vec<Counters>,
    reserved: &'a [u64],
}

impl<'a> Simulated<'a> {
    fn new(question: &'a Question, run: &'a Run) -> Self {
        let Answer { settings, outcome, .. } = &run.answer;
        Self {
            settings: settings.to_string(),
            limit: settings.limit,
            oom: outcome.out_of_memory.map(|oom| OomJson::new(question, &oom)),
            past_recorded_oom: match outcome.end {
                End::PastFailure(moment) => moment.checked_sub(1),
                _ => None,
            },
            counters: outcome.counters,
            largest_gap: outcome.largest_gap,
            largest_free_block: outcome.largest_free,
            segments: outcome.segments.len(),
            confidence: Confidence::new(&run.answer),
            moments: run.moments.clone(),
            reserved: &run.curve.0,
        }
    }
}

#[derive(Serialize)]
struct OomJson<'a> {
    /// How many allocations had succeeded.
    allocation: usize,
    event: Option<u32>,
    requested: u64,
    /// What it would have taken from the device.
    segment: u64,
    /// Where in the program, innermost first.
    stack: Vec<FrameJson<'a>>,
}

impl<'a> OomJson<'a> {
    fn new(question: &'a Question, oom: &OutOfMemory) -> Self {
        let snapshot = question.subject.snapshot();
        let event = oom.moment.checked_sub(1);
        let events = snapshot.events(question.subject.replay().device());
        let stack = event.map(|event| events.get(event as usize).stack).unwrap_or_default();
        Self {
            allocation: oom.allocation,
            event,
            requested: oom.requested,
            segment: oom.wanted,
            stack: snapshot.frames(stack).map(|frame| FrameJson::new(snapshot, frame)).collect(),
        }
    }
}

#[derive(Serialize)]
struct Confidence {
    /// Orders of device addresses that were simulated.
    orders: usize,
    agree: bool,
    out_of_memory: usize,
    reserved_peak: [u64; 2],
    device_allocs: [u64; 2],
    retries: [u64; 2],
}

impl Confidence {
    fn new(answer: &Answer) -> Self {
        let Answer { orders, agree, out_of_memory, reserved_peak, device_allocs, retries, .. } = *answer;
        Self {
            orders,
            agree,
            out_of_memory,
            reserved_peak: reserved_peak.into(),
            device_allocs: device_allocs.into(),
            retries: retries.into(),
        }
    }
}
