//! `vramscope modules`: whose memory it is, by module of the model.

use std::cmp::Reverse;
use std::io::Write;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Serialize;
use vramscope_analysis::{Held, KnownBy, ModuleNode, ModulesBy, State, module_tree};

use crate::args::{MomentArgs, Source};
use crate::style::{self, Role};
use crate::subject::{Subject, answer};
use crate::table::Table;
use crate::text;

/// Whose memory: by module of the model, by class of module, or by function
///
/// Modules come from `user_metadata` that names their paths. Without it, layers are inferred from the order of the forward
/// pass. What the backward pass allocates counts to the module whose saved tensors it frees next.
#[derive(Debug, Args)]
#[command(after_help = "To record paths, set them in forward hooks:
  def before(module, args): torch.cuda.memory._set_memory_metadata(names[module])
  for module in model.modules(): module.register_forward_pre_hook(before)

Examples:
  vramscope modules snapshot.pickle
  vramscope modules snapshot.pickle --by class --at in:backward
  vramscope modules snapshot.pickle --json | jq '.modules[] | select(.depth < 2) | [.path, .activations]'")]
pub(crate) struct ModulesArgs {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    moment: MomentArgs,
    /// What memory is grouped by
    #[arg(long, value_enum, default_value_t = By::Module)]
    by: By,
    /// Show modules down to this depth
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Each module
    Module,
    /// Modules of one class: LlamaMLP, or model.layers.*.mlp where the file names no classes
    Class,
    /// Functions of your own source
    Function,
}

impl From<By> for ModulesBy {
    fn from(by: By) -> Self {
        match by {
            By::Module => Self::Module,
            By::Class => Self::Class,
            By::Function => Self::Function,
        }
    }
}

/// Levels of the tree that are printed where nobody asked for a number.
const DEFAULT_DEPTH: u32 = 4;

pub(crate) fn run(args: &ModulesArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    answer(&args.source, Some(&args.moment.spec()), out, &mut |subject, at, out| {
        let replay = subject.replay();
        let conclusions = subject.conclusions();
        let state = replay.state(at);
        let keep = |index, allocation: &_| subject.keeps(index, allocation);
        let known = (!subject.is_filtered()).then(|| replay.module_peaks());
        let by = (args.by.into(), known.as_deref());
        let (nodes, outside) = module_tree(replay, &conclusions, &state, by, keep);
        let known_by = match args.by {
            By::Function => KnownBy::Recorded,
            By::Module | By::Class => conclusions.modules().known_by(),
        };
        let answer = Answer { subject, state: &state, nodes: &nodes, outside, by: args.by, known_by };
        if args.source.output.json {
            return Ok(vramscope_files::json(out, &answer.json(args.depth.unwrap_or(u32::MAX)))?);
        }
        Ok(answer.print(args.depth.unwrap_or(DEFAULT_DEPTH), out)?)
    })
}

struct Answer<'a> {
    subject: &'a Subject,
    state: &'a State,
    nodes: &'a [ModuleNode],
    outside: Held,
    by: By,
    known_by: KnownBy,
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    device: i32,
    event: Option<u32>,
    requested: i64,
    by: ModulesBy,
    known_by: KnownBy,
    modules: Vec<ModuleJson<'a>>,
    outside: HeldJson,
}

#[derive(Serialize)]
struct ModuleJson<'a> {
    path: &'a str,
    depth: u32,
    #[serde(flatten)]
    all: HeldJson,
    own: u64,
    peak: i64,
    peak_event: Option<u32>,
}

impl<'a> From<&'a ModuleNode> for ModuleJson<'a> {
    fn from(node: &'a ModuleNode) -> Self {
        Self {
            path: &node.path,
            depth: node.depth,
            all: node.all.into(),
            own: node.own.requested,
            peak: node.peak,
            peak_event: node.peak_at.event().map(|event| event.0),
        }
    }
}

#[derive(Serialize)]
struct HeldJson {
    requested: u64,
    count: u64,
    activations: u64,
    backward: u64,
}

impl From<Held> for HeldJson {
    fn from(Held { requested, count, activations, backward }: Held) -> Self {
        Self { requested, count, activations, backward }
    }
}

impl Answer<'_> {
    fn json(&self, depth: u32) -> Report<'_> {
        Report {
            schema: "vramscope/modules/1",
            device: self.subject.replay().device().0,
            event: self.state.at.event().map(|event| event.0),
            requested: self.state.counters.requested,
            by: self.by.into(),
            known_by: self.known_by,
            modules: self.nodes.iter().filter(|node| node.depth < depth).map(ModuleJson::from).collect(),
            outside: self.outside.into(),
        }
    }

    fn print(&self, depth: u32, out: &mut dyn Write) -> std::io::Result<()> {
        self.subject.print_moment(self.state.at, out)?;
        if self.nodes.is_empty() {
            return writeln!(
                out,
                "\n  no modules: the file names none in user_metadata, and no line of the model calls layers in a loop"
            );
        }
        if self.known_by == KnownBy::Likely {
            let has_roles =
                self.subject.snapshot().sidecar.as_ref().is_some_and(|sidecar| !sidecar.storages.is_empty());
            let words = match has_roles {
                true => {
                    "tensors of the model are recorded; layers of the rest are inferred from the forward pass"
                }
                false => "layers are inferred from the order of the forward pass, numbered from 0",
            };
            writeln!(out, "  {}", style::paint(Role::Warning, words))?;
        }
        writeln!(out)?;
        let mut table = Table::new(match self.by {
            By::Module => "module",
            By::Class => "class of module",
            By::Function => "function",
        })
        .column("requested")
        .column("activations")
        .column("backward")
        .column("peak")
        .optional("allocations", 1);
        let row = |held: Held, peak: Option<i64>| {
            [
                text::size(held.requested),
                text::size(held.activations),
                text::size(held.backward),
                peak.map_or_else(String::new, text::bytes),
                text::count(held.count),
            ]
        };
        let mut shown: Vec<&ModuleNode> = self.nodes.iter().filter(|node| node.depth < depth).collect();
        if self.by == By::Class {
            shown.sort_by_key(|node| (Reverse(node.all.requested), Reverse(node.peak)));
        }
        for node in shown {
            let name = format!("{}{}", "  ".repeat(node.depth as usize), text::printable(&node.name));
            table.row(row(node.all, Some(node.peak)), name);
        }
        table.row(row(self.outside, None), "outside of modules");
        table.print(out)?;
        let words =
            "activations: kept for the backward pass; backward: made by it for the module, beside requested";
        writeln!(out, "\n  {}", style::paint(Role::Dim, words))
    }
}
