//! Starts the threads of a plan, waits for them, reads their figures, and stops them.

use super::aio::AioPool;
use super::cells::{Cells, Stats};
use super::error::WorkloadError;
use super::fileset::Fileset;
use super::options::{Console, Options};
use super::result::{FlowopResult, WorkloadInterval};
use super::seconds::SoFar;
use super::shared::{End, Shared, ThreadIdentity};
use super::signals::{EventGenerator, LOOK_INTERVAL, locked};
use super::thread_signals::Signals;
use super::worker::Worker;
use crate::flowop::Kind;
use crate::model::{ThreadSpec, WorkloadPlan, each_flowop};
use crate::script::MAX_FDS;
use gemelo_base::random::mix_pair;
use gemelo_base::{Clock, StopFlag, SystemClock};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Stack of each thread, enough for the deepest composite. It is small because there can be
/// thousands of threads.
const STACK_BYTES: usize = 512 << 10;

/// Most memory of all threads together that is touched before a run, so that its page faults do not
/// count as latency. Memory beyond this is provided at its first use, as a script may ask for more
/// than the machine has.
const MAX_TOUCHED_BYTES: u64 = 4 << 30;

/// A flowop by name, with its cells in all threads.
struct FlowopCells {
    name: String,
    kind: Kind,
    cells: Vec<(Arc<Cells>, usize)>,
    /// Stats at the start of the period.
    before: Stats,
}

/// The threads of a run.
pub(super) struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    flowop_cells: Vec<FlowopCells>,
    aio: Option<AioPool>,
    period_began_ns: u64,
    pub(super) thread_count: u64,
}

/// The inputs of a start besides the plan.
pub(super) struct StartInputs {
    pub(super) filesets: Arc<Vec<Fileset>>,
    pub(super) console: Arc<dyn Console>,
    pub(super) options: Options,
    pub(super) stop: StopFlag,
    /// Most file handles that may be open at once.
    pub(super) handle_limit: u64,
}

/// Creates an entry with its own cells for each thread of a plan.
fn thread_identities(plan: &WorkloadPlan) -> Vec<ThreadIdentity> {
    let mut identities = Vec::new();
    let mut number = 0;
    for (process, spec) in plan.processes.iter().enumerate() {
        for process_instance in 1..=spec.instances {
            let mut own = Vec::new();
            for (thread, spec) in spec.threads.iter().enumerate() {
                for thread_instance in 1..=spec.instances {
                    own.push((thread, thread_instance, Arc::new(Cells::new(spec.cells.len()))));
                }
            }
            let siblings =
                Arc::new(own.iter().map(|(_, _, cells)| Arc::clone(cells)).collect::<Vec<_>>());
            for (thread, thread_instance, cells) in own {
                let siblings = Arc::clone(&siblings);
                identities.push(ThreadIdentity {
                    process,
                    thread,
                    process_instance,
                    thread_instance,
                    number,
                    cells,
                    siblings,
                });
                number += 1;
            }
        }
    }
    identities
}

impl Running {
    /// Starts all threads. They begin to work at the same moment.
    pub(super) fn start(
        plan: &Arc<WorkloadPlan>,
        stage: &StartInputs,
    ) -> Result<Self, WorkloadError> {
        let identities = thread_identities(plan);
        let mut has_aio = false;
        plan.processes.iter().flat_map(|process| &process.threads).for_each(|thread| {
            each_flowop(&thread.flowops, &mut |flowop| {
                has_aio |= matches!(flowop.kind, Kind::AioRead | Kind::AioWrite);
            });
        });
        let aio =
            if has_aio { Some(AioPool::start().map_err(WorkloadError::Thread)?) } else { None };
        let clock = SystemClock::new();
        let seed = mix_pair(stage.options.seed, 0x6576_656e_7473);
        let events = plan.event_rate.clone().filter(|rate| rate.mean() > 0.0);
        let threads = identities.len().max(1) as u64;
        let shared = Arc::new(Shared {
            plan: Arc::clone(plan),
            filesets: Arc::clone(&stage.filesets),
            events: events.map(|rate| EventGenerator::new(rate, clock.now_ns(), seed)),
            clock,
            console: Arc::clone(&stage.console),
            options: stage.options.clone(),
            aio: aio.as_ref().map(AioPool::sender),
            rotating: (stage.handle_limit / threads / 2).clamp(1, MAX_FDS) as usize,
            touched: (MAX_TOUCHED_BYTES / threads) as usize,
            period: AtomicU32::new(0),
            go: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            interrupted: stage.stop.clone(),
            running: AtomicUsize::new(identities.len()),
            end: Mutex::new(None),
            ended: Condvar::new(),
        });
        let mut running = Self {
            threads: Vec::with_capacity(identities.len()),
            flowop_cells: flowop_cells(plan, &identities),
            aio,
            period_began_ns: 0,
            thread_count: identities.len() as u64,
            shared,
        };
        running.spawn(plan, identities)?;
        running.period_began_ns = clock.now_ns();
        running.shared.go.store(true, Ordering::Release);
        Ok(running)
    }

