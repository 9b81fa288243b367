//! Who is answered, and what: the token, the host and the page.

use std::sync::{Arc, PoisonError};

use vramscope_engine::encode;

use super::Shared;
use super::http::{Asked, Reply};

/// What is behind the token.
pub(super) struct Auth {
    pub(super) token: String,
    /// Names that a proxy in front answers to, in lower case, some with a port.
    pub(super) hosts: Vec<String>,
    pub(super) page: String,
    /// What the page calls its module, so that the browser can keep it.
    pub(super) version: String,
    pub(super) module: Vec<u8>,
    /// Whether the page may be shown in a frame.
    pub(super) embed: bool,
    /// Tells a page that this is another process than the one it was loaded from.
    pub(super) started: String,
    pub(super) shared: Arc<Shared>,
}

impl Auth {
    /// Answers requests that carry the token, from a page of this server.
    pub(super) fn answer(&self, asked: &Asked, is_open: &dyn Fn() -> bool) -> Reply {
        // A name that leads here by a trick of DNS is another site's, and so is a page that sends from elsewhere.
        let host = asked.header("Host").unwrap_or_default();
        let is_local = is_local(host);
        if !is_local && !self.is_allowed(host) {
            let why = "this server answers to 127.0.0.1 and localhost only; behind a proxy with another name, start it with \
                       vramscope serve --allow-host NAME";
            return Reply::no(403, why);
        }
        // A proxy may speak https to the browser.
        let is_own = |origin: &str| {
            let with =
                |scheme| origin.strip_prefix(scheme).is_some_and(|from| from.eq_ignore_ascii_case(host));
            with("http://") || !is_local && with("https://")
        };
        if asked.header("Origin").is_some_and(|origin| !is_own(origin)) {
            return Reply::no(403, "this server answers its own page only");
        }
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        let Some(path) = path.strip_prefix('/') else {
            return Reply::no(400, "not a path");
        };
        let Some((token, path)) = path.split_once('/') else {
            // Addresses in the page are below it, so it has to end like a folder.
            return match is_same(path, &self.token) {
                // Relative: a proxy may have it below a path of its own.
                true => Reply::moved(format!("{path}/")),
                false => {
                    Reply::no(403, "the address has no token: open the one that `vramscope serve` printed")
                }
            };
        };
        if !is_same(token, &self.token) {
            return Reply::no(403, "the token is not right: open the address that `vramscope serve` printed");
        }
        match (asked.method.as_str(), path) {
            ("GET" | "HEAD", "") => {
                Reply::ok("text/html; charset=utf-8", self.page.as_bytes()).in_frames(self.embed)
            }
            ("GET" | "HEAD", "vramscope.wasm.gz") => {
                // Another version has another address, so this one never changes.
                Reply::ok("application/gzip", self.module.as_slice())
                    .kept(!query.is_empty() && query == self.version)
            }
            ("POST", "started") => Reply::ok("text/plain", self.started.as_bytes()),
            ("POST", "ask") => self.ask(&asked.body, is_open),
            ("POST", "cancel") => {
                self.shared.cancel();
                Reply::ok("application/octet-stream", [])
            }
            ("POST", "news") => {
                let seen = std::str::from_utf8(&asked.body).unwrap_or_default().parse().unwrap_or_default();
                Reply::ok("application/octet-stream", encode(&self.shared.log().since(seen)))
            }
            (_, "" | "vramscope.wasm.gz" | "started" | "ask" | "cancel" | "news") => {
                Reply::no(405, "not with this method")
            }
            _ => Reply::no(404, "not found"),
        }
    }

    /// Whether a `Host` is a name of the proxy, with any port unless one was named.
    fn is_allowed(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        self.hosts.iter().any(|allowed| host == *allowed || name_of(&host) == allowed)
    }

    fn ask(&self, question: &[u8], is_open: &dyn Fn() -> bool) -> Reply {
        if question.is_empty() {
            return Reply::no(400, "no request");
        }
        // A copy: a file that comes while a long answer is made must not wait for it, nor others for the file.
        let session = self.shared.session.read().unwrap_or_else(PoisonError::into_inner).clone();
        // A page of another version sees from the answer that it must be reloaded.
        let answer = session.answer_encoded(question, is_open).unwrap_or_default();
        Reply::ok("application/octet-stream", answer)
    }
}

/// A host that may ask, in lower case: a name or an address without a scheme or a path, and with a port if that counts.
pub(super) fn host_name(typed: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    match !typed.is_empty() && typed.bytes().all(is_plain) {
        true => Ok(typed.to_ascii_lowercase()),
        false => {
            Err("a host name, such as gpu7.example or gpu7.example:8443, without http:// and without a path"
                .to_owned())
        }
    }
}

/// A `Host` without its port.
fn name_of(host: &str) -> &str {
    host.rsplit_once(':')
        .map_or(host, |(name, port)| if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host })
}

/// Whether a `Host` is this machine, whatever the port: a tunnel may have another one.
fn is_local(host: &str) -> bool {
    ["127.0.0.1", "localhost", "[::1]"].contains(&name_of(host))
}

/// Compares in constant time.
fn is_same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::{is_local, is_same};

    #[test]
    fn hosts_of_this_machine() {
        assert!(is_local("127.0.0.1:8000") && is_local("localhost") && is_local("[::1]:80"));
        assert!(!is_local("evil.example:8000") && !is_local("127.0.0.1.evil.example") && !is_local(""));
    }

    #[test]
    fn tokens() {
        assert!(is_same("abc", "abc") && !is_same("abc", "abd") && !is_same("abc", "ab"));
    }
}
