//! Tests of the style of the repository: sizes of files, module heads, leftovers, and documents
//! that match the program.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a source file; most have a third of it.
const MAX_LINES: usize = 500;
/// Columns of a line of a comment or a document.
const MAX_COLUMNS: usize = 100;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

/// All files below a directory that end so, but for what is built or hidden.
fn files(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                found.extend(files(&path, ending));
            }
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| format!("{}: {error}", path.display()))
}

fn documents() -> Vec<(PathBuf, String)> {
    files(&root(), ".md").into_iter().map(|path| (path.clone(), read(&path))).collect()
}

#[test]
fn source_files_are_short_and_say_what_they_are_responsible_for() {
    let sources = files(&root(), ".rs");
    assert!(sources.len() > 20);
    for path in sources {
        let text = read(&path);
        assert!(text.starts_with("//! "), "{} has no module head", path.display());
        let lines = text.lines().count();
        assert!(lines <= MAX_LINES, "{} has {lines} lines, more than {MAX_LINES}", path.display());
    }
}

/// The formatter breaks lines of code, but not those of comments.
#[test]
fn comments_are_not_wider_than_code() {
    let mut wide = Vec::new();
    for path in files(&root(), ".rs") {
        for (number, line) in (1..).zip(read(&path).lines()) {
            let is_comment = line.trim_start().starts_with("//");
            // An address cannot be broken.
            let is_address = line.trim_start_matches(['/', ' ', '!']).starts_with("http");
            if is_comment && !is_address && line.chars().count() > MAX_COLUMNS {
                wide.push(format!("{}:{number}", path.display()));
            }
        }
    }
    assert!(wide.is_empty(), "comments of more than {MAX_COLUMNS} columns:\n{}", wide.join("\n"));
}

