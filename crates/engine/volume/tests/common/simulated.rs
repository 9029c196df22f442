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
//! *Durable writes* are those of a shared store: what a write has written is durable when the write
//! returns, and only requests in flight are in doubt. Those of a list are in any order.
//!
//! A list of requests counts as one call for each run of ranges that follow one another. A fault
//! hits one request of it, chosen by chance: an error leaves the others done, a power cut has those
//! before it written and those after it not.
//!
//! A *thin* data disk has space for the sectors that were written and not discarded. While it is
//! full, a write to any other sector fails as a whole; a discard makes room.
//!
//! A *failed write* leaves any part from its front. A *full disk* refuses what takes space. A
//! *slow* call sleeps before it does anything (a sync: after it is settled what it covers), so
//! that others overtake it. A *discarded* range reads as bytes that no client wrote.
//!
//! *Rot* flips a bit of the medium, in a sector in use, whether or not it was synced. Reads get the
//! flipped bit unless a write of the sector is still in the cache. Or a write lands in another
//! place of its disk, which says that all is well.
//!
//! Both disks of a pool share one world: one count of calls, one seed.

mod disk;
pub mod rot;
mod thin;

use super::BLOCK;
use super::bytes::Bytes;
use super::history::Rotten;
use super::hold::{Call, Gate, Hold};
use super::medium::Image;
use gemelo_base::random::Random;
use gemelo_disk::{Disk, DiskRead, DiskWrite};
use gemelo_store::{BlockStore, OpenStore, PoolDisks};
use rot::RotRate;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thin::{PanicAt, Thin};

/// The number of the data disk and of the metadata disk.
pub const DATA: usize = 0;
pub const METADATA: usize = 1;

/// A fault and the call at which it occurs. Calls are counted from 1; reads count for errors only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Never,
    /// The power is cut during this write, sync or change of length.
    CrashAt(u64),
    /// This call of any kind fails, and the next ones succeed.
    ErrorAt(u64, io::ErrorKind),
    /// From this call on all writes and changes of length fail, until the disks are healed.
    FullFrom(u64),
    /// This sync fails, counted over both disks, and the next ones succeed.
    FailSync(u64),
}

/// The random behaviour of the disks besides a set fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nature {
    /// One call in this many sleeps; 0 for none.
    pub slow_one_in: u64,
    /// The longest sleep.
    pub max_delay: Duration,
    /// One read or write in this many fails; 0 for none.
    pub error_one_in: u64,
    /// One call in this many that change a disk has its power-cut image taken; 0 for none.
    pub shot_one_in: u64,
    /// The data disk becomes full, or gets room again, at one write in this many; 0 for never.
    pub full_one_in: u64,
    /// Bits that flip meanwhile.
    pub rot: Option<RotRate>,
}

/// The image that a power cut at a moment would have left.
pub struct Shot {
    /// The moment, by the clock given to [`Simulation::set_nature`].
    pub at: u64,
    pub images: [Bytes; 2],
}

pub struct World {
    random: Random,
    fault: Fault,
    nature: Nature,
    clock: Arc<AtomicU64>,
    shots: Vec<Shot>,
    rotten: Vec<Rotten>,
    /// The bits of the data disk that have flipped: the byte, and its bit.
    flips: Vec<(usize, u8)>,
    gates: Vec<Arc<Gate>>,
    /// Calls that fail once: the disk, the kind, and the range in which they begin.
    failing: Vec<(usize, Call, Range<u64>)>,
    /// Ranges that cannot be read, each with its disk.
    unreadable: Vec<(usize, Range<u64>)>,
    /// Disks whose calls all fail, apart from syncs, until they are mended.
    broken: [bool; 2],
    calls: u64,
    changing_calls: u64,
    sync_calls: u64,
    syncs: u64,
    is_down: bool,
    thin: Thin,
    panic_at: Option<PanicAt>,
    images: [Image; 2],
}

#[derive(Clone)]
pub struct SimulatedDisk {
    world: Arc<Mutex<World>>,
    which: usize,
    writes_durably: bool,
}

