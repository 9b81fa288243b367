//! The viewer as a window of this machine: threads, files, the clipboard, what is kept between runs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use vramscope_analysis::shapes::Shapes;
use vramscope_engine::{DEMO, Figures, Fleet, News, OpenFile, Request, Response, Source, Sql};
use vramscope_files::{
    Cache, Input, Links, OpenError, Progress, as_written, find_until, open, open_bytes, open_each,
    read_regular, remove_unfinished_on_signals, write_new,
};
use vramscope_format::plural;

use crate::keeper::{Keeper, replace};
use crate::requests::{Host, Slot};
use crate::threads::{Threads, ready};
use crate::{App, save};

/// Files that are remembered.
const MOST_RECENT: usize = 12;

/// More files at once would wait for the disk and fill the memory.
const MOST_READERS: usize = 4;

/// Rows and columns of the heat map of many ranks.
const MAP: (usize, usize) = (128, 96);

/// Of many files, this many are named that cannot be read.
const MOST_FAILED: usize = 20;

/// Settings and views of a few dozen recordings take some kilobytes.
const MOST_KEPT_BYTES: u64 = 4 << 20;

/// Frames without anything on its way, before a picture is taken.
const FRAMES_AT_REST: u32 = 12;

/// How to open the window.
#[derive(Clone, Default)]
pub struct Options {
    /// Files and folders to open at once.
    pub paths: Vec<PathBuf>,
    /// Where reading keeps what it has read.
    pub cache: Option<Cache>,
    /// Bytes of the device, for the capacity line.
    pub capacity: Option<u64>,
    /// What explains sizes as tensors of a model.
    pub shapes: Option<Shapes>,
    /// Where to keep settings and recent files; nowhere if `None`.
    pub config: Option<PathBuf>,
    /// Save a picture of the window here once it is drawn, and close it.
    pub screenshot: Option<PathBuf>,
    /// What answers SQL, where it is built in.
    pub sql: Option<Arc<dyn Sql>>,
}

/// Why there is no window.
#[derive(Debug)]
pub struct NoWindow(String);

impl std::fmt::Display for NoWindow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot open a window: {}", self.0)
    }
}

impl std::error::Error for NoWindow {}

/// Opens the window and returns when it is closed.
pub fn run(options: Options) -> Result<(), NoWindow> {
    remove_unfinished_on_signals();
    let native = eframe::NativeOptions {
        viewport: egui::ViewportBuilder::default()
            .with_title("vramscope")
            .with_app_id("vramscope")
            .with_inner_size([1400.0, 900.0])
            .with_min_inner_size([640.0, 420.0])
            .with_drag_and_drop(true),
        ..eframe::NativeOptions::default()
    };
    let create: eframe::AppCreator<'_> =
        Box::new(move |context| Ok(Box::new(Window::new(&context.egui_ctx, options))));
    eframe::run_native("vramscope", native, create).map_err(|error| NoWindow(error.to_string()))
}

/// What was kept in a file of the settings, which is small.
fn kept(path: &Path) -> Option<String> {
    String::from_utf8(read_regular(path, Links::Follow, MOST_KEPT_BYTES).ok()?).ok()
}

struct Window {
    app: App,
    screenshot: Option<PathBuf>,
    frames_at_rest: u32,
}

/// The viewer with threads and files behind it; the caller drives its frames.
pub fn app(ctx: &egui::Context, options: Options) -> App {
    let mut host = ThreadHost::new(ctx.clone(), options.cache, options.config);
    if let Some(shapes) = options.shapes {
        host.threads.explain(shapes);
    }
    host.threads.set_sql(options.sql);
    if !options.paths.is_empty() {
        host.open(options.paths.iter().map(|path| path.to_string_lossy().into_owned()).collect());
    }
    App::new(ctx, Box::new(host), options.capacity)
}

impl Window {
    fn new(ctx: &egui::Context, options: Options) -> Self {
        let screenshot = options.screenshot.clone();
        Self { app: app(ctx, options), screenshot, frames_at_rest: 0 }
    }

