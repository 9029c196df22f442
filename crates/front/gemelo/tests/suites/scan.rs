//! Tests of `gemelo scan`: output, files, exit status, and agreement with other programs.

use crate::common::{Ran, gemelo};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

struct Data {
    directory: TempDir,
}

impl Data {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes blocks of 4 KiB by their numbers, 0 being zeros, and then some bytes.
    fn blocks(&self, name: &str, numbers: impl IntoIterator<Item = u64>, tail: &[u8]) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = Vec::new();
        for number in numbers {
            bytes.extend(number.to_le_bytes().iter().cycle().take(4096));
        }
        bytes.extend_from_slice(tail);
        fs::write(&path, bytes).unwrap();
        self.text(name)
    }
}

fn ran(words: &[&str]) -> Ran {
    gemelo(words)
}

fn done(words: &[&str]) -> String {
    let ran = ran(words);
    assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{words:?}: {}", ran.out);
    ran.out
}

fn refused(words: &[&str]) -> String {
    let ran = ran(words);
    assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{words:?}: {}", ran.err);
    ran.err
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A line of a text by its first words, the rest with single spaces.
fn line<'text>(text: &'text str, start: &str) -> String {
    let found: Option<&'text str> = text.lines().find(|line| line.trim_start().starts_with(start));
    found
        .unwrap_or_else(|| panic!("no line '{start}' in {text}"))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn the_text_says_all_figures() {
    let data = Data::new();
    let file = data.blocks("data/file", (1..=200).chain([7; 20]).chain([0; 5]), b"tail");
    let text = done(&["scan", &data.text("data")]);
    assert_eq!(line(&text, "blocks"), "blocks 226 900.00 KiB");
    assert_eq!(line(&text, "zero blocks"), "zero blocks 5 20.00 KiB");
    assert_eq!(line(&text, "distinct  "), "distinct 201 90.95 %");
    assert_eq!(line(&text, "unique"), "unique 200 90.50 %");
    assert_eq!(line(&text, "distinct with duplicates"), "distinct with duplicates 1 0.45 %");
    assert_eq!(line(&text, "duplicates  "), "duplicates 20 9.05 %");
    for told in [
        "other blocks 221 880.00 KiB",
        "dedup ratio without zeros 1.0995",
        "space saved without zeros 80.00 KiB 9.09 %",
        "dedup ratio with zeros 1.1188",
        "space saved with zeros 96.00 KiB 10.67 %",
    ] {
        let (start, _) = told.split_once(|letter: char| letter.is_ascii_digit()).unwrap();
        assert_eq!(line(&text, start.trim()), told);
    }
    assert_eq!(line(&text, "10-49"), "10-49 1 21 9.50 %");
    assert!(line(&text, "21 copies").contains(&file), "{text}");
    assert!(!text.contains("5 copies"), "zeros are no content: {text}");
    assert_eq!(
        line(&text, "Compressibility"),
        "Compressibility and byte entropy, of 201 distinct contents"
    );
    assert!(line(&text, "Distance from copy").contains("mean 42.60 KiB"), "{text}");
}

#[test]
fn the_result_is_a_result_file() {
    let data = Data::new();
    data.blocks("data/file", [1, 2, 1], b"");
    let directory = data.text("data");
    let text = done(&["scan", "--block-size", "8k,4k", "--json", "-", &directory]);
    let result = json(&text);
    assert_eq!(result["schema"], "gemelo.scan/1");
    assert_eq!(result["input"]["paths"][0], directory.as_str());
    assert_eq!(result["input"]["fingerprint"], "xxh3-128");
    assert_eq!(result["result"]["block_sizes"][0]["block_bytes"], 4096);
    assert_eq!(result["result"]["block_sizes"][0]["duplicates"], 1);
    assert_eq!(result["result"]["block_sizes"][1]["short_blocks"], 1);
    assert_eq!(result["provenance"]["version"], env!("CARGO_PKG_VERSION"));
    let file = data.text("result.json");
    let printed = done(&["scan", "--json", &file, &directory]);
    assert!(printed.contains("Blocks of 4.00 KiB"));
    assert!(refused(&["scan", "--json", &file, &directory]).contains("--force"));
    done(&["scan", "--force", "--json", &file, &directory]);
}

#[test]
fn a_distribution_is_written_with_its_profile() {
    let data = Data::new();
    let file = data.blocks("file", (1..=50).chain([1, 2, 2]), b"");
    let out = data.text("d");
    done(&["scan", "--distribution", &out, &file]);
    assert_eq!(fs::read_to_string(data.path("d")).unwrap(), "0 48\n1 1\n2 1\n");
    let shown = done(&["distribution", "show", &out]);
    let profile = done(&["distribution", "show", &data.text("d.toml")]);
    assert!(shown.contains("53") && profile.contains("53"), "{shown}{profile}");
    assert!(refused(&["scan", "--distribution", &out, &file]).contains("exists"));
    fs::remove_file(&out).unwrap();
    // The profile alone is in the way as well.
    assert!(refused(&["scan", "--distribution", &out, &file]).contains("d.toml exists"));
    let several = data.text("s");
    done(&["scan", "--block-size", "4k,16k", "--distribution", &several, &file]);
    let mut written: Vec<String> = fs::read_dir(data.directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("s."))
        .collect();
    written.sort();
    assert_eq!(written, ["s.16384", "s.16384.toml", "s.4096", "s.4096.toml"]);
    fs::write(data.path("nothing"), b"").unwrap();
    let empty = ran(&["scan", "--distribution", &data.text("e"), &data.text("nothing")]);
    assert_eq!(empty.status, 1);
    assert!(empty.err.contains("cannot write the distribution"), "{}", empty.err);
}

#[test]
fn bad_input_is_refused_with_what_to_do() {
    let data = Data::new();
    let file = data.blocks("file", [1], b"");
    for (words, message) in [
        (vec!["scan"], "<PATH>"),
        (vec!["scan", "no-such-file"], "cannot scan no-such-file"),
        (vec!["scan", "/dev/null"], "character device"),
        (vec!["scan", &file, &file], "give only one of them"),
        (vec!["scan", "--block-size", "1000", &file], "multiple of 512"),
        (vec!["scan", "--block-size", "4k,4k", &file], "given twice"),
        (vec!["scan", "--block-size", "x", &file], "'x' is not a size"),
        (vec!["scan", "--block-size", "1t", &file], "multiple of 512"),
        (vec!["scan", "--exclude", "a[", &file], "exclude glob 'a['"),
        (vec!["scan", "--threads", "0", &file], "0 threads"),
        (vec!["scan", "--memory", "1m", &file], "give at least"),
        (vec!["scan", "--estimate=1m", &file], "give at least"),
        (vec!["scan", "--memory", "1g", "--estimate", &file], "cannot be used with"),
        (vec!["scan", "--estimate", "--save", "x", &file], "cannot be used with"),
        (vec!["scan", "--spill-dir", "/tmp", &file], "--memory"),
        (vec!["scan", "--save", "-", &file], "needs the name of a file"),
        (vec!["scan", "--save", "no/such/set", &file], "not a directory"),
        (vec!["scan", "--tail", "cut", &file], "skip"),
        (vec!["scan", "merge"], "<SET>"),
        (vec!["scan", "merge", &file], "not a saved fingerprint set"),
    ] {
        let error = refused(&words);
        assert!(error.contains(message), "{words:?}: {error}");
    }
}

#[test]
fn sets_are_saved_and_merged() {
    let data = Data::new();
    let (one, two) = (data.blocks("one", 1..=30, b""), data.blocks("two", 20..=40, b"x"));
    let (set_one, set_two, both) = (data.text("1.set"), data.text("2.set"), data.text("12.set"));
    done(&["scan", "--save", &set_one, &one]);
    done(&["scan", "--save", &set_two, &two]);
    // Of several places any may be told.
    let figures = |text: &str| {
        let mut size = json(text)["result"]["block_sizes"][0].clone();
        for repeated in size["max_repeated"].as_array_mut().unwrap() {
            assert!(repeated["place"].take()["path"].is_string());
        }
        size
    };
    let whole = done(&["scan", "--json", "-", &one, &two]);
    let merged = done(&["scan", "merge", "--save", &both, "--json", "-", &set_one, &set_two]);
    assert_eq!(figures(&merged), figures(&whole));
    let again = done(&["scan", "merge", "--json", "-", &both]);
    assert_eq!(figures(&again), figures(&whole));
    assert!(refused(&["scan", "--save", &set_one, &one]).contains("--force"));
    let mut bytes = fs::read(&set_one).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&set_one, bytes).unwrap();
    let damaged = ran(&["scan", "merge", &set_one]);
    assert!(damaged.status == 4 && damaged.err.contains("is damaged"), "{}", damaged.err);
}

