//! Opened files, and the one place that answers requests.

use std::fmt;
use std::sync::Arc;

use vramscope_analysis::Device;
use vramscope_analysis::shapes::Shapes;
use vramscope_snapshot::Snapshot;

use crate::answers::{Response, Summary};
use crate::device::{DeviceIndex, File};
use crate::protocol::{Ask, AskCsv, AskDiff, CsvOf, Request, Source};
use crate::sql::{OpenSnapshot, Sql};
use crate::wire::{decode, encode};
use crate::{
    details, events, here, insights, lifetimes, map, overview, range, report, rows, search, sets, tiles,
    tree, whatif,
};

/// A file that is ready for requests. Making it takes a while and needs no session.
pub struct OpenFile(File);

impl OpenFile {
    /// A file that was read and replayed. `rank` is what its name says about it, in words.
    pub fn new(
        name: impl Into<String>,
        rank: impl Into<String>,
        bytes: u64,
        snapshot: impl Into<Arc<Snapshot>>,
        devices: impl IntoIterator<Item = impl Into<Arc<Device>>>,
    ) -> Self {
        let devices = devices.into_iter().map(Into::into).collect();
        Self(File::new(name.into(), rank.into(), bytes, snapshot.into(), devices))
    }

    /// The same with what its process was for, where that is known from elsewhere than the file.
    #[must_use]
    pub fn with_role(mut self, role: Option<String>) -> Self {
        self.0.role = role.or(self.0.role);
        self
    }
}

/// The files that a viewer has open. A copy shares them, so that a long answer needs no lock.
#[derive(Clone, Default)]
pub struct Session {
    /// By number; what is closed leaves its place empty, so that the others keep theirs.
    files: Vec<Option<Arc<File>>>,
    shapes: Option<Arc<Shapes>>,
    sql: Option<Arc<dyn Sql>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.files.iter().flatten().map(|file| file.name.as_str()).collect();
        f.debug_struct("Session").field("files", &names).finish_non_exhaustive()
    }
}

impl Session {
    /// Explains sizes by the dimensions of a model from now on.
    pub fn explain(&mut self, shapes: Shapes) {
        self.shapes = Some(Arc::new(shapes));
    }

    /// Answers SQL from now on.
    pub fn set_sql(&mut self, sql: Option<Arc<dyn Sql>>) {
        self.sql = sql;
    }

    /// Adds a file and returns its devices.
    pub fn add(&mut self, file: OpenFile) -> Vec<Source> {
        let number = self.files.len() as u32;
        let devices = file.0.devices.len() as u32;
        self.files.push(Some(Arc::new(file.0)));
        (0..devices).map(|device| Source { file: number, device }).collect()
    }

    /// Lets go of a file. Its number is not given again.
    pub fn close(&mut self, file: u32) {
        if let Some(place) = self.files.get_mut(file as usize) {
            *place = None;
        }
    }

    /// Answers a request. `None` if `go_on` said to stop.
    pub fn answer(&self, request: &Request, go_on: &dyn Fn() -> bool) -> Option<Response> {
        self.find_and_answer(request, go_on).unwrap_or(Some(Response::Nothing))
    }

    /// Answers a request as its own type. `None` if there is no such file, device or allocation.
    pub fn ask<A: Ask>(&self, ask: A) -> Option<Arc<A::Answer>> {
        A::answer(&self.answer(&ask.into(), &|| true)?).map(Arc::clone)
    }

    /// Answers an encoded request. One that cannot be read has an empty answer, from which the page sees whether it is
    /// of another version. `None` if `go_on` said to stop.
    pub fn answer_encoded(&self, request: &[u8], go_on: &dyn Fn() -> bool) -> Option<Vec<u8>> {
        let response = match decode::<Request>(request) {
            Ok(request) => self.answer(&request, go_on)?,
            Err(_) => Response::Nothing,
        };
        Some(encode(&response))
    }

    /// The files that are open, as SQL reads them.
    fn snapshots(&self) -> Vec<OpenSnapshot> {
        let open = |file: &Arc<File>| OpenSnapshot {
            name: file.name.clone(),
            snapshot: Arc::clone(&file.snapshot),
            devices: file.devices.iter().map(|device| Arc::clone(&device.replay)).collect(),
        };
        self.files.iter().flatten().map(open).collect()
    }

    fn at(&self, of: Source) -> Option<(&File, &DeviceIndex)> {
        let file = self.files.get(of.file as usize)?.as_deref()?;
        Some((file, file.devices.get(of.device as usize)?))
    }

