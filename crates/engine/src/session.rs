//! Opened files, and the one place where a question meets its answer.

use std::sync::Arc;

use vramscope_analysis::Replay;
use vramscope_analysis::shapes::Shapes;
use vramscope_snapshot::Snapshot;

use crate::answers::Response;
use crate::device::{Device, File};
use crate::protocol::{Request, Source};
use crate::{details, lifetimes, map, overview, rows, search, tiles, tree};

/// A file made ready to be asked, which takes a while and needs no session.
pub struct OpenFile(File);

impl OpenFile {
    /// A file that was read and replayed. `rank` is what its name says about it, in words.
    pub fn new(
        name: impl Into<String>,
        rank: impl Into<String>,
        bytes: u64,
        snapshot: impl Into<Arc<Snapshot>>,
        replays: Vec<Replay>,
    ) -> Self {
        Self(File::new(name.into(), rank.into(), bytes, snapshot.into(), replays))
    }

    /// The same with what its process was for, where that is known from elsewhere than the file.
    #[must_use]
    pub fn with_role(mut self, role: Option<String>) -> Self {
        self.0.role = role.or(self.0.role);
        self
    }
}

/// The files that a viewer has open.
#[derive(Default)]
pub struct Session {
    files: Vec<File>,
    shapes: Option<Shapes>,
}

impl Session {
    /// Explains sizes by the dimensions of a model from now on.
    pub fn explain(&mut self, shapes: Shapes) {
        self.shapes = Some(shapes);
    }

    /// Adds a file and returns its devices.
    pub fn add(&mut self, file: OpenFile) -> Vec<Source> {
        let number = self.files.len() as u32;
        let devices = file.0.devices.len() as u32;
        self.files.push(file.0);
        (0..devices).map(|device| Source { file: number, device }).collect()
    }

    /// Answers a question. `None` if `go_on` said to stop.
    pub fn answer(&self, request: &Request, go_on: &dyn Fn() -> bool) -> Option<Response> {
        self.find_and_answer(request, go_on).unwrap_or(Some(Response::Nothing))
    }

    fn at(&self, of: Source) -> Option<(&File, &Device)> {
        let file = self.files.get(of.file as usize)?;
        Some((file, file.devices.get(of.device as usize)?))
    }

    /// The outer `None` says that there is no such thing, the inner one that it was stopped.
    fn find_and_answer(&self, request: &Request, go_on: &dyn Fn() -> bool) -> Option<Option<Response>> {
        Some(match request {
            Request::Summary(of) => {
                let (file, device) = self.at(*of)?;
                Some(Response::Summary(Box::new(overview::summary(file, device))))
            }
            Request::Tile { of, bytes, stretch, y, height, pools, categories } => {
                let (file, device) = self.at(*of)?;
                tiles::timeline(file, device, *bytes, *stretch, *y, *height, *pools, *categories, go_on)
                    .map(Response::Tile)
            }
            Request::Lanes { of, bytes, stretch, lanes, height, categories } => {
                let (file, device) = self.at(*of)?;
                tiles::lanes(file, device, *bytes, *stretch, lanes, *height, *categories, go_on)
                    .map(Response::Tile)
            }
            Request::Outline { of, bytes, stretch, alloc, pools } => {
                let (file, device) = self.at(*of)?;
                let index = device.index(*alloc)?;
                Some(Response::Outline(tiles::outline(file, device, *bytes, *stretch, index, *pools)))
            }
            Request::Curve { of, stretch } => {
                let (file, device) = self.at(*of)?;
                Some(Response::Curve(tiles::curve(file, device, *stretch)))
            }
            Request::Moment { of, at, whole } => {
                let (file, device) = self.at(*of)?;
                Some(Response::Moment(Box::new(overview::moment(file, device, *at, *whole))))
            }
            Request::Details { of, alloc, at } => {
                let (file, device) = self.at(*of)?;
                let index = device.index(*alloc)?;
                Some(Response::Details(Box::new(details::details(
                    file,
                    device,
                    index,
                    *at,
                    self.shapes.as_ref(),
                ))))
            }
            Request::State { of, at } => {
                let (file, device) = self.at(*of)?;
                Some(Response::State(Box::new(map::map(file, device, *at))))
            }
            Request::Tree { of, weigh, inverted, own } => {
                let (file, device) = self.at(*of)?;
                Some(Response::Tree(tree::tree(file, device, *weigh, *inverted, *own)))
            }
            Request::Diff { before, after, own } => {
                let before = (self.at(before.0)?, before.1);
                let after = (self.at(after.0)?, after.1);
                Some(Response::Diff(tree::diff(before, after, *own)))
            }
            Request::Allocations { of, filter, sort, descending, first, count } => {
                let (file, device) = self.at(*of)?;
                let wanted = rows::Wanted::new(filter, *sort, *descending, *first, *count);
                rows::allocations(file, device, &wanted, go_on).map(Response::Allocations)
            }
            Request::Stacks { of, filter, sort, descending, first, count } => {
                let (file, device) = self.at(*of)?;
                let wanted = rows::Wanted::new(filter, *sort, *descending, *first, *count);
                rows::stacks(file, device, &wanted, go_on).map(Response::Stacks)
            }
            Request::Lifetimes { of, filter, group, first, count } => {
                let (file, device) = self.at(*of)?;
                lifetimes::page(file, device, filter, *group, *first, *count, go_on).map(Response::Lifetimes)
            }
            Request::Search { of, text } => {
                let (file, device) = self.at(*of)?;
                Some(Response::Search(search::search(file, device, text)))
            }
            Request::Convert { of, from, x } => {
                let (file, device) = self.at(*of)?;
                Some(Response::Converted(tiles::convert(file, device, *from, *x)))
            }
            Request::Rank(of) => {
                let (file, device) = self.at(*of)?;
                Some(Response::Rank(Box::new(overview::rank(file, device))))
            }
            Request::Insights(of) => {
                let (file, device) = self.at(*of)?;
                Some(Response::Insights(overview::insights(file, device)))
            }
        })
    }
}
