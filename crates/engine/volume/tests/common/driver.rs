//! Applies random requests and commands to a pool and to a model of it. The model knows the
//! possible states after a crash.

mod recovered;
mod versions;

#[allow(unused_imports, reason = "each test uses a part of this module")]
pub use recovered::check_recovered;

use super::simulated::{Fault, Simulation};
use super::{BLOCK, any_compression, content, flush, read, trim, write, write_now, write_zeroes};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_device::DeviceError;
use gemelo_format::{Compression, DedupMode};
use gemelo_volume::{Pool, ScrubOptions, ShrinkOptions, VolumeError};
use std::collections::BTreeMap;

/// The number of contents that are written repeatedly, which makes duplicates.
const COMMON_CONTENTS: u64 = 12;

/// A block of a volume: its content, the content when it was last durable, and the contents allowed
/// after a crash.
#[derive(Debug, Clone)]
pub struct Block {
    pub live: Vec<u8>,
    pub allowed: Vec<Vec<u8>>,
}

impl Block {
    fn zero() -> Self {
        Self::durable(vec![0; BLOCK])
    }

    fn durable(content: Vec<u8>) -> Self {
        Self { allowed: vec![content.clone()], live: content }
    }

    fn set(&mut self, content: Vec<u8>) {
        self.allowed.push(content.clone());
        self.live = content;
    }
}

#[derive(Debug, Clone, Default)]
pub struct ModelVolume {
    pub blocks: Vec<Block>,
    pub read_only: bool,
    /// The tags of the holds, in order.
    pub holds: Vec<String>,
}

/// The state of the volumes, and their state if the change under way succeeds.
#[derive(Debug, Clone, Default)]
pub struct Model {
    pub volumes: BTreeMap<String, ModelVolume>,
    pub after_change: Option<BTreeMap<String, ModelVolume>>,
    /// Blocks that the arranger has moved.
    pub moved_blocks: u64,
    /// Contents that were compressed again.
    pub recompressed_blocks: u64,
    /// Volumes that were rolled back.
    pub rolled_back: u64,
    /// Contents that were moved because the store became smaller.
    pub shrunk: u64,
}

impl Model {
    fn make_durable(&mut self) {
        for block in self.volumes.values_mut().flat_map(|volume| &mut volume.blocks) {
            block.allowed = vec![block.live.clone()];
        }
    }

    /// Notes that a change begins, which makes the volumes the durable ones with this change
    /// applied.
    fn begin_change(&mut self, change: impl FnOnce(&mut BTreeMap<String, ModelVolume>)) {
        let mut after = self.clone();
        after.make_durable();
        change(&mut after.volumes);
        self.after_change = Some(after.volumes);
    }

    fn end_change(&mut self, succeeded: bool) {
        if let Some(after) = self.after_change.take()
            && succeeded
        {
            self.volumes = after;
        }
    }
}

/// The pool is gone: the power was cut, or the pool stopped during a change.
#[derive(Debug)]
pub struct Down;

pub struct Driver<'a> {
    pub simulation: &'a Simulation,
    pub pool: &'a Pool,
    pub model: &'a mut Model,
    pub random: &'a mut Random,
    /// Errors are expected. Blocks of a failed request are read back.
    pub may_fail: bool,
    compresses: bool,
    names: u64,
}

impl<'a> Driver<'a> {
    pub fn new(
        simulation: &'a Simulation,
        pool: &'a Pool,
        model: &'a mut Model,
        random: &'a mut Random,
    ) -> Self {
        let names = random.next_u64();
        let compresses = pool.stat().is_ok_and(|stat| stat.compression != Compression::Off);
        Self { simulation, pool, model, random, may_fail: false, compresses, names }
    }

    fn any_volume(&mut self) -> Option<String> {
        let count = self.model.volumes.len() as u64;
        let at = self.random.below(count.max(1)) as usize;
        self.model.volumes.keys().nth(at).cloned()
    }

    fn fresh_name(&mut self) -> String {
        self.names = self.names.wrapping_add(1);
        format!("v{:x}", self.names)
    }

