//! The truth of each case is known without vramscope.

use std::process::Command;

use vramscope_evals::case::{cases, root};

#[test]
fn recordings_are_counted_by_a_script_of_their_own() {
    let output = Command::new("python3").arg(root().join("evals/truth.py")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for case in cases().unwrap() {
        let is_made = case.recording.starts_with("made:");
        assert_eq!(is_made, case.truth.source == "program", "{}", case.id);
        assert!(is_made || said.contains(&format!("right  {} ", case.id)), "{}: {said}", case.id);
    }
}
