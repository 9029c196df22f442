//! Compressed frames are decompressed against the earlier snapshot, whatever a copy has by then.

use super::common::simulated::Simulation;
use super::common::{BLOCK, content, open, options, read, tuning, write};
use super::{head, received, sent, sent_at};
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

/// A sender reads earlier contents only to make the stream shorter.
#[test]
fn an_earlier_content_that_is_damaged_keeps_no_snapshot_from_being_sent() {
    let made = Simulation::new(1);
    Pool::format(&made.disks(), &options(200)).unwrap();
    let pool = open(&made.disks(), tuning()).unwrap();
    pool.create_volume("v", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    for (name, contents) in [("one", before()), ("two", after())] {
        write(&pool.volume("v").unwrap(), 0, &contents).unwrap();
        pool.snapshot_volume("v", name).unwrap();
    }
    let whole = sent(&pool, "one", None);
    pool.close().unwrap();
    // The second snapshot does not have the last content of the first one.
    let (mut images, last) = (made.images(), content(BLOCKS, BLOCK));
    let place = |image: &Vec<u8>| image.windows(BLOCK).position(|bytes| bytes == last);
    let (at, image) = images.iter_mut().find_map(|image| Some((place(image)?, image))).unwrap();
    image[at] ^= 1;
    let damaged = Simulation::of_images(2, images);
    let pool = open(&damaged.disks(), tuning()).unwrap();
    assert!(read(&pool.volume("one").unwrap(), (BLOCKS - 1) * BLOCK as u64, BLOCK).is_err());
    let stream = sent_at(&pool, "two", Some("one"), Some(3));
    let receiver = Simulation::new(3);
    Pool::format(&receiver.disks(), &options(200)).unwrap();
    let receiver = open(&receiver.disks(), tuning()).unwrap();
    received(&receiver, "one", &whole).unwrap();
    received(&receiver, "two", &stream).unwrap();
    let found = read(&receiver.volume("two").unwrap(), 0, BLOCKS as usize * BLOCK).unwrap();
    assert!(found == after());
}
