//! Any command line about any file: an answer or an error, never a panic. The first bytes of an input choose the
//! words, the rest is the file.

use std::path::PathBuf;

use vramscope_testkit::verbs::{self, VERBS};

/// Words that may be added to any verb; those that it does not know make it refuse, which is an answer, too.
const MORE: &[&[&str]] = &[
    &["--json"],
    &["--limit", "0"],
    &["--limit", "18446744073709551615"],
    &["--at", "start"],
    &["--at", "end"],
    &["--at", "oom"],
    &["--at", "peak:reserved"],
    &["--at", "in:p#1:end"],
    &["--at", "@-9223372036854775808"],
    &["--at", "4294967295"],
    &["--since", "1", "--until", "3"],
    &["--since", "end", "--until", "start"],
    &["--since", "oom:1"],
    &["--min-size", "1"],
    &["--stream", "0"],
    &["--pool", "1,0"],
    &["--device", "0"],
    &["--device", "-1"],
    &["--hide-internal=false"],
    &["--samples", "4294967295"],
    &["--request", "0"],
    &["--units", "decimal"],
    &["--depth", "0"],
    &["--min", "-5"],
    &["--by", "count"],
    &["--of", "stacks"],
    &["--skip", "18446744073709551615"],
];

/// Files that a run of the fuzzer writes lie here.
fn place(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("vramscope-fuzz-{}-{name}", std::process::id()))
}

/// Asks one question. Says whether there was an answer.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let [verb, count, rest @ ..] = bytes else { return false };
    let (more, file) = rest.split_at(usize::from(*count % 4).min(rest.len()));
    let (input, out) = (place("input"), place("out"));
    if std::fs::write(&input, file).is_err() {
        return false;
    }
    let mut line = vec!["vramscope".to_owned()];
    let verb = VERBS[usize::from(*verb) % VERBS.len()];
    line.extend(verbs::line(verb, &input.to_string_lossy(), &out.to_string_lossy()));
    for word in more {
        line.extend(MORE[usize::from(*word) % MORE.len()].iter().map(|word| (*word).to_owned()));
    }
    let mut answer = Vec::new();
    let result = vramscope_cli::answer(&line, &mut answer);
    let _ = std::fs::remove_file(&out);
    if let Err(why) = &result {
        assert!(!why.trim().is_empty(), "an error says why");
    }
    result.is_ok()
}
