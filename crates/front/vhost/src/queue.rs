//! A queue of a guest that is being served: its thread, and the answers to its requests.
//!
//! With a region for requests in flight the answers come in any order, and requests that the device
//! leaves complete later. Without one they are in the order of the requests: a virtual machine that
//! lost this server sends all requests again from the first one that has no answer.

use crate::batch::{BATCH_BYTES, Side, room_bytes};
use crate::config::MAX_QUEUE_SIZE;
use crate::guest::{Guest, Stopped};
use crate::inflight::Tracker;
use crate::request::{Breach, GuestRequest, Status};
use crate::taken::{Taken, grow};
use gemelo_device::{Buffer, Claim, Geometry, KeptRead, LaneClient, Lanes, Spin, Waiting};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{GuestAddress, GuestAddressSpace, GuestMemoryMmap};

/// The number of batches in which a lone request that the device leaves completes later, after a
/// guest was seen to have several requests in flight.
const DEEP_BATCHES: u32 = 64;

/// The rings of a queue as the virtual machine sets them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct QueueSetting {
    pub(crate) size: u16,
    /// Places in guest memory.
    pub(crate) descriptors: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
    /// Index of the next request.
    pub(crate) next_available: u16,
    pub(crate) has_event_index: bool,
}

/// The rings of a queue, and the way to notify its guest.
pub(crate) struct Ring {
    queue: Queue,
    call: Option<File>,
    tracker: Option<Tracker>,
    /// Requests that an earlier server has not answered. They come first.
    resubmitted: VecDeque<u16>,
}

impl Ring {
    pub(crate) fn open(
        memory: &GuestMemoryMmap,
        setting: &QueueSetting,
        call: Option<File>,
        mut tracker: Option<Tracker>,
    ) -> Result<Self, Breach> {
        let mut queue = Queue::new(MAX_QUEUE_SIZE as u16).map_err(Breach::Queue)?;
        let QueueSetting { size, descriptors, available, used, .. } = *setting;
        queue.try_set_size(size).map_err(Breach::Queue)?;
        queue.try_set_desc_table_address(GuestAddress(descriptors)).map_err(Breach::Queue)?;
        queue.try_set_avail_ring_address(GuestAddress(available)).map_err(Breach::Queue)?;
        queue.try_set_used_ring_address(GuestAddress(used)).map_err(Breach::Queue)?;
        queue.set_event_idx(setting.has_event_index);
        queue.set_ready(true);
        let used_index = queue.used_idx(memory, Ordering::Acquire).map_err(Breach::Queue)?.0;
        queue.set_next_used(used_index);
        queue.set_next_avail(setting.next_available);
        let mut resubmitted = VecDeque::new();
        if let Some(tracker) = &mut tracker
            && let Some(heads) = tracker.recover(used_index)?
        {
            // The answered requests and those in flight are all that were taken out.
            queue.set_next_avail(used_index.wrapping_add(heads.len() as u16));
            resubmitted.extend(heads);
        }
        Ok(Self { queue, call, tracker, resubmitted })
    }

    /// Takes requests out, as many as fit into a batch. The buffer grows for them as far as the
    /// server has memory.
    pub(crate) fn take(
        &mut self,
        memory: &GuestMemoryMmap,
        geometry: &Geometry,
        buffer: &mut Buffer,
    ) -> Result<Vec<GuestRequest>, Breach> {
        let table = (self.queue.desc_table(), self.queue.size());
        let mut taken =
            Taken { memory, geometry, table, buffer, used_bytes: 0, requests: Vec::new() };
        while !taken.is_full()
            && let Some(head) = self.resubmitted.front()
            && taken.add(*head, self.tracker.as_mut())?
        {
            self.resubmitted.pop_front();
        }
        if self.resubmitted.is_empty() {
            let mut chains = self.queue.iter(memory).map_err(Breach::Queue)?;
            while !taken.is_full()
                && let Some(chain) = chains.next()
            {
                if !taken.add(chain.head_index(), self.tracker.as_mut())? {
                    chains.go_to_previous_position();
                    break;
                }
            }
        }
        Ok(taken.requests)
    }

    /// Answers a request.
    pub(crate) fn answer(
        &mut self,
        memory: &GuestMemoryMmap,
        request: &GuestRequest,
        status: Status,
    ) -> Result<(), Breach> {
        let bytes = request.answer(memory, status)?;
        if let Some(tracker) = &self.tracker {
            tracker.before_answer(request.head)?;
        }
        self.queue.add_used(memory, request.head, bytes).map_err(Breach::Queue)?;
        if let Some(tracker) = &self.tracker {
            tracker.after_answer(request.head, self.queue.next_used())?;
        }
        Ok(())
    }

