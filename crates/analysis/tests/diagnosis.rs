//! Programs with one known mistake each, the same programs without it, and ordinary programs: `testdata/mistakes` and
//! `testdata/healthy`, recorded on a GPU by `testdata/record`. The truth is generated from the source.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use vramscope_analysis::{Device, Finding, Severity};
use vramscope_format::Units;

use crate::common::recording_at;

/// A recording with what is known about it.
struct Case {
    name: String,
    truth: Value,
    loud: Vec<Finding>,
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

fn cases(name: &str) -> Vec<Case> {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(".truth.json"));
    paths.sort();
    let case = |path: PathBuf| {
        let truth = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let recording = PathBuf::from(path.to_string_lossy().replace(".truth.json", ".pickle.xz"));
        let devices = Device::all(&Arc::new(recording_at(&recording)));
        let mut loud: Vec<_> = devices.iter().flat_map(|device| device.findings(Units::Binary)).collect();
        loud.retain(|finding| finding.severity > Severity::Low);
        let name = path.file_name().unwrap().to_string_lossy().replace(".truth.json", "");
        Case { name, truth, loud }
    };
    paths.into_iter().map(case).collect()
}

/// Whether a finding is of a right kind and names a right line.
fn is_right(finding: &Finding, truth: &Value) -> bool {
    let of = |key: &str| truth[key].as_array().cloned().unwrap_or_default();
    let file = truth["file"].as_str().unwrap_or_default();
    let lines: Vec<u64> = of("lines").iter().filter_map(Value::as_u64).collect();
    let site =
        finding.site.line.iter().filter(|line| line.file.ends_with(file)).map(|line| u64::from(line.line));
    // `train.py:88 forward`
    let place = |place: &str| place.strip_prefix(file)?.strip_prefix(':')?.split(' ').next()?.parse().ok();
    let mut named = site.chain(finding.evidence.iter().filter_map(|fact| place(fact.place.as_deref()?)));
    of("kinds").iter().any(|kind| kind == finding.kind.name())
        && (lines.is_empty() || named.any(|line| lines.contains(&line)))
}

/// Mistakes that are not found, or under another name.
const MISSED: [&str; 6] = [
    "compiled_language_model.bad",
    "flat_norm.bad",
    "nesterov.bad",
    "pyramid_features.bad",
    "text_classifier.bad",
    "trainer_evaluation.bad",
];

/// Programs without a mistake of which something is said all the same.
const ALARMS: [&str; 1] = ["offloaded_activations.good"];

#[test]
fn mistakes_are_found_with_their_lines() {
    let cases = cases("mistakes");
    let is_healthy = |case: &&Case| case.truth["cause"] == "healthy";
    let missed: Vec<_> = cases
        .iter()
        .filter(|case| {
            !is_healthy(case) && !case.loud.iter().take(2).any(|found| is_right(found, &case.truth))
        })
        .map(|case| case.name.as_str())
        .collect();
    assert_eq!(missed, MISSED);
    let alarms: Vec<_> = cases
        .iter()
        .filter(|case| is_healthy(case) && !case.loud.is_empty())
        .map(|case| case.name.as_str())
        .collect();
    assert_eq!(alarms, ALARMS);
    assert_eq!(cases.len(), 84);
}

#[test]
fn nothing_is_said_of_healthy_programs() {
    for case in cases("healthy") {
        let said: Vec<_> = case.loud.iter().map(|found| (found.kind, found.what.as_str())).collect();
        assert_eq!(said, [], "{}", case.name);
    }
}
