//! The recording that is built in.

use std::io::Write;
use std::process::ExitCode;

use vramscope_engine::DEMO;

use crate::args::DemoArgs;
use crate::{output, summary};

/// What the recording is called.
const NAME: &str = "demo.pickle.xz";

pub(crate) fn run(args: &DemoArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if args.file.output_file.is_some() {
        output::write_to(&args.file, &[], out, |out| Ok(out.write_all(DEMO)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    let opened = vramscope_files::open_bytes(NAME, DEMO)?;
    let file = summary::File::new(opened, &args.filter)?;
    summary::print(&[file], args.output.json, out)?;
    if !args.output.json {
        writeln!(out, "\nTo try other commands on this recording: vramscope demo -o {NAME}")?;
    }
    Ok(ExitCode::SUCCESS)
}
