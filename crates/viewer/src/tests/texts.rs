//! No text lies on another one, is cut off without a mark or stands letter below letter, in any view, at any size of the
//! window.

use egui::epaint::ClippedShape;
use egui::{Key, Rect, Shape};
use egui_kittest::Harness;

use super::{Direct, click, key, open, point, root, settle, window};
use crate::App;
use crate::views::{Tab, breakdown};

const TABS: [Tab; 13] = [
    Tab::Insights,
    Tab::Segments,
    Tab::State,
    Tab::Events,
    Tab::Flame,
    Tab::Tree,
    Tab::Lifetimes,
    Tab::Tables,
    Tab::Breakdown,
    Tab::Compare,
    Tab::Settings,
    Tab::WhatIf,
    Tab::Sql,
];

/// Letters of a word that is too long for its row.
const LEAST_PIECE: usize = 8;

/// A text as it can be seen: what of it lies inside its clip.
struct Text {
    rect: Rect,
    words: String,
    /// Whether letters at its end lie outside of its clip.
    is_cut: bool,
    /// Whether it is a few letters of a word that goes on in the next row.
    is_piece: bool,
    /// The number of opaque rectangles before it: what is drawn under a later one is not seen.
    order: usize,
}

fn gather(shape: &Shape, clip: Rect, order: usize, texts: &mut Vec<Text>, covers: &mut Vec<(usize, Rect)>) {
    match shape {
        Shape::Vec(shapes) => shapes.iter().for_each(|shape| gather(shape, clip, order, texts, covers)),
        Shape::Rect(rect) if rect.fill.a() > 200 => covers.push((order, rect.rect.intersect(clip))),
        Shape::Text(text) => {
            for (at, row) in text.galley.rows.iter().enumerate() {
                // The letters, without the air around them.
                let rect = row.row.visuals.mesh_bounds.translate(row.pos.to_vec2() + text.pos.to_vec2());
                let rect = rect.shrink(0.5);
                let seen = rect.intersect(clip);
                if seen.is_positive() && !row.row.text().trim().is_empty() {
                    let is_cut = rect.right() > clip.right() + 1.0;
                    let words = row.row.text();
                    let next = text.galley.rows.get(at + 1).map(|next| next.row.text()).unwrap_or_default();
                    let goes_on = !row.ends_with_newline
                        && words.ends_with(char::is_alphanumeric)
                        && next.starts_with(char::is_alphanumeric);
                    let is_piece = goes_on && words.chars().count() < LEAST_PIECE;
                    texts.push(Text { rect: seen, words, is_cut, is_piece, order });
                }
            }
        }
        _ => {}
    }
}

/// Pairs of texts that lie on each other, and texts whose end is cut off or which are broken into pieces.
fn overprinted(shapes: &[ClippedShape]) -> Vec<(String, String)> {
    let (mut texts, mut covers) = (Vec::new(), Vec::new());
    for (order, clipped) in shapes.iter().enumerate() {
        gather(&clipped.shape, clipped.clip_rect, order, &mut texts, &mut covers);
    }
    texts.retain(|text| {
        !covers.iter().any(|(order, rect)| *order > text.order && rect.expand(1.0).contains_rect(text.rect))
    });
    texts.sort_by(|a, b| a.rect.left().total_cmp(&b.rect.left()));
    let cut = texts.iter().filter(|text| text.is_cut);
    let mut found: Vec<_> = cut.map(|text| (text.words.clone(), "its clip".to_owned())).collect();
    let pieces = texts.iter().filter(|text| text.is_piece);
    found.extend(pieces.map(|text| (text.words.clone(), "the rest of its word".to_owned())));
    for (n, a) in texts.iter().enumerate() {
        for b in texts[n + 1..].iter().take_while(|b| b.rect.left() < a.rect.right()) {
            let both = a.rect.intersect(b.rect);
            // A card or a window over a text hides it up to its edge.
            let hidden = covers.iter().any(|(order, rect)| {
                *order > a.order.min(b.order) && *order < a.order.max(b.order) && rect.contains_rect(both)
            });
            if both.width() > 1.5 && both.height() > 1.5 && !hidden {
                found.push((a.words.clone(), b.words.clone()));
            }
        }
    }
    found
}