    /// Does one random step.
    pub fn step(&mut self) -> Result<(), Down> {
        match self.random.below(100) {
            0..45 => self.write(),
            45..55 => self.trim(),
            55..68 => self.read(),
            68..80 => self.flush(),
            80..84 => self.create(),
            84..86 => self.copy(),
            86 if self.random.below(3) == 0 => self.snapshot_all(),
            86 => self.roll_back(),
            87..89 => self.remove(),
            89..91 => self.resize(),
            91 => self.rename(),
            92 => self.hold(),
            93 => self.pool_call(Pool::checkpoint),
            94 if self.compresses && self.random.below(2) == 0 => self.recompress(),
            94 => self.arrange(),
            95 => self.pool_call(|pool| pool.gc(None, &Silent, &StopFlag::new()).map(|_| ())),
            96 => {
                let options = ScrubOptions { heals: true, max_bytes_per_s: None };
                self.done(self.pool.scrub(options, &Silent, &StopFlag::new()))
            }
            97 => self.done(self.pool.find(&Silent, &StopFlag::new())),
            98 if self.random.below(2) == 0 => self.shrink(),
            98 => self.grow(),
            _ if self.compresses && self.random.below(2) == 0 => self.set_compression(),
            _ => self.set_mode(),
        }
    }

    fn failed<E: std::fmt::Display>(&self, error: &E) -> Result<(), Down> {
        if self.simulation.is_down() {
            return Err(Down);
        }
        assert!(self.may_fail, "{error}");
        Ok(())
    }

    fn range(&mut self, name: &str) -> (u64, usize) {
        let size = self.model.volumes[name].blocks.len() * BLOCK;
        let most = (size as u64).min(6 * BLOCK as u64);
        let (offset, length) = if self.random.below(3) == 0 {
            let offset = self.random.below(size as u64);
            (offset, 1 + self.random.below((size as u64 - offset).min(most)))
        } else {
            let block = BLOCK as u64;
            let offset = self.random.below(size as u64 / block) * block;
            let blocks = 1 + self.random.below(((size as u64 - offset) / block).min(6));
            (offset, blocks * block)
        };
        (offset, length as usize)
    }

    fn new_bytes(&mut self, length: usize) -> Vec<u8> {
        let blocks = length.div_ceil(BLOCK) + 1;
        let mut bytes = Vec::new();
        for _ in 0..blocks {
            let id = match self.random.below(10) {
                0 => 0,
                1..6 => 1 + self.random.below(COMMON_CONTENTS),
                _ => self.random.next_u64(),
            };
            bytes.extend(content(id, BLOCK));
        }
        bytes.truncate(length);
        bytes
    }

    fn write(&mut self) -> Result<(), Down> {
        let Some(name) = self.any_volume() else { return Ok(()) };
        let (offset, length) = self.range(&name);
        let bytes = self.new_bytes(length);
        let is_immediate = self.random.below(10) == 0;
        let volume = self.pool.volume(&name).unwrap();
        let result = if is_immediate {
            write_now(&volume, offset, &bytes)
        } else {
            write(&volume, offset, &bytes)
        };
        self.changed(&name, offset, &bytes, result, is_immediate)
    }

    /// Tells the model of a write of bytes, which succeeded or failed.
    fn changed(
        &mut self,
        name: &str,
        offset: u64,
        bytes: &[u8],
        result: Result<(), DeviceError>,
        is_immediate: bool,
    ) -> Result<(), Down> {
        let volume = self.model.volumes.get_mut(name).unwrap();
        if volume.read_only {
            assert!(matches!(result, Err(DeviceError::ReadOnly)));
            return Ok(());
        }
        let mut at = offset as usize;
        let mut rest = bytes;
        let mut touched = Vec::new();
        while !rest.is_empty() {
            let (number, within) = (at / BLOCK, at % BLOCK);
            let length = rest.len().min(BLOCK - within);
            let block = &mut volume.blocks[number];
            let before = block.live.clone();
            let mut after = before.clone();
            after[within..within + length].copy_from_slice(&rest[..length]);
            block.set(after.clone());
            touched.push((number, before, after));
            at += length;
            rest = &rest[length..];
        }
        match result {
            Ok(()) if is_immediate => {
                self.model.make_durable();
                Ok(())
            }
            Ok(()) => Ok(()),
            Err(error) => {
                self.failed(&error)?;
                self.learn(name, touched);
                Ok(())
            }
        }
    }

