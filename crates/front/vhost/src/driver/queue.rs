//! A queue as its driver uses it: virtio 1.2, 2.7, with the requests of a block device, 5.2.6.

use super::Number;
use super::layout::{DESCRIPTORS_OF_SLOT, Layout, RANGE_AT, STATUS_AT};
use crate::config::SECTOR_BYTES;
use gemelo_device::Spin;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;
use vm_memory::{AtomicAccess, Bytes, MmapRegion, VolatileMemory, VolatileMemoryError};
use vmm_sys_util::eventfd::EventFd;

/// Types of requests.
const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const DISCARD: u32 = 11;

/// Flags of descriptors.
const HAS_NEXT: u16 = 1;
const IS_WRITABLE: u16 = 2;

/// Flag in the used ring of a device that wants no notifications.
const NO_NOTIFICATIONS: u16 = 1;

/// A status that no device gives.
const NO_STATUS: u8 = 0xff;

/// A request. Places and lengths are in bytes, and multiples of 512.
#[derive(Debug, Clone, Copy)]
pub enum DriverRequest<'a> {
    /// Reads into the memory of the slot.
    Read {
        /// First byte of the range on the device.
        offset: u64,
        /// Length of the range in bytes.
        bytes: usize,
    },
    /// Writes the data.
    Write {
        /// First byte of the range on the device.
        offset: u64,
        /// The data to write.
        data: &'a [u8],
    },
    /// Discards a range.
    Discard {
        /// First byte of the range on the device.
        offset: u64,
        /// Length of the range in bytes.
        bytes: u64,
    },
    /// Makes all writes that were answered durable.
    Flush,
}

/// A request that the device has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// The slot of the request.
    pub slot: usize,
    /// `true` if the device did what it was asked for.
    pub is_done: bool,
}

/// The parts of a device that are optional.
#[derive(Debug, Clone, Copy)]
pub(super) struct Abilities {
    pub(super) has_event_index: bool,
    pub(super) has_flush: bool,
    pub(super) has_discard: bool,
}

/// A queue of a device with slots for requests.
pub struct DriverQueue {
    memory: Arc<MmapRegion>,
    layout: Layout,
    /// First byte of the queue in the shared memory, which is its address for the device.
    first: usize,
    _number: Number,
    kick: EventFd,
    call: EventFd,
    stream: UnixStream,
    abilities: Abilities,
    /// Index of the next entry of the available ring.
    available: u16,
    /// The same when the device was last notified.
    notified: u16,
    /// Index of the next entry of the used ring.
    used: u16,
    /// Requests that the device does not know, and that are therefore done.
    skipped: Vec<usize>,
    spin: Spin,
}

fn broken(error: VolatileMemoryError) -> io::Error {
    io::Error::other(error)
}

impl DriverQueue {
    pub(super) fn new(
        (memory, layout, first): (Arc<MmapRegion>, Layout, usize),
        number: Number,
        (kick, call, stream): (EventFd, EventFd, UnixStream),
        abilities: Abilities,
    ) -> Self {
        Self {
            memory,
            layout,
            first,
            _number: number,
            kick,
            call,
            stream,
            abilities,
            available: 0,
            notified: 0,
            used: 0,
            skipped: Vec::new(),
            spin: Spin::new(Spin::USUAL),
        }
    }

    fn put(&self, place: usize, bytes: &[u8]) -> io::Result<()> {
        let memory = self.memory.as_volatile_slice();
        memory.write_slice(bytes, self.first + place).map_err(broken)
    }

    fn set<T: AtomicAccess>(&self, place: usize, value: T) -> io::Result<()> {
        let memory = self.memory.as_volatile_slice();
        memory.store(value, self.first + place, Ordering::Release).map_err(broken)
    }

    fn get<T: AtomicAccess>(&self, place: usize) -> io::Result<T> {
        let memory = self.memory.as_volatile_slice();
        memory.load(self.first + place, Ordering::Acquire).map_err(broken)
    }

