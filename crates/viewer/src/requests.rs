//! Requests from the window to the engine, and their answers.
//!
//! A view says every frame what it wants to show. [`Requests`] requests what is missing, and meanwhile hands out the
//! answer before, so the screen is never empty while something is computed.

use std::collections::HashMap;
use std::sync::Arc;

use vramscope_engine::{Ask, News, Request, Response, Source};

/// The place that an answer goes to. A new request for a slot replaces the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// What there is to know of a device at first.
    Summary(Source),
    /// The whole memory timeline, shown while a part of it is computed.
    Base,
    /// The memory timeline in coarse pixels.
    Coarse,
    /// The memory timeline.
    Timeline,
    /// The second memory timeline, when two ranks are side by side.
    Beside,
    /// Where the selected allocation lies.
    Selected,
    /// The counters of the part that is shown.
    Curve,
    /// The level of what is alone on the chart.
    Levels,
    /// What is live by what the colors mean.
    Legend,
    /// What a marked range did.
    Range,
    /// The events one by one.
    Events,
    /// A table that answers one question.
    Report,
    /// What is live by line.
    HereLines,
    /// What is live by category.
    HereCategories,
    /// Whether most of a device has a category.
    Categorized(Source),
    /// The counters of the whole run.
    Minimap,
    /// The segment timeline.
    Lanes,
    /// The moment under the pointer.
    Hover,
    /// The moment of the cursor.
    Cursor,
    /// The selected allocation.
    Details,
    /// The map of memory.
    State,
    /// The flame graph.
    Flame,
    /// The call tree.
    Tree,
    /// Two trees as one.
    Diff,
    /// The table of allocations.
    Allocations,
    /// The table of stacks.
    Stacks,
    /// The chart of lifetimes.
    Lifetimes,
    /// What matches the search.
    Search,
    /// What looks wrong.
    Insights(Source),
    /// What is compared between ranks.
    Rank(Source),
    /// The whole run of a rank, in a few columns.
    RankCurve(Source),
    /// Rows on their way to a file.
    Save,
    /// Whether and how the recording can be simulated under other settings.
    Simulable,
    /// What other settings would have done.
    Simulated,
    /// The simulated curve.
    SimulatedCurve,
    /// The simulated map of memory.
    SimulatedMap,
    /// The same stretch on the other axis.
    Convert,
    /// What SQL can be asked.
    SqlCatalog,
    /// What came of a query.
    Sql,
    /// Rows of that.
    SqlRows,
}

impl Slot {
    /// What is looked at comes first: a coarse picture, then the sharp one, then what stands beside it.
    pub fn urgency(&self) -> u8 {
        match self {
            Self::Summary(_) | Self::Convert => 7,
            Self::Coarse => 6,
            Self::Timeline | Self::Details => 5,
            Self::Curve
            | Self::Levels
            | Self::Minimap
            | Self::Base
            | Self::Selected
            | Self::Hover
            | Self::Cursor => 4,
            // A simulation takes longer than a picture may wait.
            Self::SimulatedCurve | Self::SimulatedMap => 2,
            // What needs conclusions, which take a while the first time.
            Self::Categorized(_) | Self::Legend | Self::HereCategories | Self::Report => 2,
            Self::Insights(_) | Self::Rank(_) | Self::Save | Self::Simulable | Self::Simulated => 1,
            // A query takes as long as it likes.
            Self::Sql => 0,
            _ => 3,
        }
    }
}

