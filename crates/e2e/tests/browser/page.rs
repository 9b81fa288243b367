//! The page of `cargo xtask web`, with files dropped on it.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use vramscope_analysis::{Device, Moment};
use vramscope_e2e::{
    Browser, Chromium, Files, Firefox, generate, is_open, number, pixels, point, recording, root, site,
};
use vramscope_snapshot::{DeviceId, Reader};

use crate::{Place, clean, recordings, wide};

const TABS: [&str; 9] =
    ["Segments", "State", "Flame", "Tree", "Lifetimes", "Tables", "Insights", "Compare", "Settings"];

/// The site below a folder of a server that knows nothing, and a browser that shows it.
fn start(after: &str) -> anyhow::Result<(Files, Chromium)> {
    let site = Files::serve(site()?)?;
    let mut chromium = Chromium::start()?;
    chromium.open(&format!("{}{after}", site.url))?;
    chromium.wait("the start screen", |shown| shown["devices"] == 0)?;
    Ok((site, chromium))
}

/// Four ranks: the bars, the picture, the axis, zooming, a selection, every view.
#[test]
fn a_run_can_be_looked_at() -> anyhow::Result<()> {
    let place = Place::new()?;
    let (site, mut chromium) = start("")?;
    place.picture(&mut chromium, "start")?;
    chromium.drop_files(&[&place.run])?;
    let shown = chromium.wait("four ranks", |shown| is_open(shown, 4))?;
    ensure!(shown["failed"] == json!([]), "{}", shown["failed"]);
    ensure!(shown["names"] == json!(["rank 0", "rank 1", "rank 2", "rank 10"]), "{}", shown["names"]);
    let picture = place.picture(&mut chromium, "ranks")?;
    pixels::bars(&picture, &shown, 4)?;
    pixels::compare(&picture, &shown, &recordings()?)?;

    // The axis, and back.
    chromium.key("t")?;
    let time = chromium.wait("the time axis", |shown| shown["axis"] == "Time" && shown["at_rest"] == true)?;
    place.picture(&mut chromium, "time")?;
    ensure!(time["x"] != shown["x"], "the axis is the same");
    chromium.key("t")?;
    chromium.wait("the event axis", |shown| shown["axis"] == "Events" && shown["at_rest"] == true)?;

    // Zoom at the pointer: what it points at stays where it is. Above all allocations, where no tooltip covers any.
    let (x, y) = point(&shown, 0.6, 0.05);
    for _ in 0..5 {
        chromium.wheel(x, y, -120.0)?;
    }
    let before = wide(&shown);
    let close = chromium
        .wait("a narrower stretch", |shown| wide(shown) < before * 0.8 && shown["at_rest"] == true)?;
    let pointed = |shown: &Value| number(shown, "/x/0") + wide(shown) * 0.6;
    ensure!((pointed(&close) - pointed(&shown)).abs() < before / 500.0, "the zoom is not at the pointer");
    pixels::compare(&place.picture(&mut chromium, "zoomed")?, &close, &recordings()?)?;
    chromium.key("f")?;
    chromium.wait("the whole run", |shown| (wide(shown) - before).abs() < 1.0 && shown["at_rest"] == true)?;

    // An allocation and its stack.
    let (x, y) = point(&shown, 0.78, 0.9);
    chromium.click(x, y)?;
    let selected = chromium.wait("a stack", has_stack)?;
    let stack = selected["stack"].to_string();
    ensure!(stack.contains(".py:"), "no Python in the stack: {stack}");
    place.picture(&mut chromium, "selected")?;

    // Every view shows something of its own.
    let mut pictures: Vec<Vec<u8>> = Vec::new();
    for (key, tab) in TABS.iter().enumerate() {
        chromium.key(&(key + 1).to_string())?;
        let shown = chromium.wait(tab, |shown| shown["tab"] == *tab && shown["at_rest"] == true)?;
        let picture = place.picture(&mut chromium, &tab.to_lowercase())?;
        let colors = pixels::colors_below(&picture, &shown)?;
        ensure!(colors > 40, "{tab} has {colors} colors only: is it empty?");
        ensure!(!pictures.contains(&picture), "{tab} looks like another view");
        pictures.push(picture);
    }
    clean(&mut chromium, &site.url)
}

fn has_stack(shown: &Value) -> bool {
    let is_there = |stack: &Vec<Value>| !stack.is_empty();
    shown["selected"].is_u64() && shown["stack"].as_array().is_some_and(is_there) && shown["at_rest"] == true
}

