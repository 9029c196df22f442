//! Axes: from values to places and from places to labels.

use crate::quantity::{Measure, Unit, significant};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// An axis.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// Quantity in words. The unit is added.
    pub(crate) title: String,
    /// Unit of the values.
    pub(crate) unit: Unit,
    /// Arrangement of the values.
    pub(crate) kind: AxisKind,
}

impl Axis {
    pub(crate) fn new(title: impl Into<String>, unit: Unit, kind: AxisKind) -> Self {
        Self { title: title.into(), unit, kind }
    }
}

/// The arrangement of values on an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AxisKind {
    /// Equal steps, from zero.
    Linear,
    /// Equal steps, from the smallest value.
    LinearFromLeast,
    /// Equal ratios. Values that are not above zero are left out.
    Logarithmic,
    /// Shares from 0 to 1 by the number of nines: 0.9, 0.99 and 0.999 have equal steps.
    Nines,
    /// Names at 0, 1, 2 and so on.
    Names(Vec<String>),
}

/// Places on an axis: an interval of numbers, and labels at some of them.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) ticks: Vec<(f64, String)>,
    pub(crate) title: String,
    kind: AxisKind,
}

/// Ticks that a linear axis has room for.
const LINEAR_TICKS: f64 = 5.0;
/// The highest share that an axis of nines shows: 0.999999.
const MAX_NINES: f64 = 6.0;

/// The part of intervals that a linear axis shows. The interval of a few repetitions that differ
/// may be many times the values, and reach below zero where no value can be. It would hide the
/// values, so it is cut at zero and at twice the largest value. Tables state it as a whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    least: f64,
    most: f64,
}

impl Reach {
    /// Returns the reach beside these values.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Self {
        let (mut least, mut most) = (0.0f64, 0.0f64);
        for value in values.filter(|value| value.is_finite()) {
            (least, most) = (least.min(value), most.max(value));
        }
        Self { least: 2.0 * least, most: 2.0 * most }
    }

    /// Returns the shown part of an interval.
    pub(super) const fn cut(self, (low, high): (f64, f64)) -> (f64, f64) {
        (low.max(self.least), high.min(self.most))
    }
}

/// The largest magnitude that an axis shows, and the inverse of the smallest one beside zero. The
/// steps of an axis of others would not be numbers. No measurement comes near.
const MAX_MAGNITUDE: f64 = 1e200;

/// Returns whether an axis can show a value.
fn is_shown(value: f64) -> bool {
    value == 0.0 || (1.0 / MAX_MAGNITUDE..=MAX_MAGNITUDE).contains(&value.abs())
}

impl Placed {
    /// Places an axis for these values.
    pub(crate) fn new(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| is_shown(*value)) {
            if axis.kind == AxisKind::Logarithmic && value <= 0.0 {
                continue;
            }
            least = least.min(value);
            most = most.max(value);
        }
        if least > most {
            // There is nothing to show.
            (least, most) =
                if axis.kind == AxisKind::Logarithmic { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        match &axis.kind {
            AxisKind::Linear => linear(axis, 0f64.min(least), most),
            AxisKind::LinearFromLeast => linear(axis, least, most),
            AxisKind::Logarithmic => logarithmic(axis, least, most),
            AxisKind::Nines => nines(axis, most),
            AxisKind::Names(names) => named(axis, names),
        }
    }

    /// Returns the place of a value. It is `None` for a value that the axis cannot show.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let place = match self.kind {
            AxisKind::Logarithmic if value <= 0.0 => return None,
            AxisKind::Logarithmic => value.log10(),
            AxisKind::Nines => nines_of(value),
            _ => value,
        };
        place.is_finite().then(|| place.clamp(self.low, self.high))
    }

    /// Returns the length of the longest label, in letters.
    pub(crate) fn label_letters(&self) -> usize {
        self.ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0)
    }
}

