//! Not a test: writes the pictures of `docs/screenshots`, when `cargo xtask screenshots` asks for it.

use std::path::Path;
use std::process::Command;

use egui::{Color32, Key};
use egui_kittest::kittest::Queryable;

use super::{click, key, point, root, settle, window};
use crate::views::Tab;

#[cfg_attr(feature = "screenshots", test)]
#[cfg_attr(not(feature = "screenshots"), allow(dead_code, reason = "compiled and linted with the tests"))]
fn screenshots_of_every_view() {
    let folder = root().join("docs/screenshots");
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
        "whatif",
        "events",
        "breakdown",
        "light",
        "isolated",
        "ranks",
        "beside",
        "panes",
        "npu",
        "start",
    ];
    std::fs::create_dir_all(&folder).unwrap();
    let save =
        |harness: &mut egui_kittest::Harness<'static, crate::App>, name: &str| save(&folder, harness, name);
    let mut harness = window(&[("oom", "")]);
    let at = point(&harness, 0.745, 0.33);
    click(&mut harness, at);
    harness.state_mut().camera.view.x = (8200.0, 11_400.0);
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
        Tab::WhatIf,
        Tab::Events,
        Tab::Breakdown,
    ];
    for (tab, name) in tabs.into_iter().zip(&names[1..]) {
        harness.state_mut().settings.tab = tab;
        // A table wants the room.
        harness.state_mut().settings.details = tab != Tab::Tables;
        settle(&mut harness);
        if tab == Tab::WhatIf {
            // One order of addresses comes with each frame.
            harness.run_steps(60);
        }
        save(&mut harness, name);
    }
    key(&mut harness, Key::F);
    settle(&mut harness);
    harness.state_mut().settings.tab = Tab::Flame;
    settle(&mut harness);
    save(&mut harness, "timeline");
    harness.key_press_modifiers(egui::Modifiers::SHIFT, Key::T);
    harness.state_mut().settings.tab = Tab::State;
    harness.remove_cursor();
    settle(&mut harness);
    save(&mut harness, "light");
    harness.key_press_modifiers(egui::Modifiers::SHIFT, Key::T);
    harness.state_mut().isolate(vramscope_engine::Group::Category(3), "activations");
    harness.state_mut().settings.tab = Tab::Insights;
    settle(&mut harness);
    save(&mut harness, "isolated");
    harness.state_mut().show_all();
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
    before_and_after(&folder);
    sizes(&folder);
}

/// Writes the window as a picture.
fn save(folder: &Path, harness: &mut egui_kittest::Harness<'static, crate::App>, name: &str) {
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
}

/// The first screen at the sizes of windows, the last of them with two pixels to a point. `docs/screenshots/before` has
/// those of the first version, drawn by the same lines there.
fn sizes(folder: &Path) {
    for (width, height, scale) in [(900, 600, 1), (1400, 900, 1), (1400, 900, 2)] {
        let mut harness = window(&[("oom", "")]);
        // The size counts in pixels, and in a frame of its own: a change of the scale keeps the pixels of the frame before.
        harness.set_size(egui::vec2((width * scale) as f32, (height * scale) as f32));
        harness.step();
        harness.set_pixels_per_point(scale as f32);
        settle(&mut harness);
        save(folder, &mut harness, &format!("window-{}x{}", width * scale, height * scale));
    }
}

/// The first commit with pictures of every view.
const FIRST: &str = "4e5b057";
/// The views whose first look stands beside that of now.
const COMPARED: [&str; 6] = ["timeline", "state", "flame", "lifetimes", "insights", "ranks"];

/// One picture: on the left how views looked in the first version, on the right how they look now.
fn before_and_after(folder: &Path) {
    const GAP: usize = 8;
    let mut rows = Vec::new();
    for name in COMPARED {
        let file = format!("{name}.png");
        let then = Command::new("git")
            .current_dir(root())
            .args(["show", &format!("{FIRST}:docs/screenshots/{file}")])
            .output()
            .unwrap();
        assert!(then.status.success(), "{}", String::from_utf8_lossy(&then.stderr));
        rows.push([halved(&then.stdout), halved(&std::fs::read(folder.join(file)).unwrap())]);
    }
    let [width, height] = rows[0][0].0;
    let size = [width * 2 + GAP, (height + GAP) * rows.len() - GAP];
    let mut pixels = vec![[0x80; 3]; size[0] * size[1]];
    for (row, pair) in rows.iter().enumerate() {
        for (column, (_, picture)) in pair.iter().enumerate() {
            for (y, line) in picture.chunks_exact(width).enumerate() {
                let start = (row * (height + GAP) + y) * size[0] + column * (width + GAP);
                pixels[start..start + width].copy_from_slice(line);
            }
        }
    }
    let png = vramscope_engine::paint::png(size.map(|side| side as u32), &pixels);
    std::fs::write(folder.join("before-after.png"), png).unwrap();
}

/// A picture at half its width and height.
fn halved(png: &[u8]) -> ([usize; 2], Vec<[u8; 3]>) {
    let whole = image::load_from_memory(png).unwrap().into_rgb8();
    let [width, height] = [whole.width(), whole.height()].map(|side| side as usize / 2);
    let mean = |x: usize, y: usize| {
        [0, 1, 2].map(|channel| {
            let at =
                |dx: usize, dy: usize| u32::from(whole[((2 * x + dx) as u32, (2 * y + dy) as u32)][channel]);
            // Steps of eight are hardly seen, and pack better.
            ((at(0, 0) + at(1, 0) + at(0, 1) + at(1, 1)) / 4) as u8 & 0xf8
        })
    };
    ([width, height], (0..width * height).map(|n| mean(n % width, n / width)).collect())
}
