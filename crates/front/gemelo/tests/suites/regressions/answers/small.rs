//! Small wrong answers, each with the input that showed it.

use crate::common::gemelo;
use crate::support::mount::can_mount;
use std::fs;
use std::process::{Command, Stdio};

#[test]
fn generate_warns_of_a_data_set_that_is_too_small_for_its_distribution() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    // 99 % of the blocks are duplicates, of contents that a small data set has no room for.
    fs::write(path("found"), "0 1000\n99999 10\n").unwrap();
    let ran =
        gemelo(&["generate", &path("made"), "--bytes", "64k", "--distribution", &path("found")]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.err.contains("are too little data for the distribution"), "{}", ran.err);
}

#[test]
fn a_progression_that_does_not_meet_its_last_value_is_refused() {
    let sweep = "rate=1000,2000,...,5500";
    let ran = gemelo(&["bench", "--target", "null:", "--file-size", "64k", "--sweep", sweep]);
    assert_eq!(ran.status, 2, "{}", ran.out);
    assert!(ran.err.contains("end with 5000 or 6000"), "{}", ran.err);
}

#[test]
fn a_record_whose_time_goes_back_is_not_late() {
    let place = tempfile::tempdir().unwrap();
    let trace = place.path().join("trace");
    let record = |ms: u64| {
        format!(
            "{} 7 p {} 8 W 6 0 0123456789abcdef0123456789abcdef\n",
            ms * 1_000_000,
            8 * (ms + 1)
        )
    };
    fs::write(&trace, [0, 1500, 0, 1, 2, 1501].map(record).concat()).unwrap();
    let ran = gemelo(&["replay", trace.to_str().unwrap(), "--target", "null:", "--json", "-"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let file: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let most = file["result"]["writes"]["response_summary"]["max_ns"].as_u64().unwrap();
    assert!(most < 1_000_000_000, "{most}");
    assert!(ran.err.contains("3 records of the trace had times before"), "{}", ran.err);
}

#[test]
fn a_bind_mount_in_the_tree_is_counted_once() {
    if !can_mount() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    for name in ["t/a/deep", "t/b", "t/c"] {
        fs::create_dir_all(place.path().join(name)).unwrap();
    }
    let data: Vec<u8> = (0..64u32 * 1024).flat_map(u32::to_le_bytes).collect();
    fs::write(place.path().join("t/a/deep/f"), &data).unwrap();
    fs::write(place.path().join("t/g"), &data[..8192]).unwrap();
    fs::write(place.path().join("t/h"), "").unwrap();
    // A mount namespace of its own gives everything back. Below the repeated directory, something
    // else is mounted, which counts.
    let script = "set -e; mount --bind t/a t/b; mount --bind t/g t/h; \
        mount -t tmpfs none t/b/deep; head -c 4096 /dev/urandom > t/b/deep/own; \
        \"$0\" scan t --json - \"$@\"";
    for more in [&[][..], &["--one-file-system"]] {
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_gemelo")])
            .args(more)
            .current_dir(place.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let file: serde_json::Value = serde_json::from_str(&text)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        let files = &file["result"]["files"];
        let of_others = u64::from(more.is_empty());
        assert_eq!(files["data_bytes"], data.len() as u64 + 8192 + 4096 * of_others, "{more:?}");
        assert_eq!(files["repeated_directories_skipped"], 1, "{more:?}");
    }
}

/// An interrupted scan predicted pools of 0 bytes, because nothing had been compressed yet.
#[test]
fn an_interrupted_scan_predicts_what_it_has_sampled() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    // Contents that all differ, of which LZ4 and zstd save three quarters.
    let made = ["generate", &path("data"), "--bytes", "512m", "--distribution", "unique"];
    let made = gemelo(&[&made[..], &["--compressibility", "75%"]].concat());
    assert_eq!(made.status, 0, "{}", made.err);
    let child = Command::new(env!("CARGO_BIN_EXE_gemelo"))
        .args(["scan", &path("data"), "--compression", "lz4,zstd", "--threads", "1"])
        .args(["--fingerprint", "md5", "--block-size", "4k", "--json", &path("result")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let result: serde_json::Value =
        serde_json::from_slice(&fs::read(path("result")).unwrap()).unwrap();
    assert_eq!(result["result"]["partial"], true);
    let pools = result["result"]["block_sizes"][0]["pools"].as_array().unwrap().clone();
    assert_eq!(pools.len(), 2);
    for pool in pools {
        assert!(pool["sampled_contents"].as_u64().unwrap() >= 256, "{pool}");
        let share = pool["stored_share"].as_f64().unwrap();
        assert!((0.2..0.5).contains(&share), "{pool}");
        assert!(pool["used_blocks"].as_u64().unwrap() > 0, "{pool}");
    }
}