/// Two disks and the faults that they have.
#[derive(Clone)]
pub struct Simulation {
    world: Arc<Mutex<World>>,
    open_store: OpenStore,
    writes_durably: bool,
}

impl Simulation {
    pub fn new(seed: u64) -> Self {
        Self::of_images(seed, [Bytes::default(), Bytes::default()])
    }

    /// Makes disks that hold these images, data first.
    pub fn of_images(seed: u64, images: [impl Into<Bytes>; 2]) -> Self {
        Self::of(seed, images.map(|image| Image::new(image.into())))
    }

    fn of(seed: u64, images: [Image; 2]) -> Self {
        let world = World {
            random: Random::new(seed),
            fault: Fault::Never,
            nature: Nature::default(),
            clock: Arc::default(),
            shots: Vec::new(),
            rotten: Vec::new(),
            flips: Vec::new(),
            gates: Vec::new(),
            failing: Vec::new(),
            unreadable: Vec::new(),
            broken: [false; 2],
            calls: 0,
            changing_calls: 0,
            sync_calls: 0,
            syncs: 0,
            is_down: false,
            thin: Thin::default(),
            panic_at: None,
            images,
        };
        let world = Arc::new(Mutex::new(world));
        Self { world, open_store: BlockStore::open, writes_durably: false }
    }

    /// The same disks, with durable writes or without, now and after a crash.
    pub fn with_durable_writes(self, writes_durably: bool) -> Self {
        Self { writes_durably, ..self }
    }

    /// Other disks of the same kind.
    fn like(self, other: &Self) -> Self {
        self.with_store(other.open_store).with_durable_writes(other.writes_durably)
    }

    /// The same disks, with this kind of store on the data disk, now and after a crash.
    pub fn with_store(self, open_store: OpenStore) -> Self {
        Self { open_store, ..self }
    }

    pub fn disks(&self) -> PoolDisks {
        let writes_durably = self.writes_durably;
        let disk = |which| {
            Arc::new(SimulatedDisk { world: Arc::clone(&self.world), which, writes_durably })
        };
        PoolDisks::new(disk(DATA), disk(METADATA)).with_store(self.open_store)
    }

    /// Sets the fault. Calls are counted from now on.
    pub fn set_fault(&self, fault: Fault) {
        let mut world = self.world.lock().unwrap();
        world.fault = fault;
        world.calls = 0;
        world.changing_calls = 0;
        world.sync_calls = 0;
    }

    /// Sets the random behaviour of the disks, and the clock for the moments of shots.
    pub fn set_nature(&self, nature: Nature, clock: &Arc<AtomicU64>) {
        let mut world = self.world.lock().unwrap();
        world.nature = nature;
        world.clock = Arc::clone(clock);
    }

    /// Returns the shots since the last call of this function.
    pub fn take_shots(&self) -> Vec<Shot> {
        std::mem::take(&mut self.world.lock().unwrap().shots)
    }

