//! A client that writes, trims, flushes and reads its part of a volume until the server is gone.

use crate::history::{ContentNumber, History, Part, SECTOR};
use gemelo_base::random::Random;
use gemelo_nbd::client::{Client, ReplyWait, Submission};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

/// Requests in flight.
const DEPTH: usize = 16;
/// Contents that are written again and again.
const COMMON: u64 = 24;
/// Sectors of a block of the pool, so that whole blocks are duplicates of others.
const BLOCK_SECTORS: u64 = 8;
/// Sectors of the longest request.
const LONGEST: u64 = 32 * BLOCK_SECTORS;

/// A request in flight.
#[derive(Debug, Clone)]
enum Doing {
    Write { sectors: Range<usize>, durable: bool },
    Read { sectors: Range<usize> },
    Flush { sent: u64 },
}

/// One connection and the sectors that only it writes.
pub(crate) struct Writer<'a> {
    pub(crate) client: Client,
    pub(crate) history: &'a Mutex<History>,
    pub(crate) sectors: Range<usize>,
    pub(crate) random: Random,
    /// Numbers for contents that nobody else writes.
    pub(crate) unique: ContentNumber,
    doing: Vec<Option<Doing>>,
    acknowledged: u64,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(
        client: Client,
        history: &'a Mutex<History>,
        sectors: Range<usize>,
        random: Random,
        unique: ContentNumber,
    ) -> Self {
        Self { client, history, sectors, random, unique, doing: vec![None; DEPTH], acknowledged: 0 }
    }

    /// Requests until the server is gone; how many were acknowledged.
    pub(crate) fn run(mut self) -> u64 {
        loop {
            while let Some(slot) = self.doing.iter().position(Option::is_none) {
                if self.submit(slot).is_err() {
                    return self.acknowledged;
                }
            }
            if self.reap().is_err() {
                return self.acknowledged;
            }
        }
    }

    fn history(&self) -> MutexGuard<'a, History> {
        self.history.lock().unwrap()
    }

    /// A stretch of sectors that nothing under way touches.
    fn free_stretch(&mut self) -> Option<Range<usize>> {
        let in_blocks = self.random.below(4) > 0;
        let step = if in_blocks { BLOCK_SECTORS } else { 1 };
        let longest = if self.random.below(4) == 0 { LONGEST } else { 3 * step };
        let count = (1 + self.random.below(longest)) / step;
        let first = self.random.below(self.sectors.len() as u64) / step * step;
        let first = self.sectors.start + first as usize;
        let end = (first + (count.max(1) * step) as usize).min(self.sectors.end);
        let is_free = !self.doing.iter().flatten().any(|doing| match doing {
            Doing::Write { sectors, .. } | Doing::Read { sectors } => {
                sectors.start < end && first < sectors.end
            }
            Doing::Flush { .. } => false,
        });
        is_free.then_some(first..end)
    }

    /// Contents for a stretch: block by block one of the common ones, or one of its own.
    fn parts(&mut self, sectors: &Range<usize>) -> Vec<Part> {
        let mut content = 0;
        let mut parts = Vec::with_capacity(sectors.len());
        for sector in sectors.clone() {
            let part = sector as u64 % BLOCK_SECTORS;
            if parts.is_empty() || part == 0 {
                content = match self.random.below(8) {
                    0..4 => 1 + self.random.below(COMMON),
                    4 => 0,
                    _ => {
                        self.unique += 1;
                        self.unique
                    }
                };
            }
            parts.push(if content == 0 { Part::ZERO } else { Part { content, part } });
        }
        parts
    }

    /// Applies a trim to a stretch: whole blocks read as zeros, the rest stays unchanged.
    fn trimmed(&self, sectors: &Range<usize>) -> Vec<Part> {
        let block = BLOCK_SECTORS as usize;
        let whole = sectors.start.next_multiple_of(block)..sectors.end / block * block;
        let history = self.history();
        sectors
            .clone()
            .map(|sector| if whole.contains(&sector) { Part::ZERO } else { history.live(sector) })
            .collect()
    }

    fn submit(&mut self, slot: usize) -> Result<(), ()> {
        let chosen = self.random.below(100);
        if chosen < 4 {
            let sent = self.history().begin_flush();
            self.doing[slot] = Some(Doing::Flush { sent });
            return self.client.submit(slot as u64, Submission::Flush).map_err(drop);
        }
        let Some(sectors) = self.free_stretch() else { return self.submit(slot) };
        let offset = (sectors.start * SECTOR) as u64;
        let length = (sectors.len() * SECTOR) as u32;
        if chosen < 14 {
            self.doing[slot] = Some(Doing::Read { sectors });
            return self
                .client
                .submit(slot as u64, Submission::Read { offset, length })
                .map_err(drop);
        }
        let durable = self.random.below(12) == 0;
        self.doing[slot] = Some(Doing::Write { sectors: sectors.clone(), durable });
        if chosen < 20 {
            let trimmed = self.trimmed(&sectors);
            self.history().begin(sectors.start, &trimmed);
            return self
                .client
                .submit(slot as u64, Submission::Trim { offset, length, durable })
                .map_err(drop);
        }
        if chosen < 26 {
            self.history().begin(sectors.start, &vec![Part::ZERO; sectors.len()]);
            let may_free = self.random.below(2) == 0;
            let zeroes = Submission::WriteZeroes { offset, length, may_free, fast: false, durable };
            return self.client.submit(slot as u64, zeroes).map_err(drop);
        }
        let parts = self.parts(&sectors);
        self.history().begin(sectors.start, &parts);
        let data: Vec<u8> = parts.iter().flat_map(|part| part.bytes()).collect();
        self.client
            .submit(slot as u64, Submission::Write { offset, data: &data, durable })
            .map_err(drop)
    }

    fn reap(&mut self) -> Result<(), ()> {
        let (history, doing, acknowledged) =
            (self.history, &mut self.doing, &mut self.acknowledged);
        let reaped = self.client.reap(ReplyWait::ForOne, |completion| {
            assert!(completion.error.is_none(), "{}", completion.error);
            *acknowledged += 1;
            let mut history = history.lock().unwrap();
            match doing[completion.handle as usize].take().unwrap() {
                Doing::Write { sectors, durable } => {
                    history.end(sectors.start, sectors.len(), durable);
                }
                Doing::Flush { sent } => history.end_flush(sent),
                Doing::Read { sectors } => {
                    for (sector, bytes) in sectors.zip(completion.data.chunks_exact(SECTOR)) {
                        let expected = history.live(sector);
                        assert!(bytes == expected.bytes(), "sector {sector} is not {expected:?}");
                    }
                }
            }
        });
        reaped.map(drop).map_err(drop)
    }
}
