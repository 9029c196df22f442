//! Tests of texts and records as public collections have them.

use super::tests::{places, problem, read};
use super::*;
use crate::reader::Oddities;

/// Reads all lines of an output of blkparse.
fn blkparse(text: &str) -> (Vec<(u64, TraceOperation, u64, u64)>, Oddities) {
    let mut parser = Parser::new(TraceFormat::Blkparse, text.as_bytes());
    let (mut names, mut record) = (Names::default(), Record::new());
    let mut records = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let parsed = parser.parse(line.as_bytes(), index as u64 + 1, &mut names, &mut record);
        if parsed.unwrap_or_else(|problem| panic!("{line}: {problem}")) == Parsed::Record {
            records.push(record.clone());
        }
    }
    (places(&records), parser.oddities())
}

const OUTPUT: &str = "\
Input file sda.blktrace.0 added
  8,0    0        1     0.000000000   700  Q   W 8 + 8 [writer]
  8,0    0        2     0.000001000   700  Q   R 16 + 8 [writer]
kworker/0:1 (55)
 Reads Queued:           0,        0KiB\t Writes Queued:           1,        4KiB
 Allocation wait:        0.000000 s
writer (700, ...)
 Reads Queued:           1,        4KiB\t Writes Queued:           0,        0KiB

CPU0 (sda):
 Reads Queued:           1,        4KiB\t Writes Queued:           1,        4KiB
 odd line of a newer version

Throughput (R/W): 4KiB/s / 4KiB/s
Events (sda): 2 entries
Skips: 0 forward (0 -   0.0%)
";

#[test]
fn a_second_output_begins_where_the_first_ends() {
    let (records, odd) = blkparse(&OUTPUT.repeat(3));
    let times: Vec<u64> = records.iter().map(|(time_ns, ..)| *time_ns).collect();
    assert_eq!(times, [0, 1000, 1000, 2000, 2000, 3000]);
    assert_eq!(odd, Oddities { further_outputs: 2, ..Oddities::default() });
    // Parts of one trace, as -w makes them, have times that go on.
    let later = OUTPUT.replace("0.00000", "7.00000");
    let (records, _) = blkparse(&(OUTPUT.to_owned() + &later + OUTPUT));
    let times: Vec<u64> = records.iter().map(|(time_ns, ..)| *time_ns).collect();
    assert_eq!(times, [0, 1000, 7_000_000_000, 7_000_001_000, 7_000_001_000, 7_000_002_000]);
}

#[test]
fn outputs_without_the_event_of_an_operation_are_told() {
    let issued = OUTPUT.replace(" Q ", " D ");
    let (records, odd) = blkparse(&(OUTPUT.to_owned() + &issued));
    assert_eq!((records.len(), odd.silent_outputs, odd.further_outputs), (2, 1, 1));
    let (records, odd) = blkparse(&(OUTPUT.to_owned() + &issued + OUTPUT));
    assert_eq!((records.len(), odd.silent_outputs, odd.further_outputs), (4, 1, 2));
    assert_eq!(blkparse(&issued).1, Oddities::default());
}

#[test]
fn lines_between_events_are_known_or_malformed() {
    let one = "  8,0    0        1     0.000000000   700  Q   W 8 + 8 [writer]\n";
    assert_eq!(recognise(OUTPUT.as_bytes()), Some(TraceFormat::Blkparse));
    for known in
        ["CPU3 (sda):", "Total (sda):", "cat (17)", "a (b) (17, ...)", "Input file x added"]
    {
        blkparse(&format!("{one}{known}\n"));
    }
    for unknown in ["cat (x)", "cat 17", "8;0 0 1 0.0 700 Q W 8 + 8 [writer]", "Reading"] {
        assert!(problem(TraceFormat::Blkparse, unknown).starts_with("device"), "{unknown}");
    }
}

/// blkparse has 64 bits of nanoseconds, and prints 32 bits of their seconds.
#[test]
fn times_before_the_start_are_those_of_the_start() {
    let at = |time: &str| format!("  8,0   15        1 {time}   700  C  WS 8 + 8 [0]\n");
    let before = [
        at("0.000003084"),
        at("1266874889.670077392"),
        at("1266874889.709551615"),
        at("1266871289.709551615"),
        at("0.487425153"),
    ];
    let (records, odd) = blkparse(&before.concat());
    let times: Vec<u64> = records.iter().map(|(time_ns, ..)| *time_ns).collect();
    assert_eq!(times, [3084, 0, 0, 0, 487_425_153]);
    assert_eq!(odd, Oddities { before_start: 3, ..Oddities::default() });
    let (records, odd) =
        blkparse(&[at("1266874889.709551616"), at("1266871289.709551614")].concat());
    assert_eq!((records[0].0, odd.before_start), (1_266_874_889_709_551_616, 0));
    assert_eq!(records[1].0, 1_266_871_289_709_551_614);
}

