//! Ratios to a baseline: a dot and an interval for each, on a logarithmic axis with a line at 1.

use super::canvas::{self, Area, Drawing};
use super::palette::{self, RULE};
use super::rows::{self, MARK, NAME};
use super::scale::Placed;
use super::{Axis, AxisKind, DrawError, Ratio, Ratios};
use crate::quantity::{Unit, ratio_range, significant};
use plotters::prelude::{Circle, PathElement};
use plotters::style::{Color, ShapeStyle};

/// Space to the left of the axis, in units: half of the label of its first mark.
const LEFT: f64 = 24.0;
/// Space between the text of a row and the line at 1, as a share of the row.
const REST: f64 = 0.16;
/// Radius of a dot, in units.
const DOT: f64 = 5.0;

/// The interval of an unknown ratio: it goes on beyond both ends of the axis.
const UNBOUNDED: (f64, f64) = (0.0, f64::INFINITY);

/// Draws ratios.
pub(super) fn draw(ratios: &Ratios) -> Result<Drawing, DrawError> {
    let axis =
        Axis::new(format!("ratio to {}", ratios.baseline), Unit::Number, AxisKind::Logarithmic);
    let values = ratios.rows.iter().map(|row| row.ratio);
    let x = Placed::new(&axis, values.chain([ratios.reach.0, ratios.reach.1, 0.95, 1.05]));
    canvas::paint(rows::height(ratios.rows.len()), |area| draw_on(area, ratios, &x))
}

fn draw_on(area: &Area<'_>, ratios: &Ratios, x: &Placed) -> Result<(), DrawError> {
    let count = ratios.rows.len() as f64;
    let mut chart = rows::begin(area, x, LEFT, ratios.rows.len())?;
    let one = x.place(1.0).unwrap_or(0.0);
    let line = RULE.rgb().stroke_width(canvas::steps(1.5) as u32);
    for (number, row) in ratios.rows.iter().enumerate() {
        let top = count - number as f64;
        let colour = palette::target(row.colour);
        chart.draw_series(rows::texts(x, top, (&row.label, colour), value_of(row)))?;
        // The line at 1 leaves out the text, which it would cross.
        let part = vec![(one, top - 1.0), (one, top - NAME - REST)];
        chart.draw_series([PathElement::new(part, line)])?;
        let interval = if row.is_unbounded { Some(UNBOUNDED) } else { row.interval };
        let interval = interval.map(|ends| open_beyond(x, ends));
        if let Some(interval) = interval {
            chart.draw_series(rows::whisker(x, interval, top - MARK, colour))?;
        }
        if let Some(place) = x.place(row.ratio) {
            chart.draw_series(dot(row, (place, top - MARK)))?;
        }
    }
    Ok(())
}

/// Opens the ends of an interval that lie beyond the axis.
fn open_beyond(x: &Placed, (low, high): (f64, f64)) -> (f64, f64) {
    let low = if low.log10() < x.low { UNBOUNDED.0 } else { low };
    let high = if high.log10() > x.high { UNBOUNDED.1 } else { high };
    (low, high)
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
        Some(interval) => format!("{} ({})", significant(row.ratio), ratio_range(interval)),
        None if row.is_unbounded => format!("{} (unbounded)", significant(row.ratio)),
        None => significant(row.ratio),
    }
}
