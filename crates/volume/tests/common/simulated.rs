//! A disk in memory that loses, reorders and tears what was not synced, and fails when told to.
//!
//! The fault model is that of `docs/format.md`: until a sync returned, every 512-byte sector written since the one before may
//! after a crash be old or new on its own, and of several writes to a sector any may be the last. Both disks of a pool share
//! one world: one count of calls, one seed.

use gemelo_base::random::Random;
use gemelo_volume::{Disk, PoolDisks};
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex};

const SECTOR: usize = 512;

/// What goes wrong, and at which call. Calls are counted from 1; reads count for errors only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Never,
    /// This write, sync or change of length is under way when all ends.
    CrashAt(u64),
    /// This call of any kind fails, and the next ones work.
    ErrorAt(u64, io::ErrorKind),
    /// From this call on all writes and changes of length fail, until healed.
    FullFrom(u64),
}

struct Image {
    live: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

pub struct World {
    random: Random,
    fault: Fault,
    calls: u64,
    changing_calls: u64,
    pub syncs: u64,
    is_down: bool,
    images: [Image; 2],
}

#[derive(Clone)]
pub struct SimulatedDisk {
    world: Arc<Mutex<World>>,
    which: usize,
}

/// Two disks and what goes wrong with them.
#[derive(Clone)]
pub struct Simulation {
    world: Arc<Mutex<World>>,
}

impl Simulation {
    pub fn new(seed: u64) -> Self {
        Self::of_images(seed, [Vec::new(), Vec::new()])
    }

