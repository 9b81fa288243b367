//! The tools: their schemas, and the command line that each call stands for.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Map, Value, json};

/// The folders that may be read.
#[derive(Clone, Debug)]
pub(super) struct Roots(Vec<PathBuf>);

impl Roots {
    pub(super) fn new(named: &[PathBuf]) -> anyhow::Result<Self> {
        let named = if named.is_empty() { vec![PathBuf::from(".")] } else { named.to_vec() };
        let whole = |path: &PathBuf| fs::canonicalize(path).with_context(|| path.display().to_string());
        Ok(Self(named.iter().map(whole).collect::<anyhow::Result<_>>()?))
    }

    /// A path that a client names, if it lies below a root, links followed. Relative paths are below the first root.
    /// Links in a folder need no look: reading it does not follow them out of it.
    pub(super) fn allow(&self, path: &str) -> Result<PathBuf, String> {
        let refuse = || {
            let roots: Vec<_> = self.0.iter().map(|root| root.display().to_string()).collect();
            format!("{path}: only files below {} may be read", roots.join(", "))
        };
        let first = self.0.first().ok_or_else(refuse)?;
        let whole = fs::canonicalize(first.join(path)).map_err(|error| format!("{path}: {error}"))?;
        let is_below = |path: &Path| self.0.iter().any(|root| path.starts_with(root));
        if !is_below(&whole) {
            return Err(refuse());
        }
        Ok(whole)
    }

    /// Snapshots that lie directly in the roots, by their names; the first ones.
    #[cfg(feature = "mcp")]
    pub(super) fn snapshots(&self, most: usize) -> Vec<PathBuf> {
        let is_snapshot = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            path.is_file() && name.contains(".pickle")
        };
        let entries = self.0.iter().filter_map(|root| fs::read_dir(root).ok()).flatten().flatten();
        let mut found: Vec<_> = entries.map(|entry| entry.path()).filter(is_snapshot).collect();
        found.sort();
        found.truncate(most);
        found
    }
}

/// A tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    properties: Value,
    required: &'static [&'static str],
}

impl Tool {
    /// The schema of its arguments.
    pub(super) fn schema(&self) -> Map<String, Value> {
        let mut properties = self.properties.clone();
        properties["budget"] =
            json!({"type": "integer", "description": "Tokens of the answer (default 1500)"});
        let schema = json!({
            "type": "object",
            "properties": properties,
            "required": self.required,
            "additionalProperties": false,
        });
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({"name": self.name, "description": self.about, "inputSchema": self.schema()})
    }
}

/// Verbs of `ask`.
const VERBS: &[&str] = &[
    "summary",
    "steps",
    "top",
    "at",
    "tree",
    "categories",
    "modules",
    "phases",
    "fragmentation",
    "segments",
    "pools",
    "lives",
    "minimum",
    "overlap",
    "events",
    "ranks",
    "tune",
];

/// Options of `ask`: none that writes, or that reads another file.
const OPTIONS: &[&str] = &[
    "action",
    "address",
    "at",
    "by",
    "capacity",
    "category",
    "depth",
    "device",
    "end",
    "event",
    "hide-internal",
    "in",
    "invert",
    "lifetime",
    "limit",
    "max-size",
    "min",
    "min-size",
    "number",
    "of",
    "oom",
    "peak",
    "phase",
    "pool",
    "request",
    "samples",
    "since",
    "skip",
    "stack",
    "start",
    "stream",
    "until",
];

