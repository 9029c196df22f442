//! Requests of a client that complete later, while its thread goes on with the next ones.
//!
//! A lane is a thread that executes requests of one client as a batch, and answers them. It has
//! memory of its own for their data. There are two ways into a lane:
//!
//! - A read that its device has left is kept without memory for its data. Lanes take kept reads
//!   from the front of the list, some at a time, until none is left ([`Lanes::read_later`]).
//! - A batch that must keep its data, such as one of writes, has a lane of its own
//!   ([`Lanes::open`], [`Lanes::start`]).
//!
//! The number of lanes, their threads, their memory and the kept reads are bounded. Before the
//! thread of the client has a batch executed anywhere, it waits for requests that the batch must
//! not overtake ([`Lanes::make_way`]). So requests of one range keep their order, and a flush
//! covers each change that was received before it.
//!
//! The first failure of a lane ends the client. The thread of the client learns of it here.

mod claim;
mod state;

pub use claim::Claim;

use crate::{Helper, Helpers, Waiting};
use state::State;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Most lanes of a client.
const MAX_LANES: usize = 16;

/// Length in bytes from which on the processor's time for a read, to copy, check and send it, is
/// more than handing it to another thread takes.
const LONG_READ_BYTES: u64 = 256 << 10;

/// Lanes that execute long reads, also if one is enough to wait for the device.
const LONG_READERS: usize = 2;

/// The side of a front end that lanes need of a client. Several threads call its methods at the
/// same time.
pub trait LaneClient: Send + Sync + 'static {
    /// Requests that are executed together, with memory for their data. It is used again.
    type Batch: Send;
    /// A read without memory for its data.
    type Read: Send;
    /// The reason why a lane ends the client.
    type Failure: Send;

    /// Makes an empty batch, if its memory is granted.
    fn new_batch(&self) -> Option<Self::Batch>;

    /// Grows an empty batch for a read of this number of bytes, if memory is granted. Returns the
    /// length of the longest read for which it has room.
    fn make_room(&self, batch: &mut Self::Batch, bytes: u64) -> u64;

    /// Adds a read to a batch. Returns `false` if it does not fit. A read for which
    /// [`Self::make_room`] has made room fits into the empty batch.
    fn add(&self, batch: &mut Self::Batch, read: &Self::Read) -> bool;

    /// Executes the requests of a batch, and answers them unless they are left. Returns the places
    /// of those that are left, in order.
    ///
    /// # Errors
    /// Fails if the client cannot be answered any more.
    fn carry_out(
        &self,
        batch: &mut Self::Batch,
        waiting: Waiting,
    ) -> Result<Vec<usize>, Self::Failure>;

    /// Empties a batch, and keeps its memory.
    fn empty(&self, batch: &mut Self::Batch);

    /// Empties a batch for its next use by another lane.
    fn clear(&self, batch: &mut Self::Batch);

    /// Returns the failure of a lane whose device has panicked.
    fn panicked(&self) -> Self::Failure;

    /// Ends the client, because a lane has failed.
    fn end(&self, failure: &Self::Failure);
}

/// A read that its device has left.
#[derive(Debug)]
pub struct KeptRead<R> {
    /// The bytes of the device that it reads.
    pub range: Range<u64>,
    /// The read as its client knows it.
    pub read: R,
}

impl<R> KeptRead<R> {
    fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// A thread, and a batch that it will execute.
#[derive(Debug)]
pub struct OpenLane<B> {
    /// The batch, which is empty at first.
    pub batch: B,
    helper: Helper,
}

/// The lanes of a client.
pub struct Lanes<C: LaneClient> {
    client: C,
    helpers: Arc<Helpers>,
    /// Most lanes that execute kept reads.
    max_readers: usize,
    state: Mutex<State<C>>,
    one_moved: Condvar,
}

impl<C: LaneClient> Lanes<C> {
    /// Makes the lanes of a client. `waiters` is that of its device
    /// ([`crate::BlockDevice::waiters`]).
    pub fn new(client: C, helpers: Arc<Helpers>, waiters: usize) -> Self {
        let max_readers = waiters.clamp(1, MAX_LANES);
        let (state, one_moved) = (Mutex::new(State::default()), Condvar::new());
        Self { client, helpers, max_readers, state, one_moved }
    }

