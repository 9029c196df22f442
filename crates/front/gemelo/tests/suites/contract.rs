//! Tests of rules for every subcommand, which are found through `--help`: help, wrong options,
//! closed pipes. Every command that reads a file is listed in [`READERS`] and tested with missing,
//! corrupt and empty input. A failure must leave outputs untouched.

use crate::common::{Ran, gemelo};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// A command that reads files, with `INPUT` and `OUTPUT` in the place of theirs.
struct Reader {
    words: &'static [&'static str],
    /// `true` if the command refuses meaningless bytes. Commands that accept any data do not.
    refuses_garbage: bool,
    /// `true` if the command refuses an empty file.
    refuses_empty: bool,
}

const fn reader(words: &'static [&'static str]) -> Reader {
    Reader { words, refuses_garbage: true, refuses_empty: true }
}

/// Every command that reads files.
const READERS: &[Reader] = &[
    reader(&["distribution", "show", "INPUT", "--json", "OUTPUT"]),
    reader(&["distribution", "compare", "personal", "INPUT", "--json", "OUTPUT"]),
    reader(&["distribution", "check", "INPUT"]),
    reader(&["distribution", "scale", "INPUT", "--blocks", "9", "--output", "OUTPUT"]),
    reader(&["distribution", "convert", "INPUT", "--output", "OUTPUT"]),
    reader(&["generate", "--distribution", "INPUT", "--bytes", "1m", "OUTPUT"]),
    reader(&[
        "bench",
        "--distribution",
        "INPUT",
        "--target",
        "null:",
        "--bytes",
        "1m",
        "--json",
        "OUTPUT",
    ]),
    // An empty job file leaves all to the command line.
    Reader {
        refuses_empty: false,
        ..reader(&["bench", "INPUT", "--target", "null:", "--bytes", "1m"])
    },
    reader(&[
        "suite",
        "--distribution",
        "INPUT",
        "--target",
        "null:",
        "--bytes",
        "1m",
        "--json",
        "OUTPUT",
    ]),
    reader(&["filebench", "INPUT", "--json", "OUTPUT"]),
    reader(&["report", "INPUT", "--output", "OUTPUT"]),
    reader(&["verify", "INPUT"]),
    reader(&["log", "INPUT"]),
    Reader {
        refuses_garbage: false,
        refuses_empty: false,
        words: &["scan", "INPUT", "--json", "OUTPUT"],
    },
    reader(&["scan", "merge", "INPUT", "--json", "OUTPUT"]),
    // An empty configuration leaves all defaults.
    Reader {
        refuses_empty: false,
        ..reader(&["dedisbench", "--dry-run", "-p", "-w", "-t1", "-fINPUT"])
    },
    reader(&["replay", "INPUT", "--target", "null:", "--json", "OUTPUT"]),
    reader(&["compare", "INPUT", "INPUT", "--json", "OUTPUT"]),
    reader(&["trace", "stat", "INPUT", "--json", "OUTPUT"]),
    reader(&["trace", "convert", "INPUT", "--to", "fiu", "--output", "OUTPUT"]),
    reader(&[
        "trace",
        "synthesize",
        "--distribution",
        "INPUT",
        "--records",
        "9",
        "--output",
        "OUTPUT",
    ]),
    reader(&["pool", "stat", "INPUT", "--json", "OUTPUT"]),
    reader(&["pool", "gc", "INPUT"]),
    reader(&["pool", "find", "INPUT"]),
    reader(&["pool", "scrub", "INPUT"]),
    reader(&["pool", "arrange", "INPUT"]),
    reader(&["pool", "recompress", "INPUT"]),
    reader(&["pool", "check", "INPUT", "--repair"]),
    reader(&["pool", "grow", "INPUT", "--capacity", "1g"]),
    // A directory without pools is an answer.
    Reader { refuses_garbage: false, ..reader(&["pool", "ls", "INPUT"]) },
    reader(&["pool", "rm", "INPUT", "--force"]),
    reader(&["pool", "hand-over", "INPUT"]),
    reader(&["volume", "create", "INPUT/a", "--size", "1m"]),
    reader(&["volume", "ls", "INPUT"]),
    reader(&["volume", "stat", "INPUT/a", "--json", "OUTPUT"]),
    reader(&["volume", "resize", "INPUT/a", "--size", "1m"]),
    reader(&["volume", "rename", "INPUT/a", "b"]),
    reader(&["volume", "rm", "INPUT/a", "--force"]),
    reader(&["volume", "snapshot", "INPUT/a", "b"]),
    reader(&["volume", "clone", "INPUT/a", "b"]),
    reader(&["volume", "set", "INPUT/a", "--dedup", "off"]),
    reader(&["volume", "export", "INPUT/a", "OUTPUT"]),
    reader(&["volume", "diff", "INPUT/a", "INPUT/b", "--json", "OUTPUT"]),
    reader(&["volume", "send", "INPUT/a"]),
    reader(&["volume", "receive", "INPUT/a"]),
    reader(&["volume", "copy", "INPUT/a", "OUTPUT/a"]),
    // Any data can be imported.
    Reader { refuses_garbage: false, ..reader(&["volume", "import", "INPUT", "OUTPUT/a"]) },
    reader(&["serve", "INPUT", "--listen", "unix:OUTPUT"]),
];

