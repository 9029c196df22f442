//! A device as one virtual machine sees it: its features, and the threads that serve its queues.
//!
//! A guest that breaks the protocol ends its connection, and with it all queues of its device.

use crate::batch::{self, BATCH_BYTES, MAX_REQUESTS, room_bytes};
use crate::config::{self, MAX_QUEUE_SIZE, MAX_QUEUES};
use crate::request::{Breach, Command, GuestRequest};
use gemelo_device::{BlockDevice, Buffer, DeviceError, Durability, Export, Memory, Operation};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use thiserror::Error;
use vhost::vhost_user::message::VhostUserProtocolFeatures;
use vhost_user_backend::{
    ShutdownHandle, VhostUserBackend, VhostUserDaemon, VringMutex, VringState, VringT,
};
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;

/// Threads of a device. Thread `t` has the queues `t`, `t + 4`, and so on.
const THREADS: usize = 4;

/// Number of the event that ends a thread; smaller ones are the queues.
const END_EVENT: u64 = MAX_QUEUES as u64 + 1;

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

pub(crate) struct Guest {
    export: Export,
    memory: GuestMemoryAtomic<GuestMemoryMmap>,
    /// `true` if changes must be durable when they are answered: the driver cannot flush.
    is_write_through: AtomicBool,
    always_write_through: bool,
    has_unflushed: AtomicBool,
    /// The memory of all clients of the server.
    buffer_memory: Memory,
    buffers: [Mutex<Option<Buffer>>; THREADS],
    requests: AtomicU64,
    /// Ends the connection.
    connection: OnceLock<ShutdownHandle>,
    stopped: OnceLock<Stopped>,
    /// Threads wait for the first one, which becomes readable at the end of the second.
    end: (UnixStream, UnixStream),
}

impl Guest {
    pub(crate) fn new(
        export: Export,
        always_write_through: bool,
        buffer_memory: Memory,
    ) -> io::Result<Self> {
        Ok(Self {
            export,
            memory: GuestMemoryAtomic::new(GuestMemoryMmap::new()),
            is_write_through: AtomicBool::new(true),
            always_write_through,
            has_unflushed: AtomicBool::new(false),
            buffer_memory,
            buffers: [const { Mutex::new(None) }; THREADS],
            requests: AtomicU64::new(0),
            connection: OnceLock::new(),
            stopped: OnceLock::new(),
            end: UnixStream::pair()?,
        })
    }

    pub(crate) fn memory(&self) -> GuestMemoryAtomic<GuestMemoryMmap> {
        self.memory.clone()
    }

    /// Lets the threads of a daemon end by [`Self::end_threads`].
    pub(crate) fn attach_threads(&self, daemon: &VhostUserDaemon<Arc<Self>>) -> io::Result<()> {
        for handler in daemon.get_epoll_handlers() {
            handler.register_listener(self.end.0.as_raw_fd(), EventSet::IN, END_EVENT)?;
        }
        Ok(())
    }

    /// Lets [`Self::end_connection`] end the connection of a daemon that has started.
    pub(crate) fn attach_connection(&self, daemon: &VhostUserDaemon<Arc<Self>>) {
        if let Some(handle) = daemon.shutdown_handle() {
            // It is set once.
            let _ = self.connection.set(handle);
        }
    }

    pub(crate) fn end_threads(&self) {
        // This fails only on a closed socket, and this one is open.
        let _ = self.end.1.shutdown(std::net::Shutdown::Both);
    }

    pub(crate) fn end_connection(&self) {
        self.connection.get().iter().for_each(|connection| connection.shutdown());
    }

    /// Returns the reason why the device was stopped, if it was.
    pub(crate) fn stopped(&self) -> Option<&Stopped> {
        self.stopped.get()
    }

    pub(crate) fn device(&self) -> &dyn BlockDevice {
        &*self.export.device
    }

    /// Returns the number of requests that were answered.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Flushes the writes that the guest has not flushed. No thread serves its queues any more.
    pub(crate) fn flush(&self) -> Result<(), DeviceError> {
        if self.has_unflushed.load(Ordering::Relaxed) {
            batch::ask(self.device(), Operation::Flush)
        } else {
            Ok(())
        }
    }

    fn durability(&self) -> Durability {
        if self.always_write_through || self.is_write_through.load(Ordering::Relaxed) {
            Durability::Immediate
        } else {
            Durability::Flushed
        }
    }

    /// Serves a queue until it is empty.
    fn serve(&self, vring: &mut VringState, thread: usize) -> Result<(), Stopped> {
        if !vring.get_queue().ready() {
            return Ok(());
        }
        let buffer = self.buffers.get(thread);
        assert!(buffer.is_some(), "a thread has a buffer");
        let Some(buffer) = buffer else { return Ok(()) };
        let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.is_none() {
            *buffer = Some(Buffer::reserved(&self.buffer_memory).map_err(Stopped::Memory)?);
        }
        let Some(buffer) = buffer.as_mut() else { return Ok(()) };
        loop {
            vring.disable_notification().map_err(Breach::Queue)?;
            while self.serve_batch(vring, buffer)? {}
            if !vring.enable_notification().map_err(Breach::Queue)? {
                return Ok(());
            }
        }
    }