/// The address keeps what is shown, and shows it again.
#[test]
fn a_link_shows_the_same_again() -> anyhow::Result<()> {
    let place = Place::new()?;
    let (site, mut chromium) = start("")?;
    chromium.drop_files(&[&place.run])?;
    let shown = chromium.wait("four ranks", |shown| is_open(shown, 4))?;
    // Another rank, a part of it, an allocation, another view.
    let mut rank = shown["current"].as_u64().unwrap_or_default();
    while rank != 2 {
        rank = (rank + 1) % 4;
        chromium.key("]")?;
        chromium.wait("another rank", |shown| shown["current"] == rank && shown["at_rest"] == true)?;
    }
    let (x, y) = point(&shown, 0.4, 0.9);
    for _ in 0..4 {
        chromium.wheel(x, y, -120.0)?;
    }
    chromium.key("5")?;
    chromium.click(x, y)?;
    let was = chromium.wait("a stack", |shown| has_stack(shown) && shown["tab"] == "Lifetimes")?;
    thread::sleep(Duration::from_millis(900));
    let link = chromium.value("location.hash")?.as_str().unwrap_or_default().to_owned();
    ensure!(link.contains("tab=lifetimes") && link.contains("alloc="), "the address is {link}");
    clean(&mut chromium, &site.url)?;

    let (site, mut again) = start(&link)?;
    again.drop_files(&[&place.run])?;
    let same = ["current", "axis", "tab", "selected", "at", "stack"];
    let near = |a: f64, b: f64| (a - b).abs() < 1e-3 * wide(&was);
    again.wait("what the link says", |shown| {
        is_open(shown, 4)
            && same.iter().all(|key| shown[key] == was[key])
            && near(number(shown, "/x/0"), number(&was, "/x/0"))
            && near(wide(shown), wide(&was))
    })?;
    place.picture(&mut again, "link")?;
    clean(&mut again, &site.url)
}

/// Files come from an address, and from other pages; one that cannot be read is named with the reason.
#[test]
fn files_come_from_elsewhere() -> anyhow::Result<()> {
    let (site, mut chromium) = start("?url=nothing.pickle#%")?;
    let failed = |shown: &Value, name: &str| {
        shown["failed"].as_array().is_some_and(|all| all.iter().any(|file| file[0] == name))
    };
    let shown = chromium.wait("a file that is not there", |shown| failed(shown, "nothing.pickle"))?;
    ensure!(shown["failed"][0][1] == "the server answers 404", "{}", shown["failed"]);
    let hand_over = "postMessage({ vramscope: { name: 'handed.pickle', buffer: new TextEncoder().encode('hello') } }, '*')";
    chromium.value(hand_over)?;
    chromium.wait("a file that was handed over", |shown| failed(shown, "handed.pickle"))?;
    drop(site);
    Ok(())
}

/// Two files of the same name are told apart by their folders.
#[test]
fn files_of_one_name_are_told_apart_by_their_folders() -> anyhow::Result<()> {
    let place = Place::new()?;
    let folder = place.work.path().join("twice");
    for (name, of) in [("before", "oom"), ("after", "expandable")] {
        fs::create_dir_all(folder.join(name))?;
        fs::write(folder.join(name).join("snapshot.pickle"), recording(of)?)?;
    }
    let (site, mut chromium) = start("")?;
    chromium.drop_files(&[&folder])?;
    let shown = chromium.wait("two files", |shown| is_open(shown, 2))?;
    ensure!(shown["names"] == json!(["after", "before"]), "{}", shown["names"]);
    place.picture(&mut chromium, "names")?;

    // One of them again, alone: it is listed once, and shown.
    chromium.drop_files(&[&folder.join("before/snapshot.pickle")])?;
    chromium.wait("the one that is open", |shown| is_open(shown, 2) && shown["current"] == 1)?;
    chromium.key_with("X", SHIFT)?;
    let shown = chromium.wait("one file", |shown| is_open(shown, 1))?;
    ensure!(shown["names"] == json!(["cuda:0"]), "{}", shown["names"]);
    ensure!(chromium.value("document.title")? == "snapshot.pickle · vramscope");
    chromium.key_with("X", SHIFT)?;
    chromium.wait("the start screen", |shown| shown["devices"] == 0)?;

    // What holds no snapshot says so: a folder of other files, and a text.
    let message = "document.getElementById('message').textContent";
    let other = place.work.path().join("other");
    fs::create_dir_all(&other)?;
    fs::write(other.join("notes.txt"), "no snapshot")?;
    chromium.drop_files(&[&other])?;
    chromium.wait_for(&format!("{message} === 'No memory snapshot is among what was opened'"))?;
    chromium.value("dispatchEvent(new DragEvent('drop', { dataTransfer: new DataTransfer() })), 0")?;
    chromium.wait_for(&format!("{message}.startsWith('That was not a file.')"))?;

    // A closed file can be opened again. Tab goes through the window and then leaves it.
    chromium.drop_files(&[&folder.join("before/snapshot.pickle")])?;
    chromium.wait("it again", |shown| is_open(shown, 1))?;
    let mut tabs = 0;
    while chromium.value("document.activeElement === document.body")? == false {
        tabs += 1;
        ensure!(tabs < 200, "the focus stays in the page");
        chromium.key_with("Tab", 0)?;
    }
    ensure!(tabs > 5, "the focus leaves after {tabs} widgets");
    clean(&mut chromium, &site.url)
}

