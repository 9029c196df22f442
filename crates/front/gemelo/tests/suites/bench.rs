//! Tests of `gemelo bench`, `suite`, `generate`, `verify` and `log` on real files, with the built
//! binary.

use crate::common::{Ran, gemelo, until_at_work};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs gemelo on words split at spaces, with `DIR` in place of the directory.
fn run(directory: &Path, words: &str) -> Ran {
    let directory = directory.to_str().unwrap();
    gemelo(&words.split(' ').map(|word| word.replace("DIR", directory)).collect::<Vec<_>>())
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_job_file_runs_its_jobs_in_order_on_the_same_files() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("data")).unwrap();
    let text = "file-size = '4m'\nprocesses = 2\n[[job]]\nname = 'first'\n[[job]]\nname = 'second'\n\
                operation = 'mixed'\npattern = 'nurand'\nverify = 'both'\nbytes = '8m'\n";
    fs::write(directory.path().join("job.toml"), text).unwrap();
    let ran = run(directory.path(), "bench DIR/job.toml --target DIR/data --json DIR/result.json");
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(
        ran.out.contains("first: sequential writes")
            && ran.out.contains("second: nurand 50 % writes")
    );
    let result = json(&directory.path().join("result.json"));
    assert_eq!(result["schema"], "gemelo.bench/1");
    assert_eq!(result["input"].as_array().unwrap().len(), 2);
    // The second job went on with what the first one wrote, and found it right.
    assert!(result["result"][1]["populated"].is_null());
    let verification = &result["result"][1]["verification"];
    assert_eq!(verification["wrong_blocks"], 0);
    assert!(verification["checked_blocks"].as_u64().unwrap() > 2048);
    assert_eq!(verification["unknown_blocks"], 0);
    assert!(files(&directory.path().join("data")).is_empty());
}

/// Memory is that of each job, not of the program up to there.
#[test]
fn memory_is_told_for_each_job() {
    let directory = tempfile::tempdir().unwrap();
    let text = "target = 'null:'\nfile-size = '256m'\n[[job]]\nname = 'large'\nblock-size = '1m'\nprocesses = 256\n\
                [[job]]\nname = 'small'\n";
    fs::write(directory.path().join("job.toml"), text).unwrap();
    let ran = run(directory.path(), "bench DIR/job.toml --json DIR/result.json");
    assert_eq!(ran.status, 0, "{}", ran.err);
    let result = json(&directory.path().join("result.json"));
    let peak = |job: usize| result["result"][job]["usage"]["peak_memory_bytes"].as_u64().unwrap();
    // The allocator keeps some of what the first job has freed: up to 2 MiB in each of its arenas.
    assert!(peak(0) > 128 << 20 && peak(1) < peak(0) / 2, "{} and {} bytes", peak(0), peak(1));
}

#[test]
fn the_written_distribution_is_the_asked_one() {
    let directory = tempfile::tempdir().unwrap();
    let words =
        "bench --target null: --file-size 64m --distribution personal --json DIR/result.json";
    assert_eq!(run(directory.path(), words).status, 0);
    let result = json(&directory.path().join("result.json"));
    let written = &result["result"][0]["written"];
    assert_eq!(written["blocks"], 16_384);
    let asked = run(directory.path(), "distribution scale personal --blocks 16384 --output -");
    let lines: Vec<String> = written["distribution"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| format!("{} {}\n", pair[0], pair[1]))
        .collect();
    assert_eq!(lines.concat(), asked.out);
}

#[test]
fn kept_files_are_checked_again_from_the_result_alone() {
    let directory = tempfile::tempdir().unwrap();
    let words = "bench --target DIR --file-size 1m --processes 2 --operation mixed --pattern uniform \
                 --bytes 4m --keep --json DIR/result.json";
    assert_eq!(run(directory.path(), words).status, 0);
    let again = run(directory.path(), "verify DIR/result.json");
    assert_eq!((again.status, again.err.as_str()), (0, ""));
    assert!(again.out.contains("512 blocks, all as written"), "{}", again.out);

    let path = directory.path().join("gemelo-0001.data");
    let mut bytes = fs::read(&path).unwrap();
    let (first, second) = bytes.split_at_mut(4096 * 7);
    first[..4096].copy_from_slice(&second[..4096]);
    second[4096 + 100] ^= 1;
    second[8192..8192 + 4096].fill(0);
    fs::write(&path, bytes).unwrap();
    let damaged = run(directory.path(), "verify DIR/result.json");
    assert_eq!(damaged.status, 1);
    for found in
        ["3 WRONG", "written to byte 28672 of process 1", "garbage: 1 bytes differ", "found zeros"]
    {
        assert!(damaged.out.contains(found), "{found} is not in {}", damaged.out);
    }

    fs::remove_file(&path).unwrap();
    let gone = run(directory.path(), "verify DIR/result.json");
    assert_eq!(gone.status, 2);
    assert!(gone.err.contains("gemelo-0001.data"), "{}", gone.err);
}

