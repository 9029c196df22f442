//! Disks in memory that record the calls of the engine, stop at each, and lose what was not synced
//! when the power is cut.

use crate::decode::Decoder;
use crate::schedule::{Scheduler, this_thread};
use gemelo_base::random::Random;
use gemelo_base::{Clock, ManualClock};
use gemelo_disk::{Disk, DiskRead, DiskWrite};
use gemelo_model::{Event, Pbn};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, Tuning};
use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex};

/// The number of the data disk and of the metadata disk.
const DATA: usize = 0;
const METADATA: usize = 1;
/// Bytes that a power cut keeps or loses together.
const SECTOR: usize = 512;

#[derive(Clone, Default)]
struct Image {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Writes that no sync has covered.
    unsynced: Vec<(usize, Vec<u8>)>,
}

impl Image {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if end > self.live.len() {
            self.live.resize(end, 0);
        }
        self.live[offset..end].copy_from_slice(bytes);
        self.unsynced.push((offset, bytes.to_vec()));
    }

    /// Makes the first writes durable.
    fn sync(&mut self, count: usize) {
        self.durable.resize(self.live.len(), 0);
        for (offset, bytes) in self.unsynced.drain(..count) {
            self.durable[offset..offset + bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// Cuts the power. Of each sector that was not synced the old or the new one. A third
    /// of the cuts leaves all that was written, and a third nothing.
    fn after_cut(mut self, random: &mut Random) -> Self {
        self.durable.resize(self.live.len(), 0);
        let luck = random.below(3);
        for (offset, bytes) in std::mem::take(&mut self.unsynced) {
            for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                if luck == 1 || luck == 2 && random.below(2) == 0 {
                    let start = offset + number * SECTOR;
                    self.durable[start..start + sector.len()].copy_from_slice(sector);
                }
            }
        }
        Self { live: self.durable.clone(), ..self }
    }
}

#[derive(Default)]
struct World {
    images: [Image; 2],
    /// Writes before the oldest that is unsynced, so that a sync knows which it covers.
    synced: [usize; 2],
    events: Vec<Event>,
    decoder: Option<Decoder>,
    /// Calls of an opening are not recorded: the model opens a pool in one step.
    is_opening: bool,
    is_down: bool,
    /// Threads that have written a commit and not synced it.
    committers: HashSet<Option<usize>>,
}

impl World {
    const fn is_recording(&self) -> bool {
        self.decoder.is_some() && !self.is_opening && !self.is_down
    }
}

/// The two disks and the clock of a pool.
#[derive(Clone)]
pub struct Machine {
    world: Arc<Mutex<World>>,
    scheduler: Arc<Scheduler>,
}

impl Machine {
    pub fn new(scheduler: Scheduler) -> Self {
        Self { world: Arc::default(), scheduler: Arc::new(scheduler) }
    }

    pub fn disks(&self) -> PoolDisks {
        let disk = |which| Arc::new(RecordedDisk { machine: self.clone(), which });
        PoolDisks::new(disk(DATA), disk(METADATA))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(StoppingClock(self.clone(), ManualClock::new()))
    }

    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Opens the pool.
    pub fn open(&self, tuning: Tuning) -> Pool {
        self.world.lock().unwrap().is_opening = true;
        let pool = Pool::open_disks(self.disks(), tuning, self.clock()).unwrap();
        self.world.lock().unwrap().is_opening = false;
        pool
    }

    /// Records from now on, with commits decoded.
    pub fn record(&self, decoder: Decoder) {
        self.world.lock().unwrap().decoder = Some(decoder);
    }

    /// Adds an event, unless nothing is recorded.
    pub fn note(&self, event: Event) {
        let mut world = self.world.lock().unwrap();
        if world.is_recording() {
            world.events.push(event);
        }
    }

    /// Cuts the power: every later call fails.
    pub fn cut_power(&self) {
        self.note(Event::CutPower);
        self.world.lock().unwrap().is_down = true;
    }

    /// The machine after the power cut, and the decoder to record with.
    pub fn after_cut(&self, scheduler: Scheduler, random: &mut Random) -> (Self, Decoder) {
        let mut world = self.world.lock().unwrap();
        let images = world.images.clone().map(|image| image.after_cut(random));
        let events = std::mem::take(&mut world.events);
        let decoder = world.decoder.take().unwrap();
        let world = World { images, events, ..World::default() };
        let world = Arc::new(Mutex::new(world));
        (Self { world, scheduler: Arc::new(scheduler) }, decoder)
    }

    pub fn events(&self) -> Vec<Event> {
        self.world.lock().unwrap().events.clone()
    }
}

/// A clock that stands still, and stops the thread that looks at it.
struct StoppingClock(Machine, ManualClock);

impl Clock for StoppingClock {
    fn now_ns(&self) -> u64 {
        self.0.scheduler.stop();
        self.1.now_ns()
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        self.1.sleep_until_ns(deadline_ns);
    }
}

struct RecordedDisk {
    machine: Machine,
    which: usize,
}

impl RecordedDisk {
    /// Stops, and then changes the world if the power is there.
    fn call<T>(&self, call: impl FnOnce(&mut World) -> io::Result<T>) -> io::Result<T> {
        self.machine.scheduler.stop();
        let mut world = self.machine.world.lock().unwrap();
        if world.is_down { Err(io::Error::other("the power is cut")) } else { call(&mut world) }
    }

    fn write(&self, world: &mut World, offset: u64, bytes: &[u8]) {
        world.images[self.which].write(offset as usize, bytes);
        let is_opening = world.is_opening;
        let World { decoder, events, committers, .. } = world;
        if self.which == METADATA
            && !is_opening
            && let Some(changes) =
                decoder.as_mut().and_then(|decoder| decoder.commit(offset, bytes))
        {
            events.push(Event::Commit(changes));
            committers.insert(this_thread());
        }
    }

    fn end_sync(&self, world: &mut World, until: usize) {
        let count = until.saturating_sub(world.synced[self.which]);
        world.images[self.which].sync(count);
        world.synced[self.which] += count;
        if !world.is_recording() {
            return;
        }
        if self.which == DATA {
            world.events.push(Event::EndSync);
        } else if world.committers.remove(&this_thread()) {
            world.events.push(Event::SyncCommit);
        }
    }
}

impl Disk for RecordedDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.machine.world.lock().unwrap().images[self.which].live.len() as u64)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.call(|world| {
            world.images[self.which].live.resize(length as usize, 0);
            Ok(())
        })
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        for read in reads {
            read.outcome = self.call(|world| {
                let start = read.offset as usize;
                let live = &world.images[self.which].live;
                let bytes = live.get(start..start + read.buffer.len());
                read.buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            });
        }
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        for write in writes {
            write.outcome = self.call(|world| {
                self.write(world, write.offset, write.bytes);
                Ok(())
            });
        }
    }

    fn sync(&self) -> io::Result<()> {
        let until = self.call(|world| {
            if self.which == DATA && world.is_recording() {
                world.events.push(Event::BeginSync);
            }
            Ok(world.synced[self.which] + world.images[self.which].unsynced.len())
        })?;
        self.call(|world| {
            self.end_sync(world, until);
            Ok(())
        })
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.call(|world| {
            world.images[self.which].write(offset as usize, &vec![0xDD; length as usize]);
            let World { decoder, events, .. } = world;
            let blocks = decoder.iter().flat_map(|decoder| decoder.blocks(offset, length));
            events.extend(blocks.map(|number| Event::Discard(Pbn(number))));
            Ok(())
        })
    }
}
