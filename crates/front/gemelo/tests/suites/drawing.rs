//! Tests that the drawing in `docs/internals/write.md` is that of the code, and that the answers in
//! `crates/engine/README.md` lead to what there is.

use std::fs;
use std::path::{Path, PathBuf};

/// Most steps that the drawing has for a write and for a read: more do not fit in a head.
const MAX_STEPS: [usize; 2] = [15, 10];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The parts of the drawing: what both have in common, a write, and a read.
fn parts() -> Vec<Vec<(PathBuf, String)>> {
    let text = fs::read_to_string(root().join("docs/internals/write.md")).unwrap();
    let drawing = text.split("```").nth(1).expect("write.md has a drawing");
    let step = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let path = words.next().filter(|word| word.ends_with(".rs"))?;
        Some((root().join("crates").join(path), words.next()?))
    };
    let parts = drawing.split("\n\n");
    parts.map(|part| part.lines().filter_map(step).collect()).collect()
}

/// Returns whether a file declares this type or has methods of it.
fn has_type(code: &str, name: &str) -> bool {
    let is_it = |line: &&str| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let is_declaration = line.starts_with("impl")
            || ["struct ", "enum ", "trait "].iter().any(|word| line.contains(word));
        is_declaration && words.any(|word| word == name)
    };
    code.lines().any(|line| is_it(&line))
}

#[test]
fn the_drawing_of_requests_names_files_and_types_that_there_are() {
    let parts = parts();
    assert_eq!(parts.len(), 3, "a common part, a write and a read");
    for (path, name) in parts.iter().flatten() {
        let code = fs::read_to_string(path).unwrap_or_else(|_| panic!("no {}", path.display()));
        assert!(has_type(&code, name), "{} has no type {name}", path.display());
    }
    for (part, most) in parts[1..].iter().zip(MAX_STEPS) {
        let steps = parts[0].len() + part.len();
        assert!(part.len() > 4 && steps <= most, "{steps} steps, at most {most}");
    }
}

/// The methods that the answers name, each with its file: `Type::method` (`path`).
fn answers() -> Vec<(String, String, PathBuf)> {
    let directory = root().join("crates/engine");
    let text = fs::read_to_string(directory.join("README.md")).unwrap();
    let quoted: Vec<&str> = text.split('`').collect();
    let answer = |part: &[&str]| {
        let [method, " (", path] = part else { return None };
        let (name, method) = method.split_once("::")?;
        Some((name.to_owned(), method.to_owned(), directory.join(path)))
    };
    quoted.windows(3).filter_map(answer).collect()
}

#[test]
fn the_answers_of_the_engine_name_methods_and_files_that_there_are() {
    let answers = answers();
    assert!(answers.len() > 10, "{answers:?}");
    for (name, method, path) in answers {
        let code = fs::read_to_string(&path).unwrap_or_else(|_| panic!("no {}", path.display()));
        assert!(has_type(&code, &name), "{} has no type {name}", path.display());
        let is_there =
            code.contains(&format!("fn {method}(")) || code.contains(&format!("fn {method}<"));
        assert!(is_there, "{} has no method {method} of {name}", path.display());
    }
}
