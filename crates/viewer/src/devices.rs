//! Files and their devices: in the order in which people named and count them, each with a name of its own.

use std::collections::HashMap;
use std::sync::Arc;

use vramscope_engine::{FleetView, Source, Summary};
use vramscope_format::size;
use vramscope_naming::Name;

use crate::app::App;
use crate::camera::Camera;
use crate::history::History;
use crate::select::Selection;

/// A device that is open, or was when its summary has not come yet.
pub(crate) struct Device {
    pub(crate) source: Source,
    pub(crate) summary: Option<Arc<Summary>>,
    /// What it is called in lists: the rank, and what tells it from others with the same.
    pub(crate) name: String,
    /// Whether most of its peak has a category, once that is known.
    pub(crate) categorized: Option<bool>,
    path: String,
    place: Name,
}

/// The share of reading in the time until a file is open; the rest replays it.
const READING: f32 = 0.7;

/// A file on its way.
pub(crate) struct Reading {
    pub(crate) name: String,
    pub(crate) done: u64,
    pub(crate) total: u64,
}

impl Reading {
    /// The share of the work that is done, as far as it can be told.
    pub(crate) fn share(&self) -> f32 {
        (self.done as f32 / self.total.max(1) as f32).min(1.0) * READING
    }

    /// The same in words. What was read is still to be replayed, which takes a third of the time.
    pub(crate) fn progress(&self) -> String {
        if self.total > 0 && self.done >= self.total {
            return "replaying…".into();
        }
        format!("{} of {}", size(self.done), size(self.total))
    }
}

/// Many files: all by their figures.
#[derive(Default)]
pub(crate) struct FleetFiles {
    pub(crate) names: Vec<String>,
    pub(crate) view: Arc<FleetView>,
    /// Counts up when the view changes.
    pub(crate) version: u64,
}

/// Files that are open, on their way, or could not be opened.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) devices: Vec<Device>,
    pub(crate) reading: Vec<Reading>,
    pub(crate) failed: Vec<(String, String)>,
    /// The device that is shown.
    pub(crate) current: usize,
    /// A second one below it.
    pub(crate) beside: Option<usize>,
    /// Names of files in the order in which they were named.
    named: Vec<String>,
    /// Many files, of which only some are open.
    pub(crate) fleet: Option<FleetFiles>,
    /// A file to show as soon as it is open.
    pub(crate) wanted: Option<String>,
    /// Whether a device was shown.
    pub(crate) started: bool,
    /// Whether somebody has touched anything.
    pub(crate) touched: bool,
}

impl Files {
    /// A file is read this far.
    pub(crate) fn read(&mut self, name: String, done: u64, total: u64) {
        match self.reading.iter_mut().find(|reading| reading.name == name) {
            Some(reading) => (reading.done, reading.total) = (done, total),
            None => {
                if !self.named.contains(&name) {
                    self.named.push(name.clone());
                }
                self.reading.push(Reading { name, done, total });
            }
        }
    }

    /// The device that is shown below the current one.
    pub(crate) fn beside(&self) -> Option<&Summary> {
        self.devices.get(self.beside?)?.summary.as_deref()
    }

    /// Whether all that is open are ranks of a run, and so comparable.
    pub(crate) fn are_ranks(&self) -> bool {
        let is_rank =
            |device: &Device| device.summary.as_ref().is_none_or(|summary| !summary.rank.is_empty());
        self.devices.len() > 1 && self.devices.iter().all(is_rank)
    }

    /// The first device of a file that is open and known.
    pub(crate) fn device_of(&self, path: &str) -> Option<usize> {
        self.devices.iter().position(|device| device.path == path && device.summary.is_some())
    }

    /// Gives every device a name of its own, when another one is known.
    pub(crate) fn name_devices(&mut self) {
        let summaries: Vec<_> = self.devices.iter().filter_map(|device| device.summary.clone()).collect();
        let mut names = names(&summaries).into_iter();
        for device in self.devices.iter_mut().filter(|device| device.summary.is_some()) {
            device.name = names.next().unwrap_or_default();
        }
    }

    /// Where a file stands in lists: runs as they were named, each by step and rank.
    fn key(&self, path: &str, place: &Name) -> impl Ord + use<> {
        let order = |path: &str| self.named.iter().position(|known| known == path).unwrap_or(usize::MAX);
        let (group, step, oom, rank) = place.key();
        let group = group.to_owned();
        let run =
            self.devices.iter().filter(|known| known.place.group == group).map(|known| order(&known.path));
        let run = run.chain([order(path)]).min();
        (run, group, step, oom, rank, order(path), path.to_owned())
    }
}

impl App {
    /// Puts the devices of a file where they belong: ranks are read side by side, and end in any order. A file that was
    /// opened before takes the place of what was read then.
    pub(crate) fn add_devices(&mut self, path: &str, sources: Vec<Source>) {
        if let Some(before) = self.files.devices.iter().position(|device| device.path == path) {
            self.close(before);
            self.files.wanted = Some(path.to_owned());
        }
        let files = &mut self.files;
        let place = vramscope_naming::name(path);
        let added = sources.into_iter().map(|source| Device {
            categorized: None,
            source,
            summary: None,
            name: String::new(),
            path: path.to_owned(),
            place: place.clone(),
        });
        files.devices.extend(added);
        let mut order: Vec<usize> = (0..files.devices.len()).collect();
        let keys: Vec<_> =
            files.devices.iter().map(|device| files.key(&device.path, &device.place)).collect();
        order.sort_by(|a, b| keys[*a].cmp(&keys[*b]));
        let moved =
            |device: &mut usize| *device = order.iter().position(|old| old == device).unwrap_or(*device);
        if files.started {
            moved(&mut files.current);
        }
        for device in [&mut files.beside, &mut self.parts.compare.other].into_iter().flatten() {
            moved(device);
        }
        let mut old: Vec<_> = std::mem::take(&mut files.devices).into_iter().map(Some).collect();
        files.devices = order.iter().filter_map(|&at| old.get_mut(at)?.take()).collect();
    }

