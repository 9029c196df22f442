//! A disk in memory that loses, reorders and tears what was not synced, and fails when told to.
//!
//! # The fault model
//!
//! A *power cut* leaves of each disk:
//!
//! - every write that a sync covered which returned without an error;
//! - of every other write any of its 512-byte sectors, each old or new on its own, in any order;
//!   of several writes to a sector any may be the last. A sector is not torn;
//! - any length that the file had since its last good sync. A write beyond that length is lost.
//!
//! A sync covers the writes that had returned when it began. One that is written during a slow
//! sync is not covered.
//!
//! A *failed sync* does what `fsync` does on Linux: chance decides for each sector whether it got
//! to the medium; the pages of all of them are clean afterwards. A later sync does not try them
//! again. Reads show them until a power cut, in the next process as well. A length is tried again.
//!
//! A *kill* ends the process and nothing else: the next one reads what was written, and what was
//! not synced still is not.
//!
//! A list of requests counts as one call for each run of ranges that follow one another. A fault hits
//! one request of it, chosen by chance: an error leaves the others done, a power cut has those
//! before it written and those after it not.
//!
//! A *failed write* leaves any part from its front. A *full disk* refuses what takes space. A
//! *slow* call sleeps before it does anything (a sync: after it is settled what it covers), so
//! that others overtake it. A *discarded* range reads as bytes that nobody wrote.
//!
//! Both disks of a pool share one world: one count of calls, one seed.

use super::hold::{Call, Gate, Hold};
use super::medium::Image;
use gemelo_base::random::Random;
use gemelo_disk::{Disk, DiskRead, DiskWrite};
use gemelo_store::{BlockStore, OpenStore, PoolDisks};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The number of the data disk and of the metadata disk.
pub const DATA: usize = 0;
pub const METADATA: usize = 1;

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
    /// This sync fails, of those of either disk, and the next ones work.
    FailSync(u64),
}

/// What the disks are like while nothing in particular goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nature {
    /// One call in so many sleeps; 0 for none.
    pub slow_one_in: u64,
    /// For at most this long.
    pub most_delay: Duration,
    /// One read or write in so many fails; 0 for none.
    pub error_one_in: u64,
    /// One call that changes a disk in so many has its power-cut image taken; 0 for none.
    pub shot_one_in: u64,
}

/// What a power cut at a moment would have left.
pub struct Shot {
    /// The moment, by the clock that [`Simulation::set_nature`] was given.
    pub at: u64,
    pub images: [Vec<u8>; 2],
}

pub struct World {
    random: Random,
    fault: Fault,
    nature: Nature,
    clock: Arc<AtomicU64>,
    shots: Vec<Shot>,
    gates: Vec<Arc<Gate>>,
    /// Calls that fail once: which disk, which kind, and where they begin.
    failing: Vec<(usize, Call, Range<u64>)>,
    calls: u64,
    changing_calls: u64,
    sync_calls: u64,
    syncs: u64,
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
    open_store: OpenStore,
}

impl Simulation {
    pub fn new(seed: u64) -> Self {
        Self::of_images(seed, [Vec::new(), Vec::new()])
    }

    /// Disks that hold this, data first.
    pub fn of_images(seed: u64, images: [Vec<u8>; 2]) -> Self {
        Self::of(seed, images.map(Image::new))
    }

    fn of(seed: u64, images: [Image; 2]) -> Self {
        let world = World {
            random: Random::new(seed),
            fault: Fault::Never,
            nature: Nature::default(),
            clock: Arc::default(),
            shots: Vec::new(),
            gates: Vec::new(),
            failing: Vec::new(),
            calls: 0,
            changing_calls: 0,
            sync_calls: 0,
            syncs: 0,
            is_down: false,
            images,
        };
        Self { world: Arc::new(Mutex::new(world)), open_store: BlockStore::open }
    }

    /// The same disks, with this kind of store on the data disk, now and after a crash.
    pub fn with_store(self, open_store: OpenStore) -> Self {
        Self { open_store, ..self }
    }

    pub fn disks(&self) -> PoolDisks {
        let disk = |which| Arc::new(SimulatedDisk { world: Arc::clone(&self.world), which });
        PoolDisks::new(disk(DATA), disk(METADATA)).with_store(self.open_store)
    }

