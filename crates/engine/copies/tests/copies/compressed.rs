//! Compressed frames are decompressed against the earlier snapshot, whatever a copy has by then.

use super::common::simulated::Simulation;
use super::common::{BLOCK, content, open, options, read, tuning, write};
use super::{head, received};
use gemelo_base::{Silent, StopFlag};
use gemelo_copies::stream::{Head, Record, StreamWriter};
use gemelo_copies::{Answers, ReceiveError, ReceiveOptions, receive};
use gemelo_format::{DedupMode, SnapshotId};
use gemelo_volume::Pool;

const BLOCKS: u64 = 8;

/// What the first snapshot holds.
fn before() -> Vec<u8> {
    (1..=BLOCKS).flat_map(|id| content(id, BLOCK)).collect()
}

/// What the second one holds: the same, a block further on.
fn after() -> Vec<u8> {
    [99].into_iter().chain(1..BLOCKS).flat_map(|id| content(id, BLOCK)).collect()
}

/// A pool with a snapshot "one".
fn pool() -> Pool {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(200)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    let (mut stream, all) = (Vec::new(), before());
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

/// A stream of a second snapshot, compressed against these contents.
fn second(earlier: &[u8]) -> Vec<u8> {
    let (mut stream, all) = (Vec::new(), after());
    let mut writer = StreamWriter::begin(&mut stream, &head_of_second()).unwrap();
    writer.add(&Record::Plain { first: 0, contents: &all }).unwrap();
    let blocks = earlier.len() as u64 / BLOCK as u64;
    let named = std::iter::once(0..blocks).collect();
    writer.write_compressed((named, earlier), 3).unwrap();
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
    let mut incoming = pool.incoming("two", head.receipt(DedupMode::Inline)).unwrap();
    write(&incoming.volume(), 0, &after()).unwrap();
    incoming.note_received(BLOCK as u64, true).unwrap();
    incoming.keep();
    receive_second(&pool, &second(&before())).unwrap();
    let found = read(&pool.volume("two").unwrap(), 0, BLOCKS as usize * BLOCK).unwrap();
    assert!(found == after());
}

#[test]
fn other_earlier_contents_and_blocks_that_are_not_there_change_nothing() {
    let pool = pool();
    // What the second snapshot has: as if the sender had another earlier one.
    let error = receive_second(&pool, &second(&after())).unwrap_err().to_string();
    assert!(error.contains("do not come out as they were"), "{error}");
    assert_eq!(pool.volume_names(), ["one"]);
    receive_second(&pool, &second(&before())).unwrap();
}