    /// The outer `None` says that there is no such file, device or allocation, the inner one that it was stopped.
    fn find_and_answer(&self, request: &Request, go_on: &dyn Fn() -> bool) -> Option<Option<Response>> {
        use Response as R;
        Some(match request {
            Request::Summary(ask) => {
                let (file, device) = self.at(ask.of)?;
                let has_sql = self.sql.is_some();
                Some(R::Summary(Summary { has_sql, ..overview::summary(file, device) }.into()))
            }
            Request::Tile(ask) => {
                let (file, device) = self.at(ask.of)?;
                tiles::timeline(file, device, ask, go_on).map(|tile| R::Tile(tile.into()))
            }
            Request::Lanes(ask) => {
                let (file, device) = self.at(ask.of)?;
                tiles::lanes(file, device, ask, go_on).map(|tile| R::Tile(tile.into()))
            }
            Request::Outline(ask) => {
                let (file, device) = self.at(ask.of)?;
                device.index(ask.alloc)?;
                tiles::outline(file, device, ask, go_on).map(|outline| R::Outline(outline.into()))
            }
            Request::Curve(ask) => {
                let (file, device) = self.at(ask.of)?;
                Some(R::Curve(tiles::curve(file, device, ask.stretch).into()))
            }
            Request::Levels(ask) => {
                let (file, device) = self.at(ask.of)?;
                sets::levels(file, device, ask, go_on).map(|levels| R::Levels(levels.into()))
            }
            Request::Here(ask) => {
                let (file, device) = self.at(ask.of)?;
                here::here(file, device, ask, go_on).map(|here| R::Here(here.into()))
            }
            Request::Range(ask) => {
                let (file, device) = self.at(ask.of)?;
                range::range(file, device, ask, go_on).map(|change| R::Range(change.into()))
            }
            Request::Events(ask) => {
                let (file, device) = self.at(ask.of)?;
                Some(R::Events(events::page(file, device, ask.first, ask.count).into()))
            }
            Request::Report(ask) => {
                let (file, device) = self.at(ask.of)?;
                Some(R::Report(report::report(file, device, ask).into()))
            }
            Request::Moment(ask) => {
                let (file, device) = self.at(ask.of)?;
                Some(R::Moment(overview::moment(file, device, ask.at, ask.whole).into()))
            }
            Request::Details(ask) => {
                let (file, device) = self.at(ask.of)?;
                let index = device.index(ask.alloc)?;
                Some(R::Details(details::details(file, device, index, ask.at, self.shapes.as_deref()).into()))
            }
            Request::State(ask) => {
                let (file, device) = self.at(ask.of)?;
                Some(R::State(map::map(file, device, ask.at, ask.categories).into()))
            }
            Request::Tree(ask) => {
                let (file, device) = self.at(ask.of)?;
                Some(R::Tree(tree::tree(file, device, ask.weigh, ask.inverted, ask.own).into()))
            }
            Request::Diff(AskDiff { before, after, own }) => {
                let before = (self.at(before.0)?, before.1);
                let after = (self.at(after.0)?, after.1);
                Some(R::Diff(tree::diff(before, after, *own).into()))
            }
            Request::Allocations(ask) => {
                let (file, device) = self.at(ask.of)?;
                let page = rows::allocations(file, device, &ask.list, go_on);
                rows::sent(page).map(|page| R::Allocations(page.into()))
            }
            Request::Stacks(ask) => {
                let (file, device) = self.at(ask.of)?;
                rows::sent(rows::stacks(file, device, &ask.list, go_on)).map(|page| R::Stacks(page.into()))
            }
            Request::Csv(AskCsv { table: CsvOf::Sql(result), first, count, .. }) => {
                let page = self.sql.as_ref()?.csv(*result, *first, *count)?;
                Some(R::Csv(page.into()))
            }
            Request::Csv(ask) => {
                let (file, device) = self.at(ask.of)?;
                rows::sent(rows::csv(file, device, ask, go_on)).map(|page| R::Csv(page.into()))
            }
            Request::Lifetimes(ask) => {
                let (file, device) = self.at(ask.of)?;
                rows::sent(lifetimes::page(file, device, ask, go_on)).map(|page| R::Lifetimes(page.into()))
            }
            Request::Search(ask) => {
                let (file, device) = self.at(ask.of)?;
                Some(R::Search(search::search(file, device, &ask.text).into()))
            }
            Request::Convert(ask) => {
                let (file, device) = self.at(ask.of)?;
                Some(R::Converted(tiles::convert(file, device, ask.from, ask.x).into()))
            }
            Request::Rank(ask) => {
                let (file, device) = self.at(ask.of)?;
                Some(R::Rank(overview::rank(file, device).into()))
            }
            Request::Simulable(ask) => {
                let (file, device) = self.at(ask.of)?;
                Some(R::Simulable(whatif::simulable(file, device, ask.limit).into()))
            }
            Request::Simulated(ask) => {
                let (file, device) = self.at(ask.of)?;
                let answer = whatif::simulate(file, device, &ask.under, ask.orders, go_on);
                answer.map(|answer| R::Simulated(answer.into()))
            }
            Request::SimulatedCurve(ask) => {
                let (file, device) = self.at(ask.of)?;
                let answer = whatif::curve(file, device, &ask.under, ask.stretch, go_on);
                answer.map(|answer| R::SimulatedCurve(answer.into()))
            }
            Request::SimulatedMap(ask) => {
                let (file, device) = self.at(ask.of)?;
                let answer = whatif::map(file, device, &ask.under, ask.at, go_on);
                answer.map(|answer| R::SimulatedMap(answer.into()))
            }
            Request::Insights(ask) => {
                let (file, device) = self.at(ask.of)?;
                Some(R::Insights(insights::insights(file, device).into()))
            }
            Request::SqlCatalog(_) => Some(R::SqlCatalog(self.sql.as_ref()?.catalog().into())),
            Request::Sql(ask) => {
                let answer = self.sql.as_ref()?.run(self.snapshots(), &ask.query, go_on);
                answer.map(|result| R::Sql(result.into()))
            }
            Request::SqlRows(ask) => {
                Some(R::SqlRows(self.sql.as_ref()?.rows(ask.result, ask.first, ask.count)?.into()))
            }
        })
    }
}
