//! A file server that knows nothing: no endings, no headers, and the site lies below a folder.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use anyhow::anyhow;

/// A server that ends with its owner.
pub(crate) struct Files {
    server: Arc<tiny_http::Server>,
    /// The address of the site.
    pub(crate) url: String,
}

impl Files {
    /// Serves a folder.
    pub(crate) fn serve(folder: PathBuf) -> anyhow::Result<Self> {
        let server = Arc::new(tiny_http::Server::http("127.0.0.1:0").map_err(|error| anyhow!("{error}"))?);
        let port = server.server_addr().to_ip().map_or(0, |address| address.port());
        let mine = Arc::clone(&server);
        thread::spawn(move || {
            for request in mine.incoming_requests() {
                let name = request.url().strip_prefix("/some/where/").unwrap_or("..").to_owned();
                let name = if name.is_empty() { "index.html" } else { &name };
                let bytes = if name.contains("..") { None } else { fs::read(folder.join(name)).ok() };
                let _ = match bytes {
                    Some(bytes) => {
                        let kind =
                            if name.ends_with(".html") { "text/html" } else { "application/octet-stream" };
                        let header = tiny_http::Header::from_bytes("Content-Type", kind);
                        let mut response = tiny_http::Response::from_data(bytes);
                        if let Ok(header) = header {
                            response.add_header(header);
                        }
                        request.respond(response)
                    }
                    None => request.respond(tiny_http::Response::empty(404)),
                };
            }
        });
        Ok(Self { server, url: format!("http://127.0.0.1:{port}/some/where/") })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.server.unblock();
    }
}
