//! Threads that issue all kinds of requests and commands to one pool at once, and log them.

mod owner;

use super::collide::Collider;
use super::history::{CELL, CELLS, DamagedRead, Flush, NEVER, Read, Time, Write};
use super::judge::{Contents, VolumeContent};
use super::simulated::Simulation;
use super::{BLOCK, content};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_device::{BlockDevice, DeviceError, Durability, Operation, Request};
use gemelo_format::DedupMode;
use gemelo_volume::{Pool, ScrubOptions, ShrinkOptions, Volume, VolumeError};
use owner::Owner;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The number of contents that are written repeatedly, which makes duplicates.
const COMMON_CONTENTS: u64 = 8;
/// Families of contents with one fingerprint, and the number of contents in each.
const FAMILIES: u64 = 2;
const MEMBERS: u64 = 4;
/// A thread gives up after this many failures in a row, because the pool has stopped.
const MAX_FAILURES: u32 = 12;

/// A command on a whole volume.
#[derive(Debug, Clone)]
pub struct VolumeEvent {
    pub volume: usize,
    pub what: Change,
    pub start: Time,
    pub end: Time,
    pub is_done: bool,
}

#[derive(Debug, Clone)]
pub enum Change {
    Create {
        name: String,
        blocks: usize,
        read_only: bool,
        /// The source of the volume if it is a copy, and the contents that were read before the
        /// first write to it.
        copy: Option<(usize, Option<Vec<u8>>)>,
    },
    Resize {
        blocks: usize,
    },
    Rename {
        name: String,
    },
    Remove,
}

/// The log of one thread.
#[derive(Debug, Default)]
pub struct Log {
    pub writes: Vec<Write>,
    pub flushes: Vec<Flush>,
    pub reads: Vec<Read>,
    /// Reads whose error said that a block is damaged.
    pub damaged_reads: Vec<DamagedRead>,
    pub volumes: Vec<VolumeEvent>,
}

impl Log {
    pub fn append(&mut self, mut other: Self) {
        self.writes.append(&mut other.writes);
        self.flushes.append(&mut other.flushes);
        self.reads.append(&mut other.reads);
        self.damaged_reads.append(&mut other.damaged_reads);
        self.volumes.append(&mut other.volumes);
    }
}

/// A volume that clients may use.
#[derive(Clone)]
pub struct Target {
    pub id: usize,
    pub name: String,
    pub blocks: usize,
    pub read_only: bool,
    pub volume: Volume,
}

/// The volumes of a pool that has just been opened, for a storm.
pub fn targets(pool: &Pool, contents: &Contents) -> Vec<Target> {
    let volumes = contents.volumes.iter().enumerate();
    let target = |(id, (name, content)): (usize, (&String, &VolumeContent))| Target {
        id,
        name: name.clone(),
        blocks: content.blocks.len(),
        read_only: content.read_only,
        volume: pool.volume(name).unwrap(),
    };
    volumes.map(target).collect()
}

/// The state that the threads of a storm share.
pub struct Storm<'a> {
    pub simulation: &'a Simulation,
    pub pool: &'a Pool,
    pub clock: Arc<AtomicU64>,
    pub collider: Option<Collider>,
    pub targets: Mutex<Vec<Target>>,
    pub next_volume: usize,
    /// The modes that volumes get. A mode that is listed twice is chosen twice as often.
    pub modes: &'static [DedupMode],
    /// `true` if volumes get any compression.
    pub compresses: bool,
    /// Blocks of the largest volume.
    pub max_blocks: u64,
    pub clients: u64,
    pub steps: u64,
    pub seed: u64,
}

