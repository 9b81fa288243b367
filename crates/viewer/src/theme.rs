//! Colors, type and space: the one place that decides how the window looks.

use std::sync::Arc;

use egui::epaint::text::{FontData, FontDefinitions, FontFamily};
use egui::{Color32, CornerRadius, FontId, Margin, Stroke, Style, TextStyle, Theme, Vec2, Visuals};
use vramscope_engine::color::{self, Ground, Scheme};
use vramscope_engine::{Group, LineId};

use crate::color::rgb;

/// The roles that colors have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Palette {
    pub(crate) dark: bool,
    /// The colors of lines and of kinds of memory.
    scheme: Scheme,
    /// Behind pictures.
    pub(crate) ground: Color32,
    /// Behind panels.
    pub(crate) panel: Color32,
    /// Behind what is raised: menus, fields.
    pub(crate) raised: Color32,
    /// Hairlines.
    pub(crate) line: Color32,
    pub(crate) text: Color32,
    pub(crate) dim: Color32,
    pub(crate) accent: Color32,
    pub(crate) select: Color32,
    pub(crate) danger: Color32,
    pub(crate) fine: Color32,
    /// Free memory that is held.
    pub(crate) hole: Color32,
}

const DARK: Palette = Palette {
    dark: true,
    scheme: Scheme::Standard,
    ground: rgb(Ground::DARK.ground),
    panel: Color32::from_rgb(0x15, 0x1a, 0x20),
    raised: Color32::from_rgb(0x1d, 0x23, 0x2b),
    line: Color32::from_rgb(0x26, 0x2d, 0x36),
    text: Color32::from_rgb(0xd5, 0xdb, 0xe3),
    dim: rgb(Ground::DARK.dim),
    accent: Color32::from_rgb(0x4c, 0xb5, 0xf5),
    select: Color32::from_rgb(0xff, 0xb4, 0x54),
    danger: Color32::from_rgb(0xff, 0x6b, 0x6b),
    fine: Color32::from_rgb(0x7c, 0xc7, 0x7f),
    hole: rgb(Ground::DARK.hole),
};

const LIGHT: Palette = Palette {
    dark: false,
    scheme: Scheme::Standard,
    ground: rgb(Ground::LIGHT.ground),
    panel: Color32::from_rgb(0xfb, 0xfb, 0xfa),
    raised: Color32::from_rgb(0xf1, 0xf1, 0xef),
    line: Color32::from_rgb(0xdd, 0xdd, 0xd9),
    text: Color32::from_rgb(0x22, 0x28, 0x30),
    dim: rgb(Ground::LIGHT.dim),
    accent: Color32::from_rgb(0x0b, 0x72, 0xb8),
    select: Color32::from_rgb(0xa6, 0x53, 0x00),
    danger: Color32::from_rgb(0xc6, 0x2f, 0x2f),
    fine: Color32::from_rgb(0x2e, 0x7d, 0x32),
    hole: rgb(Ground::LIGHT.hole),
};

/// What must not be told apart by red and green alone.
const SAFE_DARK: Palette =
    Palette { scheme: Scheme::Safe, select: Color32::from_rgb(0xff, 0xd0, 0x70), fine: DARK.accent, ..DARK };

const SAFE_LIGHT: Palette = Palette {
    scheme: Scheme::Safe,
    select: Color32::from_rgb(0x95, 0x60, 0x00),
    danger: Color32::from_rgb(0x8f, 0x10, 0x40),
    fine: LIGHT.accent,
    ..LIGHT
};

impl Palette {
    pub(crate) fn new(dark: bool, scheme: Scheme) -> Self {
        match (dark, scheme) {
            (true, Scheme::Standard) => DARK,
            (false, Scheme::Standard) => LIGHT,
            (true, Scheme::Safe) => SAFE_DARK,
            (false, Scheme::Safe) => SAFE_LIGHT,
        }
    }

    /// The color of a line of the program, by its number.
    pub(crate) fn of_line(&self, line: LineId, step: u32) -> Color32 {
        rgb(self.scheme.of_line(line, step))
    }

    /// The color of a group.
    pub(crate) fn of_group(&self, group: &Group) -> Color32 {
        rgb(self.scheme.of_group(group))
    }

