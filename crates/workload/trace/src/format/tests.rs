//! Tests that each format is recognised, read and refused as documented.

use super::*;
use crate::record::{ContentHash, TraceOperation};
use proptest::prelude::*;

const MD5: &str = "3df1244f6143869f52abf2a1d73d0c0f";

/// Reads all lines of a text as a format. Returns the records and the names.
pub(super) fn read(format: TraceFormat, text: &str) -> (Vec<Record>, Names) {
    let mut parser = Parser::new(format, text.as_bytes());
    let (mut names, mut record) = (Names::default(), Record::new());
    let mut records = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let parsed = parser.parse(line.as_bytes(), index as u64 + 1, &mut names, &mut record);
        if parsed.unwrap_or_else(|problem| panic!("{line}: {problem}")) == Parsed::Record {
            records.push(record.clone());
        }
    }
    (records, names)
}

pub(super) fn problem(format: TraceFormat, line: &str) -> String {
    let mut parser = Parser::new(format, line.as_bytes());
    let parsed = parser.parse(line.as_bytes(), 2, &mut Names::default(), &mut Record::new());
    parsed.expect_err(line).to_string()
}

pub(super) fn places(records: &[Record]) -> Vec<(u64, TraceOperation, u64, u64)> {
    let place = |r: &Record| (r.time_ns, r.operation, r.offset_bytes, r.length_bytes);
    records.iter().map(place).collect()
}

#[test]
fn fiu_has_a_hash_for_every_page_or_sector() {
    let text = format!(
        "1000 4253 nfsd 680 16 W 6 0 {MD5}{}\n2000 12 kjournald 0 8 R 6 1 {}\n",
        "0".repeat(32),
        MD5.repeat(8)
    );
    let (records, names) = read(TraceFormat::Fiu, &text);
    assert_eq!(
        places(&records),
        [(1000, TraceOperation::Write, 680 * 512, 8192), (2000, TraceOperation::Read, 0, 4096)]
    );
    assert_eq!((records[0].hashes.len(), records[0].hash_bytes), (2, 4096));
    assert_eq!((records[1].hashes.len(), records[1].hash_bytes), (8, 512));
    assert_eq!(records[0].hashes[1], ContentHash(0));
    assert_eq!((records[0].process, names.command_name(records[0].command)), (4253, &b"nfsd"[..]));
    assert_eq!(names.device_name(records[1].device), b"6,1");
    // A page that is cut short, and a single sector.
    let (records, _) = read(
        TraceFormat::Fiu,
        &format!("1 1 p 0 9 W 6 0 {}\n1 1 p 0 1 W 6 0 {MD5}\n", MD5.repeat(2)),
    );
    assert_eq!((records[0].hash_bytes, records[1].hash_bytes), (4096, 512));
}

#[test]
fn fiu_lines_with_the_wrong_number_of_hashes_are_malformed() {
    let eight = |hashes: usize| format!("1 1 p 0 8 W 6 0 {}", MD5.repeat(hashes));
    for line in
        [eight(2), eight(7), eight(9), "1 1 p 0 0 W 6 0 ff".into(), format!("{} x", eight(1))]
    {
        assert!(problem(TraceFormat::Fiu, &line).contains("expected"), "{line}");
    }
    assert!(
        problem(TraceFormat::Fiu, "1 1 p 0 8 X 6 0 ff").starts_with("operation: expected R or W")
    );
    assert!(
        problem(TraceFormat::Fiu, "1 1 p 99999999999999999999 8 R 6 0 ff")
            .starts_with("block address")
    );
    assert!(problem(TraceFormat::Fiu, "1 1 p 36028797018963967 8 R 6 0 ff").starts_with("length"));
}

#[test]
fn xmu_joins_hashes_with_dashes() {
    let text = format!("5 1 app 8 24 W 179 0 {MD5}-{MD5}-{MD5}\n");
    let (records, _) = read(TraceFormat::Xmu, &text);
    assert_eq!((records[0].hashes.len(), records[0].hash_bytes), (3, 4096));
}