impl Storm<'_> {
    fn now(&self) -> Time {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Runs all threads until their steps are done or the pool fails.
    pub fn rage(&self) -> Log {
        let is_over = AtomicBool::new(false);
        let mut all = Log::default();
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..self.clients)
                .map(|number| {
                    let mut client = Client::new(self, self.seed.wrapping_add(number));
                    scope.spawn(move || {
                        client.work();
                        client.log
                    })
                })
                .collect();
            let owner = scope.spawn(|| Owner::new(self).work(&is_over));
            let free_veto = scope.spawn(|| self.keep(&is_over));
            let logs: Vec<_> =
                clients.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            is_over.store(true, Ordering::Relaxed);
            let others = [owner.join(), free_veto.join()];
            for log in logs.into_iter().chain(others) {
                all.append(log.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
        });
        all
    }

    /// Does the work of the background, and `grow`.
    fn keep(&self, is_over: &AtomicBool) -> Log {
        let mut random = Random::new(self.seed ^ 0x6b65_6570);
        let (mut log, mut failures) = (Log::default(), 0);
        while !is_over.load(Ordering::Relaxed) && failures < MAX_FAILURES {
            let start = self.now();
            let (result, is_flush) = match random.below(20) {
                0..6 => (self.pool.checkpoint(), true),
                6..13 => (self.pool.find(&Silent, &StopFlag::new()).map(drop), false),
                13 if self.compresses => (self.recompress(), false),
                13..15 => (self.pool.arrange(None, &Silent, &StopFlag::new()).map(drop), false),
                15 => (self.pool.gc(None, &Silent, &StopFlag::new()).map(drop), false),
                16 if random.below(3) == 0 => (self.shrink(&mut random), false),
                16 if random.below(2) == 0 => (self.grow(&mut random), false),
                16 => (self.scrub(), false),
                _ => (self.pool.flush(), true),
            };
            let end = self.now();
            failures = if result.is_ok() { 0 } else { failures + 1 };
            if result.is_ok() && is_flush {
                log.flushes.push(Flush { start, end });
            }
            std::thread::sleep(Duration::from_micros(random.below(2000)));
        }
        log
    }

    fn recompress(&self) -> Result<(), VolumeError> {
        self.pool.recompress(None, &Silent, &StopFlag::new()).map(drop)
    }

    fn scrub(&self) -> Result<(), VolumeError> {
        self.pool.scrub(ScrubOptions::default(), &Silent, &StopFlag::new()).map(drop)
    }

    fn shrink(&self, random: &mut Random) -> Result<(), VolumeError> {
        let stat = self.pool.stat()?;
        let all = stat.capacity_blocks + stat.reserved_blocks;
        let blocks = all - random.below(stat.free_blocks / 4 + 2);
        let options = ShrinkOptions::default();
        let stop = StopFlag::new();
        match self.pool.shrink(blocks * BLOCK as u64, options, (&Silent, &stop)) {
            // What is in use may have too little room, or be damaged.
            Err(VolumeError::BadOption { .. } | VolumeError::NoSpace { .. }) => Ok(()),
            shrunk => shrunk.map(drop),
        }
    }

    fn grow(&self, random: &mut Random) -> Result<(), VolumeError> {
        let capacity = self.pool.stat()?.capacity_blocks + random.below(3);
        self.pool.grow(capacity * BLOCK as u64)
    }
}

/// A request that is planned and not made yet.
enum Plan {
    Write { cell: usize, bytes: Vec<u8> },
    Zeroes { cells: Range<usize> },
    Trim { cells: Range<usize> },
    Read { blocks: Range<usize>, bytes: Vec<u8> },
}

impl Plan {
    /// The cells of the volume that the request touches.
    fn cells(&self) -> Range<usize> {
        match self {
            Self::Write { cell, bytes } => *cell..cell + bytes.len() / CELL,
            Self::Zeroes { cells } | Self::Trim { cells } => cells.clone(),
            Self::Read { blocks, .. } => blocks.start * CELLS..blocks.end * CELLS,
        }
    }

    fn operation(&mut self, durability: Durability) -> Operation<'_> {
        let cells = self.cells();
        let (offset, length) = ((cells.start * CELL) as u64, (cells.len() * CELL) as u64);
        match self {
            Self::Write { bytes, .. } => Operation::Write { offset, data: bytes, durability },
            Self::Zeroes { .. } => {
                Operation::WriteZeroes { offset, length, may_free: true, durability }
            }
            Self::Trim { .. } => Operation::Trim { offset, length, durability },
            Self::Read { bytes, .. } => Operation::Read { offset, buffer: bytes },
        }
    }
}

/// A thread that reads and writes.
struct Client<'a> {
    storm: &'a Storm<'a>,
    random: Random,
    log: Log,
    failures: u32,
}

impl<'a> Client<'a> {
    fn new(storm: &'a Storm<'a>, seed: u64) -> Self {
        Self { storm, random: Random::new(seed), log: Log::default(), failures: 0 }
    }

    fn work(&mut self) {
        for _ in 0..self.storm.steps {
            if self.storm.simulation.is_down() || self.failures >= MAX_FAILURES {
                return;
            }
            let targets = self.storm.targets.lock().unwrap().clone();
            if targets.is_empty() {
                std::thread::yield_now();
                continue;
            }
            // Mostly the first few volumes are chosen, so that threads meet.
            let most = if self.random.below(4) > 0 { targets.len().min(2) } else { targets.len() };
            let at = self.random.below(most as u64) as usize;
            self.batch(&targets[at]);
        }
    }