    /// Returns the client whose requests the lanes execute.
    pub const fn client(&self) -> &C {
        &self.client
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a batch with these claims may be executed: few reads are kept, and the batch
    /// overtakes nothing that it must not. Returns whether anything is in execution.
    pub fn make_way<I: Iterator<Item = Claim>>(&self, claims: impl Fn() -> I) -> bool {
        let mut state = self.lock();
        if state.is_busy() {
            let waits = |state: &mut State<C>| {
                state.is_full() || state.is_busy() && claims().any(|claim| state.holds_up(&claim))
            };
            let waited = self.one_moved.wait_while(state, waits);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.is_busy()
    }

    /// Opens a lane, if its thread and its memory are granted.
    pub fn open(&self) -> Option<OpenLane<C::Batch>> {
        let mut state = self.lock();
        self.open_locked(&mut state)
    }

    fn open_locked(&self, state: &mut State<C>) -> Option<OpenLane<C::Batch>> {
        if state.lanes() >= MAX_LANES {
            return None;
        }
        let helper = self.helpers.grant(state.lanes())?;
        let batch = state.reuse().or_else(|| self.client.new_batch())?;
        Some(OpenLane { batch, helper })
    }

    /// Gives a lane back that was opened and is not needed. Its batch is empty.
    pub fn give_back(&self, lane: OpenLane<C::Batch>) {
        self.lock().keep(lane.batch);
    }

    /// Has the batch of a lane executed, all of it. Nothing that is received later overtakes these
    /// claims. [`Self::make_way`] was called for them.
    pub fn start(self: &Arc<Self>, lane: OpenLane<C::Batch>, claims: Vec<Claim>) {
        let OpenLane { batch, helper } = lane;
        let number = self.lock().begin(claims);
        let lanes = Arc::clone(self);
        helper.run(move |helper| lanes.execute_whole(number, OpenLane { batch, helper }));
    }

    /// Has reads executed that the device has left. Returns those for which there is no thread or
    /// no memory.
    pub fn read_later(self: &Arc<Self>, reads: Vec<KeptRead<C::Read>>) -> Vec<KeptRead<C::Read>> {
        let mut state = self.lock();
        let longest = reads.iter().map(KeptRead::bytes).max().unwrap_or(0);
        let mut room = state.longest_room();
        let mut opened = None;
        if room < longest {
            opened = self.open_reader(&mut state, longest);
            room = room.max(opened.as_ref().map_or(0, |reader| reader.room));
        }
        let mut refused = Vec::new();
        for read in reads {
            if read.bytes() <= room {
                state.push(read);
            } else {
                refused.push(read);
            }
        }
        let mut started = Vec::new();
        loop {
            let next = opened.take().or_else(|| {
                let bytes = state.front_bytes()?;
                self.open_reader(&mut state, bytes)
            });
            let Some(mut reader) = next else { break };
            if !state.take(&self.client, &mut reader) {
                state.keep(reader.lane.batch);
                break;
            }
            started.push(reader);
        }
        drop(state);
        for Reader { number, room, lane: OpenLane { batch, helper } } in started {
            let lanes = Arc::clone(self);
            helper.run(move |helper| {
                lanes.read_kept(Reader { number, room, lane: OpenLane { batch, helper } });
            });
        }
        refused
    }

    /// Returns the most lanes that execute kept reads while the next one has this number of bytes.
    fn max_readers_of(&self, bytes: u64) -> usize {
        let least = if bytes >= LONG_READ_BYTES { LONG_READERS } else { 1 };
        self.max_readers.max(least)
    }

    /// Opens a lane for kept reads, with room for one of this number of bytes if it is granted.
    fn open_reader(&self, state: &mut State<C>, bytes: u64) -> Option<Reader<C>> {
        if state.readers() >= self.max_readers_of(bytes) {
            return None;
        }
        let mut lane = self.open_locked(state)?;
        let room = self.client.make_room(&mut lane.batch, bytes);
        Some(Reader { number: 0, room, lane })
    }

    /// Executes a batch as a whole, and then kept reads that no lane has taken.
    fn execute_whole(&self, number: u64, mut lane: OpenLane<C::Batch>) {
        match self.execute(&mut lane.batch, Waiting::All) {
            Ok(left) => assert!(left.is_empty(), "a request that is waited for was left"),
            Err(failure) => return self.fail(number, lane, failure),
        }
        self.client.clear(&mut lane.batch);
        let mut state = self.lock();
        state.end(number);
        let has_place = |bytes: &u64| state.readers() < self.max_readers_of(*bytes);
        let Some(bytes) = state.front_bytes().filter(has_place) else {
            return self.release(state, lane);
        };
        let room = self.client.make_room(&mut lane.batch, bytes);
        let mut reader = Reader { number: 0, room, lane };
        if !state.take(&self.client, &mut reader) {
            return self.release(state, reader.lane);
        }
        drop(state);
        self.one_moved.notify_all();
        self.read_kept(reader);
    }

    /// Executes kept reads until none is left, beginning with those in the batch.
    fn read_kept(&self, mut reader: Reader<C>) {
        loop {
            let left = match self.execute(&mut reader.lane.batch, Waiting::First) {
                Ok(left) => left,
                Err(failure) => return self.fail(reader.number, reader.lane, failure),
            };
            self.client.empty(&mut reader.lane.batch);
            let mut state = self.lock();
            state.finish_reads(reader.number, &left);
            if !state.take(&self.client, &mut reader) {
                self.client.clear(&mut reader.lane.batch);
                state.end(reader.number);
                return self.release(state, reader.lane);
            }
            drop(state);
            self.one_moved.notify_all();
        }
    }

    fn execute(&self, batch: &mut C::Batch, waiting: Waiting) -> Result<Vec<usize>, C::Failure> {
        let executed = AssertUnwindSafe(|| self.client.carry_out(batch, waiting));
        catch_unwind(executed).unwrap_or_else(|_| Err(self.client.panicked()))
    }

    /// Gives back the thread and the batch of a lane. It has ended under the same lock as it found
    /// nothing more to do: a read that is kept next finds either a lane that takes it or a thread.
    fn release(&self, mut state: MutexGuard<'_, State<C>>, lane: OpenLane<C::Batch>) {
        let OpenLane { batch, helper } = lane;
        drop(helper);
        state.keep(batch);
        drop(state);
        self.one_moved.notify_all();
    }

    /// Ends a lane and its client.
    fn fail(&self, number: u64, lane: OpenLane<C::Batch>, failure: C::Failure) {
        let mut state = self.lock();
        drop(lane);
        state.end(number);
        self.client.end(&failure);
        state.fail(failure);
        drop(state);
        self.one_moved.notify_all();
    }

    /// Returns whether a change that is not durable when it is answered is in execution.
    pub fn have_changes(&self) -> bool {
        self.lock().has_changes()
    }

    /// Returns the number of lanes that have ended, and whether others are in execution.
    pub fn progress(&self) -> (u64, bool) {
        let state = self.lock();
        (state.ended(), state.is_busy())
    }

    /// Waits until nothing is in execution.
    pub fn wait_for_all(&self) {
        // A lock that a panic has poisoned is as good as before.
        drop(self.one_moved.wait_while(self.lock(), |state| state.is_busy()));
    }

    /// Returns whether a lane has failed, so that the client must end.
    pub fn have_failed(&self) -> bool {
        self.lock().has_failed()
    }

    /// Takes the first failure.
    pub fn take_failure(&self) -> Option<C::Failure> {
        self.lock().take_failure()
    }

    /// Returns whether there is memory that [`Self::shrink`] may release, now or later.
    pub fn hold_memory(&self) -> bool {
        self.lock().holds_memory()
    }

    /// Releases the memory of lanes that are not in use.
    pub fn shrink(&self) {
        self.lock().shrink();
    }
}

/// A lane that executes kept reads.
struct Reader<C: LaneClient> {
    /// Its number, once it has reads.
    number: u64,
    /// Length of the longest read for which its batch has room.
    room: u64,
    lane: OpenLane<C::Batch>,
}

#[cfg(test)]
mod tests;
