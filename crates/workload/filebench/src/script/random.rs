//! Converts `randvar(...)` and `cvar(...)` to random variables.

use super::attributes::{Attributes, Evaluate};
use super::error::Fault;
use super::parse::Parsed;
use super::syntax::{At, Expression};
use super::values::Value;
use crate::chance::{Law, RandomVariable, TableRow};

const KINDS: [&str; 3] = ["uniform", "gamma", "tabular"];

/// Default shape of a gamma distribution, in thousandths.
const DEFAULT_GAMMA: f64 = 1500.0;

pub(super) fn random_variable(attributes: &Attributes<'_>) -> Parsed<RandomVariable> {
    let table = attributes.find("randtable").and_then(|attribute| attribute.value.as_ref());
    let kind = match attributes.value("type")? {
        None => (if table.is_some() { "tabular" } else { "gamma" }).to_owned(),
        Some((Value::Text(kind), _)) if KINDS.contains(&kind.as_str()) => kind,
        Some((value, at)) => {
            return Err(Fault::unknown(
                at,
                "type of a random variable",
                &value.to_text(),
                KINDS.into_iter(),
            ));
        }
    };
    let min = attributes.number("min", 0.0)?;
    let shape = attributes.number("gamma", DEFAULT_GAMMA)? / 1000.0;
    let given_mean = attributes.find("mean").map(|_| attributes.number("mean", 0.0)).transpose()?;
    let law = match (kind.as_str(), table) {
        ("tabular", Some(table)) => {
            Law::Table(table_rows(table, attributes.scope, min, given_mean)?)
        }
        ("tabular", None) => {
            return Err(Fault::new(
                attributes.at,
                "a tabular random variable needs randtable={{...}}",
            ));
        }
        ("uniform", _) => Law::Uniform { lower: min, upper: 2.0 * given_mean.unwrap_or(0.0) - min },
        _ if shape <= 0.0 => {
            return Err(Fault::new(
                attributes.at,
                "the gamma of a random variable must be above 0",
            ));
        }
        // Without a mean, the scale is 1 and the mean is the shape.
        _ => Law::Gamma { shape, scale: (given_mean.unwrap_or(shape) - min) / shape, offset: min },
    };
    if given_mean.is_some_and(|mean| mean < min && mean != 0.0) {
        return Err(Fault::new(
            attributes.at,
            "the mean of a random variable must not be below its minimum",
        ));
    }
    Ok(RandomVariable { round: attributes.number("round", 0.0)?, ..RandomVariable::new(law) })
}

/// Returns the rows with values scaled so that the minimum of the table becomes `min` and its mean
/// becomes `mean`.
fn table_rows(
    table: &At<Expression>,
    scope: &dyn Evaluate,
    min: f64,
    mean: Option<f64>,
) -> Parsed<Vec<TableRow>> {
    let Expression::Table(rows) = &table.value else {
        return Err(Fault::new(
            table.at,
            "expected rows for randtable: {{percent, from, to}, ...}",
        ));
    };
    let mut numbers = Vec::with_capacity(rows.len());
    let mut percent = 0.0;
    for [share, from, to] in rows {
        let row = [scope.number(share)?, scope.number(from)?, scope.number(to)?];
        if row[0] < 0.0 || row[1] > row[2] {
            return Err(Fault::new(
                share.at,
                "a row needs a share of at least 0 %, and a lower bound not above the upper one",
            ));
        }
        percent += row[0];
        numbers.push(row);
    }
    if (percent - 100.0).abs() > 1e-6 {
        return Err(Fault::new(
            table.at,
            format!("the shares of the rows add up to {percent} %; they must add up to 100 %"),
        ));
    }
    let table_mean: f64 =
        numbers.iter().map(|row| row[0] / 100.0 * f64::midpoint(row[1], row[2])).sum();
    let table_min = numbers.iter().map(|row| row[1]).fold(f64::INFINITY, f64::min);
    let mean = mean.filter(|mean| *mean != 0.0).unwrap_or(table_mean);
    let spread = table_mean - table_min;
    let scaled = |value: f64| {
        if spread > 0.0 { (value - table_min) / spread * (mean - min) + min } else { mean }
    };
    let mut cumulative = 0.0;
    Ok(numbers
        .iter()
        .map(|row| {
            cumulative += row[0] / 100.0;
            TableRow { cumulative, from: scaled(row[1]), to: scaled(row[2]) }
        })
        .collect())
}

const TYPES: [&str; 8] =
    ["erlang", "exponential", "gamma", "lognormal", "normal", "triangular", "uniform", "weibull"];

