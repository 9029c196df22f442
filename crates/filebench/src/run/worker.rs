//! One thread of a workload, which executes its flowops in turn until the run ends.

use super::aio::ThreadAio;
use super::cells::Ended;
use super::error::WorkloadError;
use super::shared::{End, Shared, ThreadIdentity};
use super::signals::{Gate, Semaphore};
use crate::flowop::{Direction, Kind};
use crate::model::{Flowop, HandleSlot, ThreadSpec};
use crate::script::syntax::QuitMode;
use crate::sources::DataStream;
use gemelo_base::random::{Random, mix_pair};
use gemelo_base::{Clock, SystemClock};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Alignment of the memory for operations, as O_DIRECT requires it.
pub(super) const ALIGNMENT: usize = 4096;

/// Bytes of directory entries that are read at a time.
const LISTING_BYTES: usize = 32 << 10;

/// The continuation after a flowop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    /// No file was available.
    OutOfFiles,
    /// A finisher reached its goal.
    Finished,
}

pub(super) type Done = Result<Flow, WorkloadError>;

/// An open file of a thread.
pub(super) struct OpenFile {
    pub(super) handle: OwnedFd,
    /// Handle for asynchronous operations, which may outlive the thread's own handle.
    pub(super) aio_handle: Option<Arc<OwnedFd>>,
    /// Offset of the next sequential operation; `None` stands for the end of the file.
    pub(super) position: Option<u64>,
}

/// A handle for an open file, as named by `fd=`.
#[derive(Default)]
pub(super) struct Handle {
    pub(super) open: Option<OpenFile>,
    /// Fileset and number of the file that is open, or was last open, here.
    pub(super) file: Option<(usize, usize)>,
}

/// The state of a limit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limit {
    pub(super) last: u64,
    pub(super) credit: i64,
}

/// The sums of `testrandvar`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    pub(super) count: u64,
    pub(super) sum: f64,
    pub(super) squares: f64,
}

pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) identity: ThreadIdentity,
    pub(super) spec: Arc<ThreadSpec>,
    pub(super) random: Random,
    pub(super) handles: Vec<Handle>,
    pub(super) rotor: usize,
    /// Number at which `opennext` continues in each fileset.
    pub(super) file_rotors: Vec<AtomicU32>,
    pub(super) memory: Vec<u8>,
    /// Data streams by fileset, created at their first use.
    pub(super) streams: Vec<Option<Box<dyn DataStream>>>,
    pub(super) limits: Vec<Limit>,
    pub(super) moments: Vec<Moments>,
    pub(super) thread_aio: Arc<ThreadAio>,
    /// Semaphores and gates by cell: the thread's own, and those of its targets.
    pub(super) semaphores: Vec<Vec<Arc<Semaphore>>>,
    pub(super) gates: Vec<Vec<Arc<Gate>>>,
    /// Buffer for the entries of a directory that is being listed.
    pub(super) listing: Vec<u8>,
    pub(super) clock: SystemClock,
    /// Time spent making data for the current operation.
    pub(super) generate_ns: u64,
}