#[test]
fn nothing_existing_is_overwritten_without_force() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "precious").unwrap();
    for words in [
        "bench --target DIR/file --file-size 1m",
        "bench --target null: --file-size 1m --json DIR/file",
        "bench --target null: --file-size 1m --log DIR/file",
        "bench --target DIR --file-size 1m --access-log DIR/file",
        "generate --bytes 1m DIR/file",
        "generate --bytes 1m --files 3 DIR/file",
    ] {
        let ran = run(directory.path(), words);
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{words}");
        assert!(ran.err.contains("file exists"), "{words}: {}", ran.err);
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious", "{words}");
    }
    let forced = run(directory.path(), "bench --target DIR/file --file-size 1m --force");
    assert_eq!(forced.status, 0, "{}", forced.err);
}

#[test]
fn impossible_jobs_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (words, message) in [
        ("bench", "say where load goes"),
        ("bench --target null: --entropy 9", "from 0 to 8 bits"),
        ("bench --target null: --peak --rate 5", "exclude each other"),
        ("bench --target null: --read-rate 5", "go together"),
        ("bench --target null: --processes 0", "number of processes is 0"),
        ("bench --target null: --file-size 1000", "multiple of the block size"),
        ("bench --target null: --queue-depth 4 --engine psync", "one operation at a time"),
        ("bench --target null: --verify final", "holds no data"),
        ("bench --target null: --pattern zipf:x", "is not a pattern"),
        ("bench --target ceph:pool", "ceph:pool"),
        ("bench --target DIR --sync direct --block-size 1000 --file-size 1000000", "1000"),
        ("generate DIR/x --bytes 4097", "not a multiple of the block size"),
        ("generate DIR/x --bytes 1m --files 1000", "as each file needs a block"),
        ("generate DIR/x --bytes 8e", "does not fit"),
    ] {
        let ran = run(directory.path(), words);
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{words}: {}", ran.err);
        assert!(ran.err.contains(message), "{words}: {}", ran.err);
        assert!(files(directory.path()).is_empty(), "{words}");
    }
}

#[test]
fn logs_hold_every_operation_and_the_accesses_to_every_block() {
    let directory = tempfile::tempdir().unwrap();
    let words = "bench --target DIR --file-size 400k --processes 2 --operation mixed --pattern hotspot:90/10 \
                 --bytes 8000k --log DIR/log --access-log DIR/accesses";
    let ran = run(directory.path(), words);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let csv = run(directory.path(), "log DIR/log").out;
    let rows: Vec<Vec<&str>> = csv.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 2000);
    assert!(rows.iter().any(|row| row[1] == "read") && rows.iter().any(|row| row[1] == "write"));

    let text = fs::read_to_string(directory.path().join("accesses")).unwrap();
    let accesses: Vec<u64> =
        text.lines().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect();
    assert_eq!((accesses.len(), accesses.iter().sum::<u64>()), (200, 2000));
    let counted = |process: &str, block: usize| {
        rows.iter().filter(|row| row[0] == process && row[2] == block.to_string()).count() as u64
    };
    for block in 0..100 {
        assert_eq!(accesses[block], counted("0", block));
        assert_eq!(accesses[100 + block], counted("1", block));
    }
    let hot: u64 = accesses[..10].iter().sum();
    assert!((850..=950).contains(&hot), "{hot} of 1000 accesses in the hot tenth");
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_removes_the_files() {
    let directory = tempfile::tempdir().unwrap();
    let result = directory.path().join("result.json");
    let target = directory.path().join("data");
    fs::create_dir(&target).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_gemelo"))
        .args(["bench", "--file-size", "8m", "--time", "300s", "--pattern", "uniform", "--target"])
        .arg(&target)
        .arg("--json")
        .arg(&result)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    gemelo_tools::wait_until("the run begins", || !files(&target).is_empty());
    until_at_work(&[child.id()]);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(out.contains("stopped by the user"), "{out}");
    assert!(files(&target).is_empty());
    let result = json(&result);
    assert_eq!(result["result"][0]["ended"], "stopped");
    assert!(result["result"][0]["total"]["writes"]["operations"].as_u64().unwrap() > 0);
}

