//! Files that know less than a snapshot: what is missing is said, not drawn as zero.

use std::path::PathBuf;

use crate::common::{PLAIN, Session};

fn open(name: &str) -> Session {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/inputs").join(name);
    Session::open_paths(&[path], false, (140, 40), PLAIN)
}

#[test]
fn a_memory_timeline_has_no_reserved_and_no_segments() {
    let mut session = open("kineto/mt.raw.json.gz");
    assert!(session.text().contains("reserved is not in this file"));
    // `c` goes through the counters that there are.
    for counter in ["allocated", "requested"] {
        session.press(&["c"]);
        assert!(session.text().contains(counter), "{counter}");
        assert!(!session.text().contains("0 B reserved"));
    }
    for view in ["4", "8"] {
        session.press(&[view]);
        let text = session.text();
        assert!(text.contains("no segments, holes or pools"), "{text}");
        assert!(text.contains("_dump_snapshot"), "{text}");
    }
    // Numbers that only tell blocks apart are not shown as addresses.
    session.press(&["2", "a"]);
    assert!(session.text().contains("(not named in this file)"));
    assert!(!session.text().contains("0x"), "{}", session.text());
}

#[test]
fn an_npu_profile_states_reserved_and_names_operators() {
    let mut session = open("ascend");
    let ranks = session.press(&["6"]).text();
    assert!(ranks.contains("actor_update rank 0"), "{ranks}");
    let timeline = session.press(&["Enter", "1"]).text();
    assert!(timeline.contains("NPU") && timeline.contains("reserved"), "{timeline}");
    assert!(!timeline.contains("not in this file"), "{timeline}");
    // What the totals count and no row names, and the operators, which are internal frames.
    let tree = session.press(&["2", "h", "E"]).text();
    assert!(tree.contains("(not named in this file)") && tree.contains("aten::"), "{tree}");
}