/// Commands that read no file.
const OTHERS: &[&[&str]] = &[
    &["campaign", "clean"],
    &["campaign", "ls"],
    &["campaign", "report"],
    &["campaign", "run"],
    &["completions"],
    &["distribution", "fit"],
    &["domain", "check"],
    &["domain", "create"],
    &["domain", "ls"],
    &["domain", "stat"],
    &["manual"],
    &["schema"],
    &["pool", "create"],
    &["pool", "estimate"],
];

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
    let names = help
        .out
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with(' '))
        // Longer descriptions go on deeper.
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect();
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
fn every_command_has_help_and_refuses_unknown_options() {
    let leaves = leaves();
    assert!(leaves.len() > READERS.len() / 2);
    for words in leaves {
        let message = refused(&[words.clone(), strings(&["--no-such-option"])].concat());
        assert!(message.contains("--no-such-option"), "{words:?}: {message}");
    }
    assert!(refused(&strings(&["no-such-command"])).contains("no-such-command"));
    let version = checked(&strings(&["--version"]));
    assert_eq!(version.out, format!("gemelo {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_command_is_listed_here() {
    for words in leaves() {
        let called =
            |list: &[&str]| list.iter().zip(&words).filter(|(one, other)| *one == other).count();
        let known = READERS.iter().map(|reader| reader.words).chain(OTHERS.iter().copied());
        assert!(
            known.into_iter().any(|list| called(list) == words.len()),
            "add `gemelo {}` to READERS or OTHERS",
            words.join(" ")
        );
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

/// The words with their places filled in.
fn filled(reader: &Reader, input: &Path, output: &Path) -> Vec<String> {
    let fill = |word: &&str| {
        word.replace("INPUT", input.to_str().unwrap()).replace("OUTPUT", output.to_str().unwrap())
    };
    reader.words.iter().map(fill).collect()
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
    for reader in READERS {
        let mut inputs = vec!["missing"];
        if reader.refuses_garbage {
            inputs.extend(["bytes", "zeros", "line", "directory"]);
        }
        if reader.refuses_empty {
            inputs.push("empty");
        }
        for name in inputs {
            let words = filled(reader, &path(name), &path("new"));
            let message = refused(&words);
            assert!(message.contains(path(name).to_str().unwrap()), "{words:?}: {message}");
            // These are words of libraries, and not of users.
            for raw in ["fill whole buffer", "EOF while parsing a value"] {
                assert!(!message.contains(raw), "{words:?}: {message}");
            }
            assert!(message.len() < 2000, "{words:?}: a message of {} bytes", message.len());
            assert!(!path("new").exists(), "{words:?}");
            refused(&filled(reader, &path(name), &path("kept")));
        }
        assert_eq!(fs::read_to_string(path("kept")).unwrap(), "precious", "{:?}", reader.words);
        assert!(
            fs::read_dir(directory.path()).unwrap().count() == 6,
            "{:?} left something",
            reader.words
        );
    }
}
