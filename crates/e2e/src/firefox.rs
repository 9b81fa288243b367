//! A Firefox on a virtual screen, driven over Marionette: JSON with its length before it, on a socket of this machine.
//!
//! Without a screen Firefox offers no WebGL, with one it takes Mesa's.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};

use crate::Screen;
use crate::driver::{Browser, PATIENCE};

/// Any free port; nothing that calls home.
const SETTINGS: &str = r#"
user_pref("marionette.port", 0);
user_pref("app.update.enabled", false);
user_pref("ui.systemUsesDarkTheme", 1);
user_pref("layout.css.prefers-color-scheme.content-override", 0);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("extensions.update.enabled", false);
"#;

/// Errors of scripts of the page, and what it was not allowed to do.
const ERRORS: &str = "return Services.console.getMessageArray()
    .filter((message) => message instanceof Ci.nsIScriptError && !(message.flags & Ci.nsIScriptError.warningFlag))
    .filter((message) => /^(file|http|blob):/.test(message.sourceName))
    .map((message) => message.errorMessage);";

/// A browser with one page.
#[derive(Debug)]
pub struct Firefox {
    child: Child,
    commands: BufReader<TcpStream>,
    last: u64,
    _profile: tempfile::TempDir,
    _screen: Screen,
}

impl Firefox {
    /// Starts the browser with a fresh profile.
    pub fn start() -> anyhow::Result<Self> {
        let (profile, screen) = (tempfile::tempdir()?, Screen::start()?);
        fs::write(profile.path().join("user.js"), SETTINGS)?;
        let child = Command::new("firefox-esr")
            .args(["--marionette", "--remote-allow-system-access", "--no-remote", "--profile"])
            .arg(profile.path())
            .env("DISPLAY", &screen.display)
            .env("LIBGL_ALWAYS_SOFTWARE", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("firefox-esr: `cargo xtask setup` installs it")?;
        let until = Instant::now() + PATIENCE;
        let stream = loop {
            let port = fs::read_to_string(profile.path().join("MarionetteActivePort")).unwrap_or_default();
            if let Ok(stream) = TcpStream::connect(format!("127.0.0.1:{}", port.trim())) {
                break stream;
            }
            ensure!(Instant::now() < until, "Firefox opens no port");
            thread::sleep(Duration::from_millis(100));
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        let commands = BufReader::new(stream);
        let mut firefox = Self { child, commands, last: 0, _profile: profile, _screen: screen };
        // It says who it is first.
        firefox.receive()?;
        firefox.call("WebDriver:NewSession", &json!({}))?;
        Ok(firefox)
    }

    fn receive(&mut self) -> anyhow::Result<Value> {
        let mut len = Vec::new();
        self.commands.read_until(b':', &mut len)?;
        len.pop();
        let mut message = vec![0; String::from_utf8(len)?.parse().context("no length")?];
        self.commands.read_exact(&mut message)?;
        Ok(serde_json::from_slice(&message)?)
    }

    fn call(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.last += 1;
        let text = json!([0, self.last, method, params]).to_string();
        self.commands.get_mut().write_all(format!("{}:{text}", text.len()).as_bytes())?;
        let answer = self.receive()?;
        ensure!(answer[2].is_null(), "{method}: {}", answer[2]);
        Ok(answer[3].clone())
    }

    fn run(&mut self, script: &str) -> anyhow::Result<Value> {
        Ok(self.call("WebDriver:ExecuteScript", &json!({ "script": script, "args": [] }))?["value"].clone())
    }

    /// Picks files, as in the browser's own dialog.
    pub fn pick(&mut self, paths: &[&Path]) -> anyhow::Result<()> {
        let found =
            self.call("WebDriver:FindElement", &json!({ "using": "css selector", "value": "#files" }))?;
        let id = found["value"].as_object().and_then(|object| object.values().next()).cloned();
        let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
        self.call("WebDriver:ElementSendKeys", &json!({ "id": id, "text": paths.join("\n") }))?;
        Ok(())
    }
}

impl Browser for Firefox {
    fn open(&mut self, url: &str) -> anyhow::Result<()> {
        self.call("WebDriver:Navigate", &json!({ "url": url }))?;
        Ok(())
    }

    fn value(&mut self, expression: &str) -> anyhow::Result<Value> {
        self.run(&format!("return {expression};"))
    }

    fn screenshot(&mut self) -> anyhow::Result<Vec<u8>> {
        let answer = self.call("WebDriver:TakeScreenshot", &json!({ "full": false }))?;
        Ok(BASE64_STANDARD.decode(answer["value"].as_str().unwrap_or_default())?)
    }

    fn complaints(&mut self) -> anyhow::Result<Vec<String>> {
        self.call("Marionette:SetContext", &json!({ "value": "chrome" }))?;
        let errors = self.run(ERRORS)?;
        self.call("Marionette:SetContext", &json!({ "value": "content" }))?;
        Ok(serde_json::from_value(errors)?)
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        let _ = self.call("Marionette:Quit", &json!({ "flags": ["eForceQuit"] }));
        crate::end(&mut self.child);
    }
}
