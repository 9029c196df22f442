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

    /// Adds a figure that only grows.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "counter", help);
        self.value(name, &[], value);
    }
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
