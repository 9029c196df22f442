//! Tests that a type's name means one thing within a crate, and that its code stands together.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The wings of crates.
const WINGS: [&str; 6] = ["engine", "cluster", "foundation", "workload", "comparison", "front"];

/// Types that each command of the program has: its arguments, its subcommands, and the input of its
/// result.
const OF_EACH_COMMAND: [&str; 3] = ["Arguments", "Action", "Input"];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

/// The type that a line declares, unless it is one within something else.
fn declared_in(line: &str) -> Option<&str> {
    let rest = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let words = ["struct ", "enum ", "trait ", "type ", "union "];
    let name = words.iter().find_map(|word| rest.strip_prefix(word))?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    Some(&name[..end])
}

/// The names of types that the code of a file declares, without its tests and associated types.
fn declared(code: &str) -> BTreeSet<&str> {
    let code = code.split("\n#[cfg(test)]\nmod ").next().unwrap();
    code.lines().filter_map(declared_in).collect()
}

/// The sources of each crate of a wing, with their paths.
fn crates_of(wing: &str) -> Vec<Vec<(PathBuf, String)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let entries = fs::read_dir(root.join("crates").join(wing)).unwrap();
    let directories = entries.map(|entry| entry.unwrap().path().join("src"));
    let files_of = |directory: PathBuf| {
        let mut files = Vec::new();
        sources(&directory, &mut files);
        let read = |file: PathBuf| {
            let code = fs::read_to_string(&file).unwrap();
            (file, code)
        };
        files.into_iter().map(read).collect()
    };
    directories.filter(|directory| directory.is_dir()).map(files_of).collect()
}

#[test]
fn a_type_has_its_name_alone_in_its_crate() {
    let (mut twice, mut all) = (Vec::new(), 0);
    for (wing, files) in
        WINGS.iter().flat_map(|wing| crates_of(wing).into_iter().map(move |of| (*wing, of)))
    {
        let mut places: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for (file, code) in files {
            for name in declared(&code) {
                if wing == "front" && OF_EACH_COMMAND.contains(&name) {
                    continue;
                }
                places.entry(name.to_owned()).or_default().push(file.clone());
            }
        }
        all += places.len();
        twice.extend(places.into_iter().filter(|(_, files)| files.len() > 1));
    }
    assert!(all > 1500, "{all} types were found");
    assert!(twice.is_empty(), "names with two meanings: {twice:#?}");
}

/// The type that a line begins to implement something for.
fn implemented_in(line: &str) -> Option<&str> {
    let mut rest = line.strip_prefix("impl")?;
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.find(|c| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0
        })?;
        rest = &rest[end + 1..];
    }
    let rest = rest.split_once(" for ").map_or(rest, |(_, of)| of).trim_start();
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end])
}

/// Whoever follows a call finds the methods of a type in a file or two.
#[test]
fn what_a_type_of_the_engine_does_stands_in_three_files_at_most() {
    let (mut spread, mut all) = (Vec::new(), 0);
    for files in ["engine", "cluster"].into_iter().flat_map(crates_of) {
        let mut places: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
        let mut types = BTreeSet::new();
        for (file, code) in files {
            let code = code.split("\n#[cfg(test)]\nmod ").next().unwrap();
            types.extend(declared(code).into_iter().map(str::to_owned));
            for name in code.lines().filter_map(implemented_in) {
                places.entry(name.to_owned()).or_default().insert(file.clone());
            }
        }
        places.retain(|name, _| types.contains(name));
        all += places.len();
        spread.extend(places.into_iter().filter(|(_, files)| files.len() > 3));
    }
    assert!(all > 300, "{all} types were found");
    assert!(spread.is_empty(), "types in many files: {spread:#?}");
}
