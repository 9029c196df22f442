//! Charts: what they show, and drawing them as SVG with the library `plotters`.
//!
//! All colours in a drawing are those of [`palette`], each with one meaning. A page replaces them
//! by style rules, so that one drawing serves a light and a dark page; a file keeps them.

mod bars;
mod canvas;
mod lines;
pub(crate) mod palette;
mod ratios;
mod rows;
mod scale;

pub(crate) use canvas::{Drawing, font_size};
pub(crate) use scale::{Axis, AxisKind};

/// The contents of a picture.
#[derive(Debug, Clone)]
pub(crate) enum Chart {
    /// Horizontal bars from zero, with error bars.
    Bars(Bars),
    /// Ratios to a baseline, with intervals, on a logarithmic axis.
    Ratios(Ratios),
    /// Lines over an axis of numbers.
    Lines(Lines),
}

/// Horizontal bars.
#[derive(Debug, Clone)]
pub(crate) struct Bars {
    /// Axis of the values. It begins at zero.
    pub(crate) axis: Axis,
    /// Bars from top to bottom.
    pub(crate) bars: Vec<Bar>,
}

/// A bar of one or several parts.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    /// Name, written above the bar.
    pub(crate) label: String,
    /// Value in words, written at the right of the name.
    pub(crate) value: String,
    /// Number of the colour.
    pub(crate) colour: usize,
    /// Lengths of the parts, from the left. The first one is drawn strongest.
    pub(crate) parts: Vec<f64>,
    /// Interval of the whole length.
    pub(crate) interval: Option<(f64, f64)>,
}

/// Ratios to a baseline.
#[derive(Debug, Clone)]
pub(crate) struct Ratios {
    /// Name of the baseline, for the title of the axis.
    pub(crate) baseline: String,
    /// Ratios that the axis includes, so that several pictures have the same axis.
    pub(crate) reach: (f64, f64),
    /// Rows from top to bottom.
    pub(crate) rows: Vec<Ratio>,
}

/// One ratio.
#[derive(Debug, Clone)]
pub(crate) struct Ratio {
    /// Name, written above the interval.
    pub(crate) label: String,
    /// Number of the colour.
    pub(crate) colour: usize,
    /// The figure divided by that of the baseline.
    pub(crate) ratio: f64,
    /// Confidence interval.
    pub(crate) interval: Option<(f64, f64)>,
    /// `true` if the ratio has no bound: a value was zero.
    pub(crate) is_unbounded: bool,
    /// `true` if the data carry a difference. The dot is then filled.
    pub(crate) is_significant: bool,
}

/// Lines over an axis of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    /// Horizontal axis.
    pub(crate) x: Axis,
    /// Vertical axis.
    pub(crate) y: Axis,
    /// Lines, from back to front.
    pub(crate) lines: Vec<Line>,
}

/// A line.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Name in the legend. Lines of the same name have one entry.
    pub(crate) label: String,
    /// Number of the colour.
    pub(crate) colour: usize,
    /// Points in the order in which they are joined.
    pub(crate) points: Vec<(f64, f64)>,
    /// Interval of each point, empty if there are none.
    pub(crate) intervals: Vec<(f64, f64)>,
    /// Marks at the points, for lines of few points.
    pub(crate) has_marks: bool,
    /// `true` for a line that is one of several of its kind, such as the repetitions.
    pub(crate) is_thin: bool,
}

impl Line {
    /// Returns a full line without intervals and marks.
    pub(crate) fn new(label: String, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self { label, colour, points, intervals: Vec::new(), has_marks: false, is_thin: false }
    }
}

impl Chart {
    /// Draws the chart.
    ///
    /// # Errors
    /// Fails if the library cannot place the chart, as on a canvas without space.
    pub(crate) fn draw(&self) -> Result<Drawing, DrawError> {
        match self {
            Self::Bars(bars) => bars::draw(bars),
            Self::Ratios(ratios) => ratios::draw(ratios),
            Self::Lines(lines) => lines::draw(lines),
        }
    }
}

/// The library could not draw a chart.
#[derive(Debug, thiserror::Error)]
#[error("the chart cannot be drawn: {0}")]
pub struct DrawError(String);

impl<E: std::error::Error + Send + Sync> From<plotters::drawing::DrawingAreaErrorKind<E>>
    for DrawError
{
    fn from(error: plotters::drawing::DrawingAreaErrorKind<E>) -> Self {
        Self(error.to_string())
    }
}
