//! Texts that named options, files and abilities which are not there.

use super::{files_below, text_of};
use crate::common::{commands_in, gemelo};
use std::collections::BTreeSet;
use std::fs;

/// Options of Prometheus' own programs.
const OF_OTHERS: &[&str] = &["--config"];

/// The words of all commands, without hidden ones.
fn commands() -> Vec<Vec<String>> {
    let mut found = vec![Vec::new()];
    let mut next = 0;
    while let Some(words) = found.get(next).cloned() {
        let help = gemelo(&[words.as_slice(), &["--help".to_owned()]].concat()).out;
        let names = commands_in(&help).into_iter();
        found.extend(names.map(|name| [words.clone(), vec![name]].concat()));
        next += 1;
    }
    found
}

/// The options that a help text declares: the first words of its entries.
fn declared(help: &str) -> BTreeSet<String> {
    let entries = help.lines().map(str::trim_start);
    let entries = entries.filter(|line| line.starts_with('-'));
    entries.flat_map(|line| options_in(line.split("  ").next().unwrap_or_default())).collect()
}

/// The options that a text names.
fn options_in(text: &str) -> Vec<String> {
    let is_part =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let words = text.split(|letter| !is_part(letter));
    words
        .filter(|word| word.len() > 3 && word.starts_with("--") && !word[2..].starts_with('-'))
        .map(|word| word.trim_end_matches('-').to_owned())
        .collect()
}

/// The alert named `--most-connections`, which no command has.
#[test]
fn options_that_helps_and_examples_name_exist() {
    let helps: Vec<(String, String)> = commands()
        .into_iter()
        .map(|words| (words.join(" "), gemelo(&[words, vec!["--help".to_owned()]].concat()).out))
        .collect();
    assert!(helps.len() > 40);
    let known: BTreeSet<String> = helps.iter().flat_map(|(_, help)| declared(help)).collect();
    assert!(known.len() > 150 && known.contains("--max-connections"), "{known:?}");
    let mut wrong = BTreeSet::new();
    let mut check = |place: &str, text: &str| {
        let unknown = options_in(text).into_iter();
        let unknown = unknown.filter(|option| !OF_OTHERS.contains(&option.as_str()));
        let unknown = unknown.filter(|option| !known.contains(option));
        wrong.extend(unknown.map(|option| format!("{place}: {option}")));
    };
    helps.iter().for_each(|(command, help)| check(&format!("help of {command}"), help));
    for path in [
        files_below("examples/prometheus"),
        files_below("examples/systemd"),
        files_below("contrib"),
    ]
    .concat()
    {
        check(&path.display().to_string(), &fs::read_to_string(&path).unwrap());
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn helps_tell_what_commands_do() {
    let help = |words: &[&str]| gemelo(&[words, &["--help"]].concat()).out;
    for (words, part) in [
        (&["volume", "set"][..], "compression"),
        (&["serve"], "vhost-user"),
        (&["pool", "scrub"], "member of the domain"),
    ] {
        let text = help(words);
        let about =
            text.split("Usage:").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(about.contains(part), "{words:?}: {about}");
    }
    assert!(!help(&["generate"]).contains("--hosts"), "generate has no --hosts");
}

/// `scan --report` said "from scan.json", and there was no such file.
#[test]
fn a_report_names_no_file_that_is_not_there() {
    let directory = tempfile::tempdir().unwrap();
    let name = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(name("data")).unwrap();
    fs::write(name("data/file"), [7; 65536]).unwrap();
    for (ending, more) in [("html", &[][..]), ("md", &[])] {
        let page = name(&format!("scan.{ending}"));
        let ran = gemelo(&[&["scan", &name("data"), "--report", &page], more].concat());
        assert_eq!(ran.status, 0, "{}", ran.err);
        let text = fs::read_to_string(&page).unwrap();
        assert!(!text.contains(".json"), "{ending}");
    }
    let (page, json) = (name("named.md"), name("named.json"));
    let ran = gemelo(&["scan", &name("data"), "--report", &page, "--json", &json]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(fs::read_to_string(&page).unwrap().contains("from named.json"));
}

#[test]
fn rates_take_thousands() {
    let load = ["bench", "--target", "null:", "--bytes", "64k", "--rate"];
    let ran = gemelo(&[&load[..], &["100k"]].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    let ran = gemelo(&[&load[..], &["fast"]].concat());
    assert!(ran.status == 2 && ran.err.contains("operations a second"), "{}", ran.err);
}

/// The first command of the guide wrote to a directory that was not there.
#[test]
fn the_guide_for_hosts_makes_its_directory_first() {
    let text = text_of("docs/guide/hosts.md");
    let made = text.find("$ mkdir test\n").unwrap();
    assert!(made < text.find("--target test").unwrap());
}
