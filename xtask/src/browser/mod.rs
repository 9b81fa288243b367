//! `cargo xtask browser`: the page, a report and `serve` in a real browser, as a person uses them.

pub(crate) mod bench;
mod chromium;
mod files;
mod pixels;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::process::{cargo, debian_has, install, root, run};
use crate::web;
use chromium::Chromium;
use files::Files;

/// The four ranks of the run that is dropped.
const RANKS: [&str; 4] = ["oom", "alloc_retry", "expandable", "cudagraph_pools"];

/// Runs every check; screenshots go to `target/browser`.
pub(crate) fn check() -> anyhow::Result<()> {
    if !debian_has(&["chromium"]) {
        install(&["chromium"]).context("the page is tried in Chromium")?;
    }
    if !web::folder().join("index.html").exists() {
        web::build()?;
    }
    run(&mut cargo(&["build", "--package", "vramscope", "--locked"]))?;
    let pictures = root().join("target/browser");
    fs::create_dir_all(&pictures)?;
    let work = tempfile::tempdir()?;
    let run_folder = ranks(work.path())?;
    let mut tests: Vec<(&str, anyhow::Result<()>)> = Vec::new();
    tests.push(("page", page(&run_folder, &pictures)));
    tests.push(("damaged", damaged(work.path(), &pictures)));
    tests.push(("report", report(&run_folder, work.path(), &pictures)));
    tests.push(("serve", serve(&run_folder, &pictures)));
    let mut failed = 0;
    for (name, result) in tests {
        match result {
            Ok(()) => eprintln!("ok      {name}"),
            Err(error) => {
                failed += 1;
                eprintln!("FAILED  {name}: {error:#}");
            }
        }
    }
    ensure!(failed == 0, "{failed} checks in the browser failed");
    Ok(())
}

/// A folder of four ranks, and a file that is no snapshot.
fn ranks(work: &Path) -> anyhow::Result<PathBuf> {
    let folder = work.join("run");
    fs::create_dir_all(&folder)?;
    for (rank, name) in RANKS.iter().enumerate() {
        let bytes = recording(name)?;
        fs::write(folder.join(format!("rank{rank}_memory_snapshot.pickle")), bytes)?;
    }
    fs::write(folder.join("notes.txt"), "no snapshot")?;
    Ok(folder)
}

