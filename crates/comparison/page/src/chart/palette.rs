//! The colours of drawings. Each colour has one meaning, so that a style sheet can replace it.

use plotters::style::RGBColor;

/// A colour on light and on dark paper.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shade {
    /// Name of the variable in a style sheet.
    pub(crate) variable: &'static str,
    /// Colour on light paper, and in files.
    pub(crate) light: [u8; 3],
    /// Colour on dark paper.
    pub(crate) dark: [u8; 3],
}

impl Shade {
    pub(crate) const fn new(variable: &'static str, light: u32, dark: u32) -> Self {
        Self { variable, light: bytes(light), dark: bytes(dark) }
    }

    /// Returns the colour for the drawing library.
    pub(crate) fn rgb(self) -> RGBColor {
        let [red, green, blue] = self.light;
        RGBColor(red, green, blue)
    }
}

const fn bytes(colour: u32) -> [u8; 3] {
    let [_, red, green, blue] = colour.to_be_bytes();
    [red, green, blue]
}

/// Writes a colour as drawings and style sheets do.
pub(crate) fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// Background of pages and pictures.
pub(crate) const PAPER: Shade = Shade::new("paper", 0x00FF_FFFF, 0x0014_171C);
/// Text.
pub(crate) const INK: Shade = Shade::new("ink", 0x001A_1D21, 0x00E9_ECF1);
/// Less prominent text, such as labels of axes.
pub(crate) const FAINT: Shade = Shade::new("faint", 0x0056_5D66, 0x00A7_AFBA);
/// Lines of the grid.
pub(crate) const GRID: Shade = Shade::new("grid", 0x00E4_E7EB, 0x002C_323A);
/// Lines of axes and of the baseline.
pub(crate) const RULE: Shade = Shade::new("rule", 0x0083_8A94, 0x0078_818D);

/// Colours of targets. Every one has a contrast of at least 4.5 to 1 with both papers, which text
/// needs (WCAG 2.2, 1.4.3). Neighbours differ in hue and lightness, for readers who see few hues.
const TARGETS: [Shade; 8] = [
    Shade::new("t0", 0x0012_5FA8, 0x006F_B4F5),
    Shade::new("t1", 0x00B0_4A00, 0x00FF_A366),
    Shade::new("t2", 0x0000_7360, 0x004C_D3B0),
    Shade::new("t3", 0x009A_2F8F, 0x00E2_9ADB),
    Shade::new("t4", 0x007A_5C00, 0x00E3_C250),
    Shade::new("t5", 0x00B8_1F45, 0x00FF_8BA3),
    Shade::new("t6", 0x004B_4FC4, 0x00A9_ADFF),
    Shade::new("t7", 0x0047_6A1B, 0x00A5_D36B),
];

/// Returns the colour of the target of this number. Targets beyond the palette repeat its colours,
/// each with its last bit changed, so that a style sheet can still tell them apart.
pub(crate) fn target(number: usize) -> Shade {
    let mut shade = TARGETS.get(number % TARGETS.len()).copied().unwrap_or(INK);
    let round = u8::try_from(number / TARGETS.len()).unwrap_or(u8::MAX);
    let [_, _, blue] = &mut shade.light;
    *blue = blue.wrapping_add(round);
    shade
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance by WCAG 2.2.
    fn luminance(colour: [u8; 3]) -> f64 {
        let [red, green, blue] = colour.map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn text_and_targets_stand_out_from_both_papers() {
        let targets = (0..20).map(target);
        for shade in targets.chain([INK, FAINT]) {
            assert!(contrast(shade.light, PAPER.light) >= 4.5, "{shade:?}");
            assert!(contrast(shade.dark, PAPER.dark) >= 4.5, "{shade:?}");
        }
        // Lines that carry meaning need 3 to 1 (WCAG 2.2, 1.4.11).
        assert!(contrast(RULE.light, PAPER.light) >= 3.0);
        assert!(contrast(RULE.dark, PAPER.dark) >= 3.0);
    }

    #[test]
    fn no_two_targets_share_a_colour_in_a_drawing() {
        let colours: std::collections::BTreeSet<_> = (0..64).map(|n| target(n).light).collect();
        assert_eq!(colours.len(), 64);
    }
}
