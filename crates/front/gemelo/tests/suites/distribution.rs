//! Tests of `gemelo distribution` with the built binary.

use crate::common::{Ran, gemelo, gemelo_reading};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn distribution(arguments: &[&str]) -> Ran {
    gemelo(&[&["distribution"], arguments].concat())
}

fn good(arguments: &[&str]) -> String {
    let ran = distribution(arguments);
    assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{arguments:?}");
    ran.out
}

fn bad(arguments: &[&str]) -> String {
    let ran = distribution(arguments);
    assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{arguments:?}: {}", ran.err);
    ran.err
}

fn write(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn show_prints_the_published_figures_of_personal() {
    let text = good(&["show", "personal"]);
    for line in ["29,530,586", "112.65 GiB", "76.57 %", "6.23 %", "17.21 %", "2.76", "225,165"] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

#[test]
fn show_writes_the_same_as_json() {
    let json: Value = serde_json::from_str(&good(&["show", "primary", "--json", "-"])).unwrap();
    assert_eq!(json["schema"], "gemelo.distribution/1");
    let share = json["result"][0]["duplicate_share"].as_f64().unwrap();
    assert!((share - 0.25).abs() < 0.001, "{share}");
    assert_eq!(json["result"][0]["ranges"][0]["duplicates"], "0");
    assert!(json["provenance"]["version"].is_string());
}

#[test]
fn several_distributions_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    let first = write(directory.path(), "first.dist", "0 50\n1 25\n");
    let other = write(directory.path(), "other.dist", "1 20\n0 60\n");
    let text = good(&["compare", &first, &other]);
    assert!(
        text.contains(
            "largest difference: +10.000 percentage points of blocks, in other.dist, at 0"
        ),
        "{text}"
    );
    assert_eq!(good(&["show", &first, &other]), text);
    assert!(good(&["compare", &first, &first]).ends_with("no range differs\n"));
    let json: Value =
        serde_json::from_str(&good(&["compare", &first, &other, "--json", "-"])).unwrap();
    assert_eq!(json["result"]["ranges"], serde_json::json!(["0", "1-4"]));
    assert_eq!(json["result"]["columns"][1]["range_shares"], serde_json::json!([0.6, 0.4]));
}

#[test]
fn a_distribution_comes_from_standard_input_too() {
    let ran = gemelo_reading("3 1\n0 6\n", &["distribution", "show", "-"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.contains("10  100.00 %"), "{}", ran.out);
}

#[test]
fn check_names_file_and_line_of_every_problem() {
    let directory = tempfile::tempdir().unwrap();
    let odd = write(directory.path(), "odd", "0 5\n0 6\n3 0\n");
    assert_eq!(
        good(&["check", &odd]),
        format!(
            "{odd}:2: the class of 0 duplicates is on an earlier line too; added up\n\
             {odd}:3: the class of 3 duplicates has no contents; left out\n{odd}: sound, 1 class, 11 blocks\n"
        )
    );
    let wrong = write(directory.path(), "wrong", "0 5\nx\n1 1 1\n");
    let message = bad(&["check", &wrong]);
    assert!(message.contains(&format!("{wrong}:2: expected")), "{message}");
    assert!(message.contains(&format!("\n{wrong}:3: expected")), "{message}");
    let mixed = distribution(&["check", &odd, &wrong, "nonsense"]);
    assert_eq!(mixed.status, 2);
    assert!(mixed.out.contains("sound") && mixed.err.contains("nonsense"));
}

#[test]
fn files_that_are_no_distribution_are_refused_with_their_name() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text, message) in [
        ("empty", "", "no blocks"),
        ("zeros", "0 0\n0 0\n", "no blocks"),
        ("large", "9223372036854775807 9223372036854775807\n", "more than 2^63"),
        ("toml", "schema = 'gemelo.profile/2'\n", "missing field"),
        ("json", "{}", "not a profile"),
        ("csv", "duplicates,contents\n0;1\n", "csv:2: expected"),
    ] {
        let path = write(directory.path(), name, text);
        let error = bad(&["show", &path]);
        assert!(error.contains(&path) && error.contains(message), "{error}");
    }
    fs::write(directory.path().join("bytes"), [0u8, 255, 254]).unwrap();
    assert!(bad(&["show", directory.path().join("bytes").to_str().unwrap()]).contains("bytes"));
    assert!(bad(&["show", directory.path().to_str().unwrap()]).contains("irectory"));
}

