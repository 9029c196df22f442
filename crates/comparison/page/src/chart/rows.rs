//! Rows over one horizontal axis, which bars and ratios have in common: a name and a value above a
//! mark, and the whisker of an interval.

use super::DrawError;
use super::canvas::{self, Area, LETTER};
use super::palette::{FAINT, GRID, INK, RULE, Shade};
use super::scale::Placed;
use plotters::chart::ChartContext;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{ChartBuilder, PathElement, SVGBackend, Text};
use plotters::style::Color;
use plotters::style::text_anchor::{HPos, VPos};

/// Height of a row, in units.
const ROW: f64 = 42.0;
/// Place of the name in a row, as a share of its height. A name is nearer to its own mark than to
/// the one above.
pub(super) const NAME: f64 = 0.27;
/// Place of the mark in a row, as a share of its height.
pub(super) const MARK: f64 = 0.64;
/// Height of the axis and its title, in units.
const AXIS: f64 = 42.0;
/// Space to the right of the axis, in units, for the last label.
const RIGHT: f64 = 26.0;

/// A chart of rows. The first row lies between the number of rows and one less.
pub(super) type RowsChart<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<Placed, RangedCoordf64>>;

/// Returns the height of a drawing with this number of rows, in units.
pub(super) fn height(rows: usize) -> u32 {
    (ROW * rows as f64 + AXIS) as u32
}

/// Draws the axis. `left` is the space to its left, in units.
pub(super) fn begin<'a, 'b>(
    area: &'a Area<'b>,
    x: &Placed,
    left: f64,
    rows: usize,
) -> Result<RowsChart<'a, 'b>, DrawError> {
    let mut chart = ChartBuilder::on(area)
        .margin_left(canvas::steps(left))
        .margin_right(canvas::steps(RIGHT))
        .x_label_area_size(canvas::steps(AXIS))
        .build_cartesian_2d(x.clone(), 0f64..rows as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .max_light_lines(0)
        .set_all_tick_mark_size(canvas::steps(canvas::TICK))
        .bold_line_style(GRID.rgb().stroke_width(canvas::STEPS))
        .axis_style(RULE.rgb().stroke_width(canvas::STEPS))
        .label_style(canvas::text(FAINT, HPos::Center, VPos::Top))
        .axis_desc_style(canvas::text(FAINT, HPos::Center, VPos::Top))
        .x_desc(x.title.clone())
        .draw()?;
    Ok(chart)
}

/// Returns the name and the value of a row whose upper end is at `top`.
pub(super) fn texts(
    x: &Placed,
    top: f64,
    (name, shade): (&str, Shade),
    value: String,
) -> [Text<'static, (f64, f64), String>; 2] {
    let left = canvas::text(shade, HPos::Left, VPos::Center);
    let right = canvas::text(INK, HPos::Right, VPos::Center);
    [
        Text::new(name.to_owned(), (x.low, top - NAME), left),
        Text::new(value, (x.high, top - NAME), right),
    ]
}

/// Returns the lines of an error bar: the interval and its two ends.
pub(super) fn whisker(
    x: &Placed,
    (low, high): (f64, f64),
    at: f64,
    shade: Shade,
) -> Vec<PathElement<(f64, f64)>> {
    // An interval that goes on beyond the axis ends with it, without a mark.
    let ends = [(x.place(low), x.low), (x.place(high), x.high)];
    let style = shade.rgb().stroke_width(canvas::steps(1.25) as u32);
    let half = LETTER / ROW / 3.0;
    let line = ends.map(|(place, rest)| (place.unwrap_or(rest), at)).to_vec();
    let marks = ends.into_iter().filter_map(|(place, _)| place);
    let marks = marks.map(|place| vec![(place, at - half), (place, at + half)]);
    std::iter::once(line).chain(marks).map(|line| PathElement::new(line, style)).collect()
}