    /// Notifies the guest of answers, if it wants that.
    fn notify(&mut self, memory: &GuestMemoryMmap) -> Result<(), Breach> {
        if self.queue.needs_notification(memory).map_err(Breach::Queue)?
            && let Some(call) = &self.call
        {
            // The guest may have gone, and then its connection ends as well.
            let _ = rustix::io::write(call, &1u64.to_ne_bytes());
        }
        Ok(())
    }

    /// Returns whether there are requests that were not taken out.
    fn has_more(&self, memory: &GuestMemoryMmap) -> bool {
        let available = self.queue.avail_idx(memory, Ordering::Acquire);
        available.is_ok_and(|index| index.0 != self.queue.next_avail())
    }
}

/// A queue as its thread and its lanes use it.
pub(crate) struct QueueSide {
    guest: Arc<Guest>,
    ring: Mutex<Ring>,
    /// `true` once no more requests are to be taken out. A busy guest always has some.
    is_stopping: AtomicBool,
}

/// The batch of a lane.
pub(crate) struct LaneBatch {
    requests: Vec<Arc<GuestRequest>>,
    buffer: Buffer,
    used_bytes: usize,
}

impl LaneBatch {
    fn push(&mut self, request: &Arc<GuestRequest>) -> bool {
        let wanted = self.used_bytes + room_bytes(request.data_bytes());
        let fits = wanted <= self.buffer.len();
        if fits {
            self.used_bytes = wanted;
            self.requests.push(Arc::clone(request));
        }
        fits
    }
}

impl QueueSide {
    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn side<'a>(&'a self, memory: &'a GuestMemoryMmap) -> Side<'a> {
        let Guest { export, .. } = &*self.guest;
        let durability = self.guest.durability();
        Side { device: &*export.device, name: &export.name, memory, durability }
    }

    /// Answers requests that have a status.
    fn answer<'r>(
        &self,
        memory: &GuestMemoryMmap,
        answers: impl Iterator<Item = (&'r GuestRequest, Status)>,
    ) -> Result<(), Stopped> {
        if !self.guest.export.device.may_answer() {
            return Err(Stopped::MayNotAnswer);
        }
        let mut ring = self.lock();
        let mut answered = 0;
        for (request, status) in answers {
            ring.answer(memory, request, status)?;
            answered += 1;
        }
        self.guest.count_requests(answered);
        Ok(ring.notify(memory)?)
    }
}

impl LaneClient for QueueSide {
    type Batch = LaneBatch;
    type Read = Arc<GuestRequest>;
    type Failure = Stopped;

    fn new_batch(&self) -> Option<LaneBatch> {
        let buffer = Buffer::granted(&self.guest.resources().memory)?;
        Some(LaneBatch { requests: Vec::new(), buffer, used_bytes: 0 })
    }

    fn make_room(&self, batch: &mut LaneBatch, bytes: u64) -> u64 {
        // Without memory it has the room that it had.
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX).min(BATCH_BYTES);
        grow(&mut batch.buffer, wanted);
        batch.buffer.len() as u64
    }

    fn add(&self, batch: &mut LaneBatch, read: &Arc<GuestRequest>) -> bool {
        batch.push(read)
    }

    fn carry_out(&self, batch: &mut LaneBatch, waiting: Waiting) -> Result<Vec<usize>, Stopped> {
        let memory = self.guest.memory().memory();
        let LaneBatch { requests, buffer, .. } = batch;
        let statuses = self.side(&memory).execute(requests, buffer, waiting)?;
        let answers = requests.iter().zip(&statuses);
        let answers = answers.filter_map(|(request, status)| Some((&**request, (*status)?)));
        self.answer(&memory, answers)?;
        let places = statuses.iter().enumerate().filter(|(_, status)| status.is_none());
        Ok(places.map(|(place, _)| place).collect())
    }

    fn empty(&self, batch: &mut LaneBatch) {
        batch.requests.clear();
        batch.used_bytes = 0;
    }

    fn clear(&self, batch: &mut LaneBatch) {
        self.empty(batch);
    }

    fn panicked(&self) -> Stopped {
        Stopped::Panic
    }

    fn end(&self, _: &Stopped) {
        self.guest.end_connection();
    }
}

