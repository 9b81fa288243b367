//! Who is answered, and what: the token, the host and the page.

use std::sync::{Arc, PoisonError};

use vramscope_engine::encode;

use super::Shared;
use super::http::{Asked, Reply};

/// What is behind the token.
pub(super) struct Auth {
    pub(super) token: String,
    pub(super) page: String,
    pub(super) module: Vec<u8>,
    /// Whether the page may be shown in a frame.
    pub(super) embed: bool,
    pub(super) shared: Arc<Shared>,
}

impl Auth {
    /// Answers requests that carry the token, from a page of this server.
    pub(super) fn answer(&self, asked: &Asked, is_open: &dyn Fn() -> bool) -> Reply {
        // A name that leads here by a trick of DNS is another site's, and so is a page that sends from elsewhere.
        let Some(host) = asked.header("Host").filter(|host| is_local(host)) else {
            return Reply::no(403, "this server answers to 127.0.0.1 and localhost only");
        };
        if asked.header("Origin").is_some_and(|origin| origin != format!("http://{host}")) {
            return Reply::no(403, "this server answers its own page only");
        }
        let path = asked.path.split(['?', '#']).next().unwrap_or_default();
        let Some(path) = path.strip_prefix('/') else {
            return Reply::no(400, "not a path");
        };
        let Some((token, path)) = path.split_once('/') else {
            // Addresses in the page are below it, so it has to end like a folder.
            return match is_same(path, &self.token) {
                true => Reply::moved(format!("/{path}/")),
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
            ("GET" | "HEAD", "vramscope.wasm.gz") => Reply::ok("application/gzip", self.module.as_slice()),
            ("POST", "ask") => self.ask(&asked.body, is_open),
            ("POST", "cancel") => {
                self.shared.cancel();
                Reply::ok("application/octet-stream", [])
            }
            ("POST", "news") => {
                let seen = std::str::from_utf8(&asked.body).unwrap_or_default().parse().unwrap_or_default();
                Reply::ok("application/octet-stream", encode(&self.shared.log().since(seen)))
            }
            (_, "" | "vramscope.wasm.gz" | "ask" | "cancel" | "news") => {
                Reply::no(405, "not with this method")
            }
            _ => Reply::no(404, "not found"),
        }
    }

    fn ask(&self, question: &[u8], is_open: &dyn Fn() -> bool) -> Reply {
        if question.is_empty() {
            return Reply::no(400, "no request");
        }
        let session = self.shared.session.read().unwrap_or_else(PoisonError::into_inner);
        // A page of another version sees from the answer that it must be reloaded.
        let answer = session.answer_encoded(question, is_open).unwrap_or_default();
        Reply::ok("application/octet-stream", answer)
    }
}

/// Whether a `Host` is this machine, whatever the port: a tunnel may have another one.
fn is_local(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
    });
    ["127.0.0.1", "localhost", "[::1]"].contains(&name)
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
