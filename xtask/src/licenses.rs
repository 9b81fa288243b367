//! The licenses of what we depend on: whether `deny.toml` allows them, and `THIRD-PARTY.md`, which names them.
//!
//! `deny.toml` is written for cargo-deny, which the hosted checks run with its database of advisories. Building
//! cargo-deny takes longer than all other checks together, so the gate looks at the same rules itself, in what
//! `cargo metadata` says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::process::{cargo, root};

/// Where what ships begins: the program, and the page that it contains.
const SHIPPED: [&str; 2] = ["vramscope", "vramscope-viewer"];

/// Licenses that everybody knows, and of which a name is enough here. The text of any other is in the notices.
const USUAL: [&str; 8] =
    ["MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib", "Unicode-3.0", "BSL-1.0"];

/// A package that ships.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: String,
    repository: String,
    manifest: String,
    ours: bool,
}

/// What ships on any system.
pub(crate) fn shipped() -> anyhow::Result<Vec<Package>> {
    let output = cargo(&["metadata", "--format-version", "1", "--locked"]).output()?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();

    let mut needs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let is_used = |kind: &Value| kind["kind"].is_null();
        let used = list(&node["deps"]).into_iter().filter(|dep| list(&dep["dep_kinds"]).iter().any(is_used));
        needs.insert(text(&node["id"]), used.map(|dep| text(&dep["pkg"])).collect());
    }
    let packages = list(&metadata["packages"]);
    let is_first =
        |package: &&Value| package["source"].is_null() && SHIPPED.iter().any(|name| package["name"] == *name);
    let mut todo: Vec<String> =
        packages.iter().filter(is_first).map(|package| text(&package["id"])).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = todo.pop() {
        if seen.insert(id.clone()) {
            todo.extend(needs.get(&id).into_iter().flatten().cloned());
        }
    }
    let mut shipped: Vec<Package> = packages
        .iter()
        .filter(|package| seen.contains(&text(&package["id"])))
        .map(|package| Package {
            name: text(&package["name"]),
            version: text(&package["version"]),
            license: text(&package["license"]),
            repository: text(&package["repository"]),
            manifest: text(&package["manifest_path"]),
            ours: package["source"].is_null(),
        })
        .collect();
    shipped.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(shipped)
}

/// Fails if a license is not allowed, if a package is there twice, and if `THIRD-PARTY.md` is not up to date.
pub(crate) fn check() -> anyhow::Result<()> {
    let rules: toml::Table = fs::read_to_string(root().join("deny.toml"))?.parse().context("deny.toml")?;
    let strings = |section: &str, key: &str| -> Vec<String> {
        let values = rules.get(section).and_then(|table| table.get(key)).and_then(toml::Value::as_array);
        let name =
            |value: &toml::Value| value.as_str().or_else(|| value.get("name")?.as_str()).map(str::to_owned);
        values.into_iter().flatten().filter_map(name).collect()
    };
    let (allowed, twice) = (strings("licenses", "allow"), strings("bans", "skip"));
    let shipped = shipped()?;
    let mut wrong = Vec::new();
    for package in shipped.iter().filter(|package| !is_allowed(&package.license, &allowed)) {
        wrong.push(format!("{} {}: the license is {:?}", package.name, package.version, package.license));
    }
    for pair in shipped.windows(2) {
        let [a, b] = pair else { continue };
        if a.name == b.name && !twice.contains(&a.name) {
            wrong.push(format!("{} is there twice: {} and {}", a.name, a.version, b.version));
        }
    }
    for name in
        twice.iter().filter(|name| shipped.iter().filter(|package| package.name == **name).count() < 2)
    {
        wrong.push(format!("deny.toml skips {name}, which is not there twice"));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    let written = fs::read_to_string(root().join("THIRD-PARTY.md")).unwrap_or_default();
    ensure!(
        written == notices(&shipped)?,
        "THIRD-PARTY.md is not up to date: `cargo xtask notices` writes it"
    );
    Ok(())
}

/// Writes `THIRD-PARTY.md`.
pub(crate) fn write() -> anyhow::Result<()> {
    Ok(fs::write(root().join("THIRD-PARTY.md"), notices(&shipped()?)?)?)
}

/// Whether an expression such as `(MIT OR Apache-2.0) AND OFL-1.1` can be met. `OR` binds less than `AND`; old
/// manifests write `/` for it.
fn is_allowed(license: &str, allowed: &[String]) -> bool {
    let spaced = license.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    any(&mut rest, allowed) && rest.is_empty()
}

fn any(rest: &mut &[&str], allowed: &[String]) -> bool {
    let mut is_met = all(rest, allowed);
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        is_met |= all(rest, allowed);
    }
    is_met
}

