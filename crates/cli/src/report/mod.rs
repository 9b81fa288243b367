//! `vramscope report`: the viewer, the data and the summary as one file.

mod public;
mod redact;
mod trials;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use base64::prelude::{BASE64_STANDARD, Engine};
use clap::Args as ClapArgs;
use flate2::Compression;
use flate2::write::GzEncoder;
use vramscope_analysis::Counter;
use vramscope_engine::{AskSummary, Session, Source, paint};
use vramscope_format::{bytes as bytes_text, html, plural};
use vramscope_snapshot::ipc;

use crate::args::{CacheArgs, FileArgs, FilterArgs};
use crate::site::Site;
use crate::{batch, output, serve, summary};

/// One HTML file with everything in it: viewer, data, summary, picture
///
/// It opens in any browser, from a disk, without a network and without vramscope.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope report snapshot.pickle -o report.html
  vramscope report run/ -o report.html --redact      # for people who may not see paths and names")]
pub(crate) struct ReportArgs {
    /// Snapshot files, or folders of them
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Keep only names that are public: files, functions and operators of PyTorch and Python
    #[arg(long)]
    pub(crate) redact: bool,
    /// With --redact, keep the names of all installed packages, private ones too
    #[arg(long, requires = "redact")]
    pub(crate) keep_libraries: bool,
    #[command(flatten)]
    pub(crate) file: FileArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
}

/// Pixels of the picture.
const PICTURE: (u32, u32) = (1400, 420);

/// What a file becomes.
struct Part {
    name: String,
    bytes: u64,
    /// `rank 3`; a profile has it inside, not in its path.
    rank: String,
    /// What the process was for, where that is known.
    role: Option<String>,
    /// Arrow IPC, packed with gzip.
    data: Vec<u8>,
    /// The timeline of each device, and what it shows.
    pictures: Vec<(Vec<u8>, String)>,
    /// What other settings would have done on each device.
    trials: String,
    summary: summary::File,
}

pub(crate) fn run(args: &ReportArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if args.file.output_file.is_none() && std::io::stdout().is_terminal() {
        bail!("a report is not for a terminal; name a file with -o");
    }
    let site = Site::find()?;
    let read =
        batch::open_paths(&args.paths, &args.filter, args.cache.cache().as_ref(), |opened, filter| {
            let opened = if args.redact { redact::redact(opened, args.keep_libraries) } else { opened };
            let mut packer = GzEncoder::new(Vec::new(), Compression::default());
            ipc::encode(&opened.snapshot, &mut packer)?;
            let data = packer.finish()?;
            let name = opened.path.display().to_string();
            let (bytes, rank, role) = (opened.bytes, opened.name.rank_text(), opened.name.role.clone());
            let mut session = Session::default();
            let sources = session.add(serve::for_session(opened.again()));
            let picture = |of: Source| {
                let shown = session.ask(AskSummary { of })?;
                let peak = bytes_text(shown.peak(Counter::Requested).bytes);
                let (which, events) = (shown.name_of(Counter::Requested), plural(shown.events, "event"));
                let caption = format!("{} · {which} bytes over {events}, peak {peak}", shown.device);
                Some((paint::poster(&session, of, PICTURE)?, caption))
            };
            let pictures = sources.iter().copied().filter_map(picture).collect();
            let trials = sources.iter().map(|&of| trials::table(&session, of)).collect();
            let summary = summary::File::new(opened, filter)?;
            Ok(Part { name, bytes, rank, role, data, pictures, trials, summary })
        })?;
    output::write_to(&args.file, &args.paths, out, |out| {
        let data = body(&read.values, &site)?;
        Ok(out.write_all(site.with(&data).as_bytes())?)
    })?;
    Ok(read.finish(out, 0)?)
}

/// What a person without script reads, and what the viewer opens.
fn body(parts: &[Part], site: &Site) -> anyhow::Result<String> {
    let mut body = String::from("<main id=\"summary\">\n<h1>vramscope report</h1>\n");
    for part in parts {
        let mut text = Vec::new();
        summary::print(std::slice::from_ref(&part.summary), false, &mut text)?;
        let name = html(&part.name);
        body += &format!("<h2>{name}</h2>\n");
        for (picture, caption) in &part.pictures {
            let (picture, caption) = (BASE64_STANDARD.encode(picture), html(caption));
            body += &format!(
                "<figure><img alt=\"Memory timeline of {name}\" src=\"data:image/png;base64,{picture}\">\
                 <figcaption>{caption}</figcaption></figure>\n"
            );
        }
        body += &format!("<pre>{}</pre>\n{}", html(&String::from_utf8_lossy(&text)), part.trials);
    }
    body += "</main>\n";
    let module = BASE64_STANDARD.encode(&site.module);
    body += &format!("<script id=\"module\" type=\"text/plain\">{module}</script>\n");
    for Part { name, bytes, rank, role, data, .. } in parts {
        let role = role.as_ref().map_or_else(String::new, |role| format!(" data-role=\"{}\"", html(role)));
        let (name, data) = (html(name), BASE64_STANDARD.encode(data));
        body += &format!(
            "<script type=\"text/plain\" data-snapshot=\"{name}\" data-bytes=\"{bytes}\" data-rank=\"{rank}\"{role}>\
             {data}</script>\n"
        );
    }
    Ok(body)
}
