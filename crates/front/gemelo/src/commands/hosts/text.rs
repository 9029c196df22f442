//! The hosts of a run side by side.

use crate::table::Table;
use gemelo_base::units::{format_count, format_duration_ns, format_rate};
use gemelo_load::{OperationStats, RunResult};
use gemelo_record::HostRecord;

/// Returns a table of the hosts in one job, with the offset of their clocks and the delay of their
/// start.
pub(crate) fn table<Input>(hosts: &[HostRecord<Input, Vec<RunResult>>], job: usize) -> String {
    let mut table = Table::new();
    table.row(["host", "operations/s", "rate", "mean", "99 %", "max", "start", "clock"]);
    for host in hosts {
        let result = host.file.as_ref().and_then(|file| file.result.get(job));
        let Some(result) = result else {
            table.row([host.host.clone(), "no result".to_owned()]);
            continue;
        };
        let sides = [("read", &result.total.reads), ("write", &result.total.writes)];
        let is_mixed = sides.iter().all(|(_, side)| side.is_some());
        for (operation, side) in sides {
            let Some(side) = side else { continue };
            let name =
                if is_mixed { format!("{} {operation}", host.host) } else { host.host.clone() };
            table.row(row(name, side, host, job));
        }
    }
    table.render(2)
}

fn row<Input>(
    name: String,
    side: &OperationStats,
    host: &HostRecord<Input, Vec<RunResult>>,
    job: usize,
) -> [String; 8] {
    let latency = &side.latency.summary;
    let offset = host.date_offset_ns;
    let sign = if offset < 0 { "-" } else { "+" };
    [
        name,
        format_count(side.operations_per_s.round() as u64),
        format_rate(side.bytes_per_s),
        format_duration_ns(latency.mean_ns.round() as u64),
        latency.percentile_ns(99.0).map_or(String::new(), format_duration_ns),
        format_duration_ns(latency.max_ns),
        start_of(host, job),
        format!("{sign}{}", format_duration_ns(offset.unsigned_abs())),
    ]
}

/// Names the slowest of several hosts by its rate, with its share of the mean of all.
pub(crate) fn slowest_line(rates: &[(&str, f64)], format: impl Fn(f64) -> String) -> String {
    let slowest = rates.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    let Some((host, lowest)) = slowest.filter(|_| rates.len() > 1) else { return String::new() };
    let mean = rates.iter().map(|(_, rate)| rate).sum::<f64>() / rates.len() as f64;
    let share = lowest * 100.0 / mean.max(f64::MIN_POSITIVE);
    format!("  the slowest host is {host}: {}, {share:.0} % of the mean of all\n", format(*lowest))
}

/// Returns the time after the common start at which a host started a run, and its uncertainty.
pub(crate) fn start_of<Input, Measured>(host: &HostRecord<Input, Measured>, run: usize) -> String {
    let within = host.round_trip_ns / 2;
    let delay = host.start_delays_ns.get(run).copied().unwrap_or(0);
    format!("+{} ± {}", format_duration_ns(delay), format_duration_ns(within))
}
