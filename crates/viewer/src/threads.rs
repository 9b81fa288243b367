//! The engine on threads of this process.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;

use vramscope_analysis::shapes::Shapes;
use vramscope_engine::{OpenFile, Queue, Request, Response, Session, Source, Sql};
use vramscope_files::Opened;

use crate::requests::Slot;

/// A long answer must not keep a picture waiting, nor a query anything else: each worker takes what is this urgent.
const WORKERS: [RangeInclusive<u8>; 3] = [1..=u8::MAX, 3..=u8::MAX, 0..=0];

/// What the window and the workers share.
#[derive(Default)]
struct Shared {
    session: RwLock<Session>,
    queue: Mutex<Queue<Slot>>,
    wake: Condvar,
    answers: Mutex<Vec<(Slot, Request, Response)>>,
    over: AtomicBool,
}

/// An opened file as the engine takes it.
pub(crate) fn ready(opened: Opened) -> OpenFile {
    let name = opened.path.display().to_string();
    let rank = opened.name.rank_text();
    OpenFile::new(name, rank, opened.bytes, opened.snapshot, opened.devices).with_role(opened.name.role)
}

/// A poisoned lock still guards whole data: each value is changed in one step.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A session with workers that answer for it.
pub struct Threads {
    shared: Arc<Shared>,
}

impl Threads {
    /// Starts the workers. `notify` is called whenever an answer has come.
    pub fn new(notify: impl Fn() + Clone + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        for urgent in WORKERS {
            let (shared, notify) = (Arc::clone(&shared), notify.clone());
            thread::spawn(move || work(&shared, &urgent, &notify));
        }
        Self { shared }
    }

    /// Explains sizes by the dimensions of a model from now on.
    pub fn explain(&self, shapes: Shapes) {
        self.shared.session.write().unwrap_or_else(PoisonError::into_inner).explain(shapes);
    }

    /// Answers SQL from now on.
    pub fn set_sql(&self, sql: Option<Arc<dyn Sql>>) {
        self.shared.session.write().unwrap_or_else(PoisonError::into_inner).set_sql(sql);
    }

    /// Sends a request.
    pub fn ask(&self, slot: Slot, request: Request) {
        locked(&self.shared.queue).push(slot, request);
        self.shared.wake.notify_all();
    }

    /// Takes the answers that have come.
    pub fn answers(&self) -> Vec<(Slot, Request, Response)> {
        std::mem::take(&mut *locked(&self.shared.answers))
    }

    /// Lets go of a file. Not on this thread: an answer that is being worked out keeps the session for a while.
    pub fn close(&self, file: u32) {
        let shared = Arc::clone(&self.shared);
        thread::spawn(move || shared.session.write().unwrap_or_else(PoisonError::into_inner).close(file));
    }

    /// Something that adds files from another thread.
    pub fn adder(&self) -> impl Fn(OpenFile) -> Vec<Source> + Clone + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move |file| shared.session.write().unwrap_or_else(PoisonError::into_inner).add(file)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Under the lock: a worker that has just found nothing to do must not miss it and sleep on.
        let queue = locked(&self.shared.queue);
        self.shared.over.store(true, Ordering::Relaxed);
        drop(queue);
        self.shared.wake.notify_all();
    }
}

fn work(shared: &Shared, urgent: &RangeInclusive<u8>, notify: &dyn Fn()) {
    loop {
        let ask = {
            let mut queue = locked(&shared.queue);
            loop {
                if shared.over.load(Ordering::Relaxed) {
                    return;
                }
                match queue.pop_urgent(Slot::urgency, urgent) {
                    Some(ask) => break ask,
                    None => queue = shared.wake.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            }
        };
        let is_current = || locked(&shared.queue).is_current(&ask.slot, ask.ticket);
        // A copy: a file that is opened meanwhile must not wait for a long answer, nor others for the file.
        let session = shared.session.read().unwrap_or_else(PoisonError::into_inner).clone();
        let answer = session.answer(&ask.request, &is_current);
        drop(session);
        if let Some(response) = answer
            && is_current()
        {
            locked(&shared.answers).push((ask.slot, ask.request, response));
            notify();
        }
    }
}
