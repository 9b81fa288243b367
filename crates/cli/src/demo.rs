//! The recording that is built in.

use std::io::Write;
use std::process::ExitCode;

use crate::args::DemoArgs;
use crate::summary;

/// A batch size that doubles until the device is full, dumped when memory ran out.
const RECORDING: &[u8] = include_bytes!("../../../testdata/recordings/oom.pickle.xz");

pub(crate) fn run(args: &DemoArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let opened = vramscope_files::open_bytes("demo.pickle.xz", RECORDING)?;
    let file = summary::File::new(opened, &args.filter)?;
    summary::print(&[file], args.output.json, out)?;
    Ok(ExitCode::SUCCESS)
}
