//! `mcp install` and `skill install` write what clients read, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// A home and a project in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.project()).unwrap();
        place
    }

    fn project(&self) -> PathBuf {
        self.0.path().join("project")
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vramscope"));
        command.args(args).env("HOME", self.0.path()).current_dir(self.project()).stdin(Stdio::null());
        command.output().unwrap()
    }

    fn does(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.path().join(path)).unwrap()
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.read(path)).unwrap()
    }

    /// Every file below the home, by its path.
    fn files(&self) -> Vec<String> {
        fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { walk(&path, files) } else { files.push(path) }
            }
        }
        let mut files = Vec::new();
        walk(self.0.path(), &mut files);
        let mut names: Vec<_> = files
            .iter()
            .map(|path| path.strip_prefix(self.0.path()).unwrap().display().to_string())
            .collect();
        names.sort();
        names
    }
}

const CLIENTS: [&str; 4] =
    [".codex/config.toml", "project/.cursor/mcp.json", "project/.mcp.json", "project/.vscode/mcp.json"];

#[test]
fn every_client_gets_the_server_and_keeps_what_it_has() {
    let place = Place::new();
    fs::create_dir(place.0.path().join(".codex")).unwrap();
    fs::write(
        place.0.path().join(".codex/config.toml"),
        "model = \"other\"\n\n[mcp_servers.docs]\ncommand = \"docs\"\n",
    )
    .unwrap();
    fs::write(place.project().join(".mcp.json"), r#"{"mcpServers": {"docs": {"command": "docs"}}}"#).unwrap();
    place.does(&["mcp", "install", "--yes", "--root", "runs"]);
    assert_eq!(place.files(), CLIENTS);

    let server = json!({"command": "vramscope", "args": ["mcp", "--root", "runs"]});
    let claude = place.json("project/.mcp.json");
    assert_eq!(
        (&claude["mcpServers"]["vramscope"], &claude["mcpServers"]["docs"]["command"]),
        (&server, &json!("docs"))
    );
    assert_eq!(place.json("project/.cursor/mcp.json")["mcpServers"]["vramscope"], server);
    let vscode = place.json("project/.vscode/mcp.json");
    assert_eq!(
        vscode["servers"]["vramscope"],
        json!({"type": "stdio", "command": "vramscope", "args": ["mcp", "--root", "runs"]})
    );
    let codex: toml::Table = place.read(".codex/config.toml").parse().unwrap();
    assert_eq!(codex["model"].as_str(), Some("other"));
    assert_eq!(codex["mcp_servers"]["docs"]["command"].as_str(), Some("docs"));
    let args = codex["mcp_servers"]["vramscope"]["args"].as_array().unwrap();
    assert_eq!(args.iter().map(|arg| arg.as_str().unwrap()).collect::<Vec<_>>(), ["mcp", "--root", "runs"]);

    // Once more changes nothing.
    let before = CLIENTS.map(|path| place.read(path));
    let said = place.does(&["mcp", "install", "--yes", "--root", "runs"]);
    assert_eq!(said.matches("has it already").count(), 4, "{said}");
    assert_eq!(CLIENTS.map(|path| place.read(path)), before);
}

#[test]
fn nothing_is_written_without_consent() {
    let place = Place::new();
    let printed = place.does(&["mcp", "install", "--print"]);
    assert!(printed.contains("\"mcpServers\"") && printed.contains("[mcp_servers.vramscope]"), "{printed}");
    let refused = place.run(&["mcp", "install"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--yes"));
    fs::write(place.project().join(".mcp.json"), "{ // a comment\n}").unwrap();
    let odd = place.run(&["mcp", "install", "--yes", "--client", "claude-code"]);
    assert_eq!(odd.status.code(), Some(2));
    assert_eq!(place.files(), ["project/.mcp.json"]);
    assert_eq!(place.read("project/.mcp.json"), "{ // a comment\n}");
}

#[test]
fn a_skill_is_a_folder_that_agents_find() {
    let place = Place::new();
    place.does(&["skill", "install"]);
    let folder = "project/.claude/skills/gpu-memory";
    let text = place.read(&format!("{folder}/SKILL.md"));
    let mut parts = text.split("---\n");
    assert_eq!(parts.next(), Some(""));
    let head = parts.next().unwrap();
    assert!(head.lines().any(|line| line == "name: gpu-memory"), "the name is that of the folder: {head}");
    assert!(head.lines().any(|line| line.starts_with("description: ") && line.len() > 40), "{head}");
    // Every reference that it names is there, and the other way round.
    let mut files = place.files();
    files.retain(|path| path.contains("/references/"));
    assert!(files.len() >= 3);
    for path in &files {
        let name = path.strip_prefix(&format!("{folder}/")).unwrap();
        assert!(text.contains(name), "{name} is named");
    }
    assert!(text.matches("](references/").count() >= files.len());

    // What the user has changed stays, unless --force says otherwise.
    fs::write(place.0.path().join(folder).join("SKILL.md"), "mine").unwrap();
    assert_eq!(place.run(&["skill", "install"]).status.code(), Some(2));
    assert_eq!(place.read(&format!("{folder}/SKILL.md")), "mine");
    place.does(&["skill", "install", "--force"]);
    assert_eq!(place.read(&format!("{folder}/SKILL.md")), text);
    let elsewhere = place.0.path().join(".claude/skills");
    place.does(&["skill", "install", elsewhere.to_str().unwrap()]);
    assert_eq!(place.read(".claude/skills/gpu-memory/SKILL.md"), text);
}
