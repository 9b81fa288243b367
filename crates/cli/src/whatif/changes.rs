//! What-ifs about the program: memory that it would not ask for, would free earlier, or would ask less of.
//!
//! These are assumptions: a program that asks for other memory may do other things, too.

use anyhow::{Context, bail};
use clap::Args;
use regex_lite::Regex;
use vramscope_analysis::phase_name;
use vramscope_simulate::{Kind, Requests, Simulator};
use vramscope_snapshot::EventIdx;

use super::Question;
use crate::text;

#[derive(Debug, Args)]
#[command(next_help_heading = "Assumptions about the program")]
pub(crate) struct ChangeArgs {
    /// As if this memory were never asked for: FILE:LINE, category:NAME, or a regex for frames as file:line name
    #[arg(long, value_name = "WHAT")]
    without: Vec<String>,
    /// As if this memory were freed right after the last allocation of the same stack in its group, or with
    /// @PHASE at the end of the annotated phase that it was allocated in
    #[arg(long, value_name = "WHAT[@PHASE]")]
    free_early: Vec<String>,
    /// As if this memory were larger or smaller, e.g. train.py:88=0.5
    #[arg(long, value_name = "WHAT=FACTOR")]
    scale: Vec<String>,
}

/// The changed requests, and what was assumed.
pub(crate) struct Changed {
    pub(crate) simulator: Simulator,
    pub(crate) assumptions: Vec<String>,
}

impl ChangeArgs {
    /// `None` if nothing is to be changed.
    pub(crate) fn apply(&self, question: &Question) -> anyhow::Result<Option<Changed>> {
        if self.without.is_empty() && self.free_early.is_empty() && self.scale.is_empty() {
            return Ok(None);
        }
        let mut requests = question.study.simulator.requests().clone();
        let opened = opened(&requests);
        let mut assumptions = Vec::new();
        let mut assume = |words: &str, what: &str, chosen: &[bool], requests: &Requests| {
            let sizes = chosen.iter().enumerate().filter(|(_, chosen)| **chosen);
            let bytes: u64 = sizes.map(|(allocation, _)| requests.size(allocation)).sum();
            let count = chosen.iter().filter(|chosen| **chosen).count();
            let (what, bytes) = (text::printable(what), text::size(bytes));
            assumptions
                .push(format!("{words} {what} ({}, {bytes} in all)", text::plural(count, "allocation")));
        };
        for what in &self.without {
            let chosen = choose(question, what, &opened)?;
            assume("without", what, &chosen, &requests);
            requests = requests.changed(|allocation, size| (!chosen[allocation]).then_some(size));
        }
        for text in &self.scale {
            let (what, factor) = text.rsplit_once('=').with_context(|| wrong_scale(text))?;
            let factor: f64 = factor
                .parse()
                .ok()
                .filter(|f: &f64| *f >= 0.0 && f.is_finite())
                .with_context(|| wrong_scale(text))?;
            let chosen = choose(question, what, &opened)?;
            assume(&format!("{factor} times the size of"), what, &chosen, &requests);
            requests = requests.changed(|allocation, size| {
                Some(if chosen[allocation] { (size as f64 * factor).round() as u64 } else { size })
            });
        }
        for text in &self.free_early {
            let (what, phase) =
                text.rsplit_once('@').map_or((text.as_str(), None), |(what, phase)| (what, Some(phase)));
            let chosen = choose(question, what, &opened)?;
            assume("freed early:", text, &chosen, &requests);
            let ends = match phase {
                Some(phase) => phase_ends(question, phase, &opened)?,
                None => last_siblings(question, &opened),
            };
            requests = requests.freed_early(|allocation| ends[allocation].filter(|_| chosen[allocation]));
        }
        Ok(Some(Changed { simulator: question.study.simulator.with(requests), assumptions }))
    }
}

fn wrong_scale(text: &str) -> String {
    format!("'{text}' is not a valid scale (try train.py:88=0.5)")
}

/// For each allocation how many events had happened when it was made; 0 before the recording.
fn opened(requests: &Requests) -> Vec<u32> {
    let mut opened = vec![0; requests.allocations()];
    for step in requests.steps().iter().filter(|step| matches!(step.kind(), Kind::Alloc | Kind::Fail)) {
        if let Some(at) = opened.get_mut(step.allocation()) {
            *at = step.moment;
        }
    }
    opened
}

