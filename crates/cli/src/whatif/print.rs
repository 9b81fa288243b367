//! The table of `whatif`, for people.

use std::io::Write;

use vramscope_analysis::whatif::{Row, Tone};

use super::Question;
use super::batch::Run;
use super::{chart, report};
use crate::style::{self, Role};
use crate::text;

/// Charts that are drawn; the table has all settings.
const CHARTS: usize = 3;

/// How words of a tone look.
pub(crate) fn role(tone: Tone) -> Role {
    match tone {
        Tone::Plain => Role::Plain,
        Tone::Fine => Role::Fine,
        Tone::Warning => Role::Warning,
        Tone::Bad => Role::Bad,
    }
}

pub(super) fn print(
    question: &Question,
    assumptions: &[String],
    runs: &[Run],
    out: &mut dyn Write,
) -> std::io::Result<()> {
    heading(question, out)?;
    for assumption in assumptions {
        writeln!(out, "  {} {assumption}", style::paint(Role::Warning, "assumed:"))?;
    }
    writeln!(out)?;
    let whatif = question.words();
    let rows: Vec<Row> = runs.iter().map(|run| whatif.row(&run.answer)).collect();
    table(&whatif.recorded(), &rows, out)?;
    for (run, row) in runs.iter().zip(&rows).take(CHARTS) {
        writeln!(out, "\n  {}", style::paint(Role::Strong, &row.name))?;
        let recorded = report::recorded_curve(question, chart::POINTS);
        chart::draw(&recorded, &run.curve.0, out)?;
    }
    Ok(())
}

/// The file, the recorded settings, the limit, and how far the simulation can be trusted.
pub(crate) fn heading(question: &Question, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{}", question.subject.path())?;
    for remark in question.words().about(question.limit) {
        writeln!(out, "  {}", style::paint(role(remark.tone), &remark.text))?;
    }
    Ok(())
}

/// The recording and the settings, a row each, and under them how far each depends on the device's addresses.
pub(crate) fn table(recorded: &Row, rows: &[Row], out: &mut dyn Write) -> std::io::Result<()> {
    let names = rows.iter().map(|row| row.name.chars().count());
    let width = names.chain([recorded.name.len()]).max().unwrap_or(0).min(60);
    let titles = format!(
        "  {:width$}  {:>13}  {:>8}  {:>11}  {:>13}  {:>7}  result",
        "settings", "peak reserved", "", "gap at most", "device calls", "retries"
    );
    writeln!(out, "{}", style::paint(Role::Dim, &titles))?;
    for row in std::iter::once(recorded).chain(rows) {
        writeln!(
            out,
            "  {:width$}  {:>13}  {:>8}  {:>11}  {:>13}  {:>7}  {}",
            text::fit(&row.name, width),
            text::size(row.reserved_peak),
            row.change,
            text::size(row.gap),
            format!("{}+{}", row.device_calls.0, row.device_calls.1),
            row.retries.map(|retries| retries.to_string()).unwrap_or_default(),
            style::paint(role(row.result.tone), &row.result.text)
        )?;
    }
    // Settings of which the same is said share a line.
    let mut said: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows {
        match said.iter_mut().find(|(words, _)| *words == row.confidence.text) {
            Some((_, names)) => names.push(&row.name),
            None => said.push((&row.confidence.text, vec![&row.name])),
        }
    }
    writeln!(out)?;
    for (words, names) in &said {
        let names = if said.len() == 1 { String::new() } else { format!("{}: ", names.join(" and ")) };
        writeln!(out, "  {}", style::paint(Role::Dim, &format!("{names}{words}")))?;
    }
    Ok(())
}
