//! Writes all blocks of all places before a run at the full speed of the target: long writes on all
//! cores.

use crate::contents::Contents;
use crate::environment::Environment;
use crate::history::History;
use crate::job::{Job, Populate};
use crate::result::{OperationFailure, Populated};
use gemelo_base::threads::together;
use gemelo_base::{Monitor, StopFlag, Unit};
use gemelo_target::{
    Engine, Queue, QueueOptions, Target, TargetError, TargetOperation, TargetRequest, Wait,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of one write: long enough to hide the cost of the system call, short enough to stay in the
/// processor's cache.
const CHUNK_BYTES: usize = 256 << 10;

/// The reason why populating ended early.
#[derive(Debug)]
pub(crate) enum Unfinished {
    Stopped,
    Failed(Box<OperationFailure>),
}

/// State shared by all worker threads.
struct PopulateWork<'a> {
    job: &'a Job,
    contents: &'a Contents,
    target: &'a dyn Target,
    history: &'a History,
    monitor: &'a dyn Monitor,
    stop: &'a StopFlag,
    halt: StopFlag,
    chunk_blocks: u64,
    next: AtomicU64,
}

/// Populates the places if the job asks for it; returns `None` if it does not.
pub(crate) fn populate(
    job: &Job,
    contents: &Contents,
    target: &dyn Target,
    history: &History,
    environment: &Environment<'_>,
) -> Result<Option<Populated>, Unfinished> {
    if job.spec().populate == Populate::None {
        return Ok(None);
    }
    let data_bytes = job.spec().file_bytes * u64::from(job.spec().processes);
    let began_ns = environment.clock.now_ns();
    environment.monitor.begin("populating", Unit::Bytes, Some(data_bytes));
    let block_bytes = job.spec().block_bytes;
    let work = PopulateWork {
        job,
        contents,
        target,
        history,
        monitor: environment.monitor,
        stop: environment.stop,
        halt: StopFlag::new(),
        chunk_blocks: (CHUNK_BYTES / block_bytes).max(1) as u64,
        next: AtomicU64::new(0),
    };
    work.run()?;
    let elapsed_ns = environment.clock.now_ns().saturating_sub(began_ns);
    Ok(Some(Populated { data_bytes, elapsed_ns }))
}

impl PopulateWork<'_> {
    fn run(&self) -> Result<(), Unfinished> {
        let workers = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(self.target.max_queues());
        together(workers, || self.work()).into_iter().collect::<Result<(), Unfinished>>()?;
        for process in 0..self.job.spec().processes {
            let mut queue = self.open(process)?;
            self.carry_out(
                process,
                queue.as_mut(),
                TargetRequest { operation: TargetOperation::Sync, offset: 0, bytes: 0 },
            )?;
        }
        Ok(())
    }

    /// Writes chunks, in order over all places, until none is left.
    fn work(&self) -> Result<(), Unfinished> {
        let chunks_each = self.job.place_blocks().div_ceil(self.chunk_blocks);
        let chunks = chunks_each * u64::from(self.job.spec().processes);
        let mut open: Option<(u32, Box<dyn Queue>)> = None;
        loop {
            let chunk = self.next.fetch_add(1, Ordering::Relaxed);
            if chunk >= chunks || self.halt.is_raised() {
                return Ok(());
            }
            if self.stop.is_raised() {
                return Err(Unfinished::Stopped);
            }
            let process = (chunk / chunks_each) as u32;
            if open.as_ref().is_none_or(|(opened, _)| *opened != process) {
                open = Some((process, self.open(process)?));
            }
            if let Some((_, queue)) = &mut open {
                self.write_chunk(process, chunk % chunks_each, queue.as_mut())?;
            }
        }
    }

    fn open(&self, process: u32) -> Result<Box<dyn Queue>, Unfinished> {
        let block_bytes = self.job.spec().block_bytes;
        let options = QueueOptions {
            engine: Engine::Psync,
            depth: 1,
            buffer_bytes: self.chunk_blocks as usize * block_bytes,
        };
        self.target.open(process, &options).map_err(|error| {
            self.halt.raise();
            Unfinished::Failed(Box::new(OperationFailure::of_open(
                process,
                &self.target.place(process),
                &error,
            )))
        })
    }

    fn write_chunk(
        &self,
        process: u32,
        chunk: u64,
        queue: &mut dyn Queue,
    ) -> Result<(), Unfinished> {
        let first = chunk * self.chunk_blocks;
        let blocks = self.chunk_blocks.min(self.job.place_blocks() - first);
        let block_bytes = self.job.spec().block_bytes;
        if self.job.spec().populate == Populate::Content {
            let sequence = self.history.next_sequence(process) + first;
            fill(
                self.contents,
                process,
                sequence,
                &mut queue.buffer(0)[..blocks as usize * block_bytes],
            );
        }
        let bytes = blocks as usize * block_bytes;
        let offset = first * block_bytes as u64;
        self.carry_out(
            process,
            queue,
            TargetRequest { operation: TargetOperation::Write, offset, bytes },
        )?;
        self.monitor.advance(bytes as u64);
        Ok(())
    }

    fn carry_out(
        &self,
        process: u32,
        queue: &mut dyn Queue,
        request: TargetRequest,
    ) -> Result<(), Unfinished> {
        carry_out(queue, request).map_err(|failure| {
            self.halt.raise();
            Unfinished::Failed(Box::new(OperationFailure::of_io(process, &failure)))
        })
    }
}

/// Fills a buffer with the contents of consecutive writes.
pub(crate) fn fill(contents: &Contents, process: u32, first_sequence: u64, blocks: &mut [u8]) {
    let block_bytes = contents.generator.block_bytes();
    for (sequence, block) in (first_sequence..).zip(blocks.chunks_mut(block_bytes)) {
        contents.generator.fill(contents.assignment.content(process, sequence), block);
    }
}

/// Submits one request and waits for its completion.
pub(crate) fn carry_out(
    queue: &mut dyn Queue,
    request: TargetRequest,
) -> Result<(), Box<gemelo_target::IoFailure>> {
    let mut done = Vec::with_capacity(1);
    queue.submit(0, request)?;
    while done.is_empty() {
        queue.reap(Wait::ForOne, &mut done)?;
    }
    done.into_iter().try_for_each(|completion| completion.outcome)
}

impl OperationFailure {
    pub(crate) fn of_memory(
        process: u32,
        place: &str,
        error: &std::collections::TryReserveError,
    ) -> Self {
        Self {
            process,
            place: place.to_owned(),
            operation: "build the table of expected contents for".to_owned(),
            offset_bytes: 0,
            reason: error.to_string(),
        }
    }

    pub(crate) fn of_thread(process: u32, error: &std::io::Error) -> Self {
        Self {
            process,
            place: "this machine".to_owned(),
            operation: "start a thread on".to_owned(),
            offset_bytes: 0,
            reason: format!("{error}: {}", gemelo_base::threads::REFUSED),
        }
    }

    pub(crate) fn of_settling(place: &str, error: &TargetError) -> Self {
        Self { operation: "settle".to_owned(), ..Self::of_open(0, place, error) }
    }

    pub(crate) fn of_open(process: u32, place: &str, error: &TargetError) -> Self {
        let cause =
            std::error::Error::source(error).map_or(String::new(), |source| format!(": {source}"));
        Self {
            process,
            place: place.to_owned(),
            operation: "open".to_owned(),
            offset_bytes: 0,
            reason: format!("{error}{cause}"),
        }
    }
}
