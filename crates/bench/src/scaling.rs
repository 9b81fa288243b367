//! The scaling test of the command line with larger inputs, and with the optimized program.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use vramscope_testkit::scale::Scale;
use vramscope_testkit::shapes::SHAPES;
use vramscope_testkit::verbs::VERBS;

use crate::process;

#[derive(Args)]
pub(crate) struct ScaleArgs {
    /// Events of the smaller input; the larger one has four times as many
    #[arg(long, default_value_t = 50_000)]
    n: u64,
    /// Only shapes whose name contains this
    #[arg(long, default_value = "")]
    shape: String,
    /// Only verbs that contain this
    #[arg(long, default_value = "")]
    verb: String,
    /// The program; without it the one that is built for this, optimized
    #[arg(long)]
    bin: Option<PathBuf>,
}

/// The optimized program, built unless one is named.
pub(crate) fn program(named: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(named) = named {
        return named.canonicalize().with_context(|| named.display().to_string());
    }
    process::run(&mut process::cargo(&["build", "--locked", "--release", "--package", "vramscope"]))?;
    Ok(process::root().join("target/release/vramscope"))
}

pub(crate) fn run(args: &ScaleArgs) -> anyhow::Result<()> {
    let program = program(args.bin.as_ref())?;
    let folder = tempfile::tempdir()?;
    let scale = Scale { program: &program, folder: folder.path(), n: args.n };
    let is_asked = |verb: &&&[&str]| verb.join(" ").contains(&args.verb);
    let verbs: Vec<&[&str]> = VERBS.iter().filter(is_asked).copied().collect();
    let mut wrong = 0;
    for shape in SHAPES.iter().filter(|shape| shape.name.contains(&args.shape)) {
        let faults = scale.check(shape, &verbs);
        println!("{:50} {}", shape.name, if faults.is_empty() { "grows as its input does" } else { "" });
        for fault in &faults {
            println!("    {fault}");
        }
        wrong += faults.len();
    }
    if wrong > 0 {
        bail!("{wrong} answers grow faster than their input");
    }
    Ok(())
}