    /// Returns the sectors whose bits have flipped since the last call of this function.
    pub fn take_rotten(&self) -> Vec<Rotten> {
        std::mem::take(&mut self.world.lock().unwrap().rotten)
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

    /// Makes the next call of this kind fail that begins in a range of bytes.
    pub fn fail_next(&self, which: usize, call: Call, offsets: Range<u64>) {
        self.world.lock().unwrap().failing.push((which, call, offsets));
    }

    /// Makes all reads fail that touch a range of a disk.
    pub fn make_unreadable(&self, which: usize, range: Range<u64>) {
        self.world.lock().unwrap().unreadable.push((which, range));
    }

    /// Makes all ranges of a disk readable again.
    pub fn make_readable(&self, which: usize) {
        self.world.lock().unwrap().unreadable.retain(|(of, _)| *of != which);
    }

    /// Makes all calls to a disk fail, apart from syncs, or makes the disk work again.
    pub fn set_broken(&self, which: usize, is_broken: bool) {
        self.world.lock().unwrap().broken[which] = is_broken;
    }

    pub fn is_down(&self) -> bool {
        self.world.lock().unwrap().is_down
    }

    pub fn calls(&self) -> u64 {
        self.world.lock().unwrap().calls
    }

    /// The number of syncs of either disk.
    pub fn syncs(&self) -> u64 {
        self.world.lock().unwrap().syncs
    }

    /// Cuts the power. Every later call fails.
    pub fn pull_plug(&self) {
        self.world.lock().unwrap().is_down = true;
    }

    /// The disks after the power cut. Chance decides which unsynced writes are on them.
    pub fn after_crash(&self, seed: u64) -> Self {
        let mut world = self.world.lock().unwrap();
        world.is_down = true;
        let images = world.survivors();
        Self::of_images(seed, images).like(self)
    }

    /// The disks after the worst power cut, which leaves no unsynced write.
    pub fn after_worst_crash(&self) -> Self {
        self.pull_plug();
        self.durable()
    }

    /// Disks with what is durable at this moment. These ones go on.
    pub fn durable(&self) -> Self {
        let world = self.world.lock().unwrap();
        let images = [DATA, METADATA].map(|which| world.images[which].durable.clone());
        Self::of_images(0, images).like(self)
    }

    /// The disks as the next process finds them after a kill: with all writes, of which unsynced
    /// ones still are not durable.
    pub fn after_kill(&self) -> Self {
        let mut world = self.world.lock().unwrap();
        world.is_down = true;
        let seed = world.random.next_u64();
        Self::of(seed, world.images.clone()).like(self)
    }

    /// The present contents of the disks, data first.
    pub fn images(&self) -> [Vec<u8>; 2] {
        let world = self.world.lock().unwrap();
        [DATA, METADATA].map(|which| world.images[which].live.to_vec())
    }
}

/// A call: its disk, its kind, and its first byte.
#[derive(Clone, Copy)]
struct Place {
    which: usize,
    call: Option<Call>,
    offset: u64,
}

impl World {
    /// Fails a call to a disk that is broken, and counts it.
    fn check_broken(&mut self, which: usize) -> io::Result<()> {
        if !self.broken[which] {
            return Ok(());
        }
        self.calls += 1;
        Err(io::Error::other("the disk does not answer"))
    }
}

/// A fault in a call of several requests.
struct Hit {
    /// The request that fails, or at which the power is cut.
    number: usize,
    crashes: bool,
    error: io::Error,
}

impl Hit {
    /// Returns whether a request gets the error. All requests do when the power is cut.
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
    fn survivors(&mut self) -> [Bytes; 2] {
        let Self { random, images, .. } = self;
        [DATA, METADATA].map(|which| images[which].survivors(random))
    }

    /// Counts a call. Returns whether the power is cut during it; a changing call may still leave
    /// some of its bytes.
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

    /// Counts a call of several requests. Returns the request that fails, or at which the power is
    /// cut.
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

    /// Makes everything durable that was written to a disk.
    fn settle(&mut self, which: usize) {
        let until = self.images[which].sequence;
        self.images[which].sync(until);
    }

    /// Takes the image of a power cut at this moment, for one call in `shot_one_in`.
    fn maybe_shoot(&mut self) {
        let one_in = self.nature.shot_one_in;
        if one_in > 0 && self.random.below(one_in) == 0 {
            let at = self.clock.fetch_add(1, Ordering::SeqCst);
            let images = self.survivors();
            self.shots.push(Shot { at, images });
        }
        self.maybe_rot();
    }

    fn end_call(&mut self, crashes: bool) -> io::Result<()> {
        self.is_down |= crashes;
        if crashes { Err(plug_pulled()) } else { Ok(()) }
    }

    /// The time that this call sleeps.
    fn delay(&mut self) -> Duration {
        let Nature { slow_one_in, max_delay, .. } = self.nature;
        if slow_one_in == 0 || self.random.below(slow_one_in) > 0 {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.random.below(max_delay.as_nanos() as u64 + 1))
    }
}
