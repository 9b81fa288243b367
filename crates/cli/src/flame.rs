//! `vramscope tree --format`: the call tree for other tools, or as a picture.

use std::collections::HashMap;
use std::io::Write;
use std::process::ExitCode;

use serde_json::json;
use vramscope_analysis::{CallTree, Direction, Place, no_frame};
use vramscope_format::{color, html};
use vramscope_snapshot::{FrameId, StackId};

use crate::args::{FlameFormat, Source, TreeArgs};
use crate::subject::{Subject, Weighed, one_device, open_path};
use crate::{output, text};

pub(crate) fn run(args: &TreeArgs, format: FlameFormat, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let Source { path, filter, output } = &args.source;
    let subjects = open_path(path, filter, &output.cache)?;
    let subject = one_device(&subjects)?;
    let weighed = subject.weights(&args.weigh, subject.moment(&args.weigh.moment.spec())?);
    output::write_to(&args.file, std::slice::from_ref(path), out, |out| match format {
        FlameFormat::Folded => folded(subject, &weighed, out),
        FlameFormat::Speedscope => speedscope(subject, &weighed, out),
        FlameFormat::Svg => svg(subject, &weighed, out),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The shown frames of a stack, outermost first.
fn frames(subject: &Subject, stack: StackId) -> Vec<FrameId> {
    let frames = subject.snapshot().stacks.get(stack).iter().rev().copied();
    frames.filter(|&frame| subject.shows(frame)).collect()
}

fn folded(subject: &Subject, weighed: &Weighed, out: &mut dyn Write) -> anyhow::Result<()> {
    for weight in &weighed.weights {
        let names: Vec<_> = frames(subject, weight.stack)
            .into_iter()
            // Semicolons separate frames in this format.
            .map(|frame| {
                text::frame(subject.snapshot(), subject.snapshot().stacks.frame(frame)).replace(';', ",")
            })
            .collect();
        match names.is_empty() {
            true => writeln!(out, "{} {}", no_frame(subject.snapshot(), weight.stack), weight.bytes)?,
            false => writeln!(out, "{} {}", names.join(";"), weight.bytes)?,
        }
    }
    Ok(())
}

fn speedscope(subject: &Subject, weighed: &Weighed, out: &mut dyn Write) -> anyhow::Result<()> {
    let snapshot = subject.snapshot();
    let mut numbers: HashMap<FrameId, usize> = HashMap::new();
    let mut shared = vec![json!({"name": "(no stack)"})];
    let mut samples = Vec::new();
    for weight in &weighed.weights {
        let mut sample: Vec<usize> = Vec::new();
        for id in frames(subject, weight.stack) {
            sample.push(*numbers.entry(id).or_insert_with(|| {
                let frame = snapshot.stacks.frame(id);
                let (name, file) = (snapshot.text(frame.name), snapshot.text(frame.file));
                shared.push(json!({"name": name, "file": file, "line": frame.line}));
                shared.len() - 1
            }));
        }
        if sample.is_empty() {
            sample.push(0);
        }
        samples.push(sample);
    }
    let weights: Vec<u64> = weighed.weights.iter().map(|weight| weight.bytes).collect();
    let total: u64 = weights.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes));
    let name = subject.opened.path.display().to_string();
    let unit = if weighed.at.is_some() { "bytes" } else { "none" };
    let profile = json!({"type": "sampled", "name": name, "unit": unit, "startValue": 0, "endValue": total,
        "samples": samples, "weights": weights});
    let file = json!({"$schema": "https://www.speedscope.app/file-format-schema.json", "exporter": "vramscope",
        "name": name, "activeProfileIndex": 0, "shared": {"frames": shared}, "profiles": [profile]});
    vramscope_files::json(&mut *out, &file)?;
    writeln!(out)?;
    Ok(())
}

const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
/// Width of a character of the picture's font, about.
const CHARACTER: f64 = 6.6;
/// Deeper calls are left out: a picture of thousands of rows helps nobody.
const DEEPEST: usize = 400;
/// Narrower boxes are left out: nobody can see or hit them.
const LEAST: f64 = 0.3;

fn svg(subject: &Subject, weighed: &Weighed, out: &mut dyn Write) -> anyhow::Result<()> {
    let tree =
        CallTree::new(subject.snapshot(), &weighed.weights, Direction::TopDown, |frame| subject.shows(frame));
    let mut boxes = Vec::new();
    place(&tree, 0, 0.0, 0, &mut boxes);
    let deepest = boxes.iter().map(|found: &Box| found.depth).max().unwrap_or(0);
    let height = (deepest + 1) as f64 * ROW + 8.0;
    writeln!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="ui-monospace, monospace" font-size="11">
<rect width="100%" height="100%" fill="#101418"/>"##
    )?;
    for Box { node, x, width, depth } in boxes {
        let node = &tree.nodes[node];
        let name = match node.place {
            Place::Frame(frame) => text::frame(subject.snapshot(), subject.snapshot().stacks.frame(frame)),
            other => other.words_in(subject.snapshot()).unwrap_or_default().to_owned(),
        };
        let share = text::share(node.bytes, tree.root().bytes);
        let bytes = text::size(node.bytes);
        let y = 4.0 + depth as f64 * ROW;
        write!(
            out,
            "<g><title>{} · {bytes} · {share} · {}</title>",
            html(&name),
            text::plural(node.count, "allocation")
        )?;
        let ([r, g, b], inner) = (color::of(&name), (width - 0.6).max(0.2));
        write!(
            out,
            r##"<rect x="{x:.2}" y="{y}" width="{inner:.2}" height="{}" rx="2" fill="#{r:02x}{g:02x}{b:02x}"/>"##,
            ROW - 1.0
        )?;
        let room = ((width - 6.0) / CHARACTER) as usize;
        if room >= 4 {
            let shown = html(&text::elide(&name, room));
            write!(out, r##"<text x="{:.2}" y="{}" fill="#101418">{shown}</text>"##, x + 3.0, y + 12.5)?;
        }
        writeln!(out, "</g>")?;
    }
    writeln!(out, "</svg>")?;
    Ok(())
}

struct Box {
    node: usize,
    x: f64,
    width: f64,
    depth: usize,
}

fn place(tree: &CallTree, node: usize, x: f64, depth: usize, boxes: &mut Vec<Box>) {
    let scale = WIDTH / tree.root().bytes.max(1) as f64;
    let width = tree.nodes[node].bytes as f64 * scale;
    if width < LEAST || depth > DEEPEST {
        return;
    }
    boxes.push(Box { node, x, width, depth });
    let mut at = x;
    for &child in &tree.nodes[node].children {
        place(tree, child, at, depth + 1, boxes);
        at += tree.nodes[child].bytes as f64 * scale;
    }
}
