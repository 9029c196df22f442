//! Threads that issue all kinds of requests and commands to one pool at once, and log them.

use super::collide::Collider;
use super::history::{CELL, CELLS, Flush, NEVER, Read, Time, Write};
use super::simulated::Simulation;
use super::{BLOCK, content};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_device::{BlockDevice, Durability, Operation, Request};
use gemelo_format::DedupMode;
use gemelo_volume::{Pool, Volume, VolumeError};
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
const MOST_FAILURES: u32 = 12;

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
    pub volumes: Vec<VolumeEvent>,
}

impl Log {
    pub fn append(&mut self, mut other: Self) {
        self.writes.append(&mut other.writes);
        self.flushes.append(&mut other.flushes);
        self.reads.append(&mut other.reads);
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

/// The state that the threads of a storm share.
pub struct Storm<'a> {
    pub simulation: &'a Simulation,
    pub pool: &'a Pool,
    pub clock: Arc<AtomicU64>,
    pub collider: Option<Collider>,
    pub targets: Mutex<Vec<Target>>,
    pub next_volume: usize,
    /// Blocks of the largest volume.
    pub most_blocks: u64,
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
            let keeper = scope.spawn(|| self.keep(&is_over));
            let logs: Vec<_> =
                clients.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            is_over.store(true, Ordering::Relaxed);
            let others = [owner.join(), keeper.join()];
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
        while !is_over.load(Ordering::Relaxed) && failures < MOST_FAILURES {
            let start = self.now();
            let (result, is_flush) = match random.below(20) {
                0..6 => (self.pool.checkpoint(), true),
                6..13 => (self.pool.find(&Silent, &StopFlag::new()).map(drop), false),
                13..15 => (self.pool.arrange(None, &Silent, &StopFlag::new()).map(drop), false),
                15 => (self.pool.gc(None, &Silent, &StopFlag::new()).map(drop), false),
                16 => (self.grow(&mut random), false),
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
            if self.storm.simulation.is_down() || self.failures >= MOST_FAILURES {
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

/// The thread that creates, copies, renames and removes volumes.
struct Owner<'a> {
    storm: &'a Storm<'a>,
    random: Random,
    log: Log,
    next_volume: usize,
}

impl<'a> Owner<'a> {
    fn new(storm: &'a Storm<'a>) -> Self {
        let random = Random::new(storm.seed ^ 0x6f77_6e65);
        Self { storm, random, log: Log::default(), next_volume: storm.next_volume }
    }

    fn work(mut self, is_over: &AtomicBool) -> Log {
        while !is_over.load(Ordering::Relaxed) && !self.storm.simulation.is_down() {
            let targets = self.storm.targets.lock().unwrap().clone();
            let count = targets.len() as u64;
            if count < 2 || count < 6 && self.random.below(3) == 0 {
                let source = (count > 0 && self.random.below(3) > 0)
                    .then(|| targets[self.random.below(count.max(1)) as usize].clone());
                self.create(source);
            } else {
                let target = targets[self.random.below(count) as usize].clone();
                match self.random.below(8) {
                    0..2 => self.remove(&target),
                    2..4 => self.resize(target),
                    4 => self.rename(target),
                    _ => self.set_mode(&target),
                }
            }
            std::thread::sleep(Duration::from_micros(self.random.below(4000)));
        }
        self.log
    }

    fn mode(&mut self) -> DedupMode {
        let modes = [DedupMode::Inline, DedupMode::Inline, DedupMode::Offline, DedupMode::Off];
        modes[self.random.below(4) as usize]
    }

    /// Logs a change. A change that succeeded is durable, and so are all changes before it.
    fn note(&mut self, volume: usize, what: Change, start: Time, is_done: bool) -> Time {
        let end = self.storm.now();
        if is_done {
            self.log.flushes.push(Flush { start, end });
        }
        let end = if !is_done && self.storm.simulation.is_down() { NEVER } else { end };
        self.log.volumes.push(VolumeEvent { volume, what, start, end, is_done });
        end
    }

    fn create(&mut self, source: Option<Target>) {
        let id = self.next_volume;
        self.next_volume += 1;
        let name = format!("v{id}s{:x}", self.storm.seed);
        let (pool, start) = (self.storm.pool, self.storm.now());
        let new_blocks = 1 + self.random.below(self.storm.most_blocks) as usize;
        let blocks = source.as_ref().map_or(new_blocks, |source| source.blocks);
        let read_only = source.is_some() && self.random.below(2) == 0;
        let result = match &source {
            None => pool.create_volume(&name, (blocks * BLOCK) as u64, self.mode()),
            Some(source) if read_only => pool.snapshot_volume(&source.name, &name),
            Some(source) => pool.clone_volume(&source.name, &name),
        };
        let is_done = result.is_ok();
        let target = pool.volume(&name).ok().filter(|_| is_done).map(|volume| {
            let name = name.clone();
            Target { id, name, blocks, read_only, volume }
        });
        let length = blocks * BLOCK;
        let copy = source.map(|source| {
            let bytes =
                target.as_ref().and_then(|target| super::read(&target.volume, 0, length).ok());
            (source.id, bytes)
        });
        // A copy that could not be read is not used, because its initial contents are unknown.
        let is_known = copy.as_ref().is_none_or(|(_, bytes)| bytes.is_some());
        self.note(id, Change::Create { name, blocks, read_only, copy }, start, is_done);
        if let Some(target) = target.filter(|_| is_known) {
            self.storm.targets.lock().unwrap().push(target);
        }
    }

    fn take_out(&self, id: usize) {
        self.storm.targets.lock().unwrap().retain(|target| target.id != id);
    }

    fn remove(&mut self, target: &Target) {
        self.take_out(target.id);
        let start = self.storm.now();
        let is_done = self.storm.pool.remove_volume(&target.name).is_ok();
        self.note(target.id, Change::Remove, start, is_done);
    }

    /// Returns the target in its present state, unless that is unknown.
    fn put_back(&self, target: Target, is_done: bool) {
        let mut targets = self.storm.targets.lock().unwrap();
        let at = targets.iter().position(|other| other.id == target.id);
        match (at, is_done) {
            (Some(at), true) => targets[at] = target,
            (Some(at), false) => drop(targets.remove(at)),
            (None, _) => {}
        }
    }

    fn resize(&mut self, target: Target) {
        let blocks = 1 + self.random.below(self.storm.most_blocks) as usize;
        let start = self.storm.now();
        let is_done = self.storm.pool.resize_volume(&target.name, (blocks * BLOCK) as u64).is_ok();
        let end = self.note(target.id, Change::Resize { blocks }, start, is_done);
        // Blocks that were cut off read as zeros if the volume grows again.
        for block in blocks..target.blocks {
            let (volume, content) = (target.id, vec![0; BLOCK].into());
            let (cells, is_immediate) = (0..CELLS, true);
            let write = Write { volume, block, cells, content, start, end, is_done, is_immediate };
            self.log.writes.push(write);
        }
        self.put_back(Target { blocks, ..target }, is_done);
    }

    fn rename(&mut self, target: Target) {
        let name = format!("v{}r{}", target.id, self.random.next_u64());
        let start = self.storm.now();
        let is_done = self.storm.pool.rename_volume(&target.name, &name).is_ok();
        self.note(target.id, Change::Rename { name: name.clone() }, start, is_done);
        self.put_back(Target { name, ..target }, is_done);
    }

    fn set_mode(&mut self, target: &Target) {
        let mode = self.mode();
        let start = self.storm.now();
        if self.storm.pool.set_mode(&target.name, mode).is_ok() {
            let end = self.storm.now();
            self.log.flushes.push(Flush { start, end });
        }
    }
}
