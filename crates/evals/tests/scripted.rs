//! The scripted agent finds line and cause: the measure of whether answers are complete and small.

use vramscope_evals::case::{cases, root};
use vramscope_evals::score::{Score, table};
use vramscope_evals::scripted::investigate;

#[test]
fn the_guide_leads_to_line_and_cause() {
    let folder = tempfile::tempdir().unwrap();
    let cases = cases().unwrap();
    assert!(cases.len() >= 20, "{}", cases.len());
    let investigated = cases.iter().map(|case| {
        let transcript = investigate(case, &case.file(folder.path()).unwrap());
        Score::new(case, &transcript)
    });
    let scores: Vec<Score> = investigated.collect();
    let passed = scores.iter().filter(|score| score.passes()).count();
    assert!(passed * 100 >= cases.len() * 95, "\n{}", table(&scores));
}

/// A line that a case blames is in the program that is shown with it.
#[test]
fn lines_of_truth_are_lines_of_programs() {
    for case in cases().unwrap() {
        let Some(program) = &case.program else { continue };
        let source = std::fs::read_to_string(root().join("evals/programs").join(program)).unwrap();
        for line in &case.truth.lines {
            let (file, number) = line.rsplit_once(':').unwrap();
            assert_eq!(file, program, "{}", case.id);
            let text = source.lines().nth(number.parse::<usize>().unwrap() - 1).unwrap();
            assert!(text.contains("  #"), "{}: {text}", case.id);
        }
    }
}
