//! The table of `whatif`, for people.

use std::io::Write;

use vramscope_analysis::{Counter, Line};
use vramscope_simulate::{Answer, End, OutOfMemory};

use super::Question;
use super::batch::Run;
use super::{chart, report};
use crate::style::{self, Role};
use crate::text;

/// Charts that are drawn; the table has all settings.
const CHARTS: usize = 3;

pub(super) fn print(
    question: &Question,
    assumptions: &[String],
    runs: &[Run],
    out: &mut dyn Write,
) -> std::io::Result<()> {
    heading(question, out)?;
    for assumption in assumptions {
        writeln!(out, "  {} {assumption}", style::paint(Role::Warning, "assumed:"))?;
    }
    writeln!(out)?;
    let width =
        runs.iter().map(|run| name(&run.answer).chars().count()).chain([9]).max().unwrap_or(0).min(60);
    let titles = format!(
        "  {:width$}  {:>13}  {:>8}  {:>11}  {:>13}  {:>7}  result",
        "settings", "peak reserved", "", "gap at most", "device calls", "retries"
    );
    writeln!(out, "{}", style::paint(Role::Dim, &titles))?;
    recorded_row(question, width, out)?;
    for run in runs {
        row(question, run, width, out)?;
    }
    for run in runs.iter().filter(|run| !run.answer.agree) {
        writeln!(out, "\n  {}: {}", name(&run.answer), spread(&run.answer))?;
    }
    let agreed = runs.iter().filter(|run| run.answer.agree).count();
    if agreed > 0 {
        let orders = runs.iter().map(|run| run.answer.orders).max().unwrap_or(1);
        let which = if agreed == runs.len() { "these answers do" } else { "the other answers do" };
        let words = match orders {
            1 => "\n  in expandable segments the device's addresses do not matter".to_owned(),
            _ => format!("\n  {which} not depend on the device's addresses ({orders} orders simulated)"),
        };
        writeln!(out, "{}", style::paint(Role::Dim, &words))?;
    }
    for run in runs.iter().take(CHARTS) {
        writeln!(out, "\n  {}", style::paint(Role::Strong, &name(&run.answer)))?;
        let recorded = report::recorded_curve(question, chart::width());
        chart::draw(&recorded, &run.curve.0, out)?;
    }
    Ok(())
}

/// The file, the recorded settings, the limit, and how far the simulation can be trusted.
pub(crate) fn heading(question: &Question, out: &mut dyn Write) -> std::io::Result<()> {
    let study = &question.study;
    writeln!(out, "{}", question.subject.path())?;
    let recorded = study.recorded.to_string();
    let recorded = if recorded.is_empty() { "the default settings".into() } else { recorded };
    writeln!(out, "  recorded under {recorded}")?;
    let facts = study.simulator.requests().facts();
    if let Some((low, high)) = facts.limit {
        let (low, high) = (text::size(low), text::size(high));
        let what = if facts.device_full { "the device's memory" } else { "a limit" };
        writeln!(out, "  device memory was refused: {what} is between {low} and {high}")?;
    }
    match question.limit {
        Some(limit) => writeln!(out, "  simulated with a limit of {}", text::size(limit))?,
        None => writeln!(out, "  simulated without a limit")?,
    }
    let role = if study.agreement.is_exact() { Role::Fine } else { Role::Warning };
    let agreement = format!("self-check: {}", study.agreement);
    writeln!(out, "  {}", style::paint(role, &agreement))?;
    if let Some(difference) = &study.agreement.first_difference {
        let call = |call: Option<(vramscope_simulate::Action, u64)>| {
            call.map_or_else(
                || "no call".into(),
                |(action, bytes)| format!("{} {}", report::action_name(action), text::size(bytes)),
            )
        };
        let event = text::count(difference.moment.saturating_sub(1));
        let (recorded, simulated) = (call(difference.recorded), call(difference.simulated));
        writeln!(
            out,
            "  the first difference is at event {event}: {recorded} recorded, {simulated} simulated"
        )?;
        writeln!(out, "  answers below are estimates")?;
    }
    if facts.baseline > 0 {
        let baseline = text::size(facts.baseline);
        writeln!(out, "  {baseline} predate the recording: answers are estimates")?;
    }
    if facts.delayed_frees > 0 {
        let delayed = text::plural(facts.delayed_frees, "free");
        writeln!(out, "  {delayed} waited for another stream; simulated with the recorded timing")?;
    }
    Ok(())
}

