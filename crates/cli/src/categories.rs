//! `vramscope categories`: what memory is for, at a moment and over time.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use vramscope_analysis::categories::{Categories, Curves, Rules, Series, Total, classify};
use vramscope_analysis::{Recipe, State};

use crate::args::{MomentArgs, Source};
use crate::layout;
use crate::subject::{Subject, answer};
use crate::table::Table;
use crate::text;

/// What memory is for: parameters, gradients, optimizer state, activations, KV cache, temporaries
///
/// Concluded from the passes of the run and from what each block outlives, and from your own rules where there are any;
/// each with how it is known. Bytes are requested bytes; the categories add up to all of them.
#[derive(Debug, Args)]
#[command(
    after_help = "Rules are TOML; the first whose conditions all hold decides, and the defaults come last:
  [[rule]]
  category = \"embeddings\"            # a new category, or one of ours
  stack = \"embedding|lm_head\"        # a frame matches, as file:line name
  min_size = \"20MiB\"                 # also: max_size, pool = [0, 1]
  lifetime = \"1000..\"                # events that it lives; also \"..20\", \"20..1000\"

Examples:
  vramscope categories snapshot.pickle
  vramscope categories snapshot.pickle --at in:backward --rules rules.toml
  vramscope categories snapshot.pickle --json | jq '.categories[] | [.name, .requested]'"
)]
pub(crate) struct CategoriesArgs {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    moment: MomentArgs,
    /// Your own rules
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Stretches of the trace in the series of the JSON
    #[arg(long, value_name = "N", default_value_t = Curves::JSON)]
    series: usize,
}

pub(crate) fn run(args: &CategoriesArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let rules = match &args.rules {
        None => None,
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            Some(Rules::parse(&text).with_context(|| path.display().to_string())?)
        }
    };
    answer(&args.source, Some(&args.moment.spec()), out, &mut |subject, at, out| {
        let replay = subject.replay();
        let (categories, known) = match &rules {
            None => (replay.categories(), Some(replay.curves())),
            Some(rules) => (Arc::new(classify(replay, rules)), None),
        };
        let state = replay.state(at);
        let keep = |index, allocation: &_| subject.keeps(index, allocation);
        let totals = categories.totals(&state, keep);
        let recipe = match &known {
            Some(known) => known.recipe,
            None => Recipe::new(replay, &categories),
        };
        let series = |stretches: usize| {
            let usual = known.as_ref().and_then(|known| known.series(stretches)).cloned();
            usual.unwrap_or_else(|| categories.series(replay, stretches))
        };
        if args.source.output.json {
            let series = series(args.series);
            return Ok(vramscope_files::json(
                out,
                &Report::new(subject, &state, (&categories, &totals), recipe, series),
            )?);
        }
        print(subject, &state, (&categories, &series(Curves::TEXT)), &totals, out)?;
        if let Some(recipe) = recipe {
            writeln!(out, "\n  {}", text::wrapped(&recipe.words(&text::size), 2))?;
        }
        Ok(())
    })
}

fn print(
    subject: &Subject,
    state: &State,
    (categories, series): (&Categories, &Series),
    totals: &[Total],
    out: &mut dyn Write,
) -> std::io::Result<()> {
    subject.print_moment(state.at, out)?;
    writeln!(out)?;
    let table = layout::choose(&[92, 104, 114, 144], |columns| {
        table(categories, totals, &narrowed(series, columns - 84)).text()
    });
    out.write_all(table.as_bytes())
}

/// A series in at most some cells, each with the highest moment of its part of the trace.
fn narrowed(series: &Series, cells: usize) -> Series {
    let together = series.at.len().div_ceil(cells).max(1);
    let total = |at: usize| series.bytes.iter().filter_map(|bytes| bytes.get(at)).sum::<i64>();
    let starts = (0..series.at.len()).step_by(together);
    let highest = starts.filter_map(|start| {
        let part = start..(start + together).min(series.at.len());
        // The first of several that are as high.
        part.rev().max_by_key(|&at| total(at))
    });
    let highest: Vec<usize> = highest.collect();
    let pick = |bytes: &Vec<i64>| highest.iter().filter_map(|&at| bytes.get(at).copied()).collect();
    Series {
        at: highest.iter().filter_map(|&at| series.at.get(at).copied()).collect(),
        bytes: series.bytes.iter().map(pick).collect(),
        most: series.most.clone(),
    }
}

