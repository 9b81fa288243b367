//! Other allocator settings for a recording, as the terminal shows them: what is selected, its curve and its map, and the
//! one request that a thread works on.

use std::sync::Arc;

use vramscope_analysis::Moment;
use vramscope_analysis::whatif::Limit;
use vramscope_engine::{
    Ask, AskSimulatedCurve, AskSimulatedMap, Request, Response, SimulatedMap, Source, Stretch, Trial, Trials,
};

use crate::document::Document;
use crate::list::List;
use crate::load::{Question, Tracker};

/// What the user sees of a simulation at the moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) device: usize,
    pub(crate) stretch: Stretch,
    pub(crate) at: Moment,
    /// Whether the table is shown, or only the curve.
    pub(crate) table: bool,
}

/// What is known, and what is on its way.
#[derive(Debug, Default)]
pub(crate) struct WhatIf {
    pub(crate) trials: Trials,
    /// The first row is the recording itself.
    pub(crate) list: List,
    curve: Option<(AskSimulatedCurve, Arc<Vec<Option<u64>>>)>,
    map: Option<(AskSimulatedMap, Arc<SimulatedMap>)>,
    on_its_way: Option<Arc<Tracker>>,
    stopped: bool,
}

impl WhatIf {
    /// Rows of the table.
    pub(crate) fn rows(&self) -> usize {
        self.trials.all().len() + 1
    }

    /// The selected setting; `None` for the recording.
    pub(crate) fn selected(&self) -> Option<&Trial> {
        self.trials.all().get(self.list.selected.checked_sub(1)?)
    }

    /// Reserved bytes of the selected setting in the columns of what is shown.
    pub(crate) fn curve(&self, stretch: Stretch) -> Option<&[Option<u64>]> {
        let under = &self.selected()?.under;
        let (asked, curve) = self.curve.as_ref()?;
        (asked.under == *under && asked.stretch == stretch).then_some(curve.as_slice())
    }

    /// The simulated map of memory, and whether it is that of this moment.
    pub(crate) fn map(&self, at: Moment) -> Option<(&SimulatedMap, bool)> {
        let under = &self.selected()?.under;
        let (asked, map) = self.map.as_ref()?;
        (asked.under == *under).then_some((&**map, asked.at == at))
    }

    /// Whether a thread is at work.
    pub(crate) fn is_busy(&self) -> bool {
        self.on_its_way.is_some()
    }

    /// Simulates settings as they are typed.
    pub(crate) fn add(&mut self, text: &str) -> Result<(), String> {
        self.list.selected = self.trials.add(text)? + 1;
        self.stopped = false;
        Ok(())
    }

    /// Simulates everything under another limit.
    pub(crate) fn set_limit(&mut self, limit: Limit) {
        self.trials.set_limit(limit);
        self.stopped = false;
    }

    /// Goes on with what was cancelled. Says whether anything was.
    pub(crate) fn go_on(&mut self) -> bool {
        std::mem::take(&mut self.stopped)
    }

    /// Whether the user cancelled.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Cancels. Says whether anything was under way.
    pub(crate) fn stop(&mut self) -> bool {
        let Some(tracker) = &self.on_its_way else { return false };
        tracker.cancel();
        self.stopped = true;
        true
    }

    /// The next request, if nothing is on its way.
    pub(crate) fn ask(&mut self, doc: &Arc<Document>, shown: Shown) -> Option<Question> {
        if self.on_its_way.is_some() || self.stopped {
            return None;
        }
        let request = self.wanted(shown)?;
        let tracker = Tracker::new(0);
        self.on_its_way = Some(Arc::clone(&tracker));
        Some(Question { doc: Arc::clone(doc), request, tracker })
    }

    /// What is looked at comes first: the selected setting, its curve, its map.
    fn wanted(&self, shown: Shown) -> Option<Request> {
        let of = Source { file: 0, device: shown.device as u32 };
        if let Some(trial) = self.selected().filter(|trial| trial.simulated().is_some()) {
            let curve = AskSimulatedCurve { of, under: trial.under.clone(), stretch: shown.stretch };
            if self.curve.as_ref().is_none_or(|(known, _)| *known != curve) {
                return Some(curve.into());
            }
            let map = AskSimulatedMap { of, under: trial.under.clone(), at: shown.at };
            if shown.table && self.map.as_ref().is_none_or(|(known, _)| *known != map) {
                return Some(map.into());
            }
        }
        if shown.table { self.trials.next(of, self.list.selected.checked_sub(1)) } else { None }
    }

    /// Takes an answer.
    pub(crate) fn receive(&mut self, question: &Question, response: Option<&Response>) {
        let is_mine = |tracker: &Arc<Tracker>| Arc::ptr_eq(tracker, &question.tracker);
        if !self.on_its_way.as_ref().is_some_and(is_mine) {
            return;
        }
        self.on_its_way = None;
        let Some(response) = response else { return };
        match &question.request {
            Request::SimulatedCurve(ask) => {
                self.curve =
                    AskSimulatedCurve::answer(response).map(|curve| (ask.clone(), Arc::clone(curve)));
            }
            Request::SimulatedMap(ask) => {
                self.map = AskSimulatedMap::answer(response).map(|map| (ask.clone(), Arc::clone(map)));
            }
            request => {
                self.trials.receive(request, response);
                if matches!(request, Request::Simulable(_)) {
                    // Something to see at once.
                    self.list.selected = self.list.selected.clamp(1, self.rows().max(2) - 1);
                }
            }
        }
    }
}
