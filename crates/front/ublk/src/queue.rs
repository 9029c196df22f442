//! A queue of a device and its thread.
//!
//! The thread waits for requests, executes all that have come as one batch, and answers them with
//! the next wait, in one system call. The kernel copies the data of a write to the buffer of its
//! tag before it tells of the request, and that of a read from there when it is answered, each time
//! in the context of this thread. So nothing changes a buffer while the device works with it.
//!
//! The last tag has a ring of its own ([`LastTag`]), which ends before the queue does.

use crate::abi::{COMMIT_AND_FETCH, Descriptor, FETCH, queue_command};
use crate::gate::Ticket;
use crate::kept::{Change, Kept, Log};
use crate::last_tag::LastTag;
use crate::request::{failed, operation, result};
use crate::shared::Descriptors;
use gemelo_device::{BlockDevice, Operation, Request, Waiting};
use io_uring::{IoUring, opcode, types};
use memmap2::MmapMut;
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The numbers of the entries that wait for the end, and for the ring of the last tag.
const STOP: u64 = u64::MAX;
const LAST: u64 = u64::MAX - 1;

/// Time without any request in which a driver that knows of the end gives its commands back.
const LAST_WAIT: Duration = Duration::from_millis(200);

/// Results by which the kernel ends a command of a queue.
const REQUEST_CAME: i32 = 0;

/// The reason why a queue is not served any more.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The server ends. The kernel keeps further requests for the next one.
    Stopped,
    /// The device was removed.
    Removed,
    /// Nothing may be answered, because another host may have the device's data.
    MayNotAnswer,
    /// The device has panicked.
    Panicked,
    /// The kernel does not take commands.
    Failed(io::Error),
}

/// What all queues of a device share.
pub(crate) struct Side {
    pub(crate) device: Arc<dyn BlockDevice>,
    /// Readable once the queues shall end.
    pub(crate) stop: OwnedFd,
    pub(crate) write_through: bool,
    pub(crate) kept: Kept,
}

/// A queue, as its thread has it.
pub(crate) struct Queue {
    // Dropped first, because their entries name the rest.
    ring: IoUring,
    last: LastTag,
    tags: Tags,
    side: Arc<Side>,
    file: Arc<File>,
    number: u16,
    /// Bits of the codes of commands that the kernel knows.
    code_mask: u32,
    /// Keeps what is not durable, unless every change is.
    log: Option<Log>,
}

/// The tags of a queue.
struct Tags {
    descriptors: Descriptors,
    /// The buffer of each tag, unless its request is being executed.
    buffers: Vec<Option<MmapMut>>,
    /// Tags but the last one with a command that the kernel has.
    in_kernel: usize,
}

/// A request that is being executed.
struct Received {
    tag: u16,
    descriptor: Descriptor,
    buffer: MmapMut,
}

impl Queue {
    /// Opens the queue of this number, of a device with requests of this depth and length.
    pub(crate) fn open(
        side: Arc<Side>,
        file: Arc<File>,
        number: u16,
        (depth, max_request_bytes): (u16, usize),
        code_mask: u32,
    ) -> io::Result<Self> {
        let descriptors = Descriptors::map(&file, number, depth)?;
        let buffer = |_| MmapMut::map_anon(max_request_bytes).map(Some);
        let buffers = (0..depth).map(buffer).collect::<io::Result<_>>()?;
        let tags = Tags { descriptors, buffers, in_kernel: 0 };
        let log = side.kept.log(number)?;
        let (ring, last) = (make_ring(u32::from(depth) * 2)?, LastTag::open()?);
        Ok(Self { ring, last, tags, side, file, number, code_mask, log })
    }

    /// Serves requests until the end, from the time on at which all queues of the device can.
    pub(crate) fn serve(mut self, ticket: Ticket) -> Ended {
        self.serve_until_end(ticket).unwrap_or_else(Ended::Failed)
    }

    fn serve_until_end(&mut self, ticket: Ticket) -> io::Result<Ended> {
        self.push(&readable(&self.side.stop).user_data(STOP))?;
        self.push(&readable(&self.last.notice()).user_data(LAST))?;
        for tag in 0..self.tags.last() {
            self.receive(tag, FETCH, 0)?;
        }
        self.ring.submit()?;
        if !ticket.pass() {
            return Ok(Ended::Stopped);
        }
        self.receive(self.tags.last(), FETCH, 0)?;
        let mut received = Vec::new();
        loop {
            self.wait()?;
            let is_stopped = self.take(&mut received)?;
            if let Err(ended) = self.execute(&mut received)? {
                return Ok(ended);
            }
            if is_stopped {
                return self.give_back(&mut received);
            }
            if self.has_given_back() {
                return Ok(Ended::Removed);
            }
        }
    }