    /// Reads the blocks of a failed request, each of which has its old or its new content.
    fn learn(&mut self, name: &str, touched: Vec<(usize, Vec<u8>, Vec<u8>)>) {
        let volume = self.pool.volume(name).unwrap();
        for (number, before, after) in touched {
            let now = read(&volume, (number * BLOCK) as u64, BLOCK).unwrap();
            assert!(
                now == before || now == after,
                "block {number} of {name} holds a content that was never written"
            );
            self.model.volumes.get_mut(name).unwrap().blocks[number].live = now;
        }
    }

    fn trim(&mut self) -> Result<(), Down> {
        let Some(name) = self.any_volume() else { return Ok(()) };
        let (offset, length) = self.range(&name);
        let volume = self.pool.volume(&name).unwrap();
        if self.random.below(2) == 0 {
            let result = write_zeroes(&volume, offset, length as u64);
            return self.changed(&name, offset, &vec![0; length], result, false);
        }
        let result = trim(&volume, offset, length as u64);
        let start = (offset as usize).next_multiple_of(BLOCK);
        let end = ((offset as usize + length) / BLOCK * BLOCK).max(start);
        self.changed(&name, start as u64, &vec![0; end - start], result, false)
    }

    fn read(&mut self) -> Result<(), Down> {
        let Some(name) = self.any_volume() else { return Ok(()) };
        let (offset, length) = self.range(&name);
        match read(&self.pool.volume(&name).unwrap(), offset, length) {
            Ok(bytes) => {
                let live: Vec<u8> = self.model.volumes[&name]
                    .blocks
                    .iter()
                    .flat_map(|block| block.live.clone())
                    .collect();
                assert!(
                    bytes == live[offset as usize..offset as usize + length],
                    "{name} at {offset}"
                );
                Ok(())
            }
            Err(error) => self.failed(&error),
        }
    }

    fn flush(&mut self) -> Result<(), Down> {
        let Some(name) = self.any_volume() else { return Ok(()) };
        match flush(&self.pool.volume(&name).unwrap()) {
            Ok(()) => {
                self.model.make_durable();
                Ok(())
            }
            Err(error) => self.failed(&error),
        }
    }

