//! Tokens of every verb's default answer over recordings, by a real tokenizer, beside the estimate that budgets use.

use std::path::{Path, PathBuf};

use anyhow::Context;
use vramscope_testkit::verbs::PLAIN;

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
    println!("verb             answers  refused   most  mean  of estimate  largest on");
    let mut is_small = true;
    for verb in PLAIN.iter().chain(&["tune"]) {
        let (mut answers, mut refused, mut sum, mut estimated) = (0_usize, 0, 0, 0);
        let mut most: (usize, &Path) = (0, Path::new(""));
        for file in &files {
            let line = ["vramscope".as_ref(), (*verb).as_ref(), file.as_os_str(), "--no-cache".as_ref()];
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
            "{verb:<16} {answers:>7} {refused:>8} {:>6} {:>5} {:>12.2}  {}{mark}",
            most.0,
            sum / answers.max(1),
            sum as f64 / estimated.max(1) as f64,
            most.1.file_name().unwrap_or_default().to_string_lossy()
        );
    }
    Ok(is_small)
}