    /// Makes some requests for distinct blocks, and sometimes a flush after them.
    fn batch(&mut self, target: &Target) {
        let mut plans: Vec<Plan> = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let plan = self.plan(target);
            let blocks = |plan: &Plan| plan.cells().start / CELLS..plan.cells().end.div_ceil(CELLS);
            let mine = blocks(&plan);
            let meets =
                |other: &Plan| blocks(other).start < mine.end && mine.start < blocks(other).end;
            if !plans.iter().any(meets) {
                plans.push(plan);
            }
        }
        let is_immediate: Vec<bool> = plans.iter().map(|_| self.random.below(8) == 0).collect();
        let has_flush = self.random.below(6) == 0;
        let start = self.storm.now();
        let operations = plans.iter_mut().zip(&is_immediate).map(|(plan, is_immediate)| {
            plan.operation(if *is_immediate { Durability::Immediate } else { Durability::Flushed })
        });
        let mut requests: Vec<Request<'_>> = operations
            .chain(has_flush.then_some(Operation::Flush))
            .map(|operation| Request { operation, outcome: Ok(()) })
            .collect();
        target.volume.execute(&mut requests);
        let end = self.storm.now();
        let is_done: Vec<bool> = requests.iter().map(|request| request.outcome.is_ok()).collect();
        for request in &requests {
            if let (Operation::Read { .. }, Err(DeviceError::Damaged { offset })) =
                (&request.operation, &request.outcome)
            {
                let block = *offset as usize / BLOCK;
                let volume = target.id;
                self.log.damaged_reads.push(DamagedRead { volume, block, start, end });
            }
        }
        drop(requests);
        self.failures = if is_done.contains(&true) { 0 } else { self.failures + 1 };
        let is_flushed = has_flush && is_done.last() == Some(&true);
        if is_flushed {
            self.log.flushes.push(Flush { start, end });
        }
        // A request that failed because of the power cut has no end.
        let is_down = self.storm.simulation.is_down();
        for ((plan, is_immediate), is_done) in plans.into_iter().zip(is_immediate).zip(is_done) {
            let end = if !is_done && is_down { NEVER } else { end };
            let answer = Answer { start, end, is_done, is_immediate: is_immediate || is_flushed };
            self.note(target, &plan, answer);
        }
    }

    fn note(&mut self, target: &Target, plan: &Plan, answer: Answer) {
        let Answer { start, end, is_done, is_immediate } = answer;
        let cells = match plan {
            Plan::Read { blocks, bytes } => {
                if is_done {
                    let (block, bytes) = (blocks.start, bytes.clone());
                    self.log.reads.push(Read { volume: target.id, block, bytes, start, end });
                }
                return;
            }
            // The partial blocks at the ends of a trim keep their contents.
            Plan::Trim { cells } => {
                let first = cells.start.next_multiple_of(CELLS);
                first..(cells.end / CELLS * CELLS).max(first)
            }
            other => other.cells(),
        };
        if target.read_only {
            assert!(!is_done, "a snapshot was written");
            return;
        }
        let mut next = cells.start;
        while next < cells.end {
            let block = next / CELLS;
            let mine = next - block * CELLS..(cells.end - block * CELLS).min(CELLS);
            let mut bytes = vec![0; BLOCK];
            if let Plan::Write { bytes: written, .. } = plan {
                let from = (next - cells.start) * CELL;
                let length = mine.len() * CELL;
                bytes[mine.start * CELL..][..length].copy_from_slice(&written[from..from + length]);
            }
            next = (block + 1) * CELLS;
            let content = bytes.into();
            let volume = target.id;
            let write =
                Write { volume, block, cells: mine, content, start, end, is_done, is_immediate };
            self.log.writes.push(write);
        }
    }

    fn plan(&mut self, target: &Target) -> Plan {
        let blocks = target.blocks as u64;
        let block = self.random.below(blocks);
        let count = 1 + self.random.below((blocks - block).min(4));
        let (block, count) = (block as usize, count as usize);
        let whole = block * CELLS..(block + count) * CELLS;
        match self.random.below(20) {
            0..8 => {
                let bytes = (0..count).flat_map(|_| self.new_block()).collect();
                Plan::Write { cell: whole.start, bytes }
            }
            8..13 => {
                let cells = self.some_of(&whole);
                let bytes = self.new_bytes(cells.len());
                Plan::Write { cell: cells.start, bytes }
            }
            13 => Plan::Zeroes { cells: self.some_of(&whole) },
            14 => Plan::Zeroes { cells: whole },
            15 => Plan::Trim { cells: whole },
            _ => Plan::Read { blocks: block..block + count, bytes: vec![0xEE; count * BLOCK] },
        }
    }

    fn some_of(&mut self, cells: &Range<usize>) -> Range<usize> {
        let start = cells.start + self.random.below(cells.len() as u64) as usize;
        start..start + 1 + self.random.below((cells.end - start) as u64) as usize
    }

    fn new_block(&mut self) -> Vec<u8> {
        match (self.random.below(8), &self.storm.collider) {
            (0, _) => content(0, BLOCK),
            (1..4, _) => content(1 + self.random.below(COMMON_CONTENTS), BLOCK),
            (4..7, Some(collider)) => {
                let family = self.random.below(FAMILIES);
                collider.content(family, 1 + self.random.below(MEMBERS) as u32)
            }
            _ => content(self.random.next_u64() | 1, BLOCK),
        }
    }

    /// The bytes of a patch. They are random, so they are practically never written twice.
    fn new_bytes(&mut self, cells: usize) -> Vec<u8> {
        content(self.random.next_u64() | 1, cells * CELL)
    }
}

#[derive(Clone, Copy)]
struct Answer {
    start: Time,
    end: Time,
    is_done: bool,
    is_immediate: bool,
}
