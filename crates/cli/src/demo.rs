//! The recording that is built in.

use std::io::Write;
use std::process::ExitCode;

use crate::args::DemoArgs;
use crate::{output, summary};

/// A batch size that doubles until the device is full, dumped when memory ran out.
const RECORDING: &[u8] = include_bytes!("../../../testdata/recordings/oom.pickle.xz");

/// What the recording is called.
const NAME: &str = "demo.pickle.xz";

pub(crate) fn run(args: &DemoArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if args.file.output_file.is_some() {
        output::write_to(&args.file, &[], out, |out| Ok(out.write_all(RECORDING)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    let opened = vramscope_files::open_bytes(NAME, RECORDING)?;
    let file = summary::File::new(opened, &args.filter)?;
    summary::print(&[file], args.output.json, out)?;
    if !args.output.json {
        writeln!(out, "\nTo try other commands on this recording: vramscope demo -o {NAME}")?;
    }
    Ok(ExitCode::SUCCESS)
}
