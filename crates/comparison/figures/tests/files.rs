//! Reads result files of every kind, as they were written by the program and by `fio`. A file that
//! can no longer be read is a report that can no longer be made from it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use gemelo_figures::{Kind, RawResult, parse, read, slowest_host, throughputs};
use gemelo_record::Better;
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn of(name: &str) -> RawResult {
    let raw = read(&data(name)).unwrap();
    let mut names: Vec<&str> =
        raw.figures.figures.iter().map(|figure| figure.name.as_str()).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "names are unique: {names:?}");
    raw
}

fn value(raw: &RawResult, name: &str) -> f64 {
    let names = raw.figures.figures.iter().map(|figure| figure.name.as_str());
    let names = || names.clone().collect::<Vec<_>>().join(" ");
    raw.figures.value(name).unwrap_or_else(|| panic!("{name} among {}", names()))
}

#[test]
fn a_mixed_job_has_figures_curves_and_series_of_both_operations() {
    let raw = of("bench.json");
    assert_eq!((raw.kind, raw.is_complete), (Kind::Bench, true));
    assert_eq!(raw.provenance.as_ref().unwrap().host, "host");
    for kind in ["write", "read"] {
        let rate = value(&raw, &format!("{kind}/operations_per_s"));
        assert!((50.0..150.0).contains(&rate), "{kind}: {rate}");
        assert_eq!(value(&raw, &format!("{kind}/bytes_per_s")), 4096.0 * rate);
        let [p50, p99, max] =
            ["p50", "p99", "max"].map(|word| value(&raw, &format!("{kind}/latency_{word}_ns")));
        assert!(p50 <= p99 && p99 <= max, "{p50} {p99} {max}");
        let curve =
            raw.figures.curves.iter().find(|curve| curve.name == format!("{kind}/latency_ns"));
        let counted: u64 = curve.unwrap().counts.iter().map(|[_, count]| count).sum();
        assert_eq!(counted as f64, value(&raw, &format!("{kind}/operations")));
        // The ramp-up is no part of the series.
        let name = format!("{kind}/operations_per_s");
        let series = raw.figures.series.iter().find(|series| series.name == name).unwrap();
        assert!((5..=6).contains(&series.points.len()), "{series:?}");
        assert!(series.points[0].0 >= 100_000_000, "{series:?}");
    }
    let sum = value(&raw, "write/operations_per_s") + value(&raw, "read/operations_per_s");
    assert_eq!(value(&raw, "all/operations_per_s"), sum);
    assert!(raw.figures.value("run/missed_operations").is_some(), "the loop is open");
    assert!(value(&raw, "usage/memory_bytes") > 1e6);
}

#[test]
fn the_jobs_of_a_suite_have_their_names_in_front() {
    let raw = of("suite.json");
    assert!(value(&raw, "one.write/operations_per_s") > 0.0);
    assert!(value(&raw, "one.sync/latency_p99_ns") > 0.0);
    assert!(value(&raw, "two.read/bytes_per_s") > 0.0);
    assert_eq!(raw.figures.value("two.write/operations"), None);
    let elapsed = raw.figures.figures.iter().find(|figure| figure.name == "one.run/elapsed_ns");
    assert_eq!(elapsed.unwrap().better, Better::Lower, "the job has a limit of bytes");
}

#[test]
fn a_volume_has_its_space() {
    let raw = of("volume.json");
    assert_eq!(value(&raw, "space/logical_bytes"), 1_048_576.0);
    assert_eq!(value(&raw, "space/data_bytes"), 225.0 * 4096.0);
    assert_eq!(value(&raw, "space/dedup_ratio"), 256.0 / 225.0);
    assert!((value(&raw, "written/dedup_ratio") - 256.0 / 225.0).abs() < 1e-12);
}

#[test]
fn a_pool_has_the_space_of_its_metadata() {
    let raw = of("pool.json");
    assert_eq!((raw.kind, value(&raw, "space/data_bytes")), (Kind::Pool, 225.0 * 4096.0));
    assert_eq!(value(&raw, "space/metadata_bytes"), 16384.0);
    assert_eq!(value(&raw, "space/dedup_ratio_without_snapshots"), 256.0 / 225.0);
}

#[test]
fn look_ups_of_metadata_are_figures_of_a_pool() {
    let text = std::fs::read_to_string(data("pool.json")).unwrap();
    let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
    file["result"]["pool"]["metadata_cache"]["hits"] = 3.into();
    let raw = parse(&file.to_string(), Path::new("pool.json")).unwrap();
    assert_eq!(value(&raw, "pool/cache_hits"), 3.0);
}

