//! `vramscope report`: the viewer, the data and the summary as one file.

mod figure;
mod public;
mod redact;
mod trials;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use base64::prelude::{BASE64_STANDARD, Engine};
use clap::Args as ClapArgs;
use flate2::Compression;
use flate2::write::GzEncoder;
use vramscope_analysis::Device;
use vramscope_engine::{Session, Source};
use vramscope_format::html;
use vramscope_snapshot::embedded;

use crate::args::{CacheArgs, FileArgs, FilterArgs};
use crate::site::{self, Site};
use crate::summary::Figure;
use crate::{batch, output, serve, summary, text};

/// One HTML file with everything in it: viewer, data, summary, picture
///
/// It opens in any browser, from a disk, without a network and without vramscope; the summary, pictures and findings
/// without script, too. A binary that was built without the viewer writes those alone.
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
    /// What the viewer shows first, with its notes: the part after # of a link that it made
    #[arg(long, value_name = "LINK", conflicts_with = "redact", value_parser = link)]
    pub(crate) link: Option<String>,
    #[command(flatten)]
    pub(crate) file: FileArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
}

/// What a file becomes.
struct Part {
    name: String,
    bytes: u64,
    /// `rank 3`; a profile has it inside, not in its path.
    rank: String,
    /// What the process was for, where that is known.
    role: Option<String>,
    /// Columns of the snapshot, packed with gzip.
    data: Vec<u8>,
    /// What is shown of each device beside the summary.
    figures: Vec<Figure>,
    summary: summary::File,
}

pub(crate) fn run(args: &ReportArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if args.file.path().is_none() && std::io::stdout().is_terminal() {
        bail!("a report is not for a terminal; name a file with -o");
    }
    let site = Site::find_any()?;
    let read =
        batch::open_paths(&args.paths, &args.filter, args.cache.cache().as_ref(), |opened, filter| {
            let opened = if args.redact { redact::redact(opened, args.keep_libraries) } else { opened };
            let mut data = Vec::new();
            if site.is_some() {
                let mut packer = GzEncoder::new(Vec::new(), Compression::default());
                embedded::encode(&opened.snapshot, &mut packer)?;
                data = packer.finish()?;
            }
            let name = opened.path.display().to_string();
            let (bytes, rank, role) = (opened.bytes, opened.name.rank_text(), opened.name.role.clone());
            let mut session = Session::default();
            let sources = session.add(serve::for_session(opened.again()));
            let figure = |(of, device): (Source, &Arc<Device>)| figure::figure(&name, &session, of, device);
            let figures = sources.iter().copied().zip(&opened.devices).filter_map(figure).collect();
            let summary = summary::File::new(opened.again(), filter)?;
            Ok(Part { name, bytes, rank, role, data, figures, summary })
        })?;
    output::write_to(&args.file, &args.paths, out, |out| {
        let (parts, title) = (&read.values, title(&read.values));
        let page = match &site {
            Some(site) => {
                site.with(&title, &(shown(parts, None)? + &carried(parts, site, args.link.as_deref())))
            }
            None => alone(&title, &shown(parts, Some(NO_VIEWER))?),
        };
        Ok(out.write_all(page.as_bytes())?)
    })?;
    if site.is_none() {
        text::complain(&format!("the report has no interactive viewer: {}", site::HOW));
    }
    Ok(read.finish(out, 0)?)
}

/// The colors, type and spaces of what is shown without script.
const STYLE: &str = include_str!("style.css");

/// What the end of a report without the viewer says.
const NO_VIEWER: &str = "Without the interactive viewer. Open the snapshot itself: vramscope view FILE.";

/// What the report is of, for the title of its window.
fn title(parts: &[Part]) -> String {
    let file = |part: &Part| part.name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
    match parts {
        [] => "vramscope report".to_owned(),
        [only] => format!("{} · vramscope report", file(only)),
        [first, others @ ..] => format!("{} and {} more · vramscope report", file(first), others.len()),
    }
}

/// A page of its own, which can load nothing.
fn alone(title: &str, shown: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<link rel=\"icon\" href=\"data:,\">\n\
         {}\n</head>\n<body>\n{shown}</body>\n</html>\n",
        site::titled(title)
    )
}

/// What a person without script reads.
fn shown(parts: &[Part], remark: Option<&str>) -> anyhow::Result<String> {
    let mut shown = format!("<style>\n{STYLE}</style>\n<main id=\"summary\">\n<h1>vramscope report</h1>\n");
    for part in parts {
        let mut text = Vec::new();
        summary::print(std::slice::from_ref(&part.summary), false, &mut text)?;
        shown += &part.summary.html(&part.name, &part.figures, &String::from_utf8_lossy(&text));
    }
    let remark = remark.map_or_else(String::new, |remark| format!(" · {remark}"));
    shown += &format!("<footer>vramscope {}{}</footer>\n</main>\n", env!("CARGO_PKG_VERSION"), html(&remark));
    Ok(shown)
}

/// A link of the viewer, or what is after the # of one. It becomes a part of the page, so nothing else is taken.
fn link(typed: &str) -> Result<String, String> {
    let link = typed.rsplit('#').next().unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"=&,.~+_-".contains(&byte);
    match link.contains('=') && link.bytes().all(is_plain) {
        true => Ok(link.to_owned()),
        false => Err("not a link of the viewer: the key L copies one".to_owned()),
    }
}

/// What the viewer opens, and the viewer's own code.
fn carried(parts: &[Part], site: &Site, link: Option<&str>) -> String {
    let module = BASE64_STANDARD.encode(&site.module);
    let mut body = format!("<script id=\"module\" type=\"text/plain\">{module}</script>\n");
    if let Some(link) = link {
        body += &format!("<script id=\"link\" type=\"text/plain\">{link}</script>\n");
    }
    for Part { name, bytes, rank, role, data, .. } in parts {
        let role = role.as_ref().map_or_else(String::new, |role| format!(" data-role=\"{}\"", html(role)));
        let (name, data) = (html(name), BASE64_STANDARD.encode(data));
        body += &format!(
            "<script type=\"text/plain\" data-snapshot=\"{name}\" data-bytes=\"{bytes}\" data-rank=\"{rank}\"{role}>\
             {data}</script>\n"
        );
    }
    body
}
