//! `vramscope oom`: everything about an out-of-memory error in one answer.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use vramscope_analysis::query::Thing;
use vramscope_analysis::whatif::{Limit, Row, Tone, WhatIf, choices};
use vramscope_analysis::{
    Capacity, Counter, Finding, Line, Moment, Room, State, Sum, by_line, refused_before, room,
};
use vramscope_simulate::{Settings, Study};
use vramscope_snapshot::{Pool, StackId};

use crate::args::Source;
use crate::finding::FindingJson;
use crate::stack::{self, StackJson};
use crate::style::{self, Role, units};
use crate::subject::{Subject, answer_found, open_path};
use crate::table::Table;
use crate::text;
use crate::whatif::batch::{self, Watched};

/// Why memory ran out: who asked, what was free and where, and what would have helped
///
/// Complete in one call: the line and the pool that asked, bounds of the limit from what was granted and refused, what
/// could have been released, whether memory was lacking or fragmented, and other settings as whatif simulates them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope oom snapshot.pickle
  vramscope oom snapshot.pickle --number 1          # the first of several errors
  vramscope oom snapshot.pickle --json | jq '.failure | {line, cause, requested}'")]
pub(crate) struct OomArgs {
    #[command(flatten)]
    source: Source,
    /// Which error, from 1 (default: the last)
    #[arg(long, value_name = "K")]
    number: Option<usize>,
}

/// Lines and categories that are listed.
const HOLDERS: usize = 6;
/// Pools and streams that are listed.
const ROOMS: usize = 6;
/// Other errors that are listed.
const OTHERS: usize = 8;

pub(crate) fn run(args: &OomArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let Source { path, filter, output } = &args.source;
    let subjects = open_path(path, filter, &output.cache)?;
    let report = |subject| Report::new(subject, args.number);
    answer_found(&subjects, output, out, report, |subject, report, out| match output.json {
        true => Ok(vramscope_files::json(out, report)?),
        false => Ok(print(subject, report, out)?),
    })
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    device: i32,
    /// Errors that pass the filters.
    count: usize,
    /// The one that this is about; none if memory never ran out.
    failure: Option<Failure<'a>>,
    /// The first of the others.
    others: Vec<Other>,
}

#[derive(Serialize)]
struct Other {
    number: usize,
    handle: String,
    requested: u64,
    place: String,
}

#[derive(Serialize)]
struct Failure<'a> {
    /// Which error, from 1.
    number: usize,
    handle: String,
    event: u32,
    time_us: Option<i64>,
    requested: u64,
    /// The user's own line.
    line: Line,
    stack_handle: String,
    stack: StackJson<'a>,
    pool: Option<Pool>,
    stream: Option<u64>,
    /// lack, fragmentation, or other pool or stream; none where the file cannot tell.
    cause: Option<String>,
    device_free: u64,
    reserved: i64,
    active: i64,
    limit: Option<LimitJson>,
    largest_hole: u64,
    free: Vec<RoomJson>,
    releasable: u64,
    awaiting_free: u64,
    /// How often the allocator had released its cached segments and tried again, and what it released.
    retries: u64,
    retried_bytes: u64,
    held_by: Vec<HolderJson>,
    categories: Vec<CategoryJson>,
    simulated: SimulatedJson,
    /// The finding as `insights` has it: the cause in a sentence, evidence, advice.
    finding: FindingJson,
    #[serde(skip)]
    found: Finding,
}

#[derive(Serialize)]
struct LimitJson {
    at_least: i64,
    below: i64,
    /// The event that shows the upper bound: the first release of a request that was refused at first, or an error.
    refused_event: Option<u32>,
    /// Whether the process was limited; else the device was full.
    is_limit: bool,
}

#[derive(Serialize)]
struct RoomJson {
    pool: Option<Pool>,
    stream: u64,
    reserved: u64,
    free: u64,
    holes: u64,
    largest: u64,
    releasable: u64,
    awaiting_free: u64,
}

#[derive(Serialize)]
struct HolderJson {
    line: Line,
    bytes: u64,
    count: u64,
}

