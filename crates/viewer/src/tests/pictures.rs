//! What is on the screen, pixel by pixel, and the screenshots of the documentation.

use egui::{Key, pos2};
use vramscope_engine::color::{ColorBy, Scheme};
use vramscope_engine::{AskTile, paint};

use super::{plot, settle, window};
use crate::color::rgb;
use crate::requests::Slot;
use crate::theme::Palette;
use vramscope_soft::pixel;

#[test]
fn pixels_have_the_color_of_the_allocation_that_the_engine_says_owns_them() {
    let mut harness = window(&[("expandable", "")]);
    harness.remove_cursor();
    // Names are written into bands only when colors stand for stacks.
    harness.state_mut().color_by(ColorBy::Size);
    settle(&mut harness);
    let image = harness.render().unwrap();
    let app = harness.state();
    let tile = app.requests.look::<AskTile>(Slot::Timeline).unwrap().value;
    let (_, summary) = app.device().unwrap();
    let coloring = app.coloring(None, summary.last());
    let plot = plot(&harness);
    let (mut looked, mut seen) = (0, 0);
    for column in (3..tile.shown.len()).step_by(7) {
        for row in (2..60).step_by(3) {
            let Some(owner) = tile.owner(column, row) else { continue };
            // In the middle of a band: names, lines and edges lie over some pixels.
            let same = |row: usize| tile.owner(column, row).is_some_and(|other| other.alloc == owner.alloc);
            if !(same(row - 1) && same(row + 1)) || owner.awaiting {
                continue;
            }
            let at = pos2(plot.left() + column as f32 + 0.5, plot.bottom() - row as f32 - 0.5);
            looked += 1;
            let color = coloring.of(owner);
            let solid = row < tile.solid(column);
            let color = if solid { color } else { paint::paled(color, coloring.ground) };
            seen += usize::from(pixel(&image, at) == rgb(color));
        }
    }
    assert!(looked > 200, "{looked} pixels lie inside a band");
    assert!(seen * 10 > looked * 9, "{seen} of {looked} pixels have the color of their owner");
}

#[test]
fn both_themes_draw_all_of_the_window() {
    for dark in [true, false] {
        let mut harness = window(&[("oom", "")]);
        if !dark {
            harness.key_press_modifiers(egui::Modifiers::SHIFT, Key::T);
            settle(&mut harness);
        }
        let image = harness.render().unwrap();
        let panel = Palette::new(dark, Scheme::Standard).panel;
        assert_eq!(pixel(&image, pos2(3.0, 450.0)), panel, "the side bar");
        let colors: std::collections::HashSet<_> = image.pixels().map(|p| p.0).collect();
        assert!(colors.len() > 200, "{} colors", colors.len());
    }
}