fn recording(name: &str) -> anyhow::Result<Vec<u8>> {
    let path = root().join(format!("testdata/recordings/{name}.pickle.xz"));
    let mut bytes = Vec::new();
    lzma_rust2::XzReader::new(fs::File::open(path)?, false).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn recordings() -> anyhow::Result<Vec<Vec<u8>>> {
    RANKS.iter().map(|name| recording(name)).collect()
}

fn number(shown: &Value, path: &str) -> f64 {
    shown.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

fn is_open(shown: &Value, devices: u64) -> bool {
    shown["devices"] == devices && shown["at_rest"] == true && shown["reading"] == serde_json::json!([])
}

/// Nothing went wrong, and nothing was fetched from anywhere else.
fn clean(chromium: &Chromium, base: &str) -> anyhow::Result<()> {
    ensure!(chromium.complaints.is_empty(), "the console says: {:?}", chromium.complaints);
    let foreign = |url: &&String| !["blob:", "data:", base].iter().any(|known| url.starts_with(known));
    let foreign: Vec<_> = chromium.requests.iter().filter(foreign).collect();
    ensure!(foreign.is_empty(), "fetched from elsewhere: {foreign:?}");
    Ok(())
}

fn page(run_folder: &Path, pictures: &Path) -> anyhow::Result<()> {
    let site = Files::serve(web::folder())?;
    let mut chromium = Chromium::start()?;
    chromium.open(&site.url)?;
    chromium.wait("the start screen", |shown| shown["devices"] == 0)?;
    fs::write(pictures.join("start.png"), chromium.screenshot()?)?;

    chromium.drop_files(&[run_folder])?;
    let shown = chromium.wait("four ranks", |shown| is_open(shown, 4))?;
    ensure!(shown["failed"] == serde_json::json!([]), "{}", shown["failed"]);
    let picture = chromium.screenshot()?;
    fs::write(pictures.join("ranks.png"), &picture)?;
    pixels::compare(&picture, &shown, &recordings()?)?;

    // The axis, and back.
    chromium.key("t")?;
    let time = chromium.wait("the time axis", |shown| shown["axis"] == "Time" && shown["at_rest"] == true)?;
    fs::write(pictures.join("time.png"), chromium.screenshot()?)?;
    ensure!(time["x"] != shown["x"], "the axis is the same");
    chromium.key("t")?;
    chromium.wait("the event axis", |shown| shown["axis"] == "Events" && shown["at_rest"] == true)?;

    // Zoom at the pointer.
    let plot = |part: usize| number(&shown, &format!("/plot/{part}"));
    let (x, y) = (plot(0) + plot(2) * 0.6, plot(1) + plot(3) * 0.8);
    for _ in 0..5 {
        chromium.wheel(x, y, -120.0)?;
    }
    let wide = |shown: &Value| number(shown, "/x/1") - number(shown, "/x/0");
    let before = wide(&shown);
    chromium.wait("a narrower stretch", |shown| wide(shown) < before * 0.8 && shown["at_rest"] == true)?;
    chromium.key("f")?;
    chromium.wait("the whole run", |shown| (wide(shown) - before).abs() < 1.0 && shown["at_rest"] == true)?;

    // An allocation and its stack.
    chromium.click(plot(0) + plot(2) * 0.7, plot(1) + plot(3) * 0.93)?;
    let selected = chromium.wait("a stack", |shown| {
        shown["selected"].is_u64() && shown["stack"].as_array().is_some_and(|stack| !stack.is_empty())
    })?;
    let stack = selected["stack"].to_string();
    ensure!(stack.contains(".py:"), "no Python in the stack: {stack}");
    fs::write(pictures.join("selected.png"), chromium.screenshot()?)?;

    // Every view.
    let tabs =
        ["Segments", "State", "Flame", "Tree", "Lifetimes", "Tables", "Insights", "Compare", "Settings"];
    for (key, tab) in tabs.iter().enumerate() {
        chromium.key(&(key + 1).to_string())?;
        chromium.wait(tab, |shown| shown["tab"] == *tab && shown["at_rest"] == true)?;
        fs::write(pictures.join(format!("{}.png", tab.to_lowercase())), chromium.screenshot()?)?;
    }

    // The address keeps what is shown.
    std::thread::sleep(std::time::Duration::from_millis(900));
    let link = chromium.value("location.hash")?;
    let link = link.as_str().unwrap_or_default().to_owned();
    ensure!(link.contains("tab=settings") && link.contains("alloc="), "the address is {link}");
    clean(&chromium, &site.url)?;
    let mut again = Chromium::start()?;
    again.open(&format!("{}{link}", site.url))?;
    again.wait("the start screen", |shown| shown["devices"] == 0)?;
    again.drop_files(&[run_folder])?;
    let followed = again.wait("the link", |shown| is_open(shown, 4) && shown["tab"] == "Settings")?;
    ensure!(followed["selected"] == selected["selected"], "the selection is lost");
    clean(&again, &site.url)
}

/// A cut file shows what is intact; one that is no snapshot says what it is.
fn damaged(work: &Path, pictures: &Path) -> anyhow::Result<()> {
    let site = Files::serve(web::folder())?;
    let mut chromium = Chromium::start()?;
    chromium.open(&site.url)?;
    chromium.wait("the start screen", |shown| shown["devices"] == 0)?;
    let zip = work.join("model.pt");
    fs::write(&zip, [b"PK\x03\x04".as_slice(), &[0; 2000]].concat())?;
    chromium.drop_files(&[&zip])?;
    let shown = chromium.wait("an error", |shown| shown["failed"] != serde_json::json!([]))?;
    ensure!(shown["failed"].to_string().contains("zip"), "{}", shown["failed"]);
    fs::write(pictures.join("error.png"), chromium.screenshot()?)?;
    let cut = work.join("cut.pickle");
    let bytes = recording("oom")?;
    fs::write(&cut, bytes.get(..bytes.len() * 2 / 3).unwrap_or_default())?;
    chromium.drop_files(&[&cut])?;
    let shown = chromium.wait("what is intact", |shown| is_open(shown, 1))?;
    ensure!(shown["verdict"].to_string().contains("truncated"), "{}", shown["verdict"]);
    fs::write(pictures.join("damaged.png"), chromium.screenshot()?)?;
    clean(&chromium, &site.url)
}

fn vramscope() -> Command {
    let mut command = Command::new(root().join("target/debug/vramscope"));
    command.env("VRAMSCOPE_WEB", web::folder());
    command
}

fn report(run_folder: &Path, work: &Path, pictures: &Path) -> anyhow::Result<()> {
    let file = work.join("report.html");
    run(vramscope().arg("report").arg(run_folder).arg("-o").arg(&file).arg("--redact"))?;
    ensure!(
        !vramscope().arg("report").arg(run_folder).arg("-o").arg(&file).output()?.status.success(),
        "overwritten"
    );
    let url = format!("file://{}", file.display());
    let mut chromium = Chromium::start()?;
    chromium.open(&url)?;
    let shown = chromium.wait("the report", |shown| is_open(shown, 4))?;
    let picture = chromium.screenshot()?;
    fs::write(pictures.join("report.png"), &picture)?;
    ensure!(number(&shown, "/peak") > 0.0, "no peak");
    clean(&chromium, &url)?;
    // Without script there are the summary and the picture.
    chromium.call("Emulation.setScriptExecutionDisabled", serde_json::json!({ "value": true }))?;
    chromium.open(&format!("{url}?again"))?;
    std::thread::sleep(std::time::Duration::from_secs(2));
    fs::write(pictures.join("report-without-script.png"), chromium.screenshot()?)?;
    let page = fs::read_to_string(&file)?;
    ensure!(
        page.contains("<pre>rank0") && page.contains("data:image/png;base64,"),
        "no summary or no picture"
    );
    Ok(())
}

/// A server that ends with its owner.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(run_folder: &Path, pictures: &Path) -> anyhow::Result<()> {
    let child = vramscope().args(["serve", "--no-cache"]).arg(run_folder).stdout(Stdio::piped()).spawn()?;
    let mut serving = Serving(child);
    let mut lines = BufReader::new(serving.0.stdout.take().context("no output")?).lines();
    let url = lines.next().context("no address")??;
    ensure!(lines.next().context("no second line")??.contains("ssh -L"), "no ssh line");
    let address = url.trim_start_matches("http://").split('/').next().unwrap_or_default().to_owned();
    let mut chromium = Chromium::start()?;
    chromium.open(&url)?;
    let shown = chromium.wait("four ranks", |shown| is_open(shown, 4))?;
    let picture = chromium.screenshot()?;
    fs::write(pictures.join("serve.png"), &picture)?;
    pixels::compare(&picture, &shown, &recordings()?)?;
    clean(&chromium, &url)?;
    eprintln!(
        "serve: {:.0} bytes received until the picture was sharp, page and module included",
        chromium.received
    );

    let path = url.trim_start_matches("http://").split_once('/').map_or("", |(_, path)| path);
    let status = |path: &str, method: &str, extra: &str| -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(&address)?;
        write!(stream, "{method} /{path} HTTP/1.1\r\n{extra}Content-Length: 0\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        Ok(answer.split(' ').nth(1).unwrap_or_default().to_owned())
    };
    let host = format!("Host: {address}\r\n");
    let cases = [
        ("with the token", status(path, "GET", &host)?, "200"),
        ("without the token", status("", "GET", &host)?, "403"),
        ("with another token", status("0123456789abcdef0123456789abcdef/", "GET", &host)?, "403"),
        ("another name for this machine", status(path, "GET", "Host: evil.example\r\n")?, "403"),
        (
            "from another page",
            status(&format!("{path}ask"), "POST", &format!("{host}Origin: http://evil.example\r\n"))?,
            "403",
        ),
        ("a file of the machine", status(&format!("{path}../../etc/passwd"), "GET", &host)?, "404"),
        ("a question that is none", status(&format!("{path}ask"), "POST", &host)?, "400"),
        ("writing", status(path, "PUT", &host)?, "405"),
    ];
    for (what, got, wanted) in cases {
        ensure!(got == wanted, "{what}: {got} instead of {wanted}");
    }
    Ok(())
}