#[derive(Serialize)]
struct CategoryJson {
    category: String,
    bytes: u64,
}

#[derive(Default, Serialize)]
struct SimulatedJson {
    /// Why nothing is simulated.
    refused: Option<String>,
    /// Whether the simulation reproduces the recording under its own settings.
    reproduced: Option<bool>,
    /// The settings of the recording, in words.
    recorded_under: Option<String>,
    settings: Vec<TrialJson>,
}

#[derive(Serialize)]
struct TrialJson {
    settings: String,
    /// Whether the request is served whatever the device's addresses.
    gets_past: bool,
    result: String,
    reserved_peak: u64,
}

impl<'a> Report<'a> {
    fn new(subject: &'a Subject, number: Option<usize>) -> anyhow::Result<Self> {
        let replay = subject.replay();
        let (from, to) = subject.range();
        let mut found = subject.failures();
        found.retain(|finding| (from..=to).contains(&finding.when.1) && subject.keeps_finding(finding));
        // Of thousands of errors only the first ones and the last have a finding.
        let number_of = |finding: &Finding| {
            let before = |oom: &&vramscope_analysis::Oom| Moment::after(oom.event) < finding.when.1;
            replay.ooms().iter().filter(before).count() + 1
        };
        let asked = match number {
            Some(number) => match found.iter().find(|finding| number_of(finding) == number) {
                Some(finding) => Some(finding.clone()),
                None if found.is_empty() => None,
                None => {
                    let numbers: Vec<_> =
                        found.iter().map(|finding| number_of(finding).to_string()).collect();
                    anyhow::bail!("there is no error {number} here; --number takes: {}", numbers.join(", "))
                }
            },
            None => found.last().cloned(),
        };
        let other = |finding: &Finding| Other {
            number: number_of(finding),
            handle: finding_event(subject, finding),
            requested: finding.bytes,
            place: finding.site.line.as_ref().map_or_else(String::new, Line::short),
        };
        let is_other = |finding: &&Finding| asked.as_ref().is_some_and(|asked| asked.when != finding.when);
        let others = found.iter().filter(is_other).take(OTHERS).map(other).collect();
        let failure = asked.map(|finding| Failure::new(subject, number_of(&finding), finding));
        let count =
            replay.ooms().iter().filter(|oom| (from..=to).contains(&Moment::after(oom.event))).count();
        Ok(Self { schema: "vramscope/oom/1", device: replay.device().0, count, failure, others })
    }
}

fn finding_event(subject: &Subject, finding: &Finding) -> String {
    finding.when.1.event().map_or_else(String::new, |event| subject.handle(Thing::Event(event)))
}

impl<'a> Failure<'a> {
    fn new(subject: &'a Subject, number: usize, found: Finding) -> Self {
        let (snapshot, replay) = (subject.snapshot(), subject.replay());
        let at = found.when.1;
        let event = at.event().unwrap_or_default();
        let events = snapshot.events(replay.device());
        let stack = found.site.stack.unwrap_or(StackId::ABSENT);
        let state = replay.state(at);
        let device_free =
            replay.ooms().iter().find(|oom| oom.event == event).map_or(0, |oom| oom.device_free);
        let rooms = match snapshot.has.addresses {
            true => room(snapshot, &state),
            false => Vec::new(),
        };
        let sum = |of: fn(&Room) -> u64| rooms.iter().map(of).fold(0_u64, u64::saturating_add);
        let cause = found.evidence.iter().find(|evidence| evidence.name == "cause");
        let retried = refused_before(replay, at);
        Self {
            number,
            handle: subject.handle(Thing::Event(event)),
            event: event.0,
            time_us: events.time_us(event.index()),
            requested: found.bytes,
            line: Line::of(snapshot, stack),
            stack_handle: subject.handle(Thing::Stack(stack)),
            stack: StackJson(snapshot, stack),
            pool: found.site.pool,
            stream: found.site.stream,
            cause: cause.map(|evidence| evidence.value.words(&text::size)),
            device_free,
            reserved: state.counters.reserved,
            active: state.counters.active,
            limit: Capacity::of(replay).map(|capacity| LimitJson {
                at_least: capacity.at_least,
                below: capacity.bytes,
                refused_event: capacity.refused_at.and_then(Moment::event).map(|event| event.0),
                is_limit: capacity.is_limit,
            }),
            largest_hole: state.largest_hole(),
            releasable: sum(|room| room.releasable),
            awaiting_free: sum(|room| room.awaiting_free),
            retries: retried.len() as u64,
            retried_bytes: retried.iter().fold(0, |sum, retry| sum.saturating_add(retry.released)),
            free: RoomJson::all(subject, &rooms, &found),
            held_by: holders(subject, &state),
            categories: categories(subject, &state),
            simulated: SimulatedJson::new(subject, number),
            finding: FindingJson::new(Some(subject), &found),
            found,
        }
    }

