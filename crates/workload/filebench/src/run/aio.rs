//! Asynchronous reads and writes. A pool of helper threads executes them by plain system calls, as
//! the C library does.

use super::data::write_at;
use super::memory::AlignedBuffer;
use super::signals::{LOOK_INTERVAL, locked};
use crossbeam_channel::{Receiver, Sender, bounded};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Number of helper threads, which is that of the C library for one process.
const HELPERS: usize = 20;
/// Most operations that wait for a helper.
const QUEUE_LENGTH: usize = 1024;
/// Most operations in flight of one thread.
pub(super) const MAX_UNDER_WAY: u64 = 4096;

/// One asynchronous operation.
pub(super) struct Job {
    pub(super) file: Arc<OwnedFd>,
    pub(super) buffer: AlignedBuffer,
    pub(super) offset: u64,
    pub(super) writes: bool,
    pub(super) thread_aio: Arc<ThreadAio>,
}

#[derive(Default)]
struct Counts {
    under_way: u64,
    error: Option<rustix::io::Errno>,
    /// Buffers to reuse.
    spare: Vec<AlignedBuffer>,
}

/// The operations of one thread.
#[derive(Default)]
pub(super) struct ThreadAio {
    counts: Mutex<Counts>,
    finished: Condvar,
}

impl ThreadAio {
    pub(super) fn under_way(&self) -> u64 {
        locked(&self.counts).under_way
    }

    /// Returns the buffer of a finished operation, or an empty one.
    pub(super) fn spare(&self) -> AlignedBuffer {
        locked(&self.counts).spare.pop().unwrap_or_default()
    }

    /// Waits until at most `left` operations are in flight. Returns the error of an operation that
    /// failed.
    pub(super) fn wait(
        &self,
        left: u64,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), rustix::io::Errno> {
        let mut counts = locked(&self.counts);
        while counts.under_way > left && !stopped() {
            let result = self.finished.wait_timeout(counts, LOOK_INTERVAL);
            counts = result.unwrap_or_else(PoisonError::into_inner).0;
        }
        counts.error.take().map_or(Ok(()), Err)
    }

    fn done(&self, buffer: AlignedBuffer, result: Result<(), rustix::io::Errno>) {
        let mut counts = locked(&self.counts);
        counts.under_way -= 1;
        if let Err(error) = result {
            counts.error = Some(error);
        }
        counts.spare.push(buffer);
        self.finished.notify_all();
    }
}

/// The helper threads. They end when the pool and all clones of its sender are dropped.
pub(super) struct AioPool {
    jobs: Sender<Job>,
    helpers: Vec<JoinHandle<()>>,
}

impl AioPool {
    pub(super) fn start() -> std::io::Result<Self> {
        let (jobs, queue) = bounded(QUEUE_LENGTH);
        let mut helpers = Vec::with_capacity(HELPERS);
        for _ in 0..HELPERS {
            let queue = queue.clone();
            let thread = std::thread::Builder::new().name("aio".to_owned());
            match thread.spawn(move || help(&queue)) {
                Ok(helper) => helpers.push(helper),
                // Fewer helpers do the same operations, with fewer at once.
                Err(_) if !helpers.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(Self { jobs, helpers })
    }

    pub(super) fn sender(&self) -> Sender<Job> {
        self.jobs.clone()
    }

    /// Waits for the helpers. All other senders must have been dropped.
    pub(super) fn finish(self) {
        drop(self.jobs);
        for helper in self.helpers {
            // The helpers contain no code that panics.
            let _ = helper.join();
        }
    }
}

/// Sends an operation to the helpers.
pub(super) fn submit(jobs: &Sender<Job>, job: Job) {
    let thread_aio = Arc::clone(&job.thread_aio);
    locked(&thread_aio.counts).under_way += 1;
    if let Err(lost) = jobs.send(job) {
        thread_aio.done(lost.0.buffer, Err(rustix::io::Errno::CANCELED));
    }
}

fn help(queue: &Receiver<Job>) {
    while let Ok(mut job) = queue.recv() {
        let result = if job.writes {
            write_at(&job.file, job.buffer.bytes(), job.offset)
        } else {
            rustix::io::pread(&job.file, job.buffer.bytes_mut(), job.offset).map(|_| ())
        };
        job.thread_aio.done(job.buffer, result);
    }
}