#[test]
fn a_plan_and_an_estimate_say_what_they_are() {
    let data = Data::new();
    let file = data.blocks("file", 1..=100, b"");
    let plan = done(&["scan", "--plan", &file]);
    assert_eq!(line(&plan, "files"), "files 1");
    assert_eq!(line(&plan, "data"), "data 400.00 KiB");
    assert!(line(&plan, "time").contains("about"), "{plan}");
    let plan = json(&done(&["scan", "--plan", "--json", "-", &file]));
    assert_eq!(plan["schema"], "gemelo.scan-plan/1");
    assert_eq!(plan["result"]["block_sizes"][0]["blocks"], 100);
    let estimate = done(&["scan", "--estimate", &file]);
    assert!(estimate.contains("the figures are exact"), "{estimate}");
}

#[test]
fn savings_are_told_by_directory_and_by_files() {
    let data = Data::new();
    for name in ["first", "second"] {
        data.blocks(&format!("{name}/x"), 1..=100, b"");
    }
    data.blocks("second/y", 200..=249, b"");
    let text = done(&["scan", &data.text(""), "--by-directory"]);
    let row = line(&text, &format!("{} ", data.text("second")));
    assert!(row.ends_with(" 600.00 KiB 200.00 KiB 33.33 % 0 B 200.00 KiB"), "{text}");
    assert!(text.contains("\n  400.00 KiB saved, 400.00 KiB in 2 files\n"), "{text}");
    assert!(text.contains(&format!("\n    {}\n", data.text("first/x"))), "{text}");
    assert!(!done(&["scan", &data.text("")]).contains("by directory"));
}

