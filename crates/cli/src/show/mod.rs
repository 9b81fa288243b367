//! `vramscope show`: one thing of a file, whole, by its handle.

mod block;
mod event;
mod place;

use std::io::Write;

use anyhow::bail;
use clap::Args;
use serde::Serialize;
use vramscope_analysis::query::{Handle, MomentSpec, Thing};
use vramscope_analysis::{Finding, Moment};

use crate::args::{MomentArgs, Source};
use crate::finding::{self, FindingJson};
use crate::subject::{Answered, Subject, answer_found, open_path};
use crate::text;

/// One event, allocation, stack, segment, line or finding, whole
///
/// Other commands print handles, and every handle means the same thing whenever the file is opened: e:1832 an event,
/// a:307 an allocation, s:44 a stack, g:7f686c000000 the segment around an address, f:growth-1 a finding. A line is
/// named as it is printed, train.py:88. Where a file has several devices, @1 at the end names one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope show f:out_of_memory-1 snapshot.pickle
  vramscope show e:11822 snapshot.pickle
  vramscope show train.py:88 snapshot.pickle --at end
  vramscope show s:44 snapshot.pickle --json")]
pub(crate) struct ShowArgs {
    /// What to show
    #[arg(value_name = "HANDLE", value_parser = str::parse::<Handle>)]
    handle: Handle,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    moment: MomentArgs,
}

pub(crate) fn run(args: &ShowArgs, out: &mut dyn Write) -> Answered {
    let Source { path, filter, output } = &args.source;
    let mut subjects = open_path(path, filter, &output.cache)?;
    if let Some(device) = args.handle.device {
        subjects.retain(|subject| subject.replay().device() == device);
    }
    if subjects.is_empty() {
        bail!("there is no device {} in this file", args.handle.device.unwrap_or_default().0);
    }
    let spec = args.moment.spec();
    let find = |subject| Shown::of(subject, &args.handle, &spec);
    answer_found(&subjects, output, out, find, |subject, shown, out| match output.json {
        true => Ok(vramscope_files::json(out, &Report::new(subject, &args.handle, shown))?),
        false => Ok(shown.print(subject, out)?),
    })
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    device: i32,
    handle: String,
    #[serde(flatten)]
    shown: &'a Shown<'a>,
}

impl<'a> Report<'a> {
    fn new(subject: &Subject, handle: &Handle, shown: &'a Shown<'a>) -> Self {
        let device = subject.replay().device().0;
        let handle = match &handle.thing {
            Thing::Line { .. } => handle.to_string(),
            thing => subject.handle(thing.clone()),
        };
        Self { schema: "vramscope/show/1", device, handle, shown }
    }
}

/// What a handle names, with everything that is known of it.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Shown<'a> {
    Event(Box<event::Event<'a>>),
    Allocation(Box<block::Block<'a>>),
    Stack(Box<place::Stack<'a>>),
    Segment(Box<block::Segment<'a>>),
    Line(Box<place::Line<'a>>),
    Finding(Box<Found>),
}

/// A finding.
#[derive(Serialize)]
#[serde(transparent)]
struct Found {
    json: FindingJson,
    #[serde(skip)]
    finding: Finding,
}

impl<'a> Shown<'a> {
    fn of(subject: &'a Subject, handle: &Handle, spec: &MomentSpec) -> anyhow::Result<Self> {
        let at = || subject.moment(spec);
        Ok(match &handle.thing {
            Thing::Event(event) => Self::Event(Box::new(event::Event::new(subject, *event)?)),
            Thing::Allocation(index) => Self::Allocation(Box::new(block::Block::new(subject, *index)?)),
            Thing::Stack(stack) => Self::Stack(Box::new(place::Stack::new(subject, *stack, at()?)?)),
            Thing::Segment(addr) => Self::Segment(Box::new(block::Segment::new(subject, *addr, at()?)?)),
            Thing::Line { file, line } => {
                Self::Line(Box::new(place::Line::new(subject, file, *line, at()?)?))
            }
            Thing::Finding(name) => Self::Finding(Box::new(find(subject, name)?)),
        })
    }

    fn print(&self, subject: &Subject, out: &mut dyn Write) -> std::io::Result<()> {
        match self {
            Self::Event(event) => event.print(subject, out),
            Self::Allocation(block) => block.print(subject, out),
            Self::Stack(stack) => stack.print(subject, out),
            Self::Segment(segment) => segment.print(subject, out),
            Self::Line(line) => line.print(subject, out),
            Self::Finding(found) => {
                let handle = subject.handle(Thing::Finding(found.finding.name()));
                subject.print_heading(&handle, out)?;
                finding::print_long(&found.finding, &handle, &subject.path(), out)?;
                match found.finding.site.stack {
                    Some(stack) => print_stack(subject, "at", stack, out),
                    None => Ok(()),
                }
            }
        }
    }
}

/// The finding of a name, or of an id.
fn find(subject: &Subject, name: &str) -> anyhow::Result<Found> {
    let found = subject.findings();
    match found.iter().find(|finding| finding.name() == name || finding.id() == name) {
        Some(finding) => {
            Ok(Found { json: FindingJson::new(Some(subject), finding), finding: finding.clone() })
        }
        None => {
            let names: Vec<_> =
                found.iter().map(|finding| subject.handle(Thing::Finding(finding.name()))).collect();
            match names.is_empty() {
                true => bail!(
                    "{}: there are no findings: vramscope insights {}",
                    subject.device(),
                    subject.path()
                ),
                false => bail!("{}: no finding f:{name}; there are: {}", subject.device(), names.join(", ")),
            }
        }
    }
}

/// One fact in a line of its own.
fn fact(out: &mut dyn Write, name: &str, words: &str) -> std::io::Result<()> {
    writeln!(out, "  {name:<12} {}", text::wrapped(&text::printable(words), 15))
}

/// A stack under a heading.
fn print_stack(
    subject: &Subject,
    heading: &str,
    stack: vramscope_snapshot::StackId,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    writeln!(out, "\n  {heading} {}", subject.handle(Thing::Stack(stack)))?;
    crate::stack::print(subject, stack, out)
}

/// The event before a moment, as it is printed.
fn event_words(subject: &Subject, at: Moment, otherwise: &str) -> String {
    at.event().map_or_else(|| otherwise.to_owned(), |event| subject.handle(Thing::Event(event)))
}