    /// Ends with no request that the kernel has told of, or is about to tell of: it keeps further
    /// ones for the next server.
    fn give_back(&mut self, received: &mut Vec<Received>) -> io::Result<Ended> {
        // What this process has not answered when the ring of the last tag ends, the driver takes
        // back, and an answer that follows would be one to another request.
        self.ring.submit()?;
        self.last.end();
        while !self.has_given_back() && self.wait_briefly()? {
            self.take(received)?;
            if let Err(ended) = self.execute(received)? {
                return Ok(ended);
            }
        }
        Ok(Ended::Stopped)
    }

    /// Returns whether the kernel has no command of the queue any more.
    const fn has_given_back(&self) -> bool {
        self.tags.in_kernel == 0 && !self.last.is_in_kernel()
    }

    /// Waits for [`LAST_WAIT`] at most. Returns whether something has come.
    fn wait_briefly(&mut self) -> io::Result<bool> {
        let until = types::Timespec::from(LAST_WAIT);
        let until = types::SubmitArgs::new().timespec(&until);
        has_come(self.ring.submitter().submit_with_args(1, &until))
    }

    fn wait(&mut self) -> io::Result<()> {
        has_come(self.ring.submit_and_wait(1)).map(|_| ())
    }

    /// Takes the requests that have come. Returns whether the queue shall end.
    fn take(&mut self, received: &mut Vec<Received>) -> io::Result<bool> {
        let (mut is_stopped, mut last_has_told, before) = (false, false, received.len());
        for done in self.ring.completion() {
            match done.user_data() {
                STOP => is_stopped = true,
                LAST => last_has_told = true,
                tag => {
                    self.tags.in_kernel -= 1;
                    let tag = u16::try_from(tag).map_err(|_| strange())?;
                    received.extend(self.tags.take(tag, done.result())?);
                }
            }
        }
        if received.len() > before {
            self.last.look()?;
        }
        if last_has_told {
            if let Some(result) = self.last.take() {
                received.extend(self.tags.take(self.tags.last(), result)?);
            }
            self.push(&readable(&self.last.notice()).user_data(LAST))?;
        }
        Ok(is_stopped)
    }

    /// Executes requests, and answers them with the next wait.
    fn execute(&mut self, received: &mut Vec<Received>) -> io::Result<Result<(), Ended>> {
        if received.is_empty() {
            return Ok(Ok(()));
        }
        let side = Arc::clone(&self.side);
        let executed = AssertUnwindSafe(|| side.execute(received, self.log.as_mut()));
        let Ok(results) = catch_unwind(executed) else {
            return Ok(Err(Ended::Panicked));
        };
        if !side.device.may_answer() {
            return Ok(Err(Ended::MayNotAnswer));
        }
        assert_eq!(results.len(), received.len(), "each request has a result");
        for (Received { tag, buffer, .. }, result) in received.drain(..).zip(results) {
            self.tags.buffers[usize::from(tag)] = Some(buffer);
            self.receive(tag, COMMIT_AND_FETCH, result)?;
        }
        Ok(Ok(()))
    }

    /// Has the kernel use a tag for a request, after the result of the one before it.
    fn receive(&mut self, tag: u16, code: u32, result: i32) -> io::Result<()> {
        let buffer = self.tags.buffers[usize::from(tag)].as_mut();
        let buffer = buffer.map(|buffer| buffer.as_mut_ptr());
        let buffer = buffer.ok_or_else(strange)?.addr() as u64;
        let command = queue_command(self.number, tag, result, buffer);
        let file = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd16::new(file, code & self.code_mask).cmd(command).build();
        let entry = entry.user_data(u64::from(tag));
        if tag == self.tags.last() {
            // SAFETY: as that of `push`.
            return unsafe { self.last.give(&entry) };
        }
        self.push(&entry)?;
        self.tags.in_kernel += 1;
        Ok(())
    }