    /// Once the window is at rest, saves a picture of it and closes it.
    fn screenshot(&mut self, ctx: &egui::Context) {
        let Some(path) = &self.screenshot else { return };
        self.frames_at_rest = if self.app.is_at_rest() { self.frames_at_rest + 1 } else { 0 };
        if self.frames_at_rest == FRAMES_AT_REST {
            let (path, waker) = (path.clone(), ctx.clone());
            let keep = move |image: Arc<egui::ColorImage>| {
                if let Err(error) = replace(&path, &save::png(&image)) {
                    eprintln!("vramscope: {error}");
                }
                waker.send_viewport_cmd(egui::ViewportCommand::Close);
            };
            ctx.send_viewport_cmd(egui::ViewportCommand::Screenshot(egui::ScreenshotCallback::new(keep)));
        }
        ctx.request_repaint();
    }
}

impl eframe::App for Window {
    fn ui(&mut self, ui: &mut egui::Ui, _frame: &mut eframe::Frame) {
        self.screenshot(ui.ctx());
        self.app.ui(ui);
    }
}

/// What a file on its way tells.
struct Counting {
    name: String,
    total: u64,
    done: AtomicU64,
    news: Arc<Mutex<Vec<News>>>,
    cancelled: Arc<AtomicBool>,
    ctx: egui::Context,
}

