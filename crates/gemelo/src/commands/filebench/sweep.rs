//! `--sweep NAME=V1,V2,...`: one run for each value, and a table of what came of them.

use super::Point;
use crate::exit::bad_input;
use crate::table::Table;
use anyhow::anyhow;
use gemelo_base::units::format_size;
use gemelo_filebench::sources::find;
use gemelo_filebench::{Options, Program};
use std::str::FromStr;

/// Values of one sweep: each is a whole run.
const MOST_VALUES: usize = 1000;

/// A name and the values it takes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sweep {
    pub(super) name: String,
    pub(super) values: Vec<String>,
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
                    "'...' stands between two values and the last one: 0,1,...,8".to_owned()
                );
            }
            parts => parts.iter().map(|part| (*part).to_owned()).collect(),
        };
        Ok(Self { name: name.trim().trim_start_matches('$').to_owned(), values })
    }
}

/// `from`, `second`, and on in equal steps up to `last`.
fn progression(from: &str, second: &str, last: &str) -> Result<Vec<String>, String> {
    let number = |text: &str| text.parse::<f64>().map_err(|_| format!("'{text}' is no number"));
    let (from, second, last) = (number(from)?, number(second)?, number(last)?);
    let step = second - from;
    let count = ((last - from) / step + 1e-9).floor();
    if !(1.0..MOST_VALUES as f64).contains(&count) {
        return Err(format!(
            "the values do not lead to the last one in at most {MOST_VALUES} steps"
        ));
    }
    // Rounded, so that 0.1 steps read as they were meant.
    Ok((0..=count as u32)
        .map(|index| ((from + step * f64::from(index)) * 1e9).round() / 1e9)
        .map(|v| v.to_string())
        .collect())
}

impl Sweep {
    /// A name that the script does not mention has to be an attribute of a data source that is used.
    pub(super) fn check_sources(&self, program: &Program, options: &Options) -> anyhow::Result<()> {
        let has = |name: &str| {
            find(name).is_some_and(|source| {
                source.attributes.iter().any(|(attribute, _)| *attribute == self.name)
            })
        };
        let own = program.plan.filesets.iter().filter_map(|fileset| fileset.source.as_ref());
        if own.chain(options.source.as_ref()).any(|source| has(&source.name)) {
            return Ok(());
        }
        let name = &self.name;
        Err(bad_input(anyhow!(
            "--sweep {name}: the script has no variable ${name} and no data source with that attribute; add --source entro, for example"
        )))
    }

    /// Rates, latency and stored bytes against the values.
    pub(super) fn table(&self, points: &[Point]) -> String {
        let mut table = Table::new();
        table.row([
            self.name.as_str(),
            "ops/s",
            "MB/s",
            "MB/s over I/O time",
            "ms/op",
            "generation",
            "written",
            "stored",
        ]);
        for point in points {
            let value = point.value.clone().unwrap_or_default();
            for run in &point.runs {
                let Some(last) = run.intervals.last() else { continue };
                let made: u64 = run.filesets.iter().map(|fileset| fileset.written_bytes).sum();
                let written: u64 = last
                    .flowops
                    .iter()
                    .filter(|flowop| flowop.writes)
                    .map(|flowop| flowop.data_bytes)
                    .sum();
                let busy_ns = last.elapsed_s * 1e9 * last.threads as f64;
                table.row([
                    value.clone(),
                    format!("{:.0}", last.operations_per_s),
                    format!("{:.1}", last.data_bytes_per_s / 1e6),
                    format!("{:.1}", last.data_bytes_per_io_s / 1e6),
                    format!("{:.3}", last.mean_latency_ns / 1e6),
                    format!("{:.1} %", last.generation_ns as f64 / busy_ns.max(1.0) * 100.0),
                    format_size(made + written),
                    run.stored_bytes
                        .map_or_else(|| "?".to_owned(), |bytes| format_size(bytes.max(0) as u64)),
                ]);
            }
        }
        table.render(0)
    }
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
        ] {
            assert!(wrong.parse::<Sweep>().is_err(), "{wrong}");
        }
    }
}
