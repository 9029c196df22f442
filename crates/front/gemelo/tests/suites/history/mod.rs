//! The contents that each sector of a volume may hold after a crash: the content that was written
//! last before the last flush, or any content that was written there since. Contents have numbers,
//! from which their bytes follow.

use std::collections::HashMap;

pub(crate) const SECTOR: usize = 512;

/// The number of a content; 0 is zeros.
pub(crate) type ContentNumber = u64;

/// The part of a content that a sector holds. Two places with the same content are duplicates if
/// their parts are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) content: ContentNumber,
    pub(crate) part: u64,
}

impl Part {
    pub(crate) const ZERO: Self = Self { content: 0, part: 0 };

    pub(crate) fn bytes(self) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        if self.content != 0 {
            for (place, words) in bytes.chunks_exact_mut(16).enumerate() {
                words[..8].copy_from_slice(&self.content.to_le_bytes());
                words[8..].copy_from_slice(&(self.part << 8 | place as u64).to_le_bytes());
            }
        }
        bytes
    }
}

/// A write to a sector, and when it was acknowledged.
#[derive(Debug, Clone, Copy)]
struct Written {
    part: Part,
    acknowledged: Option<u64>,
}

/// The sectors of a volume, in the order of their writes. Requests that overlap are never under way
/// together, so the order is known.
pub(crate) struct History {
    sectors: Vec<Vec<Written>>,
    /// Sectors with more than one possible content.
    doubtful: HashMap<usize, ()>,
    now: u64,
}

impl History {
    /// Of a volume that was never written.
    pub(crate) fn new(sectors: usize) -> Self {
        let zero = Written { part: Part::ZERO, acknowledged: Some(0) };
        Self { sectors: vec![vec![zero]; sectors], doubtful: HashMap::new(), now: 1 }
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// A write is sent.
    pub(crate) fn begin(&mut self, first: usize, parts: &[Part]) {
        for (sector, part) in (first..).zip(parts) {
            self.sectors[sector].push(Written { part: *part, acknowledged: None });
            self.doubtful.insert(sector, ());
        }
    }

    /// A write is acknowledged, and durable if it was sent so.
    pub(crate) fn end(&mut self, first: usize, count: usize, is_durable: bool) {
        let now = self.tick();
        for sector in first..first + count {
            let last = self.sectors[sector].last_mut().unwrap();
            last.acknowledged = Some(now);
            if is_durable {
                self.settle(sector, now + 1);
            }
        }
    }

    /// A flush is sent: it covers what was acknowledged before.
    pub(crate) fn begin_flush(&mut self) -> u64 {
        self.tick()
    }

    /// The flush that was sent then is acknowledged.
    pub(crate) fn end_flush(&mut self, sent: u64) {
        let doubtful: Vec<usize> = self.doubtful.keys().copied().collect();
        for sector in doubtful {
            self.settle(sector, sent);
        }
    }

    /// Makes everything durable that was acknowledged before then.
    fn settle(&mut self, sector: usize, before: u64) {
        let writes = &mut self.sectors[sector];
        let is_durable = |written: &Written| written.acknowledged.is_some_and(|time| time < before);
        if let Some(newest) = writes.iter().rposition(is_durable) {
            writes.drain(..newest);
        }
        if writes.len() == 1 {
            self.doubtful.remove(&sector);
        }
    }

    /// Returns the content of a sector when no request is in flight.
    pub(crate) fn live(&self, sector: usize) -> Part {
        self.sectors[sector].last().unwrap().part
    }

    /// After a crash: whether each sector holds what it may. What it holds, it holds from then on.
    pub(crate) fn recover(&mut self, volume: &[u8]) -> Recovered {
        let mut recovered = Recovered::default();
        for (sector, bytes) in volume.chunks_exact(SECTOR).enumerate() {
            let writes = &mut self.sectors[sector];
            let Some(at) = writes.iter().rposition(|written| written.part.bytes() == bytes) else {
                let head = &bytes[..24];
                panic!("sector {sector} holds {head:?}…, which it may not: {writes:?}");
            };
            recovered.doubtful += usize::from(writes.len() > 1);
            recovered.lost += usize::from(at + 1 < writes.len());
            let part = writes[at].part;
            *writes = vec![Written { part, acknowledged: Some(0) }];
        }
        self.doubtful.clear();
        recovered
    }
}

/// The sectors whose content a crash left open.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Recovered {
    /// Sectors that might have held one of several contents.
    pub(crate) doubtful: usize,
    /// Those that hold an older one.
    pub(crate) lost: usize,
}
