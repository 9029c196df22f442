//! Ratios to a baseline: a dot and an interval for each, on a logarithmic axis with a line at 1.

use super::bars::{AXIS, MARK, NAME, ROW, whisker};
use super::canvas::{self, Area, Drawing};
use super::palette::{self, FAINT, GRID, INK, RULE};
use super::scale::Placed;
use super::{Axis, AxisKind, DrawError, Ratio, Ratios};
use crate::quantity::{Unit, significant};
use plotters::prelude::{ChartBuilder, Circle, PathElement, Text};
use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::{Color, ShapeStyle};

/// Space between the text of a row and the line at 1, as a share of the row.
const REST: f64 = 0.16;
/// Radius of a dot, in units.
const DOT: f64 = 5.0;

/// Draws ratios.
pub(super) fn draw(ratios: &Ratios) -> Result<Drawing, DrawError> {
    let axis =
        Axis::new(format!("ratio to {}", ratios.baseline), Unit::Number, AxisKind::Logarithmic);
    let values = ratios.rows.iter().flat_map(|row| {
        let (low, high) = row.interval.unwrap_or((row.ratio, row.ratio));
        [row.ratio, low, high]
    });
    let x = Placed::new(&axis, values.chain([ratios.reach.0, ratios.reach.1, 0.95, 1.05]));
    let height = ROW * ratios.rows.len() as f64 + AXIS;
    canvas::paint(height as u32, |area| draw_on(area, ratios, &x))
}

fn draw_on(area: &Area<'_>, ratios: &Ratios, x: &Placed) -> Result<(), DrawError> {
    let count = ratios.rows.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin_left(canvas::steps(12.0))
        .margin_right(canvas::steps(26.0))
        .x_label_area_size(canvas::steps(AXIS))
        .build_cartesian_2d(x.clone(), 0f64..count)?;
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
    let one = x.place(1.0).unwrap_or(0.0);
    let line = RULE.rgb().stroke_width(canvas::steps(1.5) as u32);
    for (number, row) in ratios.rows.iter().enumerate() {
        let top = count - number as f64;
        let colour = palette::target(row.colour);
        let (left, right) = (
            canvas::text(colour, HPos::Left, VPos::Center),
            canvas::text(INK, HPos::Right, VPos::Center),
        );
        chart.draw_series([
            Text::new(row.label.clone(), (x.low, top - NAME), left),
            Text::new(value_of(row), (x.high, top - NAME), right),
        ])?;
        // The line at 1 leaves out the text, which it would cross.
        let part = vec![(one, top - 1.0), (one, top - NAME - REST)];
        chart.draw_series([PathElement::new(part, line)])?;
        if let Some(interval) = row.interval {
            chart.draw_series(whisker(x, interval, top - MARK, colour))?;
        }
        if let Some(place) = x.place(row.ratio) {
            chart.draw_series(dot(row, (place, top - MARK)))?;
        }
    }
    Ok(())
}

fn dot(row: &Ratio, at: (f64, f64)) -> Vec<Circle<(f64, f64), i32>> {
    let colour = palette::target(row.colour).rgb();
    let ring = ShapeStyle { color: colour.to_rgba(), filled: false, stroke_width: 3 };
    let inside = if row.is_significant { colour } else { palette::PAPER.rgb() };
    vec![
        Circle::new(at, canvas::steps(DOT), inside.filled()),
        Circle::new(at, canvas::steps(DOT), ring),
    ]
}

fn value_of(row: &Ratio) -> String {
    match row.interval {
        Some((low, high)) => {
            format!("{} ({} to {})", significant(row.ratio), significant(low), significant(high))
        }
        None => significant(row.ratio),
    }
}
