//! A Chromium without a screen, driven over its DevTools protocol.
//!
//! The protocol runs over two pipes (`--remote-debugging-pipe`), so nothing listens on a port. A shell puts them
//! where Chromium looks for them: its descriptors 3 and 4.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};

use crate::driver::{Browser, PATIENCE};

/// No sandbox, because gates run as root in a container; nothing that calls home.
const FLAGS: &str = "--headless --no-sandbox --use-angle=swiftshader --enable-unsafe-swiftshader \
    --disable-background-networking --disable-component-update --disable-sync --no-first-run \
    --allow-file-access-from-files=false --window-size=1400,900 --hide-scrollbars --remote-debugging-pipe";

/// A browser with one page.
#[derive(Debug)]
pub struct Chromium {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    last: u64,
    session: String,
    /// Sessions of the page's workers.
    workers: Vec<String>,
    complaints: Vec<String>,
    /// Every address that was asked for.
    pub requests: Vec<String>,
    /// Bytes that came over the network.
    pub received: f64,
    is_loaded: bool,
    /// Events of the browser's own trace, and whether it has ended.
    trace: (Vec<Value>, bool),
    _profile: tempfile::TempDir,
}

impl Chromium {
    /// Starts the browser with a fresh profile.
    pub fn start() -> anyhow::Result<Self> {
        let profile = tempfile::tempdir()?;
        let line = format!(
            "exec chromium {FLAGS} --user-data-dir='{}' 3<&0 4>&1 >/dev/null",
            profile.path().display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let commands = child.stdin.take().context("no pipe")?;
        let answers = child.stdout.take().context("no pipe")?;
        let (sender, messages) = channel();
        thread::spawn(move || {
            let mut answers = BufReader::new(answers);
            let mut message = Vec::new();
            while answers.read_until(0, &mut message).is_ok_and(|len| len > 0) {
                message.pop();
                if let Ok(value) = serde_json::from_slice(&message)
                    && sender.send(value).is_err()
                {
                    return;
                }
                message.clear();
            }
        });
        let mut chromium = Self {
            child,
            commands,
            messages,
            last: 0,
            session: String::new(),
            workers: Vec::new(),
            complaints: Vec::new(),
            requests: Vec::new(),
            received: 0.0,
            is_loaded: false,
            trace: (Vec::new(), false),
            _profile: profile,
        };
        let page = chromium.call("Target.createTarget", &json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let session = chromium
            .call("Target.attachToTarget", &attach)
            .context("is Chromium installed? `cargo xtask setup` installs it")?;
        chromium.session = session["sessionId"].as_str().unwrap_or_default().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network", "DOM", "Performance"] {
            chromium.call(&format!("{domain}.enable"), &json!({}))?;
        }
        let workers = json!({ "autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true });
        chromium.call("Target.setAutoAttach", &workers)?;
        // Without a GPU, a frame costs what its pixels cost.
        chromium.resize(1120, 720)?;
        // The page follows the system, and the pictures are compared in the dark.
        let dark = json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
        chromium.call("Emulation.setEmulatedMedia", &dark)?;
        Ok(chromium)
    }

    /// Gives the page a size.
    pub fn resize(&mut self, width: u32, height: u32) -> anyhow::Result<()> {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size)?;
        Ok(())
    }

    /// Bytes that the browser and all of its processes hold by themselves.
    pub fn memory(&self) -> f64 {
        let mut ours = vec![self.child.id().to_string()];
        let mut all = 0.0;
        while let Some(id) = ours.pop() {
            let read = |name: &str| std::fs::read_to_string(format!("/proc/{id}/{name}")).unwrap_or_default();
            let field = |text: &str| text.split_whitespace().nth(1).and_then(|text| text.parse::<f64>().ok());
            let rollup = read("smaps_rollup");
            let private = rollup.lines().filter(|line| line.starts_with("Private_"));
            all += private.filter_map(field).sum::<f64>() * 1024.0;
            let children = read(&format!("task/{id}/children"));
            ours.extend(children.split_whitespace().map(str::to_owned));
        }
        all
    }

    /// Sends a command and waits for its answer; what else happens meanwhile is taken down.
    pub fn call(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.call_in(&self.session.clone(), method, params)
    }

    fn send(&mut self, session: &str, method: &str, params: &Value) -> anyhow::Result<()> {
        self.last += 1;
        let mut command = json!({ "id": self.last, "method": method, "params": params });
        if !session.is_empty() {
            command["sessionId"] = session.into();
        }
        let mut bytes = serde_json::to_vec(&command)?;
        bytes.push(0);
        Ok(self.commands.write_all(&bytes)?)
    }

    fn call_in(&mut self, session: &str, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.send(session, method, params)?;
        let id = self.last;
        let until = Instant::now() + PATIENCE;
        loop {
            let message = match self.messages.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => bail!("no answer to {method}"),
                Err(RecvTimeoutError::Disconnected) => bail!("the browser is gone"),
            };
            if message["id"] == id {
                ensure!(message["error"].is_null(), "{method}: {}", message["error"]);
                return Ok(message["result"].clone());
            }
            self.note(&message)?;
        }
    }

    fn note(&mut self, message: &Value) -> anyhow::Result<()> {
        let params = &message["params"];
        let complaint = match message["method"].as_str().unwrap_or_default() {
            "Runtime.consoleAPICalled"
                if ["error", "assert"].contains(&params["type"].as_str().unwrap_or_default()) =>
            {
                params["args"].to_string()
            }
            "Runtime.exceptionThrown" => params["exceptionDetails"].to_string(),
            "Log.entryAdded" if params["entry"]["level"] == "error" => params["entry"].to_string(),
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                self.requests.push(url.chars().take(200).collect());
                return Ok(());
            }
            "Network.loadingFinished" => {
                self.received += params["encodedDataLength"].as_f64().unwrap_or_default();
                return Ok(());
            }
            "Page.loadEventFired" => {
                self.is_loaded = true;
                return Ok(());
            }
            "Tracing.dataCollected" => {
                self.trace.0.extend(params["value"].as_array().into_iter().flatten().cloned());
                return Ok(());
            }
            "Tracing.tracingComplete" => {
                self.trace.1 = true;
                return Ok(());
            }
            "Target.attachedToTarget" if params["targetInfo"]["type"] == "worker" => {
                let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
                for domain in ["Runtime", "Network"] {
                    self.send(&session, &format!("{domain}.enable"), &json!({}))?;
                }
                self.workers.push(session);
                return Ok(());
            }
            "Target.detachedFromTarget" => {
                self.workers.retain(|session| params["sessionId"] != *session);
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.complaints.push(complaint);
        Ok(())
    }

    /// Begins to take down what the threads do.
    pub fn watch(&mut self) -> anyhow::Result<()> {
        self.trace = (Vec::new(), false);
        let params = json!({ "transferMode": "ReportEvents", "categories": "toplevel" });
        self.call("Tracing.start", &params)?;
        Ok(())
    }

    /// The longest task of the page's own thread since then: CPU milliseconds, and wall milliseconds.
    pub fn longest_task(&mut self) -> anyhow::Result<(f64, f64)> {
        self.call("Tracing.end", &json!({}))?;
        let until = Instant::now() + PATIENCE;
        while !self.trace.1 {
            ensure!(Instant::now() < until, "the trace does not end");
            self.value("0")?;
        }
        let events = std::mem::take(&mut self.trace.0);
        let thread = |event: &Value| (event["pid"].clone(), event["tid"].clone());
        let is_main = |event: &&Value| event["args"]["name"] == "CrRendererMain";
        let main: Vec<_> = events.iter().filter(is_main).map(thread).collect();
        let is_task = |event: &&Value| {
            event["name"].as_str().is_some_and(|name| name.ends_with("RunTask"))
                && main.contains(&thread(event))
        };
        let ms = |event: &Value, key: &str| event[key].as_f64().unwrap_or_default() / 1e3;
        let longest = |key: &str| events.iter().filter(is_task).map(|task| ms(task, key)).fold(0.0, f64::max);
        ensure!(!main.is_empty() && longest("dur") > 0.0, "the trace has no tasks");
        Ok((longest("tdur"), longest("dur")))
    }

    /// The page's workers, to be asked for values.
    pub fn workers(&self) -> Vec<String> {
        self.workers.clone()
    }

    /// The value of an expression in a worker, or in the page.
    pub fn value_in(&mut self, session: &str, expression: &str) -> anyhow::Result<Value> {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call_in(session, "Runtime.evaluate", &params)?;
        ensure!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        Ok(answer["result"]["value"].clone())
    }

    /// Bytes of the JavaScript heap of the page and its workers.
    pub fn heap(&mut self) -> anyhow::Result<f64> {
        let mut bytes = 0.0;
        for session in [vec![self.session.clone()], self.workers()].concat() {
            let heap = self.call_in(&session, "Runtime.getHeapUsage", &json!({}))?;
            let part = |name: &str| heap[name].as_f64().unwrap_or_default();
            bytes += part("totalSize") + part("backingStorageSize") + part("embedderHeapUsedSize");
        }
        Ok(bytes)
    }

    /// Drops files and folders on the middle of the page, as a hand does it, and says when it let go.
    pub fn drop_files(&mut self, paths: &[&Path]) -> anyhow::Result<Instant> {
        let mut drag = |kind: &str| {
            let data = json!({ "items": [], "files": paths, "dragOperationsMask": 1 });
            self.call("Input.dispatchDragEvent", &json!({ "type": kind, "x": 700, "y": 450, "data": data }))
        };
        drag("dragEnter")?;
        drag("dragOver")?;
        thread::sleep(Duration::from_millis(300));
        let let_go = Instant::now();
        drag("drop")?;
        Ok(let_go)
    }

    /// Moves, presses and lets go.
    pub fn click(&mut self, x: f64, y: f64) -> anyhow::Result<()> {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event)?;
            thread::sleep(Duration::from_millis(60));
        }
        Ok(())
    }

