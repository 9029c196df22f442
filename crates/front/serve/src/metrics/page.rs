//! A page of metrics, in the text format of Prometheus.

use gemelo_base::{Stat, StatKind, StatTable};
use std::fmt::{Display, Write};

/// A page of figures.
#[derive(Default)]
pub(super) struct Page {
    pub(super) text: String,
}

impl Page {
    /// Adds the head of a figure.
    pub(super) fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP gemelo_{name} {help}\n# TYPE gemelo_{name} {kind}");
    }

    /// Adds a value with labels.
    pub(super) fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let pairs: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
        let labels =
            if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
        let _ = writeln!(self.text, "gemelo_{name}{labels} {value}");
    }

    /// Adds a figure that goes up and down.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        self.value(name, &[], value);
    }

    /// Adds all figures of a table.
    pub(super) fn table(&mut self, prefix: &str, table: &impl StatTable) {
        for stat in table.table() {
            let name = metric_of(prefix, &stat);
            self.stat_head(&name, &stat);
            self.value(&name, &[], value_of(&stat));
        }
    }

    /// Adds all figures of tables that are alike, each table with its label.
    pub(super) fn tables(&mut self, prefix: &str, label: &str, tables: &[(&str, Vec<Stat>)]) {
        let Some((_, first)) = tables.first() else { return };
        for (at, stat) in first.iter().enumerate() {
            let name = metric_of(prefix, stat);
            self.stat_head(&name, stat);
            for (owner, table) in tables {
                assert_eq!(table[at].name, stat.name, "the tables are alike");
                self.value(&name, &[(label, owner)], value_of(&table[at]));
            }
        }
    }

    fn stat_head(&mut self, name: &str, stat: &Stat) {
        let kind = match stat.kind {
            StatKind::Counter => "counter",
            StatKind::Gauge => "gauge",
        };
        self.head(name, kind, stat.help);
    }

    /// Adds the values of a histogram: for each class its upper bound and its number of cases. The
    /// last class has no bound.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        classes: impl Iterator<Item = (Option<f64>, u64)>,
        sum_of_values: f64,
    ) {
        let bucket = format!("{name}_bucket");
        let mut cases = 0;
        for (end, more) in classes {
            cases += more;
            let end = end.map_or_else(|| "+Inf".to_owned(), |end| end.to_string());
            let with_end: Vec<_> = labels.iter().copied().chain([("le", end.as_str())]).collect();
            self.value(&bucket, &with_end, cases);
        }
        self.value(&format!("{name}_sum"), labels, sum_of_values);
        self.value(&format!("{name}_count"), labels, cases);
    }
}

/// Returns the name of a figure's metric. Prometheus wants seconds, and tells counters by their
/// ends.
fn metric_of(prefix: &str, stat: &Stat) -> String {
    let name = match stat.name.strip_suffix("_ns") {
        Some(name) => format!("{prefix}_{name}_seconds"),
        None => format!("{prefix}_{}", stat.name),
    };
    match stat.kind {
        StatKind::Counter => format!("{name}_total"),
        StatKind::Gauge => name,
    }
}

fn value_of(stat: &Stat) -> String {
    if stat.name.ends_with("_ns") {
        seconds(stat.value).to_string()
    } else {
        stat.value.to_string()
    }
}

/// Converts to the unit that Prometheus wants for all times.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Escapes the value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_seconds_and_counters_have_their_ending() {
        let stat = |name, kind| Stat { name, help: "", kind, value: 1_500_000_000 };
        let connections = stat("connections", StatKind::Counter);
        assert_eq!(metric_of("x", &connections), "x_connections_total");
        let longest = stat("longest_ns", StatKind::Gauge);
        assert_eq!(
            (&*metric_of("x", &longest), &*value_of(&longest)),
            ("x_longest_seconds", "1.5")
        );
    }

    #[test]
    fn labels_are_escaped() {
        let mut page = Page::default();
        page.value("x", &[("volume", "a\"b\\c\nd")], 1);
        assert_eq!(page.text, "gemelo_x{volume=\"a\\\"b\\\\c\\nd\"} 1\n");
    }
}
