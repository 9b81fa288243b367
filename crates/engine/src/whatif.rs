//! The recording under other allocator settings: what is simulated is kept, so that the next request goes on from it.

use std::sync::PoisonError;

use serde::{Deserialize, Serialize};
use vramscope_analysis::Moment;
use vramscope_analysis::whatif::{Limit, Remark, Row, Simulation, Under, WhatIf, choices};
use vramscope_format::Units;
use vramscope_simulate::{End, SimulatedSegment, Study};

use crate::device::{DeviceIndex, File};
use crate::protocol::Stretch;

/// Settings whose simulations are kept.
const KEPT: usize = 16;

/// What can be simulated at all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Simulable {
    /// Why nothing can be; the rest is empty then.
    pub refused: Option<String>,
    /// What was recorded, what is simulated, and how far it can be trusted.
    pub about: Vec<Remark>,
    /// The recording itself.
    pub recorded: Row,
    /// Ready-made settings.
    pub choices: Vec<Under>,
}

/// A setting as far as it is simulated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// Why it cannot be simulated; the rest is empty then.
    pub problem: Option<String>,
    /// What is known so far.
    pub row: Row,
    /// Orders of device addresses that are simulated, and how many there are.
    pub orders: (u32, u32),
}

/// A segment of the simulated allocator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedRange {
    /// Bytes.
    pub size: u64,
    /// Stream handle.
    pub stream: u64,
    /// Pool in words.
    pub pool: String,
    /// Whether it is an expandable segment.
    pub expandable: bool,
    /// Blocks in use: bytes from the beginning of the segment, and how many.
    pub used: Vec<(u64, u64)>,
}

/// The simulated map of memory at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedMap {
    /// Which moment.
    pub at: Moment,
    /// Whether the simulation ended before: the map is that of its end.
    pub ended: bool,
    /// Reserved bytes.
    pub reserved: u64,
    /// Active bytes.
    pub active: u64,
    /// The largest block that is free.
    pub largest_hole: u64,
    /// Segments by address.
    pub ranges: Vec<SimulatedRange>,
}

impl SimulatedRange {
    fn new(segment: &SimulatedSegment) -> Self {
        let used = segment.blocks.iter().filter(|&&(_, _, in_use)| in_use);
        Self {
            size: segment.size,
            stream: segment.place.stream,
            pool: vramscope_format::pool(Some(segment.place.pool)),
            expandable: segment.expandable,
            used: used.map(|&(addr, size, _)| (addr.saturating_sub(segment.addr), size)).collect(),
        }
    }
}

fn study<'a>(file: &File, device: &'a DeviceIndex) -> Result<&'a Study, String> {
    let make = || Study::new(&file.snapshot, device.replay.device(), None).map_err(|error| error.to_string());
    device.study.get_or_init(make).as_ref().map_err(String::clone)
}

fn words<'a>(file: &'a File, device: &'a DeviceIndex, study: &'a Study) -> WhatIf<'a> {
    WhatIf { snapshot: &file.snapshot, replay: &device.replay, study, units: Units::default() }
}

pub(crate) fn simulable(file: &File, device: &DeviceIndex, limit: Limit) -> Simulable {
    let study = match study(file, device) {
        Ok(study) => study,
        Err(refused) => return Simulable { refused: Some(refused), ..Simulable::default() },
    };
    let words = words(file, device, study);
    Simulable {
        refused: None,
        about: words.about(limit.of(study)),
        recorded: words.recorded(),
        choices: choices(study, limit),
    }
}

/// Simulates until `orders` orders are done. `Ok(None)` if `go_on` said to stop; the error says why it cannot be.
fn simulation(
    file: &File,
    device: &DeviceIndex,
    under: &Under,
    orders: usize,
    go_on: &dyn Fn() -> bool,
) -> Result<Option<Simulation>, String> {
    let study = study(file, device)?;
    let kept = || device.simulations.lock().unwrap_or_else(PoisonError::into_inner);
    let known = kept().iter().find(|(known, _)| known == under).map(|(_, simulation)| simulation.clone());
    let mut simulation = match known {
        Some(simulation) => simulation,
        None => Simulation::new(study, under).map_err(|error| error.to_string())?,
    };
    let mut finished = true;
    while finished && simulation.orders().0 < orders.min(simulation.orders().1) {
        finished = simulation.advance(study, go_on);
    }
    let mut kept = kept();
    kept.retain(|(known, _)| known != under);
    if kept.len() >= KEPT {
        kept.remove(0);
    }
    kept.push((under.clone(), simulation.clone()));
    Ok(finished.then_some(simulation))
}

/// A setting after some orders of addresses. `None` if `go_on` said to stop.
pub(crate) fn simulate(
    file: &File,
    device: &DeviceIndex,
    under: &Under,
    orders: u32,
    go_on: &dyn Fn() -> bool,
) -> Option<Simulated> {
    let simulation = match simulation(file, device, under, orders.max(1) as usize, go_on) {
        Ok(simulation) => simulation?,
        Err(problem) => return Some(Simulated { problem: Some(problem), ..Simulated::default() }),
    };
    let (done, all) = simulation.orders();
    let row = match (study(file, device), simulation.answer()) {
        (Ok(study), Some(answer)) => words(file, device, study).row(&answer),
        _ => Row::default(),
    };
    Some(Simulated { problem: None, row, orders: (done as u32, all as u32) })
}

/// Reserved bytes of a simulation, the highest of each column; `None` outside it. Nothing where it cannot be simulated.
pub(crate) fn curve(
    file: &File,
    device: &DeviceIndex,
    under: &Under,
    stretch: Stretch,
    go_on: &dyn Fn() -> bool,
) -> Option<Vec<Option<u64>>> {
    let simulation = match simulation(file, device, under, 1, go_on) {
        Ok(simulation) => simulation?,
        Err(_) => return Some(Vec::new()),
    };
    let levels = simulation.levels();
    let columns = crate::tiles::columns(file, device, stretch);
    Some(
        columns
            .iter()
            .map(|moments| moments.and_then(|(from, to)| levels.highest(from.0, to.0 + 1)))
            .collect(),
    )
}

/// The simulated map of memory at a moment. `None` if `go_on` said to stop.
pub(crate) fn map(
    file: &File,
    device: &DeviceIndex,
    under: &Under,
    at: Moment,
    go_on: &dyn Fn() -> bool,
) -> Option<SimulatedMap> {
    let empty = SimulatedMap { at, ended: true, ..SimulatedMap::default() };
    let Ok(study) = study(file, device) else { return Some(empty) };
    let Ok(settings) = under.settings(study) else { return Some(empty) };
    let outcome = study.simulator.state(&settings, at.0, go_on)?;
    Some(SimulatedMap {
        at,
        ended: match outcome.end {
            End::OutOfMemory(oom) => oom.moment < at.0,
            End::PastFailure(moment) => moment < at.0,
            End::Complete | End::Cancelled => false,
        },
        reserved: outcome.counters.reserved,
        active: outcome.counters.active,
        largest_hole: outcome.largest_free,
        ranges: outcome.segments.iter().map(SimulatedRange::new).collect(),
    })
}
