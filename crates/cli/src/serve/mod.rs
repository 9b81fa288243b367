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
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args as ClapArgs;
use vramscope_analysis::query::NOTHING_RECORDED;
use vramscope_engine::{News, OpenFile, Session};
use vramscope_files::{Cache, Input, Opened, Progress, find, open};

use crate::args::CacheArgs;
use crate::site::Site;
use crate::text;
use auth::{Auth, host_name};
pub(crate) use http::hear;

/// How long the address waits for the first file, so that a path that cannot be served ends the program instead. A file
/// that takes longer is large, and the page shows how far it is read.
const FIRST_FILE: Duration = Duration::from_secs(2);

/// The viewer for a browser: files stay here, pictures go out
///
/// Binds to this machine only. The address has a token; without it nothing is answered.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope serve run/                       # then open the address that is printed
  ssh -L 8000:127.0.0.1:8000 node            # on your machine, if the files are on a node
  vramscope serve run/ --port 8000           # on the node
  vramscope serve run/ --allow-host gpu7.example     # behind a proxy that answers to this name")]
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
    /// Answer to this host name, too: that of a proxy in front. Can be given several times
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    pub(crate) allow_host: Vec<String>,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
}

/// What the threads share.
#[derive(Default)]
struct Shared {
    session: RwLock<Session>,
    log: Mutex<Log>,
    cancelled: AtomicBool,
    /// Whether the address is printed: from then on, what cannot be read is named on standard error as it comes.
    is_up: AtomicBool,
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

    /// A file that cannot be shown; the message names it.
    fn fail(&self, name: &str, message: String) {
        if self.is_up.load(Ordering::Relaxed) {
            text::complain(&message);
        }
        self.tell(name, News::Failed { name: name.to_owned(), message });
    }
}

impl Log {
    /// Why files could not be opened.
    fn failures(&self) -> Vec<String> {
        let failed = |news: &News| match news {
            News::Failed { message, .. } => Some(message.clone()),
            _ => None,
        };
        self.news.iter().filter_map(failed).collect()
    }

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
    let shared = Arc::new(Shared::default());
    shared.session.write().unwrap_or_else(PoisonError::into_inner).set_sql(crate::sql::for_viewers());
    for error in errors {
        shared.fail("", error.to_string());
    }
    // Before anybody can ask: nothing being read would mean that all is there.
    for input in &inputs {
        shared.log().reading.insert(name(input), (0, size(input)));
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let port = listener.local_addr()?.port();
    let (first, opened) = sync_channel(1);
    let (cache, reader) = (args.cache.cache(), Arc::clone(&shared));
    thread::spawn(move || read(&inputs, cache.as_ref(), &reader, first));
    if opened.recv_timeout(FIRST_FILE) == Err(RecvTimeoutError::Disconnected) {
        let failed = shared.log().failures().join("\nvramscope: ");
        return Err(anyhow!("{failed}\nvramscope: {NOTHING_TO_SERVE}"));
    }
    shared.is_up.store(true, Ordering::Relaxed);
    shared.log().failures().iter().for_each(|failure| text::complain(failure));

    let token = args.token.clone().map_or_else(random, Ok)?;
    writeln!(out, "http://127.0.0.1:{port}/{token}/")?;
    writeln!(out, "From another machine, first: ssh -L {port}:127.0.0.1:{port} {}", this_machine())?;
    writeln!(out, "Press Ctrl+C to stop.")?;
    out.flush()?;
    let auth = Auth {
        token,
        hosts: args.allow_host.clone(),
        page: site.served(),
        version: site.version().to_owned(),
        module: site.module,
        embed: args.embed,
        started: random()?,
        shared,
    };
    let answer: Arc<http::Answer> =
        Arc::new(move |asked: &_, is_open: &dyn Fn() -> bool| auth.answer(asked, is_open));
    http::serve(&listener, &answer);
    Ok(ExitCode::SUCCESS)
}

/// What follows the reasons for which no file could be opened.
const NOTHING_TO_SERVE: &str = "nothing to serve. Name a memory snapshot, or a folder of them";

/// What an input is called in news.
fn name(input: &Input) -> String {
    input.path.display().to_string()
}

/// The bytes to read; zero where nobody knows.
fn size(input: &Input) -> u64 {
    input.path.metadata().map_or(0, |metadata| metadata.len())
}

/// Opens the files one by one, the first first: what is on the screen soonest counts. Says so on the channel as soon as
/// there is something to show.
fn read(inputs: &[Input], cache: Option<&Cache>, shared: &Shared, first: SyncSender<()>) {
    for input in inputs {
        let name = &name(input);
        let progress = Reading { shared, name, done: AtomicU64::new(0), total: size(input) };
        let result = open(input, cache, &progress);
        // It may have been read to its end by then.
        if progress.is_cancelled() {
            shared.log().reading.clear();
            break;
        }
        match result {
            Ok(opened) if opened.devices.is_empty() => {
                shared.fail(name, format!("{name}: there is nothing to show: {NOTHING_RECORDED}"));
            }
            Ok(opened) => {
                let mut session = shared.session.write().unwrap_or_else(PoisonError::into_inner);
                let sources = session.add(for_session(opened));
                shared.tell(name, News::Opened { name: name.clone(), sources });
                // Only the first one is waited for.
                let _ = first.try_send(());
            }
            Err(error) if !input.named && error.is_another_kind() => {
                shared.log().reading.remove(name);
            }
            Err(error) => shared.fail(name, error.to_string()),
        }
    }
    shared.tell("", News::Idle);
    drop(first);
}

/// An opened file as a session takes it.
pub(crate) fn for_session(opened: Opened) -> OpenFile {
    let name = opened.path.display().to_string();
    let rank = opened.name.rank_text();
    OpenFile::new(name, rank, opened.bytes, opened.snapshot, opened.devices).with_role(opened.name.role)
}

/// A token that was chosen: one that fits into an address and is not quickly guessed.
fn own_token(typed: &str) -> Result<String, String> {
    match typed.len() >= 16 && typed.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => Ok(typed.to_owned()),
        false => Err("a token has 16 letters and digits or more".to_owned()),
    }
}

/// What nobody can guess.
fn random() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| anyhow!("no random numbers: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What this machine is called, for the line to type elsewhere.
fn this_machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "HOST".to_owned() } else { name.trim().to_owned() }
}