#[test]
fn the_suite_runs_the_loads_of_the_paper_in_its_order() {
    let directory = tempfile::tempdir().unwrap();
    let ran =
        run(directory.path(), "suite --target DIR --file-size 1m --processes 2 --verify both");
    assert_eq!(ran.status, 0, "{}", ran.err);
    let table = ran.out.rsplit_once("\n\n").unwrap().1;
    let order: Vec<&str> =
        table.lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(
        order,
        [
            "sequential-write",
            "sequential-rewrite",
            "sequential-read",
            "sequential-reread",
            "uniform-read",
            "uniform-write",
            "nurand-read",
            "nurand-write"
        ]
    );
    assert!(!ran.out.contains("WRONG"));
    assert!(files(directory.path()).is_empty());
}

#[test]
fn a_dedisbench_command_line_runs() {
    let directory = tempfile::tempdir().unwrap();
    let ini = "[execution]\nnprocs=2\nfilesize=1\naccess_type=1\nintegritycheck=1\n[results]\ntempfilespath=DIR\n";
    let ini = ini.replace("DIR", directory.path().to_str().unwrap());
    fs::write(directory.path().join("conf.ini"), ini).unwrap();
    let ran = run(directory.path(), "dedisbench -p -w -s1 -fDIR/conf.ini");
    assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.starts_with("gemelo bench --target "), "{}", ran.out);
    assert!(ran.out.contains("all as written"), "{}", ran.out);
    assert_eq!(files(directory.path()), ["conf.ini"]);
}

#[test]
fn a_full_disk_is_told_with_its_place_and_keeps_the_measurements() {
    let directory = tempfile::tempdir().unwrap();
    let mount =
        |words: &[&str]| Command::new(words[0]).args(&words[1..]).arg(directory.path()).status();
    let mounted = mount(&["mount", "-t", "tmpfs", "-o", "size=2m", "none"]);
    if !mounted.is_ok_and(|status| status.success()) {
        gemelo_tools::skip!("root, for mounting");
    }
    let generated = run(directory.path(), "generate --bytes 16m --distribution unique DIR/set");
    let refused = run(directory.path(), "bench --target DIR --file-size 16m");
    mount(&["umount"]).unwrap();
    assert_eq!(generated.status, 5, "{}", generated.out);
    assert!(generated.err.contains("/set: No space left on device"), "{}", generated.err);
    assert_eq!(refused.status, 2, "{}", refused.out);
    assert!(refused.err.contains("bytes"), "{}", refused.err);
}

#[test]
fn bytes_are_those_of_all_processes_together_and_file_size_is_that_of_each() {
    let directory = tempfile::tempdir().unwrap();
    let words =
        "bench --target null: --processes 4 --bytes 40m --file-size 16m --json DIR/result.json";
    assert_eq!(run(directory.path(), words).status, 0);
    let result = json(&directory.path().join("result.json"));
    assert_eq!(result["result"][0]["total"]["writes"]["data_bytes"], 40 << 20);
    assert_eq!(result["input"][0]["job"]["file_bytes"], 16 << 20);
    let processes = result["result"][0]["processes"].as_array().unwrap();
    assert!(
        processes.iter().all(|process| process["writes"] == (10 << 20) / 4096),
        "{processes:?}"
    );
}