    /// Disks that hold this, data first.
    pub fn of_images(seed: u64, images: [Vec<u8>; 2]) -> Self {
        let images = images.map(|live| Image { durable: live.clone(), live, unsynced: Vec::new() });
        let random = Random::new(seed);
        let world = World {
            random,
            fault: Fault::Never,
            calls: 0,
            changing_calls: 0,
            syncs: 0,
            is_down: false,
            images,
        };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    pub fn disks(&self) -> PoolDisks {
        let disk = |which| Arc::new(SimulatedDisk { world: Arc::clone(&self.world), which });
        PoolDisks { data: disk(0), metadata: disk(1) }
    }

    /// Sets what goes wrong; calls are counted from now.
    pub fn set_fault(&self, fault: Fault) {
        let mut world = self.world.lock().unwrap();
        world.fault = fault;
        world.calls = 0;
        world.changing_calls = 0;
    }

    pub fn is_down(&self) -> bool {
        self.world.lock().unwrap().is_down
    }

    pub fn calls(&self) -> u64 {
        self.world.lock().unwrap().calls
    }

    pub fn syncs(&self) -> u64 {
        self.world.lock().unwrap().syncs
    }

    /// Pulls the plug: nothing works any more.
    pub fn pull_plug(&self) {
        self.world.lock().unwrap().is_down = true;
    }

    /// What is on the media after the plug was pulled: of what was not synced, chance decides.
    pub fn after_crash(&self, seed: u64) -> Self {
        let mut world = self.world.lock().unwrap();
        world.is_down = true;
        let World { random, images, .. } = &mut *world;
        let kept = [0, 1].map(|which| images[which].survivors(random));
        Self::of_images(seed, kept)
    }

    /// What the next process finds after this one was killed: everything, but what was not synced still is not.
    pub fn after_kill(&self) -> Self {
        let mut world = self.world.lock().unwrap();
        world.is_down = true;
        let images = [0, 1].map(|which| {
            let image = &world.images[which];
            let (live, durable) = (image.live.clone(), image.durable.clone());
            Image { live, durable, unsynced: image.unsynced.clone() }
        });
        let random = Random::new(world.random.next_u64());
        let world = World {
            random,
            fault: Fault::Never,
            calls: 0,
            changing_calls: 0,
            syncs: 0,
            is_down: false,
            images,
        };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// What the disks hold now, data first.
    pub fn images(&self) -> [Vec<u8>; 2] {
        let world = self.world.lock().unwrap();
        [0, 1].map(|which| world.images[which].live.clone())
    }
}

impl Image {
    fn survivors(&self, random: &mut Random) -> Vec<u8> {
        let mut kept = self.durable.clone();
        let mut order: Vec<usize> = (0..self.unsynced.len()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        // Sometimes all of it makes it to the medium, sometimes nothing, mostly some.
        let luck = random.below(8);
        for at in order {
            let (offset, bytes) = &self.unsynced[at];
            let fate = match luck {
                0 => 0,
                1 => 1,
                _ => random.below(3),
            };
            for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                let is_kept = fate == 1 || fate == 2 && random.below(2) == 1;
                let start = offset + number * SECTOR;
                if is_kept && start < self.live.len() {
                    kept.resize(kept.len().max(start + sector.len()), 0);
                    kept[start..start + sector.len()].copy_from_slice(sector);
                }
            }
        }
        kept.resize(self.live.len(), 0);
        kept
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        self.live.resize(self.live.len().max(end), 0);
        self.live[offset..end].copy_from_slice(bytes);
        self.unsynced.push((offset, bytes.to_vec()));
    }
}

impl World {
    /// Counts a call; says whether it is to fail. A crash lets a changing call still leave its trace.
    fn enter(&mut self, is_change: bool, takes_space: bool) -> io::Result<bool> {
        if self.is_down {
            return Err(io::Error::other("the plug is pulled"));
        }
        self.calls += 1;
        self.changing_calls += u64::from(is_change);
        match self.fault {
            Fault::CrashAt(call) if is_change && self.changing_calls == call => Ok(true),
            Fault::ErrorAt(call, kind) if self.calls == call => Err(io::Error::from(kind)),
            Fault::FullFrom(call) if takes_space && self.calls >= call => {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            _ => Ok(false),
        }
    }
}

impl Disk for SimulatedDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.world.lock().unwrap().images[self.which].live.len() as u64)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut world = self.world.lock().unwrap();
        let crashes = world.enter(true, true)?;
        world.images[self.which].live.resize(length as usize, 0);
        world.is_down = crashes;
        if crashes { Err(io::Error::other("the plug is pulled")) } else { Ok(()) }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut world = self.world.lock().unwrap();
        world.enter(false, false)?;
        let start = offset as usize;
        let bytes = world.images[self.which]
            .live
            .get(start..start + buffer.len())
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn write_at(&self, offset: u64, slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let mut world = self.world.lock().unwrap();
        // Of a write that fails, any part may have been done.
        let part = world.random.below(bytes.len() as u64 + 1) as usize;
        // The metadata disk has its journal and roots from the start; contents go to a sparse file.
        let takes_space = self.which == 0 || offset as usize + bytes.len() > world.images[1].live.len();
        let result = world.enter(true, takes_space);
        let image = &mut world.images[self.which];
        match result {
            Ok(false) => image.write(offset as usize, &bytes),
            Ok(true) => {
                image.write(offset as usize, &bytes);
                world.is_down = true;
                return Err(io::Error::other("the plug is pulled"));
            }
            Err(error) => {
                if !world.is_down {
                    world.images[self.which].write(offset as usize, &bytes[..part]);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.world.lock().unwrap();
        world.syncs += 1;
        if world.enter(true, false)? {
            world.is_down = true;
            return Err(io::Error::other("the plug is pulled"));
        }
        let image = &mut world.images[self.which];
        image.durable.resize(image.live.len(), 0);
        for (offset, bytes) in image.unsynced.drain(..) {
            image.durable[offset..offset + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }

    /// Discarded blocks read as anything: here, as what nobody wrote.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let mut world = self.world.lock().unwrap();
        if world.enter(true, false)? {
            world.is_down = true;
            return Err(io::Error::other("the plug is pulled"));
        }
        world.images[self.which].write(offset as usize, &vec![0xDD; length as usize]);
        Ok(())
    }
}
