//! Tests of the Markdown pages: every link and anchor has a target, every page can be reached,
//! lines are short, and commands have only options that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// Columns of a line; tables, code and lone links may be longer.
const MAX_COLUMNS: usize = 100;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

/// Returns all pages by path, except those in hidden directories and in `target`.
fn pages() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                pending.push(path);
            } else if name.ends_with(".md") {
                found.insert(path.clone(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    assert!(found.len() > 20);
    found
}

/// The lines of a page outside of code blocks, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push((index + 1, line));
        }
    }
    assert!(!is_code, "a code block has no end");
    lines
}

/// A line without its inline code.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The targets of links and images in a line, also of HTML images.
fn links(line: &str) -> Vec<String> {
    let line = without_code(line);
    let of_markdown = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let of_html = line.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let reference = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    let of_references = reference.map(|(_, target)| target);
    of_markdown.chain(of_html).chain(of_references).map(str::to_owned).collect()
}

/// The anchors that GitHub gives to the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen = BTreeMap::<String, usize>::new();
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        let Some(heading) = line.strip_prefix('#') else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept =
            heading.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        let anchor: String = kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect();
        let count = seen.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => (),
            part => normal.push(part),
        }
    }
    normal
}

fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

#[test]
fn links_and_anchors_lead_somewhere() {
    let pages = pages();
    let mut wrong = Vec::new();
    for (path, text) in &pages {
        for (number, line) in prose(text) {
            for link in links(line).iter().filter(|link| !is_elsewhere(link)) {
                let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
                let there = if file.is_empty() {
                    path.clone()
                } else {
                    normal(&path.parent().unwrap().join(file))
                };
                let known = pages.get(&there);
                let is_good = there.exists()
                    && (anchor.is_empty()
                        || known.is_some_and(|text| anchors(text).contains(anchor)));
                if !is_good {
                    wrong.push(format!("{}:{number}: {link}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "links to nothing:\n{}", wrong.join("\n"));
}

#[test]
fn every_page_can_be_reached_from_the_readme() {
    let pages = pages();
    let mut reached = BTreeSet::new();
    let mut pending = vec![root().join("README.md")];
    while let Some(path) = pending.pop() {
        let Some(text) = pages.get(&path) else { continue };
        if reached.insert(path.clone()) {
            let links = prose(text).into_iter().flat_map(|(_, line)| links(line));
            let files = links.filter(|link| !is_elsewhere(link));
            let files = files.filter_map(|link| link.split('#').next().map(str::to_owned));
            pending.extend(files.map(|file| normal(&path.parent().unwrap().join(file))));
        }
    }
    let missed: Vec<_> = pages.keys().filter(|path| !reached.contains(*path)).collect();
    assert!(missed.is_empty(), "no link leads from README.md to {missed:?}");
}

#[test]
fn lines_are_short() {
    let mut long = Vec::new();
    for (path, text) in pages() {
        for (number, line) in prose(&text) {
            let is_table = line.trim_start().starts_with('|');
            // A long link cannot be broken.
            let has_room = line.trim().contains(' ');
            if line.chars().count() > MAX_COLUMNS && !is_table && has_room {
                long.push(format!("{}:{number}", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "lines of more than {MAX_COLUMNS} columns:\n{}", long.join("\n"));
}

#[test]
fn files_of_the_source_that_pages_name_exist() {
    let mut missing = Vec::new();
    for (path, text) in pages() {
        for (number, line) in prose(&text) {
            let codes = line.split('`').skip(1).step_by(2);
            for code in codes.filter(|code| code.starts_with("crates/")) {
                // `crates/<name>` and globs stand for many.
                if !code.contains(['<', '*']) && !root().join(code).exists() {
                    missing.push(format!("{}:{number}: {code}", path.display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "files that are not there:\n{}", missing.join("\n"));
}

/// Compares a picture with what a script makes, and says how to make it again.
fn assert_is_current(picture: &str, script: &str, arguments: &[&str], input: Option<&str>) {
    let pictures = root().join("docs/pictures");
    let mut command = Command::new(root().join(script));
    command.args(arguments);
    if let Some(input) = input {
        command.stdin(fs::File::open(pictures.join(input)).unwrap());
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let is_current = output.stdout == fs::read(pictures.join(picture)).unwrap();
    assert!(is_current, "{script} {arguments:?} makes another docs/pictures/{picture}");
}

#[test]
fn pictures_are_what_their_scripts_make() {
    if !gemelo_tools::has_tool("python3") {
        return;
    }
    assert_is_current("demo.svg", "scripts/terminal-svg.py", &[], Some("demo.txt"));
    for chart in ["space", "speed"] {
        assert_is_current(&format!("{chart}.svg"), "scripts/bars-svg.py", &[chart], None);
    }
}

/// The help of every command that was asked for, by its words.
#[derive(Default)]
struct Helps {
    known: BTreeMap<Vec<String>, String>,
}

impl Helps {
    fn of(&mut self, words: &[String]) -> &str {
        let ask = || crate::common::gemelo(&[words, &["--help".to_owned()]].concat()).out;
        self.known.entry(words.to_vec()).or_insert_with(ask)
    }

    fn has_command(&mut self, words: &[String], name: &str) -> bool {
        crate::common::commands_in(self.of(words)).iter().any(|known| known == name)
    }

    fn has_option(&mut self, words: &[String], name: &str) -> bool {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        let mut has = |words: &[String]| {
            self.of(words).split(|letter| !is_part(letter)).any(|word| word == name)
        };
        // These have the settings of pools as options, which their helps do not list.
        let has_settings = matches!(words.join(" ").as_str(), "serve" | "pool create");
        has(words) || has_settings && has(&["pool".to_owned(), "set".to_owned()])
    }

    /// Returns the first word of a command line, after `gemelo`, that gemelo does not know.
    fn unknown(&mut self, line: &str) -> Option<String> {
        let mut words = Vec::new();
        let mut may_descend = true;
        for token in line.split_whitespace().map(|token| token.trim_matches(['\'', '"', ',', '.']))
        {
            if ["|", ">", "<", "&", "&&", ";", "#", "||"].contains(&token) {
                break;
            }
            if let Some(option) = token.strip_prefix("--").filter(|option| !option.is_empty()) {
                let name = option.split('=').next().unwrap_or_default();
                if !self.has_option(&words, &format!("--{name}")) {
                    return Some(token.to_owned());
                }
            } else if may_descend && self.has_command(&words, token) {
                words.push(token.to_owned());
                continue;
            } else if may_descend
                && words.is_empty()
                && token.starts_with(|letter: char| letter.is_ascii_lowercase())
            {
                return Some(token.to_owned());
            }
            may_descend = false;
        }
        None
    }
}

/// The command lines of gemelo in a page, without `gemelo`: those of code blocks, and inline ones.
fn command_lines(text: &str) -> Vec<String> {
    // A line that ends with a backslash goes on in the next one.
    let joined = text.split("\\\n").map(str::trim_start).collect::<Vec<_>>().join("");
    let mut lines = Vec::new();
    let mut is_code = false;
    for line in joined.lines() {
        let line = line.trim();
        if line.starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            let command = line.trim_start_matches("$ ").trim_start_matches("sudo -u gemelo ");
            let command = command.split('#').next().unwrap_or_default().trim();
            // A row of a table of output has gaps.
            let command = Some(command).filter(|command| !command.contains("   "));
            lines.extend(
                command.and_then(|command| command.strip_prefix("gemelo ")).map(str::to_owned),
            );
        } else {
            let codes = line.split('`').skip(1).step_by(2);
            lines.extend(codes.filter_map(|code| code.strip_prefix("gemelo ")).map(str::to_owned));
        }
    }
    lines
}

#[test]
fn commands_in_pages_have_only_options_that_exist() {
    let mut helps = Helps::default();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (path, text) in pages() {
        for line in command_lines(&text) {
            count += 1;
            if let Some(word) = helps.unknown(&line) {
                wrong.push(format!("{}: '{word}' in: gemelo {line}", path.display()));
            }
        }
    }
    assert!(count > 200, "{count} command lines");
    assert!(wrong.is_empty(), "unknown to gemelo:\n{}", wrong.join("\n"));
}

/// Which blocks are not run, and why, is in the script.
#[test]
fn commands_in_code_blocks_of_pages_run() {
    if !gemelo_tools::has_tool("python3") {
        return;
    }
    let mut script = Command::new("python3");
    script.arg(root().join("scripts/run-pages.py"));
    script.env("GEMELO", env!("CARGO_BIN_EXE_gemelo"));
    let output = script.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    eprintln!("{said}");
}

#[test]
fn links_and_anchors_are_found() {
    assert_eq!(links("see [a](b.md#c), `[x](y)`, ![d](e.svg)"), ["b.md#c", "e.svg"]);
    assert_eq!(links(r#"<img src="docs/x.svg">"#), ["docs/x.svg"]);
    assert_eq!(links("[a]: b.md"), ["b.md"]);
    let found = anchors(
        "# What `gemelo scan` does\n```\n# no heading\n```\n## Off-line, too\n## Off-line, too\n",
    );
    let expected = ["what-gemelo-scan-does", "off-line-too", "off-line-too-1"].map(str::to_owned);
    assert_eq!(found, expected.into_iter().collect());
}
