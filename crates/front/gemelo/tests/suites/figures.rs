//! Figures of speed and size in `README.md` and `docs/guide`: each is marked with its entry in
//! `docs/results/figures.toml`, which the benchmarks write, and equals it. The pages that have all
//! figures of the benchmarks show these entries, too, so they say the same as `README.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

const FILE: &str = "docs/results/figures.toml";
/// Pages of figures, some of which are entries of that file.
const TABLES: [&str; 2] = ["docs/reference/benchmarks.md", "docs/results/peers.md"];
/// Units of speed and duration that stand only in figures of benchmarks. Settings are written
/// without them, such as "5 s" or "1 MB a second".
const UNITS: [&str; 12] = [
    "GB/s", "MB/s", "KB/s", "GiB/s", "MiB/s", "KiB/s", "times", "ns", "µs", "ms", "reads/s",
    "writes/s",
];
/// Begins the comment behind a figure, which a reader of the rendered page does not see.
const MARK: &str = "<!-- figure: ";

/// A figure as `benches/lib/figures.py` writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    value: String,
    unit: String,
    command: String,
    machine: String,
    date: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn figures() -> BTreeMap<String, Figure> {
    toml::from_str(&fs::read_to_string(root().join(FILE)).unwrap()).unwrap()
}

/// README and the pages of the guide, by their names.
fn pages() -> BTreeMap<String, String> {
    let guide = fs::read_dir(root().join("docs/guide")).unwrap();
    let guide = guide.map(|entry| entry.unwrap().path());
    let paths = guide.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let paths = paths.chain([root().join("README.md")]);
    paths
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect()
}

/// The pages of figures, by their paths.
fn tables() -> impl Iterator<Item = (String, String)> {
    let read = |path| fs::read_to_string(root().join(path)).unwrap();
    TABLES.into_iter().map(move |path| (path.to_owned(), read(path)))
}

/// The text of a page outside of code blocks, as one line.
fn prose(page: &str) -> String {
    let parts = page.split("```").step_by(2);
    parts.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// Returns whether a text ends with an expression that is not the end of a longer word or number.
fn ends_with(text: &str, end: &str) -> bool {
    let before = text.strip_suffix(end);
    before
        .is_some_and(|before| !before.ends_with(|last: char| last.is_alphanumeric() || last == '.'))
}

/// The numbers with a unit of speed or duration that no mark follows.
fn unmarked(prose: &str) -> Vec<String> {
    let words: Vec<_> = prose.split(' ').collect();
    let mut found = Vec::new();
    for pair in words.windows(2) {
        let number = pair[0].trim_start_matches(['(', '|', '*']);
        let is_number = number.starts_with(|first: char| first.is_ascii_digit())
            && number.chars().all(|letter| letter.is_ascii_digit() || ",.-–".contains(letter));
        let unit = pair[1].split("<!--").next().unwrap_or_default();
        let is_marked = pair[1].contains("<!--");
        let unit = unit.trim_end_matches(['.', ',', ';', ':', ')', '*']);
        if is_number && UNITS.contains(&unit) && !is_marked {
            found.push(format!("{} {}", pair[0], pair[1]));
        }
    }
    found
}

/// The marked texts of a page: what stands before each mark, and the name in it.
fn marked(prose: &str) -> Vec<(&str, &str)> {
    let positions = prose.match_indices(MARK).map(|(at, _)| at);
    positions
        .map(|at| {
            let rest = &prose[at + MARK.len()..];
            let name = rest.split(" -->").next().unwrap_or_default();
            (prose[..at].trim_end(), name)
        })
        .collect()
}

#[test]
fn marked_figures_are_those_of_the_benchmarks() {
    let figures = figures();
    let mut shown = BTreeSet::new();
    let mut wrong = Vec::new();
    for (page, text) in pages().into_iter().chain(tables()) {
        for (before, name) in marked(&prose(&text)) {
            let Some(Figure { value, unit, .. }) = figures.get(name) else {
                wrong.push(format!("{page}: {FILE} has no {name}"));
                continue;
            };
            shown.insert(name.to_owned());
            if !ends_with(before, value) && !ends_with(before, &format!("{value} {unit}")) {
                wrong.push(format!("{page}: {name} is {value} {unit}"));
            }
        }
    }
    assert!(wrong.is_empty(), "figures that differ from {FILE}:\n{}", wrong.join("\n"));
    let unused: Vec<_> = figures.keys().filter(|name| !shown.contains(*name)).collect();
    assert!(unused.is_empty(), "no page shows {unused:?} of {FILE}");
}

#[test]
fn every_figure_is_marked() {
    let of_page = |(page, text): (String, String)| {
        unmarked(&prose(&text)).into_iter().map(move |figure| format!("{page}: {figure}"))
    };
    let found: Vec<_> = pages().into_iter().flat_map(of_page).collect();
    assert!(found.is_empty(), "figures without an entry in {FILE}:\n{}", found.join("\n"));
}

#[test]
fn every_entry_says_where_it_comes_from() {
    for (name, figure) in figures() {
        let starts = |begin: &str| figure.command.contains(begin);
        assert!(starts("benches/") || starts("cargo "), "{name}: {}", figure.command);
        assert!(figure.machine.contains("processors"), "{name}: {}", figure.machine);
        let date: Vec<_> = figure.date.split('-').map(str::len).collect();
        assert_eq!(date, [4, 2, 2], "{name}: {}", figure.date);
        assert!(figure.value.starts_with(|first: char| first.is_ascii_digit()), "{name}");
    }
}

#[test]
fn marks_and_figures_are_found() {
    let page = "At 3.5 MB/s<!-- figure: a --> of\n40 GB/s, 2 to 3 times<!-- figure: b -->.\n```\n7 ms\n```\n(9 µs) in 5 s";
    let prose = prose(page);
    assert_eq!(unmarked(&prose), ["40 GB/s,", "(9 µs)"]);
    let marked = marked(&prose);
    assert_eq!(marked.iter().map(|(_, name)| *name).collect::<Vec<_>>(), ["a", "b"]);
    assert!(ends_with(marked[0].0, "3.5 MB/s") && !ends_with(marked[0].0, "5 MB/s"));
    assert!(ends_with(marked[1].0, "2 to 3 times"));
}
