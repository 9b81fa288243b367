//! What is on the screen in words, for those who do not see it and for a browser's search: the page puts it beside the
//! canvas.

use vramscope_engine::{AskHere, AskInsights, AskMoment, HereRow};
use vramscope_format::{bytes, size};

use crate::app::App;
use crate::requests::Slot;

/// Groups that are read out.
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
        lines.join("\n")
    }
}
