//! `vramscope tree`: where the bytes come from.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use serde::Serialize;
use vramscope_analysis::{CallTree, Direction, Moment, Node, Place, Weight};
use vramscope_snapshot::Snapshot;

use crate::args::TreeArgs;
use crate::layout::{Cut, Keep, Piece};
use crate::subject::{Subject, answer};
use crate::{flame, text};

/// More levels than anybody reads.
const DEEPEST: usize = 400;

pub(crate) fn run(args: &TreeArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if let Some(format) = args.format {
        return flame::run(args, format, out);
    }
    if args.file.output_file.is_some() {
        bail!("-o writes a flame graph: pass --format svg, folded or speedscope");
    }
    let spec = args.weigh.moment.spec();
    answer(&args.source, Some(&spec), out, &mut |subject, at, out| {
        let weighed = subject.weights(&args.weigh, at);
        let direction = if args.invert { Direction::Inverted } else { Direction::TopDown };
        let tree =
            CallTree::new(subject.snapshot(), &weighed.weights, direction, |frame| subject.shows(frame));
        let (depth, min) = if args.source.output.json { (DEEPEST, 0.0) } else { (12, 1.0) };
        let (depth, min) = (args.depth.unwrap_or(depth), args.min.unwrap_or(min));
        let least = (tree.root().bytes as f64 * min / 100.0) as u64;
        let depth = depth.min(DEEPEST);
        let printer =
            Printer { snapshot: subject.snapshot(), tree: &tree, least, depth, inverted: args.invert };
        if args.source.output.json {
            let report = Report {
                schema: "vramscope/tree/1",
                device: subject.replay().device().0,
                event: weighed.at.and_then(Moment::event).map(|event| event.0),
                unit: if weighed.at.is_some() { "bytes" } else { "bytes*events" },
                inverted: args.invert,
                root: printer.json(0, 0),
            };
            return Ok(vramscope_files::json(out, &report)?);
        }
        match weighed.at {
            Some(at) => subject.print_moment(at, out)?,
            None => {
                let (from, to) = subject.range();
                let (from, to) =
                    (text::event(from.event(), "the start"), text::event(to.event(), "the start"));
                subject
                    .print_heading(&format!("bytes times events lived, from {from} to event {to}"), out)?;
            }
        }
        let unit = if weighed.at.is_some() { "bytes" } else { "B×events" };
        writeln!(out, "\n  {unit:>10}  {:>6}  {:>7}", "share", "count")?;
        Ok(printer.print(0, 0, out)?)
    })
}

/// The tree of a live set as text, with the usual depth.
pub(crate) fn print_live(subject: &Subject, weights: &[Weight], out: &mut dyn Write) -> std::io::Result<()> {
    let tree = CallTree::new(subject.snapshot(), weights, Direction::TopDown, |frame| subject.shows(frame));
    let least = tree.root().bytes / 100;
    writeln!(out, "  {:>10}  {:>6}  {:>7}", "bytes", "share", "count")?;
    Printer { snapshot: subject.snapshot(), tree: &tree, least, depth: 12, inverted: false }.print(0, 0, out)
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    device: i32,
    event: Option<u32>,
    unit: &'static str,
    inverted: bool,
    root: NodeJson<'a>,
}

/// A node; what was left out below it is the difference to its children.
#[derive(Serialize)]
struct NodeJson<'a> {
    name: &'a str,
    file: &'a str,
    line: u32,
    bytes: u64,
    count: u64,
    own_bytes: u64,
    children: Vec<NodeJson<'a>>,
}

struct Printer<'a> {
    snapshot: &'a Snapshot,
    tree: &'a CallTree,
    least: u64,
    depth: usize,
    inverted: bool,
}

impl Printer<'_> {
    fn json(&self, node: usize, depth: usize) -> NodeJson<'_> {
        let node = &self.tree.nodes[node];
        let (name, file, line) = match node.place {
            Place::Frame(frame) => {
                let frame = self.snapshot.stacks.frame(frame);
                (self.snapshot.text(frame.name), self.snapshot.text(frame.file), frame.line)
            }
            other => (other.words_in(self.snapshot).unwrap_or_default(), "", 0),
        };
        let shown = if depth < self.depth { self.shown(node) } else { &[] };
        NodeJson {
            name,
            file,
            line,
            bytes: node.bytes,
            count: node.count,
            own_bytes: self.tree.own_bytes(node),
            children: shown.iter().map(|&child| self.json(child, depth + 1)).collect(),
        }
    }

    /// Children that weigh enough: the first ones, since the heaviest come first.
    fn shown<'a>(&self, node: &'a Node) -> &'a [usize] {
        let count =
            node.children.iter().take_while(|&&child| self.tree.nodes[child].bytes >= self.least).count();
        node.children.get(..count).unwrap_or_default()
    }

    fn print(&self, node: usize, depth: usize, out: &mut dyn Write) -> std::io::Result<()> {
        let chain = self.tree.chain(node);
        let (first, last) = (&self.tree.nodes[node], &self.tree.nodes[*chain.last().unwrap_or(&node)]);
        let names: Vec<_> = chain.iter().map(|&node| self.name(self.tree.nodes[node].place)).collect();
        self.row(first.bytes, Some(first.count), depth, &names.join(" › "), out)?;
        if last.children.is_empty() {
            return Ok(());
        }
        let shown = if depth < self.depth { self.shown(last) } else { &[] };
        for &child in shown {
            self.print(child, depth + 1, out)?;
        }
        let own = self.tree.own_bytes(last);
        if own > 0 {
            self.row(own, None, depth + 1, "(here)", out)?;
        }
        let hidden = last.children.get(shown.len()..).unwrap_or_default();
        if !hidden.is_empty() {
            let bytes =
                hidden.iter().fold(0_u64, |sum, &child| sum.saturating_add(self.tree.nodes[child].bytes));
            let count = hidden.iter().map(|&child| self.tree.nodes[child].count).sum();
            self.row(
                bytes,
                Some(count),
                depth + 1,
                &format!("({} more)", text::count(hidden.len() as u64)),
                out,
            )?;
        }
        Ok(())
    }

    fn row(
        &self,
        bytes: u64,
        count: Option<u64>,
        depth: usize,
        name: &str,
        out: &mut dyn Write,
    ) -> std::io::Result<()> {
        let share = bytes as f64 / self.tree.root().bytes.max(1) as f64 * 100.0;
        let count = count.map(text::count).unwrap_or_default();
        let shown = text::size(bytes);
        // Inverted, the innermost frame comes first in a chain: the outer end goes.
        let keep = if self.inverted { Keep::Begin } else { Keep::End };
        // Deeper calls share the last column: a stack of thousands of frames must not push itself off the screen.
        let name = Piece::Cut(Cut { text: name.into(), taken: 32, least: 16, depth, keep });
        writeln!(out, "  {shown:>10}  {share:>5.1}%  {count:>7}  {}", name.print())
    }

    fn name(&self, place: Place) -> String {
        match place {
            Place::Frame(frame) => text::frame(self.snapshot, self.snapshot.stacks.frame(frame)),
            other => other.words_in(self.snapshot).unwrap_or_default().to_owned(),
        }
    }
}
