//! `vramscope view`: the window.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as ClapArgs;
use vramscope_analysis::capacity;

use crate::args::CacheArgs;
use crate::serve::{self, ServeArgs};
use crate::shapes::ModelArgs;
use crate::text;

/// A window with every view: timeline, segments, flame graph, tables, comparison
///
/// Without a path, the window shows where to drop files. Where there is no display, it serves the same viewer
/// to a browser, as `vramscope serve` does.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope view snapshot.pickle
  vramscope view run/ --gpu H100             # all ranks of a folder, with a line at the device's capacity")]
pub(crate) struct ViewArgs {
    /// Files, or folders of ranks
    pub(crate) paths: Vec<PathBuf>,
    /// The device's capacity: a size like 80GiB, or a name like H100
    #[arg(long, value_name = "NAME|SIZE", value_parser = capacity)]
    pub(crate) gpu: Option<u64>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Save a picture of the window once it is drawn, and close it
    #[arg(long, value_name = "FILE.png")]
    pub(crate) screenshot: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
}

pub(crate) fn run(args: &ViewArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if args.screenshot.is_none() && !args.paths.is_empty() && !has_display() {
        text::complain(
            "there is no display here (neither DISPLAY nor WAYLAND_DISPLAY is set): serving to a browser",
        );
        let serve = ServeArgs {
            paths: args.paths.clone(),
            port: 0,
            token: None,
            embed: false,
            allow_host: Vec::new(),
            cache: args.cache.clone(),
        };
        return serve::run(&serve, out);
    }
    open(args)
}

#[cfg(not(feature = "window"))]
fn open(_: &ViewArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "this vramscope was built without the window: `vramscope serve PATH` shows the same in a browser, and \
         `cargo install --path crates/cli` builds it with the window"
    )
}

#[cfg(feature = "window")]
fn open(args: &ViewArgs) -> anyhow::Result<ExitCode> {
    use vramscope_analysis::shapes::{Dims, Shapes};

    let dims = args.model.dims()?;
    vramscope_viewer::run(vramscope_viewer::Options {
        paths: args.paths.clone(),
        cache: args.cache.cache(),
        capacity: args.gpu,
        shapes: (dims != Dims::default()).then(|| Shapes::new(&dims)),
        // A picture must not depend on what was looked at before.
        config: if args.screenshot.is_some() { None } else { vramscope_files::config_folder() },
        screenshot: args.screenshot.clone(),
        sql: crate::sql::for_viewers(),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a window has somewhere to go. Only on systems where variables say so can it be none.
fn has_display() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !cfg!(all(unix, not(target_os = "macos"))) || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}
