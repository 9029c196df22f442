//! One thread of a workload, which executes its flowops in turn until the run ends.

use super::aio::ThreadAio;
use super::cells::Ended;
use super::error::WorkloadError;
use super::flowop_state::FlowopState;
use super::handles::Handles;
use super::memory::ThreadMemory;
use super::shared::{End, Shared, ThreadIdentity};
use super::thread_signals::ThreadSignals;
use crate::flowop::{Direction, Kind};
use crate::model::{Flowop, ThreadSpec};
use crate::script::syntax::QuitMode;
use gemelo_base::random::{Random, mix_pair};
use gemelo_base::{Clock, SystemClock};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

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

pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) identity: ThreadIdentity,
    pub(super) spec: Arc<ThreadSpec>,
    pub(super) random: Random,
    pub(super) handles: Handles,
    pub(super) memory: ThreadMemory,
    pub(super) state: FlowopState,
    pub(super) signals: ThreadSignals,
    pub(super) thread_aio: Arc<ThreadAio>,
    /// Buffer for the entries of a directory that is being listed.
    pub(super) listing: Vec<u8>,
    pub(super) clock: SystemClock,
}

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        identity: ThreadIdentity,
        spec: Arc<ThreadSpec>,
        signals: ThreadSignals,
    ) -> Self {
        let filesets = shared.filesets.len();
        Self {
            random: Random::new(mix_pair(shared.options.seed, u64::from(identity.number) + 1)),
            handles: Handles::new(spec.slots, shared.rotating, filesets),
            memory: ThreadMemory::new(spec.memory_bytes, shared.touched, filesets),
            state: FlowopState::new(spec.cells.len()),
            signals,
            thread_aio: Arc::new(ThreadAio::default()),
            listing: Vec::with_capacity(LISTING_BYTES),
            clock: shared.clock,
            shared,
            identity,
            spec,
        }
    }

    /// Works until the run ends.
    pub(super) fn run(mut self) {
        while !self.shared.go.load(Ordering::Acquire) && !self.shared.is_stopped() {
            gemelo_base::pause(Duration::from_micros(200));
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
        self.memory.begin_operation();
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
        let generate_ns = self.memory.generate_ns();
        let elapsed_ns = self.clock.now_ns().saturating_sub(begin_ns).saturating_sub(generate_ns);
        let ended = Ended {
            cell: flowop.cell,
            elapsed_ns,
            generate_ns,
            bytes,
            is_io: flowop.kind.is_io(),
            is_transfer: flowop.kind.direction() != Direction::Neither,
        };
        self.identity.cells.record(&ended, self.shared.period.load(Ordering::Relaxed));
    }

    /// Returns the number of the flowop's file handle.
    #[inline]
    pub(super) fn slot(&mut self, flowop: &Flowop) -> usize {
        self.handles.slot(flowop.slot)
    }

    /// Returns the offset in the thread's memory for an operation of `size` bytes.
    pub(super) fn place_in_memory(&mut self, size: usize) -> usize {
        self.memory.place(size, &mut self.random)
    }

    /// Fills memory with data of the fileset's data source. Without a source the memory is left as
    /// it is.
    pub(super) fn generate(&mut self, fileset: usize, start: usize, size: usize) {
        let Some(source) =
            self.shared.filesets.get(fileset).and_then(|fileset| fileset.source.as_ref())
        else {
            return;
        };
        let (part, source) = ((start, size), (fileset, source.as_ref()));
        self.memory.generate(part, source, self.identity.number, &self.clock);
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
        for slot in 0..self.handles.len() {
            self.close_slot(slot);
        }
    }

    fn say_moments(&self) {
        for line in self.state.moment_lines(|cell| &self.spec.cells[cell].0) {
            self.shared.console.line(&line);
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
