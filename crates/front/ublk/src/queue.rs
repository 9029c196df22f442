//! A queue of a device and its thread.
//!
//! The thread waits for requests, executes all that have come as one batch, and answers them with
//! the next wait, in one system call. The kernel copies the data of a write to the buffer of its
//! tag before it tells of the request, and that of a read from there when it is answered, each time
//! in the context of this thread. So nothing changes a buffer while the device works with it.

use crate::abi::{COMMIT_AND_FETCH, Descriptor, FETCH, queue_command};
use crate::kept::{Change, Kept, Log};
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

/// The number of the entry that waits for the end.
const STOP: u64 = u64::MAX;

/// Time in which nothing more comes after the last answers, and most such waits.
const LAST_WAIT: Duration = Duration::from_millis(20);
const MAX_LAST_WAITS: usize = 50;

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
    // Dropped first, because its entries name the rest.
    ring: IoUring,
    side: Arc<Side>,
    file: Arc<File>,
    number: u16,
    depth: u16,
    descriptors: Descriptors,
    /// The buffer of each tag, unless its request is being executed.
    buffers: Vec<Option<MmapMut>>,
    /// Bits of the codes of commands that the kernel knows.
    code_mask: u32,
    /// Tags with a command that the kernel has.
    in_kernel: usize,
    /// Keeps what is not durable, unless every change is.
    log: Option<Log>,
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
        let log = side.kept.log(number)?;
        let ring = make_ring(u32::from(depth) * 2)?;
        Ok(Self {
            ring,
            side,
            file,
            number,
            depth,
            descriptors,
            buffers,
            code_mask,
            in_kernel: 0,
            log,
        })
    }

    /// Serves requests until the end.
    pub(crate) fn serve(mut self) -> Ended {
        self.serve_until_end().unwrap_or_else(Ended::Failed)
    }

    fn serve_until_end(&mut self) -> io::Result<Ended> {
        let stop = types::Fd(self.side.stop.as_raw_fd());
        let poll = opcode::PollAdd::new(stop, u32::from(PollFlags::IN.bits())).build();
        self.push(&poll.user_data(STOP))?;
        for tag in 0..self.depth {
            self.receive(tag, FETCH, 0)?;
        }
        let mut received = Vec::new();
        loop {
            self.wait()?;
            let is_stopped = self.take(&mut received)?;
            if let Err(ended) = self.execute(&mut received)? {
                return Ok(ended);
            }
            if is_stopped {
                self.let_go()?;
                return Ok(Ended::Stopped);
            }
            if self.in_kernel == 0 {
                return Ok(Ended::Removed);
            }
        }
    }

    /// Sends the last answers, and receives what comes then without answering it, until nothing
    /// comes any more. The kernel keeps such requests for the next server. Those of which it is
    /// about to tell when the ring goes would be lost in some kernels, and the disk would hang.
    fn let_go(&mut self) -> io::Result<()> {
        let pause = types::Timespec::from(LAST_WAIT);
        let until = types::SubmitArgs::new().timespec(&pause);
        self.ring.submit()?;
        for _ in 0..MAX_LAST_WAITS {
            let waited = self.ring.submitter().submit_with_args(1, &until);
            if self.ring.completion().count() == 0 {
                break;
            }
            if let Err(error) = waited
                && !matches!(Errno::from_io_error(&error), Some(Errno::TIME | Errno::INTR))
            {
                return Err(error);
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Takes the requests that have come. Returns whether the queue shall end.
    fn take(&mut self, received: &mut Vec<Received>) -> io::Result<bool> {
        let mut is_stopped = false;
        for done in self.ring.completion() {
            if done.user_data() == STOP {
                is_stopped = true;
                continue;
            }
            self.in_kernel -= 1;
            match done.result() {
                REQUEST_CAME => {}
                // The device was removed.
                gone if gone == failed(Errno::NODEV) => continue,
                error => return Err(io::Error::from_raw_os_error(error.saturating_neg())),
            }
            let tag = u16::try_from(done.user_data()).map_err(|_| strange())?;
            let buffer = self.buffers.get_mut(usize::from(tag)).and_then(Option::take);
            let buffer = buffer.ok_or_else(strange)?;
            received.push(Received { tag, descriptor: self.descriptors.read(tag), buffer });
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
            self.buffers[usize::from(tag)] = Some(buffer);
            self.receive(tag, COMMIT_AND_FETCH, result)?;
        }
        Ok(Ok(()))
    }

    /// Has the kernel use a tag for a request, after the result of the one before it.
    fn receive(&mut self, tag: u16, code: u32, result: i32) -> io::Result<()> {
        let buffer = self.buffers[usize::from(tag)].as_mut().map(|buffer| buffer.as_mut_ptr());
        let buffer = buffer.ok_or_else(strange)?.addr() as u64;
        let command = queue_command(self.number, tag, result, buffer);
        let file = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd16::new(file, code & self.code_mask).cmd(command).build();
        self.push(&entry.user_data(u64::from(tag)))?;
        self.in_kernel += 1;
        Ok(())
    }

    fn push(&mut self, entry: &io_uring::squeue::Entry) -> io::Result<()> {
        // SAFETY: the buffer of the entry's tag stays in its place until the kernel has told of the
        // request, because only `take` removes it. The ring is dropped before the buffers, and the
        // files are open for as long.
        unsafe { self.ring.submission().push(entry) }.map_err(io::Error::other)
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
