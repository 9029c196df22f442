//! Traces as they come from public collections.

use crate::traces::{TestDirectory, json, ok, refused};

const OUTPUT: &str = "\
  8,0    0        1     0.000000000   700  Q  WS 2048 + 8 [writer]
  8,0    0        2     0.000001000   700  Q   R 4096 + 8 [writer]
CPU0 (sda):
 Reads Queued:           1,        4KiB\t Writes Queued:           1,        4KiB

Throughput (R/W): 4KiB/s / 4KiB/s
Events (sda): 2 entries
Skips: 0 forward (0 -   0.0%)
";

fn gzip(text: &str) -> Vec<u8> {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

/// Everything after the totals of the first output was dropped without a word.
#[test]
fn outputs_of_blkparse_in_one_file_are_all_read() {
    let directory = TestDirectory::new();
    let two = directory.file("two", OUTPUT.repeat(2));
    let members = directory.file("members.gz", [gzip(OUTPUT), gzip(OUTPUT)].concat());
    for trace in [two, members] {
        let ran = ok(&["trace", "stat", &trace]);
        assert!(ran.out.starts_with("4 records (blkparse)"), "{}", ran.out);
        assert!(ran.err.contains("1 further output of blkparse in the same file"), "{}", ran.err);
    }
}

/// -40 ms is printed as 1266874889.67 s, and became 14,663 days.
#[test]
fn times_before_the_start_do_not_make_years() {
    let directory = TestDirectory::new();
    let wrapped = OUTPUT.replace("0.000001000", "1266874889.670077392");
    let trace = directory.file("wrapped", &wrapped);
    assert_eq!(json(&["trace", "stat", &trace])["result"]["duration_ns"], 0);
    let ran = ok(&["replay", &trace, "--target", "null:"]);
    assert!(ran.err.contains("1 record from before the start of the trace"), "{}", ran.err);
}

/// A replay of 351,909 hours began.
#[test]
fn a_replay_that_nobody_can_mean_is_refused() {
    let directory = TestDirectory::new();
    let jump = OUTPUT.replace("0.000001000", "99999999.000000000");
    let trace = directory.file("jump", &jump);
    let ran = ok(&["trace", "stat", &trace]);
    assert!(ran.err.contains("the time jumps by 27777 h 46 m after 1 record"), "{}", ran.err);
    refused(&["replay", &trace, "--target", "null:"], "give a higher --speed or max");
    ok(&["replay", &trace, "--target", "null:", "--speed", "max"]);
    ok(&["replay", &trace, "--target", "null:", "--time", "1s"]);
}

/// The time that a record could not be issued before was counted as its latency: 1.5 s on null:.
#[test]
fn a_record_out_of_order_is_not_late() {
    let directory = TestDirectory::new();
    let line = |time: &str, sector: u64| format!("8,0 0 1 {time} 7 Q W {sector} + 8 [a]\n");
    let trace = [line("0.0", 8), line("1.0", 16), line("0.0", 24)].concat();
    let trace = directory.file("order", &trace);
    let result = json(&["replay", &trace, "--target", "null:"]);
    let longest = result["result"]["writes"]["response_summary"]["max_ns"].as_u64().unwrap();
    assert!(longest < 900_000_000, "{longest} ns");
    let ran = ok(&["replay", &trace, "--target", "null:", "--speed", "max"]);
    assert!(ran.err.contains("warning: 1 record earlier"), "{}", ran.err);
}

/// Public traces come in these formats, and only "no known format" was said of them.
#[test]
fn public_formats_are_recognised() {
    let directory = TestDirectory::new();
    let mut oracle = Vec::new();
    for (time_s, sector, next) in [(5u32, 64u64, 3i64), (5, 72, -1), (9, 64, -1)] {
        oracle.extend(time_s.to_le_bytes());
        oracle.extend(sector.to_le_bytes());
        oracle.extend(4096u32.to_le_bytes());
        oracle.extend(next.to_le_bytes());
    }
    for (format, bytes) in [
        ("spc", b"0,20941264,8192,W,0.551706\n1,5,512,r,0.6\n".to_vec()),
        ("oracle-general", oracle),
        ("mqsim", b"4851300 1 524288 16 0\n4864300 1 524304 16 1\n".to_vec()),
        ("disksim", b"0.0 1 524288 16 0\n4.5 1 524304 16 1\n".to_vec()),
    ] {
        let trace = directory.file(format, bytes);
        let ran = ok(&["trace", "stat", &trace]);
        assert!(ran.out.contains(&format!("records ({format})")), "{}", ran.out);
        ok(&["replay", &trace, "--target", "null:", "--speed", "max"]);
    }
    let trace = directory.name("oracle-general");
    let ran = ok(&["trace", "stat", &trace]);
    assert!(ran.err.contains("do not tell whether a request reads or writes"), "{}", ran.err);
    let output = directory.name("out");
    let words =
        ["trace", "convert", &directory.name("spc"), "--to", "oracle-general", "--output", &output];
    refused(&words, "can be read but not written");
    assert!(!std::path::Path::new(&output).exists());
    let binary = directory.file("sda.blktrace.0", [0x07, 0x74, 0x61, 0x65, 0, 0, 0, 0]);
    refused(&["trace", "stat", &binary], "blkparse -i");
}
