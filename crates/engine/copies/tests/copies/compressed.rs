//! Compressed frames are decompressed against the earlier snapshot, whatever a copy has by then.

use super::common::simulated::Simulation;
use super::common::{BLOCK, content, open, options, tuning, write};
use super::{assert_holds, head, received};
use gemelo_base::{Silent, StopFlag};
use gemelo_copies::stream::{Head, Record, StreamWriter};
use gemelo_copies::{Answers, ReceiveError, ReceiveOptions, receive};
use gemelo_format::{DedupMode, SnapshotId};
use gemelo_volume::{Pool, Receipt};

const BLOCKS: u64 = 8;

fn contents(from: u64) -> Vec<u8> {
    (from..from + BLOCKS).flat_map(|id| content(id, BLOCK)).collect()
}

/// A pool with a snapshot "one" of the contents from 1 on.
fn pool() -> Pool {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(200)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    let (mut stream, all) = (Vec::new(), contents(1));
    let mut writer = StreamWriter::begin(&mut stream, &head(BLOCK, BLOCKS)).unwrap();
    writer.add(&Record::Plain { first: 0, contents: &all }).unwrap();
    writer.finish().unwrap();
    received(&pool, "one", &stream).unwrap();
    pool
}

fn head_of_second() -> Head {
    let first = head(BLOCK, BLOCKS);
    let identity = SnapshotId { created_s: 2, ..first.identity };
    let since = Some(first.identity);
    Head { identity, since, is_exchange: true, has_compressed_frames: true, ..first }
}

/// A stream of a second snapshot, with the contents from 11 on, compressed against these.
fn second(earlier: &[u8]) -> Vec<u8> {
    let (mut stream, all) = (Vec::new(), contents(11));
    let mut writer = StreamWriter::begin(&mut stream, &head_of_second()).unwrap();
    writer.add(&Record::Plain { first: 0, contents: &all }).unwrap();
    let blocks = earlier.len() as u64 / BLOCK as u64;
    writer.write_compressed((vec![0..blocks], earlier), 3).unwrap();
    writer.finish().unwrap();
    stream
}

fn receive_second(pool: &Pool, stream: &[u8]) -> Result<(), ReceiveError> {
    let mut said = Vec::new();
    let options = ReceiveOptions { mode: DedupMode::Inline, tells: true };
    let answers = Some(Answers::new(&mut said));
    let progress = (&Silent as _, &StopFlag::new());
    receive(pool, "two", &mut &*stream, answers, options, progress).map(|_| ())
}

/// A power cut may come between a write and the note of it.
#[test]
fn a_copy_goes_on_where_it_has_more_than_was_noted() {
    let (pool, head) = (pool(), head_of_second());
    let receipt = Receipt {
        identity: head.identity,
        source: head.source,
        created_s: head.created_s,
        size_bytes: head.size_bytes,
        padding_bytes: head.padding_bytes,
        base: head.since,
        mode: DedupMode::Inline,
        goes_on: true,
    };
    let mut incoming = pool.incoming("two", receipt).unwrap();
    write(&incoming.volume(), 0, &contents(11)).unwrap();
    incoming.note_received(BLOCK as u64, true).unwrap();
    incoming.keep();
    receive_second(&pool, &second(&contents(1))).unwrap();
    let ids: Vec<u64> = (11..11 + BLOCKS).collect();
    assert_holds(&pool, "two", &ids);
}

#[test]
fn other_earlier_contents_and_blocks_that_are_not_there_change_nothing() {
    let pool = pool();
    // What the second snapshot has: as if the sender had another earlier one.
    let error = receive_second(&pool, &second(&contents(11))).unwrap_err().to_string();
    assert!(error.contains("do not come out as they were"), "{error}");
    assert_eq!(pool.volume_names(), ["one"]);
    receive_second(&pool, &second(&contents(1))).unwrap();
}
