//! What tests of the command share: running it, and what they run it on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

pub(crate) fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings")
}

pub(crate) fn recording(name: &str) -> String {
    recordings().join(name).to_str().unwrap().to_owned()
}

pub(crate) fn vramscope(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vramscope")).args(args).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The JSON of a run that must succeed.
pub(crate) fn json(args: &[&str]) -> Value {
    let output = vramscope(&[args, &["--json", "--no-cache"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Exit code and standard error of a run that must fail without printing anything else.
pub(crate) fn failure(args: &[&str]) -> String {
    let output = vramscope(args);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert_eq!(text(&output.stdout), "");
    text(&output.stderr)
}

pub(crate) fn file(folder: &tempfile::TempDir, name: &str, content: &[u8]) -> String {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

pub(crate) fn unpacked(name: &str) -> Vec<u8> {
    let packed = fs::read(recordings().join(name)).unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut lzma_rust2::XzReader::new(packed.as_slice(), true), &mut bytes).unwrap();
    bytes
}