#[test]
fn blkparse_counts_each_request_once() {
    let text = "\
  8,0    3        1     0.000000001   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001000   697  G   W 223490 + 8 [kjournald]
  8,0    3        3     0.000002000   697  D   W 223490 + 8 [kjournald]
  8,0    1        1     0.000003000   698  Q  RA 0 + 256 [cp -r]
  8,0    1        2     0.000004000   698  Q FWS [sync]
  8,0    1        2     0.000004000   698  Q  DS 64 + 8 [fstrim]
  8,0    1        2     0.000004500     0  m   N cfq workload slice:300
  8,0    3       11     0.009507758     0  C   W 223490 + 8 [0]
CPU0 (8,0):
 Reads Queued:           0,        0KiB\t Writes Queued:          18,       72KiB
";
    let (records, names) = read(TraceFormat::Blkparse, text);
    assert_eq!(
        places(&records),
        [
            (1, TraceOperation::Write, 223_490 * 512, 4096),
            (3000, TraceOperation::Read, 0, 256 * 512),
            (4000, TraceOperation::Flush, 0, 0),
            (4000, TraceOperation::Trim, 64 * 512, 4096),
        ]
    );
    assert_eq!(names.command_name(records[1].command), b"cp -r");
    let only_completed = "  8,0    3       11     0.009507758     0  C   W 223490 + 8 [0]\n";
    assert_eq!(read(TraceFormat::Blkparse, only_completed).0.len(), 1);
    assert!(problem(TraceFormat::Blkparse, "what 1 2").starts_with("device"));
    assert!(problem(TraceFormat::Blkparse, "8,0 1 1 0.1 1 Q W x + 8 [p]").starts_with("sector"));
}

#[test]
fn fio_waits_add_up_in_version_2_and_stamps_count_in_version_3() {
    let two = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 0 4096\n/dev/sda wait 150 0\n\
               /dev/sda write 8192 512\n/dev/sda wait 50 0\n/dev/sda datasync 0 0\n/dev/sda trim 4096 4096\n";
    let (records, names) = read(TraceFormat::FioV2, two);
    assert_eq!(
        places(&records),
        [
            (0, TraceOperation::Read, 0, 4096),
            (150_000, TraceOperation::Write, 8192, 512),
            (200_000, TraceOperation::Flush, 0, 0),
            (200_000, TraceOperation::Trim, 4096, 4096),
        ]
    );
    assert_eq!(names.device_name(0), b"/dev/sda");
    let three = "fio version 3 iolog\n20 f add\n121 f open\n124 f read 0 4096\n2159 f write 45056 4096\n9 f close\n";
    let (records, _) = read(TraceFormat::FioV3, three);
    assert_eq!(
        places(&records),
        [
            (124_000, TraceOperation::Read, 0, 4096),
            (2_159_000, TraceOperation::Write, 45_056, 4096)
        ]
    );
    // No request is that long, but a trim can cover a whole device.
    assert!(
        problem(TraceFormat::FioV3, "1 f read 0 1073741825")
            .starts_with("length: expected at most 1 GiB")
    );
    assert_eq!(
        read(TraceFormat::FioV3, "fio version 3 iolog\n1 f trim 0 8796093022208\n").0.len(),
        1
    );
    assert!(
        problem(TraceFormat::FioV3, "1 f trim 0 87960930222080")
            .starts_with("length: expected at most 16 TiB")
    );
    assert!(problem(TraceFormat::FioV3, "1 f wait 5 0").starts_with("action"));
    assert!(problem(TraceFormat::FioV2, "f read 5").starts_with("length"));
}