/// A queue with its thread.
pub(crate) struct RunningQueue {
    lanes: Arc<Lanes<QueueSide>>,
    stop: Arc<OwnedFd>,
    thread: JoinHandle<()>,
}

impl RunningQueue {
    /// Starts to serve a queue. `kick` becomes readable when the guest has new requests.
    pub(crate) fn start(guest: &Arc<Guest>, ring: Ring, kick: File) -> std::io::Result<Self> {
        let (ring, is_stopping) = (Mutex::new(ring), AtomicBool::new(false));
        let client = QueueSide { guest: Arc::clone(guest), ring, is_stopping };
        let waiters = guest.export.device.waiters();
        let lanes = Arc::new(Lanes::new(client, Arc::clone(&guest.resources().helpers), waiters));
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let thread = {
            let (lanes, stop) = (Arc::clone(&lanes), Arc::clone(&stop));
            let body = move || {
                QueueThread { lanes, deep_batches: 0, spin: Spin::new(Spin::USUAL) }
                    .run(&kick, &stop);
            };
            std::thread::Builder::new()
                .name("gemelo-queue".into())
                .spawn(body)
                .map_err(gemelo_base::threads::refused)?
        };
        Ok(Self { lanes, stop, thread })
    }

    /// Sets the way to notify the guest.
    pub(crate) fn set_call(&self, call: Option<File>) {
        self.lanes.client().lock().call = call;
    }

    /// Ends the thread once the requests in execution have been answered. Returns the index of the
    /// next request, and the way to notify the guest.
    pub(crate) fn stop(self) -> (u16, Option<File>) {
        self.lanes.client().is_stopping.store(true, Ordering::Release);
        // This cannot fail: the counter is far from its limit.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        // A panic of the thread has stopped the device.
        let _ = self.thread.join();
        let mut ring = self.lanes.client().lock();
        (ring.queue.next_avail(), ring.call.take())
    }
}

/// The thread of a queue.
struct QueueThread {
    lanes: Arc<Lanes<QueueSide>>,
    /// Number of batches to come in which a lone request may be left.
    deep_batches: u32,
    spin: Spin,
}

impl QueueThread {
    fn run(mut self, kick: &File, stop: &OwnedFd) {
        let served = AssertUnwindSafe(|| self.serve_until_stopped(kick, stop));
        let served = catch_unwind(served).unwrap_or(Err(Stopped::Panic));
        self.lanes.wait_for_all();
        let failed = self.lanes.take_failure().map_or(served, Err);
        if let Err(reason) = failed {
            self.lanes.client().guest.stop(reason);
        }
    }

