//! A screen that needs no hardware.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

/// A virtual screen that ends with its owner.
#[derive(Debug)]
pub struct Screen {
    server: Child,
    /// What `DISPLAY` is to be.
    pub display: String,
}

impl Screen {
    /// Starts the screen.
    pub fn start() -> anyhow::Result<Self> {
        let mut server = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", "1400x900x24"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("Xvfb: `cargo xtask setup` installs it")?;
        let mut number = String::new();
        let output = server.stdout.take().context("Xvfb says no display")?;
        BufReader::new(output).read_line(&mut number)?;
        Ok(Self { server, display: format!(":{}", number.trim()) })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