    /// Presses at one point, moves to another in steps, and lets go.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) -> anyhow::Result<()> {
        let event = |kind: &str, (x, y): (f64, f64)| json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1 });
        self.call("Input.dispatchMouseEvent", &event("mousePressed", from))?;
        for step in 1..=20 {
            let part = f64::from(step) / 20.0;
            let at = (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part);
            self.call("Input.dispatchMouseEvent", &event("mouseMoved", at))?;
        }
        self.call("Input.dispatchMouseEvent", &event("mouseReleased", to))?;
        Ok(())
    }

    /// Turns the wheel.
    pub fn wheel(&mut self, x: f64, y: f64, delta: f64) -> anyhow::Result<()> {
        self.call("Input.dispatchMouseEvent", &json!({ "type": "mouseMoved", "x": x, "y": y }))?;
        let event = json!({ "type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": delta });
        self.call("Input.dispatchMouseEvent", &event)?;
        Ok(())
    }

    /// Presses a key.
    pub fn key(&mut self, key: &str) -> anyhow::Result<()> {
        self.key_with(key, 0)
    }

    /// Writes a text where the keyboard focus is.
    pub fn write(&mut self, text: &str) -> anyhow::Result<()> {
        self.call("Input.insertText", &json!({ "text": text }))?;
        Ok(())
    }

    /// Presses a key with modifiers, as the protocol numbers them: 1 Alt, 2 Ctrl, 8 Shift.
    pub fn key_with(&mut self, key: &str, modifiers: u32) -> anyhow::Result<()> {
        let is_digit = key.bytes().all(|byte| byte.is_ascii_digit());
        let code = match key {
            "]" => "BracketRight".to_owned(),
            "Tab" | "Enter" => key.to_owned(),
            _ if is_digit => format!("Digit{key}"),
            _ => format!("Key{}", key.to_uppercase()),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": kind, "key": key, "code": code, "modifiers": modifiers });
            // A field of the window that has the focus takes a key without a number for one of a telephone.
            if key == "Enter" {
                event["windowsVirtualKeyCode"] = 13.into();
            }
            // With Ctrl or Alt, and on Tab, a key writes nothing.
            if kind == "keyDown" && key.len() == 1 && modifiers & 3 == 0 {
                event["text"] = key.into();
            }
            self.call("Input.dispatchKeyEvent", &event)?;
            thread::sleep(Duration::from_millis(40));
        }
        Ok(())
    }
}

impl Browser for Chromium {
    fn open(&mut self, url: &str) -> anyhow::Result<()> {
        self.is_loaded = false;
        let answer = self.call("Page.navigate", &json!({ "url": url }))?;
        ensure!(answer["errorText"].is_null(), "{url}: {}", answer["errorText"]);
        let until = Instant::now() + PATIENCE;
        while !self.is_loaded {
            ensure!(Instant::now() < until, "{url} does not load");
            thread::sleep(Duration::from_millis(20));
            // What has happened comes with the answer to anything.
            self.call("Page.getFrameTree", &json!({}))?;
        }
        Ok(())
    }

    fn value(&mut self, expression: &str) -> anyhow::Result<Value> {
        self.value_in(&self.session.clone(), expression)
    }

    fn screenshot(&mut self) -> anyhow::Result<Vec<u8>> {
        let answer = self.call("Page.captureScreenshot", &json!({ "format": "png" }))?;
        Ok(BASE64_STANDARD.decode(answer["data"].as_str().unwrap_or_default())?)
    }

    fn complaints(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(self.complaints.clone())
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // It closes its own children.
        let _ = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        crate::end(&mut self.child);
    }
}
