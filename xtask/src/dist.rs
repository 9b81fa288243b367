//! `cargo xtask dist`: all that a release hands out, in `dist/release`, and a trial of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::json;

use crate::licenses;
use crate::package;
use crate::process::{self, cargo, root};
use crate::steps::Steps;
use crate::web::{self, Page};
use crate::wheel::{self, How};

/// What a program may weigh.
const MOST_BYTES: u64 = 30_000_000;

/// What goes with every program.
const NOTICES: [&str; 3] = ["LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY.md"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The processors of Linux to build for
    #[arg(long, value_name = "ARCH", default_values = ["x86_64", "aarch64"])]
    arch: Vec<String>,
    /// Take the page of dist/web as it is
    #[arg(long)]
    keep_page: bool,
    /// Build nothing, and try what dist/release has
    #[arg(long)]
    no_build: bool,
}

/// Builds everything that this system can build. On Linux these are wheels and static programs for all processors;
/// elsewhere the wheel and the program of this system.
pub(crate) fn dist(args: &Args) -> anyhow::Result<()> {
    let release = root().join("dist/release");
    let mut steps = Steps::default();
    if !args.no_build {
        build(args, &release, &mut steps)?;
    }
    let wheels = fs::read_dir(&release)?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_ours = |wheel: &PathBuf| {
        let name = wheel.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.ends_with(".whl") && name.contains(std::env::consts::ARCH)
    };
    if let Some(wheel) = wheels.into_iter().find(is_ours) {
        steps.step("wheel in a new environment", || wheel::check(&wheel))?;
        #[cfg(target_os = "linux")]
        steps.step("bare file systems", || bare(&release, &wheel))?;
    }
    steps.print();
    Ok(())
}

fn build(args: &Args, release: &Path, steps: &mut Steps) -> anyhow::Result<()> {
    if release.exists() {
        fs::remove_dir_all(release)?;
    }
    fs::create_dir_all(release)?;
    if !args.keep_page {
        steps.step("page", || web::build(Page::Small))?;
    }
    steps.step("package", package::package)?;
    if cfg!(target_os = "linux") {
        for arch in &args.arch {
            let target = format!("{arch}-unknown-linux-gnu");
            steps.step("wheel", || take(How::Portable(&target), release))?;
            let target = format!("{arch}-unknown-linux-musl");
            steps.step("static program", || {
                // What rustup brings links it, and the zig of the wheel compiles SQLite and zstd.
                let name = target.replace('-', "_");
                let [compiler, archiver] = zig(arch)?;
                let tools = [
                    (format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), "rust-lld".to_owned()),
                    (format!("CC_{name}"), compiler),
                    (format!("AR_{name}"), archiver),
                ];
                let built = program(&["--target", &target], &tools)?;
                pack(&built, &target, release)
            })?;
        }
    } else {
        steps.step("wheel", || take(How::Native, release))?;
        steps.step("program", || {
            let target = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
            pack(&program(&[], &[])?, &target, release)
        })?;
    }
    steps.step("contents", || contents(release))?;
    steps.step("notes", || notes(release))?;
    if cfg!(target_os = "linux") {
        steps.step("checksums", || checksums(release))?;
    }
    Ok(())
}

/// Builds a wheel and puts it beside the others.
fn take(how: How<'_>, release: &Path) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(root().join("target"))?;
    let wheel = wheel::build(how, folder.path())?;
    let to = release.join(wheel.file_name().context("a wheel has a name")?);
    Ok(fs::rename(&wheel, &to)?)
}

/// A C compiler and an archiver for static programs of a processor, as programs that Cargo's build scripts can call.
fn zig(arch: &str) -> anyhow::Result<[String; 2]> {
    let python = wheel::tool("python").get_program().to_string_lossy().into_owned();
    let compiler = format!(
        "# Build scripts name the target as Rust does, which zig does not know.\n\
         for word; do shift; case $word in --target=*) ;; *) set -- \"$@\" \"$word\" ;; esac; done\n\
         exec '{python}' -m ziglang cc -fno-sanitize=undefined -target {arch}-linux-musl \"$@\"\n"
    );
    let archiver = format!("exec '{python}' -m ziglang ar \"$@\"\n");
    let write = |name: &str, script: &str| -> anyhow::Result<String> {
        let path = root().join("target").join(format!("{arch}-linux-musl-{name}"));
        fs::write(&path, format!("#!/bin/sh\n{script}"))?;
        #[cfg(unix)]
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        Ok(path.to_string_lossy().into_owned())
    };
    Ok([write("cc", &compiler)?, write("ar", &archiver)?])
}

/// Builds the program without a window and returns its path.
fn program(args: &[&str], env: &[(String, String)]) -> anyhow::Result<PathBuf> {
    let build = ["build", "--locked", "--profile", "dist", "--package", "vramscope", "--no-default-features"];
    let mut command = cargo(&build);
    command.args(["--features", "mcp,sql"]).args(args).envs(env.iter().map(|(name, value)| (name, value)));
    process::run(&mut command)?;
    let folder =
        args.get(1).map_or_else(|| root().join("target"), |target| root().join("target").join(target));
    let built = folder.join("dist").join(format!("vramscope{}", std::env::consts::EXE_SUFFIX));
    let bytes = fs::metadata(&built)?.len();
    ensure!(bytes <= MOST_BYTES, "the program is too large: {bytes} bytes, {MOST_BYTES} at most");
    Ok(built)
}