    fn pool_call(
        &mut self,
        call: impl FnOnce(&Pool) -> Result<(), VolumeError>,
    ) -> Result<(), Down> {
        match call(self.pool) {
            Ok(()) => {
                self.model.make_durable();
                Ok(())
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Settles work that changes no content and makes nothing durable.
    fn done<T>(&self, outcome: Result<T, VolumeError>) -> Result<(), Down> {
        outcome.map_or_else(|error| self.failed(&error), |_| Ok(()))
    }

    fn arrange(&mut self) -> Result<(), Down> {
        let done = self.pool.arrange(None, &Silent, &StopFlag::new());
        self.model.moved_blocks += done.as_ref().map_or(0, |report| report.moved_blocks);
        self.done(done)
    }

    fn recompress(&mut self) -> Result<(), Down> {
        let done = self.pool.recompress(None, &Silent, &StopFlag::new());
        self.model.recompressed_blocks += done.as_ref().map_or(0, |report| report.moved_blocks);
        self.done(done)
    }

    fn any_mode(&mut self) -> DedupMode {
        match self.random.below(6) {
            0 => DedupMode::Off,
            1 | 2 => DedupMode::Offline,
            _ => DedupMode::Inline,
        }
    }

    fn change(
        &mut self,
        call: impl FnOnce(&Pool) -> Result<(), VolumeError>,
        change: impl FnOnce(&mut BTreeMap<String, ModelVolume>),
    ) -> Result<(), Down> {
        self.model.begin_change(change);
        match call(self.pool) {
            Ok(()) => {
                self.model.end_change(true);
                Ok(())
            }
            Err(error) => {
                // After a power cut, the model keeps both states: the change may be done or not.
                self.failed(&error)?;
                self.settle()
            }
        }
    }

    /// Settles a failed change: it was not made, or it was made and is not durable. Fails if it
    /// cannot be made durable.
    fn settle(&mut self) -> Result<(), Down> {
        let list = self.pool.volumes();
        let now = list.iter().map(|volume| {
            let record = &volume.record;
            let holds = record.holds.tags().map(str::to_owned).collect::<Vec<_>>();
            (record.name.clone(), record.size_bytes, holds)
        });
        let before = self.model.volumes.iter().map(|(name, volume)| {
            (name.clone(), (volume.blocks.len() * BLOCK) as u64, volume.holds.clone())
        });
        if before.eq(now) {
            self.model.end_change(false);
            return Ok(());
        }
        self.simulation.set_fault(Fault::Never);
        if self.pool.flush().is_err() {
            return Err(Down);
        }
        self.model.end_change(true);
        Ok(())
    }

    fn create(&mut self) -> Result<(), Down> {
        if self.model.volumes.len() >= 4 {
            return Ok(());
        }
        let name = self.fresh_name();
        let blocks = 1 + self.random.below(40) as usize;
        let mode = self.any_mode();
        let new = ModelVolume { blocks: vec![Block::zero(); blocks], ..ModelVolume::default() };
        self.change(
            |pool| pool.create_volume(&name, (blocks * BLOCK) as u64, mode),
            |volumes| drop(volumes.insert(name.clone(), new)),
        )
    }

    fn copy(&mut self) -> Result<(), Down> {
        let Some(source) = self.any_volume().filter(|_| self.model.volumes.len() < 6) else {
            return Ok(());
        };
        let name = self.fresh_name();
        let read_only = self.random.below(2) == 0;
        self.change(
            |pool| {
                if read_only {
                    pool.snapshot_volume(&source, &name)
                } else {
                    pool.clone_volume(&source, &name)
                }
            },
            |volumes| {
                let copy = volumes[&source].clone();
                let copy = ModelVolume { read_only, holds: Vec::new(), ..copy };
                volumes.insert(name.clone(), copy);
            },
        )
    }

    fn resize(&mut self) -> Result<(), Down> {
        // A snapshot keeps its size.
        let named = self.any_volume().filter(|name| !self.model.volumes[name].read_only);
        let Some(name) = named else { return Ok(()) };
        let blocks = 1 + self.random.below(40) as usize;
        self.change(
            |pool| pool.resize_volume(&name, (blocks * BLOCK) as u64),
            |volumes| volumes.get_mut(&name).unwrap().blocks.resize_with(blocks, Block::zero),
        )
    }

    fn rename(&mut self) -> Result<(), Down> {
        let Some(name) = self.any_volume() else { return Ok(()) };
        let new = self.fresh_name();
        self.change(
            |pool| pool.rename_volume(&name, &new),
            |volumes| {
                let volume = volumes.remove(&name).unwrap();
                volumes.insert(new.clone(), volume);
            },
        )
    }

    fn set_mode(&mut self) -> Result<(), Down> {
        let Some(name) = self.any_volume() else { return Ok(()) };
        let mode = self.any_mode();
        self.change(|pool| pool.set_mode(&name, mode), |_| {})
    }

    fn set_compression(&mut self) -> Result<(), Down> {
        let Some(name) = self.any_volume() else { return Ok(()) };
        let compression = any_compression(self.random);
        self.change(|pool| pool.set_compression(&name, compression), |_| {})
    }

    fn grow(&mut self) -> Result<(), Down> {
        let capacity = self.pool.stat().unwrap().capacity_blocks + 1 + self.random.below(8);
        self.change(|pool| pool.grow(capacity * BLOCK as u64), |_| {})
    }

    fn shrink(&mut self) -> Result<(), Down> {
        let stat = self.pool.stat().unwrap();
        let all = stat.capacity_blocks + stat.reserved_blocks;
        let blocks = all - self.random.below(stat.free_blocks / 2 + 2);
        let options = ShrinkOptions::default();
        match self.pool.shrink(blocks * BLOCK as u64, options, (&Silent, &StopFlag::new())) {
            // What is in use may have too little room, or be damaged.
            Err(VolumeError::BadOption { .. } | VolumeError::NoSpace { .. }) => Ok(()),
            shrunk => {
                let moved = shrunk.as_ref().map_or(0, |report| report.moved_contents);
                self.model.shrunk += moved;
                self.done(shrunk)
            }
        }
    }
}
