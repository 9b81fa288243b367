//! Between the window and the engine: what was asked, what came back, what is on its way.
//!
//! A view says every frame what it wants to show. The desk asks for what it has not, and meanwhile hands out
//! what it had before, so the screen is never empty while something is computed.

use std::collections::HashMap;
use std::sync::Arc;

use vramscope_engine::{News, Request, Response, Source};

/// The place that an answer goes to. A new question for a place makes the old one void.
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
    /// What fits the search.
    Search,
    /// What is worth knowing.
    Insights(Source),
    /// What is compared between ranks.
    Rank(Source),
    /// Rows on their way to a file.
    Save,
    /// The same stretch on the other axis.
    Convert,
}

impl Slot {
    /// What is looked at comes first: a coarse picture, then the sharp one, then what stands beside it.
    pub fn urgency(&self) -> u8 {
        match self {
            Self::Summary(_) | Self::Convert => 6,
            Self::Coarse => 5,
            Self::Timeline | Self::Details => 4,
            Self::Curve | Self::Minimap | Self::Base | Self::Selected | Self::Hover | Self::Cursor => 3,
            Self::Insights(_) | Self::Rank(_) | Self::Save => 0,
            _ => 2,
        }
    }
}

/// What the window needs of the place that it runs in.
pub trait Host {
    /// Sends a question to the engine.
    fn ask(&mut self, slot: Slot, request: Request);
    /// Answers that have come.
    fn answers(&mut self) -> Vec<(Slot, Request, Response)>;
    /// What else has happened.
    fn news(&mut self) -> Vec<News>;
    /// Opens files or folders by path. A browser gives no paths: the page itself takes what is dropped.
    fn open(&mut self, _paths: Vec<String>) {}
    /// Opens the recording that is built in.
    fn open_demo(&mut self) {}
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
}

struct Entry {
    asked: Request,
    answer: Option<(Request, Arc<Response>)>,
    version: u64,
}

/// Questions and answers by place.
pub(crate) struct Desk {
    pub(crate) host: Box<dyn Host>,
    entries: HashMap<Slot, Entry>,
    versions: u64,
}

/// An answer, and whether it is to the latest question.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) request: Request,
    pub(crate) response: Arc<Response>,
    pub(crate) version: u64,
    pub(crate) fresh: bool,
}

impl Desk {
    pub(crate) fn new(host: Box<dyn Host>) -> Self {
        Self { host, entries: HashMap::new(), versions: 0 }
    }

    /// Takes in what has come. Says whether anything has.
    pub(crate) fn receive(&mut self) -> bool {
        let answers = self.host.answers();
        let any = !answers.is_empty();
        for (slot, request, response) in answers {
            if let Some(entry) = self.entries.get_mut(&slot) {
                self.versions += 1;
                entry.version = self.versions;
                entry.answer = Some((request, Arc::new(response)));
            }
        }
        any
    }

    /// What is at a place, asking for it if it is not there; an older answer until then.
    pub(crate) fn want(&mut self, slot: Slot, request: Request) -> Option<Answer> {
        let entry = match self.entries.get_mut(&slot) {
            Some(entry) => {
                if entry.asked != request {
                    entry.asked = request.clone();
                    self.host.ask(slot, request);
                }
                entry
            }
            None => {
                self.host.ask(slot, request.clone());
                self.entries.entry(slot).or_insert(Entry { asked: request, answer: None, version: 0 })
            }
        };
        let (request, response) = entry.answer.as_ref()?;
        Some(Answer {
            request: request.clone(),
            response: Arc::clone(response),
            version: entry.version,
            fresh: *request == entry.asked,
        })
    }

    /// What is at a place, without asking.
    pub(crate) fn look(&self, slot: Slot) -> Option<Answer> {
        let entry = self.entries.get(&slot)?;
        let (request, response) = entry.answer.as_ref()?;
        Some(Answer {
            request: request.clone(),
            response: Arc::clone(response),
            version: entry.version,
            fresh: *request == entry.asked,
        })
    }

    /// Whether any question is open.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting().next().is_some()
    }

    /// Places with an open question.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Slot> {
        let is_open =
            |entry: &Entry| entry.answer.as_ref().is_none_or(|(request, _)| *request != entry.asked);
        self.entries.iter().filter(move |(_, entry)| is_open(entry)).map(|(slot, _)| *slot)
    }

    /// Forgets a place.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.entries.remove(&slot);
    }
}