    /// Sets what goes wrong; calls are counted from now.
    pub fn set_fault(&self, fault: Fault) {
        let mut world = self.world.lock().unwrap();
        world.fault = fault;
        world.calls = 0;
        world.changing_calls = 0;
        world.sync_calls = 0;
    }

    /// Sets what the disks are like, and the clock that tells the moments of shots.
    pub fn set_nature(&self, nature: Nature, clock: &Arc<AtomicU64>) {
        let mut world = self.world.lock().unwrap();
        world.nature = nature;
        world.clock = Arc::clone(clock);
    }

    /// The shots since the last time.
    pub fn take_shots(&self) -> Vec<Shot> {
        std::mem::take(&mut self.world.lock().unwrap().shots)
    }

    /// Holds the next call of this kind to a disk.
    pub fn hold(&self, which: usize, call: Call) -> Hold {
        self.hold_at(which, call, 0..u64::MAX)
    }

    /// Holds the next call of this kind that begins in a range of bytes.
    pub fn hold_at(&self, which: usize, call: Call, offsets: Range<u64>) -> Hold {
        let gate = Arc::new(Gate::new(which, call, offsets));
        self.world.lock().unwrap().gates.push(Arc::clone(&gate));
        Hold(gate)
    }

    /// Has the next call of this kind fail that begins in a range of bytes.
    pub fn fail_next(&self, which: usize, call: Call, offsets: Range<u64>) {
        self.world.lock().unwrap().failing.push((which, call, offsets));
    }

    pub fn is_down(&self) -> bool {
        self.world.lock().unwrap().is_down
    }

    pub fn calls(&self) -> u64 {
        self.world.lock().unwrap().calls
    }

    /// Calls that change a disk.
    pub fn changing_calls(&self) -> u64 {
        self.world.lock().unwrap().changing_calls
    }

    /// Syncs that were asked for, of either disk.
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
        let images = world.survivors();
        Self::of_images(seed, images).with_store(self.open_store)
    }

    /// The worst a power cut can leave: nothing that was not synced.
    pub fn after_worst_crash(&self) -> Self {
        let mut world = self.world.lock().unwrap();
        world.is_down = true;
        let images = [DATA, METADATA].map(|which| world.images[which].durable.clone());
        Self::of_images(0, images).with_store(self.open_store)
    }

    /// What the next process finds after this one was killed: everything, but what was not synced still is not.
    pub fn after_kill(&self) -> Self {
        let mut world = self.world.lock().unwrap();
        world.is_down = true;
        let seed = world.random.next_u64();
        Self::of(seed, world.images.clone()).with_store(self.open_store)
    }

    /// What the disks hold now, data first.
    pub fn images(&self) -> [Vec<u8>; 2] {
        let world = self.world.lock().unwrap();
        [DATA, METADATA].map(|which| world.images[which].live.clone())
    }
}

/// A call: to which disk, of which kind, and where it begins.
#[derive(Clone, Copy)]
struct Place {
    which: usize,
    call: Option<Call>,
    offset: u64,
}

/// A fault in a call of several requests.
struct Hit {
    /// The request that fails, or at which all ends.
    number: usize,
    crashes: bool,
    error: io::Error,
}

impl Hit {
    /// Whether a request gets the error: all of them do when the machine is down.
    const fn takes(&self, number: usize, is_down: bool) -> bool {
        is_down || number == self.number
    }

    fn error(&self) -> io::Error {
        if self.crashes {
            plug_pulled()
        } else {
            io::Error::new(self.error.kind(), self.error.to_string())
        }
    }
}

fn range(offset: u64, length: usize) -> Range<u64> {
    offset..offset + length as u64
}

fn plug_pulled() -> io::Error {
    io::Error::other("the plug is pulled")
}

impl World {
    fn survivors(&mut self) -> [Vec<u8>; 2] {
        let Self { random, images, .. } = self;
        [DATA, METADATA].map(|which| images[which].survivors(random))
    }