pub(crate) fn name(answer: &Answer) -> String {
    let settings = answer.settings.to_string();
    if settings.is_empty() { "defaults".into() } else { settings }
}

fn recorded_row(question: &Question, width: usize, out: &mut dyn Write) -> std::io::Result<()> {
    let replay = question.subject.replay();
    let requests = question.study.simulator.requests();
    let taken = requests.device_calls().iter().filter(|call| call.action.takes()).count();
    let given = requests.device_calls().len() - taken;
    let peak = replay.peak(Counter::Reserved);
    let gap = peak.bytes - replay.counters(peak.at).requested;
    let result = match requests.facts().failures.first() {
        Some(moment) => format!("out of memory at event {}", text::count(moment.saturating_sub(1))),
        None => "ran".into(),
    };
    writeln!(
        out,
        "  {:width$}  {:>13}  {:>8}  {:>11}  {:>13}  {:>7}  {result}",
        "recording",
        text::bytes(peak.bytes),
        "",
        text::bytes(gap),
        format!("{taken}+{given}"),
        "",
    )
}

fn row(question: &Question, run: &Run, width: usize, out: &mut dyn Write) -> std::io::Result<()> {
    let counters = &run.answer.outcome.counters;
    let recorded = question.subject.replay().peak(Counter::Reserved).bytes;
    let change = (counters.reserved_peak as f64 - recorded as f64) / recorded.max(1) as f64 * 100.0;
    let (role, result) = result(question, &run.answer);
    writeln!(
        out,
        "  {:width$}  {:>13}  {:>8}  {:>11}  {:>13}  {:>7}  {}",
        text::fit(&name(&run.answer), width),
        text::size(counters.reserved_peak),
        format!("{change:+.1} %"),
        text::size(run.answer.outcome.largest_gap),
        format!("{}+{}", counters.device_allocs, counters.device_frees),
        counters.retries,
        style::paint(role, &result)
    )
}

/// How a setting ends, in words.
pub(crate) fn result(question: &Question, answer: &Answer) -> (Role, String) {
    match (&answer.outcome.end, answer.outcome.out_of_memory) {
        (_, Some(oom)) => (Role::Bad, out_of_memory(question, &oom)),
        (End::PastFailure(moment), None) => {
            let event = text::count(moment.saturating_sub(1));
            (Role::Fine, format!("gets past event {event}, where the recording ran out of memory"))
        }
        _ => (Role::Fine, "runs".into()),
    }
}

fn out_of_memory(question: &Question, oom: &OutOfMemory) -> String {
    let snapshot = question.subject.snapshot();
    let requested = text::size(oom.requested);
    let Some(event) = oom.moment.checked_sub(1) else {
        return format!("out of memory before the first event ({requested})");
    };
    let row = snapshot.events(question.subject.replay().device()).get(event as usize);
    let place = match row.stack.has_frames() {
        true => format!(", {}", text::line(&Line::of(snapshot, row.stack))),
        false => String::new(),
    };
    let same = question.study.simulator.requests().facts().failures.contains(&oom.moment);
    let same = if same { ", as in the recording" } else { "" };
    format!("out of memory at event {} ({requested}{place}){same}", text::count(event))
}

/// Where the orders of addresses differ.
pub(crate) fn spread(answer: &Answer) -> String {
    let range = |(low, high): (u64, u64), show: &dyn Fn(u64) -> String| {
        if low == high { show(low) } else { format!("{} to {}", show(low), show(high)) }
    };
    let bytes = |n: u64| text::size(n);
    let mut words = format!(
        "depends on the device's addresses: over {} orders peak reserved is {}, device allocations {}",
        answer.orders,
        range(answer.reserved_peak, &bytes),
        range(answer.device_allocs, &|n| text::count(n)),
    );
    if answer.retries.1 > 0 {
        words.push_str(&format!(", retries {}", range(answer.retries, &|n| text::count(n))));
    }
    if answer.out_of_memory > 0 {
        words.push_str(&format!("; out of memory in {} of them", answer.out_of_memory));
    }
    words
}
