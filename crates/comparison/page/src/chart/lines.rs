//! Lines over an axis of numbers: latency by percentile, quantities over time, sets of workloads.

use super::canvas::{self, Area, Drawing, LETTER, WIDTH};
use super::palette::{self, FAINT, GRID, RULE};
use super::scale::{Placed, Reach};
use super::{DrawError, Line, Lines};
use plotters::chart::ChartContext;
use plotters::coord::cartesian::Cartesian2d;
use plotters::prelude::{ChartBuilder, Circle, PathElement, Rectangle, SVGBackend, Text};
use plotters::style::Color;
use plotters::style::text_anchor::{HPos, VPos};

/// Height of the part with the lines and the horizontal axis, in units.
const PLOT: f64 = 262.0;
/// Height of a row of text above the lines, in units.
const TEXT_ROW: f64 = 20.0;
/// Space to the right of the axis, in units: half of the label of its last mark, such as
/// "99.9999 %".
const RIGHT: f64 = 37.0;
/// Width of the sample of a colour in the legend, in units.
const SAMPLE: f64 = 16.0;
/// Opacity of one of several lines of a kind.
const THIN_OPACITY: f64 = 0.3;

type Context<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Placed, Placed>>;

/// An entry of the legend: its place, its colour, its text.
struct Entry {
    at: (f64, f64),
    colour: usize,
    label: String,
}

/// Draws lines.
pub(super) fn draw(lines: &Lines) -> Result<Drawing, DrawError> {
    let points = || lines.lines.iter().flat_map(|line| &line.points);
    let intervals = || lines.lines.iter().flat_map(|line| &line.intervals);
    let x = Placed::new(&lines.x, points().map(|point| point.0));
    let reach = Reach::of(points().map(|point| point.1));
    let ends = intervals().flat_map(|interval| <[f64; 2]>::from(reach.cut(*interval)));
    let y = Placed::new(&lines.y, points().map(|point| point.1).chain(ends));
    let (legend, rows) = legend(&lines.lines);
    let top = TEXT_ROW * (rows as f64 + 1.0) + 8.0;
    canvas::paint((top + PLOT) as u32, |area| {
        let title = canvas::text(FAINT, HPos::Left, VPos::Center);
        let title_row = TEXT_ROW * rows as f64 + TEXT_ROW / 2.0;
        let at = (canvas::steps(4.0), canvas::steps(title_row));
        area.draw(&Text::new(y.title.clone(), at, title))?;
        draw_legend(area, &legend)?;
        let (_, plot) = area.split_vertically(canvas::steps(top));
        draw_plot(&plot, lines, (&x, &y), reach)
    })
}

fn draw_plot(
    area: &Area<'_>,
    lines: &Lines,
    (x, y): (&Placed, &Placed),
    reach: Reach,
) -> Result<(), DrawError> {
    let left = canvas::text_width(y.label_letters()) + 12.0;
    let mut chart = ChartBuilder::on(area)
        .margin_right(canvas::steps(RIGHT))
        .margin_top(canvas::steps(4.0))
        .x_label_area_size(canvas::steps(44.0))
        .y_label_area_size(canvas::steps(left))
        .build_cartesian_2d(uncrowded(x, f64::from(WIDTH) - left - RIGHT), y.clone())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(0)
        .set_all_tick_mark_size(canvas::steps(canvas::TICK))
        .bold_line_style(GRID.rgb().stroke_width(canvas::STEPS))
        .axis_style(RULE.rgb().stroke_width(canvas::STEPS))
        .label_style(canvas::text(FAINT, HPos::Center, VPos::Top))
        .axis_desc_style(canvas::text(FAINT, HPos::Center, VPos::Top))
        .x_desc(x.title.clone())
        .draw()?;
    for line in &lines.lines {
        draw_line(&mut chart, line, (x, y), reach)?;
    }
    Ok(())
}