    /// Copies the data of a finished read.
    ///
    /// # Errors
    /// Fails if the slot has not so much data.
    pub fn copy_data(&self, slot: usize, to: &mut [u8]) -> io::Result<()> {
        if to.len() > self.layout.buffer_bytes() || slot >= self.layout.depth() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let memory = self.memory.as_volatile_slice();
        memory.read_slice(to, self.first + self.layout.data(slot)).map_err(broken)
    }

    /// Makes a request available in a free slot. [`Self::notify`] tells the device.
    ///
    /// # Errors
    /// Fails if there is no such slot, or if it has no room for the data.
    pub fn submit(&mut self, slot: usize, request: DriverRequest<'_>) -> io::Result<()> {
        let (kind, offset, bytes, is_read) = match request {
            DriverRequest::Read { offset, bytes } => (READ, offset, bytes, true),
            DriverRequest::Write { offset, data } => (WRITE, offset, data.len(), false),
            DriverRequest::Discard { .. } => (DISCARD, 0, 16, false),
            DriverRequest::Flush => (FLUSH, 0, 0, false),
        };
        let is_known = match request {
            DriverRequest::Discard { .. } => self.abilities.has_discard,
            DriverRequest::Flush => self.abilities.has_flush,
            _ => true,
        };
        if slot >= self.layout.depth() || bytes > self.layout.buffer_bytes().max(16) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if !is_known {
            self.skipped.push(slot);
            return Ok(());
        }
        let control = self.layout.control(slot);
        let data = match request {
            DriverRequest::Discard { .. } => control + RANGE_AT,
            _ => self.layout.data(slot),
        };
        match request {
            DriverRequest::Write { data: from, .. } => self.put(data, from)?,
            DriverRequest::Discard { offset, bytes } => {
                self.set(data, (offset / SECTOR_BYTES).to_le())?;
                let sectors = u32::try_from(bytes / SECTOR_BYTES).unwrap_or(u32::MAX);
                self.set(data + 8, sectors.to_le())?;
                self.set(data + 12, 0u32)?;
            }
            _ => {}
        }
        self.set(control, kind.to_le())?;
        self.set(control + 4, 0u32)?;
        self.set(control + 8, (offset / SECTOR_BYTES).to_le())?;
        self.set(control + STATUS_AT, NO_STATUS)?;
        let head = slot * DESCRIPTORS_OF_SLOT;
        let has_data = bytes > 0;
        let after_head = if has_data { head + 1 } else { head + 2 };
        self.describe(head, (control, 16), HAS_NEXT, after_head)?;
        if has_data {
            let flags = HAS_NEXT | if is_read { IS_WRITABLE } else { 0 };
            self.describe(head + 1, (data, bytes), flags, head + 2)?;
        }
        self.describe(head + 2, (control + STATUS_AT, 1), IS_WRITABLE, 0)?;
        let entry = usize::from(self.available % self.layout.size());
        self.set(self.layout.available() + 4 + 2 * entry, (head as u16).to_le())?;
        self.available = self.available.wrapping_add(1);
        self.set(self.layout.available() + 2, self.available.to_le())
    }

    fn describe(
        &self,
        number: usize,
        (place, bytes): (usize, usize),
        flags: u16,
        next: usize,
    ) -> io::Result<()> {
        let descriptor = self.layout.descriptors() + 16 * number;
        self.set(descriptor, ((self.first + place) as u64).to_le())?;
        self.set(descriptor + 8, (bytes as u32).to_le())?;
        self.set(descriptor + 12, flags.to_le())?;
        self.set(descriptor + 14, (next as u16).to_le())
    }

    /// Tells the device of requests that were made available, if it wants that.
    ///
    /// # Errors
    /// Fails if the system refuses.
    pub fn notify(&mut self) -> io::Result<()> {
        let before = std::mem::replace(&mut self.notified, self.available);
        if before == self.available {
            return Ok(());
        }
        // The index is visible before the wish of the device is read.
        fence(Ordering::SeqCst);
        let used = self.layout.used();
        let is_wanted = if self.abilities.has_event_index {
            let event = self.get::<u16>(used + 4 + 8 * usize::from(self.layout.size()))?;
            let behind = self.available.wrapping_sub(u16::from_le(event)).wrapping_sub(1);
            behind < self.available.wrapping_sub(before)
        } else {
            u16::from_le(self.get::<u16>(used)?) & NO_NOTIFICATIONS == 0
        };
        if is_wanted { self.kick.write(1) } else { Ok(()) }
    }