fn check(harness: &Harness<'static, App>, place: &str, found: &mut Vec<String>) {
    for (a, b) in overprinted(&harness.output().shapes) {
        found.push(format!("{place}: {a:?} and {b:?}"));
    }
}

/// A size of the window in points, and how many pixels a point has.
type Size = (f32, f32, f32);

fn resize(harness: &mut Harness<'static, App>, (width, height, scale): Size) {
    // In one frame with another scale, the size would be ignored.
    harness.set_pixels_per_point(scale);
    harness.step();
    harness.set_size(egui::vec2(width, height));
    settle(harness);
    assert_eq!(harness.ctx.content_rect().size(), egui::vec2(width, height));
}

/// Opens every tab, and each table of the one that has several.
fn every_tab(harness: &mut Harness<'static, App>, name: &str, found: &mut Vec<String>) {
    for tab in TABS {
        harness.state_mut().open_tab(tab);
        harness.run_steps(3);
        check(harness, &format!("{name}, {tab:?}"), found);
        for (what, table) in breakdown::ALL.iter().filter(|_| tab == Tab::Breakdown) {
            harness.state_mut().parts.breakdown.what = *what;
            harness.run_steps(2);
            check(harness, &format!("{name}, {table}"), found);
        }
    }
}

/// Looks at what is opened over the tabs, and at the tabs of what is no recording of its own.
fn every_view(
    mut harness: Harness<'static, App>,
    (name, has_tabs): (&str, bool),
    sizes: &[Size],
    found: &mut Vec<String>,
) {
    for &(width, height, scale) in sizes {
        resize(&mut harness, (width, height, scale));
        let name = &format!("{name} at scale {scale}");
        if has_tabs {
            every_tab(&mut harness, &format!("{name} at {width} × {height}"), found);
        }
        harness.state_mut().open_tab(Tab::Flame);
        let at = point(&harness, 0.7, 0.3);
        click(&mut harness, at);
        harness.remove_cursor();
        settle(&mut harness);
        check(&harness, &format!("{name} at {width} × {height}, a selection"), found);
        harness.state_mut().isolate_selected();
        harness.state_mut().selection.alloc = None;
        harness.state_mut().mark_range(10.0, 200.0);
        settle(&mut harness);
        check(&harness, &format!("{name} at {width} × {height}, alone, with a range"), found);
        harness.state_mut().show_all();
        harness.state_mut().selection.range = None;
        key(&mut harness, Key::T);
        check(&harness, &format!("{name} at {width} × {height}, in time"), found);
        key(&mut harness, Key::T);
        // Every letter of an address finds something else.
        key(&mut harness, Key::Slash);
        for typed in ["0", "x", "7", "f"] {
            harness.event(egui::Event::Text(typed.into()));
            harness.run_steps(3);
            check(&harness, &format!("{name} at {width} × {height}, typed {typed}"), found);
        }
        harness.state_mut().parts.search.text = "model".into();
        harness.run_steps(3);
        check(&harness, &format!("{name} at {width} × {height}, a search"), found);
        key(&mut harness, Key::Escape);
        harness.state_mut().parts.help = true;
        harness.run_steps(3);
        check(&harness, &format!("{name} at {width} × {height}, keys"), found);
        harness.state_mut().parts.help = false;
        harness.state_mut().parts.palette = Some(String::new());
        harness.run_steps(3);
        check(&harness, &format!("{name} at {width} × {height}, commands"), found);
        harness.state_mut().parts.palette = None;
        harness.run_steps(3);
    }
}

