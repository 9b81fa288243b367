//! The commands that help with a recording.

use serde::Serialize;
use vramscope_analysis::pools::has_private;

use super::facts::Fact;
use crate::subject::Subject;
use crate::text;

#[derive(Serialize)]
pub(super) struct Verb {
    pub(super) command: String,
    pub(super) why: String,
}

/// The commands that will help, most useful first.
pub(super) fn verbs(subject: &Subject, facts: &[Fact]) -> Vec<Verb> {
    let has = |name: &str| facts.iter().any(|fact| fact.name == name && fact.present);
    let (snapshot, replay) = (subject.snapshot(), subject.replay());
    let path = subject.path();
    let mut verbs = Vec::new();
    let mut add = |verb: &str, why: &str| {
        verbs.push(Verb { command: format!("vramscope {verb} {path}"), why: why.to_owned() });
    };
    if !replay.ooms().is_empty() {
        let times = text::plural(replay.ooms().len(), "time");
        add("oom", &format!("memory ran out {times}: who asked, why, what would have helped"));
    }
    if has("history") {
        add("insights", "what looks wrong, worst first");
    }
    if has("steps") {
        add("steps", "what each step leaves behind");
    }
    match has("stacks") {
        true => add("top", "which lines hold most at the peak"),
        false => add("at", "what is live at the peak, by size"),
    }
    if has("history") && has("stacks") {
        add("categories", "what memory is for");
    }
    if has("segments") {
        add("fragmentation", "how much of what is free cannot be used");
        if has("history") {
            add("churn", "segments acquired and released, by step and line");
        }
    }
    if has_private(snapshot) {
        add("pools", "private pools of CUDA graphs and MemPools");
    }
    if has("annotations") {
        add("phases", "peak and growth of each phase");
    }
    if has("simulation") {
        add("tune", "which allocator settings need least memory, simulated");
    }
    verbs
}