    /// Passes on the answers that have come. Returns their number.
    fn take_answers(&mut self, with: &mut impl FnMut(Finished)) -> io::Result<usize> {
        let mut answers = self.skipped.len();
        self.skipped.drain(..).for_each(|slot| with(Finished { slot, is_done: true }));
        let used = self.layout.used();
        let end = u16::from_le(self.get(used + 2)?);
        while self.used != end {
            let entry = used + 4 + 8 * usize::from(self.used % self.layout.size());
            let head = u32::from_le(self.get(entry)?) as usize;
            let slot = head / DESCRIPTORS_OF_SLOT;
            if !head.is_multiple_of(DESCRIPTORS_OF_SLOT) || slot >= self.layout.depth() {
                return Err(io::Error::other("the device has answered a request that is none"));
            }
            let status: u8 = self.get(self.layout.control(slot) + STATUS_AT)?;
            with(Finished { slot, is_done: status == 0 });
            self.used = self.used.wrapping_add(1);
            answers += 1;
        }
        Ok(answers)
    }

    /// Passes on answers, and waits for the first one: not at all, for ever, or for a time. Returns
    /// their number.
    ///
    /// # Errors
    /// Fails if the device has ended the connection, or answers what it was not asked.
    pub fn reap(
        &mut self,
        wait: Option<Option<Duration>>,
        mut with: impl FnMut(Finished),
    ) -> io::Result<usize> {
        loop {
            let answers = self.take_answers(&mut with)?;
            let Some(longest) = wait.filter(|_| answers == 0) else { return Ok(answers) };
            let may_look = longest.is_none_or(|time| time > Spin::USUAL);
            if may_look && self.has_answer_soon() {
                continue;
            }
            // The caller may have a request that is due then.
            let looked = if may_look { self.spin.since_look() } else { Duration::ZERO };
            let longest = longest.map(|time| time.saturating_sub(looked));
            let is_wanted = self.layout.available() + 4 + 2 * usize::from(self.layout.size());
            self.set(is_wanted, self.used.to_le())?;
            // The wish is visible before the index of the device is read once more.
            fence(Ordering::SeqCst);
            if u16::from_le(self.get::<u16>(self.layout.used() + 2)?) == self.used {
                if !self.wait_for_call(longest)? {
                    return Ok(0);
                }
                if may_look {
                    self.spin.woken();
                }
            }
        }
    }

    /// Looks for an answer for a moment, in which the device need not notify this thread.
    fn has_answer_soon(&mut self) -> bool {
        let index = self.first + self.layout.used() + 2;
        let Self { memory, spin, used, .. } = self;
        let memory = memory.as_volatile_slice();
        let has_answer = || match memory.load::<u16>(index, Ordering::Acquire) {
            Ok(end) => (u16::from_le(end) != *used).then_some(()),
            Err(_) => None,
        };
        spin.look(has_answer).is_some()
    }

    /// Waits for a notification. Returns `false` if the time is over.
    fn wait_for_call(&self, longest: Option<Duration>) -> io::Result<bool> {
        // SAFETY: the descriptor is open as long as `self.call` is.
        let call = unsafe { BorrowedFd::borrow_raw(self.call.as_raw_fd()) };
        let timeout = longest.map(|time| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let mut waited_for = [
            PollFd::from_borrowed_fd(call, PollFlags::IN),
            PollFd::from_borrowed_fd(self.stream.as_fd(), PollFlags::empty()),
        ];
        match poll(&mut waited_for, timeout.as_ref()) {
            Ok(0) => return Ok(false),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [called, ended] = waited_for.map(|fd| !fd.revents().is_empty());
        if called {
            self.call.read()?;
        } else if ended {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(true)
    }
}