/// Every tool.
pub(super) fn all() -> Vec<Tool> {
    let path = json!({"type": "string", "description": "Snapshot file"});
    let texts = |about: &str| json!({"type": "array", "items": {"type": "string"}, "description": about});
    let tool = |name, about, properties, required| Tool { name, about, properties, required };
    vec![
        tool(
            "doctor",
            "Start here. What a PyTorch memory snapshot can tell (verdict, stacks, segments, times, steps) and which tools help.",
            json!({"path": path}),
            &["path"],
        ),
        tool(
            "insights",
            "What looks wrong in a snapshot, or in a folder of ranks: leaks, out of memory, fragmentation, churn; each with line, evidence and advice.",
            json!({"path": {"type": "string", "description": "Snapshot file, or a folder of ranks"}}),
            &["path"],
        ),
        tool(
            "oom",
            "Why memory ran out: line and pool that asked, limit, what was free, lack or fragmentation, what would have helped (simulated).",
            json!({"path": path, "number": {"type": "integer", "description": "Which error, from 1; default the last"}}),
            &["path"],
        ),
        tool(
            "churn",
            "Segments acquired from the driver and released, by step and line, with the time that may have cost.",
            json!({"path": path}),
            &["path"],
        ),
        tool(
            "show",
            "One thing whole, by a handle that other answers print: e:1832 event, a:307 allocation, s:44 stack, g:7f00 segment, f:growth-1 finding, train.py:88 line.",
            json!({
                "handle": {"type": "string"},
                "path": path,
                "at": {"type": "string", "description": "Moment: peak, oom, end, e:1832, in:backward#2"},
            }),
            &["handle", "path"],
        ),
        tool(
            "diff",
            "What grew between two snapshots, by line, stack or category.",
            json!({
                "before": {"type": "string"},
                "after": {"type": "string"},
                "by": {"type": "string", "enum": ["line", "stack", "category"]},
            }),
            &["before", "after"],
        ),
        tool(
            "whatif",
            "The same requests under other allocator settings or changes of the program, simulated: proves a fix before it is made.",
            json!({
                "path": path,
                "set": texts("Settings as in PYTORCH_CUDA_ALLOC_CONF"),
                "without": texts("Memory never asked for: FILE:LINE, category:NAME or a regex"),
                "free_early": texts("Memory freed right after its last use: FILE:LINE"),
                "scale": texts("Memory scaled: FILE:LINE=0.5"),
                "limit": {"type": "string", "description": "Bytes the process may hold, e.g. 40GiB, or none"},
            }),
            &["path"],
        ),
        tool(
            "ask",
            "Any other question: steps (growth), top (lines), categories (what for), modules, fragmentation, segments, pools, at (a moment), tree, phases, lives, events, ranks (folder), tune.",
            json!({
                "verb": {"type": "string", "enum": VERBS},
                "path": path,
                "options": texts("As on the command line, each --name or --name=value: --at=oom, --stack=REGEX, --min-size=20MiB, --limit=30"),
            }),
            &["verb", "path"],
        ),
    ]
}

