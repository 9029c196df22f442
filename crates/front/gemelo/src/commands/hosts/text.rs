//! The hosts of a run side by side.

use crate::table::Table;
use gemelo_base::units::format_duration_ns;
use gemelo_record::HostRecord;

/// The columns of a table of hosts, and how they are filled.
pub(crate) struct HostColumns<'a, Record> {
    /// The headings after that of the host.
    pub(crate) headings: &'a [&'a str],
    /// Returns the rows of a host, with its name; none if it has no result.
    pub(crate) rows: &'a dyn Fn(&Record) -> Vec<Vec<String>>,
    /// Returns the rate by which the slowest host is found.
    pub(crate) rate: &'a dyn Fn(&Record) -> Option<f64>,
    /// Formats a rate.
    pub(crate) format: &'a dyn Fn(f64) -> String,
}

/// Returns a table of the hosts, and a line that names the slowest one.
pub(crate) fn table<Input, Measured>(
    hosts: &[HostRecord<Input, Measured>],
    columns: &HostColumns<'_, HostRecord<Input, Measured>>,
) -> String {
    let mut table = Table::new();
    table.row([&["host"], columns.headings].concat());
    for host in hosts {
        let rows = (columns.rows)(host);
        if rows.is_empty() {
            table.row([host.host.clone(), "no result".to_owned()]);
        }
        rows.into_iter().for_each(|row| table.row(row));
    }
    let rates = hosts.iter().filter_map(|host| Some((host.host.as_str(), (columns.rate)(host)?)));
    table.render(2) + &slowest_line(&rates.collect::<Vec<_>>(), columns.format)
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
