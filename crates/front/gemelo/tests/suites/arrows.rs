//! Tests that the arrows between crates lead down in the picture of `ARCHITECTURE.md`.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that each crate uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The heading above the picture.
const HEADING: &str = "\n## Arrows\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn architecture() -> String {
    std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

/// The text below the heading, up to the next heading of its level.
fn section(text: &str) -> &str {
    let section = text.split_once(HEADING).expect("ARCHITECTURE.md has a section Arrows").1;
    section.split("\n## ").next().unwrap()
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

#[test]
fn each_arrow_leads_to_a_lower_line_of_the_picture() {
    let text = architecture();
    let picture = section(&text).split("```").nth(1).expect("a picture");
    let mut line_of = BTreeMap::new();
    for (line, words) in picture.lines().enumerate() {
        line_of.extend(words.split_whitespace().map(|name| (name, line)));
    }
    let arrows = of_cargo();
    assert!(arrows.len() > 10);
    for (name, used) in arrows {
        let line = line_of.get(name.as_str()).unwrap_or_else(|| panic!("{name} in the picture"));
        for used in used {
            assert!(line_of[used.as_str()] > *line, "{name} -> {used} leads up");
        }
    }
}