/// An archive with the program and what goes with it.
fn pack(program: &Path, target: &str, release: &Path) -> anyhow::Result<()> {
    let name = format!("vramscope-{}-{target}", env!("CARGO_PKG_VERSION"));
    let place = tempfile::tempdir()?;
    let folder = place.path().join(&name);
    fs::create_dir(&folder)?;
    fs::copy(program, folder.join(program.file_name().context("a program has a name")?))?;
    for notice in NOTICES {
        fs::copy(root().join(notice), folder.join(notice))?;
    }
    let archive = release.join(format!("{name}.tar.gz"));
    process::run(Command::new("tar").arg("-czf").arg(archive).arg("-C").arg(place.path()).arg(&name))
}

/// A list of what the program contains, in the format of CycloneDX.
fn contents(release: &Path) -> anyhow::Result<()> {
    let components: Vec<_> = licenses::shipped()?
        .iter()
        .map(|package| {
            json!({
                "type": "library",
                "name": package.name,
                "version": package.version,
                "purl": format!("pkg:cargo/{}@{}", package.name, package.version),
                "licenses": [{ "expression": package.license.replace('/', " OR ") }],
            })
        })
        .collect();
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": { "type": "application", "name": "vramscope", "version": env!("CARGO_PKG_VERSION") },
        },
        "components": components,
    });
    Ok(fs::write(release.join("vramscope.cdx.json"), serde_json::to_vec_pretty(&list)?)?)
}

/// What is new, from the changelog: the section of this version, or what is not released yet.
fn notes(release: &Path) -> anyhow::Result<()> {
    let changelog = fs::read_to_string(root().join("CHANGELOG.md"))?;
    let section = section(&changelog, env!("CARGO_PKG_VERSION")).context("nothing in CHANGELOG.md")?;
    Ok(fs::write(release.join("NOTES.md"), section)?)
}

/// The section of a version, or else of what is not released yet, without its title.
fn section<'a>(changelog: &'a str, version: &str) -> Option<&'a str> {
    let after = |title: String| changelog.split_once(&title).map(|(_, rest)| rest);
    let rest = after(format!("\n## {version}")).or_else(|| after("\n## Unreleased".to_owned()))?;
    let (_, body) = rest.split_once('\n')?;
    Some(body.split_once("\n## ").map_or(body, |(section, _)| section).trim())
}

fn checksums(release: &Path) -> anyhow::Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(release)? {
        names.push(entry?.file_name());
    }
    names.sort();
    let output = Command::new("sha256sum").args(&names).current_dir(release).output();
    let output = output.context("cannot start sha256sum")?;
    ensure!(output.status.success(), "sha256sum: {}", String::from_utf8_lossy(&output.stderr));
    Ok(fs::write(release.join("SHA256SUMS"), output.stdout)?)
}

/// Runs the static program in a file system that contains nothing else, and the one of the wheel in one with Debian's
/// C library. Needs root, as any change of the root does.
#[cfg(target_os = "linux")]
fn bare(release: &Path, wheel: &Path) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let place = tempfile::tempdir()?;
    let nothing = place.path().join("nothing");
    fs::create_dir(&nothing)?;
    let name = format!("vramscope-{version}-{}-unknown-linux-musl", std::env::consts::ARCH);
    let unpack = Command::new("tar")
        .arg("-xzf")
        .arg(release.join(format!("{name}.tar.gz")))
        .args(["--strip-components", "1", "-C"])
        .arg(&nothing)
        .status()?;
    ensure!(unpack.success(), "cannot unpack {name}");
    first_steps(&nothing, "/vramscope")?;

    let debian = place.path().join("debian");
    fs::create_dir(&debian)?;
    let download = ["download", "libc6", "libgcc-s1"];
    process::run(Command::new("apt-get").args(download).current_dir(place.path()))?;
    for entry in fs::read_dir(place.path())? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "deb") {
            process::run(Command::new("dpkg-deb").arg("-x").arg(&path).arg(&debian))?;
        }
    }
    let unpack = "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])";
    process::run(Command::new("python3").args(["-c", unpack]).arg(wheel).arg(&debian))?;
    let program = format!("/vramscope-{version}.data/scripts/vramscope");
    process::run(Command::new("chmod").arg("+x").arg(debian.join(&program[1..])))?;
    first_steps(&debian, &program)
}

/// The first things that a user does, with another root.
#[cfg(target_os = "linux")]
fn first_steps(folder: &Path, program: &str) -> anyhow::Result<()> {
    for args in [
        &["demo"][..],
        &["demo", "-o", "/demo.pickle.xz"],
        &["report", "/demo.pickle.xz", "-o", "/report.html"],
    ] {
        let mut command = Command::new("chroot");
        command.arg(folder).arg(program).args(args).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let output = command.output().context("cannot start chroot")?;
        ensure!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let report = fs::read_to_string(folder.join("report.html"))?;
    ensure!(report.contains("WebAssembly"), "the report has no viewer");
    eprintln!("{program} works in a file system of its own");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::section;

    #[test]
    fn notes_are_the_section_of_the_version() {
        let changelog = "# Changelog\n\n## Unreleased\n\n- new\n\n## 1.2.0 - 2026-01-01\n\n- old\n\n## 1.1.0\n\n- older\n";
        assert_eq!(section(changelog, "1.2.0"), Some("- old"));
        assert_eq!(section(changelog, "1.3.0"), Some("- new"));
    }
}
