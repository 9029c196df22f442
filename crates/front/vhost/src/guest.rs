//! A device as one virtual machine sees it, while it is connected: its memory, its state, and the
//! reason why it was stopped.
//!
//! A guest that breaks the protocol ends its connection, and with it all queues of its device.

use crate::batch;
use crate::request::Breach;
use gemelo_device::{Buffer, DeviceError, Durability, Export, Helpers, Memory, Operation};
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use thiserror::Error;
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};

/// The notice that the configuration of a device has changed: the header of a message of a device,
/// of type 2 and version 1, without a body.
const CONFIGURATION_CHANGED: [u8; 12] = [2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];

/// The reason why a device was stopped while its virtual machine was connected.
#[derive(Debug, Error)]
pub(crate) enum Stopped {
    #[error(transparent)]
    Breach(#[from] Breach),
    #[error("the server may not answer for the device any more")]
    MayNotAnswer,
    #[error("a request panicked")]
    Panic,
    #[error("there is no memory for requests")]
    Memory(#[source] io::Error),
}

/// The resources that all virtual machines of a server share.
#[derive(Clone)]
pub(crate) struct Resources {
    /// The memory for the data of requests.
    pub(crate) memory: Memory,
    pub(crate) helpers: Arc<Helpers>,
    /// `true` if every change has to be durable when it is answered.
    pub(crate) write_through: bool,
}

pub(crate) struct Guest {
    pub(crate) export: Export,
    memory: GuestMemoryAtomic<GuestMemoryMmap>,
    /// `true` if changes must be durable when they are answered: the driver cannot flush.
    is_write_through: AtomicBool,
    has_unflushed: AtomicBool,
    resources: Resources,
    requests: AtomicU64,
    /// The connection, to end it.
    connection: OnceLock<UnixStream>,
    notices: Mutex<Notices>,
    stopped: OnceLock<Stopped>,
}

/// The way to tell a virtual machine that its device has another size.
struct Notices {
    channel: Option<UnixStream>,
    /// The size of which it knows.
    told_bytes: u64,
}

impl Guest {
    pub(crate) fn new(export: Export, resources: Resources) -> Self {
        let told_bytes = export.geometry().size_bytes;
        Self {
            export,
            memory: GuestMemoryAtomic::new(GuestMemoryMmap::new()),
            is_write_through: AtomicBool::new(true),
            has_unflushed: AtomicBool::new(false),
            resources,
            requests: AtomicU64::new(0),
            connection: OnceLock::new(),
            notices: Mutex::new(Notices { channel: None, told_bytes }),
            stopped: OnceLock::new(),
        }
    }

    pub(crate) fn memory(&self) -> &GuestMemoryAtomic<GuestMemoryMmap> {
        &self.memory
    }

    /// Makes a buffer for a thread of the guest.
    pub(crate) fn buffer(&self) -> Result<Buffer, Stopped> {
        Buffer::reserved(&self.resources.memory).map_err(Stopped::Memory)
    }

    pub(crate) fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Lets [`Self::end_connection`] end a connection.
    pub(crate) fn attach(&self, connection: UnixStream) {
        // It is set once.
        let _ = self.connection.set(connection);
    }

    pub(crate) fn end_connection(&self) {
        if let Some(connection) = self.connection.get() {
            // This fails only on a socket that the peer has closed, which has the same effect.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Stops the device. The first reason counts.
    pub(crate) fn stop(&self, reason: Stopped) {
        let _ = self.stopped.set(reason);
        self.end_connection();
    }

    /// Returns the reason why the device was stopped, if it was.
    pub(crate) fn stopped(&self) -> Option<&Stopped> {
        self.stopped.get()
    }

    /// Returns the number of requests that were answered.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn count_requests(&self, answered: u64) {
        self.requests.fetch_add(answered, Ordering::Relaxed);
    }

    /// Notes that the device gets changes.
    pub(crate) fn note_changes(&self) {
        self.has_unflushed.store(true, Ordering::Relaxed);
    }

    /// Flushes the writes that the guest has not flushed. No thread serves its queues any more.
    pub(crate) fn flush(&self) -> Result<(), DeviceError> {
        if self.has_unflushed.load(Ordering::Relaxed) {
            batch::ask(&*self.export.device, Operation::Flush)
        } else {
            Ok(())
        }
    }

    /// Notes whether the driver can flush.
    pub(crate) fn set_driver_flushes(&self, driver_flushes: bool) {
        self.is_write_through.store(!driver_flushes, Ordering::Relaxed);
    }

    /// Returns whether changes must be durable when they are answered.
    pub(crate) fn is_durable(&self) -> bool {
        self.resources.write_through || self.is_write_through.load(Ordering::Relaxed)
    }

    pub(crate) fn durability(&self) -> Durability {
        if self.is_durable() { Durability::Immediate } else { Durability::Flushed }
    }

    fn lock_notices(&self) -> MutexGuard<'_, Notices> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the way to notify the virtual machine.
    pub(crate) fn set_channel(&self, channel: UnixStream) -> io::Result<()> {
        channel.set_nonblocking(true)?;
        self.lock_notices().channel = Some(channel);
        Ok(())
    }

    /// Tells the virtual machine if its device has another size than before. It then reads the
    /// configuration.
    pub(crate) fn tell_size(&self) {
        let size_bytes = self.export.geometry().size_bytes;
        let mut notices = self.lock_notices();
        if notices.told_bytes == size_bytes {
            return;
        }
        notices.told_bytes = size_bytes;
        if let Some(channel) = &notices.channel {
            // A virtual machine that takes no notices reads the configuration at its next start.
            let _ = rustix::net::send(
                channel,
                &CONFIGURATION_CHANGED,
                rustix::net::SendFlags::NOSIGNAL,
            );
        }
    }
}