    /// Counts a call; says whether it is the last one. A crash lets a changing call still leave its trace.
    fn enter(&mut self, at: Place, takes_space: bool) -> io::Result<bool> {
        if self.is_down {
            return Err(plug_pulled());
        }
        let Place { which, call, offset } = at;
        let fails = |(disk, kind, offsets): &(usize, Call, Range<u64>)| {
            *disk == which && Some(*kind) == call && offsets.contains(&offset)
        };
        if let Some(at) = self.failing.iter().position(fails) {
            self.failing.remove(at);
            return Err(io::Error::other("the test made it fail"));
        }
        let (is_change, is_sync) = (call != Some(Call::Read), call == Some(Call::Sync));
        self.calls += 1;
        self.changing_calls += u64::from(is_change);
        self.sync_calls += u64::from(is_sync);
        let has_bad_luck = !is_sync && self.nature.error_one_in > 0;
        if has_bad_luck && self.random.below(self.nature.error_one_in) == 0 {
            return Err(io::Error::other("chance made it fail"));
        }
        match self.fault {
            Fault::CrashAt(call) if is_change && self.changing_calls == call => Ok(true),
            Fault::ErrorAt(call, kind) if self.calls == call => Err(io::Error::from(kind)),
            Fault::FailSync(call) if is_sync && self.sync_calls == call => {
                Err(io::Error::other("the sync fails"))
            }
            Fault::FullFrom(call) if takes_space && self.calls >= call => {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            _ => Ok(false),
        }
    }

    /// Counts a call of several requests; gives the request that fails, or at which all ends.
    fn enter_run(
        &mut self,
        (which, call): (usize, Call),
        ranges: &[Range<u64>],
        takes_space: bool,
    ) -> Option<Hit> {
        let is_failing = |range: &Range<u64>| {
            let mut failing = self.failing.iter();
            failing.position(|(disk, kind, offsets)| {
                *disk == which && *kind == call && offsets.contains(&range.start)
            })
        };
        if !self.is_down
            && let Some((number, at)) = ranges
                .iter()
                .enumerate()
                .find_map(|(number, range)| Some((number, is_failing(range)?)))
        {
            self.failing.remove(at);
            return Some(Hit {
                number,
                crashes: false,
                error: io::Error::other("the test made it fail"),
            });
        }
        let offset = ranges.first().map_or(0, |range| range.start);
        let entered = self.enter(Place { which, call: Some(call), offset }, takes_space);
        let (crashes, error) = match entered {
            Ok(false) => return None,
            Ok(true) => (true, plug_pulled()),
            Err(error) => (false, error),
        };
        self.is_down |= crashes;
        let number = match ranges.len() {
            0 | 1 => 0,
            count => self.random.below(count as u64) as usize,
        };
        Some(Hit { number, crashes, error })
    }

    /// Now and then keeps what a power cut would leave at this moment.
    fn maybe_shoot(&mut self) {
        let one_in = self.nature.shot_one_in;
        if one_in > 0 && self.random.below(one_in) == 0 {
            let at = self.clock.fetch_add(1, Ordering::SeqCst);
            let images = self.survivors();
            self.shots.push(Shot { at, images });
        }
    }

    fn end_call(&mut self, crashes: bool) -> io::Result<()> {
        self.is_down |= crashes;
        if crashes { Err(plug_pulled()) } else { Ok(()) }
    }

    /// How long this call sleeps.
    fn delay(&mut self) -> Duration {
        let Nature { slow_one_in, most_delay, .. } = self.nature;
        if slow_one_in == 0 || self.random.below(slow_one_in) > 0 {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.random.below(most_delay.as_nanos() as u64 + 1))
    }
}

impl SimulatedDisk {
    /// Where a call waits: at a gate, which may have it fail, and for as long as a slow disk takes.
    fn wait(&self, call: Call, offset: u64) {
        let (gate, delay) = {
            let mut world = self.world.lock().unwrap();
            world.gates.retain(|gate| Arc::strong_count(gate) > 1);
            let gate =
                world.gates.iter().find(|gate| gate.takes(self.which, call, offset)).cloned();
            (gate, world.delay())
        };
        if gate.is_some_and(|gate| gate.pass()) {
            let failing = (self.which, call, offset..offset + 1);
            self.world.lock().unwrap().failing.push(failing);
        }
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
    }