#[test]
fn comma_formats_have_their_units() {
    let (msr, names) = read(
        TraceFormat::Msr,
        "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
         128166372003061629,mds,1,Write,3201662976,20480,45361\n",
    );
    assert_eq!(
        places(&msr),
        [(
            (128_166_372_003_061_629 - 116_444_736_000_000_000) * 100,
            TraceOperation::Write,
            3_201_662_976,
            20_480
        )]
    );
    assert_eq!(names.device_name(0), b"mds,1");
    let (alibaba, _) = read(TraceFormat::Alibaba, "7,R,126703644672,4096,1577808000000626\n");
    assert_eq!(
        places(&alibaba),
        [(1_577_808_000_000_626_000, TraceOperation::Read, 126_703_644_672, 4096)]
    );
    let (tencent, _) = read(TraceFormat::Tencent, "1538323200,12910952,128,0,1063\n");
    assert_eq!(
        places(&tencent),
        [(1_538_323_200_000_000_000, TraceOperation::Read, 12_910_952 * 512, 65_536)]
    );
    let (systor, _) = read(
        TraceFormat::Systor,
        "Timestamp,Response,IOType,LUN,Offset,Size\n1456135200.013118000,0.001,W,4,4096,8192\n\
         1456135200.013118000,,,4,4096,8192\n",
    );
    assert_eq!(places(&systor), [(1_456_135_200_013_118_000, TraceOperation::Write, 4096, 8192)]);
    let (cloud, _) = read(
        TraceFormat::CloudPhysicsCsv,
        "1,41092,2a,4096,6160455\n1,41092,28,512,3\n1,2,12,5,5\n",
    );
    assert_eq!(
        places(&cloud),
        [
            (41_092_000_000_000, TraceOperation::Write, 6_160_455 * 512, 4096),
            (41_092_000_000_000, TraceOperation::Read, 1536, 512),
        ]
    );
    for (format, line) in [
        (TraceFormat::Msr, "5,mds,1,Write,0,4096,1"),
        (TraceFormat::Msr, "128166372003061629,mds,1,Erase,0,4096,1"),
        (TraceFormat::Alibaba, "7,R,0,4096"),
        (TraceFormat::Alibaba, "7,R,0,4096,5,6"),
        (TraceFormat::Tencent, "1538323200,1,1,2,1063"),
        (TraceFormat::Systor, "1456135200.0,0.1,X,4,4096,8192"),
        (TraceFormat::CloudPhysicsCsv, "3,41092,2a,4096,6160455"),
    ] {
        assert!(problem(format, line).contains("expected"), "{line}");
    }
}

