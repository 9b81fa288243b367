//! Every view as it looks, light and dark, against pictures in the repository.
//!
//! The pictures are kept at half their size, which a person can still judge and which takes little room. To accept a
//! change, run the tests with `UPDATE_GOLDEN=1` and look at what changed. `GOLDEN_OUT=folder` also writes every picture at
//! full size.

use std::path::PathBuf;

use egui::Key;
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use image::RgbaImage;
use vramscope_analysis::Moment;
use vramscope_engine::ReportOf;
use vramscope_engine::color::Scheme;

use super::{click, key, open, point, root, settle, window};
use crate::App;
use crate::views::Tab;

/// Of the pixels of a picture, this share may differ by more than [`NEAR`] in some channel: fonts of another version.
const ALLOWED: f64 = 0.004;
const NEAR: u8 = 40;

/// The window of most pictures, in points.
const SIZE: (f32, f32) = (960.0, 620.0);

/// What is done before the picture is taken.
type Act = fn(&mut Harness<'static, App>);

fn tab(harness: &mut Harness<'static, App>, tab: Tab) {
    harness.state_mut().open_tab(tab);
    harness.remove_cursor();
    harness.run_steps(6);
}

/// One of the tables of a tab that has several.
fn table(harness: &mut Harness<'static, App>, what: ReportOf) {
    harness.state_mut().parts.breakdown.what = what;
    tab(harness, Tab::Breakdown);
}

/// Views of one recording, one after the other.
const VIEWS: [(&str, Act); 22] = [
    ("timeline", |_| {}),
    ("segments", |harness| tab(harness, Tab::Segments)),
    ("state", |harness| {
        key(harness, Key::O);
        tab(harness, Tab::State);
    }),
    ("events", |harness| tab(harness, Tab::Events)),
    ("flame", |harness| {
        key(harness, Key::P);
        tab(harness, Tab::Flame);
    }),
    ("tree", |harness| tab(harness, Tab::Tree)),
    ("lifetimes", |harness| tab(harness, Tab::Lifetimes)),
    ("tables", |harness| tab(harness, Tab::Tables)),
    ("modules", |harness| table(harness, ReportOf::Modules)),
    ("phases", |harness| table(harness, ReportOf::Phases)),
    ("steps", |harness| table(harness, ReportOf::Steps)),
    ("pools", |harness| table(harness, ReportOf::Pools)),
    ("fragmentation", |harness| table(harness, ReportOf::Fragmentation)),
    ("compare", |harness| tab(harness, Tab::Compare)),
    ("whatif", |harness| {
        tab(harness, Tab::WhatIf);
        // One order of addresses comes with each frame.
        harness.run_steps(60);
    }),
    ("settings", |harness| tab(harness, Tab::Settings)),
    ("insights", |harness| tab(harness, Tab::Insights)),
    ("isolated", |harness| {
        let group = vramscope_engine::Group::Category(3);
        harness.state_mut().isolate(group, "activations");
        settle(harness);
    }),
    ("range", |harness| {
        harness.state_mut().show_all();
        harness.state_mut().mark_range(4_000.0, 7_000.0);
        settle(harness);
    }),
    ("selected", |harness| {
        harness.state_mut().selection.range = None;
        let at = point(harness, 0.8, 0.1);
        click(harness, at);
        harness.remove_cursor();
        settle(harness);
    }),
    ("help", |harness| {
        harness.state_mut().parts.help = true;
        settle(harness);
    }),
    // Colors for all eyes, a note, and the members of a group.
    ("safe", |harness| {
        let ctx = harness.ctx.clone();
        let app = harness.state_mut();
        app.parts.help = false;
        app.set_scheme(&ctx, Scheme::Safe);
        app.set_cursor(Moment(7_000));
        app.put_note("the third step begins");
        app.selection.alloc = None;
        app.settings.details = false;
        tab(harness, Tab::Lifetimes);
        harness.get_all_by_label_contains("× events").next().unwrap().click();
        harness.remove_cursor();
        settle(harness);
    }),
];

fn sized(mut harness: Harness<'static, App>, (width, height): (f32, f32)) -> Harness<'static, App> {
    harness.set_size(egui::vec2(width, height));
    settle(&mut harness);
    harness
}

/// Takes a picture of the same thing in both themes, and gives the names of those that differ.
fn both(harness: &mut Harness<'static, App>, name: &str) -> Vec<String> {
    let mut differ: Vec<String> = compare(harness, &format!("{name}-dark")).into_iter().collect();
    let ctx = harness.ctx.clone();
    harness.state_mut().toggle_theme(&ctx);
    harness.run_steps(2);
    differ.extend(compare(harness, &format!("{name}-light")));
    harness.state_mut().toggle_theme(&ctx);
    harness.run_steps(2);
    differ
}

fn check(views: &[(&str, Act)]) {
    let mut differ = Vec::new();
    let mut harness = sized(window(&[("oom", "")]), SIZE);
    for (name, act) in views {
        act(&mut harness);
        differ.extend(both(&mut harness, name));
    }
    assert!(differ.is_empty(), "these views look different: {}", differ.join(", "));
}

#[test]
fn views_of_memory_look_as_they_did() {
    check(&VIEWS[..11]);
}

#[test]
fn views_of_findings_look_as_they_did() {
    check(&VIEWS[11..]);
}

#[test]
fn ranks_and_the_start_screen_look_as_they_did() {
    let ranks = [("expandable", "rank 0"), ("expandable_mixed", "rank 1"), ("oom", "rank 2")];
    let mut harness = sized(window(&ranks), SIZE);
    let mut differ = both(&mut harness, "ranks");
    harness.state_mut().show_beside(Some(1));
    settle(&mut harness);
    differ.extend(both(&mut harness, "beside"));
    differ.extend(both(&mut sized(open(super::Direct::default()), SIZE), "start"));
    differ.extend(both(&mut sized(open(super::thousands()), SIZE), "thousands"));
    assert!(differ.is_empty(), "these views look different: {}", differ.join(", "));
}

#[test]
fn queries_look_as_they_did() {
    let mut harness = sized(super::sql::window().0, SIZE);
    let mut differ = both(&mut harness, "sql-views");
    super::sql::run(&mut harness, "select event, requested, pool, line\nfrom events\norder by event");
    harness.remove_cursor();
    differ.extend(both(&mut harness, "sql"));
    assert!(differ.is_empty(), "these views look different: {}", differ.join(", "));
}

#[test]
fn small_windows_look_as_they_did() {
    let mut differ = Vec::new();
    for (name, size, scale) in [("800x600", (800.0, 600.0), 1.0), ("scale2", (800.0, 500.0), 2.0)] {
        let mut harness = window(&[("oom", "")]);
        harness.set_pixels_per_point(scale);
        // In one frame with another scale, the size would be ignored.
        harness.step();
        let mut harness = sized(harness, size);
        differ.extend(compare(&mut harness, name));
    }
    assert!(differ.is_empty(), "these views look different: {}", differ.join(", "));
}

/// Half as wide and high.
fn halved(image: &RgbaImage) -> (u32, u32, Vec<[u8; 3]>) {
    let (width, height) = (image.width() / 2, image.height() / 2);
    let mean = |x: u32, y: u32| {
        let mut sum = [0_u32; 3];
        for (dx, dy) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let pixel = image.get_pixel(2 * x + dx, 2 * y + dy).0;
            for (sum, channel) in sum.iter_mut().zip(pixel) {
                *sum += u32::from(channel);
            }
        }
        // Steps of sixteen are hardly seen, and pack better.
        sum.map(|channel| ((channel / 4) as u8) & 0xf0)
    };
    let pixels = (0..width * height).map(|n| mean(n % width, n / width)).collect();
    (width, height, pixels)
}

/// Compares a picture of the window with the one that is kept. Gives its name if it differs.
fn compare(harness: &mut Harness<'static, App>, name: &str) -> Option<String> {
    let image = harness.render().unwrap();
    if let Some(folder) = std::env::var_os("GOLDEN_OUT").map(PathBuf::from) {
        let pixels: Vec<_> = image.pixels().map(|pixel| [pixel.0[0], pixel.0[1], pixel.0[2]]).collect();
        let png = vramscope_engine::paint::png([image.width(), image.height()], &pixels);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), png).unwrap();
    }
    let (width, height, pixels) = halved(&image);
    let path = root().join(format!("testdata/golden/{name}.png"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, vramscope_engine::paint::png([width, height], &pixels)).unwrap();
        return None;
    }
    let Ok(file) = std::fs::read(&path) else { return Some(format!("{name} (there is none)")) };
    let known = image::load_from_memory(&file).unwrap().into_rgb8();
    if known.dimensions() != (width, height) {
        return Some(format!("{name} ({width} × {height})"));
    }
    let off = |(known, pixel): (&[u8], &[u8; 3])| {
        known.iter().zip(pixel).any(|(known, channel)| known.abs_diff(*channel) > NEAR)
    };
    let off = known.chunks_exact(3).zip(&pixels).filter(|pair| off(*pair)).count();
    let share = off as f64 / pixels.len() as f64;
    (share > ALLOWED).then(|| format!("{name} ({:.1} % of the pixels)", share * 100.0))
}
