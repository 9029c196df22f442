//! Horizontal bars. The name and the value stand above each bar, so that long names need no margin
//! and the bars have the whole width of a phone.

use super::canvas::{self, Area, Drawing, LETTER};
use super::palette::{self, FAINT, GRID, INK, RULE};
use super::scale::Placed;
use super::{Bar, Bars, DrawError};
use plotters::prelude::{ChartBuilder, PathElement, Rectangle, Text};
use plotters::style::Color;
use plotters::style::text_anchor::{HPos, VPos};

/// Height of a bar with its name, in units.
pub(super) const ROW: f64 = 42.0;
/// Places of the name and of the bar in a row, as shares of its height. A name is nearer to its own
/// bar than to the one above.
pub(super) const NAME: f64 = 0.27;
pub(super) const MARK: f64 = 0.64;
/// Height of a bar, as a share of the row.
const BAR: f64 = 0.3;
/// Height of the axis and its title, in units.
pub(super) const AXIS: f64 = 42.0;
/// Opacity of the parts of a bar from the left.
const PART_OPACITY: [f64; 3] = [1.0, 0.5, 0.25];

/// Draws bars.
pub(super) fn draw(bars: &Bars) -> Result<Drawing, DrawError> {
    let ends = bars.bars.iter().flat_map(|bar| {
        let length: f64 = bar.parts.iter().sum();
        [Some(length), bar.interval.map(|(_, high)| high)].into_iter().flatten()
    });
    let x = Placed::new(&bars.axis, ends.chain([0.0]));
    let height = ROW * bars.bars.len() as f64 + AXIS;
    canvas::paint(height as u32, |area| draw_on(area, bars, &x))
}

fn draw_on(area: &Area<'_>, bars: &Bars, x: &Placed) -> Result<(), DrawError> {
    let count = bars.bars.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin_left(canvas::steps(8.0))
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
    for (number, bar) in bars.bars.iter().enumerate() {
        let top = count - number as f64;
        let colour = palette::target(bar.colour);
        let (left, right) = (
            canvas::text(colour, HPos::Left, VPos::Center),
            canvas::text(INK, HPos::Right, VPos::Center),
        );
        let names = [
            Text::new(bar.label.clone(), (x.low, top - NAME), left),
            Text::new(bar.value.clone(), (x.high, top - NAME), right),
        ];
        chart.draw_series(names)?;
        chart.draw_series(parts(bar, x, top))?;
        if let Some(interval) = bar.interval {
            chart.draw_series(whisker(x, interval, top - MARK, INK))?;
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

/// Returns the lines of an error bar: the interval and its two ends.
pub(super) fn whisker(
    x: &Placed,
    (low, high): (f64, f64),
    at: f64,
    shade: palette::Shade,
) -> Vec<PathElement<(f64, f64)>> {
    // An interval that goes on beyond the axis ends with it: a ratio's can reach below zero.
    let (low, high) = (x.place(low).unwrap_or(x.low), x.place(high).unwrap_or(x.high));
    let style = shade.rgb().stroke_width(canvas::steps(1.25) as u32);
    let end = LETTER / ROW / 3.0;
    [
        vec![(low, at), (high, at)],
        vec![(low, at - end), (low, at + end)],
        vec![(high, at - end), (high, at + end)],
    ]
    .into_iter()
    .map(|line| PathElement::new(line, style))
    .collect()
}
