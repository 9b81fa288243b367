//! `vramscope mcp install`: the server in the configuration of the clients that people use.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use vramscope_files::Existing;

/// Write the server into the configuration of coding agents; asks first
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope mcp install --print
  vramscope mcp install --client claude-code --client cursor --root runs/")]
pub(super) struct InstallArgs {
    /// For which clients (default: all)
    #[arg(long = "client", value_name = "CLIENT", value_enum)]
    clients: Vec<Client>,
    /// Folders that the server may read (default: the folder that it is started in)
    #[arg(long = "root", value_name = "DIR")]
    roots: Vec<String>,
    /// Print what would be written, and write nothing
    #[arg(long)]
    print: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Client {
    /// .mcp.json in the current folder
    ClaudeCode,
    /// ~/.codex/config.toml
    Codex,
    /// .cursor/mcp.json in the current folder
    Cursor,
    /// .vscode/mcp.json in the current folder
    Vscode,
}

impl Client {
    fn file(self) -> anyhow::Result<PathBuf> {
        Ok(match self {
            Self::ClaudeCode => PathBuf::from(".mcp.json"),
            Self::Cursor => PathBuf::from(".cursor/mcp.json"),
            Self::Vscode => PathBuf::from(".vscode/mcp.json"),
            Self::Codex => {
                let home = std::env::home_dir().context("there is no home folder for .codex/config.toml")?;
                home.join(".codex/config.toml")
            }
        })
    }

    /// The file with the server in it; nothing if it is there already.
    fn with_server(self, before: &str, roots: &[String]) -> anyhow::Result<Option<String>> {
        let mut words = vec!["mcp".to_owned()];
        words.extend(roots.iter().flat_map(|root| ["--root".to_owned(), root.clone()]));
        match self {
            Self::Codex => {
                if before.lines().any(|line| line.trim() == "[mcp_servers.vramscope]") {
                    return Ok(None);
                }
                let words = serde_json::to_string(&words)?;
                let gap = if before.is_empty() { "" } else { "\n" };
                let end = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
                Ok(Some(format!(
                    "{before}{end}{gap}[mcp_servers.vramscope]\ncommand = \"vramscope\"\nargs = {words}\n"
                )))
            }
            Self::ClaudeCode | Self::Cursor | Self::Vscode => {
                let key = if self == Self::Vscode { "servers" } else { "mcpServers" };
                let mut file: Map<String, Value> = match before.trim().is_empty() {
                    true => Map::new(),
                    false => serde_json::from_str(before)
                        .context("not plain JSON: add the server by hand, --print shows it")?,
                };
                let servers = file.entry(key).or_insert_with(|| json!({}));
                let servers = servers.as_object_mut().with_context(|| format!("{key:?} is not an object"))?;
                let mut server = json!({"command": "vramscope", "args": words});
                if self == Self::Vscode {
                    server["type"] = "stdio".into();
                }
                if servers.get("vramscope") == Some(&server) {
                    return Ok(None);
                }
                servers.insert("vramscope".to_owned(), server);
                Ok(Some(serde_json::to_string_pretty(&file)? + "\n"))
            }
        }
    }
}

pub(super) fn run(args: &InstallArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let clients = if args.clients.is_empty() { Client::value_variants() } else { &args.clients };
    for client in clients {
        let path = client.file()?;
        let before = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        // What is shown stands alone, whatever the file has.
        if args.print {
            let alone = client.with_server("", &args.roots)?.unwrap_or_default();
            writeln!(out, "# {}\n{alone}", path.display())?;
            continue;
        }
        let Some(after) =
            client.with_server(&before, &args.roots).with_context(|| path.display().to_string())?
        else {
            writeln!(out, "{} has it already", path.display())?;
            continue;
        };
        if args.yes || agrees(&path, &after, out)? {
            write(&path, &after)?;
            writeln!(out, "{} written", path.display())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the file as it would be, and asks.
fn agrees(path: &Path, after: &str, out: &mut dyn Write) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("{}: nobody to ask; --yes writes it, --print shows it", path.display());
    }
    write!(out, "{} will be:\n{after}\nWrite it? [y/N] ", path.display())?;
    out.flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    vramscope_files::write(path, Existing::Replace, &[], |out| Ok(out.write_all(text.as_bytes())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_stays() {
        let before = r#"{"mcpServers": {"other": {"command": "x"}}, "more": 1}"#;
        let after = Client::Cursor.with_server(before, &["runs".to_owned()]).unwrap().unwrap();
        let value: Value = serde_json::from_str(&after).unwrap();
        assert_eq!(value["mcpServers"]["other"]["command"], "x");
        assert_eq!(value["mcpServers"]["vramscope"]["args"], json!(["mcp", "--root", "runs"]));
        assert_eq!(value["more"], 1);
        assert_eq!(Client::Cursor.with_server(&after, &["runs".to_owned()]).unwrap(), None);
        assert!(Client::Vscode.with_server("// a comment\n{}", &[]).is_err());
    }

    #[test]
    fn codex_gets_a_section_once() {
        let before = "model = \"x\"";
        let after = Client::Codex.with_server(before, &[]).unwrap().unwrap();
        assert_eq!(
            after,
            "model = \"x\"\n\n[mcp_servers.vramscope]\ncommand = \"vramscope\"\nargs = [\"mcp\"]\n"
        );
        assert_eq!(Client::Codex.with_server(&after, &[]).unwrap(), None);
    }
}
