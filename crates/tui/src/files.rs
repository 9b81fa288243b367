//! Which files are open: what the threads bring, and which pane it goes to.

use std::sync::Arc;

use vramscope_files::Input;

use crate::app::{App, Effect};
use crate::document::Document;
use crate::load::{Job, News, Purpose, Tracker, Watched, figures};
use crate::pane::Pane;
use crate::ranks::Progress;

impl App {
    pub(crate) fn load(&mut self, row: usize, purpose: Purpose) {
        let Some(input) = self.files.ranks.rows.get(row).map(|row| row.input.clone()) else { return };
        // Another file replaces the one that is still being read.
        for job in self.files.loading.iter().filter(|job| job.purpose == purpose) {
            job.tracker.cancel();
        }
        let bytes = input.path.metadata().map_or(0, |metadata| metadata.len());
        let job = Job { row, input, purpose, tracker: Tracker::new(bytes) };
        self.files.loading.push(job.clone());
        self.effects.push(Effect::Load(job));
    }

    /// Takes what the threads have done, and works out once what is about to be drawn. Returns whether there was anything.
    pub fn receive(&mut self, news: impl IntoIterator<Item = News>) -> bool {
        let mut is_any = false;
        for news in news {
            self.take(news);
            is_any = true;
        }
        if is_any {
            self.refresh();
        }
        is_any
    }

    fn take(&mut self, news: News) {
        match news {
            News::Loaded(job, result) => {
                self.files.loading.retain(|other| !Arc::ptr_eq(&other.tracker, &job.tracker));
                if job.tracker.is_cancelled() {
                    return;
                }
                match result {
                    Ok(document) if document.is_empty() => {
                        let path = job.input.path.display();
                        self.fail(
                            job.row,
                            format!("{path}: nothing was allocated on any device while recording"),
                        );
                    }
                    Ok(mut document) => {
                        document.shapes.clone_from(&self.files.shapes);
                        self.show(job.row, job.purpose, Arc::new(*document));
                    }
                    Err(why) => self.fail(job.row, why),
                }
            }
            News::Changed(row) => {
                for pane in self.panes.iter_mut().filter(|pane| pane.file == row) {
                    pane.has_changed = true;
                }
            }
            News::Analyzed(doc) => {
                for pane in self.panes.iter_mut().filter(|pane| Arc::ptr_eq(&pane.doc, &doc)) {
                    pane.take_analysis();
                }
            }
            News::Answered(question, response) => {
                for pane in self.panes.iter_mut().filter(|pane| Arc::ptr_eq(&pane.doc, &question.doc)) {
                    pane.whatif.receive(&question, response.as_ref());
                }
            }
            News::Ranked(row, result) => {
                let nothing = || "nothing was allocated on any device while recording".to_owned();
                self.files.ranks.set(row, result.and_then(|figures| figures.ok_or_else(nothing)));
            }
        }
    }

    /// Reads the file of the active pane again.
    pub(crate) fn reload(&mut self) {
        let Some(row) = self.pane().map(|pane| pane.file) else { return };
        let Some(file) = self.files.ranks.rows.get_mut(row) else { return };
        if file.input.is_stdin() {
            return self.say("standard input cannot be read again".into());
        }
        // What lies beside it may be new, too.
        let Input { path, name, named, .. } = file.input.clone();
        file.input = Input::new(path, name, named);
        let purpose = if self.pair.active == 0 { Purpose::Show } else { Purpose::Beside };
        self.load(row, purpose);
    }

    fn fail(&mut self, row: usize, why: String) {
        self.files.ranks.set(row, Err(why.clone()));
        if self.panes.is_empty() && self.files.loading.is_empty() {
            // Of several files another may do.
            match (row + 1..self.files.ranks.rows.len()).next() {
                Some(next) if !self.pair.starts_with_two => self.load(next, Purpose::Show),
                _ => self.files.failure = Some(why),
            }
        } else {
            self.message = Some(why);
        }
    }

    fn show(&mut self, row: usize, purpose: Purpose, document: Arc<Document>) {
        let is_first = self.panes.is_empty();
        if let Some(figures) = figures(&document.opened) {
            self.files.ranks.set(row, Ok(figures));
        }
        if let (Some(stamp), Some(file)) = (document.stamp, self.files.ranks.rows.get(row)) {
            self.effects.push(Effect::Watch(Watched { row, input: file.input.clone(), stamp }));
        }
        if !document.is_analyzed() {
            self.effects.push(Effect::Analyze(Arc::clone(&document)));
        }
        let mut pane = Pane::new(document, row);
        // A file that was read again shows what it showed.
        let at = if purpose == Purpose::Beside { 1 } else { self.pair.active };
        if let Some(old) = self.panes.get_mut(at).filter(|old| old.file == row) {
            pane.carry_on(old);
            self.panes[at] = pane;
            return self.layout();
        }
        match purpose {
            Purpose::Beside if !is_first => {
                self.panes.truncate(1);
                self.panes.push(pane);
                self.leave_whole_screen_views();
            }
            Purpose::Show if !is_first && (!self.pair.starts_with_two || self.panes.len() > 1) => {
                self.panes[self.pair.active] = pane;
            }
            // The second of two files may be there before the first.
            Purpose::Show => {
                self.panes.insert(0, pane);
            }
            Purpose::Beside => {
                self.panes.push(pane);
            }
        }
        let waiting = |row: &usize| matches!(self.files.ranks.rows[*row].progress, Progress::Waiting);
        let others: Vec<_> = (0..self.files.ranks.rows.len()).filter(waiting).collect();
        if is_first && !self.pair.starts_with_two && !others.is_empty() {
            let inputs =
                others.into_iter().map(|row| (row, self.files.ranks.rows[row].input.clone())).collect();
            self.effects.push(Effect::Rank(inputs));
        }
        self.layout();
    }
}