fn all(rest: &mut &[&str], allowed: &[String]) -> bool {
    let mut is_met = one(rest, allowed);
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        is_met &= one(rest, allowed);
    }
    is_met
}

fn one(rest: &mut &[&str], allowed: &[String]) -> bool {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let is_met = any(rest, allowed);
            *rest = rest.strip_prefix(&[")"]).unwrap_or_default();
            is_met
        }
        [name, "WITH", exception, after @ ..] => {
            *rest = after;
            allowed.contains(&format!("{name} WITH {exception}"))
        }
        [name, after @ ..] => {
            *rest = after;
            allowed.iter().any(|known| known == name)
        }
        [] => false,
    }
}

fn notices(shipped: &[Package]) -> anyhow::Result<String> {
    let mut text = String::from(
        "# Third-party notices\n\n\
         What the program, the page and every report contain that others have written. `cargo xtask notices` makes\n\
         this file from `Cargo.lock`; the systems that vramscope runs on each need a part of it.\n\n\
         | package | version | license | source |\n|---|---|---|---|\n",
    );
    let theirs = || shipped.iter().filter(|package| !package.ours);
    for Package { name, version, license, repository, .. } in theirs() {
        writeln!(text, "| {name} | {version} | {license} | {repository} |")?;
    }
    text.push_str("\n## Fonts, and other licenses that have to travel with what they cover\n");
    let usual: Vec<String> = USUAL.map(str::to_owned).to_vec();
    for package in theirs() {
        let folder = Path::new(&package.manifest).parent().unwrap_or(Path::new("."));
        // A font has a license of its own, whatever the package says.
        if is_allowed(&package.license, &usual) && !folder.join("fonts").exists() {
            continue;
        }
        for (file, content) in license_files(folder)? {
            let content = content.replace("\r\n", "\n").replace('\u{feff}', "");
            let content: Vec<&str> = content.lines().map(str::trim_end).collect();
            let content = content.join("\n");
            write!(
                text,
                "\n### {} {}: {file}\n\n```text\n{}\n```\n",
                package.name,
                package.version,
                content.trim()
            )?;
        }
    }
    Ok(text)
}

/// Texts in the folder of a package and beside its fonts.
fn license_files(folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for part in ["", "fonts"] {
        for entry in fs::read_dir(folder.join(part)).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let upper = name.to_uppercase();
            let is_license =
                ["LICENSE", "LICENCE", "OFL", "UFL", "COPYING"].iter().any(|word| upper.contains(word));
            let is_license = is_license || part == "fonts" && upper.ends_with(".TXT");
            if is_license
                && entry.path().is_file()
                && !upper.contains("APACHE")
                && !upper.contains("LICENSE-MIT")
            {
                let content = fs::read(entry.path())?;
                found.push((
                    format!("{part}/{name}").trim_start_matches('/').to_owned(),
                    String::from_utf8_lossy(&content).into_owned(),
                ));
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn an_expression_is_met_as_spdx_says() {
        let allowed = ["MIT", "OFL-1.1", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for met in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(GPL-3.0 OR MIT) AND OFL-1.1",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(is_allowed(met, &allowed), "{met}");
        }
        for unmet in
            ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR GPL-3.0) AND GPL-3.0", "MIT GPL-3.0", "Apache-2.0"]
        {
            assert!(!is_allowed(unmet, &allowed), "{unmet}");
        }
    }
}
