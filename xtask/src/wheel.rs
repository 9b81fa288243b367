//! The Python wheel: the program with the page inside, and the Python package beside it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail, ensure};

use crate::process::{self, root};

/// What a wheel may weigh.
const MOST_BYTES: u64 = 15_000_000;

/// How a wheel is built.
#[derive(Clone, Copy)]
pub(crate) enum How<'a> {
    /// As it is handed out, for a target of Linux with the oldest C library that is supported.
    Portable(&'a str),
    /// As it is handed out, for this system.
    Native,
}

/// Where a virtual environment has its programs.
const PROGRAMS: &str = if cfg!(windows) { "Scripts" } else { "bin" };

/// The program, as a file.
const PROGRAM: &str = if cfg!(windows) { "vramscope.exe" } else { "vramscope" };

/// A program of the virtual environment that `cargo xtask setup` makes.
pub(crate) fn tool(name: &str) -> Command {
    Command::new(tools().join(name))
}

fn tools() -> PathBuf {
    root().join("target/python").join(PROGRAMS)
}

/// Builds a wheel into a folder that has no other, and returns its path.
pub(crate) fn build(how: How<'_>, folder: &Path) -> anyhow::Result<PathBuf> {
    let mut maturin = tool("maturin");
    maturin.arg("build").arg("--locked").arg("--out").arg(folder).current_dir(root());
    // Maturin runs zig as a module of the Python that it finds first.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([tools()].into_iter().chain(std::env::split_paths(&path)))?;
    maturin.env("PATH", path);
    match how {
        How::Portable(target) => {
            // The linker for old and other systems.
            process::run(tool("python").args(["-m", "pip", "install", "--quiet", "ziglang==0.*"]))?;
            maturin.args(["--zig", "--compatibility", "manylinux2014", "--target", target]);
        }
        How::Native => {}
    }
    process::run(&mut maturin)?;
    let wheel = only(folder)?;
    let bytes = fs::metadata(&wheel)?.len();
    ensure!(bytes <= MOST_BYTES, "the wheel is too large: {bytes} bytes, {MOST_BYTES} at most");
    Ok(wheel)
}

/// The wheel of a folder.
fn only(folder: &Path) -> anyhow::Result<PathBuf> {
    let wheels = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let wheels: Vec<PathBuf> =
        wheels.filter(|path| path.extension().is_some_and(|end| end == "whl")).collect();
    let [wheel] = &wheels[..] else { bail!("{} wheels in {}", wheels.len(), folder.display()) };
    Ok(wheel.clone())
}

/// Tries a wheel with the program that the tests have run. Maturin would build it again: without the rest of the workspace
/// most dependencies have other features. So it writes what it says about the wheel, and the rest is put beside that.
pub(crate) fn quick() -> anyhow::Result<()> {
    let program = root().join("target/debug").join(PROGRAM);
    ensure!(program.exists(), "there is no {}: `cargo build` builds it", program.display());
    let place = tempfile::tempdir()?;
    let (tree, wheels) = (place.path().join("tree"), place.path().join("wheels"));
    fs::create_dir(&wheels)?;
    let mut metadata = tool("maturin");
    metadata.args(["pep517", "write-dist-info", "--compatibility", "linux", "--metadata-directory"]);
    process::run(metadata.arg(&tree).current_dir(root()))?;
    let scripts = tree.join(concat!("vramscope-", env!("CARGO_PKG_VERSION"), ".data/scripts"));
    fs::create_dir_all(&scripts)?;
    fs::copy(program, scripts.join(PROGRAM))?;
    let copy =
        "import shutil, sys; shutil.copytree(*sys.argv[1:], ignore=shutil.ignore_patterns('__pycache__'))";
    let sources = root().join("python/vramscope");
    process::run(tool("python").args(["-c", copy]).arg(sources).arg(tree.join("vramscope")))?;
    process::run(tool("wheel").arg("pack").arg(&tree).arg("--dest-dir").arg(&wheels))?;
    check(&only(&wheels)?)
}

/// Installs a wheel where there is nothing else, and does with it what a user does first.
pub(crate) fn check(wheel: &Path) -> anyhow::Result<()> {
    let place = tempfile::tempdir()?;
    let environment = place.path().join("venv");
    process::run(tool("python").args(["-m", "venv"]).arg(&environment))?;
    let installed = |name: &str| {
        let mut command = Command::new(environment.join(PROGRAMS).join(name));
        // Without a toolchain, and without what this machine remembers.
        command.current_dir(place.path()).env_clear().env("HOME", place.path());
        command
    };
    timed("pip install", installed("pip").args(["install", "--quiet", "--no-index"]).arg(wheel))?;
    let summary = timed("vramscope demo", installed("vramscope").arg("demo"))?;
    ensure!(summary.contains("out of memory"), "not a summary: {summary}");
    timed("vramscope demo -o", installed("vramscope").args(["demo", "-o", "demo.pickle.xz"]))?;
    timed(
        "vramscope report",
        installed("vramscope").args(["report", "demo.pickle.xz", "-o", "report.html"]),
    )?;
    let report = fs::read_to_string(place.path().join("report.html"))?;
    ensure!(report.contains("WebAssembly"), "the report has no viewer");
    timed("import vramscope", installed("python").args(["-c", "import vramscope"]))?;
    let peak = "import vramscope; print(vramscope.Snapshot('demo.pickle.xz').summary().devices[0].peak.requested.bytes)";
    let peak = timed("Snapshot.summary", installed("python").args(["-c", peak]))?;
    ensure!(peak.trim().parse::<u64>().is_ok(), "no peak: {peak}");

    let began = Instant::now();
    let mut serve = installed("vramscope")
        .args(["serve", "demo.pickle.xz"])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start serve")?;
    let page = serve.stdout.take().context("no output").and_then(|out| get(&mut BufReader::new(out)));
    serve.kill()?;
    serve.wait()?;
    ensure!(page?.contains("<canvas"), "serve has no page");
    eprintln!("{:<20}{:>8.3} s", "vramscope serve", began.elapsed().as_secs_f64());
    let program = fs::metadata(environment.join(PROGRAMS).join(PROGRAM))?.len();
    eprintln!("wheel {} bytes, program {program} bytes", fs::metadata(wheel)?.len());
    Ok(())
}

/// The page at the address that `serve` prints.
fn get(out: &mut impl BufRead) -> anyhow::Result<String> {
    let mut url = String::new();
    out.read_line(&mut url)?;
    let (address, path) =
        url.trim().strip_prefix("http://").and_then(|url| url.split_once('/')).context("no address")?;
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Runs a command, prints how long it took, and returns what it says.
fn timed(what: &str, command: &mut Command) -> anyhow::Result<String> {
    let began = Instant::now();
    let output = command.output().with_context(|| format!("cannot start {}", process::line(command)))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{}: {}", process::line(command), text(&output.stderr));
    eprintln!("{what:<20}{:>8.3} s", began.elapsed().as_secs_f64());
    Ok(text(&output.stdout))
}
