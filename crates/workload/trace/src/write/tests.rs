//! Tests that written traces read back unchanged.

use super::*;
use crate::merge::{Merged, ReadOptions};
use crate::record::{ContentHash, RecordSource, TraceOperation};
use proptest::prelude::*;

fn written(format: TraceFormat, records: &[Record], names: &Names) -> (Vec<u8>, Loss) {
    let mut writer = TraceWriter::new(format, Vec::new());
    for record in records {
        writer.write(record, names).unwrap();
    }
    let loss = writer.loss();
    (writer.finish().unwrap(), loss)
}

fn read(format: TraceFormat, bytes: &[u8]) -> Vec<Record> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace");
    std::fs::write(&path, bytes).unwrap();
    let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
    let mut merged = Merged::open(&[path], options).unwrap();
    let (mut record, mut records) = (Record::new(), Vec::new());
    while merged.next_record(&mut record).unwrap() {
        records.push(record.clone());
    }
    records
}

fn hashed() -> (Record, Names) {
    let mut names = Names::default();
    let record = Record {
        time_ns: 1_500_000_000_000_000_100,
        device: names.device(b"6,0").unwrap(),
        process: 17,
        command: names.command(b"nfsd"),
        offset_bytes: 8192,
        length_bytes: 8192,
        operation: TraceOperation::Write,
        hashes: vec![ContentHash(1), ContentHash(u128::MAX)],
        hash_bytes: 4096,
    };
    (record, names)
}

#[test]
fn losses_are_told() {
    let (record, names) = hashed();
    let flush = Record {
        operation: TraceOperation::Flush,
        offset_bytes: 0,
        length_bytes: 0,
        ..record.clone()
    };
    let records = [record, flush];
    let lost = |format| written(format, &records, &names).1;
    assert_eq!(lost(TraceFormat::Fiu), Loss { operations: 1, ..Loss::default() });
    assert_eq!(
        lost(TraceFormat::Tencent),
        Loss { operations: 1, hashes: 1, processes: 1, devices: 1, times: 1, places: 0 }
    );
    let fio = lost(TraceFormat::FioV3);
    assert_eq!((fio.operations, fio.hashes, fio.processes, fio.devices), (0, 2, 2, 0));
    assert_eq!(fio.in_words(), ["2 records lost the hashes", "2 records lost the process"]);
    assert_eq!(lost(TraceFormat::Blkparse), Loss { hashes: 2, ..Loss::default() });
}

#[test]
fn formats_of_hashes_need_hashes() {
    let (record, names) = hashed();
    let mut writer = TraceWriter::new(TraceFormat::Fiu, Vec::new());
    let bare = Record { hashes: vec![], ..record.clone() };
    assert!(matches!(writer.write(&bare, &names), Err(WriteError::NoHashes { .. })));
    let other = Record { hash_bytes: 8192, ..record };
    assert!(matches!(
        writer.write(&other, &names),
        Err(WriteError::HashSize { hash_bytes: 8192, .. })
    ));
}

#[test]
fn fiu_is_written_as_it_is_read() {
    let (record, names) = hashed();
    let (bytes, _) = written(TraceFormat::Fiu, &[record], &names);
    let expected = "1500000000000000100 17 nfsd 16 16 W 6 0 \
                    00000000000000000000000000000001ffffffffffffffffffffffffffffffff\n";
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

#[test]
fn formats_that_look_into_the_future_are_not_written() {
    let (record, names) = hashed();
    let mut writer = TraceWriter::new(TraceFormat::OracleGeneral, Vec::new());
    let refused = writer.write(&record, &names).unwrap_err();
    assert!(matches!(refused, WriteError::ReadOnly { .. }), "{refused}");
}

fn any_record() -> impl Strategy<Value = Record> {
    let operation = prop_oneof![
        Just(TraceOperation::Read),
        Just(TraceOperation::Write),
        Just(TraceOperation::Trim)
    ];
    let hashes = proptest::collection::vec(any::<u128>().prop_map(ContentHash), 1..5);
    (0u64..1 << 31, 0u64..1 << 40, operation, hashes, 0u32..100_000).prop_map(
        |(time, sector, operation, hashes, process)| Record {
            time_ns: time * 1_000_000_000,
            process,
            offset_bytes: sector * 512,
            length_bytes: hashes.len() as u64 * 4096,
            operation,
            hashes,
            hash_bytes: 4096,
            ..Record::new()
        },
    )
}

proptest! {
    /// Every record that a format can represent reads back unchanged.
    #[test]
    fn what_is_written_is_read_again(
        mut records in proptest::collection::vec(any_record(), 2..12),
        which in 0..TraceFormat::ALL.len()
    ) {
        let format = TraceFormat::ALL[which];
        prop_assume!(format.can_be_written());
        let mut names = Names::default();
        names.device(b"8,16").unwrap();
        records.sort_by_key(|record| record.time_ns);
        let has = |record: &&Record| lines::has_operation(format, record.operation);
        prop_assume!(records.iter().any(|record| has(&record)));
        let (bytes, loss) = written(format, &records, &names);
        let found = read(format, &bytes);
        prop_assert_eq!((loss.times, loss.places), (0, 0));
        let is_fio = matches!(format, TraceFormat::FioV2 | TraceFormat::FioV3);
        let kept = records.iter().filter(|record| lines::has_operation(format, record.operation));
        let kept: Vec<&Record> = kept.collect();
        prop_assert_eq!(found.len(), kept.len());
        let first_ns = kept.first().map_or(0, |record| if is_fio { record.time_ns } else { 0 });
        for (found, record) in found.iter().zip(kept) {
            prop_assert_eq!(
                (found.time_ns, found.operation, found.offset_bytes, found.length_bytes),
                (record.time_ns - first_ns, record.operation, record.offset_bytes, record.length_bytes)
            );
            if format.carries_hashes() {
                prop_assert_eq!((&found.hashes, found.process), (&record.hashes, record.process));
            }
        }
    }
}
