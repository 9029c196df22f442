//! Tests of every file in `examples/`: jobs, traces and scripts run, the programs that read the
//! snippets accept them, and the named metrics exist.

use crate::common::{Ran, gemelo};
use crate::served::{TestPool, done};
use gemelo_tools::has_tool;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Directories of `examples/`, each with a test below.
const TESTED: &[&str] =
    &["bench", "filebench", "grafana", "libvirt", "prometheus", "proxmox", "systemd", "trace"];

fn examples(directory: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples").join(directory)
}

fn files(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(examples(directory)).unwrap();
    let files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty(), "examples/{directory}");
    files
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Runs gemelo, which has to succeed. Small sizes cannot carry every distribution: it may warn.
fn run(words: &[&str]) -> String {
    let Ran { status, out, err } = gemelo(words);
    assert_eq!(status, 0, "{words:?}: {err}");
    out
}

fn succeeded(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn every_example_is_tested_and_listed() {
    let list = text(&examples("README.md"));
    for entry in fs::read_dir(examples("")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if !entry.path().is_dir() {
            assert_eq!(name, "README.md", "a file in examples/ without a test");
            continue;
        }
        assert!(TESTED.contains(&name.as_str()), "examples/{name} has no test");
        for file in files(&name) {
            let file = format!("({name}/{})", file.file_name().unwrap().to_str().unwrap());
            assert!(list.contains(&file), "{file} in examples/README.md");
        }
    }
}

#[test]
fn job_files_run() {
    for job in files("bench") {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().to_str().unwrap();
        let small = ["--file-size", "1m", "--time", "200ms", "--ramp-up", "0s"];
        let words = [&["bench", job.to_str().unwrap(), "--target", target], &small[..]].concat();
        let out = run(&words);
        let jobs = text(&job).matches("[[job]]").count();
        assert_eq!(out.matches("\n  ended ").count(), jobs, "{out}");
    }
}

#[test]
fn traces_are_counted_and_replayed() {
    for trace in files("trace") {
        let trace = trace.to_str().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        let counted = run(&["trace", "stat", trace]);
        let records = counted.split_whitespace().next().unwrap();
        let replayed = run(&[
            "replay",
            trace,
            "--target",
            target.to_str().unwrap(),
            "--speed",
            "max",
            "--verify",
        ]);
        assert!(replayed.contains(&format!("{records} records in")), "{replayed}");
    }
}

#[test]
fn filebench_scripts_run() {
    for script in files("filebench") {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().to_str().unwrap();
        let small = ["--time", "1s", "-D", "nfiles=50"];
        let words =
            [&["filebench", script.to_str().unwrap(), "--dir", directory], &small[..]].concat();
        let out = run(&words);
        assert!(out.contains("IO Summary: "), "{out}");
    }
}

#[test]
fn libvirt_snippets_are_well_formed_and_name_the_socket_of_the_unit() {
    if !has_tool("python3") {
        return;
    }
    for file in files("libvirt") {
        let parse = "import sys, xml.etree.ElementTree as tree; tree.parse(sys.argv[1])";
        succeeded(&Command::new("python3").args(["-c", parse]).arg(&file).output().unwrap());
    }
    assert!(text(&examples("libvirt/disk.xml")).contains(r#"socket="/run/gemelo/vms.sock""#));
}

#[test]
fn qemu_understands_the_arguments_of_proxmox() {
    if !has_tool("qemu-system-x86_64") {
        return;
    }
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("web"), "--size", "1m"]);
    let served = pool.serve(&[]);
    for file in files("proxmox") {
        let text = text(&file);
        let arguments = text.lines().find_map(|line| line.strip_prefix("args: ")).unwrap();
        let arguments = arguments.replace("/run/gemelo/vms.sock", &pool.file("socket"));
        let mut qemu = Command::new("qemu-system-x86_64");
        // The guest is not started: the monitor reads "quit".
        qemu.args(["-machine", "q35", "-m", "64", "-S", "-display", "none", "-monitor", "stdio"]);
        qemu.args(arguments.split(' '));
        qemu.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut qemu = qemu.stderr(std::process::Stdio::piped()).spawn().unwrap();
        // One that refuses its arguments ends before it reads.
        let _ = qemu.stdin.take().unwrap().write_all(b"info block\nquit\n");
        let output = qemu.wait_with_output().unwrap();
        succeeded(&output);
        assert!(String::from_utf8_lossy(&output.stdout).contains("web"), "{output:?}");
    }
    assert_eq!(served.stop().0, 0);
}

#[test]
fn options_and_drop_ins_of_the_units_are_understood() {
    let options = text(&examples("systemd/gemelo-vms"));
    let options = options.lines().find_map(|line| line.strip_prefix("GEMELO_OPTIONS=")).unwrap();
    let options = options.replace("127.0.0.1:9809", "127.0.0.1:0");
    let pool = TestPool::new(&[]);
    let served = pool.serve(&options.split(' ').collect::<Vec<_>>());
    assert_eq!(served.stop(), (0, String::new()));
    if !has_tool("systemd-analyze") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../contrib/systemd");
    let unit = text(&units.join("gemelo@.service"))
        .replace("/usr/local/bin/gemelo", env!("CARGO_BIN_EXE_gemelo"));
    let drop_ins = directory.path().join("gemelo@test.service.d");
    fs::create_dir(&drop_ins).unwrap();
    fs::copy(units.join("disks.conf"), drop_ins.join("x.conf")).unwrap();
    fs::write(directory.path().join("gemelo@test.service"), unit).unwrap();
    fs::copy(units.join("gemelo@.socket"), directory.path().join("gemelo@test.socket")).unwrap();
    let mut verify = Command::new("systemd-analyze");
    let output = verify
        .args(["--man=no", "verify"])
        .arg(directory.path().join("gemelo@test.service"))
        .output();
    let output = output.unwrap();
    succeeded(&output);
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn alert_rules_pass_their_tests() {
    if !has_tool("promtool") {
        return;
    }
    for words in [
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts_test.yml"],
    ] {
        let mut promtool = Command::new("promtool");
        succeeded(&promtool.args(words).current_dir(examples("prometheus")).output().unwrap());
    }
    let rules = text(&examples("prometheus/alerts.yml"));
    let tests = text(&examples("prometheus/alerts_test.yml"));
    for name in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(tests.contains(&format!("alertname=\"{name}\"")), "{name} has no test");
    }
}

/// The names of metrics in a text.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    text.split(|letter| !is_part(letter))
        .filter(|word| {
            [
                "gemelo_pool_",
                "gemelo_volume_",
                "gemelo_volumes_",
                "gemelo_server_",
                "gemelo_finder_",
            ]
            .iter()
            .any(|start| word.starts_with(start))
        })
        .map(str::to_owned)
        .collect()
}

