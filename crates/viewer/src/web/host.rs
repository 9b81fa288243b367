//! What the window needs, from a page.

use std::collections::HashMap;
use std::sync::Arc;

use vramscope_analysis::Moment;
use vramscope_engine::{
    AskDiff, AskTree, Asked, DEMO, DiffTree, News, Queue, Request, Response, Source, Tree, Weigh, WireError,
    decode, encode,
};

use super::INBOX;
use crate::requests::{Host, Slot};

/// Requests that a server gets at once: it has threads, and a line has a delay.
const SERVER_REQUESTS: u32 = 4;

/// Where an answer goes, and which half of it it is.
type Place = (Slot, usize);

/// Somebody who answers: a worker, or the server.
#[derive(Default)]
struct Lane {
    queue: Queue<Place>,
    busy: u32,
    /// Files that it has.
    files: u32,
}

/// A request that is out.
struct Out {
    lane: usize,
    place: Place,
    asked: Request,
}

/// The host of a page.
pub(super) struct PageHost {
    server: bool,
    lanes: Vec<Lane>,
    /// Who has a file, what it calls it, and what the page calls it.
    files: Vec<(usize, u32, String)>,
    /// What is wanted now.
    asked: HashMap<Slot, Request>,
    /// The two trees of a comparison between workers.
    halves: [Option<Arc<Tree>>; 2],
    out: HashMap<u32, Out>,
    tickets: u32,
    answers: Vec<(Slot, Request, Response)>,
}

impl PageHost {
    pub(super) fn new(server: bool) -> Self {
        Self {
            server,
            lanes: vec![Lane::default()],
            files: Vec::new(),
            asked: HashMap::new(),
            halves: [None, None],
            out: HashMap::new(),
            tickets: 0,
            answers: Vec::new(),
        }
    }

    /// Who is to be asked what. A comparison of files of two workers is a request to each.
    fn parts(&self, request: &Request) -> Vec<(usize, Request)> {
        if self.server {
            return vec![(0, request.clone())];
        }
        let lane_of = |of: &Source| self.files.get(of.file as usize).map(|(lane, ..)| *lane);
        let mut parts = vec![request.clone()];
        if let Request::Diff(AskDiff { before, after, own }) = request
            && lane_of(&before.0) != lane_of(&after.0)
        {
            let tree = |(of, at): (Source, Moment)| {
                AskTree { of, weigh: Weigh::Live(at), inverted: false, own: *own }.into()
            };
            parts = vec![tree(*before), tree(*after)];
        }
        let mut placed = Vec::new();
        for mut part in parts {
            let mut lane = 0;
            for source in part.sources() {
                if let Some((place, local, _)) = self.files.get(source.file as usize) {
                    (lane, source.file) = (*place, *local);
                }
            }
            placed.push((lane, part));
        }
        placed
    }

    /// Sends what may be sent.
    fn send(&mut self) {
        let most = if self.server { SERVER_REQUESTS } else { 1 };
        for number in 0..self.lanes.len() {
            while let Some(lane) = self.lanes.get_mut(number).filter(|lane| lane.busy < most)
                && let Some(ask) = lane.queue.pop(|(slot, _)| slot.urgency())
            {
                let Asked { slot: place, request, .. } = ask;
                let Some(asked) = self.asked.get(&place.0).cloned() else { continue };
                // Somebody else was asked for the same place in the meantime.
                if self.parts(&asked).get(place.1) != Some(&(number, request.clone())) {
                    continue;
                }
                self.tickets += 1;
                super::ask(number as u32, self.tickets, &encode(&request));
                self.out.insert(self.tickets, Out { lane: number, place, asked });
                if let Some(lane) = self.lanes.get_mut(number) {
                    lane.busy += 1;
                }
            }
        }
    }