/// Which allocations are meant.
fn choose(question: &Question, what: &str, opened: &[u32]) -> anyhow::Result<Vec<bool>> {
    let (snapshot, replay) = (question.subject.snapshot(), question.subject.replay());
    let chosen: Vec<bool> = if let Some(name) = what.strip_prefix("category:") {
        let categories = replay.categories();
        let number = categories.names().iter().position(|known| known.eq_ignore_ascii_case(name.trim()));
        let Some(number) = number else {
            bail!("there is no category '{name}' (known: {})", categories.names().join(", "));
        };
        let is_in = |&at: &u32| {
            let event = at.checked_sub(1).map(EventIdx);
            let allocation = event.and_then(|event| replay.allocation_of(event));
            allocation.is_some_and(|allocation| categories.of(allocation) == number)
        };
        opened.iter().map(is_in).collect()
    } else {
        let stacks = matching_stacks(question, what)?;
        let events = snapshot.events(replay.device());
        let stack = |&at: &u32| at.checked_sub(1).and_then(|row| events.stacks().get(row as usize));
        opened
            .iter()
            .map(|at| stack(at).is_some_and(|stack| stacks.get(stack.index()) == Some(&true)))
            .collect()
    };
    if !chosen.contains(&true) {
        bail!("'{what}' matches no allocation of the recording");
    }
    Ok(chosen)
}

/// For each stack whether it is meant: by a line, or by a regex for its frames.
fn matching_stacks(question: &Question, what: &str) -> anyhow::Result<Vec<bool>> {
    let snapshot = question.subject.snapshot();
    let line = what.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse::<u32>().ok()?)));
    let regex = match line {
        Some(_) => None,
        None => Some(Regex::new(what).with_context(|| format!("'{what}' is not a valid regex"))?),
    };
    let fits = |frame: vramscope_snapshot::Frame| {
        let (file, name) = (snapshot.text(frame.file), snapshot.text(frame.name));
        match (line, &regex) {
            (Some((wanted, line)), _) => {
                let same_file = file == wanted
                    || file.strip_suffix(wanted).is_some_and(|rest| rest.ends_with(['/', '\\']));
                frame.line == line && same_file
            }
            (None, Some(regex)) => regex.is_match(&format!("{file}:{} {name}", frame.line)),
            (None, None) => false,
        }
    };
    Ok(snapshot.stacks.ids().map(|stack| snapshot.frames(stack).any(fits)).collect())
}

/// For each allocation the birth of the last one of the same stack before one of them was freed: a group that is
/// made together, as the layers of a forward pass are, is freed when its last member is there.
fn last_siblings(question: &Question, opened: &[u32]) -> Vec<Option<u32>> {
    let snapshot = question.subject.snapshot();
    let events = snapshot.events(question.subject.replay().device());
    let requests = question.study.simulator.requests();
    let mut ends = vec![None; opened.len()];
    let mut groups: hashbrown::HashMap<_, (Vec<usize>, u32)> = hashbrown::HashMap::new();
    let close = |group: (Vec<usize>, u32), ends: &mut Vec<Option<u32>>| {
        for allocation in group.0 {
            ends[allocation] = Some(group.1);
        }
    };
    for step in requests.steps().iter().filter(|step| step.moment > 0) {
        let allocation = step.allocation();
        let Some(row) = opened.get(allocation).and_then(|at| at.checked_sub(1)) else { continue };
        let Some(&stack) = events.stacks().get(row as usize) else { continue };
        match step.kind() {
            Kind::Alloc => {
                let group = groups.entry(stack).or_insert((Vec::new(), 0));
                group.0.push(allocation);
                group.1 = step.moment;
            }
            Kind::Release => {
                if let Some(group) = groups.remove(&stack) {
                    close(group, &mut ends);
                }
            }
            _ => {}
        }
    }
    for (_, group) in groups {
        close(group, &mut ends);
    }
    ends
}

/// For each allocation the end of the phase of this name that it was made in.
fn phase_ends(question: &Question, name: &str, opened: &[u32]) -> anyhow::Result<Vec<Option<u32>>> {
    let snapshot = question.subject.snapshot();
    let spans = question.subject.replay().spans();
    let mut named: Vec<(u32, u32)> = spans
        .iter()
        .filter(|span| phase_name(snapshot.text(span.name)) == name || snapshot.text(span.name) == name)
        .map(|span| (span.from.0, span.to.0))
        .collect();
    if named.is_empty() {
        bail!("there is no annotated phase '{name}'; vramscope phases lists them");
    }
    named.sort_unstable();
    let end = |&at: &u32| {
        let before = named.partition_point(|&(from, _)| from < at);
        let (_, to) = before.checked_sub(1).and_then(|last| named.get(last))?;
        (at <= *to).then_some(*to)
    };
    Ok(opened.iter().map(end).collect())
}
