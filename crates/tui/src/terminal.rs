//! The terminal: taken at the start, and given back as it was however the program ends.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crossterm::event::{
    self, DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture, Event,
    KeyEventKind,
};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use vramscope_files::write_new;

use crate::app::{App, Effect};
use crate::draw::draw;
use crate::load::{self, Loader, News};

/// While something is being read, the screen is drawn this often.
const FRAME: Duration = Duration::from_millis(40);
/// Otherwise it waits this long for a key before it looks around.
const IDLE: Duration = Duration::from_millis(250);
/// One frame is one write.
const BUFFER: usize = 1 << 17;

/// Whether the terminal is ours at the moment.
static TAKEN: AtomicBool = AtomicBool::new(false);
static HAS_MOUSE: AtomicBool = AtomicBool::new(false);

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, cursor::Hide)?;
    if HAS_MOUSE.load(Ordering::SeqCst) {
        execute!(io::stdout(), EnableMouseCapture)?;
    }
    Ok(())
}

/// Gives the terminal back. May be called at any time and more than once.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // There is nobody left to tell if this fails.
        let _ = execute!(
            io::stdout(),
            DisableMouseCapture,
            DisableBracketedPaste,
            LeaveAlternateScreen,
            cursor::Show
        );
        let _ = disable_raw_mode();
    }
}

/// The terminal for as long as this lives.
struct Guard;

impl Guard {
    fn new() -> io::Result<Self> {
        // A message about a panic belongs on the screen of the shell.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
        take()?;
        Ok(Self)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        give_back();
        let _ = std::panic::take_hook();
    }
}

type Screen = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// What the thread of signals and the program share.
struct Shared {
    /// Held while drawing, so that the terminal is not given back in the middle of a frame.
    screen: Mutex<Screen>,
    /// Whether the screen has to be drawn from nothing.
    is_stale: AtomicBool,
}

impl Shared {
    fn screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the program until it is left; returns its exit code.
pub(crate) fn run(mut app: App, loader: &Loader) -> io::Result<u8> {
    HAS_MOUSE.store(app.screen.has_mouse, Ordering::SeqCst);
    let guard = Guard::new()?;
    let backend = CrosstermBackend::new(BufWriter::with_capacity(BUFFER, io::stdout()));
    let shared =
        Arc::new(Shared { screen: Mutex::new(Terminal::new(backend)?), is_stale: AtomicBool::new(false) });
    signals::watch(&shared)?;
    let (sender, news) = channel::<News>();
    let watching = load::Watching::default();
    load::watch(Arc::clone(&watching), sender.clone());
    let size = crossterm::terminal::size()?;
    app.resize(size.0, size.1);
    // Nothing is drawn, and nothing goes over the line, while nothing changes.
    let (mut has_changed, mut was_waiting) = (true, false);
    let code = loop {
        if let Some(code) = perform(&mut app, loader, (&sender, &watching), &shared)? {
            break code;
        }
        let (is_stale, is_waiting) = (shared.is_stale.swap(false, Ordering::SeqCst), app.is_waiting());
        if has_changed || is_stale || is_waiting || was_waiting {
            let mut screen = shared.screen();
            if is_stale {
                // Not `clear`: that asks the terminal where its cursor is, and slow ones do not answer in time.
                let size = screen.size()?;
                screen.resize(ratatui::layout::Rect::new(0, 0, size.width, size.height))?;
            }
            screen.draw(|frame| draw(frame, &app))?;
        }
        was_waiting = is_waiting;
        // What takes longer waits until no key does.
        has_changed = !event::poll(Duration::ZERO)? && app.settle();
        if has_changed {
            continue;
        }
        if event::poll(if is_waiting { FRAME } else { IDLE })? {
            has_changed = true;
            // Everything that has come together is one frame.
            loop {
                handle(&mut app, event::read()?);
                if !event::poll(Duration::ZERO)? || app.has_effects() {
                    break;
                }
            }
        }
        has_changed |= app.receive(news.try_iter());
    };
    drop(guard);
    Ok(code)
}

fn handle(app: &mut App, event: Event) {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => app.update(key),
        Event::Mouse(event) => app.mouse(event),
        Event::Paste(text) => app.paste(&text),
        Event::Resize(width, height) => app.resize(width, height),
        _ => {}
    }
}

