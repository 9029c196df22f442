//! Contents that are stored elsewhere because their places are lost, while clients go on.

use super::*;
use crate::common::hold::Call;
use crate::common::simulated::DATA;
use crate::common::trim;
use gemelo_base::random::Random;
use gemelo_format::SLOT_HEAD_BYTES;
use std::thread;
use std::time::Duration;

/// Blocks that the write buffer has room for.
const BUFFERED: usize = 24;

fn at(lbn: u64) -> u64 {
    lbn * BLOCK as u64
}

/// A pool that compresses. The content is also at other LBNs of "a", and "b" has a copy.
fn packed(lbns: impl Iterator<Item = u64>) -> Scrubbed {
    let compression = Some(Compression::Lz4);
    let options = PoolOptions { compression, ..options_with(Policy::Compact, 300) };
    let scrubbed = Scrubbed::new([DedupMode::Inline, DedupMode::Off], &options);
    let a = scrubbed.pool.volume("a").unwrap();
    lbns.for_each(|lbn| write(&a, at(lbn), &content(MARK, BLOCK)).unwrap());
    scrubbed
}

impl Scrubbed {
    /// Destroys the head of the content of "a", so that it cannot be written there again. Fills the
    /// write buffer, so that the next content that gets a place waits for the disk.
    fn lose_place(&self) {
        self.pool.flush().unwrap();
        let head = self.places()[0] - 1 - SLOT_HEAD_BYTES as u64;
        self.data.below.write_at(head, &[0xFF; SLOT_HEAD_BYTES]).unwrap();
        let mut random = Random::new(1);
        let noise: Vec<u8> = (0..BUFFERED * BLOCK).map(|_| random.next_u64() as u8).collect();
        write(&self.pool.volume("b").unwrap(), at(1), &noise).unwrap();
    }

    fn reads_mark_at(&self, name: &str, mut lbns: impl Iterator<Item = u64>) -> bool {
        let volume = self.pool.volume(name).unwrap();
        lbns.all(|lbn| {
            read(&volume, at(lbn), BLOCK).is_ok_and(|found| found == content(MARK, BLOCK))
        })
    }
}

fn wait_until(is_true: impl Fn() -> bool) {
    for _ in 0..2000 {
        if is_true() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("it did not happen in twenty seconds");
}

/// The references are collected before the content gets its place. One of them is gone by then, and
/// one is beyond the end of its volume.
#[test]
fn only_references_to_a_lost_content_follow_it() {
    let blocks = 1300;
    let scrubbed = packed(1..4);
    let pool = &scrubbed.pool;
    pool.resize_volume("a", at(blocks)).unwrap();
    let a = pool.volume("a").unwrap();
    // So many blocks are cleared after the volume has its new size.
    write(&a, at(64), &content(9, BLOCK).repeat(blocks as usize - 65)).unwrap();
    write(&a, at(blocks - 1), &content(MARK, BLOCK)).unwrap();
    scrubbed.lose_place();
    let hold = scrubbed.simulation.hold(DATA, Call::Write);
    thread::scope(|scope| {
        let scrub = scope.spawn(|| scrubbed.scrub(true));
        hold.wait();
        trim(&a, at(1), BLOCK as u64).unwrap();
        let resizing = scope.spawn(|| pool.resize_volume("a", at(64)));
        let size = || pool.volumes()[0].record.size_bytes;
        wait_until(|| size() == at(64));
        hold.release();
        let report = scrub.join().unwrap();
        assert_eq!((report.is_clean(), report.healed_contents), (true, 1), "{report:?}");
        resizing.join().unwrap().unwrap();
    });
    assert!(scrubbed.reads_mark_at("a", [0, 2, 3].into_iter()));
    assert!(read(&a, at(1), BLOCK).unwrap() == [0; BLOCK]);
    drop(a);
    scrubbed.assert_sound();
}

/// The references follow in groups of 64. Those of the first one are gone when the second one is to
/// follow, and the new place is free.
#[test]
fn no_reference_follows_to_a_place_that_was_freed() {
    let scrubbed = packed(1..64);
    let pool = &scrubbed.pool;
    pool.create_volume("c", at(64), DedupMode::Inline).unwrap();
    let (a, c) = (pool.volume("a").unwrap(), pool.volume("c").unwrap());
    write(&c, 0, &content(MARK, BLOCK)).unwrap();
    write(&c, at(1), &content(5, BLOCK)).unwrap();
    scrubbed.lose_place();
    let hold = scrubbed.simulation.hold(DATA, Call::Write);
    thread::scope(|scope| {
        let scrub = scope.spawn(|| scrubbed.scrub(true));
        hold.wait();
        // A change of "c" waits for a request, and lets no other one begin.
        let request = scrubbed.simulation.hold(DATA, Call::Read);
        let reading = scope.spawn(|| read(&c, at(1), BLOCK).unwrap());
        request.wait();
        let changing = scope.spawn(|| pool.set_mode("c", DedupMode::Off).unwrap());
        thread::sleep(Duration::from_secs(2));
        hold.release();
        wait_until(|| scrubbed.reads_mark_at("a", 0..64));
        trim(&a, 0, at(64)).unwrap();
        request.release();
        assert!(reading.join().unwrap() == content(5, BLOCK));
        changing.join().unwrap();
        assert!(scrub.join().unwrap().is_clean());
    });
    assert!(read(&c, 0, BLOCK).is_err(), "it was left");
    assert_eq!(scrubbed.scrub(true).healed_contents, 1);
    assert!(scrubbed.reads_mark("c"));
    write(&a, 0, &content(MARK, BLOCK)).unwrap();
    drop((a, c));
    scrubbed.assert_sound();
}
