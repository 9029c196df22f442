//! Entries of freed blocks in the index of `compact`: every content is found, and they are few.

use super::checksum_of;
use super::pair::Pair;
use gemelo_base::random::{Random, mix64};
use gemelo_format::{Change, Fingerprint, Lbn, Pbn, Policy, VolumeId};
use std::collections::VecDeque;

const BLOCKS: u64 = 40_000;
/// PBNs between blocks whose records are in different pages.
const FAR: u64 = 500;

fn fingerprint_of(content: u64) -> Fingerprint {
    let bits = |salt| u128::from(mix64(content ^ salt));
    Fingerprint::of_hash(bits(0) << 64 | bits(1 << 60))
}

/// A backend that writes contents as the engine does: one that is found is not stored again.
struct Pool {
    pair: Pair,
    /// The content and the PBN of each LBN.
    stored: Vec<(u64, u64)>,
    /// The content that each PBN had last.
    contents: Vec<u64>,
    fresh: u64,
    /// PBNs that were freed since the last checkpoint, and those that may be used again.
    freed: Vec<u64>,
    free: VecDeque<u64>,
    random: Random,
}

impl Pool {
    fn new() -> Self {
        let mut pair = Pair::new(Policy::Compact, 1);
        pair.create(1);
        let (freed, free) = (Vec::new(), (BLOCKS + 1..2 * BLOCKS).collect());
        let random = Random::new(3);
        let (stored, contents) = (Vec::new(), vec![0; 2 * BLOCKS as usize]);
        let mut pool = Self { pair, stored, contents, fresh: BLOCKS, freed, free, random };
        for lbn in 0..BLOCKS {
            pool.stored.push((0, 0));
            pool.store(lbn, 1 + lbn, 1 + lbn);
        }
        pool.checkpoint(true);
        pool
    }

    fn store(&mut self, lbn: u64, content: u64, pbn: u64) {
        let freed = self.pair.apply(&Change::Store {
            volume: VolumeId(1),
            lbn: Lbn(lbn),
            pbn: Pbn::new(pbn).unwrap(),
            fingerprint: fingerprint_of(content),
            checksum: checksum_of(pbn),
        });
        self.freed.extend(freed);
        self.stored[lbn as usize] = (content, pbn);
        self.contents[pbn as usize] = content;
    }

    fn find(&self, content: u64) -> Option<u64> {
        let mut found = Vec::new();
        self.pair.backend.find(&[fingerprint_of(content)], &mut found).unwrap();
        found[0].map(|known| known.pbn.number())
    }

    fn write(&mut self, lbn: u64, content: u64) {
        if self.find(content).is_none() {
            let pbn = self.free.pop_front().unwrap();
            self.store(lbn, content, pbn);
        }
    }

    /// Writes a fresh content, or one that was there once, to a block that was never used, or to
    /// one that was freed lately.
    fn write_any(&mut self, lbn: u64) {
        self.fresh += 1;
        let pbn = match self.random.below(4) {
            0 => self.free.pop_back().unwrap(),
            _ => return self.write(lbn, self.fresh),
        };
        let earlier = self.contents[pbn as usize];
        let comes_again = earlier > 0 && self.random.below(2) == 0 && self.find(earlier).is_none();
        self.store(lbn, if comes_again { earlier } else { self.fresh }, pbn);
    }

    fn checkpoint(&mut self, succeeds: bool) {
        self.pair.backend.freeze();
        self.pair.write();
        if succeeds {
            drop(self.pair.backend.finish());
            self.free.extend(self.freed.drain(..));
        } else {
            self.pair.backend.abandon();
        }
    }

    fn assert_all_found(&self) {
        for (content, pbn) in &self.stored {
            assert_eq!(self.find(*content), Some(*pbn), "content {content}");
        }
    }

    fn entries(&self) -> u64 {
        self.pair.backend.totals().index_entries
    }
}

#[test]
fn random_overwrites_leave_few_entries_and_every_content_is_found() {
    let (mut pool, mut random) = (Pool::new(), Random::new(5));
    let mut most = 0;
    for round in 0..24 {
        for _ in 0..300 {
            pool.write_any(random.below(BLOCKS));
        }
        pool.checkpoint(round % 4 != 3);
        most = most.max(pool.entries());
        if round % 8 == 3 {
            pool.assert_all_found();
        }
    }
    pool.assert_all_found();
    assert!(most > BLOCKS + 200, "entries of freed blocks stay: {most}");
    assert!(most <= BLOCKS + BLOCKS / 32 + 600, "and are removed later: {most}");
    assert_eq!(pool.pair.backend.prove(5).unwrap(), Vec::<String>::new());
}

/// Freed blocks beside each other are cheap to look at.
#[test]
fn overwrites_in_order_leave_no_entry() {
    let mut pool = Pool::new();
    (0..2000).for_each(|lbn| pool.write(lbn, 2 * BLOCKS + lbn));
    pool.checkpoint(true);
    assert_eq!(pool.entries(), BLOCKS);
}

#[test]
fn a_content_that_comes_and_goes_is_found_each_time() {
    let mut pool = Pool::new();
    let content = 1 << 40;
    for round in 0..100 {
        let lbn = round * FAR % BLOCKS;
        pool.write(lbn, content);
        (1..4).for_each(|number| pool.write_any((lbn + number * 7 * FAR) % BLOCKS));
        pool.checkpoint(true);
        assert!(pool.find(content).is_some(), "round {round}");
        pool.write_any(lbn);
        assert_eq!(pool.find(content), None, "round {round}");
    }
    assert!(pool.entries() > BLOCKS, "entries of freed blocks stay");
}

#[test]
fn a_block_that_is_stored_again_takes_its_old_entry_along() {
    let mut pool = Pool::new();
    (0..20).for_each(|number| pool.write(10_000 + number * FAR, 2 * BLOCKS + number));
    pool.checkpoint(true);
    assert_eq!(pool.entries(), BLOCKS + 20, "those of the freed blocks stay");
    for number in 0..20 {
        let freed = pool.free.pop_back().unwrap();
        pool.store(25_000 + number * FAR, 3 * BLOCKS + number, freed);
    }
    pool.checkpoint(true);
    assert_eq!(pool.entries(), BLOCKS + 20, "as many are stale, of other blocks");
}
