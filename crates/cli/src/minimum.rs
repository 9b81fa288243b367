//! `vramscope minimum`: the least memory that the same requests need.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use vramscope_analysis::{Capacity, Counter, Minimum, capacity};

use crate::args::Source;
use crate::subject::{Subject, answer};
use crate::table::Table;
use crate::text;

/// The least memory that the same requests need, however well the allocator packs them
///
/// No allocator needs less than what is live at once. Whether that can be reached is a hard problem, so a packing shows
/// what is enough: the best that is found, with every block at one address for as long as it lives.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope minimum snapshot.pickle
  vramscope minimum snapshot.pickle --capacity H100       # the headroom on that device
  vramscope minimum snapshot.pickle --json | jq '{lower_bound, packed, reserved_peak}'")]
pub(crate) struct MinimumArgs {
    #[command(flatten)]
    source: Source,
    /// What the device has: a name such as H100, or a size (default: as far as the file tells)
    #[arg(long, value_name = "DEVICE", value_parser = capacity)]
    capacity: Option<u64>,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    device: i32,
    /// No allocator needs less.
    lower_bound: i64,
    lower_bound_event: Option<u32>,
    /// With perfect knowledge this is enough.
    packed: u64,
    packed_by: &'static str,
    requested_peak: i64,
    /// None where the file does not say.
    reserved_peak: Option<i64>,
    /// Reserved at the peak, beyond the packing.
    avoidable: Option<i64>,
    capacity: Option<i64>,
    /// Whether `capacity` is a limit of the process, which is somewhere below it.
    is_limit: bool,
    /// Capacity less the packing.
    headroom: Option<i64>,
    verdict: &'static str,
}

pub(crate) fn run(args: &MinimumArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    answer(&args.source, None, out, &mut |subject, _, out| {
        let report = report(args, subject);
        match args.source.output.json {
            true => Ok(vramscope_files::json(out, &report)?),
            false => Ok(print(subject, &report, out)?),
        }
    })
}

fn report(args: &MinimumArgs, subject: &Subject) -> Report {
    let replay = subject.replay();
    let Minimum { bound, packed, by } = *replay.minimum();
    let given = args.capacity.map(|bytes| (vramscope_format::signed(bytes), false));
    let found = given.or_else(|| Capacity::of(replay).map(|found| (found.bytes, found.is_limit)));
    let reserved = subject.has_reserved().then(|| replay.peak(Counter::Reserved).bytes);
    let packed_bytes = vramscope_format::signed(packed);
    Report {
        schema: "vramscope/minimum/1",
        device: replay.device().0,
        lower_bound: bound.bytes,
        lower_bound_event: bound.at.event().map(|event| event.0),
        packed,
        packed_by: by.name(),
        requested_peak: replay.peak(Counter::Requested).bytes,
        reserved_peak: reserved,
        avoidable: reserved.map(|reserved| reserved.saturating_sub(packed_bytes)),
        capacity: found.map(|(bytes, _)| bytes),
        is_limit: found.is_some_and(|(_, is_limit)| is_limit),
        headroom: found.map(|(bytes, _)| bytes.saturating_sub(packed_bytes)),
        verdict: replay.verdict().status.name(),
    }
}

fn print(subject: &Subject, report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    subject.print_heading("the least memory that the same requests need", out)?;
    writeln!(out)?;
    let mut table = Table::new("").column("").left("", 0);
    let mut row = |bytes: i64, what: String| table.row([text::bytes(bytes), what], "");
    let event = report.lower_bound_event.map(vramscope_snapshot::EventIdx);
    let when = text::event(event, "the start");
    row(report.lower_bound, format!("live at once, at event {when}: no allocator needs less"));
    let how = vramscope_format::words(report.packed_by);
    row(vramscope_format::signed(report.packed), format!("is enough: a packing found by {how}"));
    if let (Some(reserved), Some(avoidable)) = (report.reserved_peak, report.avoidable) {
        let beyond = match avoidable {
            1.. => format!(", {} more than that", text::bytes(avoidable)),
            _ => String::new(),
        };
        row(reserved, format!("was reserved at the peak{beyond}"));
    }
    if let (Some(capacity), Some(headroom)) = (report.capacity, report.headroom) {
        let what = if report.is_limit { "the process may hold, at most" } else { "the device has" };
        row(capacity, what.to_owned());
        let what = match headroom {
            0.. => "of it would be left",
            _ => "of it would be missing: these requests cannot fit with this packing",
        };
        row(headroom.saturating_abs(), what.to_owned());
    }
    table.print_rows(out)
}
