//! `vramscope shapes`: byte counts as tensors of a model.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use vramscope_analysis::shapes::{Clues, Dims, Hint, Kind, SHOWN, Shapes};
use vramscope_format::parse_bytes;

use crate::text;

/// Which shapes and dtypes of a model match a size in bytes
///
/// Give requested bytes, as `at` and `top` show them, not rounded ones. Dimensions come from a Hugging Face
/// config.json, from --dims, or from both; batch and seq are never in a config.json.
#[derive(Debug, Args)]
#[command(after_help = "\
Dimensions: hidden, intermediate, vocab, heads, kv, head_dim, layers, experts, expert_intermediate, batch, seq, tp.

Examples:
  vramscope shapes 112MiB 67108864 --dims hidden=4096,intermediate=14336,heads=32,kv=8,batch=4,seq=2048
  vramscope shapes 1050673152 --config config.json --dims batch=4,seq=2048 --json
  vramscope shapes 64MiB --config config.json --stack 'adam.py step'    # where it is allocated helps")]
pub(crate) struct ShapesArgs {
    /// Sizes in bytes, or with a unit
    #[arg(required = true, value_name = "BYTES", value_parser = parse_bytes)]
    sizes: Vec<u64>,
    #[command(flatten)]
    model: ModelArgs,
    /// Names of files and functions that allocate it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    stack: String,
    /// Show explanations of little confidence too
    #[arg(long)]
    all: bool,
    /// Print JSON, described in docs/json.md
    #[arg(long)]
    json: bool,
}

/// What is known of the model.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Dimensions of the model and the run, e.g. hidden=4096,batch=4: they explain sizes as tensors
    #[arg(long, value_name = "DIMS")]
    dims: Option<String>,
    /// The model's config.json
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ModelArgs {
    /// The dimensions; the default if none is given.
    pub(crate) fn dims(&self) -> anyhow::Result<Dims> {
        let mut dims = match &self.config {
            None => Dims::default(),
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
                Dims::from_config(&text).with_context(|| path.display().to_string())?
            }
        };
        dims.set_flags(self.dims.as_deref().unwrap_or_default())?;
        Ok(dims)
    }
}

pub(crate) fn run(args: &ShapesArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let dims = args.model.dims()?;
    if dims == Dims::default() {
        bail!("no dimension is given: try --dims hidden=4096,batch=4,seq=2048");
    }
    let (shapes, clues) = (Shapes::new(&dims), Clues::of_text(&args.stack));
    let mut sizes = Vec::new();
    for &bytes in &args.sizes {
        let mut hints = shapes.hints(bytes, &clues);
        let all = hints.len();
        hints.retain(|hint| args.all || hint.confidence >= SHOWN);
        sizes.push((bytes, all - hints.len(), hints));
    }
    if args.json {
        let mut report = Report { schema: "vramscope/shapes/1", sizes: Vec::new() };
        for (bytes, weaker, hints) in &sizes {
            let hints = hints.iter().map(HintJson::new).collect();
            report.sizes.push(SizeJson { bytes: *bytes, weaker: *weaker, hints });
        }
        vramscope_files::json(&mut *out, &report)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (number, (bytes, weaker, hints)) in sizes.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        let short = text::bytes(i64::try_from(*bytes).unwrap_or(i64::MAX));
        writeln!(out, "{short}  ({} bytes)", text::count(*bytes))?;
        for hint in hints {
            let percent = format!("{:.0}%", hint.confidence * 100.0);
            let shape = format!("{:?}", hint.shape);
            writeln!(
                out,
                "  {percent:>4}  {:9}  {shape:22}  {}: {}",
                hint.dtype.name(),
                hint.what,
                hint.names
            )?;
        }
        match (hints.is_empty(), *weaker) {
            (true, 0) => writeln!(out, "  no tensor of such a model")?,
            (_, 0) => {}
            (_, n) => {
                let more = text::plural(n, "explanation");
                writeln!(out, "  {more} of little confidence; --all shows them")?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    sizes: Vec<SizeJson<'a>>,
}

#[derive(Serialize)]
struct SizeJson<'a> {
    bytes: u64,
    weaker: usize,
    hints: Vec<HintJson<'a>>,
}

#[derive(Serialize)]
struct HintJson<'a> {
    shape: &'a [u64],
    names: &'a str,
    what: &'static str,
    kind: &'static str,
    dtype: &'static str,
    confidence: f64,
}

impl<'a> HintJson<'a> {
    fn new(hint: &'a Hint) -> Self {
        Self {
            shape: &hint.shape,
            names: &hint.names,
            what: hint.what,
            kind: match hint.kind {
                Kind::Weight => "weight",
                Kind::Activation => "activation",
                Kind::Cache => "KV cache",
                Kind::Index => "index",
            },
            dtype: hint.dtype.name(),
            // As people read it: two decimals.
            confidence: f64::from((hint.confidence * 100.0).round()) / 100.0,
        }
    }
}