#[test]
fn what_cannot_be_read_gives_status_1_and_all_the_rest() {
    let data = Data::new();
    let file = data.blocks("file", 1..=10, b"");
    let unreadable = "/sys/bus/platform/drivers_probe";
    if !Path::new(unreadable).exists() || fs::File::open(unreadable).is_ok() {
        gemelo_tools::skip!("{unreadable}, which cannot be read");
    }
    let ran = ran(&["scan", &file, unreadable]);
    assert_eq!(ran.status, 1);
    assert!(ran.err.contains(unreadable), "{}", ran.err);
    assert_eq!(line(&ran.out, "blocks"), "blocks 10 40.00 KiB");
    assert!(ran.out.contains("1 file or directory could not be read"));
}

/// A tree that takes long to scan, because its reader waits for nobody but holes take arithmetic
/// only.
#[test]
fn an_interrupt_prints_what_was_counted_so_far() {
    let data = Data::new();
    let file = fs::File::create(data.path("large")).unwrap();
    // Hashing 1 GiB of MD5 of odd bytes takes seconds.
    let block: Vec<u8> = (0..1 << 20).map(|n: u32| n as u8 | 1).collect();
    for _ in 0..1024 {
        std::io::Write::write_all(&mut &file, &block).unwrap();
    }
    let child = Command::new(env!("CARGO_BIN_EXE_gemelo"))
        .args(["scan", "--fingerprint", "md5", "--block-size", "512,4k,8k", "--threads", "1"])
        .arg(data.path("large"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success()
    );
    let output = child.wait_with_output().unwrap();
    let (text, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{text}{errors}");
    assert!(errors.contains("did not complete"), "{errors}");
    assert!(text.contains("Blocks of 512 B") && text.contains("dedup ratio"), "{text}");
}

#[test]
fn fio_dedupe_counts_the_same() {
    if !gemelo_tools::has_tool("fio-dedupe") {
        return;
    }
    let data = Data::new();
    let numbers = (1..=3000).chain((0..2000).map(|n| n * n % 450 + 1)).chain([0; 300]);
    let file = data.blocks("file", numbers, b"");
    let output =
        Command::new("fio-dedupe").args(["-B", "0", "-b", "4096", &file]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let figure = |name: &str| -> u64 {
        let (_, rest) =
            printed.split_once(name).unwrap_or_else(|| panic!("no {name} in {printed}"));
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
    };
    let result = json(&done(&["scan", "--json", "-", &file]));
    let size = &result["result"]["block_sizes"][0];
    assert_eq!(size["blocks"], figure("Extents="));
    assert_eq!(size["with_zeros"]["distinct"], figure("Unique extents="));
}