/// Allocates memory. The kernel provides the first `touched` bytes at once and the rest at its
/// first use.
fn zeros(bytes: usize, touched: usize) -> Vec<u8> {
    let mut memory = vec![0; bytes];
    for page in memory.chunks_mut(ALIGNMENT).take(touched / ALIGNMENT) {
        // The compiler must not see the value, because it knows that the memory is zero and would
        // omit the write.
        page[0] = std::hint::black_box(0);
    }
    memory
}

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        identity: ThreadIdentity,
        spec: Arc<ThreadSpec>,
    ) -> Self {
        let cells = spec.cells.len();
        let filesets = shared.filesets.len();
        let memory_bytes = usize::try_from(spec.memory_bytes).unwrap_or(usize::MAX / 2);
        Self {
            random: Random::new(mix_pair(shared.options.seed, u64::from(identity.number) + 1)),
            handles: (0..spec.slots.max(shared.rotating)).map(|_| Handle::default()).collect(),
            rotor: 0,
            file_rotors: (0..filesets).map(|_| AtomicU32::new(0)).collect(),
            memory: zeros(
                if memory_bytes == 0 { 0 } else { memory_bytes.saturating_add(ALIGNMENT) },
                shared.touched,
            ),
            streams: (0..filesets).map(|_| None).collect(),
            limits: vec![Limit::default(); cells],
            moments: vec![Moments::default(); cells],
            thread_aio: Arc::new(ThreadAio::default()),
            semaphores: vec![Vec::new(); cells],
            gates: vec![Vec::new(); cells],
            listing: Vec::with_capacity(LISTING_BYTES),
            clock: shared.clock,
            generate_ns: 0,
            shared,
            identity,
            spec,
        }
    }

    /// Works until the run ends.
    pub(super) fn run(mut self) {
        while !self.shared.go.load(Ordering::Acquire) && !self.shared.is_stopped() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let spec = Arc::clone(&self.spec);
        let mut last = "";
        let result = loop {
            if self.shared.is_stopped() {
                break Ok(Flow::Continue);
            }
            match self.take_turns(&spec.flowops, &mut last) {
                Ok(Flow::Continue) => {}
                ended => break ended,
            }
        };
        let stopped = || self.shared.interrupted.is_raised();
        let result = result.and_then(|flow| {
            let finished = self.thread_aio.wait(0, &stopped);
            finished.map(|()| flow).map_err(|error| {
                self.failure(last, "finish an asynchronous operation", Some(error))
            })
        });
        self.say_moments();
        self.close_all();
        self.report(result, last);
        self.shared.thread_ended();
    }

    /// Executes each flowop once, with its number of repetitions.
    pub(super) fn take_turns<'a>(&mut self, flowops: &'a [Flowop], last: &mut &'a str) -> Done {
        for flowop in flowops {
            let iters = flowop.iters.next(&mut self.random);
            for _ in 0..iters {
                if self.shared.is_stopped() {
                    return Ok(Flow::Continue);
                }
                *last = &flowop.name;
                let flow = if flowop.kind == Kind::Composite {
                    self.composite(flowop, last)?
                } else {
                    self.perform(flowop)?
                };
                if flow != Flow::Continue {
                    return Ok(flow);
                }
            }
        }
        Ok(Flow::Continue)
    }

    fn composite<'a>(&mut self, flowop: &'a Flowop, last: &mut &'a str) -> Done {
        let begin_ns = self.clock.now_ns();
        let flow = self.take_turns(&flowop.body, last)?;
        self.ended(flowop, begin_ns, 0);
        Ok(flow)
    }

    fn perform(&mut self, flowop: &Flowop) -> Done {
        self.generate_ns = 0;
        match flowop.kind {
            Kind::Read => self.read(flowop),
            Kind::Write => self.write(flowop),
            Kind::ReadWholeFile => self.read_whole_file(flowop),
            Kind::WriteWholeFile => self.write_whole_file(flowop),
            Kind::AppendFile => self.append(flowop, false),
            Kind::AppendFileRand => self.append(flowop, true),
            Kind::AioRead | Kind::AioWrite => self.start_aio(flowop),
            Kind::AioWait => self.wait_for_aio(flowop),
            Kind::CreateFile => self.create_file(flowop),
            Kind::OpenFile => self.open_file(flowop),
            Kind::CloseFile => self.close_file(flowop),
            Kind::DeleteFile => self.delete_file(flowop),
            Kind::StatFile => self.stat_file(flowop),
            Kind::CopyFile => self.copy_file(flowop),
            Kind::Fsync => self.fsync(flowop),
            Kind::FsyncSet => self.fsync_set(flowop),
            Kind::MakeDir => self.make_dir(flowop),
            Kind::RemoveDir => self.remove_dir(flowop),
            Kind::ListDir => self.list_dir(flowop),
            Kind::Delay => self.delay(flowop),
            Kind::Hog => self.hog(flowop),
            Kind::Block => self.block(flowop),
            Kind::Wakeup => self.wake_up(flowop),
            Kind::SemBlock => self.sem_block(flowop),
            Kind::SemPost => self.sem_post(flowop),
            Kind::EventLimit => self.event_limit(flowop),
            Kind::BwLimit | Kind::IopsLimit | Kind::OpsLimit => self.limit(flowop),
            Kind::FinishOnCount | Kind::FinishOnBytes => self.finish(flowop),
            Kind::TestRandVar => self.test_random_variable(flowop),
            Kind::Print => self.print(flowop),
            Kind::Composite => Ok(Flow::Continue),
        }
    }

    /// Counts an operation that began at `begin_ns` and has just ended.
    #[inline]
    pub(super) fn ended(&mut self, flowop: &Flowop, begin_ns: u64, bytes: u64) {
        let elapsed_ns =
            self.clock.now_ns().saturating_sub(begin_ns).saturating_sub(self.generate_ns);
        let ended = Ended {
            cell: flowop.cell,
            elapsed_ns,
            generate_ns: self.generate_ns,
            bytes,
            is_io: flowop.kind.is_io(),
            is_transfer: flowop.kind.direction() != Direction::Neither,
        };
        self.identity.cells.record(&ended, self.shared.period.load(Ordering::Relaxed));
    }

    /// Returns the file handle of the flowop.
    #[inline]
    pub(super) fn slot(&mut self, flowop: &Flowop) -> usize {
        match flowop.slot {
            HandleSlot::Fixed(slot) => slot,
            HandleSlot::Rotating => {
                if self.rotor == 0 {
                    self.rotor = self.shared.rotating;
                }
                self.rotor -= 1;
                self.rotor
            }
        }
    }

    /// Returns a random multiple of `step` such that one step fits below `max`. All multiples are
    /// equally likely.
    #[inline]
    pub(super) fn random_place(&mut self, max: u64, step: u64) -> u64 {
        self.random.below((max / step.max(1)).max(1)) * step
    }

    /// Returns the offset in the thread's memory for an operation of `size` bytes.
    pub(super) fn place_in_memory(&mut self, size: usize, direct: bool) -> usize {
        let align = |memory: &[u8]| memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT - 1);
        if self.memory.len() < size + 2 * ALIGNMENT {
            self.memory = vec![0; size + 2 * ALIGNMENT];
        }
        let start = align(&self.memory);
        if self.spec.memory_bytes == 0 || size == 0 {
            return start;
        }
        let room = self.memory.len() - start;
        let place = self.random_place(room as u64, size as u64) as usize;
        let place = if direct { place / ALIGNMENT * ALIGNMENT } else { place };
        if start + place + size <= self.memory.len() { start + place } else { start }
    }

    /// Fills memory with data of the fileset's data source. Without a source the memory is left as
    /// it is.
    pub(super) fn generate(&mut self, fileset: usize, start: usize, size: usize) {
        let Some(source) =
            self.shared.filesets.get(fileset).and_then(|fileset| fileset.source.as_ref())
        else {
            return;
        };
        let begin_ns = self.clock.now_ns();
        let stream =
            self.streams[fileset].get_or_insert_with(|| source.stream(self.identity.number));
        stream.fill(&mut self.memory[start..start + size]);
        self.generate_ns += self.clock.now_ns() - begin_ns;
    }

    pub(super) fn failure(
        &self,
        flowop: &str,
        what: &str,
        error: Option<rustix::io::Errno>,
    ) -> WorkloadError {
        let process = &self.shared.plan.processes[self.identity.process];
        WorkloadError::Flowop {
            process: process.name.clone(),
            thread: self.spec.name.clone(),
            flowop: flowop.to_owned(),
            what: what.to_owned(),
            source: error.map(Into::into),
        }
    }

    fn close_all(&mut self) {
        for handle in &mut self.handles {
            if handle.open.take().is_some()
                && let Some((fileset, file)) = handle.file
            {
                self.shared.filesets[fileset].files.closed(file);
            }
        }
    }

    fn say_moments(&self) {
        for (cell, moments) in self.spec.cells.iter().zip(&self.moments) {
            if moments.count > 0 {
                let mean = moments.sum / moments.count as f64;
                let deviation =
                    (moments.squares / moments.count as f64 - mean * mean).max(0.0).sqrt();
                self.shared.console.line(&format!(
                    "testrandvar {}: ops = {}, mean = {mean:8.2}, stddev = {:8.2}",
                    cell.0,
                    moments.count,
                    deviation / mean
                ));
            }
        }
    }

    /// Reports the end of this thread to the run.
    fn report(&self, result: Done, last: &str) {
        let mode = self.shared.plan.quit_mode;
        match result {
            Ok(Flow::Continue) => {}
            Ok(Flow::Finished | Flow::OutOfFiles) if mode == QuitMode::AllDone => {}
            Ok(Flow::OutOfFiles) if mode == QuitMode::Timeout => {
                self.shared.end(End::OutOfFiles(last.to_owned()));
            }
            Ok(Flow::Finished | Flow::OutOfFiles) => self.shared.end(End::Finished),
            Err(error) => self.shared.end(End::Failed(error)),
        }
    }
}
