//! Tests of `gemelo trace` on small hand-made samples of every format, with the documented columns.
//! Statistics are compared with counts by hand, and written traces are read again.

use crate::traces::{A, TestDirectory, fiu, json, ok, refused};
use std::fs;
use std::path::Path;

/// A sample of each format of lines without hashes, made by hand: four requests, half of them
/// writes, of 4 KiB each.
const LINES: [(&str, &str); 8] = [
    (
        "blkparse",
        "  8,0    3        1     0.000000001   697  Q   W 0 + 8 [kjournald]\n\
         8,0    3        2     0.000001000   697  G   W 0 + 8 [kjournald]\n\
         8,0    3        3     0.000002000   697  D   W 0 + 8 [kjournald]\n\
         8,0    1        1     0.000003000   698  Q  RA 8 + 8 [cp]\n\
         8,0    1        2     0.000004000   698  Q  WS 16 + 8 [cp]\n\
         8,0    1        3     0.000005000   698  Q   R 0 + 8 [cp]\n\
         CPU0 (8,0):\n Reads Queued:           2,        8KiB\n",
    ),
    (
        "fio2",
        "fio version 2 iolog\nf add\nf open\nf write 0 4096\nf wait 150 0\nf read 0 4096\n\
         f write 8192 4096\nf wait 100 0\nf read 8192 4096\nf close\n",
    ),
    (
        "fio3",
        "fio version 3 iolog\n1 f add\n2 f open\n3 f write 0 4096\n150 f read 0 4096\n\
         200 f write 8192 4096\n300 f read 8192 4096\n400 f close\n",
    ),
    (
        "msr",
        "128166372003061629,hm,1,Read,383496192,4096,413\n\
         128166372016382155,hm,1,Write,2822144000,4096,1211\n\
         128166372026382245,hm,1,Write,2822148096,4096,1211\n\
         128166372036382245,hm,1,Read,2822148096,4096,1211\n",
    ),
    (
        "alibaba",
        "64,W,0,4096,1577808000000626\n64,R,0,4096,1577808000000700\n\
         3,W,4096,4096,1577808000000800\n3,R,0,4096,1577808000000900\n",
    ),
    (
        "tencent",
        "1538323200,12910952,8,0,1063\n1538323200,6265688,8,1,1126\n\
         1538323201,8,8,1,1063\n1538323202,16,8,0,1063\n",
    ),
    (
        "systor",
        "Timestamp,Response,IOType,LUN,Offset,Size\n\
         1456095145.133076000,0.000806000,R,0,899056122368,4096\n\
         1456095145.2,0.1,W,0,4096,4096\n1456095146.2,0.1,W,1,8192,4096\n\
         1456095147.2,0.1,R,1,8192,4096\n\
         1456095148.2,,,1,8192,4096\n",
    ),
    (
        "cloudphysics-csv",
        "1,41092,2a,4096,6160455\n1,41092,2a,4096,23516023\n\
         1,41093,28,4096,1\n1,41093,28,4096,9\n",
    ),
];

/// A sample of each format, of the same four requests as in [`LINES`].
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let fiu_line = |time: u64, block: u64, verb: char, hash: &str| {
        format!("{time} 1 app {} 8 {verb} 6 0 {hash}\n", block * 8)
    };
    let homes = A.repeat(8);
    let fiu: String = [(1, 0, 'W', A), (2, 1, 'W', A), (3, 0, 'R', A), (4, 1, 'R', homes.as_str())]
        .map(|(time, block, verb, hash)| fiu_line(time, block, verb, hash))
        .concat();
    let dashed = [A; 8].join("-");
    let xmu: String =
        (1..=4).map(|n| fiu_line(n, n, if n % 2 == 0 { 'W' } else { 'R' }, &dashed)).collect();
    let hashes = [("fiu", fiu.into_bytes()), ("xmu", xmu.into_bytes())];
    let lines = LINES.map(|(format, text)| (format, text.as_bytes().to_vec()));
    let binary = [vscsi(0x2a, 0), vscsi(0x28, 8), vscsi(0x2a, 16), vscsi(0x28, 0)].concat();
    hashes.into_iter().chain(lines).chain([("cloudphysics", binary)]).collect()
}