#[test]
fn units_that_end_in_b_alone_are_powers_of_1000() {
    let directory = tempfile::tempdir().unwrap();
    for (size, bytes) in [("4MB", 4_000_000), ("4MiB", 4 << 20), ("4m", 4 << 20)] {
        let words =
            format!("generate --block-size 500 --bytes {size} --distribution unique DIR/{size}");
        let ran = run(directory.path(), &words);
        if bytes % 500 == 0 {
            assert_eq!(
                fs::metadata(directory.path().join(size)).unwrap().len(),
                bytes,
                "{}",
                ran.err
            );
        } else {
            assert!(ran.err.contains(&format!("{bytes} bytes")), "{}", ran.err);
        }
    }
}

#[test]
fn options_that_would_have_no_effect_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (words, message) in [
        (
            "bench --write-share 30",
            "--write-share has no effect here, because it is for --operation mixed",
        ),
        (
            "bench --write-share 30 --operation mixed --read-rate 5 --write-rate 5",
            "--write-share has no effect here",
        ),
        (
            "bench --fsync-every 3",
            "--fsync-every has no effect here, because it is for writes with --sync fsync",
        ),
        ("bench --fsync-every 3 --sync both --operation read", "--fsync-every has no effect"),
        (
            "bench --sync fsync --operation read",
            "--sync fsync has no effect here, because it is for jobs that write",
        ),
        ("bench --access-log DIR/log", "--access-log has no effect here"),
        ("suite --write-share 30", "--write-share has no effect here"),
        ("suite --operation read", "the suite sets --operation itself"),
        ("suite --pattern uniform", "the suite sets --pattern itself"),
    ] {
        let ran = run(directory.path(), &format!("{words} --target null: --file-size 64k"));
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{words}: {}", ran.err);
        assert!(ran.err.contains(message), "{words}: {}", ran.err);
    }
    assert!(files(directory.path()).is_empty());
    // Keys of a file for all jobs need to suit only one of them.
    let text = "target = 'null:'\nfile-size = '64k'\nwrite-share = 30\n[[job]]\n[[job]]\noperation = 'mixed'\n";
    fs::write(directory.path().join("job.toml"), text).unwrap();
    let ran = run(directory.path(), "bench DIR/job.toml");
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_eq!(
        run(directory.path(), "suite --target null: --file-size 64k --sync fsync --fsync-every 2")
            .status,
        0
    );
}

#[test]
fn a_log_that_was_cut_short_is_printed_as_far_as_it_goes_and_said_to_be_cut() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    // Two chunks of 8192 records, and a shorter one.
    assert_eq!(
        run(directory.path(), "bench --target null: --file-size 80m --log DIR/log").status,
        0
    );
    let whole = run(directory.path(), "log DIR/log");
    assert_eq!((whole.status, whole.out.lines().count()), (0, 1 + 20480));
    let bytes = fs::read(&log).unwrap();
    let chunk = 16 + 8192 * 24;
    for (length, records) in
        [(32, 0), (32 + chunk, 8192), (32 + chunk + 500, 8192), (bytes.len() - 1, 20480)]
    {
        fs::write(&log, &bytes[..length]).unwrap();
        let ran = run(directory.path(), "log DIR/log");
        assert_eq!(
            (ran.status, ran.out.lines().count()),
            (4, 1 + records),
            "{length}: {}",
            ran.err
        );
        assert!(
            ran.err.contains("/log is not complete") && ran.err.contains("cut short"),
            "{}",
            ran.err
        );
    }
    fs::write(&log, &bytes[..20]).unwrap();
    assert_eq!(run(directory.path(), "log DIR/log").status, 2);
}

#[test]
fn a_sweep_runs_a_job_for_each_value_and_a_dry_run_runs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    let words = ["bench", "--target", place, "--bytes", "64k", "--file-size", "64k", "--keep"];
    let sweep = [&words[..], &["--sweep", "pattern=sequential,uniform"]].concat();
    let ran = gemelo(&[&sweep[..], &["--dry-run"]].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(
        ran.out.starts_with("pattern=sequential: sequential writes of 4.00 KiB"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("\npattern=uniform: uniform writes"), "{}", ran.out);
    assert_eq!(fs::read_dir(place).unwrap().count(), 0);
    let ran = gemelo(&sweep);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.contains("\npattern=uniform: uniform writes"), "{}", ran.out);
    let ran = gemelo(&[&words[..], &["--sweep", "patern=uniform"]].concat());
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("a similar option is 'pattern'"), "{}", ran.err);
}
