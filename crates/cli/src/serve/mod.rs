//! `vramscope serve`: the viewer in a browser, the session in this process.
//!
//! Only this machine can connect, and only with the token in the address. Answers are pictures and tables, never
//! the file, so a large file on a node far away costs kilobytes.

mod auth;
mod http;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;

use anyhow::{Context, anyhow};
use clap::Args as ClapArgs;
use vramscope_engine::{News, OpenFile, Session};
use vramscope_files::{Cache, Input, OpenError, Opened, Progress, find, open};

use crate::args::CacheArgs;
use crate::site::Site;
use auth::Auth;
pub(crate) use http::hear;

/// The viewer for a browser: files stay here, pictures go out
///
/// Binds to this machine only. The address has a token; without it nothing is answered.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope serve run/                       # then open the address that is printed
  ssh -L 8000:127.0.0.1:8000 node            # on your machine, if the files are on a node
  vramscope serve run/ --port 8000           # on the node")]
pub(crate) struct ServeArgs {
    /// Files, or folders of ranks
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// The port; any that is free if there is none
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// The token of the address, so that an open page goes on after a restart: 16 letters and digits or more
    #[arg(long, value_parser = own_token)]
    pub(crate) token: Option<String>,
    /// Let an editor show the page in a frame, as the extension for VS Code does
    #[arg(long)]
    pub(crate) embed: bool,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
}

/// What the threads share.
#[derive(Default)]
struct Shared {
    session: RwLock<Session>,
    log: Mutex<Log>,
    cancelled: AtomicBool,
}

/// What has happened to the files.
#[derive(Default)]
struct Log {
    /// What happens once, in order.
    news: Vec<News>,
    /// How far files are read that are not open yet.
    reading: BTreeMap<String, (u64, u64)>,
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops reading: files that are open stay, the others are left out.
    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    fn tell(&self, name: &str, news: News) {
        let mut log = self.log();
        log.reading.remove(name);
        log.news.push(news);
    }
}

impl Log {
    /// What has happened since the first `seen` news.
    fn since(&self, seen: usize) -> Vec<News> {
        let reading = |(name, (done, total)): (&String, &(u64, u64))| News::Reading {
            name: name.clone(),
            done: *done,
            total: *total,
        };
        let once = self.news.get(seen..).unwrap_or_default();
        self.reading.iter().map(reading).chain(once.iter().cloned()).collect()
    }
}

/// Tells how far a file is read.
struct Reading<'a> {
    shared: &'a Shared,
    name: &'a str,
    done: AtomicU64,
    total: u64,
}

impl Progress for Reading<'_> {
    fn advance(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.shared.log().reading.insert(self.name.to_owned(), (done, self.total));
    }

    fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Relaxed)
    }
}

pub(crate) fn run(args: &ServeArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let site = Site::find()?;
    let (inputs, errors) = find(&args.paths);
    if inputs.is_empty() {
        let errors: Vec<_> = errors.iter().map(OpenError::to_string).collect();
        return Err(anyhow!("{}", errors.join("\nvramscope: ")));
    }
    let shared = Arc::new(Shared::default());
    for error in errors {
        shared.tell("", News::Failed { name: String::new(), message: error.to_string() });
    }
    // Before anybody can ask: nothing being read would mean that all is there.
    for input in &inputs {
        shared.log().reading.insert(name(input), (0, size(input)));
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let port = listener.local_addr()?.port();
    let token = args.token.clone().map_or_else(token, Ok)?;
    writeln!(out, "http://127.0.0.1:{port}/{token}/")?;
    writeln!(out, "From another machine, first: ssh -L {port}:127.0.0.1:{port} {}", host_name())?;
    writeln!(out, "Press Ctrl+C to stop.")?;
    out.flush()?;

    let (cache, reader) = (args.cache.cache(), Arc::clone(&shared));
    thread::spawn(move || read(&inputs, cache.as_ref(), &reader));
    let auth = Auth { token, page: site.served(), module: site.module, embed: args.embed, shared };
    let answer: Arc<http::Answer> =
        Arc::new(move |asked: &_, is_open: &dyn Fn() -> bool| auth.answer(asked, is_open));
    http::serve(&listener, &answer);
    Ok(ExitCode::SUCCESS)
}

/// What an input is called in news.
fn name(input: &Input) -> String {
    input.path.display().to_string()
}

/// The bytes to read; zero where nobody knows.
fn size(input: &Input) -> u64 {
    input.path.metadata().map_or(0, |metadata| metadata.len())
}

/// Opens the files one by one, the first first: what is on the screen soonest counts.
fn read(inputs: &[Input], cache: Option<&Cache>, shared: &Shared) {
    for input in inputs {
        let name = &name(input);
        let progress = Reading { shared, name, done: AtomicU64::new(0), total: size(input) };
        let news = match open(input, cache, &progress) {
            Ok(opened) => {
                let mut session = shared.session.write().unwrap_or_else(PoisonError::into_inner);
                let sources = session.add(for_session(opened));
                News::Opened { name: name.clone(), sources }
            }
            Err(OpenError::Cancelled { .. }) => {
                shared.log().reading.clear();
                break;
            }
            Err(error) if !input.named && error.is_another_kind() => {
                shared.log().reading.remove(name);
                continue;
            }
            Err(error) => News::Failed { name: name.clone(), message: error.to_string() },
        };
        shared.tell(name, news);
    }
    shared.tell("", News::Idle);
}

/// An opened file as a session takes it.
pub(crate) fn for_session(opened: Opened) -> OpenFile {
    let name = opened.path.display().to_string();
    let rank = opened.name.rank_text();
    OpenFile::new(name, rank, opened.bytes, opened.snapshot, opened.replays).with_role(opened.name.role)
}

/// A token that was chosen: one that fits into an address and is not quickly guessed.
fn own_token(typed: &str) -> Result<String, String> {
    match typed.len() >= 16 && typed.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => Ok(typed.to_owned()),
        false => Err("a token has 16 letters and digits or more".to_owned()),
    }
}

/// What nobody can guess.
fn token() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| anyhow!("no random numbers: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What this machine is called, for the line to type elsewhere.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "HOST".to_owned() } else { name.trim().to_owned() }
}