    fn take(&mut self, ticket: u32, bytes: &[u8]) {
        let Some(Out { lane, place: (slot, half), asked }) = self.out.remove(&ticket) else { return };
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.busy = lane.busy.saturating_sub(1);
        }
        // Somebody has asked for something else in the meantime.
        if self.asked.get(&slot) != Some(&asked) {
            return;
        }
        let response = match decode::<Response>(bytes) {
            Ok(response) => response,
            Err(error) => {
                if error == WireError::Version && !bytes.is_empty() {
                    super::mismatched();
                }
                return;
            }
        };
        let response = match (&asked, response) {
            (Request::Diff(_), Response::Tree(tree)) => {
                if let Some(place) = self.halves.get_mut(half) {
                    *place = Some(tree);
                }
                let [Some(before), Some(after)] = &self.halves else { return };
                Response::Diff(DiffTree::of(before, after).into())
            }
            (_, response) => response,
        };
        self.answers.push((slot, asked, response));
    }
}

impl Host for PageHost {
    fn ask(&mut self, slot: Slot, request: Request) {
        if slot == Slot::Diff {
            self.halves = [None, None];
        }
        for (half, (lane, part)) in self.parts(&request).into_iter().enumerate() {
            if let Some(lane) = self.lanes.get_mut(lane) {
                lane.queue.push((slot, half), part);
            }
        }
        // A server stops working on what was asked for the same place before; a worker cannot be interrupted.
        if self.server {
            let stale = self.out.iter().filter(|(_, out)| out.place.0 == slot && out.asked != request);
            stale.for_each(|(ticket, _)| super::abort(*ticket));
        }
        self.asked.insert(slot, request);
        self.send();
    }

    fn answers(&mut self) -> Vec<(Slot, Request, Response)> {
        let come = INBOX.with_borrow_mut(|inbox| std::mem::take(&mut inbox.answers));
        for (ticket, bytes) in come {
            self.take(ticket, &bytes);
        }
        self.send();
        std::mem::take(&mut self.answers)
    }

    fn news(&mut self) -> Vec<News> {
        let (mut news, opened) = INBOX
            .with_borrow_mut(|inbox| (std::mem::take(&mut inbox.news), std::mem::take(&mut inbox.opened)));
        for (name, worker, devices) in opened {
            let lane = worker as usize;
            while self.lanes.len() <= lane {
                self.lanes.push(Lane::default());
            }
            let Some(place) = self.lanes.get_mut(lane) else { continue };
            let (file, local) = (self.files.len() as u32, place.files);
            place.files += 1;
            let Some(devices) = devices else {
                // Without its name, which may by now be that of the same file opened again.
                super::close(worker, local, "");
                continue;
            };
            self.files.push((lane, local, name.clone()));
            let sources = (0..devices).map(|device| Source { file, device }).collect();
            // Before what is said of all files together.
            let at = news.iter().position(|news| *news == News::Idle).unwrap_or(news.len());
            news.insert(at, News::Opened { name, sources });
        }
        news
    }

    fn close(&mut self, file: u32) {
        if let Some((lane, local, name)) = self.files.get(file as usize) {
            super::close(*lane as u32, *local, name);
        }
    }

    fn is_lost(&self) -> bool {
        INBOX.with_borrow(|inbox| inbox.is_lost)
    }

    fn has_summary(&self) -> bool {
        super::has_summary()
    }

    fn show_summary(&mut self) {
        super::show_summary();
    }

    fn set_title(&mut self, title: &str) {
        super::set_title(title);
    }

    fn open_demo(&mut self) {
        super::open_demo("demo.pickle.xz", DEMO);
    }

    fn cancel(&mut self) {
        super::cancel();
    }

    fn pick(&mut self, folder: bool) -> bool {
        super::pick(folder);
        true
    }

    fn save(&mut self, name: &str, bytes: &[u8]) -> Result<String, String> {
        super::save(name, bytes);
        Ok(name.to_owned())
    }

    fn store(&mut self, state: String) {
        super::store(&state);
    }

    fn stored(&self) -> Option<String> {
        super::stored()
    }

    fn takes_files(&self) -> bool {
        super::takes_files()
    }

    fn address(&self, link: &str) -> String {
        super::address(link)
    }

    fn reduced_motion(&self) -> bool {
        super::reduced_motion()
    }
}
