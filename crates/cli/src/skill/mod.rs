//! `vramscope skill install`: a folder that teaches a coding agent how to use vramscope.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use vramscope_files::Existing;

/// Files of the skill, below its folder.
const FILES: [(&str, &str); 4] = [
    ("SKILL.md", include_str!("SKILL.md")),
    ("references/recording.md", include_str!("references/recording.md")),
    ("references/causes.md", include_str!("references/causes.md")),
    ("references/proof.md", include_str!("references/proof.md")),
];

/// The folder that agents of this project look into.
const FOLDER: &str = ".claude/skills";

/// A skill for coding agents: when to use vramscope, the method, what not to conclude
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope skill install                       # into .claude/skills/gpu-memory
  vramscope skill install ~/.claude/skills      # for all projects")]
pub(crate) struct SkillArgs {
    #[command(subcommand)]
    command: SkillCommand,
}

#[derive(Debug, Subcommand)]
enum SkillCommand {
    /// Write the skill's folder
    Install {
        /// Where skills are
        #[arg(value_name = "DIR", default_value = FOLDER)]
        folder: PathBuf,
        /// Overwrite files that exist
        #[arg(long)]
        force: bool,
    },
}

pub(crate) fn run(args: &SkillArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let SkillCommand::Install { folder, force } = &args.command;
    let existing = if *force { Existing::Replace } else { Existing::Keep };
    for (name, text) in FILES {
        let path = folder.join("gpu-memory").join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        }
        vramscope_files::write(&path, existing, &[], |file| anyhow::Ok(file.write_all(text.as_bytes())?))?;
        writeln!(out, "{}", path.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::FILES;
    use crate::args::Args;

    #[test]
    fn it_names_commands_that_exist_and_files_that_are_there() {
        let command = Args::command();
        for (name, text) in FILES {
            assert!(vramscope_format::tokens(text) < 1500, "{name}");
            for rest in text.split("`vramscope ").skip(1).chain(text.split("    vramscope ").skip(1)) {
                let verb = rest.split([' ', '`', '\n']).next().unwrap();
                assert!(command.find_subcommand(verb).is_some(), "{name}: {verb}");
            }
            for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                assert!(FILES.iter().any(|(file, _)| *file == link), "{name}: {link}");
            }
        }
    }
}