/// The names of metrics that a server of a pool with a volume exports.
fn exported_metrics() -> BTreeSet<String> {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "1m"]);
    let served = pool.serve(&["--metrics", "127.0.0.1:0"]);
    let address = served.said[1].strip_prefix("metrics at http://").unwrap();
    let mut pages = String::new();
    for path in ["/metrics", "/metrics/volumes"] {
        let mut stream = TcpStream::connect(address.trim_end_matches("/metrics")).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").as_bytes()).unwrap();
        stream.read_to_string(&mut pages).unwrap();
    }
    metrics_in(&pages)
}

#[test]
fn dashboards_and_rules_use_metrics_that_exist() {
    let exported = exported_metrics();
    assert!(exported.len() > 30, "{exported:?}");
    for path in files("grafana").into_iter().chain(files("prometheus")) {
        let text = text(&path);
        let used = metrics_in(&text);
        let missing: Vec<_> = used.difference(&exported).collect();
        assert!(missing.is_empty(), "{} uses {missing:?}", path.display());
        if path.extension().is_some_and(|ending| ending == "json") {
            let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
            let panels = dashboard["panels"].as_array().unwrap();
            assert!(panels.iter().all(|panel| panel["targets"][0]["expr"].is_string()));
            assert!(used.len() > 20, "{used:?}");
        }
    }
}
