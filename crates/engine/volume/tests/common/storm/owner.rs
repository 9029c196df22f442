//! The thread that creates, copies, resizes, renames and removes volumes, and changes their
//! settings.

use super::super::any_compression;
use super::*;

/// The thread that creates, copies, renames and removes volumes.
pub(super) struct Owner<'a> {
    storm: &'a Storm<'a>,
    random: Random,
    log: Log,
    next_volume: usize,
}

impl<'a> Owner<'a> {
    pub(super) fn new(storm: &'a Storm<'a>) -> Self {
        let random = Random::new(storm.seed ^ 0x6f77_6e65);
        Self { storm, random, log: Log::default(), next_volume: storm.next_volume }
    }

    pub(super) fn work(mut self, is_over: &AtomicBool) -> Log {
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
                    5 if self.storm.compresses => self.set_compression(&target),
                    _ => self.set_mode(&target),
                }
            }
            std::thread::sleep(Duration::from_micros(self.random.below(4000)));
        }
        self.log
    }

    fn mode(&mut self) -> DedupMode {
        let modes = self.storm.modes;
        modes[self.random.below(modes.len() as u64) as usize]
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
        let new_blocks = 1 + self.random.below(self.storm.max_blocks) as usize;
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
            let bytes = target
                .as_ref()
                .and_then(|target| crate::common::read(&target.volume, 0, length).ok());
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
        let blocks = 1 + self.random.below(self.storm.max_blocks) as usize;
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
        let is_set = self.storm.pool.set_mode(&target.name, mode).is_ok();
        self.note_flush(start, is_set);
    }

    fn set_compression(&mut self, target: &Target) {
        let compression = any_compression(&mut self.random);
        let start = self.storm.now();
        let is_set = self.storm.pool.set_compression(&target.name, compression).is_ok();
        self.note_flush(start, is_set);
    }

    /// A setting that was changed is durable, and so is everything before it.
    fn note_flush(&mut self, start: Time, is_set: bool) {
        if is_set {
            let end = self.storm.now();
            self.log.flushes.push(Flush { start, end });
        }
    }
}
