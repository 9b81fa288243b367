//! Steps are found from annotations, from optimizers, from passes, and agree with the marks set while recording.

use serde_json::Value;
use vramscope_analysis::{Device, KnownBy, Moment, Steps, StepsBy, moment_at_time};
use vramscope_snapshot::DeviceId;

use crate::common::{recording, recordings};

/// The steps of a recording, and the moment of each mark that was set in it.
fn steps_and_marks(name: &str) -> (Steps, Vec<(String, Moment)>) {
    let snapshot = recording(name);
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    let found = replay.steps().clone();
    let oracle = std::fs::read_to_string(recordings().join(format!("{name}.oracle.json"))).unwrap();
    let oracle: Value = serde_json::from_str(&oracle).unwrap();
    let events = snapshot.events(DeviceId(0));
    let marks = oracle["marks"].as_array().unwrap().iter().map(|mark| {
        let at = moment_at_time(events, mark["time_ns"].as_i64().unwrap() / 1000);
        (mark["label"].as_str().unwrap().to_owned(), at)
    });
    (found, marks.collect())
}

/// Every mark `stepN.…` lies in the step of that number.
fn assert_marks_lie_in_their_steps(steps: &Steps, marks: &[(String, Moment)]) {
    let numbered = marks.iter().filter_map(|(label, at)| {
        let number = label.strip_prefix("step")?.split('.').next()?.parse::<u64>().ok()?;
        Some((label, number, *at))
    });
    for (label, number, at) in numbered {
        assert_eq!(steps.at(at).map(|step| step.number), Some(number), "{label} {at:?}");
    }
}

#[test]
fn training_steps_end_with_the_optimizer() {
    for (name, count) in [("llama_python", 3), ("leak_graph", 6)] {
        let (steps, marks) = steps_and_marks(name);
        assert_eq!((steps.list.len(), steps.by), (count, StepsBy::Optimizer), "{name}");
        assert_eq!(steps.known_by, KnownBy::Certain, "{name}");
        assert_marks_lie_in_their_steps(&steps, &marks);
        assert!(steps.list.windows(2).all(|pair| pair[0].to == pair[1].from), "{name}");
    }
}

#[test]
fn a_program_that_marks_its_steps_is_taken_at_its_word() {
    let (steps, _) = steps_and_marks("amp_checkpoint_foreach");
    assert_eq!((steps.by, steps.known_by), (StepsBy::Annotations, KnownBy::Recorded));
    let numbers: Vec<u64> = steps.list.iter().map(|step| step.number).collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
}

#[test]
fn without_stacks_the_optimizer_still_leaves_marks() {
    let (steps, _) = steps_and_marks("context_none");
    assert_eq!((steps.by, steps.list.len()), (StepsBy::Optimizer, 3));
}

/// Each new token is one forward pass, and the first reads the prompt of 64 tokens: the cache ends with 64 + 95 of them.
#[test]
fn inference_steps_are_forward_passes() {
    let (steps, _) = steps_and_marks("inference_kv");
    assert_eq!((steps.by, steps.known_by), (StepsBy::Forward, KnownBy::Likely));
    assert_eq!(steps.list.len(), 96);
}
