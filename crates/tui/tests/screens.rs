//! Whole screens, at the sizes that people have.

use crate::common::{PLAIN, Session, recording};

const SIZES: [(u16, u16); 3] = [(80, 24), (140, 42), (200, 60)];

fn screens(name: &str, file: &str, keys: &[&str]) {
    for (width, height) in SIZES {
        let mut session = Session::open(&[file], false, (width, height), PLAIN);
        session.press(keys);
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), session.text());
    }
}

#[test]
fn timeline() {
    screens("timeline", "oom.pickle.xz", &[]);
}

#[test]
fn timeline_by_time() {
    screens("timeline_by_time", "llama_python.pickle.xz", &["t", "+"]);
}

#[test]
fn tree() {
    screens("tree", "oom.pickle.xz", &["Enter", "Down", "Down"]);
}

#[test]
fn tree_inverted() {
    screens("tree_inverted", "llama_python.pickle.xz", &["Enter", "v"]);
}

#[test]
fn allocations() {
    screens("allocations", "leak_graph.pickle.xz", &["Enter", "Down", "a"]);
}

#[test]
fn flame() {
    screens("flame", "leak_graph.pickle.xz", &["3", "Down", "Down"]);
}

#[test]
fn segments() {
    screens("segments", "cudagraph_pools.pickle.xz", &["4", "Down", "Right"]);
}

#[test]
fn segments_in_true_scale() {
    screens("segments_true_scale", "cudagraph_pools.pickle.xz", &["4", "t", "Down"]);
}

#[test]
fn one_segment() {
    screens("segment_zoomed", "cudagraph_pools.pickle.xz", &["4", "Down", "z", "Right", "Right"]);
}

#[test]
fn insights() {
    screens("insights", "leak_graph.pickle.xz", &["5"]);
}

#[test]
fn events() {
    screens("events", "alloc_retry.pickle.xz", &["7"]);
}

#[test]
fn pools() {
    screens("pools", "cudagraph_pools.pickle.xz", &["8"]);
}

#[test]
fn diff() {
    screens("diff", "leak_graph.pickle.xz", &["g", "/", "optimizer", "Enter", "x", "n", "n", "n", "D"]);
}

#[test]
fn ranks() {
    let paths = [0, 1, 2, 3].map(|rank| recording(&format!("rank{rank}_memory_snapshot.pickle.xz")));
    for (width, height) in SIZES {
        let mut session = Session::open_paths(&paths, false, (width, height), PLAIN);
        session.press(&["6"]);
        let text = session.text();
        // The last lines name the file with all its folders.
        let shown: Vec<_> = text.lines().filter(|line| !line.contains(".pickle.xz")).collect();
        insta::assert_snapshot!(format!("ranks_{width}x{height}"), shown.join("\n"));
    }
}

#[test]
fn whatif() {
    screens("whatif", "../whatif/resize.limit.pickle.xz", &["0", "Down"]);
}

#[test]
fn help() {
    screens("help", "oom.pickle.xz", &["?"]);
}
