//! Tests of rules for every subcommand, which are found through `--help`: help, wrong options,
//! closed pipes. Every command of the list that reads a file is tested with missing, corrupt and
//! empty input. A failure must leave outputs untouched.

use crate::common::{Ran, commands_in, gemelo};
use gemelo::list::COMMANDS;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The commands that do something, as the words that call them.
fn leaves() -> Vec<Vec<String>> {
    let mut leaves = Vec::new();
    let mut pending = vec![Vec::new()];
    while let Some(words) = pending.pop() {
        let (takes_arguments, below) = subcommands(&words);
        pending.extend(below.into_iter().map(|name| [words.clone(), vec![name]].concat()));
        if takes_arguments {
            leaves.push(words);
        }
    }
    leaves
}

/// Returns whether these words are a complete command, and the names under "Commands:" in its help.
fn subcommands(words: &[String]) -> (bool, Vec<String>) {
    let help = checked(&[words, &["--help".to_owned()]].concat());
    assert_eq!((help.status, help.err.as_str()), (0, ""), "{words:?} --help");
    assert!(help.out.contains("Usage: gemelo"), "{words:?} --help: {}", help.out);
    let usage = help.out.lines().find(|line| line.starts_with("Usage: ")).unwrap_or_default();
    let names = commands_in(&help.out);
    (!usage.ends_with("<COMMAND>"), names)
}

/// Runs a command and checks what holds for all: no panic.
fn checked(words: &[String]) -> Ran {
    let ran = gemelo(words);
    assert!(!ran.err.contains("panicked"), "{words:?}: {}", ran.err);
    ran
}

fn refused(words: &[String]) -> String {
    let ran = checked(words);
    assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{words:?}: {}", ran.err);
    assert!(!ran.err.trim().is_empty(), "{words:?} says nothing");
    ran.err
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn every_command_has_help_with_examples_and_refuses_unknown_options() {
    let leaves = leaves();
    assert!(leaves.len() > 50);
    for words in leaves {
        let help = checked(&[words.clone(), strings(&["--help"])].concat()).out;
        assert!(help.contains("\nExamples:\n  "), "{words:?}: {help}");
        let message = refused(&[words.clone(), strings(&["--no-such-option"])].concat());
        assert!(message.contains("--no-such-option"), "{words:?}: {message}");
    }
    assert!(refused(&strings(&["no-such-command"])).contains("no-such-command"));
    let version = checked(&strings(&["--version"]));
    assert_eq!(version.out, format!("gemelo {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_list_has_every_command_and_says_which_make_results() {
    let found: BTreeSet<String> = leaves().iter().map(|words| words.join(" ")).collect();
    let listed: Vec<String> = COMMANDS.iter().map(|command| command.name.to_owned()).collect();
    assert_eq!(listed.len(), listed.iter().collect::<BTreeSet<_>>().len(), "one entry a command");
    assert_eq!(found, BTreeSet::from_iter(listed));
    for command in COMMANDS {
        let words: Vec<&str> = command.name.split(' ').chain(["--help"]).collect();
        let has_option = checked(&strings(&words)).out.contains("--json <FILE>");
        // The records of a campaign have places of their own.
        let is_expected = command.makes_results() && command.name != "campaign run";
        assert_eq!(has_option, is_expected, "{}", command.name);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for words in leaves().into_iter().map(|words| [words, strings(&["--help"])].concat()).chain([
        strings(&["--help"]),
        strings(&["distribution", "show", "personal"]),
        strings(&["distribution", "convert", "personal"]),
    ]) {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_gemelo"))
            .args(&words)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        assert!(output.status.success(), "{words:?}: {}", output.status);
    }
}

/// The words of a call with its places filled in.
fn filled(words: &[&str], input: &Path, output: &Path) -> Vec<String> {
    let fill = |word: &&str| {
        word.replace("INPUT", input.to_str().unwrap()).replace("OUTPUT", output.to_str().unwrap())
    };
    words.iter().map(fill).collect()
}

#[test]
fn input_that_is_not_there_or_makes_no_sense_is_named_and_nothing_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("empty"), "").unwrap();
    fs::write(
        path("bytes"),
        (0..4096u32).map(|index| (index * 37 % 256) as u8).collect::<Vec<_>>(),
    )
    .unwrap();
    fs::write(path("zeros"), vec![0u8; 10_000]).unwrap();
    fs::write(path("line"), "x".repeat(1 << 20)).unwrap();
    fs::write(path("kept"), "precious").unwrap();
    fs::create_dir(path("directory")).unwrap();
    let readers = COMMANDS.iter().flat_map(|command| {
        command.readers.iter().map(move |reader| (command.words(reader.arguments), reader))
    });
    for (command, reader) in readers {
        let mut inputs = vec!["missing"];
        if reader.refuses_garbage {
            inputs.extend(["bytes", "zeros", "line", "directory"]);
        }
        if reader.refuses_empty {
            inputs.push("empty");
        }
        for name in inputs {
            let words = filled(&command, &path(name), &path("new"));
            let message = refused(&words);
            assert!(message.contains(path(name).to_str().unwrap()), "{words:?}: {message}");
            // These are words of libraries, and not of users.
            for raw in ["fill whole buffer", "EOF while parsing a value"] {
                assert!(!message.contains(raw), "{words:?}: {message}");
            }
            assert!(message.len() < 2000, "{words:?}: a message of {} bytes", message.len());
            assert!(!path("new").exists(), "{words:?}");
            refused(&filled(&command, &path(name), &path("kept")));
        }
        assert_eq!(fs::read_to_string(path("kept")).unwrap(), "precious", "{command:?}");
        assert!(fs::read_dir(directory.path()).unwrap().count() == 6, "{command:?} left something");
    }
}
