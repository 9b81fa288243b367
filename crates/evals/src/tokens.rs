//! Tokens of every verb's default answer over recordings, by a real tokenizer, beside the estimate that budgets use.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use vramscope_testkit::verbs::PLAIN;

/// Verbs that are asked for something.
const OTHERS: [&str; 8] = [
    "tune",
    "whatif --set expandable_segments:True",
    "diff --at start --vs peak",
    "show e:1",
    "show a:1",
    "show s:2",
    "at --end",
    "events --skip 100",
];

/// Prints for every verb its largest answer over the recordings, and how far the estimate is off.
pub fn table(paths: &[PathBuf]) -> anyhow::Result<bool> {
    let tokenizer = tiktoken_rs::o200k_base().context("the tokenizer")?;
    let mut files = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => {
                for entry in std::fs::read_dir(path).with_context(|| path.display().to_string())? {
                    let path = entry?.path();
                    if path.to_string_lossy().contains(".pickle") {
                        files.push(path);
                    }
                }
            }
            false => files.push(path.clone()),
        }
    }
    files.sort();
    println!("{:<38} answers  refused   most  mean  of estimate  largest on", "verb");
    let mut is_small = true;
    for verb in PLAIN.iter().chain(&OTHERS) {
        let (mut answers, mut refused, mut sum, mut estimated) = (0_usize, 0, 0, 0);
        let mut most: (usize, &Path) = (0, Path::new(""));
        for file in &files {
            let words = ["vramscope"].into_iter().chain(verb.split(' ')).map(OsStr::new);
            let line = words.chain([file.as_os_str(), OsStr::new("--no-cache")]);
            let mut out = Vec::new();
            match vramscope_cli::answer(line, &mut out) {
                Ok(()) => answers += 1,
                Err(_) => refused += 1,
            }
            let text = String::from_utf8_lossy(&out);
            let tokens = tokenizer.encode_ordinary(&text).len();
            sum += tokens;
            estimated += vramscope_format::tokens(&text);
            if tokens > most.0 {
                most = (tokens, file);
            }
        }
        is_small &= most.0 <= 1500;
        let mark = if most.0 > 1500 { " TOO LARGE" } else { "" };
        println!(
            "{verb:<38} {answers:>7} {refused:>8} {:>6} {:>5} {:>12.2}  {}{mark}",
            most.0,
            sum / answers.max(1),
            sum as f64 / estimated.max(1) as f64,
            most.1.file_name().unwrap_or_default().to_string_lossy()
        );
    }
    Ok(is_small)
}
