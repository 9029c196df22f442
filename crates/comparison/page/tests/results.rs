//! The report of single result files of every kind.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use gemelo_page::Report;
use std::path::{Path, PathBuf};

/// Returns a result file that the tests of the crate `figures` also use.
fn result(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../figures/tests/data").join(name)
}

#[test]
fn every_kind_of_result_has_a_report() {
    for (name, title, contents) in [
        ("bench.json", "# Benchmark of target\n", "operations a second"),
        ("suite.json", "# Benchmark of target\n", "**two** "),
        ("replay.json", "# Replay of a trace on target\n", "All figures"),
        ("filebench.json", "# Filebench: filebench.json", "All figures"),
        ("fio.json", "# fio: fio.json", "operations a second"),
        ("pool.json", "# Pool pool\n", "**pool** stores "),
        ("scan.json", "# Scan of t\n", "deduplication saves"),
    ] {
        let report = Report::of_results(&[result(name)]).unwrap();
        let text = report.markdown();
        assert!(text.starts_with(title), "{text}");
        assert!(text.contains(contents), "{name}: {text}");
        assert!(report.page().unwrap().contains("</html>"));
    }
}

#[test]
fn the_jobs_of_several_files_stand_side_by_side() {
    let files = [result("bench.json"), result("suite.json")];
    let text = Report::of_results(&files).unwrap().markdown();
    assert!(text.starts_with("# Results: 2 files"), "{text}");
    assert!(text.contains("| bench.json | suite.json: one |"), "{text}");
}

#[test]
fn a_job_shows_the_duplicates_that_it_was_asked_to_write_and_wrote() {
    let text = Report::of_results(&[result("bench.json")]).unwrap().markdown();
    assert!(text.contains("| copies of a content | blocks, asked | blocks, written |"), "{text}");
}

#[test]
fn an_access_log_shows_hot_spots() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("accesses");
    // A tenth of the blocks get nine tenths of the accesses.
    let line = |block: u32| format!("{block} {}\n", if block < 100 { 81 } else { 1 });
    std::fs::write(&log, (0..1000).map(line).collect::<String>()).unwrap();
    let text = Report::of_results(&[result("bench.json"), log]).unwrap().markdown();
    assert!(text.contains("| 10.0 % | 90.0 % |"), "{text}");
}

#[test]
fn savings_of_a_scan_are_those_of_its_figures() {
    let text = Report::of_results(&[result("scan.json")]).unwrap().markdown();
    assert!(text.contains("| block size | zeros | data | distinct |"), "{text}");
    assert!(text.contains("| 4 KiB | "), "{text}");
}

