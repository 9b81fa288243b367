//! Which run, step and rank a file is: the columns that every table of several files has.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vramscope_files::Input;
use vramscope_format::table::{Column, Kind};
use vramscope_naming::Name;

/// The columns in front of every table, and the folders of a dataset. They are never null, so that joins and groups
/// need no special case.
pub const KEYS: [Column; 4] = [
    Column::new("run", Kind::Text, "", "The run: folder and name of its files."),
    Column::new("step", Kind::I64, "", "The step in the name of the file; -1 if it has none."),
    Column::new("rank", Kind::I64, "", "The rank in the name of the file; -1 if it has none."),
    Column::new("device", Kind::I32, "", "Device; -1 is the host, and a file that could not be read."),
];

/// Which run, step and rank a file is. No two files of a dataset have the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// A name of letters, digits, `.`, `_` and `-`: it is a folder, and not every engine decodes other characters.
    pub run: String,
    /// -1 if the name has none.
    pub step: i64,
    /// -1 if the name has none.
    pub rank: i64,
}

impl Key {
    fn of(path: &Path, name: &Name) -> Self {
        let number = |number: Option<u64>| number.map_or(-1, |number| i64::try_from(number).unwrap_or(-1));
        Self { run: run(path, name), step: number(name.step), rank: number(name.rank.map(|(_, rank)| rank)) }
    }

    /// The folder of a device below that of a table.
    pub fn folder(&self, device: i32) -> PathBuf {
        let Self { run, step, rank } = self;
        [format!("run={run}"), format!("step={step}"), format!("rank={rank}"), format!("device={device}")]
            .iter()
            .collect()
    }
}

/// What the files of a run have in common: their folder, and what is left of their names without the rank.
fn run(path: &Path, name: &Name) -> String {
    let (folder, file) = name.group.rsplit_once('/').unwrap_or(("", &name.group));
    let file = file.replace("rank", "").replace('*', "");
    let own = [folder, &file].map(clean).into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    let above = || path.parent().and_then(Path::file_name).map(|name| clean(&name.to_string_lossy()));
    let mut run = match own.is_empty() {
        false => own.join("-"),
        true => above().filter(|name| !name.is_empty()).unwrap_or_else(|| "run".to_owned()),
    };
    run.truncate(LONGEST);
    if name.oom { run + "-oom" } else { run }
}

/// Bytes of a run's name: folders have at most 255 with the rest.
const LONGEST: usize = 120;

/// Only characters that need no escaping in a path, none of them at an end that could be taken for something else.
fn clean(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' };
    let text: String = text.chars().map(plain).collect();
    let parts: Vec<_> = text.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-").trim_matches(['.', '_', '-']).to_owned()
}

/// A key for each input. Files that were given one before (`known`) keep it; of several with the same name the later
/// ones get a number.
pub fn keys(inputs: &[Input], known: &HashMap<String, Key>) -> Vec<Key> {
    let mut taken: BTreeMap<Key, usize> = known.values().map(|key| (key.clone(), 1)).collect();
    let each = |input: &Input| {
        if let Some(key) = known.get(&*input.path.to_string_lossy()) {
            return key.clone();
        }
        let first = Key::of(&input.path, &input.name);
        let mut key = first.clone();
        let mut number = taken.get(&first).copied().unwrap_or(0);
        while taken.contains_key(&key) {
            number += 1;
            key.run = format!("{}-{}", first.run, number);
        }
        taken.insert(first, number.max(1));
        taken.insert(key.clone(), 1);
        key
    };
    inputs.iter().map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(paths: &[&str]) -> Vec<Input> {
        let input = |path: &&str| Input::new(path.into(), vramscope_naming::name(path), true);
        paths.iter().map(input).collect()
    }

    fn text(keys: &[Key]) -> Vec<String> {
        keys.iter().map(|key| format!("{} {} {}", key.run, key.step, key.rank)).collect()
    }

    #[test]
    fn a_run_is_the_folder_and_what_its_files_have_in_common() {
        let found = keys(&inputs(&["today/rank0.pickle", "today/rank1.pickle"]), &HashMap::new());
        assert_eq!(text(&found), ["today -1 0", "today -1 1"]);
        let found = keys(&inputs(&["rank0.pickle", "before.pickle"]), &HashMap::new());
        assert_eq!(text(&found), ["run -1 0", "before -1 -1"]);
    }

    #[test]
    fn no_two_files_have_the_same_key_and_one_that_was_given_is_kept() {
        let paths = inputs(&["a b/x.pickle", "a-b/x.pickle", "a+b/x.pickle"]);
        let found = keys(&paths, &HashMap::new());
        assert_eq!(text(&found), ["a-b-x -1 -1", "a-b-x-2 -1 -1", "a-b-x-3 -1 -1"]);
        let known = HashMap::from([("a-b/x.pickle".to_owned(), found[1].clone())]);
        assert_eq!(text(&keys(&paths, &known)), ["a-b-x -1 -1", "a-b-x-2 -1 -1", "a-b-x-3 -1 -1"]);
    }
}