pub(super) fn custom_variable(attributes: &Attributes<'_>) -> Parsed<RandomVariable> {
    let kind = attributes.required_text("type", "a custom variable")?;
    let type_at = attributes.find("type").map_or(attributes.at, |attribute| attribute.at);
    let name = kind.strip_prefix("cvar-").unwrap_or(&kind);
    let text = attributes.text("parameters")?.unwrap_or_default();
    let at = attributes
        .find("parameters")
        .and_then(|found| found.value.as_ref())
        .map_or(type_at, |value| value.at);
    let allowed: &[&str] = match name {
        "erlang" => &["shape", "rate"],
        "exponential" => &["mean"],
        "gamma" => &["mean", "gamma"],
        "normal" => &["mean", "sigma"],
        "triangular" => &["lower", "upper", "mode"],
        "uniform" => &["lower", "upper"],
        "lognormal" | "weibull" => &["shape", "scale"],
        _ => {
            let known = TYPES.iter().map(|name| name as &str);
            return Err(Fault::unknown(type_at, "type of a custom variable", name, known));
        }
    };
    let given = parameters(&text, allowed, at)?;
    let law = law_of(name, &|key, default| {
        given.iter().find(|(name, _)| name == key).map_or(default, |(_, value)| *value)
    })
    .map_err(|message| Fault::new(at, message))?;
    let min = attributes.number("min", 0.0)?;
    let max = attributes.number("max", f64::MAX)?;
    if min > max {
        return Err(Fault::new(
            attributes.at,
            "the minimum of a custom variable must not be above its maximum",
        ));
    }
    Ok(RandomVariable { law, min, max, round: attributes.number("round", 0.0)? })
}

/// Parses parameters such as `mean:16384;gamma:1.5`.
fn parameters(text: &str, allowed: &[&str], at: usize) -> Parsed<Vec<(String, f64)>> {
    let mut found = Vec::new();
    for part in text.split(';').filter(|part| !part.trim().is_empty()) {
        let (name, number) = part.split_once(':').unwrap_or((part, ""));
        let name = name.trim();
        if !allowed.contains(&name) {
            return Err(Fault::unknown(
                at,
                "parameter of this custom variable",
                name,
                allowed.iter().copied(),
            ));
        }
        let number = number.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        let number =
            number.ok_or_else(|| Fault::new(at, format!("expected a number after '{name}:'")))?;
        found.push((name.to_owned(), number));
    }
    Ok(found)
}

fn law_of(name: &str, get: &dyn Fn(&str, f64) -> f64) -> Result<Law, &'static str> {
    /// Highest order of an Erlang distribution, as each order adds one draw.
    const HIGHEST_ORDER: f64 = 1000.0;
    let positive = |value: f64, message| if value > 0.0 { Ok(value) } else { Err(message) };
    Ok(match name {
        "erlang" => Law::Erlang {
            order: positive(get("shape", 1.0), "the shape must be above 0")?
                .clamp(1.0, HIGHEST_ORDER) as u32,
            mean: positive(get("rate", 1.0), "the rate must be above 0")?,
        },
        "exponential" => {
            Law::Exponential { mean: positive(get("mean", 1.0), "the mean must be above 0")? }
        }
        "gamma" => {
            let shape = positive(get("gamma", 1.5), "the gamma must be above 0")?;
            let mean = positive(get("mean", 4096.0), "the mean must be above 0")?;
            Law::Gamma { shape, scale: mean / shape, offset: 0.0 }
        }
        "lognormal" => Law::LogNormal { shape: get("shape", 1.0).abs(), scale: get("scale", 1.0) },
        "normal" => Law::Normal { mean: get("mean", 0.0), sigma: get("sigma", 1.0).abs() },
        "triangular" => {
            let (lower, upper, mode) = (get("lower", 0.0), get("upper", 1.0), get("mode", 0.5));
            if lower > mode || mode > upper {
                return Err("the mode must be between the lower and the upper bound");
            }
            Law::Triangular { lower, upper, mode }
        }
        "uniform" => {
            let (lower, upper) = (get("lower", 0.0), get("upper", 1.0));
            if lower > upper {
                return Err("the lower bound must not be above the upper one");
            }
            Law::Uniform { lower, upper }
        }
        _ => Law::Weibull {
            shape: positive(get("shape", 1.0), "the shape must be above 0")?,
            scale: positive(get("scale", 1.0), "the scale must be above 0")?,
        },
    })
}
