//! `vramscope guide`: how to go from a file to a cause, on one page.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;

/// How to go from a file to a cause, on one page; written for coding agents
#[derive(Debug, Args)]
pub(crate) struct GuideArgs {}

/// The page.
pub(crate) const GUIDE: &str = include_str!("guide.txt");

pub(crate) fn run(out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    out.write_all(GUIDE.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::GUIDE;
    use crate::args::Args;

    #[test]
    fn it_is_short_and_names_commands_that_exist() {
        assert!(vramscope_format::tokens(GUIDE) < 1200, "{}", vramscope_format::tokens(GUIDE));
        let command = Args::command();
        let named = GUIDE.split("vramscope ").skip(1).filter_map(|rest| rest.split_whitespace().next());
        for verb in named.filter(|word| word.chars().all(char::is_alphabetic)) {
            assert!(command.find_subcommand(verb).is_some(), "{verb}");
        }
    }
}
