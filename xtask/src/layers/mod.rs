//! The rules of the layers: a crate depends only on crates above it on the map, and the modules of a crate form no cycle.
//!
//! The map is the list in `ARCHITECTURE.md`. Modules that are still in a cycle are counted, crate by crate, in
//! `layers.txt`; a count may only become smaller.

mod modules;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::process::{cargo, root};
use modules::{Arrow, Cycle, Graph};

/// Counts of modules that may be in a cycle, beside the manifest of this program.
const EXCEPTIONS: &str = "xtask/layers.txt";

/// Prefix of the names of all crates but the program and this one.
const PREFIX: &str = "vramscope-";

/// Fails on a dependency that points up, and where a crate has more or fewer modules in cycles than `layers.txt` allows.
pub(crate) fn check() -> anyhow::Result<()> {
    let map = Map::parse(&fs::read_to_string(root().join("ARCHITECTURE.md"))?);
    let packages = packages()?;
    let mut wrong = map.arrows(&packages);
    let allowed = allowed(&fs::read_to_string(root().join(EXCEPTIONS)).context(EXCEPTIONS)?)?;
    let checked = packages.iter().filter(|package| map.rank(&package.name).is_some());
    let mut counts = BTreeMap::new();
    for Package { name, .. } in checked {
        let cycles = cycles_of(name)?;
        let allowed = allowed.get(name.as_str()).copied().unwrap_or_default();
        let now: usize = cycles.iter().map(|cycle| cycle.modules.len()).sum();
        counts.insert(name.as_str(), now);
        if now > allowed {
            let text = describe(&cycles);
            wrong.push(format!("{name}: {now} modules are in cycles; {EXCEPTIONS} allows {allowed}\n{text}"));
        }
    }
    for (name, allowed) in allowed {
        let now = counts.get(name.as_str()).copied().unwrap_or_default();
        if now < allowed {
            let entry = if now == 0 { "remove the line".to_owned() } else { format!("write `{name} {now}`") };
            wrong
                .push(format!("{name}: {EXCEPTIONS} allows {allowed} modules in cycles, {now} are: {entry}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Prints the cycles of one crate, allowed or not.
pub(crate) fn show(name: &str) -> anyhow::Result<()> {
    println!("{}", describe(&cycles_of(name)?));
    Ok(())
}

fn cycles_of(name: &str) -> anyhow::Result<Vec<Cycle>> {
    let source = Path::new("crates").join(name).join("src");
    let read = |file: &Path| fs::read_to_string(root().join(file)).ok();
    let first =
        ["lib.rs", "main.rs"].map(|file| source.join(file)).into_iter().find(|file| read(file).is_some());
    let first = first.with_context(|| format!("no crate in crates/{name}"))?;
    Ok(Graph::of_crate(&first, &read)?.cycles())
}

/// Describes every cycle: its modules, and by which line one uses another.
fn describe(cycles: &[Cycle]) -> String {
    let mut text = String::new();
    for Cycle { modules, arrows } in cycles {
        _ = writeln!(text, "  cycle of {} modules: {}", modules.len(), modules.join(", "));
        for Arrow { from, to, first, lines } in arrows {
            let more = if *lines > 1 { format!(" (and {} more lines)", lines - 1) } else { String::new() };
            _ = writeln!(text, "    {from} -> {to}{more}\n      {first}");
        }
    }
    text
}

/// Parses `layers.txt`: a crate and a number on each line; `#` begins a comment.
fn allowed(text: &str) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut allowed = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let entry = line.split_once(' ').and_then(|(name, count)| Some((name, count.parse::<usize>().ok()?)));
        match entry {
            Some((name, count)) if count > 0 && !allowed.contains_key(name) => {
                allowed.insert(name.to_owned(), count);
            }
            _ => bail!("{EXCEPTIONS}: {line:?} is not one line for a crate with a number above 0"),
        }
    }
    Ok(allowed)
}

/// Crates from the lowest layer to the highest, as `ARCHITECTURE.md` lists them.
struct Map {
    order: Vec<String>,
    /// Crates for tests, which may use all others, and which only tests may use.
    tests: Vec<String>,
}

impl Map {
    /// Reads the list under `crates/`. A line with several names lists the crates for tests.
    fn parse(text: &str) -> Self {
        let mut map = Self { order: Vec::new(), tests: Vec::new() };
        let lines = text.lines().skip_while(|line| *line != "crates/").skip(1);
        for line in lines.map_while(|line| line.strip_prefix("  ")) {
            let words = line.split_whitespace();
            // A line that is indented further continues the one before.
            let names: Vec<_> = words.map_while(|word| word.strip_suffix('/')).map(str::to_owned).collect();
            match names.as_slice() {
                _ if line.starts_with(' ') => {}
                [_] => map.order.extend(names),
                _ => map.tests.extend(names),
            }
        }
        map
    }

    fn rank(&self, name: &str) -> Option<usize> {
        self.order.iter().position(|one| one == name)
    }

    /// Crates that are not on the map, and dependencies on crates that are not above.
    fn arrows(&self, packages: &[Package]) -> Vec<String> {
        let mut wrong = Vec::new();
        for Package { name, needs } in packages.iter().filter(|package| !self.tests.contains(&package.name)) {
            let Some(rank) = self.rank(name) else {
                wrong.push(format!("{name}: not on the map of ARCHITECTURE.md"));
                continue;
            };
            let is_above = |need: &&String| self.rank(need).is_some_and(|other| other < rank);
            for need in needs.iter().filter(|need| !is_above(need)) {
                wrong.push(format!(
                    "{name} depends on {need}, which is not above it on the map of ARCHITECTURE.md"
                ));
            }
        }
        wrong
    }
}

/// A crate of the folder `crates`, by the name of its folder.
struct Package {
    name: String,
    /// Crates of the folder that it depends on, other than for tests.
    needs: Vec<String>,
}

fn packages() -> anyhow::Result<Vec<Package>> {
    let output = cargo(&["metadata", "--format-version", "1", "--locked", "--no-deps"]).output()?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let is_normal = |need: &Value| need["kind"].is_null() && need["path"].is_string();
    let packages = list(&metadata["packages"]).into_iter().filter_map(|package| {
        let name = match package["name"].as_str()? {
            "xtask" => return None,
            "vramscope" => "cli",
            name => name.strip_prefix(PREFIX)?,
        };
        let needs = list(&package["dependencies"]).into_iter().filter(|need| is_normal(need));
        let needs = needs.filter_map(|need| Some(need["name"].as_str()?.strip_prefix(PREFIX)?.to_owned()));
        Some(Package { name: name.to_owned(), needs: needs.collect() })
    });
    Ok(packages.collect())
}

#[cfg(test)]
mod tests {
    use super::{Map, Package, allowed};

    const MAP: &str = "crates/\n  format/      amounts\n  snapshot/    what a file says:\n               the model\n  \
        cli/         the binary\n  soft/ testkit/      for tests\npython/        not a crate\n";

    fn wrong(name: &str, needs: &[&str]) -> Vec<String> {
        let needs = needs.iter().map(|&need| need.to_owned()).collect();
        Map::parse(MAP).arrows(&[Package { name: name.to_owned(), needs }])
    }

    #[test]
    fn a_crate_depends_only_on_crates_above_it() {
        assert!(wrong("cli", &["format", "snapshot"]).is_empty());
        let up = "snapshot depends on cli, which is not above it on the map of ARCHITECTURE.md";
        assert_eq!(wrong("snapshot", &["format", "cli"]), [up]);
    }

    #[test]
    fn crates_for_tests_may_use_all_and_be_used_by_none() {
        assert!(wrong("testkit", &["cli"]).is_empty());
        let test = "cli depends on testkit, which is not above it on the map of ARCHITECTURE.md";
        assert_eq!(wrong("cli", &["testkit"]), [test]);
    }

    #[test]
    fn a_crate_that_is_not_on_the_map_is_an_error() {
        assert_eq!(wrong("replay", &[]), ["replay: not on the map of ARCHITECTURE.md"]);
    }

    #[test]
    fn an_exception_is_a_crate_and_a_number() {
        let counts = allowed("# comment\ncli 2\ntui 3\n").unwrap();
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("cli".to_owned(), 2), ("tui".to_owned(), 3)]);
        for text in ["cli", "cli 0", "cli 1\ncli 2", "cli many"] {
            assert!(allowed(text).is_err(), "{text}");
        }
    }
}