/// A record of VMware's vscsiStats, version 2.
fn vscsi(command: u16, sector: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(command.to_le_bytes());
    bytes.extend(0x0200u16.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(4096u32.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(sector.to_le_bytes());
    bytes.extend((1000 + sector).to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    bytes
}

#[test]
fn every_format_is_recognised_and_counted() {
    let directory = TestDirectory::new();
    for (format, bytes) in samples() {
        let file = directory.file(format, bytes);
        for words in
            [vec!["trace", "stat", &file], vec!["trace", "stat", &file, "--format", format]]
        {
            let found = json(&words);
            assert_eq!(found["input"]["formats"][0], format, "{format}");
            let result = &found["result"];
            assert_eq!(
                (&result["writes"], &result["reads"]),
                (&2.into(), &2.into()),
                "{format}: {result}"
            );
            assert_eq!(result["written_bytes"], 8192, "{format}");
        }
    }
}

#[test]
fn compressed_traces_are_the_same() {
    let directory = TestDirectory::new();
    let plain = directory.file("plain", fiu());
    for name in ["copy.gz", "copy.zst"] {
        let copy = directory.name(name);
        ok(&["trace", "convert", &plain, "--to", "fiu", "--output", &copy]);
        assert!(!fs::read(&copy).unwrap().starts_with(b"1000"), "{name} is compressed");
        assert_eq!(
            json(&["trace", "stat", &copy])["result"],
            json(&["trace", "stat", &plain])["result"]
        );
    }
}

#[test]
fn the_table_is_what_a_hand_counts() {
    let directory = TestDirectory::new();
    let file = directory.file("trace", fiu());
    let (distribution, job) = (directory.name("trace.dist"), directory.name("job.toml"));
    let found = json(&["trace", "stat", &file, "--distribution", &distribution, "--job", &job]);
    assert_eq!(found["schema"], "gemelo.trace-stat/1");
    let result = &found["result"];
    for (name, value) in [
        ("records", 4),
        ("duration_ns", 4_000_000_000u64),
        ("written_blocks", 3),
        ("written_places", 2),
        ("written_contents", 2),
        ("read_places", 2),
        ("populated_places", 1),
        ("places_at_end", 3),
        ("contents_at_end", 2),
        ("range_bytes", 11 * 4096),
        ("touched_bytes", 3 * 4096),
        ("contradictions", 0),
    ] {
        assert_eq!(result[name], value, "{name}");
    }
    assert_eq!(
        (&result["dedup_ratio_written"], &result["dedup_ratio_at_end"]),
        (&1.5.into(), &1.5.into())
    );
    assert_eq!(result["rewrites_per_s"], 0.25);
    assert_eq!(fs::read_to_string(&distribution).unwrap(), "0 1\n1 1\n");
    // The job runs.
    let target = directory.name("target");
    ok(&["bench", &job, "--target", &target, "--bytes", "64k"]);
    let text = ok(&["trace", "stat", &file]).out;
    for part in ["unique by content", "dedup ratio at the end", "ranges accessed", "hot spots"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn malformed_lines_are_named_or_skipped() {
    let directory = TestDirectory::new();
    let spoilt = directory.file("spoilt", format!("{}7 nonsense\n{}", fiu(), fiu()));
    refused(
        &["trace", "stat", &spoilt],
        "spoilt:5: process id: expected a whole number, found '7 nonsense'",
    );
    let ran = ok(&["trace", "stat", &spoilt, "--skip-malformed"]);
    assert!(ran.err.contains("1 malformed line skipped"), "{}", ran.err);
    assert!(ran.out.starts_with("8 records"), "{}", ran.out);
    for (name, bytes, part) in [
        ("empty", &b""[..], "no records"),
        ("text", b"hello\nworld\n", "no known format"),
        ("header", b"fio version 3 iolog\n", "no records"),
    ] {
        let file = directory.file(name, bytes);
        refused(&["trace", "stat", &file], part);
    }
    refused(&["trace", "stat", &directory.name("missing")], "missing");
    let file = directory.file("trace", fiu());
    refused(&["trace", "stat", &file, "--format", "vhs"], "cloudphysics");
    refused(&["trace", "stat", &file, "--format", "msr"], "trace:1: time");
    refused(&["trace", "stat", &file, "--device", "9,9"], "its devices are: 6,0");
    refused(&["trace", "stat", &file, "--skip", "99"], "no record that --skip");
    refused(&["trace", "stat", &file, "--block-size", "512"], "--block-size 4096");
}

#[test]
fn devices_files_and_stretches_are_chosen() {
    let directory = TestDirectory::new();
    let day_1 = directory.file("1.csv", "1,W,0,4096,5\n2,W,0,4096,9\n");
    let day_2 = directory.file("2.csv", "1,R,0,4096,7\n1,R,4096,4096,20\n");
    let records = |words: &[&str]| {
        let found = json(&[&["trace", "stat", &day_2, &day_1][..], words].concat());
        found["result"]["records"].as_u64().unwrap()
    };
    assert_eq!(records(&[]), 4);
    assert_eq!(records(&["--device", "1"]), 3);
    assert_eq!(records(&["--device", "1", "--device", "2=1"]), 4);
    assert_eq!(records(&["--skip", "1", "--limit", "2"]), 2);
    assert_eq!(records(&["--time", "5us"]), 3);
    let merged = directory.name("merged");
    ok(&["trace", "convert", &day_2, &day_1, "--to", "alibaba", "--output", &merged]);
    assert_eq!(
        fs::read_to_string(merged).unwrap(),
        "1,W,0,4096,5\n1,R,0,4096,7\n2,W,0,4096,9\n1,R,4096,4096,20\n"
    );
}

#[test]
fn conversion_says_what_is_lost() {
    let directory = TestDirectory::new();
    let file = directory.file("trace", fiu());
    for (format, _) in samples() {
        let (there, back) =
            (directory.name(&format!("to-{format}")), directory.name(&format!("back-{format}")));
        let ran = ok(&["trace", "convert", &file, "--to", format, "--output", &there]);
        let carries = matches!(format, "fiu" | "xmu");
        assert_eq!(
            ran.err.contains("4 records lost the hashes"),
            !carries,
            "{format}: {}",
            ran.err
        );
        let found = json(&["trace", "stat", &there]);
        assert_eq!(found["input"]["formats"][0], format);
        assert_eq!(found["result"]["written_places"], 2, "{format}");
        if carries {
            ok(&["trace", "convert", &there, "--to", "fiu", "--output", &back]);
            assert_eq!(fs::read_to_string(back).unwrap(), fiu());
        } else {
            refused(&["trace", "convert", &there, "--to", "fiu", "--output", &back], "need hashes");
            assert!(!Path::new(&back).exists(), "nothing is left of a conversion that fails");
        }
    }
    refused(&["trace", "convert", &file, "--to", "fiu", "--output", &file], "--force");
}

/// A trace with the figures of a preset has the figures of the preset, seen from outside.
#[test]
fn presets_come_back_from_stat() {
    let directory = TestDirectory::new();
    // Dedup ratio, writes for each place, and the share of blocks read, as published.
    for (preset, ratio, rewrites, reads) in [
        ("web", 2.363, 13.33, 0.2288),
        ("mail", 14.17, 115.3, 0.1139),
        ("homes", 4.420, 34.38, 0.0374),
    ] {
        let file = directory.name(&format!("{preset}.zst"));
        ok(&["trace", "synthesize", "--preset", preset, "--records", "100000", "--output", &file]);
        let found = json(&["trace", "stat", &file]);
        let result = &found["result"];
        let figure = |name: &str| result[name].as_f64().unwrap();
        let near = |found: f64, expected: f64, tolerance: f64| {
            assert!(
                (found / expected - 1.0).abs() < tolerance,
                "{preset}: {found}, expected {expected}"
            );
        };
        // So few records have no room for the tail: a content or two of each class is cut short.
        near(figure("dedup_ratio_written"), ratio, 0.02);
        near(figure("written_blocks") / figure("written_places"), rewrites, 0.06);
        near(
            figure("read_blocks") / (figure("read_blocks") + figure("written_blocks")),
            reads,
            0.01,
        );
        assert_eq!(result["records"], 100_000);
        // The text output has them too.
        let text = ok(&["trace", "stat", &file]).out;
        assert!(text.contains("days") && text.contains("rewrites a second"), "{text}");
    }
    refused(
        &["trace", "synthesize", "--preset", "vax", "--records", "1", "--output", "-"],
        "web, mail, homes",
    );
}

#[test]
fn figures_make_a_trace_too() {
    let directory = TestDirectory::new();
    let file = directory.name("made");
    let words = [
        "trace",
        "synthesize",
        "--distribution",
        "personal",
        "--time",
        "100s",
        "--rate",
        "200",
        "--read-share",
        "25",
        "--pattern",
        "uniform",
        "--request-size",
        "16k",
        "--written-places",
        "8m",
        "--read-places",
        "4m",
        "--arrival",
        "poisson",
        "--seed",
        "7",
        "--output",
        &file,
    ];
    ok(&words);
    let found = json(&["trace", "stat", &file]);
    let result = &found["result"];
    assert_eq!((&result["records"], &result["reads"]), (&20_000.into(), &5_000.into()));
    assert!((result["days"].as_f64().unwrap() * 86_400.0 / 100.0 - 1.0).abs() < 0.1);
    assert!((result["written_places"].as_f64().unwrap() / 2048.0 - 1.0).abs() < 0.03);
    let text = fs::read_to_string(&file).unwrap();
    let first: Vec<&str> = text.lines().next().unwrap().split(' ').collect();
    assert_eq!((first.len(), first[4], first[8].len()), (9, "8", 32), "{first:?}");
    refused(&words, "--force");
    ok(&[&words[..], &["--force"]].concat());
    assert_eq!(text, fs::read_to_string(&file).unwrap(), "the same seed makes the same trace");
}