impl Progress for Counting {
    fn advance(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        tell(&self.news, &self.ctx, News::Reading { name: self.name.clone(), done, total: self.total });
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

fn tell(news: &Mutex<Vec<News>>, ctx: &egui::Context, item: News) {
    news.lock().unwrap_or_else(PoisonError::into_inner).push(item);
    ctx.request_repaint();
}

/// The host of a desktop.
struct ThreadHost {
    ctx: egui::Context,
    threads: Threads,
    news: Arc<Mutex<Vec<News>>>,
    cancelled: Arc<AtomicBool>,
    cache: Option<Cache>,
    config: Option<PathBuf>,
    keeper: Option<Keeper>,
    recent: Vec<String>,
    /// The path by which each file was opened first: one that is opened again by another way takes its place.
    opened: Arc<Mutex<HashMap<PathBuf, PathBuf>>>,
}

impl ThreadHost {
    fn new(ctx: egui::Context, cache: Option<Cache>, config: Option<PathBuf>) -> Self {
        let waker = ctx.clone();
        let recent = config.as_ref().and_then(|folder| kept(&folder.join("recent.json")));
        Self {
            ctx,
            threads: Threads::new(move || waker.request_repaint()),
            news: Arc::default(),
            cancelled: Arc::default(),
            cache,
            keeper: config.clone().map(Keeper::new),
            config,
            recent: recent.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
            opened: Arc::default(),
        }
    }

    fn keep(&self, name: &'static str, text: String) {
        if let Some(keeper) = &self.keeper {
            keeper.keep(name, text);
        }
    }

    /// Looks for files and reads them on another thread, each as it comes.
    fn read(&self, paths: Vec<PathBuf>) {
        let add = self.threads.adder();
        let (news, ctx, cache) = (Arc::clone(&self.news), self.ctx.clone(), self.cache.clone());
        let (cancelled, opened) = (Arc::clone(&self.cancelled), Arc::clone(&self.opened));
        thread::spawn(move || {
            let (mut inputs, errors) = find_until(&paths, &|| cancelled.load(Ordering::Relaxed));
            let mut opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
            for input in &mut inputs {
                if let Ok(full) = input.path.canonicalize() {
                    input.path = opened.entry(full).or_insert_with(|| input.path.clone()).clone();
                }
            }
            drop(opened);
            for error in errors {
                let name = paths.first().map_or_else(String::new, |path| path.display().to_string());
                tell(&news, &ctx, News::Failed { name, message: error.to_string() });
            }
            match inputs.len() > Fleet::MANY {
                true => read_many(&inputs, cache.as_ref(), &news, &cancelled, &ctx, &add),
                false => read_few(&inputs, cache.as_ref(), &news, &cancelled, &ctx, &add),
            }
            tell(&news, &ctx, News::Idle);
        });
    }
}

/// Reads files a few at a time, the first first: what is on the screen soonest counts.
fn read_few(
    inputs: &[Input],
    cache: Option<&Cache>,
    news: &Arc<Mutex<Vec<News>>>,
    cancelled: &Arc<AtomicBool>,
    ctx: &egui::Context,
    add: &(impl Fn(OpenFile) -> Vec<Source> + Sync),
) {
    for input in inputs {
        let name = input.path.display().to_string();
        let total = input.path.metadata().map_or(0, |metadata| metadata.len());
        tell(news, ctx, News::Reading { name, done: 0, total });
    }
    let next = AtomicUsize::new(0);
    let readers = thread::available_parallelism().map_or(1, usize::from).min(MOST_READERS);
    thread::scope(|scope| {
        for _ in 0..readers.min(inputs.len()) {
            scope.spawn(|| {
                while let Some(input) = inputs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    read_one(input, cache, news, cancelled, ctx, add);
                }
            });
        }
    });
}

/// Reads a file and tells how it went.
fn read_one(
    input: &Input,
    cache: Option<&Cache>,
    news: &Arc<Mutex<Vec<News>>>,
    cancelled: &Arc<AtomicBool>,
    ctx: &egui::Context,
    add: &impl Fn(OpenFile) -> Vec<Source>,
) {
    if cancelled.load(Ordering::Relaxed) {
        return;
    }
    let name = input.path.display().to_string();
    let progress = Counting {
        name: name.clone(),
        total: input.path.metadata().map_or(0, |metadata| metadata.len()),
        done: AtomicU64::new(0),
        news: Arc::clone(news),
        cancelled: Arc::clone(cancelled),
        ctx: ctx.clone(),
    };
    let item = match open(input, cache, &progress) {
        // It was read by the time it was cancelled.
        Ok(_) if progress.is_cancelled() => return,
        Ok(opened) => News::Opened { name, sources: add(ready(opened)) },
        Err(OpenError::Cancelled { .. }) => return,
        // A folder holds files of other kinds too.
        Err(error) if !input.named && error.is_another_kind() => return,
        Err(error) => News::Failed { name, message: error.to_string() },
    };
    tell(news, ctx, item);
}

/// Opens the first of many files, and keeps only figures of the others.
fn read_many(
    inputs: &[Input],
    cache: Option<&Cache>,
    news: &Arc<Mutex<Vec<News>>>,
    cancelled: &Arc<AtomicBool>,
    ctx: &egui::Context,
    add: &impl Fn(OpenFile) -> Vec<Source>,
) {
    let names = inputs.iter().map(|input| input.path.display().to_string()).collect();
    tell(news, ctx, News::Many { names });
    if let Some(first) = inputs.first() {
        read_one(first, cache, news, cancelled, ctx, add);
    }
    let progress = Counting {
        name: format!("{} files", inputs.len()),
        total: inputs.iter().map(Input::bytes).sum(),
        done: AtomicU64::new(0),
        news: Arc::clone(news),
        cancelled: Arc::clone(cancelled),
        ctx: ctx.clone(),
    };
    let fleet = Mutex::new(Fleet::new(inputs.iter().map(|input| input.name.clone())));
    let numbers: HashMap<&Path, usize> =
        inputs.iter().enumerate().map(|(number, input)| (input.path.as_path(), number)).collect();
    let results = open_each(inputs, cache, &progress, |opened| {
        let figures = Figures::new(&opened.snapshot, &opened.devices, &opened.name);
        let (Some(figures), Some(&number)) = (figures, numbers.get(opened.path.as_path())) else { return };
        let mut fleet = fleet.lock().unwrap_or_else(PoisonError::into_inner);
        fleet.set(number, figures);
        if fleet.compare(false) {
            tell(news, ctx, News::Fleet(fleet.view(0, MAP).into()));
        }
    });
    let mut fleet = fleet.into_inner().unwrap_or_else(PoisonError::into_inner);
    fleet.compare(true);
    tell(news, ctx, News::Fleet(fleet.view(0, MAP).into()));
    // The first one has been opened above; a folder holds files of other kinds too.
    let mut failed = inputs.iter().zip(results).skip(1).filter_map(|(input, result)| {
        let error = result.err().filter(|error| input.named || !error.is_another_kind())?;
        let is_cancelled = matches!(error, OpenError::Cancelled { .. });
        (!is_cancelled).then(|| (input.path.display().to_string(), error.to_string()))
    });
    for (name, message) in failed.by_ref().take(MOST_FAILED) {
        tell(news, ctx, News::Failed { name, message });
    }
    let more = failed.count();
    if more > 0 {
        let message = "cannot be read either".to_owned();
        tell(news, ctx, News::Failed { name: plural(more, "more file"), message });
    }
}

/// A path that means the same wherever the program is started.
fn full(path: &str) -> String {
    let full = Path::new(path).canonicalize();
    full.map_or_else(|_| path.to_owned(), |full| as_written(&full).display().to_string())
}

impl ThreadHost {
    fn keep_recent(&self) {
        if let Ok(text) = serde_json::to_string(&self.recent) {
            self.keep("recent.json", text);
        }
    }