fn draw_line(
    chart: &mut Context<'_, '_>,
    line: &Line,
    (x, y): (&Placed, &Placed),
    reach: Reach,
) -> Result<(), DrawError> {
    let colour = palette::target(line.colour).rgb();
    let (opacity, width) = if line.is_thin { (THIN_OPACITY, 1.25) } else { (1.0, 2.0) };
    let style = colour.mix(opacity).stroke_width(canvas::steps(width) as u32);
    let place = |(across, up): (f64, f64)| Some((x.place(across)?, y.place(up)?));
    let points: Vec<(f64, f64)> = line.points.iter().copied().filter_map(place).collect();
    for (point, interval) in line.points.iter().zip(&line.intervals) {
        let (low, high) = reach.cut(*interval);
        if let (Some(from), Some(to)) = (place((point.0, low)), place((point.0, high))) {
            chart.draw_series([PathElement::new(vec![from, to], style)])?;
        }
    }
    if line.has_marks {
        let mark = |at: &(f64, f64)| Circle::new(*at, canvas::steps(3.5), colour.filled());
        chart.draw_series(points.iter().map(mark))?;
    }
    chart.draw_series([PathElement::new(points, style)])?;
    Ok(())
}

/// Leaves out ticks whose labels would touch their left neighbour's or leave the drawing. The axis
/// is `width` units long.
fn uncrowded(x: &Placed, width: f64) -> Placed {
    let units_for = |place: f64| width * (place - x.low) / (x.high - x.low).max(f64::MIN_POSITIVE);
    let mut free_from = f64::NEG_INFINITY;
    let mut kept = Vec::new();
    for (place, label) in &x.ticks {
        let half = canvas::text_width(label.chars().count()) / 2.0;
        let at = units_for(*place);
        if at - half >= free_from && at + half <= width + RIGHT {
            kept.push((*place, label.clone()));
            free_from = at + half + LETTER / 2.0;
        }
    }
    let mut uncrowded = x.clone();
    uncrowded.ticks = kept;
    uncrowded
}

/// Lays the legend out in rows, and returns its entries and the number of rows.
fn legend(lines: &[Line]) -> (Vec<Entry>, usize) {
    let mut entries: Vec<Entry> = Vec::new();
    let (mut across, mut row) = (4.0, 0);
    for line in lines {
        if entries.iter().any(|entry| entry.label == line.label) {
            continue;
        }
        let width = SAMPLE + 6.0 + canvas::text_width(line.label.chars().count()) + 14.0;
        if across + width > f64::from(WIDTH) && across > 4.0 {
            (across, row) = (4.0, row + 1);
        }
        let at = (across, TEXT_ROW * (row as f64 + 0.5));
        entries.push(Entry { at, colour: line.colour, label: line.label.clone() });
        across += width;
    }
    // A single line needs no legend: the title of the picture names it.
    if entries.len() < 2 { (Vec::new(), 0) } else { (entries, row + 1) }
}

fn draw_legend(area: &Area<'_>, legend: &[Entry]) -> Result<(), DrawError> {
    for entry in legend {
        let colour = palette::target(entry.colour);
        let (across, down) = entry.at;
        let corners = [
            (canvas::steps(across), canvas::steps(down - 2.0)),
            (canvas::steps(across + SAMPLE), canvas::steps(down + 2.0)),
        ];
        area.draw(&Rectangle::new(corners, colour.rgb().filled()))?;
        let at = (canvas::steps(across + SAMPLE + 6.0), canvas::steps(down));
        let style = canvas::text(colour, HPos::Left, VPos::Center);
        area.draw(&Text::new(entry.label.clone(), at, style))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, AxisKind};
    use crate::quantity::Unit;

    #[test]
    fn labels_touch_no_other_one_and_stay_in_the_drawing() {
        let names: Vec<String> = (0..40).map(|at| format!("{at}-a-long-name")).collect();
        let kind = AxisKind::Names(names.clone());
        let axis = Axis::new("names", Unit::Count, kind);
        let width = f64::from(WIDTH) - RIGHT;
        let x = Placed::new(&axis, (0..40).map(f64::from));
        let kept = uncrowded(&x, width).ticks;
        assert!(kept.len() > 2 && kept.len() < names.len(), "{} labels", kept.len());
        let half = canvas::text_width(names[0].chars().count()) / 2.0;
        let units = |place: f64| width * (place - x.low) / (x.high - x.low);
        for pair in kept.windows(2) {
            assert!(units(pair[1].0) - units(pair[0].0) > 2.0 * half, "{pair:?}");
        }
        let last = kept.last().unwrap();
        assert!(units(last.0) + half <= width + RIGHT, "{last:?}");
    }
}
