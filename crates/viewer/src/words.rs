//! What is on the screen in words, for those who do not see it and for a browser's search: the page puts it beside the
//! canvas.

use vramscope_engine::{AskHere, AskInsights, AskMoment, AskSql, AskSqlRows, HereRow};
use vramscope_format::{bytes, plural, size};

use crate::app::App;
use crate::requests::Slot;
use crate::views::Tab;

/// Groups, and rows of a query, that are read out.
const MOST: usize = 8;

impl App {
    /// What the timeline shows: of which device, which part, the moment at the cursor, and what is alone.
    pub(crate) fn words_of_timeline(&self) -> String {
        let words = self.words();
        let facts: Vec<&str> = words.lines().take_while(|line| !line.starts_with("Live by")).collect();
        format!("Memory timeline. {}", facts.join(". "))
    }

    /// The recording, the moment at the cursor with what is live then, the findings, and the selection; a line each.
    pub fn words(&self) -> String {
        let Some((of, summary)) = self.device() else {
            return "vramscope: no memory snapshot is open".to_owned();
        };
        let counter = self.settings.counter;
        let name = summary.name_of(counter);
        let devices = self.files.devices.len();
        let mut lines = vec![format!(
            "{}, device {} of {devices}: peak {} {name}. {}",
            self.name_of(self.files.current),
            self.files.current + 1,
            bytes(summary.peak(counter).bytes),
            summary.verdict
        )];
        if let Some(info) = self.requests.look::<AskMoment>(Slot::Cursor).map(|answer| answer.value) {
            lines.push(format!(
                "At the cursor, {}: {} {name}",
                info.at.words(),
                bytes(info.counters[counter])
            ));
        }
        if let (Some(isolated), Some(levels)) = (&self.isolated, self.isolated_levels()) {
            lines.push(format!("Only {} is shown, peak {}", isolated.name, bytes(levels.peak.bytes)));
        }
        for (slot, title) in [(Slot::Legend, "Live by color"), (Slot::HereLines, "Live by line")] {
            let Some(here) = self.requests.look::<AskHere>(slot).map(|answer| answer.value) else { continue };
            let row = |row: &HereRow| format!("{} {}", row.name, size(row.sum.bytes));
            let rows: Vec<String> = here.rows.iter().take(MOST).map(row).collect();
            if !rows.is_empty() {
                lines.push(format!("{title}: {}", rows.join(", ")));
            }
        }
        let found = self.requests.look::<AskInsights>(Slot::Insights(of)).map(|answer| answer.value);
        lines.extend(
            found.iter().flat_map(|found| &found.found).map(|insight| format!("Finding: {}", insight.title)),
        );
        lines.extend(self.notes.iter().map(|note| format!("Note at {}: {}", note.at.words(), note.text)));
        if let Some(details) = self.selected_details() {
            let stack: Vec<String> = details.frames.iter().map(|frame| frame.at.full()).collect();
            lines.push(format!(
                "Selected: {}, {}, {}",
                size(details.owner.requested),
                details.place,
                details.owner.life()
            ));
            lines.extend(stack);
        }
        lines.extend(self.words_of_query());
        lines.join("\n")
    }

    /// What came of the query that is shown, with the first of its rows: the whole table would be read out with every frame.
    fn words_of_query(&self) -> Vec<String> {
        let is_shown = [Some(self.settings.tab), self.settings.side].contains(&Some(Tab::Sql));
        let found = match self.requests.look::<AskSql>(Slot::Sql) {
            Some(answer) if is_shown && answer.fresh => answer.value,
            _ => return Vec::new(),
        };
        if let Some(problem) = &found.problem {
            return vec![format!("Query: {problem}")];
        }
        let columns: Vec<&str> = found.columns.iter().map(|column| column.name.as_str()).collect();
        let mut lines = vec![format!("Query: {} of {}", plural(found.total, "row"), columns.join(", "))];
        let page =
            self.requests.look::<AskSqlRows>(Slot::SqlRows).map(|answer| (answer.request, answer.value));
        let page = page.filter(|(request, _)| request.result == found.result);
        lines.extend(page.iter().flat_map(|(_, page)| &page.rows).take(MOST).map(|row| row.join(", ")));
        lines
    }
}
