//! Sweeps `NAME=V1,V2,...`: one run for each value of an option, a variable or an attribute.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Most values of one sweep. Each is a whole run.
const MAX_VALUES: usize = 1000;

/// The part of a step by which the last value of a progression may differ from a step: fractions
/// such as 0.1 are not exact.
const TOLERANCE: f64 = 1e-6;

/// A name and the values it takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// An option of a job, a variable of a script, or an attribute of a data source.
    pub name: String,
    /// The values, in the order of the runs.
    pub values: Vec<String>,
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, list) = text.split_once('=').ok_or("expected NAME=VALUE,VALUE,...")?;
        let parts: Vec<&str> = list.split(',').map(str::trim).collect();
        if name.trim().is_empty() || parts.iter().any(|part| part.is_empty()) {
            return Err("expected NAME=VALUE,VALUE,...".to_owned());
        }
        let values = match parts.as_slice() {
            [head @ .., from, to, "...", last] => {
                let mut values: Vec<String> = head.iter().map(|part| (*part).to_owned()).collect();
                values.extend(progression(from, to, last)?);
                values
            }
            parts if parts.contains(&"...") => {
                return Err(
                    "write '...' between two values and the last one, as in 0,1,...,8".to_owned()
                );
            }
            parts => parts.iter().map(|part| (*part).to_owned()).collect(),
        };
        Ok(Self { name: name.trim().trim_start_matches('$').to_owned(), values })
    }
}

/// Returns the values from `from` to `last` in steps of the distance between `from` and `second`.
fn progression(from: &str, second: &str, last: &str) -> Result<Vec<String>, String> {
    let number = |text: &str| text.parse::<f64>().map_err(|_| format!("'{text}' is not a number"));
    let (from, second, last) = (number(from)?, number(second)?, number(last)?);
    let step = second - from;
    let steps = (last - from) / step;
    let count = steps.round();
    if !(1.0..MAX_VALUES as f64).contains(&count) {
        return Err(format!("the steps do not reach the last value within {MAX_VALUES} values"));
    }
    if (steps - count).abs() > TOLERANCE {
        let before = from + step * steps.floor();
        return Err(format!(
            "steps of {step} from {from} do not meet {last}: end with {before} or {}",
            before + step
        ));
    }
    // Rounding removes the error that steps such as 0.1 accumulate.
    Ok((0..=count as u32)
        .map(|index| ((from + step * f64::from(index)) * 1e9).round() / 1e9)
        .map(|v| v.to_string())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_listed_or_a_progression() {
        let values = |text: &str| text.parse::<Sweep>().unwrap().values;
        assert_eq!(values("entropy=0,1,...,8"), ["0", "1", "2", "3", "4", "5", "6", "7", "8"]);
        assert_eq!(values("$entropy=0, 0.1, ..., 0.3"), ["0", "0.1", "0.2", "0.3"]);
        assert_eq!(values("iosize=4k,64k,1m"), ["4k", "64k", "1m"]);
        for wrong in [
            "entropy",
            "=1",
            "e=1,,2",
            "e=...,8",
            "e=1,...,8",
            "e=0,0,...,8",
            "e=0,-1,...,8",
            "e=a,b,...,c",
            "rate=1000,2000,...,5500",
        ] {
            assert!(wrong.parse::<Sweep>().is_err(), "{wrong}");
        }
        let error = "rate=1000,2000,...,5500".parse::<Sweep>().unwrap_err();
        assert!(error.contains("end with 5000 or 6000"), "{error}");
    }
}