    fn serve_until_stopped(&mut self, kick: &File, stop: &OwnedFd) -> Result<(), Stopped> {
        let mut buffer = self.lanes.client().guest.buffer()?;
        loop {
            // Requests may have come before the first notification.
            self.serve(&mut buffer)?;
            let mut waited_for =
                [PollFd::new(kick, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match poll(&mut waited_for, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Stopped::Memory(error.into())),
            }
            let [kicked, stopped] = waited_for.map(|fd| !fd.revents().is_empty());
            if stopped || self.lanes.have_failed() {
                return Ok(());
            }
            if kicked {
                self.spin.woken();
                match rustix::io::read(kick, &mut [0; 8]) {
                    Ok(8) | Err(Errno::AGAIN | Errno::INTR) => {}
                    _ => return Err(Breach::Incomplete("notifications of its queue").into()),
                }
            }
        }
    }

    /// Serves the queue until it is empty.
    fn serve(&mut self, buffer: &mut Buffer) -> Result<(), Stopped> {
        let lanes = Arc::clone(&self.lanes);
        let client = lanes.client();
        loop {
            let memory = || client.guest.memory().memory();
            client.lock().queue.disable_notification(&*memory()).map_err(Breach::Queue)?;
            while self.goes_on()
                && (self.serve_batch(&memory(), buffer)? || self.has_more_soon(&memory()))
            {
            }
            let enabled = client.lock().queue.enable_notification(&*memory());
            if !enabled.map_err(Breach::Queue)? || !self.goes_on() {
                return Ok(());
            }
        }
    }

    fn goes_on(&self) -> bool {
        let is_stopping = self.lanes.client().is_stopping.load(Ordering::Acquire);
        !is_stopping && !self.lanes.have_failed()
    }

    /// Looks for a request for a moment, in which the guest need not notify this thread.
    fn has_more_soon(&mut self, memory: &GuestMemoryMmap) -> bool {
        let Self { lanes, spin, .. } = self;
        spin.look(|| lanes.client().lock().has_more(memory).then_some(())).is_some()
    }

    /// Executes and answers the next requests. Returns `false` if there are none.
    fn serve_batch(
        &mut self,
        memory: &GuestMemoryMmap,
        buffer: &mut Buffer,
    ) -> Result<bool, Stopped> {
        let lanes = Arc::clone(&self.lanes);
        let client = lanes.client();
        let guest = &client.guest;
        let (requests, keeps_order) = {
            let mut ring = client.lock();
            let requests = ring.take(memory, &guest.export.geometry(), buffer)?;
            (requests, ring.tracker.is_none())
        };
        if requests.is_empty() {
            return Ok(false);
        }
        if requests.iter().any(GuestRequest::changes) {
            guest.note_changes();
        }
        let waiting = if keeps_order {
            Waiting::All
        } else {
            let is_durable = guest.is_durable();
            let is_busy =
                lanes.make_way(|| requests.iter().flat_map(move |one| one.claims(is_durable)));
            self.waiting(is_busy, requests.len())
        };
        let side = client.side(memory);
        let statuses = self.answer_batch(side, &requests, buffer, waiting)?;
        if waiting == Waiting::All && !keeps_order && client.lock().has_more(memory) {
            self.deep_batches = DEEP_BATCHES;
        }
        let mut left = requests.into_iter().zip(statuses).filter(|(_, status)| status.is_none());
        if let Some((first, _)) = left.next() {
            let rest = left.map(|(request, _)| request);
            let left = std::iter::once(first).chain(rest).map(Arc::new).collect();
            self.complete_later(left, memory, buffer)?;
        }
        Ok(true)
    }

    /// Returns the requests of a batch to wait for. A guest that waits for each answer has one
    /// request in flight, and nothing else has to be done meanwhile.
    fn waiting(&mut self, is_busy: bool, requests: usize) -> Waiting {
        let is_alone = !is_busy && requests == 1;
        if !is_alone || self.lanes.client().guest.export.device.waiters() > 1 {
            self.deep_batches = DEEP_BATCHES;
        }
        let is_deep = self.deep_batches > 0;
        self.deep_batches = self.deep_batches.saturating_sub(1);
        if is_deep { Waiting::None } else { Waiting::All }
    }

    /// Executes requests, and answers those that the device does not leave.
    fn answer_batch<R: std::borrow::Borrow<GuestRequest>>(
        &self,
        side: Side<'_>,
        requests: &[R],
        buffer: &mut Buffer,
        waiting: Waiting,
    ) -> Result<Vec<Option<Status>>, Stopped> {
        let executed = AssertUnwindSafe(|| side.execute(requests, buffer, waiting));
        let statuses = catch_unwind(executed).map_err(|_| Stopped::Panic)??;
        assert_eq!(statuses.len(), requests.len(), "each request has a status or is left");
        let answers = requests.iter().zip(&statuses);
        let answers = answers.filter_map(|(request, status)| Some((request.borrow(), (*status)?)));
        self.lanes.client().answer(side.memory, answers)?;
        Ok(statuses)
    }

    /// Has requests executed that the device has left. Those for which there is no thread or no
    /// memory are executed here.
    fn complete_later(
        &self,
        left: Vec<Arc<GuestRequest>>,
        memory: &GuestMemoryMmap,
        buffer: &mut Buffer,
    ) -> Result<(), Stopped> {
        let lanes = &self.lanes;
        let is_durable = lanes.client().guest.is_durable();
        let (mut reads, mut rest) = (Vec::new(), Vec::new());
        for request in left {
            if let Some(range) = request.read_range() {
                reads.push(KeptRead { range, read: request });
                continue;
            }
            let Some(mut lane) = lanes.open() else {
                rest.push(request);
                continue;
            };
            if lane.batch.push(&request) {
                let claims: Vec<Claim> = request.claims(is_durable).collect();
                lanes.start(lane, claims);
            } else {
                lanes.give_back(lane);
                rest.push(request);
            }
        }
        if !reads.is_empty() {
            rest.extend(lanes.read_later(reads).into_iter().map(|kept| kept.read));
        }
        if !rest.is_empty() {
            self.answer_batch(lanes.client().side(memory), &rest, buffer, Waiting::All)?;
        }
        Ok(())
    }
}
