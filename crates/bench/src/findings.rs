//! A table of every kind of finding and every recording, in Markdown, to be reviewed by eye: `docs/insights.md` has it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;
use vramscope_analysis::{Finding, Kind, Severity, nothing_found};
use vramscope_files::{Opened, find, open_each};
use vramscope_format::{Units, size};

#[derive(Args)]
pub(crate) struct FindingsArgs {
    /// Files, or folders of them
    #[arg(default_values = ["testdata/recordings", "testdata/roles", "testdata/whatif"])]
    paths: Vec<PathBuf>,
    /// What each finding says, instead of the table
    #[arg(long)]
    sentences: bool,
}

/// What was found in one file: its name, and the findings with how they are known.
struct Row {
    name: String,
    found: Vec<Finding>,
    silence: String,
}

pub(crate) fn run(args: &FindingsArgs) -> anyhow::Result<()> {
    let (inputs, errors) = find(&args.paths);
    ensure!(errors.is_empty(), "{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    let mut rows = Vec::new();
    for result in open_each(&inputs, None, &(), |opened| row(&opened)) {
        match result {
            Ok(row) => rows.push(row),
            Err(error) if error.is_another_kind() => {}
            Err(error) => eprintln!("{error}"),
        }
    }
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    if args.sentences {
        sentences(&rows);
    } else {
        table(&rows);
    }
    Ok(())
}

fn row(opened: &Opened) -> Row {
    let name = opened.path.file_name().unwrap_or_default().to_string_lossy();
    // `churn.limit.pickle.xz` is `churn.limit`.
    let ends = [".pickle", ".json", ".html"].iter().filter_map(|ending| name.find(ending)).min();
    let name = name.get(..ends.unwrap_or(name.len())).unwrap_or_default();
    let name = name.trim_end_matches("_memory_snapshot").to_owned();
    let mut found = Vec::new();
    let mut silence = "nothing was allocated".to_owned();
    for replay in &opened.devices {
        found.extend(replay.findings(Units::Binary));
        silence = nothing_found(replay, &size);
        // The peaks of each would make a row of each.
        if silence.starts_with("nothing looks wrong: ") {
            "nothing looks wrong".clone_into(&mut silence);
        }
    }
    Row { name, found, silence }
}

/// The kinds that occur, as columns; in each field severities, `?` where the finding is likely only.
fn table(rows: &[Row]) {
    let kinds: Vec<Kind> = Kind::ALL
        .into_iter()
        .filter(|kind| rows.iter().any(|row| row.found.iter().any(|finding| finding.kind == *kind)))
        .collect();
    let heading: Vec<_> = kinds.iter().map(|kind| format!("`{}`", kind.name())).collect();
    println!("| recording | {} |\n|---|{}", heading.join(" | "), "---|".repeat(kinds.len()));
    let mut silent: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows {
        if row.found.is_empty() {
            silent.entry(&row.silence).or_default().push(&row.name);
            continue;
        }
        let cell = |kind: &Kind| {
            let of_kind: Vec<_> = row.found.iter().filter(|finding| finding.kind == *kind).collect();
            let worst = of_kind.iter().map(|finding| finding.severity).max();
            let mark = worst.map_or("", Severity::name);
            let likely =
                of_kind.iter().any(|finding| finding.known_by == vramscope_analysis::KnownBy::Likely);
            let count = if of_kind.len() > 1 { format!(" × {}", of_kind.len()) } else { String::new() };
            format!("{mark}{count}{}", if likely { "?" } else { "" })
        };
        println!("| {} | {} |", row.name, kinds.iter().map(cell).collect::<Vec<_>>().join(" | "));
    }
    for (silence, names) in silent {
        println!("\n{silence}: {}.", names.join(", "));
    }
}

fn sentences(rows: &[Row]) {
    for row in rows {
        println!("{}", row.name);
        if row.found.is_empty() {
            println!("    {}", row.silence);
        }
        for finding in &row.found {
            let (kind, severity) = (finding.kind.name(), finding.severity.name());
            println!("    {severity} {kind} ({}): {}", finding.known_by.name(), finding.what);
            println!("        → {}", finding.advice);
        }
    }
}