/// Shift, as the protocol of the browser has it.
const SHIFT: u32 = 8;

/// A snapshot dropped together with what its recorder wrote beside it: what memory is for is as recorded, not inferred.
#[test]
fn a_snapshot_and_its_sidecar_open_as_one() -> anyhow::Result<()> {
    let place = Place::new()?;
    let bytes = recording("oom")?;
    let mut reader = Reader::new();
    reader.feed(&bytes)?;
    let snapshot = reader.finish()?;
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    // All that is live at the end is optimizer state, by the word of the recorder.
    let live = replay.allocations().iter().filter(|(_, a)| a.closed == Moment::NEVER);
    let storages: Vec<Value> = live
        .map(|(_, a)| json!({ "name": "exp_avg", "role": "optimizer", "device": 0, "address": a.addr, "bytes": a.requested }))
        .collect();
    ensure!(storages.len() > 10, "{} allocations are live at the end", storages.len());
    let sidecar = json!({
        "schema": "vramscope/sidecar/1", "snapshot": "memory_rank3.pickle", "reason": "exit", "pid": 1, "rank": 3,
        "devices": [{ "device": 0, "capacity": 85_899_345_920_u64, "free": 0, "reserved": 0 }],
        "roles": { "from": "given", "storages": storages },
    });
    let files =
        ["memory_rank3.pickle", "memory_rank3.vramscope.json"].map(|name| place.work.path().join(name));
    fs::write(&files[0], &bytes)?;
    fs::write(&files[1], sidecar.to_string())?;

    let (site, mut chromium) = start("")?;
    let end = replay.end().0;
    let mut live_at_the_end = |files: &[&Path], devices: u64| -> anyhow::Result<String> {
        chromium.drop_files(files)?;
        let shown = chromium.wait("a file", |shown| is_open(shown, devices))?;
        ensure!(shown["failed"] == json!([]), "{}", shown["failed"]);
        chromium.value(&format!("location.hash = 'device={}&at={end}'", devices - 1))?;
        chromium.wait("its end", |shown| {
            shown["at"] == end && shown["current"] == devices - 1 && shown["at_rest"] == true
        })?;
        let words = chromium.value("document.getElementById('words').textContent")?;
        let mut lines = words.as_str().unwrap_or_default().lines();
        let line = lines.find_map(|line| line.strip_prefix("Live by color: ")).unwrap_or_default();
        Ok(line.to_owned())
    };
    let recorded = live_at_the_end(&[&files[0], &files[1]], 1)?;
    ensure!(recorded.starts_with("optimizer state ") && !recorded.contains(','), "{recorded}");
    // The same without it.
    let plain = place.work.path().join("plain.pickle");
    fs::write(&plain, &bytes)?;
    let inferred = live_at_the_end(&[&plain], 2)?;
    ensure!(inferred != recorded && !inferred.is_empty(), "{inferred}");
    clean(&mut chromium, &site.url)
}

/// After the first visit the page opens without a network.
#[test]
fn the_page_opens_without_a_network() -> anyhow::Result<()> {
    let place = Place::new()?;
    let (site, mut chromium) = start("")?;
    let kept = "navigator.serviceWorker.ready.then(({ active }) => active.state)";
    let state = chromium.value(kept)?;
    ensure!(state == "activated" || state == "activating", "{state}");
    site.stop();
    chromium.open(&format!("{}?again", site.url))?;
    chromium.wait("the start screen", |shown| shown["devices"] == 0)?;
    chromium.drop_files(&[&place.run.join("rank0_memory_snapshot.pickle")])?;
    chromium.wait("a file", |shown| is_open(shown, 1))?;
    Ok(())
}

