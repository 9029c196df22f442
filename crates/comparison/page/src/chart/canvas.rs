//! The canvas of a chart: sizes, text styles, and the finished drawing.

use super::DrawError;
use super::palette::{PAPER, Shade, hex};
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, IntoDrawingArea, IntoFont, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, TextStyle};

/// Steps of the drawing library for each unit of a drawing. The library places everything at whole
/// steps, and whole units would make lines of measurements visibly uneven.
pub(super) const STEPS: u32 = 2;
/// Width of all drawings, in units. A page shows a drawing at this width or up to a third wider on
/// a screen, and at three quarters of it on a phone; letters stay readable in each case.
pub(super) const WIDTH: u32 = 470;
/// Size of letters, in units.
pub(super) const LETTER: f64 = 12.5;
/// Length of the line from an axis to a label, in units.
pub(super) const TICK: f64 = 5.0;
/// Width of a letter as a share of its size, for layouts made before fonts are known. It is that of
/// the digits of wide fonts.
const LETTER_WIDTH: f64 = 0.64;
/// The drawing library divides sizes by this number when it writes SVG.
const LIBRARY_FONT_FACTOR: f64 = 1.24;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A finished drawing.
#[derive(Debug, Clone)]
pub(crate) struct Drawing {
    /// Width and height, in units.
    pub(crate) size: (u32, u32),
    /// SVG elements, whose coordinates are in steps.
    pub(crate) elements: String,
}

impl Drawing {
    /// Returns the visible part of the coordinates, for the attribute `viewBox`.
    pub(crate) fn view_box(&self) -> String {
        format!("0 0 {} {}", self.size.0 * STEPS, self.size.1 * STEPS)
    }

    /// Returns the drawing as an SVG file with the colours of light paper.
    pub(crate) fn to_file(&self) -> String {
        let (width, height) = self.size;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"{}\" font-family=\"sans-serif\" font-size=\"{}\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"{}\"/>\n{}</svg>\n",
            self.view_box(),
            font_size(),
            hex(PAPER.light),
            self.elements
        )
    }
}

/// Draws on a canvas of this height, in units.
pub(super) fn paint(
    height: u32,
    draw: impl FnOnce(&Area<'_>) -> Result<(), DrawError>,
) -> Result<Drawing, DrawError> {
    let mut text = String::new();
    {
        let backend = SVGBackend::with_string(&mut text, (WIDTH * STEPS, height * STEPS));
        let area = backend.into_drawing_area();
        draw(&area)?;
        area.present()?;
    }
    let inside = text.split_once(">\n").map_or("", |(_, inside)| inside);
    let elements = inside.trim_end().strip_suffix("</svg>").unwrap_or(inside);
    Ok(Drawing { size: (WIDTH, height), elements: compact(elements) })
}

/// Leaves out attributes that state a default, which are a quarter of the text.
fn compact(elements: &str) -> String {
    elements
        .replace(" opacity=\"1\"", "")
        .replace(" stroke=\"none\"", "")
        .replace(" font-family=\"sans-serif\"", "")
        .replace(" text-anchor=\"start\"", "")
        .replace(&format!(" font-size=\"{}\"", font_size()), "")
        .replace(" \"/>", "\"/>")
}

/// Returns the size of letters in steps, which is that of every text of a drawing.
pub(crate) fn font_size() -> String {
    (LETTER * f64::from(STEPS)).to_string()
}

/// Converts units to steps.
pub(super) fn steps(units: f64) -> i32 {
    (units * f64::from(STEPS)).round() as i32
}

/// Returns the width of a text in units, about.
pub(super) fn text_width(letters: usize) -> f64 {
    letters as f64 * LETTER * LETTER_WIDTH
}

/// Returns a style for text of this colour.
pub(super) fn text(shade: Shade, across: HPos, down: VPos) -> TextStyle<'static> {
    let size = LETTER * f64::from(STEPS) * LIBRARY_FONT_FACTOR;
    let style = TextStyle::from(("sans-serif", size).into_font());
    TextStyle { color: shade.rgb().to_backend_color(), pos: Pos::new(across, down), ..style }
}