    /// One call. An error hits one of its requests, and the others succeed.
    fn read_run(&self, run: &mut [DiskRead<'_>]) {
        let Some(offset) = run.first().map(|read| read.offset) else { return };
        self.wait(Call::Read, offset);
        let mut world = self.world.lock().unwrap();
        let ranges: Vec<_> = run.iter().map(|read| range(read.offset, read.buffer.len())).collect();
        let hit = world.enter_run((self.which, Call::Read), &ranges, false);
        for (number, read) in run.iter_mut().enumerate() {
            let start = read.offset as usize;
            let live = &world.images[self.which].live;
            let bytes = live.get(start..start + read.buffer.len());
            read.outcome = match (&hit, bytes) {
                (Some(hit), _) if hit.takes(number, world.is_down) => Err(hit.error()),
                (_, Some(bytes)) => {
                    read.buffer.copy_from_slice(bytes);
                    Ok(())
                }
                (_, None) => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            };
        }
    }

    /// One call. An error hits one of its requests, of which any part from its front is written. A
    /// crash ends with one of them: those before it are written, those after it are not.
    fn write_run(&self, run: &mut [DiskWrite<'_>]) {
        let Some(offset) = run.first().map(|write| write.offset) else { return };
        self.wait(Call::Write, offset);
        let mut world = self.world.lock().unwrap();
        // The metadata disk has its journal and roots from the start; contents go to a sparse file.
        let end = run.last().map_or(0, |write| write.offset as usize + write.bytes.len());
        let takes_space = self.which == DATA || end > world.images[METADATA].live.len();
        let ranges: Vec<_> =
            run.iter().map(|write| range(write.offset, write.bytes.len())).collect();
        let was_down = world.is_down;
        let hit = world.enter_run((self.which, Call::Write), &ranges, takes_space);
        for (number, write) in run.iter_mut().enumerate() {
            let is_hit = hit.as_ref().is_some_and(|hit| hit.takes(number, world.is_down));
            let bytes = match &hit {
                _ if was_down => 0,
                Some(hit) if hit.crashes && number > hit.number => 0,
                Some(hit) if is_hit && !hit.crashes => {
                    world.random.below(write.bytes.len() as u64 + 1) as usize
                }
                _ => write.bytes.len(),
            };
            if bytes > 0 {
                world.images[self.which].write(write.offset as usize, &write.bytes[..bytes]);
            }
            if let Some(hit) = hit.as_ref().filter(|_| is_hit) {
                write.outcome = Err(hit.error());
            }
        }
        if hit.is_none() {
            world.maybe_shoot();
        }
    }

    const fn place(&self, call: Option<Call>, offset: u64) -> Place {
        Place { which: self.which, call, offset }
    }

    fn change(&self, change: impl FnOnce(&mut Image)) -> io::Result<()> {
        let mut world = self.world.lock().unwrap();
        let crashes = world.enter(self.place(None, 0), false)?;
        change(&mut world.images[self.which]);
        world.maybe_shoot();
        world.end_call(crashes)
    }
}

impl Disk for SimulatedDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.world.lock().unwrap().images[self.which].live.len() as u64)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut world = self.world.lock().unwrap();
        let crashes = world.enter(self.place(None, 0), true)?;
        world.images[self.which].set_len(length as usize);
        world.maybe_shoot();
        world.end_call(crashes)
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        for run in reads.chunk_by_mut(DiskRead::is_followed_by) {
            self.read_run(run);
        }
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        for run in writes.chunk_by_mut(DiskWrite::is_followed_by) {
            self.write_run(run);
        }
    }

    fn sync(&self) -> io::Result<()> {
        let until = {
            let mut world = self.world.lock().unwrap();
            world.syncs += 1;
            world.images[self.which].sequence
        };
        self.wait(Call::Sync, 0);
        let mut world = self.world.lock().unwrap();
        match world.enter(self.place(Some(Call::Sync), 0), false) {
            Ok(false) => {
                world.maybe_shoot();
                world.images[self.which].sync(until);
                Ok(())
            }
            Ok(true) => world.end_call(true),
            Err(error) => {
                if !world.is_down {
                    let World { random, images, .. } = &mut *world;
                    images[self.which].fail_sync(until, random);
                }
                Err(error)
            }
        }
    }

    /// Discarded blocks read as anything: here, as what nobody wrote.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.change(|image| image.write(offset as usize, &vec![0xDD; length as usize]))
    }
}