    fn spawn(
        &mut self,
        plan: &WorkloadPlan,
        identities: Vec<ThreadIdentity>,
    ) -> Result<(), WorkloadError> {
        let specs: Vec<Vec<Arc<ThreadSpec>>> = plan
            .processes
            .iter()
            .map(|process| process.threads.iter().cloned().map(Arc::new).collect())
            .collect();
        let mut signals = Signals::new(plan, &identities);
        for identity in identities {
            let spec = Arc::clone(&specs[identity.process][identity.thread]);
            let nice = plan.processes[identity.process].nice;
            let own = signals.assign(&spec.flowops, spec.cells.len());
            let worker = Worker::new(Arc::clone(&self.shared), identity, Arc::clone(&spec), own);
            // A name of a thread has no NUL; one would be a panic.
            let name = spec.name.replace('\0', "");
            let builder = std::thread::Builder::new().name(name).stack_size(STACK_BYTES);
            let console = Arc::clone(&self.shared.console);
            let spawned = builder.spawn(move || {
                if nice != 0
                    && let Err(error) = rustix::process::setpriority_process(None, nice as i32)
                {
                    console.line(&format!("cannot set nice to {nice}: {error}"));
                }
                worker.run();
            });
            match spawned {
                Ok(thread) => self.threads.push(thread),
                Err(error) => {
                    self.shared.stop.store(true, Ordering::SeqCst);
                    self.threads.drain(..).for_each(|thread| drop(thread.join()));
                    return Err(WorkloadError::Thread(error));
                }
            }
        }
        Ok(())
    }

    /// Waits until the time has passed, the run has ended, or the stop flag is raised. `None` sets
    /// no time. Returns whether the time has passed.
    pub(super) fn wait(&self, seconds: Option<f64>) -> bool {
        let clock = self.shared.clock;
        let deadline_ns =
            seconds.map(|seconds| clock.now_ns().saturating_add((seconds * 1e9) as u64));
        let mut end = locked(&self.shared.end);
        loop {
            let over = end.is_some() || self.shared.running.load(Ordering::SeqCst) == 0;
            if over || self.shared.interrupted.is_raised() {
                return false;
            }
            let left_ns = deadline_ns.map(|deadline_ns| deadline_ns.saturating_sub(clock.now_ns()));
            if left_ns == Some(0) {
                return true;
            }
            let wait = left_ns.map_or(LOOK_INTERVAL, |left_ns| {
                LOOK_INTERVAL.min(std::time::Duration::from_nanos(left_ns))
            });
            let result = self.shared.ended.wait_timeout(end, wait);
            end = result.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns the figures since the period began.
    pub(super) fn snapshot(&self) -> WorkloadInterval {
        let elapsed_ns = self.shared.clock.now_ns().saturating_sub(self.period_began_ns);
        let period = self.shared.period.load(Ordering::Relaxed);
        let flowops = self.flowop_cells.iter().map(|flowop| {
            let figures = flowop.figures(period).since(&flowop.before);
            FlowopResult::new(&flowop.name, flowop.kind, &figures, elapsed_ns)
        });
        WorkloadInterval::new(flowops.collect(), elapsed_ns, self.thread_count)
    }

    /// Returns the operations on files so far.
    pub(super) fn so_far(&self) -> SoFar {
        let period = self.shared.period.load(Ordering::Relaxed);
        let mut so_far = SoFar::default();
        for flowop in self.flowop_cells.iter().filter(|flowop| flowop.kind.is_io()) {
            let figures = flowop.figures(period);
            so_far.operations += figures.count;
            so_far.data_bytes += figures.bytes;
            so_far.latency_ns += figures.total_ns;
        }
        so_far
    }

    /// Begins a new period.
    pub(super) fn clear(&mut self) {
        let period = self.shared.period.load(Ordering::Relaxed);
        for flowop in &mut self.flowop_cells {
            flowop.before = flowop.figures(period);
        }
        self.shared.period.store(period.wrapping_add(1), Ordering::Relaxed);
        self.period_began_ns = self.shared.clock.now_ns();
    }

    /// Stops all threads. Returns the reason if the run ended early.
    pub(super) fn stop(self) -> Option<End> {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            // A thread reports its outcome in `end`. A panic is a bug, and continues here.
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        let end = locked(&self.shared.end).take();
        drop(self.shared);
        drop(self.flowop_cells);
        if let Some(aio) = self.aio {
            aio.finish();
        }
        end
    }
}

impl FlowopCells {
    fn figures(&self, period: u32) -> Stats {
        let mut figures = Stats::default();
        for (cells, cell) in &self.cells {
            cells.add_to(*cell, period, &mut figures);
        }
        figures
    }
}

/// Collects the flowops of all threads by name, in the order of the script.
fn flowop_cells(plan: &WorkloadPlan, identities: &[ThreadIdentity]) -> Vec<FlowopCells> {
    let mut flowop_cells: Vec<FlowopCells> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for identity in identities {
        let cells = &plan.processes[identity.process].threads[identity.thread].cells;
        for (cell, (name, kind)) in cells.iter().enumerate() {
            let place = *places.entry((name, *kind)).or_insert_with(|| {
                flowop_cells.push(FlowopCells {
                    name: name.clone(),
                    kind: *kind,
                    cells: Vec::new(),
                    before: Stats::default(),
                });
                flowop_cells.len() - 1
            });
            flowop_cells[place].cells.push((Arc::clone(&identity.cells), cell));
        }
    }
    flowop_cells
}
