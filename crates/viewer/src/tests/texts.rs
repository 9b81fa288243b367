//! No text lies on another one, is cut off without a mark or stands letter below letter, in any view, at any size of the
//! window.

use egui::epaint::ClippedShape;
use egui::{Key, Rect, Shape};
use egui_kittest::Harness;

use super::{click, key, open, point, settle, window};
use crate::App;
use crate::views::Tab;

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

fn every_view(mut harness: Harness<'static, App>, name: &str, sizes: &[Size], found: &mut Vec<String>) {
    for &(width, height, scale) in sizes {
        // In one frame with another scale, the size would be ignored.
        harness.set_pixels_per_point(scale);
        harness.step();
        harness.set_size(egui::vec2(width, height));
        settle(&mut harness);
        assert_eq!(harness.ctx.content_rect().size(), egui::vec2(width, height));
        let name = &format!("{name} at scale {scale}");
        for tab in TABS {
            harness.state_mut().open_tab(tab);
            harness.run_steps(4);
            check(&harness, &format!("{name} at {width} × {height}, {tab:?}"), found);
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
    every_view(window(&[("oom", "")]), "oom", &LARGE, &mut found);
    clean(&found);
}

#[test]
fn no_text_lies_on_another_one_in_small_windows() {
    let mut found = Vec::new();
    every_view(window(&[("oom", "")]), "oom", &SMALL, &mut found);
    clean(&found);
}

#[test]
fn no_text_lies_on_another_one_whatever_is_open() {
    let mut found = Vec::new();
    every_view(window(&[("cudagraph_pools", "")]), "pools", &NARROW, &mut found);
    let ranks = [("expandable", "rank 0"), ("expandable_mixed", "rank 1"), ("oom", "rank 2")];
    every_view(window(&ranks), "ranks", &NARROW, &mut found);
    every_view(open(super::Direct::on("inputs/ascend")), "ascend", &NARROW, &mut found);
    clean(&found);
}
