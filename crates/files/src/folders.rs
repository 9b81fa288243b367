//! Where a user's files go.

use std::path::PathBuf;

/// Where settings are kept: `$XDG_CONFIG_HOME/vramscope`, or `~/.config/vramscope`.
pub fn config_folder() -> Option<PathBuf> {
    folder("XDG_CONFIG_HOME", ".config", "APPDATA")
}

/// What can be made again: `$XDG_CACHE_HOME/vramscope`, or `~/.cache/vramscope`.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    folder("XDG_CACHE_HOME", ".cache", "LOCALAPPDATA")
}

/// The folder that a variable names, or one in the home folder, or what Windows has for it.
fn folder(variable: &str, in_home: &str, windows: &str) -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(variable)
        .or_else(|| absolute("HOME").map(|home| home.join(in_home)))
        .or_else(|| absolute(windows))?;
    Some(base.join("vramscope"))
}