/// What the window needs of the place that it runs in.
pub trait Host {
    /// Sends a request to the engine.
    fn ask(&mut self, slot: Slot, request: Request);
    /// Answers that have come.
    fn answers(&mut self) -> Vec<(Slot, Request, Response)>;
    /// What else has happened.
    fn news(&mut self) -> Vec<News>;
    /// Opens files or folders by path. A browser gives no paths: the page itself takes what is dropped.
    fn open(&mut self, _paths: Vec<String>) {}
    /// Opens one of many files, of which only figures were kept.
    fn open_one(&mut self, _path: String) {}
    /// Opens the recording that is built in.
    fn open_demo(&mut self) {}
    /// Whether files can be opened here; a report has its own, and a server those that it was started with.
    fn takes_files(&self) -> bool {
        true
    }
    /// Lets go of a file.
    fn close(&mut self, _file: u32) {}
    /// Whether the line to the engine is cut: what was asked comes late, or never.
    fn is_lost(&self) -> bool {
        false
    }
    /// Whether a summary can be read instead of the window, as in a report.
    fn has_summary(&self) -> bool {
        false
    }
    /// Shows the summary.
    fn show_summary(&mut self) {}
    /// Says what is shown in the title of the window.
    fn set_title(&mut self, _title: &str) {}
    /// Stops reading.
    fn cancel(&mut self) {}
    /// Files opened before, the latest first.
    fn recent(&self) -> Vec<String> {
        Vec::new()
    }
    /// What is in a folder: names, and whether each is a folder. `None` if there are no folders here.
    fn list(&self, _folder: &str) -> Option<(String, Vec<(String, bool)>)> {
        None
    }
    /// Lets the user pick files, or a folder, where the place has its own way to do so.
    fn pick(&mut self, _folder: bool) -> bool {
        false
    }
    /// Saves bytes under a name that is free, and says where.
    fn save(&mut self, _name: &str, _bytes: &[u8]) -> Result<String, String> {
        Err("nothing can be saved here".into())
    }
    /// Keeps a text for the next time.
    fn store(&mut self, _state: String) {}
    /// The text that was kept.
    fn stored(&self) -> Option<String> {
        None
    }
    /// A link as others can open it.
    fn address(&self, link: &str) -> String {
        link.to_owned()
    }
    /// Whether the system says that its user prefers little motion.
    fn reduced_motion(&self) -> bool {
        false
    }
}

struct Entry {
    asked: Request,
    answer: Option<(Request, Response)>,
    version: u64,
}

impl Entry {
    fn is_fresh(&self) -> bool {
        self.answer.as_ref().is_some_and(|(request, _)| *request == self.asked)
    }

    fn answer<A: Ask>(&self) -> Option<Answer<A>> {
        let (request, response) = self.answer.as_ref()?;
        let (request, value) = (A::of(request)?.clone(), Arc::clone(A::answer(response)?));
        Some(Answer { request, value, version: self.version, fresh: self.is_fresh() })
    }
}

/// Requests and answers by slot.
pub(crate) struct Requests {
    pub(crate) host: Box<dyn Host>,
    entries: HashMap<Slot, Entry>,
    versions: u64,
}

/// An answer, and whether it is to the latest request.
#[derive(Clone)]
pub(crate) struct Answer<A: Ask> {
    pub(crate) request: A,
    pub(crate) value: Arc<A::Answer>,
    pub(crate) version: u64,
    pub(crate) fresh: bool,
}

impl Requests {
    pub(crate) fn new(host: Box<dyn Host>) -> Self {
        Self { host, entries: HashMap::new(), versions: 0 }
    }

    /// Takes in the answers that have come.
    pub(crate) fn receive(&mut self) {
        for (slot, request, response) in self.host.answers() {
            if let Some(entry) = self.entries.get_mut(&slot) {
                self.versions += 1;
                entry.version = self.versions;
                entry.answer = Some((request, response));
            }
        }
    }

    /// The answer in a slot, requesting it if it is missing; an older one until it comes.
    pub(crate) fn want<A: Ask>(&mut self, slot: Slot, ask: A) -> Option<Answer<A>> {
        let request: Request = ask.into();
        match self.entries.get_mut(&slot) {
            Some(entry) if entry.asked == request => {}
            Some(entry) => {
                entry.asked = request.clone();
                self.host.ask(slot, request);
            }
            None => {
                self.entries.insert(slot, Entry { asked: request.clone(), answer: None, version: 0 });
                self.host.ask(slot, request);
            }
        }
        self.look(slot)
    }

    /// The answer in a slot, if there is one of this type.
    pub(crate) fn look<A: Ask>(&self, slot: Slot) -> Option<Answer<A>> {
        self.entries.get(&slot)?.answer()
    }

    /// Whether the answer in a slot is to the latest request.
    pub(crate) fn is_fresh(&self, slot: Slot) -> bool {
        self.entries.get(&slot).is_some_and(Entry::is_fresh)
    }

    /// Whether any request is open.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting().next().is_some()
    }

    /// Slots with an open request.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Slot> {
        self.entries.iter().filter(|(_, entry)| !entry.is_fresh()).map(|(slot, _)| *slot)
    }

    /// Lets go of a file, and of every answer about it.
    pub(crate) fn close(&mut self, file: u32) {
        let is_about = |request: &Request| request.clone().sources().iter().any(|of| of.file == file);
        self.entries.retain(|_, entry| {
            let answered = entry.answer.as_ref().is_some_and(|(request, _)| is_about(request));
            !answered && !is_about(&entry.asked)
        });
        self.host.close(file);
    }

    /// Forgets a slot.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.entries.remove(&slot);
    }
}