    /// Where the request is served, if at all.
    fn owner(&self) -> String {
        let called = match self.stream {
            Some(stream) => vramscope_format::pool_and_stream(self.pool, stream),
            None => vramscope_format::pool(self.pool),
        };
        format!("pool {called}")
    }
}

impl RoomJson {
    /// A row each, also for the pool and stream of the request if they hold nothing.
    fn all(subject: &Subject, rooms: &[Room], found: &Finding) -> Vec<Self> {
        let mut all: Vec<_> = rooms.iter().map(|room| Self::new(subject, room)).collect();
        if let (Some(pool), Some(stream)) = (found.site.pool, found.site.stream)
            && !all.is_empty()
            && !all.iter().any(|room| room.pool == Some(pool) && room.stream == stream)
        {
            let room = Room { pool: Some(pool), ..Room::default() };
            all.insert(all.len().min(ROOMS - 1), Self { stream, ..Self::new(subject, &room) });
        }
        all
    }

    fn new(subject: &Subject, room: &Room) -> Self {
        Self {
            pool: room.pool,
            stream: subject.snapshot().stream(room.stream),
            reserved: room.reserved,
            free: room.free,
            holes: room.holes,
            largest: room.largest,
            releasable: room.releasable,
            awaiting_free: room.awaiting_free,
        }
    }
}

/// What lines hold when memory runs out, most first.
fn holders(subject: &Subject, state: &State) -> Vec<HolderJson> {
    let mut lines: Vec<(Line, Sum)> = by_line(subject.snapshot(), &subject.live(state)).into_iter().collect();
    lines.sort_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then_with(|| a.0.cmp(&b.0)));
    let holder = |(line, sum): (Line, Sum)| HolderJson { line, bytes: sum.bytes, count: sum.count };
    lines.into_iter().map(holder).collect()
}

/// What memory is for when it runs out, most first.
fn categories(subject: &Subject, state: &State) -> Vec<CategoryJson> {
    let conclusions = subject.conclusions();
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (index, allocation) in state.allocations() {
        if subject.keeps(index, &allocation) {
            let category = conclusions.categories.names().get(conclusions.categories.of(index));
            let sum = sums.entry(category.map_or("", String::as_str)).or_default();
            *sum = sum.saturating_add(allocation.requested);
        }
    }
    let mut sums: Vec<_> =
        sums.into_iter().map(|(name, bytes)| CategoryJson { category: name.to_owned(), bytes }).collect();
    sums.sort_by_key(|row| Reverse(row.bytes));
    sums
}