/// The first as the window opens: panels keep their width when it becomes another.
const LARGE: [Size; 5] = [
    (1400.0, 900.0, 1.0),
    (900.0, 600.0, 1.0),
    (1000.0, 640.0, 1.0),
    (1400.0, 900.0, 2.0),
    (2400.0, 1400.0, 1.0),
];
const SMALL: [Size; 7] = [
    (800.0, 600.0, 1.0),
    (800.0, 500.0, 2.0),
    (700.0, 450.0, 2.0),
    (800.0, 500.0, 3.0),
    (533.0, 333.0, 1.5),
    (640.0, 700.0, 1.0),
    // The smallest: a telephone.
    (400.0, 300.0, 3.0),
];
const NARROW: [Size; 3] = [(800.0, 600.0, 1.0), (700.0, 450.0, 2.0), (640.0, 420.0, 1.0)];

fn clean(found: &[String]) {
    assert!(found.is_empty(), "{}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn no_text_lies_on_another_one_in_large_windows() {
    let mut found = Vec::new();
    every_view(window(&[("oom", "")]), ("oom", false), &LARGE, &mut found);
    clean(&found);
}

#[test]
fn no_text_lies_on_another_one_in_small_windows() {
    let mut found = Vec::new();
    every_view(window(&[("oom", "")]), ("oom", false), &SMALL, &mut found);
    clean(&found);
}

#[test]
fn no_text_lies_on_another_one_whatever_is_open() {
    let mut found = Vec::new();
    every_view(window(&[("cudagraph_pools", "")]), ("pools", false), &NARROW, &mut found);
    let ranks = [("expandable", "rank 0"), ("expandable_mixed", "rank 1"), ("oom", "rank 2")];
    every_view(window(&ranks), ("ranks", true), &NARROW, &mut found);
    every_view(open(Direct::on("inputs/ascend")), ("ascend", false), &NARROW, &mut found);
    clean(&found);
}

/// Every recording in every tab, in one window. Each has one size, and the sizes take turns; with `EVERY_SIZE=1` it has all of
/// them, which takes minutes. `part` of `PARTS`, for as many cores.
fn every_recording(part: usize) {
    let has_every_size = std::env::var_os("EVERY_SIZE").is_some();
    let sizes = [LARGE.as_slice(), &SMALL].concat();
    let recordings: Vec<_> = recordings().into_iter().skip(part).step_by(PARTS).enumerate().collect();
    let mut harness = open(Direct::default());
    let (mut found, mut shown) = (Vec::new(), 0);
    // Letters are drawn anew with each scale, which takes longest.
    for (turn, &size) in sizes.iter().enumerate() {
        resize(&mut harness, size);
        for (number, path) in &recordings {
            if has_every_size || number % sizes.len() == turn {
                let ctx = harness.ctx.clone();
                *harness.state_mut() = App::new(&ctx, Box::new(Direct::on(path)), None);
                settle(&mut harness);
                shown += usize::from(harness.state().device().is_some());
                every_tab(&mut harness, &format!("{path} at {size:?}"), &mut found);
            }
        }
    }
    assert!(shown + 2 >= recordings.len(), "all but those that are empty are shown: {shown}");
    clean(&found);
}

const PARTS: usize = 2;

/// All recordings of the repository, as paths in `testdata`.
fn recordings() -> Vec<String> {
    let files = ["recordings", "roles"].into_iter().flat_map(|folder| {
        let entries = std::fs::read_dir(root().join("testdata").join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| !name.contains(".json") || name.starts_with("formats_json.json"))
            .map(move |name| format!("{folder}/{name}"))
    });
    let mut paths: Vec<_> = files.filter(|path| path.ends_with(".xz")).collect();
    paths.extend(["inputs/ascend", "inputs/ascend_db", "inputs/npu_oom", "inputs/kineto"].map(str::to_owned));
    paths.sort();
    assert!(paths.len() > 100, "{} recordings", paths.len());
    paths
}

#[test]
fn no_text_lies_on_another_one_in_any_recording() {
    every_recording(0);
}

#[test]
fn no_text_lies_on_another_one_in_any_other_recording() {
    every_recording(1);
}
