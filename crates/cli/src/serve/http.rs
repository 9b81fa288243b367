//! Who may ask what over HTTP.

use std::io::{Read, Write};
use std::sync::PoisonError;

use flate2::Compression;
use flate2::write::GzEncoder;
use tiny_http::{Header, Method, Request as HttpRequest, Response as HttpResponse};
use vramscope_engine::{Request, Response, decode, encode};

use super::Shared;

/// A question is a few hundred bytes.
const MOST_BYTES: u64 = 1 << 16;

/// Shorter answers are sent as they are.
const WORTH_PACKING: usize = 1 << 10;

/// What every answer says: nothing of this is kept, framed, guessed at or told to others.
const HEADERS: [(&str, &str); 5] = [
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
];

/// What is behind the token.
pub(super) struct Door {
    pub(super) token: String,
    pub(super) page: String,
    pub(super) module: Vec<u8>,
}

/// A page, an answer, or no.
struct Reply {
    status: u16,
    kind: &'static str,
    body: Vec<u8>,
}

impl Reply {
    fn ok(kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, kind, body: body.into() }
    }

    fn no(status: u16, why: &str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: why.into() }
    }
}

impl Door {
    /// Answers one request.
    pub(super) fn answer(&self, mut request: HttpRequest, shared: &Shared) {
        let Reply { status, kind, mut body } = self.reply(&mut request, shared);
        let mut headers: Vec<_> = HEADERS.iter().chain(&[("Content-Type", kind)]).copied().collect();
        let packs = header(&request, "Accept-Encoding").is_some_and(|all| all.contains("gzip"));
        if packs && body.len() > WORTH_PACKING && kind != "application/gzip" {
            let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
            // Writing to memory does not fail.
            if packer.write_all(&body).is_ok()
                && let Ok(packed) = packer.finish()
            {
                body = packed;
                headers.push(("Content-Encoding", "gzip"));
            }
        }
        let mut response = HttpResponse::from_data(body).with_status_code(status);
        for (name, value) in headers {
            if let Ok(header) = Header::from_bytes(name, value) {
                response.add_header(header);
            }
        }
        // Whoever asked may be gone.
        let _ = request.respond(response);
    }

    fn reply(&self, request: &mut HttpRequest, shared: &Shared) -> Reply {
        // A name that leads here by a trick of DNS is another site's, and so is a page that sends from elsewhere.
        let Some(host) = header(request, "Host").filter(|host| is_local(host)) else {
            return Reply::no(403, "this server answers to 127.0.0.1 and localhost only");
        };
        if let Some(origin) = header(request, "Origin")
            && origin != format!("http://{host}")
        {
            return Reply::no(403, "this server answers its own page only");
        }
        let url = request.url().to_owned();
        let path = url.split(['?', '#']).next().unwrap_or_default();
        let Some((token, path)) = path.strip_prefix('/').and_then(|path| path.split_once('/')) else {
            return Reply::no(403, "the address has no token: open the one that `vramscope serve` printed");
        };
        if !is_same(token, &self.token) {
            return Reply::no(403, "the token is not right: open the address that `vramscope serve` printed");
        }
        match (request.method(), path) {
            (Method::Get, "") => Reply::ok("text/html; charset=utf-8", self.page.as_bytes()),
            (Method::Get, "vramscope.wasm.gz") => Reply::ok("application/gzip", self.module.as_slice()),
            (Method::Post, "ask") => ask(request, shared),
            (Method::Post, "news") => {
                let seen = text(request).parse().unwrap_or_default();
                Reply::ok("application/octet-stream", encode(&shared.log().since(seen)))
            }
            (_, "" | "vramscope.wasm.gz" | "ask" | "news") => Reply::no(405, "not with this method"),
            _ => Reply::no(404, "there is no such thing here"),
        }
    }
}

fn ask(request: &mut HttpRequest, shared: &Shared) -> Reply {
    let Some(question) = decode::<Request>(&body(request)) else { return Reply::no(400, "no question") };
    let session = shared.session.read().unwrap_or_else(PoisonError::into_inner);
    let answer = session.answer(&question, &|| true).unwrap_or(Response::Nothing);
    Reply::ok("application/octet-stream", encode(&answer))
}

fn body(request: &mut HttpRequest) -> Vec<u8> {
    let mut body = Vec::new();
    // What cannot be read is no question.
    let _ = request.as_reader().take(MOST_BYTES).read_to_end(&mut body);
    body
}

fn text(request: &mut HttpRequest) -> String {
    String::from_utf8(body(request)).unwrap_or_default()
}

fn header(request: &HttpRequest, name: &'static str) -> Option<String> {
    let header = request.headers().iter().find(|header| header.field.equiv(name))?;
    Some(header.value.as_str().to_owned())
}

/// Whether a `Host` is this machine, whatever the port: a tunnel may have another one.
fn is_local(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
    });
    ["127.0.0.1", "localhost", "[::1]"].contains(&name)
}

/// Compares in a time that does not tell where two texts differ.
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
