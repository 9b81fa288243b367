//! `vramscope run` becomes `python -m vramscope run`: which Python, with which words, and what it says without one.
//! python/tests/test_run.py has it with the package.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A program that says who it is and what it got; as a Python, it has the package if `has_package`.
fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn python(path: &Path, has_package: bool) {
    let import = if has_package { "exit 0" } else { "exit 1" };
    program(path, &format!("#!/bin/sh\n[ \"$1\" = -c ] && {import}\necho \"$0 $*\"\nexit 7\n"));
}

/// The exit code and what is printed and complained about, with nothing but `folder/path` on the path.
fn run(folder: &Path, environment: Option<&Path>, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vramscope"));
    command.arg("run").args(words).current_dir(folder).env("PATH", folder.join("path"));
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        command.env_remove(name);
    }
    command.envs(environment.map(|folder| ("VIRTUAL_ENV", folder)));
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_python_of_the_command_is_asked_first() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (own, other, on_path) =
        (root.join("own/bin/python3"), root.join("other/bin/python3"), root.join("path/python3"));
    [&own, &other, &on_path].into_iter().for_each(|path| python(path, true));
    let asked = |words: &[&str]| run(&root, Some(&root.join("other")), words);
    let said = |python: &Path, rest: &str| {
        format!("{} -m vramscope run --output vramscope-out {rest}\n", python.display())
    };

    let (code, printed, _) = asked(&["--", own.to_str().unwrap(), "train.py", "--lr", "1"]);
    assert_eq!((code, printed), (Some(7), said(&own, &format!("-- {} train.py --lr 1", own.display()))));
    // torchrun and the like are scripts of the environment that they belong to.
    program(&root.join("path/torchrun"), &format!("#!{}\nimport torch\n", own.display()));
    assert_eq!(asked(&["--", "torchrun", "train.py"]).1, said(&own, "-- torchrun train.py"));
    program(&root.join("path/launch.sh"), "#!/bin/sh\n");
    assert_eq!(asked(&["--", "launch.sh"]).1, said(&other, "-- launch.sh"), "then the active environment");
    assert_eq!(run(&root, None, &["--", "launch.sh"]).1, said(&on_path, "-- launch.sh"), "then the path");
}

#[test]
fn one_without_the_package_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (own, on_path) = (root.join("own/bin/python3"), root.join("path/python3"));
    python(&own, false);
    let (code, _, complained) = run(&root, None, &["--", own.to_str().unwrap(), "train.py"]);
    assert_eq!(code, Some(2));
    let next = format!("Install it: {} -m pip install vramscope", own.display());
    assert!(complained.contains(&next), "{complained}");
    python(&on_path, true);
    let (_, printed, _) = run(&root, None, &["--every", "5", "--stacks", "all", "--", own.to_str().unwrap()]);
    assert!(printed.contains("--output vramscope-out --every 5 --stacks all -- "), "{printed}");
}

#[test]
fn without_any_python_it_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("path")).unwrap();
    let (code, _, complained) = run(folder.path(), None, &["--", "launch.sh"]);
    assert_eq!(code, Some(2));
    assert!(
        complained.contains("no Python found") && complained.contains("pip install vramscope"),
        "{complained}"
    );
    assert_eq!(run(folder.path(), None, &[]).0, Some(2), "a command is needed");
}