    /// Executes and answers the next requests of a queue. Returns `false` if there are none. The
    /// answers are in the order of the requests: a virtual machine that lost this server sends all
    /// requests again from the first one that has no answer.
    fn serve_batch(&self, vring: &mut VringState, buffer: &mut Buffer) -> Result<bool, Stopped> {
        let memory = self.memory.memory();
        let mut requests = self.next_requests(vring.get_queue_mut(), &memory, buffer)?;
        if requests.is_empty() {
            return Ok(false);
        }
        for request in &requests {
            match request.command {
                Command::Flush | Command::Read(..) | Command::GetId(_) | Command::Refused(_) => {}
                _ => self.has_unflushed.store(true, Ordering::Relaxed),
            }
        }
        let (device, name) = (self.device(), self.export.name.as_str());
        let mode = (buffer, self.durability());
        let executed =
            catch_unwind(AssertUnwindSafe(|| batch::execute(&mut requests, device, mode, name)));
        let statuses = executed.map_err(|_| Stopped::Panic)??;
        assert_eq!(statuses.len(), requests.len(), "each request has a status");
        if !device.may_answer() {
            return Err(Stopped::MayNotAnswer);
        }
        self.requests.fetch_add(requests.len() as u64, Ordering::Relaxed);
        for (request, status) in requests.into_iter().zip(statuses) {
            let head = request.head;
            let bytes = request.answer(status)?;
            vring.add_used(head, bytes).map_err(Breach::Queue)?;
        }
        if vring.needs_notification().map_err(Breach::Queue)? {
            // The guest may have gone, and then its connection ends as well.
            let _ = vring.signal_used_queue();
        }
        Ok(true)
    }

    /// Takes requests out of a queue, as many as fit into a batch. The buffer grows for them as far
    /// as the server has memory.
    pub(crate) fn next_requests<'m>(
        &self,
        queue: &mut Queue,
        memory: &'m GuestMemoryMmap,
        buffer: &mut Buffer,
    ) -> Result<Vec<GuestRequest<'m>>, Breach> {
        let geometry = self.export.geometry();
        let mut requests: Vec<GuestRequest<'m>> = Vec::new();
        let mut used_bytes = 0;
        let mut chains = queue.iter(memory).map_err(Breach::Queue)?;
        while requests.len() < MAX_REQUESTS && used_bytes < BATCH_BYTES {
            let Some(chain) = chains.next() else { break };
            let request = GuestRequest::parse(chain, memory, &geometry)?;
            let room = room_bytes(request.data_bytes());
            let has_room = used_bytes + room <= buffer.len() || grow(buffer, used_bytes + room);
            if !requests.is_empty() && !has_room {
                chains.go_to_previous_position();
                break;
            }
            used_bytes += room;
            requests.push(request);
        }
        Ok(requests)
    }
}

/// Grows a buffer for this many bytes, up to the size of a batch. Returns whether they fit.
fn grow(buffer: &mut Buffer, bytes: usize) -> bool {
    let wanted = bytes.next_power_of_two().min(BATCH_BYTES);
    buffer.grow(wanted, 0) && bytes <= wanted
}

impl VhostUserBackend for Guest {
    type Bitmap = ();
    type Vring = VringMutex;

    fn num_queues(&self) -> usize {
        MAX_QUEUES
    }

    fn max_queue_size(&self) -> usize {
        MAX_QUEUE_SIZE
    }

    fn features(&self) -> u64 {
        config::features(&self.export.geometry())
    }

    fn acked_features(&self, features: u64) {
        self.is_write_through.store(features & config::FLUSH == 0, Ordering::Relaxed);
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK
    }

    /// Each queue knows for itself, see [`QueueT::set_event_idx`].
    fn set_event_idx(&self, _enabled: bool) {}

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        config::space(&self.export.geometry(), offset, size)
    }

    /// The memory is the one that this device was made with.
    fn update_memory(&self, _memory: GuestMemoryAtomic<GuestMemoryMmap>) -> io::Result<()> {
        Ok(())
    }

    fn queues_per_thread(&self) -> Vec<u64> {
        let queues = |thread| (thread..MAX_QUEUES).step_by(THREADS);
        (0..THREADS).map(|thread| queues(thread).fold(0, |mask, queue| mask | 1 << queue)).collect()
    }

    /// An error ends the thread.
    fn handle_event(
        &self,
        event: u16,
        _events: EventSet,
        vrings: &[VringMutex],
        thread: usize,
    ) -> io::Result<()> {
        let ended = || io::Error::other("the device has ended");
        let Some(vring) = vrings.get(usize::from(event)) else { return Err(ended()) };
        if self.stopped.get().is_some() {
            return Err(ended());
        }
        let served = self.serve(&mut vring.get_mut(), thread);
        served.map_err(|reason| {
            // The first reason counts.
            let _ = self.stopped.set(reason);
            self.end_connection();
            ended()
        })
    }
}