/// Returns the places of the numbers of a text in JSON.
fn numbers(text: &str) -> Vec<std::ops::Range<usize>> {
    let (mut found, mut is_string, mut start) = (Vec::new(), false, None);
    for (at, byte) in text.bytes().enumerate() {
        is_string ^= byte == b'"' && text.as_bytes()[at.saturating_sub(1)] != b'\\';
        let is_number = !is_string && (byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        match (is_number, start) {
            (true, None) if byte.is_ascii_digit() || byte == b'-' => start = Some(at),
            (false, Some(from)) => {
                found.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    found
}

/// A file that was damaged or made by hand is refused, or gives a report.
#[test]
fn no_number_of_a_result_file_makes_a_report_panic() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("result.json");
    let mut reports = 0;
    for name in ["bench", "suite", "replay", "filebench", "fio", "pool", "scan"] {
        let text = std::fs::read_to_string(result(&format!("{name}.json"))).unwrap();
        let places = numbers(&text);
        for place in places.iter().step_by(places.len().div_ceil(12)) {
            for value in ["18446744073709551615", "0", "1e308", "-1e308", "5e-324"] {
                let changed = [&text[..place.start], value, &text[place.end..]].concat();
                std::fs::write(&path, changed).unwrap();
                if let Ok(report) = Report::of_results(std::slice::from_ref(&path)) {
                    report.page().unwrap();
                    reports += 1;
                }
            }
        }
    }
    assert!(reports > 100, "{reports}");
}

#[test]
fn a_file_of_another_kind_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("other.json");
    std::fs::write(&other, "{\"schema\": \"gemelo.trace-stat/1\"}").unwrap();
    let error = Report::of_results(std::slice::from_ref(&other)).unwrap_err().to_string();
    assert!(error.contains("other.json"), "{error}");
}

/// A result of many hosts: host n took 100 + n % longer than the first one, and one was lost.
fn of_hosts(name: &str, count: usize, directory: &Path) -> PathBuf {
    let text = std::fs::read_to_string(result(name)).unwrap();
    let mut all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let host = |index: usize| {
        let mut file = all.clone();
        let slower = |value: &serde_json::Value, share: f64| value.as_f64().unwrap() * share;
        let share = 1.0 + index as f64 / 100.0;
        match name {
            "replay.json" => {
                let duration_ns = slower(&file["result"]["duration_ns"], share) as u64;
                file["result"]["duration_ns"] = duration_ns.into();
                let second = file["result"]["seconds"][0].clone();
                let seconds = (0..6u64).map(|number| {
                    let mut second = second.clone();
                    second["start_ns"] = (number * 1_000_000_000).into();
                    second["length_ns"] = 1_000_000_000.into();
                    second
                });
                file["result"]["seconds"] = seconds.collect();
            }
            _ => {
                let interval = &mut file["result"][0]["runs"][0]["intervals"][0];
                interval["operations_per_s"] =
                    slower(&interval["operations_per_s"], 1.0 / share).into();
            }
        }
        let is_lost = index + 1 == count;
        serde_json::json!({
            "host": format!("h{index}"), "index": index, "round_trip_ns": 1000,
            "date_offset_ns": 0, "start_delays_ns": [7],
            "failure": is_lost.then_some("its connection ended"),
            "file": if is_lost { serde_json::Value::Null } else { file },
        })
    };
    let hosts: serde_json::Value = (0..count).map(host).collect();
    all["hosts"] = hosts;
    let path = directory.join(name);
    std::fs::write(&path, all.to_string()).unwrap();
    path
}

#[test]
fn hosts_stand_side_by_side_whatever_ran_on_them() {
    let directory = tempfile::tempdir().unwrap();
    for (name, pictures) in [
        (
            "replay.json",
            &["Write operations, means of equal intervals of time", "Read latency by percentile"][..],
        ),
        ("filebench.json", &["Filebench operations"]),
    ] {
        let report = Report::of_results(&[of_hosts(name, 4, directory.path())]).unwrap();
        let text = report.markdown();
        let (_, hosts) = text.split_once("## Hosts").unwrap();
        for told in [
            "host h3: its connection ended",
            "The slowest host is 2 h2: ",
            "99.0 %",
            "| 3 h3 | none",
        ] {
            assert!(hosts.contains(told), "{told} of {name}: {text}");
        }
        for picture in pictures {
            assert!(hosts.contains(picture), "{picture} of {name}: {hosts}");
        }
    }
}

#[test]
fn all_of_many_hosts_are_in_the_table_and_the_slowest_in_the_pictures() {
    let directory = tempfile::tempdir().unwrap();
    let report = Report::of_results(&[of_hosts("replay.json", 65, directory.path())]).unwrap();
    let text = report.markdown();
    let (_, hosts) = text.split_once("## Hosts").unwrap();
    for index in 0..64 {
        assert!(hosts.contains(&format!("| {index} h{index} | ")), "{index}");
    }
    assert!(hosts.contains("The pictures show the 24 slowest of 64 hosts."), "{text}");
    let (_, pictures) = hosts.split_once("means of equal intervals of time").unwrap();
    assert!(pictures.contains("| time | 40 h40 | 41 h41 | "), "{pictures}");
}