impl Ranged for Placed {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (place - self.low) / (self.high - self.low);
        from + (f64::from(to - from) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.ticks.iter().map(|(place, _)| *place).collect()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Placed {
    fn format_ext(&self, place: &f64) -> String {
        let near = |(tick, _): &&(f64, String)| {
            (tick - place).abs() <= (self.high - self.low).abs() * 1e-6
        };
        self.ticks.iter().find(near).map_or(String::new(), |(_, label)| label.clone())
    }
}

fn titled(axis: &Axis, measure: Option<Measure>) -> String {
    match measure.map_or("", |measure| measure.label) {
        "" => axis.title.clone(),
        "/s" => format!("{} a second", axis.title),
        unit => format!("{}, {unit}", axis.title),
    }
}

fn linear(axis: &Axis, least: f64, most: f64) -> Placed {
    let most = if most > least { most } else { least + least.abs().max(1.0) };
    let measure = axis.unit.measure(most.abs().max(least.abs()));
    let (scaled_low, scaled_high) = (measure.scaled(least), measure.scaled(most));
    let step = nice_step((scaled_high - scaled_low) / LINEAR_TICKS);
    let first = (scaled_low / step).floor();
    let last = (scaled_high / step - 1e-9).ceil().max(first + 1.0);
    let ticks = (0..=(last - first) as u32)
        .map(|number| {
            let tick = (first + f64::from(number)) * step;
            (measure.unscaled(tick), tick_label(tick, step))
        })
        .collect();
    Placed {
        low: measure.unscaled(first * step),
        high: measure.unscaled(last * step),
        ticks,
        title: titled(axis, Some(measure)),
        kind: axis.kind.clone(),
    }
}

/// Returns the smallest of 1, 2 and 5 times a power of ten that is at least `least`.
fn nice_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= least * 0.999)
        .unwrap_or(least)
}

fn tick_label(tick: f64, step: f64) -> String {
    let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{:.decimals$}", if tick == 0.0 { 0.0 } else { tick });
    if decimals == 0 && tick >= 10_000.0 {
        return gemelo_base::units::format_count(tick as u64);
    }
    text
}

fn logarithmic(axis: &Axis, least: f64, most: f64) -> Placed {
    if axis.unit == Unit::Bytes {
        return powers_of_two(axis, least, most);
    }
    let (low, high) = (least.log10(), most.log10());
    // A narrow range gets ticks within a decade, and does not waste a whole one at each end.
    let steps: &[f64] = if high - low < 0.7 {
        &[1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]
    } else if high - low < 1.5 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let candidates: Vec<f64> = ((low.floor() as i32 - 1)..=(high.ceil() as i32 + 1))
        .flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)))
        .collect();
    let below = |value: &f64| value.log10() <= low + 1e-9;
    let first = candidates.iter().copied().rfind(|v| below(v)).unwrap_or(least);
    let last = candidates
        .iter()
        .copied()
        .find(|value| value.log10() >= high - 1e-9 && *value > first)
        .unwrap_or(most);
    let inside: Vec<f64> =
        candidates.into_iter().filter(|value| *value >= first && *value <= last).collect();
    let stride = inside.len().div_ceil(8).max(1);
    let ticks = inside
        .into_iter()
        .step_by(stride)
        .map(|value| (value.log10(), round_label(axis.unit, value)))
        .collect();
    Placed {
        low: first.log10(),
        high: last.log10(),
        ticks,
        title: titled(axis, (axis.unit == Unit::PerSecond).then(|| axis.unit.measure(most))),
        kind: AxisKind::Logarithmic,
    }
}

/// Places sizes with ticks at powers of two, as they are written.
fn powers_of_two(axis: &Axis, least: f64, most: f64) -> Placed {
    let first = least.log2().floor();
    let last = most.log2().ceil().max(first + 1.0);
    let stride = ((last - first) / 6.0).ceil().max(1.0);
    let last = first + ((last - first) / stride).ceil() * stride;
    let place = |power: f64| power * std::f64::consts::LOG10_2;
    let ticks = (0..=((last - first) / stride) as u32)
        .map(|number| first + f64::from(number) * stride)
        .map(|power| (place(power), round_label(Unit::Bytes, power.exp2())))
        .collect();
    Placed {
        low: place(first),
        high: place(last),
        ticks,
        title: axis.title.clone(),
        kind: AxisKind::Logarithmic,
    }
}