    /// Closes the file of a device, with all of its devices. The one that comes after it is shown.
    pub(crate) fn close(&mut self, device: usize) {
        let files = &mut self.files;
        let Some(file) = files.devices.get(device).map(|device| device.source.file) else { return };
        let stays = |device: &Device| device.source.file != file;
        let before = |at: usize| files.devices.iter().take(at).filter(|device| stays(device)).count();
        let moved = |at: usize| files.devices.get(at).filter(|device| stays(device)).map(|_| before(at));
        let (current, next) = (moved(files.current), before(files.current));
        let (beside, other) = (files.beside.and_then(moved), self.parts.compare.other.and_then(moved));
        files.devices.retain(stays);
        (files.beside, self.parts.compare.other) = (beside, other);
        files.name_devices();
        self.requests.close(file);
        self.history = History::default();
        if let Some(current) = current {
            files.current = current;
            return;
        }
        files.current = next.min(files.devices.len().saturating_sub(1));
        files.started = false;
        (self.isolated, self.selection, self.camera) = (None, Selection::default(), Camera::default());
        self.notes.clear();
    }

    /// Shows one of many files, opening it first if it is not in memory.
    pub(crate) fn show_file(&mut self, file: usize) {
        let Some(path) = self.files.fleet.as_ref().and_then(|fleet| fleet.names.get(file).cloned()) else {
            return;
        };
        match self.files.device_of(&path) {
            Some(device) => self.focus(device),
            None if self.files.wanted.as_ref() != Some(&path) => {
                self.files.wanted = Some(path.clone());
                self.requests.host.open_one(path);
            }
            None => {}
        }
    }

    /// What a device is called.
    pub(crate) fn name_of(&self, device: usize) -> String {
        self.files.devices.get(device).map_or_else(String::new, |device| device.name.clone())
    }
}

fn rank_and_device(summary: &Summary) -> String {
    match (summary.rank.as_str(), summary.device.as_str()) {
        ("", device) => device.to_owned(),
        (rank, "cuda:0" | "NPU 0" | "GPU 0") => rank.to_owned(),
        (rank, device) => format!("{rank} {device}"),
    }
}

/// What the devices are called: the rank, and the part of the path that tells apart those with the same rank.
fn names(summaries: &[Arc<Summary>]) -> Vec<String> {
    let mut alike: HashMap<String, Vec<Vec<&str>>> = HashMap::new();
    for summary in summaries {
        let paths = alike.entry(rank_and_device(summary)).or_default();
        let path = summary.file.split(['/', '\\']).collect();
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let name = |summary: &Arc<Summary>| {
        let short = rank_and_device(summary);
        let paths = alike.get(&short).map(Vec::as_slice).unwrap_or_default();
        let [first, others @ ..] = paths else { return short };
        if others.is_empty() {
            return short;
        }
        let path: Vec<&str> = summary.file.split(['/', '\\']).collect();
        let same = |at: &dyn Fn(&Vec<&str>, usize) -> Option<String>| {
            let is_same = |n: &usize| {
                at(first, *n)
                    .is_some_and(|part| paths.iter().all(|path| at(path, *n).as_ref() == Some(&part)))
            };
            (0..first.len()).take_while(is_same).count()
        };
        let front = same(&|path, n| path.get(n).map(ToString::to_string));
        let back = same(&|path, n| path.iter().rev().nth(n).map(ToString::to_string));
        let apart = path.get(front..path.len().saturating_sub(back)).filter(|part| !part.is_empty());
        let apart =
            apart.map_or_else(|| path.last().copied().unwrap_or_default().to_owned(), |part| part.join("/"));
        if summary.rank.is_empty() && summary.device == "cuda:0" {
            apart
        } else {
            format!("{short} · {apart}")
        }
    };
    summaries.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(files: &[(&str, &str)]) -> Vec<String> {
        let summary = |&(file, rank): &(&str, &str)| {
            let (file, rank, device) = (file.to_owned(), rank.to_owned(), "cuda:0".to_owned());
            Arc::new(Summary { file, rank, device, ..Summary::default() })
        };
        names(&files.iter().map(summary).collect::<Vec<_>>())
    }

    #[test]
    fn ranks_are_called_by_their_number_and_files_by_what_differs() {
        assert_eq!(
            called(&[("run/rank0.pickle", "rank 0"), ("run/rank1.pickle", "rank 1")]),
            ["rank 0", "rank 1"]
        );
        assert_eq!(called(&[("run/snapshot.pickle", "")]), ["cuda:0"]);
        assert_eq!(called(&[("run/a.pickle", ""), ("run/b.pickle", "")]), ["a.pickle", "b.pickle"]);
        assert_eq!(called(&[("x/before/s.pickle", ""), ("x/after/s.pickle", "")]), ["before", "after"]);
        assert_eq!(
            called(&[("before/rank0.pickle", "rank 0"), ("after/rank0.pickle", "rank 0")]),
            ["rank 0 · before", "rank 0 · after"]
        );
    }
}
