//! Colours of a page: variables for light and dark paper, and rules that put them in the place of
//! the fixed colours of drawings.

use crate::chart::palette::{self, FAINT, GRID, INK, PAPER, RULE, Shade, hex};
use std::fmt::Write;

/// Background of panels.
const PANEL: Shade = Shade::new("panel", 0x00F6_F7F9, 0x001C_2027);
/// Links and the focus.
const LINK: Shade = Shade::new("link", 0x0012_5FA8, 0x007D_BBF7);
/// A figure that the data carry as better.
const BETTER: Shade = Shade::new("better", 0x0000_6B4F, 0x0056_D6A8);
/// A figure that the data carry as worse.
const WORSE: Shade = Shade::new("worse", 0x00A8_2B1C, 0x00FF_9C8C);
/// A figure to be read with care.
const CARE: Shade = Shade::new("care", 0x007D_5200, 0x00F0_C060);
/// Background of warnings.
const CARE_BACK: Shade = Shade::new("care-back", 0x00FF_F8E6, 0x002A_2413);
/// Border of warnings.
const CARE_LINE: Shade = Shade::new("care-line", 0x00E0_C070, 0x0066_5520);

const SHADES: [Shade; 12] =
    [PAPER, INK, FAINT, GRID, RULE, PANEL, LINK, BETTER, WORSE, CARE, CARE_BACK, CARE_LINE];

/// Name of the variable with the colour of a target.
pub(super) fn variable(number: usize) -> &'static str {
    palette::target(number).variable
}

/// Returns the rules for a page with this many targets.
pub(super) fn rules(targets: usize) -> String {
    let shades: Vec<Shade> = SHADES.into_iter().chain((0..8).map(palette::target)).collect();
    let light = variables(&shades, |shade| shade.light);
    let dark = variables(&shades, |shade| shade.dark);
    let mut rules = format!(
        ":root{{color-scheme:light;{light}}}\n\
         :root[data-theme=dark]{{color-scheme:dark;{dark}}}\n\
         @media screen and (prefers-color-scheme:dark){{\
         :root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n\
         @media print{{:root,:root[data-theme=dark]{{color-scheme:light;{light}}}}}\n"
    );
    for shade in [PAPER, INK, FAINT, GRID, RULE] {
        rules.push_str(&replaced(&hex(shade.light), shade.variable));
    }
    // Single results have series that are no targets, and draw them in the first colours.
    for number in 0..targets.max(8) {
        let colour = super::drawn(number);
        rules.push_str(&replaced(&colour, variable(number)));
        let hidden = format!(".hide-{number}");
        // Writing to a string does not fail.
        let _ = writeln!(
            rules,
            "{hidden} [data-t=\"{number}\"],{hidden} svg [fill=\"{colour}\"],\
             {hidden} svg [stroke=\"{colour}\"]{{display:none}}"
        );
    }
    rules
}

fn variables(shades: &[Shade], colour: impl Fn(&Shade) -> [u8; 3]) -> String {
    shades.iter().map(|shade| format!("--{}:{};", shade.variable, hex(colour(shade)))).collect()
}

fn replaced(colour: &str, variable: &str) -> String {
    format!(
        "svg [fill=\"{colour}\"]{{fill:var(--{variable})}}\
         svg [stroke=\"{colour}\"]{{stroke:var(--{variable})}}\n"
    )
}