#[test]
fn commands_that_pass_through_are_no_operations_and_flushes_complete() {
    let issued = "\
  8,0    1        1     0.000001000   123  D   R 36 (12 00 00 00 24 00 ..) [udisks]
  8,0    1        2     0.000002000   123  D   W 0 [smartd]
  8,0    1        3     0.000003000   123  D   R 64 + 8 [cat]
  8,0    1        4     0.000004000   123  D  FN [kworker]
  8,0    1        5     0.000005000   123  D   R 72 + 8 (    1234) [cat]
";
    let (records, _) = blkparse(issued);
    assert_eq!(
        records,
        [
            (3000, TraceOperation::Read, 64 * 512, 4096),
            (4000, TraceOperation::Flush, 0, 0),
            (5000, TraceOperation::Read, 72 * 512, 4096),
        ]
    );
    let (records, names) = read(TraceFormat::Blkparse, issued);
    assert_eq!(names.command_name(records[2].command), b"cat");
    let completed = "\
  8,0    1        1     0.000001000     0  C  FN 0 [0]
  8,0    1        2     0.000002000     0  C WFS 0 [0]
  8,0    1        3     0.000003000     0  C  WB 0 (     812) [0]
  8,0    1        4     0.000004000     0  C   R (12 00 00 00 24 00 ..) [0]
  8,0    1        5     0.000005000     0  C   N 0 [0]
  8,0    1        6     0.000006000     0  C   W 0 [0]
";
    let flush = |time_ns| (time_ns, TraceOperation::Flush, 0, 0);
    assert_eq!(blkparse(completed).0, [flush(1000), flush(2000), flush(3000)]);
    let cut = "  8,0    1        3     0.000003000   123  D   R 64 8 [cat]";
    assert!(problem(TraceFormat::Blkparse, cut).starts_with("sector"));
}

#[test]
fn spc_has_sectors_bytes_and_seconds() {
    let text = "0,20941264,8192,W,0.000000\n1, 2 ,512, r ,0.5,x,y\n";
    let (records, names) = read(TraceFormat::Spc, text);
    assert_eq!(
        places(&records),
        [
            (0, TraceOperation::Write, 20_941_264 * 512, 8192),
            (500_000_000, TraceOperation::Read, 1024, 512),
        ]
    );
    assert_eq!(names.device_name(records[1].device), b"1");
    assert_eq!(recognise(text.as_bytes()), Some(TraceFormat::Spc));
    for line in ["x,0,8192,W,0.1", "0,0,8192,X,0.1", "0,0,8192,W", "0,0,8192,W,x", "0,-1,512,W,1"] {
        assert!(problem(TraceFormat::Spc, line).contains("expected"), "{line}");
    }
    assert!(problem(TraceFormat::Spc, "0,0,1073741825,W,0.1").starts_with("length"));
}

#[test]
fn simulators_have_milliseconds_or_nanoseconds() {
    let disksim = "0.000000 0 5 8 0\n12.345678 1 16 8 1\n13.5 1 16 8 5\n";
    let (records, names) = read(TraceFormat::DiskSim, disksim);
    assert_eq!(
        places(&records),
        [
            (0, TraceOperation::Write, 2560, 4096),
            (12_345_678, TraceOperation::Read, 8192, 4096),
            (13_500_000, TraceOperation::Read, 8192, 4096),
        ]
    );
    assert_eq!(names.device_name(records[1].device), b"1");
    assert_eq!(recognise(disksim.as_bytes()), Some(TraceFormat::DiskSim));
    let mqsim = "4851300 1 524288 16 0\n4864300 1 524304 16 1\n";
    let (records, _) = read(TraceFormat::MqSim, mqsim);
    assert_eq!(places(&records)[1], (4_864_300, TraceOperation::Read, 524_304 * 512, 8192));
    assert_eq!(recognise(mqsim.as_bytes()), Some(TraceFormat::MqSim));
    for (format, line) in [
        (TraceFormat::MqSim, "4851300 1 524288 16 2"),
        (TraceFormat::MqSim, "4851300.0 1 524288 16 0"),
        (TraceFormat::MqSim, "4851300 1 524288 16 0 0"),
        (TraceFormat::DiskSim, "4851300 1 524288 16 0"),
        (TraceFormat::DiskSim, "4.5 1 524288 16 g"),
        (TraceFormat::DiskSim, "4.5 a 524288 16 0"),
    ] {
        assert!(problem(format, line).contains("expected"), "{line}");
    }
}

fn oracle(time_s: u32, object: u64, size: u32, next: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(time_s.to_le_bytes());
    bytes.extend(object.to_le_bytes());
    bytes.extend(size.to_le_bytes());
    bytes.extend(next.to_le_bytes());
    bytes
}

#[test]
fn records_of_oracle_general_are_recognised_by_their_next_access() {
    let good = [oracle(5, 64, 4096, 2), oracle(5, 72, 512, -1), oracle(9, 64, 4096, i64::MAX)];
    let bytes = good.concat();
    assert_eq!(recognise(&bytes), Some(TraceFormat::OracleGeneral));
    let mut parser = Parser::new(TraceFormat::OracleGeneral, &bytes);
    assert_eq!(parser.record_bytes(), Some(24));
    let (mut names, mut record) = (Names::default(), Record::new());
    parser.parse(&bytes[48..], 3, &mut names, &mut record).unwrap();
    assert_eq!(places(&[record.clone()]), [(9_000_000_000, TraceOperation::Read, 64 * 512, 4096)]);
    let cut = parser.parse(&bytes[48..71], 3, &mut names, &mut record).unwrap_err();
    assert!(cut.to_string().contains("cut short"), "{cut}");
    let hashed = oracle(5, 1 << 55, 4096, -1);
    let problem = parser.parse(&hashed, 1, &mut names, &mut record).unwrap_err();
    assert!(problem.to_string().contains("hashes"), "{problem}");
    for other in [
        oracle(4, 72, 512, -1),
        oracle(5, 72, 0, -1),
        oracle(5, 72, 512, 1),
        oracle(5, 72, 512, -2),
    ] {
        let bytes = [good[0].clone(), other].concat();
        assert_eq!(recognise(&bytes), None, "{bytes:?}");
    }
    assert_eq!(recognise(&oracle(5, 64, 4096, -1)[..23]), None);
}
