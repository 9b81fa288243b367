//! Whose memory: the module of the model that an allocation belongs to.
//!
//! A program that sets `user_metadata` to a module's path (`model.layers.0.self_attn`) says it itself. Otherwise layers
//! follow from the order of the forward pass ([`layers`](super::layers)), marked as inferred.
//! What the backward pass allocates belongs to the module of the forward allocation that it answers to
//! ([`backward`](super::backward)).

use std::collections::BTreeMap;

use hashbrown::HashMap;
use vramscope_snapshot::{Snapshot, StrId};

use crate::conclusions::backward::Answers;
use crate::conclusions::known::KnownBy;
use crate::conclusions::layers::layers;
use crate::conclusions::run::Run;
use crate::questions::compare::Sum;
use crate::replay::Replay;
use crate::replay::allocations::{AllocIdx, Allocation};
use crate::replay::state::State;

/// A module for each allocation of a device that has one.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    names: Vec<String>,
    /// A row of `names` plus one for each allocation; 0 for none.
    of: Vec<u32>,
    /// Classes of modules, by row of `names`.
    classes: HashMap<usize, String>,
    answers: Answers,
    known_by: KnownBy,
}

impl Modules {
    /// The modules of a device.
    pub fn new(snapshot: &Snapshot, replay: &Replay) -> Self {
        Self::of_run(snapshot, replay, &Run::new(snapshot, replay))
    }

    pub(crate) fn of_run(snapshot: &Snapshot, replay: &Replay, run: &Run) -> Self {
        let mut classes = HashMap::new();
        let (names, of, known_by) = match recorded(snapshot, replay, &mut classes) {
            Some((names, of)) => (names, of, KnownBy::Recorded),
            None => {
                let (names, of) = layers(snapshot, replay, &run.stacks, &run.passes);
                let known_by = if names.is_empty() { KnownBy::Unknown } else { KnownBy::Likely };
                (names, of, known_by)
            }
        };
        Self { names, of, classes, answers: Answers::new(replay, &run.passes), known_by }
    }

    /// The module that an allocation was made in.
    pub fn of(&self, allocation: AllocIdx) -> Option<&str> {
        self.names.get(self.row(allocation)?).map(String::as_str)
    }

    /// The same as a row of [`Modules::names`].
    pub fn row(&self, allocation: AllocIdx) -> Option<usize> {
        self.of.get(allocation.index())?.checked_sub(1).map(|row| row as usize)
    }

    /// The forward allocation that an allocation of a backward pass answers to: the next that the pass frees.
    pub fn answers_to(&self, allocation: AllocIdx) -> Option<AllocIdx> {
        self.answers.of(allocation)
    }

    pub(crate) fn answers(&self) -> &Answers {
        &self.answers
    }

    /// The module that an allocation of a backward pass belongs to.
    pub fn of_backward(&self, allocation: AllocIdx) -> Option<&str> {
        self.of(self.answers_to(allocation)?)
    }

    /// What each module has of what is live, with what the backward pass made for it; what no module has comes under
    /// `(no module)`. Names of layers that are inferred say so. `keep` says which allocations count.
    pub fn sums(
        &self,
        replay: &Replay,
        state: &State,
        keep: impl Fn(AllocIdx, &Allocation) -> bool,
    ) -> BTreeMap<String, Sum> {
        let mark = if self.known_by == KnownBy::Likely { " (inferred)" } else { "" };
        let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
        for &index in &state.live {
            let allocation = replay.allocation(index);
            if keep(index, &allocation) {
                let module = self.of(index).or_else(|| self.of_backward(index));
                let name = module.map_or_else(|| "(no module)".to_owned(), |name| format!("{name}{mark}"));
                sums.entry(name).or_default().add_one(allocation.requested);
            }
        }
        sums
    }

    /// The class of a module, a row of [`Modules::names`], where metadata names it.
    pub fn class(&self, row: usize) -> Option<&str> {
        self.classes.get(&row).map(String::as_str)
    }

    /// All modules that made an allocation, in order of appearance.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// How modules are known.
    pub fn known_by(&self) -> KnownBy {
        self.known_by
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// The modules that `user_metadata` names; `None` if it names none.
fn recorded(
    snapshot: &Snapshot,
    replay: &Replay,
    classes: &mut HashMap<usize, String>,
) -> Option<(Vec<String>, Vec<u32>)> {
    if snapshot.metas.iter().all(|meta| meta.user_metadata == StrId::EMPTY) {
        return None;
    }
    let events = snapshot.events(replay.device());
    let mut rows: HashMap<StrId, u32> = HashMap::new();
    let mut names: Vec<String> = Vec::new();
    let mut by_name: HashMap<String, u32> = HashMap::new();
    let mut row_of = |text: StrId| {
        *rows.entry(text).or_insert_with(|| {
            let Some(path) = module_path(snapshot.text(text)) else { return 0 };
            let row = *by_name.entry(path.clone()).or_insert_with(|| {
                names.push(path);
                names.len() as u32
            });
            if let Some(class) = text_under(snapshot.text(text), &CLASS_KEYS) {
                classes.insert(row as usize - 1, class);
            }
            row
        })
    };
    let of: Vec<u32> = replay
        .allocations()
        .iter()
        .map(|(_, allocation)| {
            let event = allocation.opened.event()?;
            Some(row_of(snapshot.meta(events.get(event.index()).meta).user_metadata))
        })
        .map(Option::unwrap_or_default)
        .collect();
    // A single word may be a note of any kind; paths of modules have parts.
    names.iter().any(|name| name.contains('.')).then_some((names, of))
}

/// Keys of metadata that name a module.
const MODULE_KEYS: [&str; 5] = ["module", "module_path", "module_name", "fqn", "path"];

/// Keys of metadata that name the class of a module.
const CLASS_KEYS: [&str; 4] = ["class", "module_class", "module_type", "class_name"];

/// The text under the first of some keys, of metadata that is a dictionary.
fn text_under(metadata: &str, keys: &[&str]) -> Option<String> {
    let text = metadata.trim();
    if !text.starts_with('{') {
        return None;
    }
    let entries: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).ok()?;
    keys.iter().find_map(|key| entries.get(*key)?.as_str()).map(str::to_owned)
}

/// The path of a module that metadata names: as it is, or under a key of a dictionary.
fn module_path(metadata: &str) -> Option<String> {
    let text = metadata.trim();
    if text.starts_with('{') {
        return text_under(text, &MODULE_KEYS).and_then(|named| module_path(&named));
    }
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_path = text.split('.').all(is_word) && !text.starts_with(|first: char| first.is_ascii_digit());
    is_path.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_a_module() {
        let path = |text| module_path(text);
        assert_eq!(path("model.layers.0.self_attn").as_deref(), Some("model.layers.0.self_attn"));
        assert_eq!(path("lm_head").as_deref(), Some("lm_head"));
        assert_eq!(path(r#"{"module": "model.norm", "phase": "forward"}"#).as_deref(), Some("model.norm"));
        assert_eq!(path(r#"{"step": 3}"#), None);
        assert_eq!(path("loading the model"), None);
        assert_eq!(path("a..b"), None);
        assert_eq!(path(""), None);
    }
}
