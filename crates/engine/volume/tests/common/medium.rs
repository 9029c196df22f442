//! The medium and the cache of a simulated disk: the result of a read, of a power cut, and of a
//! sync.

use super::bytes::Bytes;
use gemelo_base::random::Random;

/// Bytes that a power cut leaves old or new.
pub const SECTOR: usize = 512;

/// A write that no sync has covered.
#[derive(Clone)]
struct Pending {
    sequence: u64,
    offset: usize,
    bytes: Vec<u8>,
}

#[derive(Clone, Default)]
pub struct Image {
    pub live: Bytes,
    pub durable: Bytes,
    unsynced: Vec<Pending>,
    /// Lengths since the last sync, each with the number of the change that set it.
    lengths: Vec<(u64, usize)>,
    /// The number of the newest change.
    pub sequence: u64,
}

impl Image {
    /// Makes a medium that durably holds these bytes.
    pub fn new(live: Bytes) -> Self {
        Self { durable: live.clone(), live, ..Self::default() }
    }

    /// Returns the bytes that a power cut leaves.
    pub fn survivors(&self, random: &mut Random) -> Bytes {
        let mut kept = self.durable.clone();
        // Sometimes all writes reach the medium, sometimes none, mostly some.
        let luck = random.below(8);
        let last = self.lengths.len() as u64;
        let length = match (luck, random.below(last + 1)) {
            (1, _) => self.live.len(),
            (0, _) | (_, 0) => self.durable.len(),
            (_, at) => self.lengths[at as usize - 1].1,
        };
        kept.resize(length);
        let mut order: Vec<usize> = (0..self.unsynced.len()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        for at in order {
            let fate = match luck {
                0 | 1 => luck,
                _ => random.below(3),
            };
            let Pending { offset, bytes, .. } = &self.unsynced[at];
            keep_some(&mut kept, *offset, bytes, || fate == 1 || fate == 2 && random.below(2) == 1);
        }
        kept
    }

    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        self.sequence += 1;
        if end > self.live.len() {
            self.live.resize(end);
            self.lengths.push((self.sequence, end));
        }
        self.live.write(offset, bytes);
        self.unsynced.push(Pending { sequence: self.sequence, offset, bytes: bytes.to_vec() });
    }

    /// Flips a bit of a sector of the medium. A write that no sync has covered yet is still in the
    /// cache, where reads find it. Returns what the medium had there.
    pub fn rot(&mut self, byte: usize, bit: u8) -> Vec<u8> {
        let sector = byte / SECTOR * SECTOR;
        let before = self.durable.get(sector, SECTOR);
        let is_synced = self.live.get(sector, SECTOR) == before;
        let before = before.unwrap_or_default();
        let also_live = Some(&mut self.live).filter(|_| is_synced);
        let media = [Some(&mut self.durable), also_live].into_iter().flatten();
        media.for_each(|bytes| bytes.flip(byte, bit));
        before
    }

    pub fn set_len(&mut self, length: usize) {
        self.sequence += 1;
        self.live.resize(length);
        self.lengths.push((self.sequence, length));
    }

    /// Makes durable the writes before the sync began.
    pub fn sync(&mut self, until: u64) {
        self.settle_lengths(until);
        let count = self.unsynced.iter().take_while(|write| write.sequence <= until).count();
        for Pending { offset, bytes, .. } in self.unsynced.drain(..count) {
            keep_some(&mut self.durable, offset, &bytes, || true);
        }
    }

    /// Applies a failed sync as the fault model says: some of the writes are on the medium, and
    /// none will be tried again.
    pub fn fail_sync(&mut self, until: u64, random: &mut Random) {
        if random.below(2) == 0 {
            self.settle_lengths(until);
        }
        let luck = random.below(3);
        let count = self.unsynced.iter().take_while(|write| write.sequence <= until).count();
        for Pending { offset, bytes, .. } in self.unsynced.drain(..count) {
            keep_some(&mut self.durable, offset, &bytes, || luck == 1 && random.below(2) == 1);
        }
    }

    fn settle_lengths(&mut self, until: u64) {
        let count = self.lengths.iter().take_while(|(sequence, _)| *sequence <= until).count();
        if let Some((_, length)) = self.lengths.drain(..count).next_back() {
            self.durable.resize(length);
        }
    }
}

/// Copies the sectors for which `is_kept` returns `true`. Sectors beyond the end are lost.
fn keep_some(kept: &mut Bytes, offset: usize, bytes: &[u8], mut is_kept: impl FnMut() -> bool) {
    for (number, sector) in bytes.chunks(SECTOR).enumerate() {
        let start = offset + number * SECTOR;
        if start + sector.len() <= kept.len() && is_kept() {
            kept.write(start, sector);
        }
    }
}
