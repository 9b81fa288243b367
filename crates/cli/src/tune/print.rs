//! What `tune` found, for people.

use std::io::Write;

use vramscope_analysis::whatif::{Remark, range, settings_line, settings_name};
use vramscope_simulate::Answer;

use super::search::{Best, Found};
use crate::style::{self, Role};
use crate::text;
use crate::whatif::Question;
use crate::whatif::print::{heading, role};

pub(super) fn print(question: &Question, found: &Found, out: &mut dyn Write) -> std::io::Result<()> {
    heading(question, out)?;
    let simulations = text::plural(found.simulations, "simulation");
    writeln!(out, "  {simulations}; ranges are over several orders of device addresses\n")?;
    let rows: Vec<&Answer> = std::iter::once(&found.baseline).chain(&found.finalists).collect();
    let width = rows
        .iter()
        .map(|answer| settings_name(&answer.settings).chars().count())
        .max()
        .unwrap_or(0)
        .clamp(9, 60);
    let titles = format!(
        "  {:width$}  {:>23}  {:>14}  {:>9}  result",
        "settings", "peak reserved", "device allocs", "retries"
    );
    writeln!(out, "{}", style::paint(Role::Dim, &titles))?;
    for (at, answer) in rows.iter().enumerate() {
        let Remark { tone, text: mut words } = question.words().result(answer);
        if answer.out_of_memory > 0 && answer.out_of_memory < answer.orders {
            words = format!("out of memory with {} of {} orders", answer.out_of_memory, answer.orders);
        }
        if at == 0 {
            words.push_str(" (as recorded)");
        }
        writeln!(
            out,
            "  {:width$}  {:>23}  {:>14}  {:>9}  {}",
            text::fit(&settings_name(&answer.settings), width),
            range(answer.reserved_peak, text::size),
            range(answer.device_allocs, text::count),
            range(answer.retries, text::count),
            style::paint(role(tone), &words)
        )?;
    }
    writeln!(out)?;
    if let Some(limit) = found.baseline_limit {
        writeln!(out, "  the recorded settings run with a limit of {} or more", text::size(limit))?;
    }
    let least = found.least_memory.as_ref();
    let fewest = found.fewest_calls.as_ref();
    if least.is_none() && fewest.is_none() {
        let words = match found.baseline.out_of_memory {
            0 => {
                "no setting is better by 1 % or more whatever the device's addresses: keep the recorded ones"
            }
            _ => "no setting helps: every one runs out of memory. The program has to hold less at once",
        };
        return writeln!(out, "  {}", style::paint(Role::Warning, words));
    }
    best("least memory", least, found, out)?;
    best("fewest device calls", fewest, found, out)
}

fn best(words: &str, best: Option<&Best>, found: &Found, out: &mut dyn Write) -> std::io::Result<()> {
    let Some(Best { answer, smallest_limit }) = best else {
        return writeln!(
            out,
            "\n  {}: nothing better than the recorded settings",
            style::paint(Role::Strong, words)
        );
    };
    let (before, after) = (found.baseline.reserved_peak.0, answer.reserved_peak.1);
    let (calls_before, calls) = (found.baseline.device_allocs.0, answer.device_allocs.1);
    let runs = if found.baseline.out_of_memory > 0 { "runs; " } else { "" };
    let limit = smallest_limit
        .map(|limit| format!("; runs with a limit of {} or more", text::size(limit)))
        .unwrap_or_default();
    writeln!(
        out,
        "\n  {}: {runs}peak reserved {} → {}, device allocations {} → {}{limit}",
        style::paint(Role::Strong, words),
        text::size(before),
        text::size(after),
        text::count(calls_before),
        text::count(calls)
    )?;
    writeln!(out, "    {}", style::paint(Role::Fine, &settings_line(&answer.settings)))
}
