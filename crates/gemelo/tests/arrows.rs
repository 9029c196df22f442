//! Tests that the arrows between crates in the `Cargo.toml` files equal the table in
//! `ARCHITECTURE.md`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that each crate uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The heading of the table, and of the picture that precedes it.
const HEADING: &str = "\n## Arrows\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn architecture() -> String {
    std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

/// The text below the heading, up to the next heading of its level.
fn section(text: &str) -> &str {
    let section = text.split_once(HEADING).expect("ARCHITECTURE.md has a section Arrows").1;
    section.split("\n## ").next().unwrap()
}

/// The names in backquotes.
fn names(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn listed() -> Arrows {
    let text = architecture();
    let rows = section(&text).lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        assert_eq!(cells.len(), 2, "{row}");
        (names(cells[0]).pop_first().unwrap(), names(cells[1]))
    })
    .collect()
}

/// The name of a crate without the prefix of the workspace.
fn short(name: &str) -> Option<&str> {
    if name == "gemelo" { Some(name) } else { name.strip_prefix("gemelo-") }
}

fn of_cargo() -> Arrows {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let package = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        // Dependencies of tests alone have a kind; they are in no product.
        let used = dependencies.filter(|dependency| dependency["kind"].is_null());
        let used = used.filter_map(|dependency| short(dependency["name"].as_str().unwrap()));
        let name = short(package["name"].as_str().unwrap()).unwrap();
        (name.to_owned(), used.map(str::to_owned).collect())
    };
    metadata["packages"].as_array().unwrap().iter().map(package).collect()
}

/// The arrows of `these` that are not among `others`.
fn missing(these: &Arrows, others: &Arrows) -> Vec<String> {
    let mut missing = Vec::new();
    for (name, used) in these {
        match others.get(name) {
            None => missing.push(name.clone()),
            Some(others) => {
                missing.extend(used.difference(others).map(|used| format!("{name} -> {used}")));
            }
        }
    }
    missing
}

#[test]
fn every_arrow_is_listed_and_every_listed_arrow_exists() {
    let (listed, of_cargo) = (listed(), of_cargo());
    assert!(of_cargo.len() > 10);
    assert_eq!(missing(&of_cargo, &listed), [""; 0], "to be listed in ARCHITECTURE.md, or removed");
    assert_eq!(missing(&listed, &of_cargo), [""; 0], "listed in ARCHITECTURE.md, but no crate has");
}

#[test]
fn each_arrow_leads_to_a_lower_line_of_the_picture() {
    let text = architecture();
    let picture = section(&text).split("```").nth(1).expect("a picture before the table");
    let mut line_of = BTreeMap::new();
    for (line, words) in picture.lines().enumerate() {
        line_of.extend(words.split_whitespace().map(|name| (name, line)));
    }
    for (name, used) in of_cargo() {
        let line = line_of.get(name.as_str()).unwrap_or_else(|| panic!("{name} in the picture"));
        for used in used {
            assert!(line_of[used.as_str()] > *line, "{name} -> {used} leads up");
        }
    }
}

#[test]
fn a_missing_arrow_is_found_in_both_directions() {
    let arrows = |used: &[&str]| {
        let used = used.iter().map(|name| (*name).to_owned()).collect();
        Arrows::from([("load".to_owned(), used)])
    };
    let (one, two) = (arrows(&["base"]), arrows(&["base", "volume"]));
    assert_eq!(missing(&two, &one), ["load -> volume"]);
    assert!(missing(&one, &two).is_empty());
    assert_eq!(missing(&one, &Arrows::new()), ["load"]);
}