fn vscsi_1(command: u16, sector: u64, length: u32, time_us: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(7u32.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(command.to_le_bytes());
    bytes.extend(0x0100u16.to_le_bytes());
    bytes.extend(sector.to_le_bytes());
    bytes.extend(time_us.to_le_bytes());
    bytes
}

#[test]
fn vscsi_records_are_recognised_by_their_version() {
    let bytes = [vscsi_1(0x2a, 5, 4096, 3), vscsi_1(0x28, 6, 512, 4)].concat();
    assert_eq!(recognise(&bytes), Some(TraceFormat::CloudPhysics));
    let mut parser = Parser::new(TraceFormat::CloudPhysics, &bytes);
    assert_eq!(parser.record_bytes(), Some(32));
    let mut record = Record::new();
    parser.parse(&bytes[..32], 1, &mut Names::default(), &mut record).unwrap();
    assert_eq!(places(&[record.clone()]), [(3000, TraceOperation::Write, 2560, 4096)]);
    assert!(parser.parse(&bytes[..31], 1, &mut Names::default(), &mut record).is_err());
}

#[test]
fn formats_are_recognised_by_content() {
    let page = format!("1000 4253 nfsd 680 8 W 6 0 {MD5}\n");
    for (format, text) in [
        (TraceFormat::Fiu, page.as_str()),
        (
            TraceFormat::Blkparse,
            "  8,0    3        1     0.000000001   697  Q   W 223490 + 8 [kjournald]\n",
        ),
        (TraceFormat::FioV2, "fio version 2 iolog\nf add\nf open\nf read 0 4096\n"),
        (TraceFormat::FioV3, "fio version 3 iolog\n1 f add\n1 f open\n1 f read 0 4096\n"),
        (TraceFormat::Msr, "128166372003061629,mds,1,Write,3201662976,20480,45361\n"),
        (TraceFormat::Alibaba, "7,R,126703644672,4096,1577808000000626\n"),
        (TraceFormat::Tencent, "1538323200,12910952,128,0,1063\n"),
        (
            TraceFormat::Systor,
            "Timestamp,Response,IOType,LUN,Offset,Size\n1456135200.013,0.001,W,4,4096,8192\n",
        ),
        (TraceFormat::CloudPhysicsCsv, "1,41092,2a,4096,6160455\n"),
        (TraceFormat::Spc, "0,20941264,8192,W,0.551706\n"),
        (TraceFormat::MqSim, "4851300 1 524288 16 0\n"),
        (TraceFormat::DiskSim, "4.851300 1 524288 16 0\n"),
    ] {
        assert_eq!(recognise(text.as_bytes()), Some(format), "{text}");
        assert_eq!(format.name().parse(), Ok(format));
        // One malformed line among good ones does not prevent recognition.
        let spoilt =
            format!("{0}{0}garbage here\n{0}", text.lines().last().unwrap().to_owned() + "\n");
        let spoilt = match format {
            TraceFormat::FioV2 | TraceFormat::FioV3 => format!("{text}garbage here\n"),
            _ => spoilt,
        };
        assert_eq!(recognise(spoilt.as_bytes()), Some(format), "{spoilt}");
    }
    for text in ["", "\n\n", "hello world\n", "a,b,c\n1,2,3\n", "\0\0\0\0"] {
        assert_eq!(recognise(text.as_bytes()), None, "{text:?}");
    }
    assert!("vhs".parse::<TraceFormat>().unwrap_err().contains("cloudphysics"));
}

proptest! {
    /// Any bytes, parsed as any format, give a record or an error and never a panic.
    #[test]
    fn no_bytes_make_a_parser_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300), which in 0..TraceFormat::ALL.len()
    ) {
        let _ = recognise(&bytes);
        let mut parser = Parser::new(TraceFormat::ALL[which], &bytes);
        let size = parser.record_bytes().unwrap_or(120);
        for (index, line) in bytes.chunks(size).enumerate() {
            let _ = parser.parse(line, index as u64 + 1, &mut Names::default(), &mut Record::new());
        }
    }

    /// Lines that nearly match the format, with single characters changed.
    #[test]
    fn no_damaged_line_makes_a_parser_panic(
        which in 0..TraceFormat::ALL.len(), line in 0usize..9, at in 0usize..90, byte: u8
    ) {
        let lines = [
            format!("1000 4253 nfsd 680 16 W 6 0 {MD5}-{MD5}"),
            "  8,0    3        1     0.000000001   697  Q   W 223490 + 8 [kjournald]".into(),
            "5 /dev/sda read 0 18446744073709551615".into(),
            "128166372003061629,mds,1,Write,3201662976,20480,45361".into(),
            "7,R,126703644672,4096,1577808000000626".into(),
            "18446744073709551615,18446744073709551615,18446744073709551615,1,1063".into(),
            "1456135200.013118000,0.001,W,4,18446744073709551615,8192".into(),
            "0,36028797018963967,4294967295,W,18446744073.709551615".into(),
            "18446744073709.551615 1 36028797018963967 8388608 1".into(),
        ];
        let mut damaged = lines[line].clone().into_bytes();
        let at = at % damaged.len();
        damaged[at] = byte;
        let mut parser = Parser::new(TraceFormat::ALL[which], &damaged);
        let mut record = Record::new();
        if parser.parse(&damaged, 2, &mut Names::default(), &mut record) == Ok(Parsed::Record) {
            prop_assert!(record.offset_bytes.checked_add(record.length_bytes).is_some());
        }
    }
}
