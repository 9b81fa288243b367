//! A file server that knows little: no packing, no caching, and the site lies below a folder.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Serves a folder until the test ends.
#[derive(Debug)]
pub struct Files {
    /// The address of the site.
    pub url: String,
    is_stopped: Arc<AtomicBool>,
}

impl Files {
    /// Serves a folder.
    pub fn serve(folder: PathBuf) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&is_stopped);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    continue;
                }
                let folder = folder.clone();
                // A browser that goes away in the middle is none of our business.
                thread::spawn(move || answer(stream, &folder));
            }
        });
        Ok(Self { url: format!("http://127.0.0.1:{port}/some/where/"), is_stopped })
    }

    /// Answers nobody any more, as without a network.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

fn answer(mut stream: TcpStream, folder: &Path) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    // The browser waits for its answer, so the rest of the headers is there or on its way.
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let path = request.split([' ', '?']).nth(1).unwrap_or_default();
    let name = match path.strip_prefix("/some/where/") {
        Some("") => "index.html",
        Some(name) if !name.contains("..") => name,
        _ => "not there",
    };
    let Ok(body) = fs::read(folder.join(name)) else {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    let kind = match name.rsplit('.').next() {
        Some("html") => "text/html",
        Some("js") => "text/javascript",
        _ => "application/octet-stream",
    };
    let len = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)
}
