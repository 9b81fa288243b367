//! What every browser can do for a test.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::Value;

/// A machine with neighbours can be slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A browser with one page.
pub trait Browser {
    /// Goes to an address.
    fn open(&mut self, url: &str) -> anyhow::Result<()>;

    /// The value of an expression.
    fn value(&mut self, expression: &str) -> anyhow::Result<Value>;

    /// What the page looks like, as a PNG file.
    fn screenshot(&mut self) -> anyhow::Result<Vec<u8>>;

    /// Errors of the console, and exceptions.
    fn complaints(&mut self) -> anyhow::Result<Vec<String>>;

    /// What the viewer says that it shows; null before it has started.
    fn shown(&mut self) -> anyhow::Result<Value> {
        // Firefox shows tests the page's own objects through a wrapper.
        let page = "(window.wrappedJSObject ?? window)";
        let started = "document.body?.classList.contains('started')";
        let text = self.value(&format!("{started} ? {page}.vramscope.shown() : ''"))?;
        Ok(serde_json::from_str(text.as_str().unwrap_or_default()).unwrap_or_default())
    }

    /// Waits until an expression is true.
    fn wait_for(&mut self, expression: &str) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while self.value(expression)? != true {
            if Instant::now() > until {
                bail!("not true: {expression}; complaints: {:?}", self.complaints()?);
            }
            thread::sleep(Duration::from_millis(30));
        }
        Ok(())
    }

    /// Waits until the viewer shows something.
    fn wait(&mut self, what: &str, is_so: impl Fn(&Value) -> bool) -> anyhow::Result<Value>
    where
        Self: Sized,
    {
        let until = Instant::now() + PATIENCE;
        loop {
            let shown = match self.shown() {
                // A page that loads itself anew meanwhile, as it does for a new server, takes its answer with it.
                Err(error) if is_reloading(&error.to_string()) => Value::Null,
                shown => shown?,
            };
            if is_so(&shown) {
                return Ok(shown);
            }
            if Instant::now() > until {
                bail!("{what} did not come; shown: {shown}; complaints: {:?}", self.complaints()?);
            }
            thread::sleep(Duration::from_millis(30));
        }
    }
}

/// Whether Chromium says that the page which was asked is gone.
fn is_reloading(error: &str) -> bool {
    ["navigated or closed", "context was destroyed", "Cannot find"].iter().any(|words| error.contains(words))
}
