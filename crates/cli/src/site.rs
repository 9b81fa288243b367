//! The viewer's page, which `serve` and `report` hand out.
//!
//! It is built for another target, by `cargo xtask web`. A binary that is built after that has it inside (see
//! `build.rs`); `VRAMSCOPE_WEB` names another one.

use std::path::{Path, PathBuf};

use anyhow::Context;
use vramscope_format::html;

/// Names the folder of the site.
const FOLDER: &str = "VRAMSCOPE_WEB";

/// How to have a page.
pub(crate) const HOW: &str = "In the sources of vramscope, run `cargo xtask web` and then `cargo build --release`; or let \
     VRAMSCOPE_WEB name the folder `dist/web` that the first one makes";

/// Where a page takes what belongs to it.
const DATA: &str = "<!--data-->";

/// What the page by itself is called.
const TITLE: &str = "<title>vramscope</title>";

/// What is before the version in the page's script.
const VERSION: &str = "const version = \"";

/// What the page by itself may reach, to fetch files that its address names; and what a page with data may.
const ANYWHERE: &str = "connect-src 'self' https: http:;";
const HERE: &str = "connect-src 'self';";

/// The page and its module.
pub(crate) struct Site {
    page: String,
    /// The module, packed with gzip.
    pub(crate) module: Vec<u8>,
}

impl Site {
    /// Finds the site, or says how to have one.
    pub(crate) fn find() -> anyhow::Result<Self> {
        Self::find_any()?.with_context(|| format!("this binary was built without the page. {HOW}"))
    }

    /// Finds the site, if there is one. An empty variable asks for none.
    pub(crate) fn find_any() -> anyhow::Result<Option<Self>> {
        match std::env::var_os(FOLDER) {
            Some(folder) if folder.is_empty() => Ok(None),
            Some(folder) => Self::in_folder(&PathBuf::from(folder)).map(Some),
            None => Ok(Self::inside()),
        }
    }

    fn in_folder(folder: &Path) -> anyhow::Result<Self> {
        let path = |name| folder.join(name);
        let (page, module) = (path("index.html"), path("vramscope.wasm.gz"));
        let hint = |path: &Path| format!("{FOLDER} names no site of `cargo xtask web`: {}", path.display());
        Ok(Self {
            page: std::fs::read_to_string(&page).with_context(|| hint(&page))?,
            module: std::fs::read(&module).with_context(|| hint(&module))?,
        })
    }

    #[cfg(page)]
    #[allow(clippy::unnecessary_wraps, reason = "elsewhere there is none")]
    fn inside() -> Option<Self> {
        Some(Self {
            page: include_str!(concat!(env!("VRAMSCOPE_PAGE"), "/index.html")).to_owned(),
            module: include_bytes!(concat!(env!("VRAMSCOPE_PAGE"), "/vramscope.wasm.gz")).to_vec(),
        })
    }

    #[cfg(not(page))]
    fn inside() -> Option<Self> {
        None
    }

    /// What the page adds to the address of its module; empty in a page that does not say.
    pub(crate) fn version(&self) -> &str {
        let rest = self.page.split_once(VERSION).map_or("", |(_, rest)| rest);
        rest.split('"').next().unwrap_or_default()
    }

    /// The page whose session is in the process that serves it.
    pub(crate) fn served(&self) -> String {
        self.closed().replacen("<html ", "<html data-session=\"server\" ", 1)
    }

    /// The page with a title and something of its own inside.
    pub(crate) fn with(&self, title: &str, data: &str) -> String {
        self.closed().replacen(TITLE, &titled(title), 1).replacen(DATA, data, 1)
    }

    /// The page that can reach nothing but the place that it came from: it has its data already.
    fn closed(&self) -> String {
        self.page.replacen(ANYWHERE, HERE, 1)
    }
}

/// A title as an element.
pub(crate) fn titled(title: &str) -> String {
    format!("<title>{}</title>", html(title))
}