/// The command line that a call stands for, without the program. An error is for the model to read.
pub(super) fn line(roots: &Roots, name: &str, args: &Map<String, Value>) -> Result<Vec<String>, String> {
    let Some(tool) = all().into_iter().find(|tool| tool.name == name) else {
        return Err(format!("there is no tool {name:?}"));
    };
    let schema = tool.schema();
    for key in args.keys() {
        if schema["properties"].get(key).is_none() {
            return Err(format!("{name} takes no {key:?}"));
        }
    }
    let text = |key: &str| match args.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(format!("{key:?} is a text, not {other}")),
    };
    let needed = |key: &str| text(key)?.ok_or_else(|| format!("{name} needs {key:?}"));
    let number = |key: &str| match args.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(number) => Ok(Some(number.to_string())),
            None => Err(format!("{key:?} is a number, not {value}")),
        },
    };
    let list = |key: &str| match args.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => list
            .iter()
            .map(|value| {
                value.as_str().map(str::to_owned).ok_or_else(|| format!("{key:?} is a list of texts"))
            })
            .collect(),
        Some(_) => Err(format!("{key:?} is a list of texts")),
    };
    let allowed =
        |key: &str| -> Result<String, String> { Ok(roots.allow(&needed(key)?)?.display().to_string()) };
    let option = |line: &mut Vec<String>, name: &str, value: Option<String>| {
        line.extend(value.map(|value| format!("--{name}={value}")));
    };
    let verb = if name == "ask" { needed("verb")? } else { name.to_owned() };
    let mut line = vec![verb.clone()];
    match name {
        "diff" => {
            line.extend([allowed("before")?, allowed("after")?]);
            option(&mut line, "by", text("by")?);
        }
        "show" => {
            let handle = needed("handle")?;
            if handle.starts_with('-') {
                return Err(format!("{handle:?} is not a handle"));
            }
            line.extend([handle, allowed("path")?]);
            option(&mut line, "at", text("at")?);
        }
        "oom" => {
            line.push(allowed("path")?);
            option(&mut line, "number", number("number")?);
        }
        "whatif" => {
            line.push(allowed("path")?);
            for (key, name) in
                [("set", "set"), ("without", "without"), ("free_early", "free-early"), ("scale", "scale")]
            {
                list(key)?.into_iter().for_each(|value| option(&mut line, name, Some(value)));
            }
            option(&mut line, "limit", text("limit")?);
        }
        "ask" => {
            if !VERBS.contains(&verb.as_str()) {
                return Err(format!("ask takes the verbs {}", VERBS.join(", ")));
            }
            line.push(allowed("path")?);
            for word in list("options")? {
                let option = word.strip_prefix("--").map(|rest| rest.split('=').next().unwrap_or_default());
                if !option.is_some_and(|option| OPTIONS.contains(&option)) {
                    return Err(format!(
                        "{word:?} is not an option of ask: write --name=value; there are: {}",
                        OPTIONS.join(", ")
                    ));
                }
                line.push(word);
            }
        }
        _ => line.push(allowed("path")?),
    }
    option(&mut line, "budget", number("budget")?.or_else(|| Some(crate::budget::DEFAULT.to_string())));
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn schemas_are_few_and_small() {
        let list: Vec<_> = all().iter().map(Tool::json).collect();
        assert!(list.len() <= 8);
        let tokens = vramscope_format::tokens(&serde_json::to_string(&list).unwrap());
        assert!(tokens < 3000, "{tokens}");
    }

    #[test]
    fn only_files_below_the_roots_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("in"), folder.path().join("out.pickle"));
        fs::create_dir(&inside).unwrap();
        fs::write(inside.join("a.pickle"), b"").unwrap();
        fs::write(&outside, b"").unwrap();
        let roots = Roots::new(std::slice::from_ref(&inside)).unwrap();
        let ask = |path: &str| line(&roots, "doctor", &object(&json!({"path": path})));
        let whole = fs::canonicalize(inside.join("a.pickle")).unwrap().display().to_string();
        assert_eq!(ask("a.pickle").unwrap(), ["doctor", &whole, "--budget=1500"]);
        for path in ["../out.pickle", outside.to_str().unwrap(), "/etc/passwd", "-"] {
            assert!(ask(path).is_err(), "{path}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&outside, inside.join("link.pickle")).unwrap();
            assert!(ask("link.pickle").unwrap_err().contains("only files below"));
            // The folder itself may be asked about: the link in it is not followed.
            assert!(ask(".").is_ok());
        }
    }

    #[test]
    fn options_neither_write_nor_name_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.pickle"), b"").unwrap();
        let roots = Roots::new(&[folder.path().to_owned()]).unwrap();
        let ask = |option: &str| {
            line(&roots, "ask", &object(&json!({"verb": "top", "path": "a.pickle", "options": [option]})))
        };
        assert!(ask("--at=oom").unwrap().contains(&"--at=oom".to_owned()));
        for option in ["-o", "--output-file=x", "--force", "--rules=/etc/passwd", "x", "--format=svg"] {
            assert!(ask(option).is_err(), "{option}");
        }
        let verb = object(&json!({"verb": "export", "path": "a.pickle"}));
        assert!(line(&roots, "ask", &verb).is_err());
        assert!(line(&roots, "oom", &object(&json!({"path": "a.pickle", "number": "x"}))).is_err());
        assert!(line(&roots, "oom", &object(&json!({"path": "a.pickle", "more": 1}))).is_err());
    }
}