#[test]
fn scale_keeps_the_shares_and_tells_what_has_no_room() {
    let text = good(&["scale", "personal", "--bytes", "1g"]);
    assert!(text.contains("262,144"), "{text}");
    assert!(text.contains("cut short: 1 content of 225,165 duplicates"), "{text}");
    let written = good(&["scale", "personal", "--blocks", "123457", "--output", "-"]);
    let blocks: u64 = written
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(duplicates, contents)| {
            (duplicates.parse::<u64>().unwrap() + 1) * contents.parse::<u64>().unwrap()
        })
        .sum();
    assert_eq!(blocks, 123_457);
    assert!(
        bad(&["scale", "personal", "--bytes", "100"])
            .contains("smaller than a block of 4096 bytes")
    );
    assert!(bad(&["scale", "personal", "--blocks", "99999999999999999"]).contains("2^43"));
}

#[test]
fn scale_shows_what_the_sampled_algorithm_misses() {
    let text = good(&["scale", "personal", "--bytes", "8g", "--sampled"]);
    assert!(text.contains("90.75 %") && text.contains("5.89 %"), "{text}");
    let draw = || {
        good(&[
            "scale",
            "personal",
            "--blocks",
            "10000",
            "--sampled",
            "--seed",
            "5",
            "--output",
            "-",
        ])
    };
    assert_eq!(draw(), draw());
    let error = bad(&["scale", "unique", "--blocks", "9999999999", "--sampled", "--seed", "1"]);
    assert!(error.contains("leave out --seed"), "{error}");
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    let error = bad(&[
        "scale",
        "unique",
        "--blocks",
        "9",
        "--sampled",
        "--output",
        output.to_str().unwrap(),
    ]);
    assert!(error.contains("--seed") && !output.exists());
}

#[test]
fn convert_goes_through_every_format_and_back() {
    let directory = tempfile::tempdir().unwrap();
    let text = good(&["convert", "personal"]);
    let mut from = write(directory.path(), "start", &text);
    for name in ["a.toml", "b.json", "c.csv", "d.dist"] {
        let to = directory.path().join(name).to_str().unwrap().to_owned();
        assert_eq!(good(&["convert", &from, "--output", &to]), "");
        from = to;
    }
    assert_eq!(fs::read_to_string(&from).unwrap(), text);
    let csv = good(&["convert", &from, "--to", "csv"]);
    assert!(csv.starts_with("duplicates,contents\n0,22610369\n"));
    let profile = good(&["convert", &from, "--to", "profile", "--block-size", "8k"]);
    assert!(profile.contains("block_bytes = 8192"), "{profile}");
}

#[test]
fn nothing_is_overwritten_without_force() {
    let directory = tempfile::tempdir().unwrap();
    let kept = write(directory.path(), "kept", "precious");
    assert!(bad(&["convert", "unique", "--output", &kept]).contains("--force"));
    assert!(bad(&["show", "unique", "--json", &kept]).contains("--force"));
    assert!(bad(&["scale", "unique", "--blocks", "5", "--output", &kept]).contains("--force"));
    assert_eq!(fs::read_to_string(&kept).unwrap(), "precious");
    good(&["convert", "unique", "--output", &kept, "--force"]);
    assert_eq!(fs::read_to_string(&kept).unwrap(), "0 1\n");
}

#[test]
fn fit_reproduces_what_it_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fitted.toml").to_str().unwrap().to_owned();
    let figures = [
        "--unique-share",
        "76",
        "--duplicate-share",
        "18",
        "--duplicates-per-content",
        "2.76",
        "--max-duplicates",
        "20000",
        "--output",
        &file,
    ];
    let text = good(&[&["fit"][..], &figures].concat());
    for figure in ["75.83 %", "17.74 %", "6.43 %", "2.76", "20,000"] {
        assert!(text.contains(figure), "{figure} in\n{text}");
    }
    assert!(good(&["show", &file]).contains("fitted: 76 % of blocks unique"));
}

#[test]
fn fit_refuses_contradictions_with_the_reason() {
    let error = bad(&[
        "fit",
        "--unique-share",
        "76",
        "--duplicate-share",
        "18",
        "--duplicates-per-content",
        "9",
    ]);
    assert!(error.contains("so these have 3.00 duplicates on average, not 9"), "{error}");
    assert!(bad(&["fit"]).contains("give two of"));
    assert!(bad(&["fit", "--unique-share", "101"]).contains("0 to 100"));
}
