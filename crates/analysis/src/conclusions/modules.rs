//! Whose memory: the module of the model that an allocation belongs to.
//!
//! A program that sets `user_metadata` to a module's path (`model.layers.0.self_attn`) says it itself. Otherwise layers
//! follow from the order of the forward pass ([`layers`](super::layers)), marked as inferred.
//! A recorder names the module of each parameter, gradient and optimizer state ([`roles`](super::roles)); a loop over
//! layers is called as it calls them, where only one list of modules has as many.
//! What the backward pass allocates belongs to the module of the forward allocation that it answers to
//! ([`backward`](super::backward)).

use std::collections::BTreeMap;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use vramscope_mapped::Buffer;
use vramscope_replay::{AllocIdx, Allocation, State};
use vramscope_snapshot::StrId;

use crate::conclusions::backward::Answers;
use crate::conclusions::known::KnownBy;
use crate::conclusions::layers::layers;
use crate::conclusions::roles::Roles;
use crate::device::Device;
use crate::questions::compare::Sum;

/// A module for each allocation of a device that has one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Modules {
    names: Vec<String>,
    /// A row of `names` plus one for each allocation; 0 for none.
    #[serde(skip)]
    pub(crate) of: Buffer<u32>,
    /// Classes of modules, by row of `names`.
    classes: BTreeMap<usize, String>,
    #[serde(skip)]
    pub(crate) answers: Answers,
    known_by: KnownBy,
}

impl Modules {
    /// The modules of a device.
    pub fn new(device: &Device) -> Self {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        let by_role = Roles::new(snapshot, replay).modules(snapshot);
        let mut classes = BTreeMap::new();
        let (mut names, of, mut known_by) = match recorded(device, &mut classes) {
            Some((names, of)) => (names, of, KnownBy::Recorded),
            None => {
                let (names, of) = layers(snapshot, replay, device.stacks(), device.passes());
                let known_by = if names.is_empty() { KnownBy::Unknown } else { KnownBy::Likely };
                (names, of, known_by)
            }
        };
        if !by_role.is_empty() && known_by == KnownBy::Likely {
            rename_loops(&mut names, &by_role);
        }
        if !by_role.is_empty() && known_by == KnownBy::Unknown {
            known_by = KnownBy::Recorded;
        }
        let mut modules =
            Self { names, of: of.into(), classes, answers: Answers::new(replay, device.passes()), known_by };
        modules.add(by_role, replay.allocations().len());
        modules
    }

    /// Adds the modules of allocations that a recorder named.
    fn add(&mut self, by_role: HashMap<AllocIdx, &str>, allocations: usize) {
        if by_role.is_empty() {
            return;
        }
        let of = self.of.to_mut();
        of.resize(allocations, 0);
        let mut rows: HashMap<String, u32> = self.names.iter().cloned().zip(1..).collect();
        let mut by_role: Vec<_> = by_role.into_iter().collect();
        by_role.sort_unstable();
        for (index, module) in by_role {
            let row = *rows.entry_ref(module).or_insert_with(|| {
                self.names.push(module.to_owned());
                self.names.len() as u32
            });
            if let Some(of) = of.get_mut(index.index()) {
                *of = row;
            }
        }
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
    pub fn sums(&self, state: &State, keep: impl Fn(AllocIdx, &Allocation) -> bool) -> BTreeMap<String, Sum> {
        let mark = if self.known_by == KnownBy::Likely { " (inferred)" } else { "" };
        let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
        for (index, allocation) in state.allocations() {
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

/// Gives inferred loops over layers the names that the recorder has: `layers.3` becomes `model.layers.3` where that is
/// the only list of modules with as many entries as the loop has calls.
fn rename_loops(names: &mut [String], by_role: &HashMap<AllocIdx, &str>) {
    let mut lists: HashMap<&str, u32> = HashMap::new();
    for module in by_role.values() {
        if let Some((list, number)) = first_number(module) {
            let len = lists.entry(list).or_default();
            *len = number.saturating_add(1).max(*len);
        }
    }
    let mut loops: HashMap<String, u32> = HashMap::new();
    for (list, number) in names.iter().filter_map(|name| first_number(name)) {
        let len = loops.entry_ref(list).or_default();
        *len = number.saturating_add(1).max(*len);
    }
    // The loop and the list of a length, where there is one each.
    let mut of_len: HashMap<u32, (usize, Option<&str>)> = HashMap::new();
    for len in loops.values() {
        of_len.entry(*len).or_default().0 += 1;
    }
    for (list, len) in &lists {
        let only = |(loops, found): (usize, Option<&str>)| match (loops, found) {
            (1, None) => (1, Some(*list)),
            _ => (0, None),
        };
        of_len.entry(*len).and_modify(|found| *found = only(*found));
    }
    for name in names {
        let Some((list, number)) = first_number(name) else { continue };
        let found = loops.get(list).and_then(|len| of_len.get(len));
        if let Some((1, Some(list))) = found {
            *name = format!("{list}.{number}");
        }
    }
}

/// The list of modules that a path enters first, and the entry: `model.layers` and 3 of `model.layers.3.mlp`.
fn first_number(path: &str) -> Option<(&str, u32)> {
    let mut start = 0_usize;
    for part in path.split('.') {
        if let Ok(number) = part.parse() {
            return path.get(..start.checked_sub(1)?).map(|list| (list, number));
        }
        start += part.len() + 1;
    }
    None
}

/// The modules that `user_metadata` names; `None` if it names none.
fn recorded(device: &Device, classes: &mut BTreeMap<usize, String>) -> Option<(Vec<String>, Vec<u32>)> {
    let (snapshot, replay) = (device.snapshot(), device.replay());
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
    fn a_loop_is_called_as_the_only_list_of_its_length() {
        let renamed = |loops: &[&str], modules: &[&'static str]| {
            let mut names: Vec<String> = loops.iter().map(|name| (*name).to_owned()).collect();
            let by_role = modules.iter().zip(0..).map(|(module, index)| (AllocIdx(index), *module)).collect();
            rename_loops(&mut names, &by_role);
            names
        };
        let model = ["model.embed", "model.layers.0.attn", "model.layers.1.mlp", "experts.0", "experts.2"];
        assert_eq!(renamed(&["layers.0", "layers.1"], &model), ["model.layers.0", "model.layers.1"]);
        assert_eq!(renamed(&["layers.0"], &model), ["layers.0"], "no list has one entry");
        assert_eq!(renamed(&["layers.0", "layers.1"], &["a.1", "b.1"]), ["layers.0", "layers.1"], "two have");
    }

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
