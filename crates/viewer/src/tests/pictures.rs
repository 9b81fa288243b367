//! What is on the screen, pixel by pixel, and the screenshots of the documentation.

use egui::{Color32, Key, pos2};
use egui_kittest::kittest::Queryable;

use super::soft::pixel;
use super::{click, key, plot, point, root, settle, window};
use crate::color::Coloring;
use crate::desk::Slot;
use crate::theme::Palette;
use crate::views::Tab;

#[test]
fn pixels_have_the_color_of_the_allocation_that_the_engine_says_owns_them() {
    let mut harness = window(&[("expandable", "")]);
    harness.remove_cursor();
    // Names are written into bands only when colors stand for stacks.
    harness.state_mut().settings.color = crate::color::ColorBy::Size;
    harness.state_mut().colors_version += 1;
    settle(&mut harness);
    let image = harness.render().unwrap();
    let app = harness.state();
    let answer = app.desk.look(Slot::Timeline).unwrap();
    let vramscope_engine::Response::Tile(tile) = &*answer.response else { panic!("a tile") };
    let (_, summary) = app.device().unwrap();
    let coloring =
        Coloring { by: app.settings.color, palette: Palette::new(true), events: summary.events, found: None };
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
            seen += usize::from(pixel(&image, at) == coloring.of(owner));
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
            harness.key_press_modifiers(egui::Modifiers::COMMAND, Key::L);
            settle(&mut harness);
        }
        let image = harness.render().unwrap();
        let panel = Palette::new(dark).panel;
        assert_eq!(pixel(&image, pos2(3.0, 450.0)), panel, "the side bar");
        let colors: std::collections::HashSet<_> = image.pixels().map(|p| p.0).collect();
        assert!(colors.len() > 200, "{} colors", colors.len());
    }
}

/// Writes `docs/screenshots` where `VRAMSCOPE_SCREENSHOTS` is set; otherwise checks that they are there.
#[test]
fn screenshots_of_every_view() {
    let folder = root().join("docs/screenshots");
    let write = std::env::var_os("VRAMSCOPE_SCREENSHOTS").is_some();
    let names = [
        "timeline",
        "segments",
        "state",
        "flame",
        "tree",
        "lifetimes",
        "tables",
        "insights",
        "compare",
        "settings",
        "light",
        "ranks",
        "beside",
        "panes",
        "npu",
        "start",
    ];
    if !write {
        for name in names {
            assert!(folder.join(format!("{name}.png")).exists(), "{name}.png: see docs/viewer.md");
        }
        return;
    }
    std::fs::create_dir_all(&folder).unwrap();
    let save = |harness: &mut egui_kittest::Harness<'static, crate::App>, name: &str| {
        let image = harness.render().unwrap();
        // Steps of sixteen are hardly seen between black and white, and pack better.
        let coarse = |channel: u8| if channel <= 0x20 { channel } else { channel & 0xf0 | channel >> 4 };
        let pack = |[r, g, b, _]: [u8; 4]| match r.min(g).min(b) >= 0xe8 {
            true => Color32::from_rgb(r, g, b),
            false => Color32::from_rgb(coarse(r), coarse(g), coarse(b)),
        };
        let pixels = image.pixels().map(|pixel| pack(pixel.0)).collect();
        let image = egui::ColorImage::new([image.width() as usize, image.height() as usize], pixels);
        std::fs::write(folder.join(format!("{name}.png")), crate::save::png(&image)).unwrap();
    };
    let mut harness = window(&[("oom", "")]);
    let at = point(&harness, 0.745, 0.33);
    click(&mut harness, at);
    harness.state_mut().view.x = (8200.0, 11_400.0);
    let tabs = [
        Tab::Segments,
        Tab::State,
        Tab::Flame,
        Tab::Tree,
        Tab::Lifetimes,
        Tab::Tables,
        Tab::Insights,
        Tab::Compare,
        Tab::Settings,
    ];
    for (tab, name) in tabs.into_iter().zip(&names[1..]) {
        harness.state_mut().settings.tab = tab;
        // A table wants the room.
        harness.state_mut().settings.details = tab != Tab::Tables;
        settle(&mut harness);
        save(&mut harness, name);
    }
    key(&mut harness, Key::F);
    settle(&mut harness);
    harness.state_mut().settings.tab = Tab::Flame;
    settle(&mut harness);
    save(&mut harness, "timeline");
    harness.key_press_modifiers(egui::Modifiers::COMMAND, Key::L);
    harness.state_mut().settings.tab = Tab::State;
    harness.remove_cursor();
    settle(&mut harness);
    save(&mut harness, "light");
    harness.key_press_modifiers(egui::Modifiers::COMMAND, Key::L);
    harness.state_mut().settings.side = Some(Tab::Lifetimes);
    harness.state_mut().settings.tab = Tab::Segments;
    harness.remove_cursor();
    settle(&mut harness);
    key(&mut harness, Key::Z);
    settle(&mut harness);
    save(&mut harness, "panes");
    let mut harness = super::open(super::Direct::on("inputs/ascend"));
    harness.state_mut().settings.tab = Tab::Lifetimes;
    settle(&mut harness);
    harness.get_by_label("operator").click();
    let at = point(&harness, 0.5, 0.846);
    click(&mut harness, at);
    save(&mut harness, "npu");
    let mut harness = window(&[
        ("expandable", "rank 0"),
        ("expandable_mixed", "rank 1"),
        ("oom", "rank 2"),
        ("amp_checkpoint_expandable", "rank 3"),
    ]);
    harness.state_mut().settings.tab = Tab::Segments;
    settle(&mut harness);
    save(&mut harness, "ranks");
    harness.state_mut().show_beside(Some(1));
    harness.state_mut().settings.tab = Tab::Insights;
    settle(&mut harness);
    save(&mut harness, "beside");
    let mut harness = super::open(super::Direct::default());
    save(&mut harness, "start");
}
