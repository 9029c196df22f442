//! The other side of the protocol: a driver that reaches a vhost-user-blk device of this or another
//! program, as the virtual machine of a guest would. Load and benchmarks use it.
//!
//! The driver copies data between its caller and the memory that it shares with the device.

mod layout;
mod queue;

pub use queue::{DriverQueue, DriverRequest, Finished};

use crate::config::{self, MAX_QUEUE_SIZE, MAX_QUEUES, SECTOR_BYTES};
use gemelo_base::Classified;
use gemelo_base::ShowPath as _;
use layout::Layout;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thiserror::Error;
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};
use vmm_sys_util::eventfd::EventFd;

/// Longest time for an answer to a message.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Most times that a device is connected to until it answers, and the pause between them.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// The place of the shared memory in the address space of the driver, as the device learns it.
const MACHINE_ADDRESS: u64 = 0x7000_0000_0000;

/// Most bytes of the rings and the data of a queue. They take memory from their first use on.
const QUEUE_BYTES: usize = 256 << 20;

/// Bytes of the configuration space that have the size of the device.
const SIZE_FIELD_BYTES: u32 = 8;

/// Features that the driver accepts.
const FEATURES: u64 = config::READ_ONLY
    | config::FLUSH
    | config::SEVERAL_QUEUES
    | config::DISCARD
    | config::EVENT_INDEX
    | config::VERSION_1;

/// The reason why a device cannot be used.
#[derive(Debug, Error, Classified)]
pub enum DriverError {
    /// The socket cannot be connected to.
    #[kind(source, untouched)]
    #[error("cannot connect to {}", path.shown())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A message had no good answer.
    #[kind(Failed)]
    #[error("{} did not answer as a vhost-user-blk device does ({what}): {reason}", path.shown())]
    Answer {
        /// The socket.
        path: PathBuf,
        /// The failed step.
        what: &'static str,
        /// The failure.
        reason: String,
    },
    /// The device lacks something that the driver needs.
    #[kind(BadInput)]
    #[error("the device at {} lacks {what}", path.shown())]
    Lacks {
        /// The socket.
        path: PathBuf,
        /// The missing part.
        what: &'static str,
    },
    /// There is no memory to share.
    #[kind(source, untouched)]
    #[error("cannot make memory to share with the device")]
    Memory(#[source] io::Error),
}

/// A device, and the connection to it.
pub struct Driver {
    path: PathBuf,
    frontend: Mutex<Frontend>,
    /// The connection, to see its end.
    stream: UnixStream,
    features: u64,
    size_bytes: u64,
    queues: usize,
    /// The memory that is shared with the device. Each queue has a part of it.
    memory: Arc<MmapRegion>,
    numbers: Arc<Mutex<Numbers>>,
}

/// The numbers of queues.
#[derive(Debug, Default)]
struct Numbers {
    in_use: BTreeSet<usize>,
    /// Those that the device has served.
    started: BTreeSet<usize>,
}

/// The number of a queue, until this is dropped.
#[derive(Debug)]
struct Number {
    number: usize,
    was_started: bool,
    numbers: Arc<Mutex<Numbers>>,
}

impl Number {
    fn take(numbers: &Arc<Mutex<Numbers>>, queues: usize) -> Option<Self> {
        let mut state = numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let number = (0..queues).find(|number| !state.in_use.contains(number))?;
        state.in_use.insert(number);
        let was_started = !state.started.insert(number);
        Some(Self { number, was_started, numbers: Arc::clone(numbers) })
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        let mut state = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        state.in_use.remove(&self.number);
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Driver").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Driver {
    /// Connects to the device at a socket.
    ///
    /// # Errors
    /// Fails if the socket cannot be connected to, or if no device answers there. A device that
    /// another virtual machine has does not answer.
    pub fn connect(path: &Path) -> Result<Self, DriverError> {
        // A server may take a moment to see that its client before has gone.
        let mut tried = 1;
        loop {
            match Self::try_to_connect(path) {
                Err(DriverError::Answer { .. }) if tried < TRIES => {
                    tried += 1;
                    gemelo_base::pause(PAUSE);
                }
                other => return other,
            }
        }
    }

    fn try_to_connect(path: &Path) -> Result<Self, DriverError> {
        let connected = |source| DriverError::Connect { path: path.to_owned(), source };
        let answered = |what: &'static str| {
            move |error: vhost::Error| DriverError::Answer {
                path: path.to_owned(),
                what,
                reason: error.to_string(),
            }
        };
        let stream = UnixStream::connect(path).map_err(connected)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(connected)?;
        let copy = stream.try_clone().map_err(connected)?;
        let mut frontend = Frontend::from_stream(copy, MAX_QUEUES as u64);
        frontend.set_owner().map_err(answered("owner"))?;
        let offered = frontend.get_features().map_err(answered("features"))?;
        let lacks = |what| DriverError::Lacks { path: path.to_owned(), what };
        if offered & config::VERSION_1 == 0 {
            return Err(lacks("version 1 of virtio"));
        }
        let protocol = VhostUserProtocolFeatures::CONFIG | VhostUserProtocolFeatures::MQ;
        let has_protocol = offered & config::PROTOCOL_FEATURES != 0;
        let features = offered & (FEATURES | config::PROTOCOL_FEATURES);
        frontend.set_features(features).map_err(answered("features"))?;
        if !has_protocol {
            return Err(lacks("a configuration space"));
        }
        let known = frontend.get_protocol_features().map_err(answered("protocol features"))?;
        if !known.contains(VhostUserProtocolFeatures::CONFIG) {
            return Err(lacks("a configuration space"));
        }
        let chosen = known & protocol;
        frontend.set_protocol_features(chosen).map_err(answered("protocol features"))?;
        let queues = match chosen.contains(VhostUserProtocolFeatures::MQ) {
            true => frontend.get_queue_num().map_err(answered("number of queues"))?,
            false => 1,
        };
        let space = [0; SIZE_FIELD_BYTES as usize];
        let read = frontend.get_config(0, SIZE_FIELD_BYTES, VhostUserConfigFlags::empty(), &space);
        let (_, space) = read.map_err(answered("configuration"))?;
        let sectors: [u8; 8] = space.try_into().map_err(|_| lacks("a size"))?;
        let queues = usize::try_from(queues).unwrap_or(MAX_QUEUES).clamp(1, MAX_QUEUES);
        let (memory, file) = make_memory(QUEUE_BYTES * queues).map_err(DriverError::Memory)?;
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: (QUEUE_BYTES * queues) as u64,
            userspace_addr: MACHINE_ADDRESS,
            mmap_offset: 0,
            mmap_handle: file.as_raw_fd(),
        };
        frontend.set_mem_table(&[region]).map_err(answered("memory"))?;
        Ok(Self {
            path: path.to_owned(),
            frontend: Mutex::new(frontend),
            stream,
            features,
            size_bytes: u64::from_le_bytes(sectors).saturating_mul(SECTOR_BYTES),
            queues,
            memory: Arc::new(memory),
            numbers: Arc::default(),
        })
    }