fn table(categories: &Categories, totals: &[Total], series: &Series) -> Table {
    let highest = series.bytes.iter().flatten().copied().max().unwrap_or(0);
    let all = totals.iter().fold(0_u64, |sum, total| sum.saturating_add(total.requested));
    let mut table = Table::new("category")
        .column("requested")
        .column("share")
        .column("peak")
        .optional("allocations", 2)
        .left("known", 1)
        .left("over time", 1);
    let mut order: Vec<usize> = (0..totals.len()).collect();
    order.sort_by_key(|&row| (std::cmp::Reverse(totals[row].requested), row));
    for row in order {
        // What is not there now and never was is not worth a line.
        if totals[row].count == 0 && series.most[row] == 0 {
            continue;
        }
        let cells = [
            text::size(totals[row].requested),
            text::share(totals[row].requested, all),
            text::bytes(series.most[row]),
            text::count(totals[row].count),
            totals[row].how(),
            series.bytes[row].iter().map(|&bytes| text::bar(bytes, highest)).collect(),
        ];
        table.row(cells, text::printable(&categories.names()[row]));
    }
    let count = totals.iter().map(|total| total.count).sum::<u64>();
    let nothing = String::new;
    table.row([text::size(all), nothing(), nothing(), text::count(count), nothing(), nothing()], "all");
    table
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    device: i32,
    event: Option<u32>,
    requested: i64,
    active: i64,
    categories: Vec<CategoryJson<'a>>,
    /// What comes with each parameter; null where that is no usual way to train, or no training.
    parameters: Option<ParametersJson>,
    series: SeriesJson,
}

#[derive(Serialize)]
struct ParametersJson {
    event: Option<u32>,
    count: u64,
    bytes_each: u64,
    weights: u64,
    gradients: u64,
    optimizer_state: u64,
    parts: &'static str,
}

impl From<Recipe> for ParametersJson {
    fn from(recipe: Recipe) -> Self {
        Self {
            event: recipe.at.event().map(|event| event.0),
            count: recipe.parameters,
            bytes_each: recipe.bytes_each(),
            weights: recipe.weights,
            gradients: recipe.gradients,
            optimizer_state: recipe.optimizer,
            parts: recipe.parts(),
        }
    }
}

#[derive(Serialize)]
struct CategoryJson<'a> {
    name: &'a str,
    requested: u64,
    active: u64,
    count: u64,
    peak: i64,
    /// Of `requested`, what is known in each way.
    known_by: KnownJson,
}

#[derive(Serialize)]
struct KnownJson {
    recorded: u64,
    certain: u64,
    likely: u64,
    unknown: u64,
}

impl From<[u64; 4]> for KnownJson {
    fn from([recorded, certain, likely, unknown]: [u64; 4]) -> Self {
        Self { recorded, certain, likely, unknown }
    }
}

#[derive(Serialize)]
struct SeriesJson {
    events: Vec<Option<u32>>,
    bytes: Vec<Vec<i64>>,
}

impl<'a> Report<'a> {
    fn new(
        subject: &Subject,
        state: &State,
        (categories, totals): (&'a Categories, &[Total]),
        recipe: Option<Recipe>,
        series: Series,
    ) -> Self {
        let named = categories.names().iter().zip(totals).zip(&series.most);
        let category = |((name, total), most): ((&'a String, &Total), &i64)| CategoryJson {
            name,
            peak: *most,
            requested: total.requested,
            active: total.active,
            count: total.count,
            known_by: total.known_by.into(),
        };
        let events = series.at.iter().map(|at| at.event().map(|event| event.0)).collect();
        Self {
            schema: "vramscope/categories/1",
            device: subject.replay().device().0,
            event: state.at.event().map(|event| event.0),
            requested: state.counters.requested,
            active: state.counters.active,
            categories: named.map(category).collect(),
            parameters: recipe.map(Into::into),
            series: SeriesJson { events, bytes: series.bytes },
        }
    }
}