/// Folders of a profiler whose files belong together.
#[test]
fn folders_of_a_profiler_open() -> anyhow::Result<()> {
    let place = Place::new()?;
    let (site, mut chromium) = start("")?;
    chromium.drop_files(&[&root().join("testdata/inputs/ascend")])?;
    let shown = chromium.wait("two profiles", |shown| is_open(shown, 2))?;
    ensure!(shown["failed"] == json!([]), "{}", shown["failed"]);
    ensure!(shown["names"] == json!(["rank 0", "rank 1 NPU 1"]), "{}", shown["names"]);
    // 12 512 MiB and 10 KiB are in the tables.
    ensure!(shown["peak"] == 12_512_u64 * (1 << 20) + 10_240, "the peak is {}", shown["peak"]);
    place.picture(&mut chromium, "profiles")?;
    clean(&mut chromium, &site.url)
}

/// Reading can be called off, and the page goes on.
#[test]
fn reading_can_be_cancelled() -> anyhow::Result<()> {
    let place = Place::new()?;
    let long = place.work.path().join("long.pickle");
    generate(&long, 600_000)?;
    let (site, mut chromium) = start("")?;
    // The second time the worker does not hear of it, as when it has just read the last byte.
    let deaf = "const post = Worker.prototype.postMessage;
        Worker.prototype.postMessage = function (message) { if (!message.cancel) post.call(this, message) }, 0";
    for before in ["0", deaf] {
        chromium.value(before)?;
        // The page itself watches for the first progress: asked from outside, a quick machine has read it all by then.
        chromium.value(
            "window.called_off = new Promise(done => {
               const watch = setInterval(() => {
                 if (!(JSON.parse(vramscope.shown()).reading[0]?.[1] > 0)) return;
                 clearInterval(watch);
                 vramscope.cancel();
                 done();
               }, 1);
             }), 0",
        )?;
        chromium.drop_files(&[&long])?;
        chromium.value("window.called_off")?;
        let shown = chromium.wait("the end", |shown| shown["reading"] == json!([]))?;
        ensure!(shown["devices"] == 0 && shown["failed"] == json!([]), "{shown}");
    }
    chromium.drop_files(&[&place.run.join("rank0_memory_snapshot.pickle")])?;
    chromium.wait("another file", |shown| is_open(shown, 1))?;
    clean(&mut chromium, &site.url)
}

/// A cut file shows what is intact; one that is no snapshot says what it is.
#[test]
fn a_cut_file_shows_what_is_intact() -> anyhow::Result<()> {
    let place = Place::new()?;
    let (site, mut chromium) = start("")?;
    let zip = place.work.path().join("model.pt");
    fs::write(&zip, [b"PK\x03\x04".as_slice(), &[0; 2000]].concat())?;
    chromium.drop_files(&[&zip])?;
    let shown = chromium.wait("an error", |shown| shown["failed"] != json!([]))?;
    ensure!(shown["failed"].to_string().contains("zip"), "{}", shown["failed"]);
    place.picture(&mut chromium, "error")?;
    let cut = place.work.path().join("cut.pickle");
    let bytes = recording("oom")?;
    fs::write(&cut, bytes.get(..bytes.len() * 2 / 3).unwrap_or_default())?;
    chromium.drop_files(&[&cut])?;
    let shown = chromium.wait("what is intact", |shown| is_open(shown, 1))?;
    ensure!(shown["verdict"].to_string().contains("truncated"), "{}", shown["verdict"]);
    place.picture(&mut chromium, "damaged")?;
    clean(&mut chromium, &site.url)
}

/// The same in Firefox, in short.
#[test]
fn firefox_shows_the_same() -> anyhow::Result<()> {
    let place = Place::new()?;
    let site = Files::serve(site()?)?;
    let mut firefox = Firefox::start()?;
    firefox.open(&site.url)?;
    firefox.wait("the start screen", |shown| shown["devices"] == 0)?;
    let files = [0, 2].map(|rank| place.run.join(format!("rank{rank}_memory_snapshot.pickle")));
    firefox.pick(&[&files[0], &files[1]])?;
    let shown = firefox.wait("two ranks", |shown| is_open(shown, 2))?;
    let picture = place.picture(&mut firefox, "firefox")?;
    pixels::bars(&picture, &shown, 2)?;
    pixels::compare(&picture, &shown, &recordings()?)?;
    // One that comes in many pieces.
    let large = place.work.path().join("large.pickle");
    generate(&large, 200_000)?;
    firefox.pick(&[&large])?;
    firefox.wait("a larger file", |shown| is_open(shown, 3))?;
    let complaints = firefox.complaints()?;
    ensure!(complaints.is_empty(), "the console says: {complaints:?}");
    Ok(())
}