    /// Takes a file out of the recent ones.
    fn forget(&mut self, name: &str) {
        let name = full(name);
        if self.recent.contains(&name) {
            self.recent.retain(|known| *known != name);
            self.keep_recent();
        }
    }
}

impl Host for ThreadHost {
    fn ask(&mut self, slot: Slot, request: Request) {
        self.threads.ask(slot, request);
    }

    fn answers(&mut self) -> Vec<(Slot, Request, Response)> {
        self.threads.answers()
    }

    fn news(&mut self) -> Vec<News> {
        let news = std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner));
        for news in &news {
            // What could not be opened is not worth opening again.
            if let News::Failed { name, .. } = news {
                self.forget(name);
            }
        }
        news
    }

    fn open(&mut self, paths: Vec<String>) {
        for path in &paths {
            let full = full(path);
            self.recent.retain(|known| *known != full);
            self.recent.insert(0, full);
        }
        self.recent.truncate(MOST_RECENT);
        self.keep_recent();
        self.read(paths.into_iter().map(PathBuf::from).collect());
    }

    fn open_one(&mut self, path: String) {
        self.read(vec![PathBuf::from(path)]);
    }

    fn open_demo(&mut self) {
        let add = self.threads.adder();
        let (news, ctx) = (Arc::clone(&self.news), self.ctx.clone());
        thread::spawn(move || {
            let name = "demo.pickle.xz".to_owned();
            let item = match open_bytes(&name, DEMO) {
                Ok(opened) => News::Opened { name, sources: add(ready(opened)) },
                Err(error) => News::Failed { name, message: error.to_string() },
            };
            tell(&news, &ctx, item);
        });
    }

    fn close(&mut self, file: u32) {
        self.threads.close(file);
    }

    fn set_title(&mut self, title: &str) {
        self.ctx.send_viewport_cmd(egui::ViewportCommand::Title(title.to_owned()));
    }

    fn cancel(&mut self) {
        // What is opened from now on has a flag of its own, so that what was cancelled stays so.
        std::mem::take(&mut self.cancelled).store(true, Ordering::Relaxed);
    }

    fn recent(&self) -> Vec<String> {
        self.recent.clone()
    }

    fn list(&self, folder: &str) -> Option<(String, Vec<(String, bool)>)> {
        let folder = if folder.is_empty() { std::env::current_dir().ok()? } else { PathBuf::from(folder) };
        let mut entries: Vec<(String, bool)> = std::fs::read_dir(&folder)
            .map(|entries| {
                let entry = |entry: std::fs::DirEntry| {
                    // What a link leads to is looked up; of all others the folder itself says what they are.
                    let is_folder = match entry.file_type() {
                        Ok(kind) if !kind.is_symlink() => kind.is_dir(),
                        _ => entry.path().is_dir(),
                    };
                    (entry.file_name().to_string_lossy().into_owned(), is_folder)
                };
                entries.flatten().map(entry).filter(|(name, _)| !name.starts_with('.')).collect()
            })
            .unwrap_or_default();
        entries.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        Some((folder.display().to_string(), entries))
    }

    fn save(&mut self, name: &str, bytes: &[u8]) -> Result<String, String> {
        let (stem, ending) = name.rsplit_once('.').unwrap_or((name, "txt"));
        let names = std::iter::once(name.to_owned()).chain((2..1000).map(|n| format!("{stem}-{n}.{ending}")));
        write_new(names, bytes).map_err(|error| error.to_string())
    }

    fn store(&mut self, state: String) {
        self.keep("viewer.json", state);
    }

    fn stored(&self) -> Option<String> {
        kept(&self.config.as_ref()?.join("viewer.json"))
    }
}
