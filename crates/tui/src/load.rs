//! Loading in the background: the screen stays alive, shows progress, and can cancel it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use vramscope_analysis::query::Pattern;
use vramscope_engine::{Figures, Request, Response};
use vramscope_files::{Cache, Input, OpenError, Opened, Progress, open, open_each};

use crate::document::Document;

/// How far a file is, shared with the thread that reads it.
#[derive(Debug, Default)]
pub struct Tracker {
    done: AtomicU64,
    total: AtomicU64,
    cancelled: AtomicBool,
}

impl Tracker {
    /// Nothing is read yet of a number of bytes.
    pub(crate) fn new(total: u64) -> Arc<Self> {
        Arc::new(Self { total: AtomicU64::new(total), ..Self::default() })
    }

    /// Bytes that are read, and how many there are; 0 where that is not known.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Stops reading.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

impl Progress for Tracker {
    fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled()
    }
}

/// What a file is loaded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be looked at.
    Show,
    /// To be beside the one that is shown.
    Beside,
}

/// A file to load.
#[derive(Clone, Debug)]
pub struct Job {
    /// Which of the files.
    pub row: usize,
    /// Where it is.
    pub input: Input,
    /// What for.
    pub purpose: Purpose,
    /// How far it is.
    pub tracker: Arc<Tracker>,
}

/// A request about a file, answered in the background.
#[derive(Clone, Debug)]
pub struct Question {
    /// Which file.
    pub doc: Arc<Document>,
    /// The request.
    pub request: Request,
    /// Says whether anybody still waits.
    pub tracker: Arc<Tracker>,
}

impl Question {
    /// The answer; `None` if nobody waits for it any more.
    pub fn answer(&self) -> Option<Response> {
        self.doc.answer(&self.request, &|| !self.tracker.is_cancelled())
    }
}

/// A file that is open, and what it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Which of the files.
    pub row: usize,
    /// Where it is.
    pub input: Input,
    /// See [`Input::stamp`].
    pub stamp: (u64, u64),
}

/// What the threads tell.
pub enum News {
    /// A file that is open has changed since it was read.
    Changed(usize),
    /// A request was answered, or cancelled.
    Answered(Question, Option<Response>),
    /// The conclusions about a file are drawn.
    Analyzed(Arc<Document>),
    /// A file is loaded, or cannot be.
    Loaded(Job, Result<Box<Document>, String>),
    /// The figures of one of the files are known.
    Ranked(usize, Result<Option<Figures>, String>),
}

/// How files are opened.
#[derive(Clone, Debug, Default)]
pub struct Loader {
    /// What was read before.
    pub cache: Option<Cache>,
    /// Frames that are passed over: they are neither the user's own line nor part of call trees.
    pub ignore_frames: Option<Pattern>,
}

impl Loader {
    /// Reads a file to look at it; what is concluded about it comes with [`Effect::Analyze`](crate::Effect::Analyze).
    pub fn document(&self, input: &Input, progress: &dyn Progress) -> Result<Document, OpenError> {
        let stamp = (!input.is_stdin()).then(|| input.stamp());
        let opened = open(input, self.cache.as_ref(), progress)?;
        self.prepare(&opened);
        let mut document = Document::unanalyzed(opened);
        document.stamp = stamp;
        Ok(document)
    }

    /// Reads a file for its figures, and keeps nothing else of it; `None` if nothing was allocated.
    pub fn figures(&self, input: &Input) -> Result<Option<Figures>, OpenError> {
        let opened = open(input, self.cache.as_ref(), &())?;
        self.prepare(&opened);
        Ok(figures(&opened))
    }

    fn prepare(&self, opened: &Opened) {
        let Some(pattern) = &self.ignore_frames else { return };
        opened.snapshot.ignore_frames(|file, line, name| pattern.matches_frame(file, line, name));
    }
}

/// What is kept of a file beside others; `None` if nothing was allocated.
pub(crate) fn figures(opened: &Opened) -> Option<Figures> {
    Figures::new(&opened.snapshot, &opened.devices, &opened.name)
}

/// Reads a file on a thread of its own.
pub(crate) fn load(job: Job, loader: Loader, news: Sender<News>) {
    thread::spawn(move || {
        let result = loader.document(&job.input, job.tracker.as_ref());
        let result = result.map(Box::new).map_err(|error| error.to_string());
        // Nobody listens any more if the program has ended.
        let _ = news.send(News::Loaded(job, result));
    });
}

/// Draws the conclusions about a file on a thread of its own.
pub(crate) fn analyze(doc: Arc<Document>, news: Sender<News>) {
    thread::spawn(move || {
        doc.analyze();
        let _ = news.send(News::Analyzed(doc));
    });
}

/// Answers a request on a thread of its own.
pub(crate) fn ask(question: Question, news: Sender<News>) {
    thread::spawn(move || {
        let answer = question.answer();
        let _ = news.send(News::Answered(question, answer));
    });
}

/// How often files that are open are looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Files that are open.
pub(crate) type Watching = Arc<Mutex<Vec<Watched>>>;

/// Says once of each file that it has changed: on a thread of its own, since a file system may be slow.
pub(crate) fn watch(files: Watching, news: Sender<News>) {
    thread::spawn(move || {
        loop {
            thread::sleep(LOOK_AGAIN);
            let now: Vec<Watched> = files.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for file in now.iter().filter(|file| file.input.stamp() != file.stamp) {
                files.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| other != file);
                // Nobody listens any more if the program has ended.
                if news.send(News::Changed(file.row)).is_err() {
                    return;
                }
            }
        }
    });
}

/// Reads many files for their figures, and keeps none of them.
pub(crate) fn rank(inputs: Vec<(usize, Input)>, loader: Loader, news: Sender<News>) {
    thread::spawn(move || {
        let (rows, inputs): (Vec<usize>, Vec<Input>) = inputs.into_iter().unzip();
        let numbers: HashMap<PathBuf, usize> =
            inputs.iter().map(|input| input.path.clone()).zip(rows.iter().copied()).collect();
        let results = open_each(&inputs, loader.cache.as_ref(), &(), |opened| {
            loader.prepare(&opened);
            if let Some(&row) = numbers.get(&opened.path) {
                let _ = news.send(News::Ranked(row, Ok(figures(&opened))));
            }
        });
        for (at, result) in results.into_iter().enumerate() {
            if let Err(error) = result {
                let _ = news.send(News::Ranked(rows[at], Err(short(&error))));
            }
        }
    });
}

/// Why a file cannot be opened, without its path: the row has that.
fn short(error: &OpenError) -> String {
    let text = error.to_string();
    text.split_once(": ").map_or(text.clone(), |(_, why)| why.to_owned())
}