/// Does what the program asks of the terminal; an exit code if it asks to leave.
fn perform(
    app: &mut App,
    loader: &Loader,
    (sender, watching): (&Sender<News>, &load::Watching),
    shared: &Shared,
) -> io::Result<Option<u8>> {
    for effect in app.effects() {
        match effect {
            Effect::Quit(code) => return Ok(Some(code)),
            Effect::Suspend => {
                signals::suspend();
                shared.is_stale.store(true, Ordering::SeqCst);
                let size = crossterm::terminal::size()?;
                app.resize(size.0, size.1);
            }
            Effect::Copy(text) => {
                // OSC 52: the terminal puts it on the clipboard of the machine that it runs on, over SSH too.
                let mut out = io::stdout();
                write!(out, "\x1b]52;c;{}\x07", STANDARD.encode(text))?;
                out.flush()?;
            }
            Effect::Write { stem, ending, text } => {
                // A file that was not there: `stem-1.txt`, or the next number that is free.
                let names = (1..10_000).map(|number| format!("{stem}-{number}.{ending}"));
                app.say(match write_new(names, text.as_bytes()) {
                    Ok(name) => format!("wrote {name}"),
                    Err(error) => format!("could not write {error}"),
                });
            }
            Effect::Load(job) => load::load(job, loader.clone(), sender.clone()),
            Effect::Watch(file) => {
                let mut files = watching.lock().unwrap_or_else(PoisonError::into_inner);
                files.retain(|other| other.row != file.row);
                files.push(file);
            }
            Effect::Analyze(doc) => load::analyze(doc, sender.clone()),
            Effect::Ask(question) => load::ask(question, sender.clone()),
            Effect::Rank(inputs) => load::rank(inputs, loader.clone(), sender.clone()),
            Effect::Mouse(on) => {
                HAS_MOUSE.store(on, Ordering::SeqCst);
                match on {
                    true => execute!(io::stdout(), EnableMouseCapture)?,
                    false => execute!(io::stdout(), DisableMouseCapture)?,
                }
            }
        }
    }
    Ok(None)
}

#[cfg(unix)]
mod signals {
    //! Signals: whatever stops or ends the program, the shell gets its terminal back first.

    use std::io;
    use std::sync::atomic::Ordering;
    use std::sync::{Arc, MutexGuard, TryLockError};
    use std::thread;
    use std::time::{Duration, Instant};

    use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::{emulate_default_handler, raise};

    use super::{Screen, Shared, TAKEN, give_back, take};

    /// A signal that ends the program waits this long for the frame that is being drawn.
    const LAST_FRAME: Duration = Duration::from_millis(250);

    pub(super) fn watch(shared: &Arc<Shared>) -> io::Result<()> {
        let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGCONT])?;
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            for signal in signals.forever() {
                match signal {
                    SIGTSTP => {
                        // Nothing is drawn while the shell has the terminal.
                        let screen = shared.screen();
                        give_back();
                        let _ = emulate_default_handler(SIGTSTP);
                        let _ = take();
                        shared.is_stale.store(true, Ordering::SeqCst);
                        drop(screen);
                    }
                    SIGCONT => {
                        // Stopped by a signal that cannot be caught, the shell has changed the terminal.
                        if TAKEN.load(Ordering::SeqCst) {
                            let _ = take();
                        }
                        shared.is_stale.store(true, Ordering::SeqCst);
                    }
                    ending => {
                        vramscope_files::remove_unfinished();
                        // A frame drawn after this would hide the cursor of the shell.
                        let _screen = last_frame(&shared);
                        give_back();
                        let _ = emulate_default_handler(ending);
                    }
                }
            }
        });
        Ok(())
    }

    /// Nothing is drawn anymore once this returns. A terminal that takes nothing, as one behind a lost connection,
    /// is not waited for.
    fn last_frame(shared: &Shared) -> Option<MutexGuard<'_, Screen>> {
        let began = Instant::now();
        loop {
            match shared.screen.try_lock() {
                Ok(screen) => return Some(screen),
                Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
                Err(TryLockError::WouldBlock) if began.elapsed() > LAST_FRAME => return None,
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Stops the program until the shell continues it.
    pub(super) fn suspend() {
        let _ = raise(SIGTSTP);
        // The other thread stops the whole process; give it the time to.
        thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(not(unix))]
mod signals {
    use std::io;
    use std::sync::Arc;

    use super::Shared;

    pub(super) fn watch(_: &Arc<Shared>) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn suspend() {}
}