impl SimulatedJson {
    /// Other settings, and the recorded ones without a limit, for the request that failed first.
    fn new(subject: &Subject, number: usize) -> Self {
        let refuse = |reason: String| Self { refused: Some(reason), ..Self::default() };
        let (snapshot, replay) = (subject.snapshot(), subject.replay());
        let study = match Study::new(snapshot, replay.device(), None) {
            Ok(study) => study,
            Err(error) => return refuse(error.to_string()),
        };
        let mut tried: Vec<(String, Settings)> = choices(&study, Limit::Recorded)
            .iter()
            .filter_map(|under| Some((under.name().to_owned(), under.settings(&study).ok()?)))
            .collect();
        let free = Settings { limit: None, ..study.recorded.clone() };
        tried.push(("as recorded, without the limit".to_owned(), free));
        let settings: Vec<Settings> = tried.iter().map(|(_, settings)| settings.clone()).collect();
        let watched = Watched { moments: Vec::new(), events: replay.events(), stretches: 1 };
        // What failed before is left out: the program is taken to do the same whether or not it fails.
        let simulator = match replay.ooms().get(number - 1) {
            Some(oom) if number > 1 => {
                let before = Moment::after(oom.event).0;
                &study.simulator.with(study.simulator.requests().without_failures_before(before))
            }
            _ => &study.simulator,
        };
        let runs = match batch::answers(simulator, &settings, &watched) {
            Ok(runs) => runs,
            Err(error) => return refuse(error.to_string()),
        };
        let words = WhatIf { snapshot, replay, study: &study, units: units() };
        let trial = |((name, _), run): (&(String, Settings), &batch::Run)| {
            let Row { reserved_peak, result, .. } = words.row(&run.answer);
            let is_sure = run.answer.out_of_memory == 0;
            let gets_past = result.tone == Tone::Fine && is_sure;
            let result = match result.tone == Tone::Fine && !is_sure {
                true => format!("{}; not with every order of device addresses", result.text),
                false => result.text,
            };
            TrialJson { settings: name.clone(), gets_past, result, reserved_peak }
        };
        Self {
            refused: None,
            reproduced: Some(study.agreement.is_exact()),
            recorded_under: Some(words.recorded_under()),
            settings: tried.iter().zip(&runs).map(trial).collect(),
        }
    }
}

fn print(subject: &Subject, report: &Report<'_>, out: &mut dyn Write) -> std::io::Result<()> {
    let Some(failure) = &report.failure else {
        let peak = subject.peak(Counter::Reserved);
        subject.print_heading("memory never ran out in this recording", out)?;
        writeln!(out, "  peak reserved {}", text::bytes(peak.bytes))?;
        return writeln!(out, "  what looks wrong: vramscope insights {}", subject.path());
    };
    let events = subject.snapshot().events(subject.replay().device());
    let moment = text::when(events, failure.found.when.1.event());
    let which = match report.count {
        1 => moment,
        count => format!("error {} of {}, {moment}", failure.number, text::count(count as u64)),
    };
    subject.print_heading(&format!("out of memory, {which}"), out)?;
    let fact = |out: &mut dyn Write, name: &str, words: &str| {
        writeln!(out, "  {name:<11} {}", text::wrapped(&text::printable(words), 14))
    };
    let asked = format!(
        "{} by {} · {} · {} {}",
        text::size(failure.requested),
        failure.line.short(),
        failure.owner(),
        failure.handle,
        failure.stack_handle
    );
    fact(out, "requested", &asked)?;
    if let Some(cause) = &failure.cause {
        fact(out, "cause", cause)?;
    }
    fact(out, "why", &failure.found.what)?;
    if let Some(limit) = &failure.limit {
        let kind = if limit.is_limit { "a per-process limit" } else { "the device" };
        let words = format!(
            "{kind}: at least {} (granted), below {} (refused{}); {} was free on the device",
            text::bytes(limit.at_least),
            text::bytes(limit.below),
            limit.refused_event.map_or_else(String::new, |event| format!(" at event {}", text::count(event))),
            text::size(failure.device_free)
        );
        fact(out, "limit", &words)?;
    }
    fact(
        out,
        "held",
        &format!("{} reserved, {} in use", text::bytes(failure.reserved), text::bytes(failure.active)),
    )?;
    fact(out, "releasable", &releasable(failure))?;
    if failure.retries > 0 {
        let words = format!(
            "{} before this error: {} of cached segments released",
            text::plural(failure.retries, "retry"),
            text::size(failure.retried_bytes)
        );
        fact(out, "retries", &words)?;
    }
    fact(out, "advice", &failure.found.advice)?;
    print_rooms(failure, out)?;
    print_holders(subject, failure, out)?;
    print_simulated(failure, out)?;
    if failure.found.site.stack.is_some() {
        writeln!(out, "\n  stack {}", failure.stack_handle)?;
        stack::print(subject, failure.found.site.stack.unwrap_or(StackId::ABSENT), out)?;
    }
    if !report.others.is_empty() {
        writeln!(out, "\n  other errors, shown by --number K")?;
        for other in &report.others {
            let place = text::printable(&other.place);
            writeln!(
                out,
                "   {:>3}  {}  {}  {place}",
                other.number,
                other.handle,
                text::size(other.requested)
            )?;
        }
    }
    Ok(())
}