/// A test that was renamed would leave a row that points at nothing.
#[test]
fn the_list_of_mutations_names_tests_that_exist() {
    let sources: String = files(&root(), ".rs").iter().map(|path| read(path)).collect();
    let list = read(&root().join("crates/engine/volume/tests/mutations.md"));
    let is_name = |text: &&str| {
        let is_part = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
        text.contains('_') && text.chars().all(|char| is_part(char) || char == '_')
    };
    let names: Vec<&str> = list.split('`').filter(is_name).collect();
    assert!(names.len() > 50, "{} tests", names.len());
    let missing = |name: &&&str| {
        let forms = [format!("fn {name}("), format!("test_each_policy!({name},")];
        !forms.iter().any(|form| sources.contains(form))
    };
    let missing: Vec<&&str> = names.iter().filter(missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn nothing_is_left_for_later_and_nothing_names_the_machine_it_was_written_on() {
    // Put together here, so that this file passes.
    let leftovers =
        [["to", "do!"], ["FIX", "ME"], ["TO", "DO"], ["#[ig", "nore"], ["unimplem", "ented!"]];
    let places = [["/wo", "rk/"], ["/ro", "ot/"], ["/ho", "me/"]];
    for ending in [".rs", ".md", ".sh", ".toml", "Makefile"] {
        for path in files(&root(), ending) {
            let text = read(&path);
            for word in leftovers.iter().chain(&places).map(|parts| parts.concat()) {
                assert!(!text.contains(&word), "{} contains {word}", path.display());
            }
        }
    }
}

#[test]
fn the_architecture_names_every_crate() {
    let architecture = read(&root().join("ARCHITECTURE.md"));
    let manifests = files(&root().join("crates"), "Cargo.toml");
    assert!(manifests.len() > 10);
    for manifest in manifests {
        let name = manifest.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        assert!(architecture.contains(&format!("| `{name}` |")), "crate {name} in ARCHITECTURE.md");
    }
}

/// Clippy denies the functions of the standard library that read time and chance only where the
/// root of a crate says so.
#[test]
fn every_crate_reads_time_and_chance_from_base_only() {
    let line = "\n#![cfg_attr(not(test), deny(clippy::disallowed_methods))]\n";
    let roots = files(&root().join("crates"), ".rs").into_iter().filter(|path| {
        path.parent().is_some_and(|directory| directory.ends_with("src"))
            && ["lib.rs", "main.rs"].iter().any(|name| path.ends_with(name))
    });
    let mut checked = 0;
    for path in roots {
        assert!(read(&path).contains(line), "{} does not have the line {line}", path.display());
        checked += 1;
    }
    assert!(checked > 10);
    let clippy = read(&root().join("clippy.toml"));
    for name in ["time::Instant::now", "time::SystemTime::now", "hash::RandomState::new"] {
        assert!(clippy.contains(&format!("std::{name}")), "clippy.toml denies {name}");
    }
}

/// `thiserror` shows a path that a message names with replacement characters, which clippy does not
/// see: `path = path.shown()` behind the message shows it byte for byte.
#[test]
fn errors_show_paths_byte_for_byte() {
    let mut lossy = Vec::new();
    let sources = files(&root().join("crates"), ".rs");
    for path in sources.into_iter().filter(|path| !path.ends_with("tests/suites/tidy.rs")) {
        for part in read(&path).split("#[error(").skip(1) {
            let Some((message, item)) = part.split_once(")]") else { continue };
            for (at, _) in item.match_indices(": PathBuf") {
                let name = item[..at].rsplit([' ', '(']).next().unwrap();
                let is_named = message.contains(&format!("{{{name}}}"));
                if is_named && !message.contains(&format!("{name} = {name}.shown()")) {
                    lossy.push(format!("{}: {message}", path.display()));
                }
            }
        }
    }
    assert!(lossy.is_empty(), "{}", lossy.join("\n"));
}

#[test]
fn documents_that_users_look_for_are_there() {
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
    ] {
        assert!(root().join(name).is_file(), "{name}");
    }
    let changelog = read(&root().join("CHANGELOG.md"));
    assert!(
        changelog.contains(&format!("## {}", env!("CARGO_PKG_VERSION"))),
        "this version in CHANGELOG.md"
    );
}

/// The names under "Commands:" of a help text.
fn commands(words: &[&str]) -> Vec<String> {
    let help = crate::common::gemelo(&[words, &["--help"]].concat()).out;
    crate::common::commands_in(&help)
}

#[test]
fn every_command_is_documented() {
    let documented = documents().into_iter().map(|(_, text)| text).collect::<String>();
    for name in commands(&[]) {
        assert!(documented.contains(&format!("gemelo {name}")), "gemelo {name} in a document");
        for below in commands(&[&name]) {
            assert!(
                documented.contains(&format!("gemelo {name} {below}")),
                "gemelo {name} {below} in a document"
            );
        }
    }
}

#[test]
fn scripts_stop_at_the_first_error_and_can_be_run() {
    use std::os::unix::fs::PermissionsExt;
    let scripts = files(&root(), ".sh").into_iter().chain([root().join(".ci/run")]);
    for path in scripts {
        assert!(read(&path).contains("\nset -euo pipefail\n"), "{}", path.display());
        assert!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o111 != 0,
            "{}",
            path.display()
        );
    }
}

/// A crash suite that fails now and then has found a rare order of events. Trying it again would
/// hide just that.
#[test]
fn crash_suites_are_never_tried_again() {
    let config = read(&root().join(".config/nextest.toml"));
    let config: toml::Table = config.parse().unwrap();
    let all = &config["profile"]["all"];
    assert!(all["retries"].as_integer() > Some(0), "other tests may be tried again");
    let overrides = all["overrides"].as_array().unwrap();
    let never: Vec<&str> = overrides
        .iter()
        .filter(|one| one.get("retries").and_then(toml::Value::as_integer) == Some(0))
        .filter_map(|one| one["filter"].as_str())
        .collect();
    for suite in ["volume", "store", "format", "check", "domain", "member", "sharing", "model"] {
        let package = format!("package(gemelo-{suite})");
        assert!(never.iter().any(|filter| filter.contains(&package)), "{package} is tried again");
    }
    // The variable would override the profile.
    let run = read(&root().join(".ci/run"));
    assert!(run.contains("unset NEXTEST_RETRIES"));
}