#[test]
fn a_replay_has_figures_of_both_operations() {
    let raw = of("replay.json");
    assert_eq!((raw.kind, raw.is_complete), (Kind::Replay, true));
    assert!(value(&raw, "write/operations_per_s") > 0.0);
    assert!(value(&raw, "read/latency_mean_ns") > 0.0);
    assert!(raw.figures.curves.iter().any(|curve| curve.name == "write/latency_ns"));
}

#[test]
fn a_script_has_figures_of_the_run_and_of_its_operations() {
    let raw = of("filebench.json");
    assert_eq!(raw.kind, Kind::Filebench);
    assert!(value(&raw, "filebench/operations_per_s") > value(&raw, "write/operations_per_s"));
    assert!(value(&raw, "flowop-write1/latency_mean_ns") > 0.0);
    let curve = &raw.figures.curves[0];
    let counted: u64 = curve.counts.iter().map(|[_, count]| count).sum();
    assert_eq!(counted as f64, value(&raw, "filebench/operations"));
}

#[test]
fn a_sweep_has_its_values_in_front() {
    let raw = of("sweep.json");
    for entropy in [1, 5] {
        assert!(value(&raw, &format!("entropy={entropy}.filebench/operations_per_s")) > 0.0);
    }
}

#[test]
fn a_scan_has_figures_of_each_block_size() {
    let raw = of("scan.json");
    assert_eq!((raw.kind, raw.is_complete), (Kind::Scan, true));
    assert!(value(&raw, "4096.scan/dedup_ratio") > value(&raw, "8192.scan/dedup_ratio"));
    assert_eq!(value(&raw, "scan/files"), 2.0);
}

#[test]
fn both_formats_of_fio_give_the_same_figures_and_one_has_curves() {
    for (name, has_curves) in [("fio.json", false), ("fio-plus.json", true)] {
        let raw = of(name);
        assert_eq!((raw.kind, &raw.provenance), (Kind::Fio, &None));
        for kind in ["write", "read"] {
            let (rate, bytes) = (
                value(&raw, &format!("{kind}/operations_per_s")),
                value(&raw, &format!("{kind}/bytes_per_s")),
            );
            assert!((bytes / (4096.0 * rate) - 1.0).abs() < 0.01, "{name}: {rate} and {bytes}");
            assert!(value(&raw, &format!("{kind}/latency_p99_ns")) > 0.0);
        }
        let write = raw.figures.curves.iter().find(|curve| curve.name == "write/latency_ns");
        assert_eq!(write.is_some(), has_curves);
        if let Some(curve) = write {
            assert!(curve.counts.windows(2).all(|pair| pair[0][0] < pair[1][0]), "{curve:?}");
            let counted: u64 = curve.counts.iter().map(|[_, count]| count).sum();
            assert_eq!(counted as f64, value(&raw, "write/operations"));
        }
    }
    assert!(value(&of("fio-plus.json"), "sync/latency_mean_ns") > 1e6);
}

#[test]
fn fio_that_reports_reads_and_writes_together_has_figures_of_all_operations() {
    let text = std::fs::read_to_string(data("fio.json")).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let job = json["jobs"][0].as_object_mut().unwrap();
    let mixed = job.remove("read").unwrap();
    job.retain(|key, _| key != "write" && key != "trim");
    job.insert("mixed".to_owned(), mixed);
    let mixed = parse(&json.to_string(), Path::new("fio.json")).unwrap();
    let apart = of("fio.json");
    for quantity in ["operations_per_s", "bytes_per_s", "latency_p99_ns"] {
        let of_reads = value(&apart, &format!("read/{quantity}"));
        assert_eq!(value(&mixed, &format!("mixed/{quantity}")), of_reads);
    }
    assert_eq!(value(&mixed, "all/bytes_per_s"), value(&apart, "read/bytes_per_s"));
    assert!(value(&apart, "all/bytes_per_s") > value(&apart, "read/bytes_per_s"));
}

#[test]
fn messages_of_fio_before_its_json_are_skipped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fio.json");
    let text = std::fs::read_to_string(data("fio.json")).unwrap();
    std::fs::write(&path, format!("fio: terminating on signal 2\n{text}")).unwrap();
    assert_eq!(read(&path).unwrap(), of("fio.json"));
}