    /// Returns the size of the device in bytes.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns whether the device refuses writes.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.features & config::READ_ONLY != 0
    }

    /// Returns the most queues that the device serves.
    #[must_use]
    pub const fn max_queues(&self) -> usize {
        self.queues
    }

    /// Returns the most requests that a queue can have in flight.
    #[must_use]
    pub const fn max_depth() -> usize {
        MAX_QUEUE_SIZE / layout::DESCRIPTORS_OF_SLOT
    }

    /// Starts a queue with slots of this number and of this number of bytes.
    ///
    /// # Errors
    /// Fails if all queues are in use, if a queue has no room for the slots, or if the device
    /// refuses it.
    pub fn start(&self, depth: usize, buffer_bytes: usize) -> Result<DriverQueue, DriverError> {
        let lacks = |what| DriverError::Lacks { path: self.path.clone(), what };
        let layout = Layout::new(depth, buffer_bytes);
        if depth > Self::max_depth() || layout.queue_bytes() > QUEUE_BYTES {
            return Err(lacks("room in a queue for so many requests of this size"));
        }
        let number = Number::take(&self.numbers, self.queues);
        let number = number.ok_or_else(|| lacks("a further queue"))?;
        let memory = Arc::clone(&self.memory);
        let first = QUEUE_BYTES * number.number;
        let events = || EventFd::new(0).map_err(DriverError::Memory);
        let (kick, call) = (events()?, events()?);
        let place = |within: usize| MACHINE_ADDRESS + (first + within) as u64;
        let rings = VringConfigData {
            queue_max_size: layout.size(),
            queue_size: layout.size(),
            flags: 0,
            desc_table_addr: place(layout.descriptors()),
            used_ring_addr: place(layout.used()),
            avail_ring_addr: place(layout.available()),
            log_addr: None,
        };
        let index = number.number;
        let mut frontend = self.frontend.lock().unwrap_or_else(PoisonError::into_inner);
        let set = |frontend: &Frontend| -> vhost::Result<()> {
            if number.was_started {
                frontend.get_vring_base(index)?;
            }
            clear_rings(&memory, &layout, first)?;
            frontend.set_vring_num(index, layout.size())?;
            frontend.set_vring_base(index, 0)?;
            frontend.set_vring_addr(index, &rings)?;
            frontend.set_vring_call(index, &call)?;
            frontend.set_vring_kick(index, &kick)
        };
        set(&frontend).map_err(|error| of_vhost(&self.path, "queue", &error))?;
        let enabled = frontend.set_vring_enable(index, true);
        enabled.map_err(|error| of_vhost(&self.path, "queue", &error))?;
        let stream = self.stream.try_clone().map_err(DriverError::Memory)?;
        let has_event_index = self.features & config::EVENT_INDEX != 0;
        let has_flush = self.features & config::FLUSH != 0;
        let has_discard = self.features & config::DISCARD != 0;
        Ok(DriverQueue::new(
            (memory, layout, first),
            number,
            (kick, call, stream),
            queue::Abilities { has_event_index, has_flush, has_discard },
        ))
    }
}

/// Makes memory that can be shared.
fn make_memory(bytes: usize) -> io::Result<(MmapRegion, File)> {
    let file = File::from(memfd_create("gemelo-driver", MemfdFlags::CLOEXEC)?);
    ftruncate(&file, bytes as u64)?;
    let shared = FileOffset::new(file.try_clone()?, 0);
    let memory = MmapRegion::from_file(shared, bytes).map_err(io::Error::other)?;
    Ok((memory, file))
}

/// Sets the indices of the rings of a queue to their beginning. The device does not serve it.
fn clear_rings(memory: &MmapRegion, layout: &Layout, first: usize) -> vhost::Result<()> {
    let failed = |error| vhost::Error::IOError(io::Error::other(error));
    let memory = memory.as_volatile_slice();
    for ring in [layout.available(), layout.used()] {
        memory.write_obj(0u32, first + ring).map_err(failed)?;
    }
    let event = layout.used() + 4 + 8 * usize::from(layout.size());
    memory.write_obj(0u16, first + event).map_err(failed)
}

fn of_vhost(path: &Path, what: &'static str, error: &vhost::Error) -> DriverError {
    DriverError::Answer { path: path.to_owned(), what, reason: error.to_string() }
}
