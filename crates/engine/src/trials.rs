//! Settings that a user compares: the ready-made ones and those that were typed, each as far as it is simulated, and what
//! to request next. Every surface keeps one of these for a device.

use std::sync::Arc;

use vramscope_analysis::whatif::{Limit, Under};

use crate::answers::Response;
use crate::protocol::{Ask, AskSimulable, AskSimulated, Request, Source};
use crate::whatif::{Simulable, Simulated};

/// A setting with what is known about it.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Which settings.
    pub under: Under,
    /// What is known; `None` until the first order of addresses is simulated.
    pub answer: Option<Arc<Simulated>>,
}

impl Trial {
    /// What is known, if it can be simulated at all.
    pub fn simulated(&self) -> Option<&Simulated> {
        self.answer.as_deref().filter(|answer| answer.problem.is_none())
    }

    /// The orders to request next; `None` if there are no more.
    fn next(&self) -> Option<u32> {
        match &self.answer {
            None => Some(1),
            Some(answer) if answer.orders.0 < answer.orders.1 => Some(answer.orders.0 + 1),
            Some(_) => None,
        }
    }
}

/// The settings of one device.
#[derive(Clone, Debug, Default)]
pub struct Trials {
    limit: Limit,
    /// Settings that were typed, oldest first.
    typed: Vec<String>,
    /// Whether and how the recording can be simulated, with the limit that it was requested for.
    about: Option<(Limit, Arc<Simulable>)>,
    trials: Vec<Trial>,
}

impl Trials {
    /// Whether and how the recording can be simulated; `None` until that is known.
    pub fn about(&self) -> Option<&Simulable> {
        self.about.as_ref().map(|(_, about)| &**about)
    }

    /// The settings: the ready-made ones, then those that were typed.
    pub fn all(&self) -> &[Trial] {
        &self.trials
    }

    /// What was typed last.
    pub fn last_typed(&self) -> &str {
        self.typed.last().map_or("", String::as_str)
    }

    /// Adds settings as they are typed, and returns their place in [`Trials::all`]. The error says what is wrong.
    pub fn add(&mut self, text: &str) -> Result<usize, String> {
        let under = Under { settings: text.trim().to_owned(), limit: self.limit };
        under.check().map_err(|error| error.to_string())?;
        if let Some(known) = self.trials.iter().position(|trial| trial.under == under) {
            return Ok(known);
        }
        self.typed.push(under.settings.clone());
        self.trials.push(Trial { under, answer: None });
        Ok(self.trials.len() - 1)
    }

    /// Simulates everything under another limit.
    pub fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// Orders of addresses that are simulated, and how many there are to be, as far as that is known.
    pub fn progress(&self) -> (u32, u32) {
        let orders =
            self.trials.iter().map(|trial| trial.answer.as_ref().map_or((0, 1), |answer| answer.orders));
        orders.fold((0, 0), |(done, all), (more, of)| (done + more, all + of))
    }

    /// What to request next: what is looked at (`first`) before the others, and of those a first answer for each before
    /// more of any. `None` if everything is known.
    pub fn next(&self, of: Source, first: Option<usize>) -> Option<Request> {
        if self.about.as_ref().is_none_or(|(limit, _)| *limit != self.limit) {
            return Some(AskSimulable { of, limit: self.limit }.into());
        }
        let looked_at = first.and_then(|first| self.trials.get(first)).filter(|trial| trial.answer.is_none());
        let waiting = self.trials.iter().filter_map(|trial| Some((trial.next()?, trial)));
        let next = looked_at.map(|trial| (1, trial)).or_else(|| waiting.min_by_key(|(orders, _)| *orders));
        next.map(|(orders, trial)| AskSimulated { of, under: trial.under.clone(), orders }.into())
    }

    /// Takes an answer to what [`Trials::next`] requested.
    pub fn receive(&mut self, request: &Request, response: &Response) {
        match request {
            Request::Simulable(ask) => {
                if let Some(about) = AskSimulable::answer(response) {
                    self.begin(ask.limit, Arc::clone(about));
                }
            }
            Request::Simulated(ask) => {
                let trial = self.trials.iter_mut().find(|trial| trial.under == ask.under);
                if let (Some(trial), Some(answer)) = (trial, AskSimulated::answer(response)) {
                    trial.answer = Some(Arc::clone(answer));
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, limit: Limit, about: Arc<Simulable>) {
        let typed = self.typed.iter().map(|settings| Under { settings: settings.clone(), limit });
        let typed = typed.filter(|under| !about.choices.contains(under));
        let unders = about.choices.iter().cloned().chain(typed).filter(|_| about.refused.is_none());
        self.trials = unders.map(|under| Trial { under, answer: None }).collect();
        self.about = Some((limit, about));
    }
}