fn releasable(failure: &Failure<'_>) -> String {
    let unused = match failure.releasable {
        0 => "nothing: no segment is completely unused".to_owned(),
        bytes => format!("{} in completely unused segments or pages", text::size(bytes)),
    };
    match failure.awaiting_free {
        0 => unused,
        bytes => format!("{unused}; {} waits for another stream to be done with it", text::size(bytes)),
    }
}

fn print_rooms(failure: &Failure<'_>, out: &mut dyn Write) -> std::io::Result<()> {
    if failure.free.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = Table::new("free memory, by pool and stream")
        .column("free")
        .column("holes")
        .column("largest")
        .optional("releasable", 1)
        .optional("reserved", 2);
    for room in failure.free.iter().take(ROOMS) {
        let cells = [
            text::size(room.free),
            text::count(room.holes),
            text::size(room.largest),
            text::size(room.releasable),
            text::size(room.reserved),
        ];
        let is_asked = room.pool == failure.pool && Some(room.stream) == failure.stream;
        let mark = if is_asked { "  ← the request's" } else { "" };
        let called = vramscope_format::pool_and_stream(room.pool, room.stream);
        table.row(cells, format!("{called}{mark}"));
    }
    table.print(out)?;
    more(failure.free.len(), ROOMS, out)
}

fn more(all: usize, shown: usize, out: &mut dyn Write) -> std::io::Result<()> {
    match all.checked_sub(shown) {
        None | Some(0) => Ok(()),
        Some(more) => writeln!(out, "  {} more: --json has them", text::count(more as u64)),
    }
}

fn print_holders(subject: &Subject, failure: &Failure<'_>, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out)?;
    let mut table = Table::new("held by").column("requested").column("count");
    for holder in failure.held_by.iter().take(HOLDERS) {
        let cells = [text::size(holder.bytes), text::count(holder.count)];
        table.row(cells, text::line(&holder.line));
    }
    table.print(out)?;
    if failure.held_by.len() > HOLDERS {
        let more = text::count((failure.held_by.len() - HOLDERS) as u64);
        let path = subject.path();
        writeln!(out, "  {more} more lines: vramscope top {path} --at oom:{}", failure.number)?;
    }
    let words: Vec<_> = failure
        .categories
        .iter()
        .take(HOLDERS)
        .map(|row| format!("{} {}", text::size(row.bytes), row.category))
        .collect();
    let words = format!("by category: {}", words.join(", "));
    writeln!(out, "  {}", text::wrapped(&text::printable(&words), 4))
}

fn print_simulated(failure: &Failure<'_>, out: &mut dyn Write) -> std::io::Result<()> {
    let simulated = &failure.simulated;
    if let Some(reason) = &simulated.refused {
        return writeln!(out, "\n  other settings are not simulated: {}", text::printable(reason));
    }
    writeln!(out)?;
    let mut table = Table::new("simulated").left("settings", 0).column("peak reserved");
    for trial in &simulated.settings {
        table.painted(
            if trial.gets_past { Role::Fine } else { Role::Plain },
            [trial.settings.clone(), text::size(trial.reserved_peak)],
            text::printable(&trial.result),
        );
    }
    table.print(out)?;
    if let Some(settings) = &simulated.recorded_under {
        let words = format!("recorded under {settings}");
        writeln!(out, "  {}", text::wrapped(&text::printable(&words), 4))?;
    }
    if failure.number > 1 {
        writeln!(out, "  {}", vramscope_analysis::GOES_ON)?;
    }
    if simulated.reproduced == Some(false) {
        let words = "estimates: the simulation does not reproduce the recording under its own settings";
        writeln!(out, "  {}", style::paint(Role::Warning, words))?;
    }
    Ok(())
}