/// Labels a round value without the zeros that stand for precision: `10 µs`.
fn round_label(unit: Unit, value: f64) -> String {
    let measure = unit.measure(value);
    let number = measure.scaled(value);
    let text = if number >= 1.0 && (number - number.round()).abs() < 1e-6 * number {
        gemelo_base::units::format_count(number.round() as u64)
    } else {
        let text = significant(number);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match measure.label {
        "" | "/s" => text,
        label => format!("{text} {label}"),
    }
}

fn nines_of(share: f64) -> f64 {
    -(1.0 - share.clamp(0.0, 1.0)).max(10f64.powf(-MAX_NINES)).log10()
}

fn nines(axis: &Axis, most: f64) -> Placed {
    let labels = [
        (0.5, "50 %"),
        (0.9, "90 %"),
        (0.99, "99 %"),
        (0.999, "99.9 %"),
        (0.9999, "99.99 %"),
        (0.99999, "99.999 %"),
        (0.999_999, "99.9999 %"),
    ];
    let high = nines_of(most).ceil().clamp(2.0, MAX_NINES);
    Placed {
        low: 0.0,
        high,
        ticks: labels
            .iter()
            .map(|(share, label)| (nines_of(*share), (*label).to_owned()))
            .filter(|(place, _)| *place <= high + 1e-6)
            .collect(),
        title: axis.title.clone(),
        kind: AxisKind::Nines,
    }
}

fn named(axis: &Axis, names: &[String]) -> Placed {
    Placed {
        low: -0.25,
        high: names.len().saturating_sub(1).max(1) as f64 + 0.25,
        ticks: names.iter().enumerate().map(|(n, name)| (n as f64, name.clone())).collect(),
        title: axis.title.clone(),
        kind: axis.kind.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(unit: Unit, kind: AxisKind, values: &[f64]) -> Vec<String> {
        let placed = Placed::new(&Axis::new("t", unit, kind), values.iter().copied());
        placed.ticks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn figures_of_any_size_have_an_axis() {
        use AxisKind::{Linear, LinearFromLeast, Logarithmic};
        let sizes = [f64::MAX, f64::MIN, 5e-324, 1e-310, 1e200, 1e-200, 1.0, 0.0, f64::NAN];
        for unit in [Unit::Bytes, Unit::Share, Unit::Number, Unit::Nanoseconds] {
            for kind in [Linear, LinearFromLeast, Logarithmic] {
                for (one, other) in sizes.iter().flat_map(|one| sizes.map(|other| (*one, other))) {
                    let axis = Axis::new("t", unit, kind.clone());
                    let placed = Placed::new(&axis, [one, other].into_iter());
                    assert!(placed.low < placed.high, "{axis:?} of {one:e} and {other:e}");
                    let _ = (placed.place(one), placed.place(other));
                    assert!(placed.ticks.len() < 20);
                }
            }
        }
    }

    #[test]
    fn a_wide_interval_does_not_hide_the_values() {
        let reach = Reach::of([3.0, 50.0].into_iter());
        assert_eq!(reach.cut((-700.0, 900.0)), (0.0, 100.0));
        assert_eq!(reach.cut((40.0, 60.0)), (40.0, 60.0));
        // Where values are below zero, as those of a change may be, intervals are shown there too.
        assert_eq!(Reach::of([-2.0, 1.0].into_iter()).cut((-9.0, 9.0)), (-4.0, 2.0));
    }

    #[test]
    fn ticks_are_round_numbers_of_the_unit_that_fits() {
        assert_eq!(
            labels(Unit::BytesPerSecond, AxisKind::Linear, &[3.1e8, 4.2e8]),
            ["0", "100", "200", "300", "400", "500"]
        );
        assert_eq!(
            labels(Unit::Nanoseconds, AxisKind::Logarithmic, &[1300.0, 9e6]),
            ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms"]
        );
        assert_eq!(
            labels(Unit::Bytes, AxisKind::Logarithmic, &[5000.0, 3e7]),
            ["4 KiB", "32 KiB", "256 KiB", "2 MiB", "16 MiB", "128 MiB"]
        );
        assert_eq!(
            labels(Unit::Number, AxisKind::Logarithmic, &[0.8, 1.7]),
            ["0.8", "1", "1.2", "1.5", "2"]
        );
        assert_eq!(
            labels(Unit::Share, AxisKind::Nines, &[0.999]),
            ["50 %", "90 %", "99 %", "99.9 %"]
        );
        assert_eq!(labels(Unit::Number, AxisKind::Linear, &[0.0, 0.0]).first().unwrap(), "0.0");
    }

    #[test]
    fn every_value_lies_on_its_axis() {
        for kind in [AxisKind::Linear, AxisKind::LinearFromLeast, AxisKind::Logarithmic] {
            let values = [3.0, 17.0, 170.0, 4e5];
            let axis = Axis::new("t", Unit::Number, kind);
            let placed = Placed::new(&axis, values.iter().copied());
            for value in values {
                let place = placed.place(value).unwrap();
                assert!(placed.low <= place && place <= placed.high, "{value} on {axis:?}");
            }
        }
    }

    #[test]
    fn a_logarithmic_axis_has_no_place_for_zero() {
        let axis = Axis::new("t", Unit::Number, AxisKind::Logarithmic);
        assert_eq!(Placed::new(&axis, [0.0, 10.0].into_iter()).place(0.0), None);
    }
}