    /// What pictures are drawn on.
    pub(crate) fn behind(&self) -> Ground {
        if self.dark { Ground::DARK } else { Ground::LIGHT }
    }

    pub(crate) fn hairline(&self) -> Stroke {
        Stroke::new(1.0, self.line)
    }

    /// Text for a color of a picture: of dark and light ink the one that is read better.
    pub(crate) fn on(color: Color32) -> Color32 {
        const INKS: [Color32; 2] = [Color32::from_rgb(0x06, 0x08, 0x0b), Color32::WHITE];
        let [dark, light] = INKS.map(|ink| contrast(ink, color));
        if dark >= light { INKS[0] } else { INKS[1] }
    }
}

/// The share of light that a color gives back, by WCAG 2.
fn luminance(color: Color32) -> f32 {
    let channel = |value: u8| {
        let share = f32::from(value) / 255.0;
        if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(color.r()) + 0.7152 * channel(color.g()) + 0.0722 * channel(color.b())
}

/// How well one color is read on another, by WCAG 2: from 1 to 21.
fn contrast(a: Color32, b: Color32) -> f32 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// Ticks and the smallest labels.
pub(crate) fn tick() -> FontId {
    FontId::new(11.0, FontFamily::Monospace)
}

/// Numbers, addresses, stacks, tables.
pub(crate) fn mono() -> FontId {
    FontId::new(12.0, FontFamily::Monospace)
}

/// Words in the body.
pub(crate) fn body() -> FontId {
    FontId::new(13.0, FontFamily::Proportional)
}

/// Small words: headings of groups, hints.
pub(crate) fn small() -> FontId {
    FontId::new(11.0, FontFamily::Proportional)
}

/// Words on bars.
pub(crate) fn label() -> FontId {
    FontId::new(12.0, FontFamily::Proportional)
}

/// The one number of a panel.
pub(crate) fn big() -> FontId {
    FontId::new(17.0, strong_family())
}

/// Words that weigh more.
pub(crate) fn strong() -> FontId {
    FontId::new(13.0, strong_family())
}

fn strong_family() -> FontFamily {
    FontFamily::Name("strong".into())
}

/// Gives a context our fonts and both themes.
pub(crate) fn install(ctx: &egui::Context) {
    ctx.set_fonts(fonts());
    paint(ctx, Scheme::Standard);
}

/// Gives both themes the colors of a scheme.
pub(crate) fn paint(ctx: &egui::Context, scheme: Scheme) {
    for theme in [Theme::Dark, Theme::Light] {
        let palette = Palette::new(theme == Theme::Dark, scheme);
        ctx.style_mut_of(theme, |style| restyle(style, &palette));
    }
}

/// Noto Sans for words; egui's own fonts for code and for signs that it lacks.
fn fonts() -> FontDefinitions {
    let mut fonts = FontDefinitions::default();
    let mut fallback = fonts.families.get(&FontFamily::Monospace).cloned().unwrap_or_default();
    fallback.extend(fonts.families.get(&FontFamily::Proportional).into_iter().flatten().cloned());
    let faces = [
        (FontFamily::Proportional, "sans", notosans::REGULAR_TTF),
        (strong_family(), "bold", notosans::BOLD_TTF),
    ];
    for (family, name, bytes) in faces {
        fonts.font_data.insert(name.into(), Arc::new(FontData::from_static(bytes)));
        let names = std::iter::once(name.to_owned()).chain(fallback.iter().cloned());
        fonts.families.insert(family, names.collect());
    }
    fonts
}

fn restyle(style: &mut Style, palette: &Palette) {
    style.text_styles = [
        (TextStyle::Small, small()),
        (TextStyle::Body, body()),
        (TextStyle::Button, body()),
        (TextStyle::Monospace, mono()),
        (TextStyle::Heading, big()),
    ]
    .into();
    let spacing = &mut style.spacing;
    spacing.item_spacing = Vec2::new(8.0, 4.0);
    spacing.button_padding = Vec2::new(8.0, 3.0);
    spacing.interact_size = Vec2::new(24.0, 22.0);
    spacing.menu_margin = Margin::same(6);
    spacing.window_margin = Margin::same(12);
    spacing.scroll.bar_width = 6.0;
    style.visuals = visuals(palette);
    style.animation_time = 0.08;
}

fn visuals(palette: &Palette) -> Visuals {
    let mut visuals = if palette.dark { Visuals::dark() } else { Visuals::light() };
    let corners = CornerRadius::same(3);
    visuals.panel_fill = palette.panel;
    visuals.window_fill = palette.panel;
    visuals.window_stroke = palette.hairline();
    visuals.window_corner_radius = CornerRadius::same(4);
    visuals.menu_corner_radius = CornerRadius::same(4);
    visuals.extreme_bg_color = palette.ground;
    visuals.faint_bg_color = palette.raised;
    visuals.hyperlink_color = palette.accent;
    visuals.warn_fg_color = palette.select;
    visuals.error_fg_color = palette.danger;
    visuals.weak_text_color = Some(palette.dim);
    visuals.selection.bg_fill = palette.accent.gamma_multiply(if palette.dark { 0.28 } else { 0.20 });
    visuals.selection.stroke = Stroke::new(1.0, palette.text);
    let widgets = &mut visuals.widgets;
    for widget in [
        &mut widgets.noninteractive,
        &mut widgets.inactive,
        &mut widgets.hovered,
        &mut widgets.active,
        &mut widgets.open,
    ] {
        widget.corner_radius = corners;
        widget.expansion = 0.0;
        widget.fg_stroke = Stroke::new(1.0, palette.text);
        widget.bg_stroke = Stroke::NONE;
    }
    widgets.noninteractive.bg_stroke = palette.hairline();
    widgets.inactive.weak_bg_fill = palette.raised;
    widgets.inactive.bg_fill = palette.raised;
    let lit = blend(palette.raised, palette.text, 0.10);
    for widget in [&mut widgets.hovered, &mut widgets.active, &mut widgets.open] {
        widget.weak_bg_fill = lit;
        widget.bg_fill = lit;
    }
    visuals
}

/// A color between two.
pub(crate) fn blend(a: Color32, b: Color32, share: f32) -> Color32 {
    let plain = |color: Color32| [color.r(), color.g(), color.b()];
    rgb(color::blend(plain(a), plain(b), share))
}

/// How many letters of a monospaced font fit into a width.
pub(crate) fn columns(painter: &egui::Painter, font: &FontId, width: f32) -> usize {
    let letter = painter.layout_no_wrap("0".into(), font.clone(), Color32::PLACEHOLDER).size().x;
    (width / letter.max(1.0)).max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WCAG's level AA is 4.5 for text, AAA is 7. All colors here are also those of small texts.
    #[test]
    fn texts_are_readable_on_everything_they_are_written_on() {
        let mut low = Vec::new();
        for (dark, scheme) in [true, false]
            .into_iter()
            .flat_map(|dark| [Scheme::Standard, Scheme::Safe].map(|scheme| (dark, scheme)))
        {
            let Palette { ground, panel, raised, text, dim, accent, select, danger, fine, .. } =
                Palette::new(dark, scheme);
            let inks = [
                ("text", text, 7.0),
                ("dim", dim, 4.5),
                ("accent", accent, 4.5),
                ("select", select, 4.5),
                ("danger", danger, 4.5),
                ("fine", fine, 4.5),
            ];
            for (name, ink, least) in inks {
                for (behind, paper) in [("ground", ground), ("panel", panel), ("raised", raised)] {
                    let found = contrast(ink, paper);
                    if found < least {
                        low.push(format!("{name} on {behind}, dark {dark}, {scheme:?}: {found:.2}"));
                    }
                }
            }
        }
        assert!(low.is_empty(), "{}", low.join("\n"));
    }

    /// Names are written on bands of every color.
    #[test]
    fn names_are_readable_on_every_color_of_a_picture() {
        for scheme in [Scheme::Standard, Scheme::Safe] {
            let kinds = (0..9).map(|kind| scheme.of_kind(kind, 0));
            let lines = (1..500).map(|line| scheme.of_line(LineId(line), line));
            for color in kinds.chain(lines).map(rgb) {
                let found = contrast(Palette::on(color), color);
                assert!(found >= 4.5, "{found:.2} on {color:?}");
            }
        }
    }
}
