//! The gate.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use crate::layers;
use crate::licenses;
use crate::package;
use crate::process::{self, cargo, line, linted, root, works};
use crate::steps::Steps;
use crate::web::{self, Page};
use crate::wheel;

/// All but this program, which has a step of its own: with it much that is built already would be built again.
const WORKSPACE: [&str; 4] = ["--workspace", "--locked", "--exclude", "xtask"];

/// Fails on unformatted code, on any warning, on a license that is not allowed, and on a failing or skipped test.
/// The tests include those in real browsers, on a virtual screen and with other people's tools.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut steps = Steps::default();
    let result = all(&mut steps);
    steps.print();
    eprintln!("\n{}", result?);
    Ok(())
}

/// Does all steps, and returns the line that says how many tests ran.
fn all(steps: &mut Steps) -> anyhow::Result<String> {
    steps.step("format", || process::run(&mut cargo(&["fmt", "--all", "--check"])))?;
    steps.step("licenses", licenses::check)?;
    steps.step("layers", layers::check)?;
    // Clippy compiles the workspace in all steps: a warning of any target fails, and nothing is compiled for lints alone.
    steps.step("xtask", || {
        process::run(linted(&mut cargo(&["test", "--locked", "--package", "xtask", "--all-targets"])))
    })?;
    // Before the tests, because the program contains it.
    steps.step("page", || web::build(Page::Quick))?;
    steps
        .step("tests in documentation", || process::run(linted(cargo(&["test", "--doc"]).args(WORKSPACE))))?;
    let summary = steps.step("tests", tests)?;
    // Without a window.
    steps.step("package", package::package)?;
    steps.step("Python package", || {
        let mut pytest = wheel::tool("pytest");
        pytest.arg("--quiet").env("VRAMSCOPE_BIN", root().join("target/debug/vramscope"));
        let lines = tee(pytest.current_dir(root()), Stream::Stdout)?;
        let skipped = lines.iter().find(|line| line.contains(" skipped"));
        ensure!(skipped.is_none(), "tests were skipped: {}", skipped.map_or("", |line| line));
        Ok(())
    })?;
    steps.step("wheel", wheel::quick)?;
    Ok(summary)
}

/// Nextest gives each test a process of its own and stops one that hangs; where it is not installed, cargo's own
/// tests do. Returns the line that says how many tests ran.
fn tests() -> anyhow::Result<String> {
    if works(&mut cargo(&["nextest", "--version"])) {
        // Without colors, because its last line is read.
        let run = ["nextest", "run", "--all-targets", "--no-fail-fast", "--color", "never"];
        // One more than there are cores: browsers and terminals often wait.
        let threads = std::thread::available_parallelism()?.get() + 1;
        let mut run = cargo(&run);
        run.args(WORKSPACE).arg(format!("--test-threads={threads}"));
        let lines = tee(linted(&mut run), Stream::Stderr)?;
        let summary = lines.iter().rfind(|line| line.contains("tests run:"));
        let summary = summary.context("nextest has not said how many tests ran")?;
        ensure!(summary.contains(" 0 skipped"), "tests were skipped: {summary}");
        return Ok(summary.clone());
    }
    let run = ["test", "--all-targets", "--no-fail-fast"];
    let lines = tee(linted(cargo(&run).args(WORKSPACE)), Stream::Stdout)?;
    let results: Vec<&String> = lines.iter().filter(|line| line.starts_with("test result:")).collect();
    let count = |what: &str| results.iter().map(|result| count(result, what)).sum::<u64>();
    let (passed, ignored) = (count("passed"), count("ignored"));
    ensure!(passed > 0 && ignored == 0, "{passed} tests ran, {ignored} were skipped");
    Ok(format!("{passed} tests run: {passed} passed, 0 skipped"))
}

/// The number before a word of `test result: ok. 12 passed; 0 failed; 0 ignored; finished in 0.10s`.
fn count(result: &str, what: &str) -> u64 {
    let words: Vec<&str> = result.split([' ', ';']).collect();
    let at = words.iter().position(|word| *word == what);
    at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok()).unwrap_or_default()
}

#[derive(Clone, Copy)]
enum Stream {
    Stdout,
    Stderr,
}

/// Runs a command, shows what it says on one of its streams and returns it, line by line.
fn tee(command: &mut Command, stream: Stream) -> anyhow::Result<Vec<String>> {
    let line = line(command);
    eprintln!("\n$ {line}");
    let mut child = match stream {
        Stream::Stdout => command.stdout(Stdio::piped()).spawn(),
        Stream::Stderr => command.stderr(Stdio::piped()).spawn(),
    }
    .with_context(|| format!("cannot start: {line}"))?;
    let mut lines = Vec::new();
    let mut show = |reader: &mut dyn BufRead| -> anyhow::Result<()> {
        for line in reader.lines() {
            let line = line?;
            eprintln!("{line}");
            lines.push(line);
        }
        Ok(())
    };
    if let Some(output) = child.stdout.take() {
        show(&mut BufReader::new(output))?;
    }
    if let Some(output) = child.stderr.take() {
        show(&mut BufReader::new(output))?;
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("failed ({status}): {line}");
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{count, root};

    #[test]
    fn results_of_cargo_test_are_counted() {
        let result =
            "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.10s";
        assert_eq!((count(result, "passed"), count(result, "ignored")), (12, 3));
    }

    /// A file that its crate's test program does not name would not be run, and nobody would notice.
    #[test]
    fn every_file_of_tests_is_in_the_program_of_its_crate() {
        for folder in fs::read_dir(root().join("crates")).unwrap() {
            let tests = folder.unwrap().path().join("tests");
            let Ok(program) = fs::read_to_string(tests.join("all.rs")) else { continue };
            for file in fs::read_dir(tests).unwrap() {
                let path = file.unwrap().path();
                let name = path.file_stem().unwrap().to_str().unwrap();
                let is_test = path.extension().is_some_and(|end| end == "rs") && name != "all";
                assert!(!is_test || program.contains(&format!("\nmod {name};\n")), "{}", path.display());
            }
        }
    }
}
