//! What other allocator settings would have done, as a table of the report.

use rayon::prelude::*;
use vramscope_analysis::whatif::{Limit, Row, Under};
use vramscope_engine::{AskSimulable, AskSimulated, Session, Source};
use vramscope_format::{html, size};

/// Every order of addresses.
const ALL_ORDERS: u32 = u32::MAX;

/// The ready-made settings of a device, simulated, or why they cannot be. Nothing if there is no such device.
pub(super) fn table(session: &Session, of: Source) -> String {
    let Some(about) = session.ask(AskSimulable { of, limit: Limit::Recorded }) else { return String::new() };
    let mut text = String::from("<h4>Under other allocator settings <span>simulated</span></h4>\n");
    if let Some(refused) = &about.refused {
        return text + &format!("<p class=\"dim\">{}</p>\n", html(refused));
    }
    for remark in &about.about {
        text += &format!("<p class=\"dim\">{}</p>\n", html(&remark.text));
    }
    let simulated = |under: &Under| {
        let answer = session.ask(AskSimulated { of, under: under.clone(), orders: ALL_ORDERS })?;
        answer.problem.is_none().then(|| answer.row.clone())
    };
    let rows: Vec<Row> = about.choices.par_iter().filter_map(simulated).collect();
    text += "<div class=\"scroll\"><table class=\"trials\">\n<tr><th>settings</th><th>peak reserved</th><th></th><th>gap at most</th><th>device calls</th>\
             <th>retries</th><th>result</th><th>confidence</th></tr>\n";
    for row in std::iter::once(&about.recorded).chain(&rows) {
        let (taken, given) = row.device_calls;
        let retries = row.retries.map(|retries| retries.to_string()).unwrap_or_default();
        let cells = [
            row.name.clone(),
            size(row.reserved_peak),
            row.change.clone(),
            size(row.gap),
            format!("{taken} + {given}"),
            retries,
            row.result.text.clone(),
            row.confidence.text.clone(),
        ];
        let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", html(cell))).collect();
        text += &format!("<tr>{cells}</tr>\n");
    }
    text + "</table></div>\n"
}