#[test]
fn other_files_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.json");
    let message = |text: &[u8]| {
        std::fs::write(&path, text).unwrap();
        read(&path).unwrap_err().to_string()
    };
    assert!(message(b"{\"schema\": \"gemelo.volume/1\"}").contains("'gemelo.volume/1'"));
    assert!(message(b"{\"schema\": \"gemelo.bench/1\"}").contains("gemelo.bench/1"));
    for text in [&b"{}"[..], b"", b"\xff", b"[1]", b"{\"jobs\": []}"] {
        assert!(message(text).contains("other.json"), "{text:?}");
    }
    assert!(read(Path::new("missing.json")).unwrap_err().to_string().contains("missing.json"));
}

/// A result of several hosts is a result file with their files. The second one took twice as long.
fn with_hosts(name: &str, slow: impl Fn(&mut serde_json::Value)) -> serde_json::Value {
    let text = std::fs::read_to_string(data(name)).unwrap();
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut slower = file.clone();
    slow(&mut slower["result"]);
    let host = |(index, file): (usize, serde_json::Value)| {
        let name = ["a", "b", "c"][index];
        let failure = file.is_null().then_some("lost");
        serde_json::json!({
            "host": name, "index": index, "round_trip_ns": 1000,
            "date_offset_ns": -5, "start_delays_ns": [7],
            "failure": failure, "file": file,
        })
    };
    let files = [file.clone(), slower, serde_json::Value::Null];
    let mut all = file;
    all["hosts"] = files.into_iter().enumerate().map(host).collect();
    all
}

#[test]
fn hosts_have_their_figures_and_the_share_of_the_slowest_is_one() {
    let double = |value: &mut serde_json::Value| *value = (value.as_f64().unwrap() * 2.0).into();
    let halve = |value: &mut serde_json::Value| *value = (value.as_f64().unwrap() / 2.0).into();
    let replay = with_hosts("replay.json", |result| {
        result["duration_ns"] = (result["duration_ns"].as_u64().unwrap() * 2).into();
    });
    let filebench = with_hosts("filebench.json", |result| {
        halve(&mut result[0]["runs"][0]["intervals"][0]["operations_per_s"]);
    });
    let scan = with_hosts("scan.json", |result| {
        let elapsed_ns = result["effort"]["elapsed_ns"].as_u64().unwrap();
        result["effort"]["elapsed_ns"] = (elapsed_ns * 2).into();
    });
    let suite = with_hosts("suite.json", |result| {
        double(&mut result[1]["total"]["reads"]["bytes_per_s"]);
    });
    for (file, throughput, share, slowest, expected) in [
        (replay, "all/bytes_per_s", "hosts/slowest_share", "b", 2.0 / 3.0),
        (filebench, "filebench/operations_per_s", "hosts/slowest_share", "b", 2.0 / 3.0),
        (scan, "scan/bytes_per_s", "hosts/slowest_share", "b", 2.0 / 3.0),
        (suite, "two.all/bytes_per_s", "two.hosts/slowest_share", "a", 2.0 / 3.0),
    ] {
        let raw = parse(&file.to_string(), Path::new("hosts.json")).unwrap();
        assert_eq!(raw.hosts.len(), 3);
        assert!((value(&raw, share) - expected).abs() < 1e-9, "{throughput}");
        let found = slowest_host(&raw.hosts, throughput).unwrap();
        assert_eq!((found.host.host.as_str(), found.share), (slowest, value(&raw, share)));
        assert!(throughputs(&raw.figures).contains(&throughput));
        assert_eq!((raw.hosts[2].figures.as_ref(), raw.hosts[2].index), (None, 2));
        assert_eq!(raw.hosts[2].failure.as_deref(), Some("lost"));
    }
    assert_eq!(of("replay.json").hosts, []);
}

#[test]
fn replays_and_scripts_have_series_of_their_seconds() {
    for (name, series) in [
        ("replay.json", ["write/operations_per_s", "read/latency_mean_ns"]),
        ("filebench.json", ["filebench/operations_per_s", "filebench/bytes_per_s"]),
    ] {
        let raw = of(name);
        for series in series {
            let found = raw.figures.series.iter().find(|one| one.name == series);
            let points = &found.unwrap_or_else(|| panic!("{series} of {name}")).points;
            assert_eq!(points.len(), 1, "{series}");
            let whole = value(&raw, series);
            assert!((points[0].1 / whole - 1.0).abs() < 0.02, "{series}: {points:?} and {whole}");
        }
    }
}
