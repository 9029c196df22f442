//! Names in front of figures: those of jobs, of values of a sweep, of block sizes.

use gemelo_record::Stats;
use std::collections::BTreeSet;

/// Adds `more` to `figures`, each name with `prefix` and a dot in front.
pub(crate) fn append(figures: &mut Stats, prefix: Option<&str>, more: Stats) {
    let named = |name: String| match prefix {
        Some(prefix) => format!("{prefix}.{name}"),
        None => name,
    };
    for mut figure in more.figures {
        figure.name = named(figure.name);
        figures.figures.push(figure);
    }
    for mut curve in more.curves {
        curve.name = named(curve.name);
        figures.curves.push(curve);
    }
    for mut series in more.series {
        series.name = named(series.name);
        figures.series.push(series);
    }
}

/// Makes names that are unique and fit in front of a figure: characters with a meaning in names
/// and claims become hyphens, and a repeated name gets a number.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    given: BTreeSet<String>,
}

impl Prefixes {
    pub(crate) fn unique(&mut self, name: &str) -> String {
        let name = plain(name);
        let mut unique = name.clone();
        let mut number = 1;
        // A job may have the name that a number would make of another one.
        while !self.given.insert(unique.clone()) {
            number += 1;
            unique = format!("{name}-{number}");
        }
        unique
    }
}

/// Replaces the characters that names of figures cannot contain.
pub(crate) fn plain(name: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_.=:+".contains(letter);
    name.chars().map(|letter| if is_plain(letter) { letter } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_without_brackets_and_slashes() {
        let mut prefixes = Prefixes::default();
        let names = ["a/b [1]", "x", "x", "x-2", "x"].map(|name| prefixes.unique(name));
        assert_eq!(names, ["a-b--1-", "x", "x-2", "x-2-2", "x-3"]);
    }
}
