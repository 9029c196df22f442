//! Horizontal bars. The name and the value stand above each bar, so that long names need no margin
//! and the bars have the whole width of a phone.

use super::canvas::{self, Area, Drawing};
use super::palette::{self, INK};
use super::rows::{self, MARK};
use super::scale::{Placed, Reach};
use super::{Bar, Bars, DrawError};
use plotters::prelude::Rectangle;
use plotters::style::Color;

/// Space to the left of the axis, in units.
const LEFT: f64 = 8.0;
/// Height of a bar, as a share of the row.
const BAR: f64 = 0.3;
/// Opacity of the parts of a bar from the left.
const PART_OPACITY: [f64; 3] = [1.0, 0.5, 0.25];

/// Draws bars.
pub(super) fn draw(bars: &Bars) -> Result<Drawing, DrawError> {
    let lengths = || bars.bars.iter().map(|bar| bar.parts.iter().sum());
    let reach = Reach::of(lengths());
    let intervals = bars.bars.iter().filter_map(|bar| bar.interval);
    let ends = intervals.map(|interval| reach.cut(interval).1);
    let x = Placed::new(&bars.axis, lengths().chain(ends).chain([0.0]));
    canvas::paint(rows::height(bars.bars.len()), |area| draw_on(area, bars, &x, reach))
}

fn draw_on(area: &Area<'_>, bars: &Bars, x: &Placed, reach: Reach) -> Result<(), DrawError> {
    let count = bars.bars.len() as f64;
    let mut chart = rows::begin(area, x, LEFT, bars.bars.len())?;
    for (number, bar) in bars.bars.iter().enumerate() {
        let top = count - number as f64;
        let name = (bar.label.as_str(), palette::target(bar.colour));
        chart.draw_series(rows::texts(x, top, name, bar.value.clone()))?;
        chart.draw_series(parts(bar, x, top))?;
        if let Some(interval) = bar.interval {
            chart.draw_series(rows::whisker(x, reach.cut(interval), top - MARK, INK))?;
        }
    }
    Ok(())
}

fn parts(bar: &Bar, x: &Placed, top: f64) -> Vec<Rectangle<(f64, f64)>> {
    let colour = palette::target(bar.colour).rgb();
    let mut from = 0.0;
    let mut rectangles = Vec::new();
    for (number, length) in bar.parts.iter().enumerate() {
        let opacity = PART_OPACITY.get(number).copied().unwrap_or(0.25);
        if let (Some(start), Some(end)) = (x.place(from), x.place(from + length)) {
            let corners = [(start, top - MARK + BAR / 2.0), (end, top - MARK - BAR / 2.0)];
            rectangles.push(Rectangle::new(corners, colour.mix(opacity).filled()));
        }
        from += length;
    }
    rectangles
}