    fn push(&mut self, entry: &io_uring::squeue::Entry) -> io::Result<()> {
        // SAFETY: the buffer of the entry's tag stays in its place until the kernel has told of the
        // request, because only `Tags::take` removes it. The rings are dropped before the buffers,
        // and the files are open for as long.
        unsafe { self.ring.submission().push(entry) }.map_err(io::Error::other)
    }
}

impl Tags {
    fn last(&self) -> u16 {
        // The depth is one of the driver's, which has 16 bits.
        (self.buffers.len() - 1) as u16
    }

    /// Takes the request of a tag that the kernel has told of, unless the device was removed or its
    /// driver knows that this server ends.
    fn take(&mut self, tag: u16, result: i32) -> io::Result<Option<Received>> {
        match result {
            REQUEST_CAME => {}
            gone if gone == failed(Errno::NODEV) => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error.saturating_neg())),
        }
        let buffer = self.buffers.get_mut(usize::from(tag)).and_then(Option::take);
        let buffer = buffer.ok_or_else(strange)?;
        Ok(Some(Received { tag, descriptor: self.descriptors.read(tag), buffer }))
    }
}

impl Side {
    /// Executes requests, and keeps their changes. Returns their results for the kernel.
    fn execute(&self, received: &mut [Received], log: Option<&mut Log>) -> Vec<i32> {
        let mut results = Vec::with_capacity(received.len());
        let mut batch = Vec::with_capacity(received.len());
        let mut descriptors = Vec::with_capacity(received.len());
        for Received { descriptor, buffer, .. } in received {
            let (result, described) = match operation(descriptor, buffer, self.write_through) {
                Ok(operation) => {
                    batch.push(Request { operation, outcome: Ok(()) });
                    (None, *descriptor)
                }
                Err(error) => (Some(failed(error)), *descriptor),
            };
            results.push(result);
            descriptors.push(described);
        }
        self.run(&mut batch, log);
        let mut outcomes = batch.into_iter().map(|request| request.outcome);
        let result_of = |(refused, descriptor): (Option<i32>, Descriptor)| {
            refused.or_else(|| Some(result(&descriptor, &outcomes.next()?)))
        };
        results.into_iter().zip(descriptors).filter_map(result_of).collect()
    }
}

impl Side {
    /// Executes a batch, and keeps its changes.
    pub(crate) fn run(&self, batch: &mut [Request<'_>], log: Option<&mut Log>) {
        if batch.is_empty() {
            return;
        }
        let number = self.kept.before_flush();
        let left = self.device.submit(batch, Waiting::All);
        assert!(left.is_empty(), "a request that is waited for was left");
        let is_flush = |request: &Request<'_>| {
            matches!(request, Request { operation: Operation::Flush, outcome: Ok(()) })
        };
        if batch.iter().any(is_flush) {
            self.kept.after_flush(number);
        }
        if let Some(log) = log {
            batch.iter_mut().for_each(|request| self.keep(log, request));
        }
    }

    /// Keeps what a request has changed, if it has. One that cannot be kept has failed.
    fn keep(&self, log: &mut Log, request: &mut Request<'_>) {
        if let (Ok(()), Some(change)) = (&request.outcome, Change::of(&request.operation)) {
            request.outcome = log.keep(&self.kept, change, &*self.device);
        }
    }
}

/// Returns whether something may have come after a wait, and not its time alone has passed.
fn has_come(waited: io::Result<usize>) -> io::Result<bool> {
    let Err(error) = waited else { return Ok(true) };
    match Errno::from_io_error(&error) {
        Some(Errno::TIME) => Ok(false),
        Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) => Ok(true),
        _ => Err(error),
    }
}

/// Returns an entry that waits until a notice is readable.
fn readable(notice: &impl AsRawFd) -> io_uring::squeue::Entry {
    let readable = u32::from(PollFlags::IN.bits());
    opcode::PollAdd::new(types::Fd(notice.as_raw_fd()), readable).build()
}

/// The kernel has told of something that cannot be.
fn strange() -> io::Error {
    io::Error::other("the kernel told of a request that it cannot have")
}

/// Makes the ring of a queue. Kernels before 6.1 do not know the flags, which only save work.
fn make_ring(entries: u32) -> io::Result<IoUring> {
    IoUring::builder()
        .setup_coop_taskrun()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries)
        .or_else(|_| IoUring::new(entries))
}
