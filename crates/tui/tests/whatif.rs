//! Other allocator settings in the terminal, on a program whose reruns under other settings are known.

use crate::common::{PLAIN, Session, recording};
use vramscope_format::size;

const WIDE: (u16, u16) = (170, 45);

fn open(name: &str) -> Session {
    Session::open(&[&format!("../whatif/{name}.pickle.xz")], false, WIDE, PLAIN)
}

/// The peak of reserved bytes in the real rerun, in words.
fn real_peak(name: &str) -> String {
    let oracle = std::fs::read(recording(&format!("../whatif/{name}.oracle.json"))).unwrap();
    let oracle: serde_json::Value = serde_json::from_slice(&oracle).unwrap();
    size(oracle["marks"].as_array().unwrap().last().unwrap()["reserved_peak"].as_u64().unwrap())
}

/// The row of the table that begins so.
fn row(session: &mut Session, name: &str) -> String {
    let screen = session.screen();
    screen.into_iter().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no row {name}"))
}

#[test]
fn ready_made_settings_are_simulated_as_they_really_were() {
    let mut session = open("resize.default");
    session.press(&["0"]).shows("self-check: all 61 device calls of the recording are reproduced");
    assert!(row(&mut session, "roundup_power2_divisions:8").contains(&real_peak("resize.round8")));
    // Under the limit of the reruns, which the recording without one does not show.
    session.press(&["l", "2200000000", "Enter"]).shows("simulated with a limit of 2.05 GiB");
    assert!(row(&mut session, "expandable_segments:True").contains(&real_peak("resize.explimit")));
    assert!(row(&mut session, "expandable_segments:True").contains("runs"));
    session.press(&["l", "lots", "Enter"]).shows("'lots' is not a valid size");
}

#[test]
fn settings_that_are_typed_are_checked_and_become_a_row() {
    let mut session = open("resize.default");
    session.press(&["0", "e", "max_split_size_mb:2", "Enter"]).shows("at least 20");
    session.press(&["Backspace", "64", "Enter"]).press(&["l", "2200000000", "Enter"]);
    assert!(row(&mut session, "max_split_size_mb:64").contains(&real_peak("resize.splitlimit")));
    session.shows("7 orders simulated");
}

#[test]
fn the_simulated_curve_lies_over_the_timeline() {
    let mut session = open("resize.default");
    session.press(&["0", "Enter"]).shows("━ simulated with expandable_segments:True").shows("┏");
    // The recording itself has no second curve.
    session.press(&["0", "Up", "1"]).hides("━ simulated").hides("┏");
}

#[test]
fn simulating_can_be_cancelled_and_goes_on() {
    let mut session = open("resize.default");
    session.held = Some(Vec::new());
    session.press(&["0"]).shows("reading the requests out of the trace");
    // Other keys work while a thread is at it.
    session.press(&["Down", "2"]).shows("requested");
    session.press(&["0", "Esc"]).shows("simulating is canceled; Enter goes on");
    session.answer_held();
    session
        .shows("canceled; Enter goes on")
        .press(&["Enter"])
        .hides("canceled")
        .shows("runs; in expandable segments");
}

#[test]
fn what_cannot_be_simulated_says_why() {
    let mut session = Session::open(&["late_start.pickle.xz"], false, WIDE, PLAIN);
    session.press(&["0"]).shows("cannot be simulated: the recording started late");
    session.press(&["Down", "Enter", "e", "Enter", "1"]).shows("requested");
}
