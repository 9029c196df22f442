//! A page of metrics, in the text format of Prometheus.

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

    /// Adds a figure that only grows.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "counter", help);
        self.value(name, &[], value);
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
    fn labels_are_escaped() {
        let mut page = Page::default();
        page.value("x", &[("volume", "a\"b\\c\nd")], 1);
        assert_eq!(page.text, "gemelo_x{volume=\"a\\\"b\\\\c\\nd\"} 1\n");
    }
}
