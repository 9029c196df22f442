//! Starts the threads of a plan, waits, reads their figures, and stops them.

use super::aio::AioPool;
use super::cells::{Cells, Figures};
use super::error::RunError;
use super::fileset::Fileset;
use super::result::{FlowopResult, Interval};
use super::shared::{End, Seat, Shared, Signals};
use super::signals::{EventGenerator, Gate, LOOK_INTERVAL, Semaphore, locked};
use super::worker::Worker;
use super::{Console, Options};
use crate::flowop::Kind;
use crate::model::{Flowop, Plan, ThreadSpec};
use crate::script::MOST_FDS;
use gemelo_base::random::mix_pair;
use gemelo_base::{Clock, StopFlag, SystemClock};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Enough for the deepest composite; there can be thousands of threads.
const STACK_BYTES: usize = 512 << 10;

/// Memory of all threads together that is touched before a run, so that page faults do not count as file operations.
/// Beyond it memory comes when it is used: a script may ask for more than there is.
const MOST_TOUCHED_BYTES: u64 = 4 << 30;

/// A flowop by name, with the cells of all threads that have it.
struct Master {
    name: String,
    kind: Kind,
    cells: Vec<(Arc<Cells>, usize)>,
    /// Figures when the period began.
    before: Figures,
}

/// Threads under way.
pub(super) struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    masters: Vec<Master>,
    aio: Option<AioPool>,
    period_began_ns: u64,
    pub(super) thread_count: u64,
}

/// What starting needs besides the plan.
pub(super) struct Stage {
    pub(super) filesets: Arc<Vec<Fileset>>,
    pub(super) console: Arc<dyn Console>,
    pub(super) options: Options,
    pub(super) stop: StopFlag,
    /// File handles that may be open at once.
    pub(super) handle_limit: u64,
}

/// The threads of a plan, with their own cells.
fn seats(plan: &Plan) -> Vec<Seat> {
    let mut seats = Vec::new();
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
                seats.push(Seat {
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
    seats
}

fn each_flowop(flowops: &[Flowop], act: &mut dyn FnMut(&Flowop)) {
    for flowop in flowops {
        act(flowop);
        each_flowop(&flowop.body, act);
    }
}

impl Running {
    /// Starts all threads; they begin at the same moment.
    pub(super) fn start(plan: &Arc<Plan>, stage: &Stage) -> Result<Self, RunError> {
        let seats = seats(plan);
        let mut has_aio = false;
        plan.processes.iter().flat_map(|process| &process.threads).for_each(|thread| {
            each_flowop(&thread.flowops, &mut |flowop| {
                has_aio |= matches!(flowop.kind, Kind::AioRead | Kind::AioWrite);
            });
        });
        let aio = if has_aio { Some(AioPool::start().map_err(RunError::Thread)?) } else { None };
        let clock = SystemClock::new();
        let seed = mix_pair(stage.options.seed, 0x6576_656e_7473);
        let events = plan.event_rate.clone().filter(|rate| rate.mean() > 0.0);
        let threads = seats.len().max(1) as u64;
        let shared = Arc::new(Shared {
            plan: Arc::clone(plan),
            filesets: Arc::clone(&stage.filesets),
            signals: signals(plan, &seats),
            events: events.map(|rate| EventGenerator::new(rate, clock.now_ns(), seed)),
            clock,
            console: Arc::clone(&stage.console),
            options: stage.options.clone(),
            aio: aio.as_ref().map(AioPool::sender),
            rotating: (stage.handle_limit / threads / 2).clamp(1, MOST_FDS) as usize,
            touched: (MOST_TOUCHED_BYTES / threads) as usize,
            period: AtomicU32::new(0),
            go: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            interrupted: stage.stop.clone(),
            running: AtomicUsize::new(seats.len()),
            end: Mutex::new(None),
            ended: Condvar::new(),
        });
        let mut running = Self {
            threads: Vec::with_capacity(seats.len()),
            masters: masters(plan, &seats),
            aio,
            period_began_ns: 0,
            thread_count: seats.len() as u64,
            shared,
        };
        running.spawn(plan, seats)?;
        running.period_began_ns = clock.now_ns();
        running.shared.go.store(true, Ordering::Release);
        Ok(running)
    }

    fn spawn(&mut self, plan: &Plan, seats: Vec<Seat>) -> Result<(), RunError> {
        let specs: Vec<Vec<Arc<ThreadSpec>>> = plan
            .processes
            .iter()
            .map(|process| process.threads.iter().cloned().map(Arc::new).collect())
            .collect();
        let mut counters = std::collections::HashMap::new();
        for seat in seats {
            let spec = Arc::clone(&specs[seat.process][seat.thread]);
            let nice = plan.processes[seat.process].nice;
            let mut worker = Worker::new(Arc::clone(&self.shared), seat, Arc::clone(&spec));
            connect(&mut worker, &spec, &mut counters);
            let builder =
                std::thread::Builder::new().name(spec.name.clone()).stack_size(STACK_BYTES);
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
                    return Err(RunError::Thread(error));
                }
            }
        }
        Ok(())
    }

    /// Waits until a time has passed (`None`: no limit), the run has ended, or somebody asks to stop. Says whether the
    /// time has passed.
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

    /// The figures since the period began.
    pub(super) fn snapshot(&self) -> Interval {
        let elapsed_ns = self.shared.clock.now_ns().saturating_sub(self.period_began_ns);
        let period = self.shared.period.load(Ordering::Relaxed);
        let flowops = self.masters.iter().map(|master| {
            let figures = master.figures(period).since(&master.before);
            FlowopResult::new(&master.name, master.kind, &figures, elapsed_ns)
        });
        Interval::new(flowops.collect(), elapsed_ns, self.thread_count)
    }

    /// Begins a new period.
    pub(super) fn clear(&mut self) {
        let period = self.shared.period.load(Ordering::Relaxed);
        for master in &mut self.masters {
            master.before = master.figures(period);
        }
        self.shared.period.store(period.wrapping_add(1), Ordering::Relaxed);
        self.period_began_ns = self.shared.clock.now_ns();
    }

    /// Stops all threads and says why the run ended early, if it did.
    pub(super) fn stop(self) -> Option<End> {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            // What a thread has to say is in `end`.
            let _ = thread.join();
        }
        let end = locked(&self.shared.end).take();
        drop(self.shared);
        drop(self.masters);
        if let Some(aio) = self.aio {
            aio.finish();
        }
        end
    }
}

impl Master {
    fn figures(&self, period: u32) -> Figures {
        let mut figures = Figures::default();
        for (cells, cell) in &self.cells {
            cells.add_to(*cell, period, &mut figures);
        }
        figures
    }
}

/// The flowops of all threads by name, in the order of the script.
fn masters(plan: &Plan, seats: &[Seat]) -> Vec<Master> {
    let mut masters: Vec<Master> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for seat in seats {
        let cells = &plan.processes[seat.process].threads[seat.thread].cells;
        for (cell, (name, kind)) in cells.iter().enumerate() {
            let place = *places.entry((name, *kind)).or_insert_with(|| {
                masters.push(Master {
                    name: name.clone(),
                    kind: *kind,
                    cells: Vec::new(),
                    before: Figures::default(),
                });
                masters.len() - 1
            });
            masters[place].cells.push((Arc::clone(&seat.cells), cell));
        }
    }
    masters
}

/// A semaphore for each semblock and a gate for each block of every thread.
fn signals(plan: &Plan, seats: &[Seat]) -> Signals {
    let mut signals = Signals::default();
    for seat in seats {
        let thread = &plan.processes[seat.process].threads[seat.thread];
        each_flowop(&thread.flowops, &mut |flowop| match flowop.kind {
            Kind::SemBlock => {
                let semaphore = Arc::new(Semaphore::new(flowop.high_water));
                signals.semaphores.entry(flowop.name.clone()).or_default().push(semaphore);
            }
            Kind::Block => {
                signals
                    .gates
                    .entry(flowop.name.clone())
                    .or_default()
                    .push(Arc::new(Gate::default()));
            }
            _ => {}
        });
    }
    signals
}

/// Gives a thread its own signals and those that it acts on. `counters` say how many of each name have been given out.
fn connect(
    worker: &mut Worker,
    spec: &ThreadSpec,
    counters: &mut std::collections::HashMap<(bool, String), usize>,
) {
    let shared = Arc::clone(&worker.shared);
    let mut next = |is_gate: bool, name: &str| {
        let count = counters.entry((is_gate, name.to_owned())).or_insert(0);
        *count += 1;
        *count - 1
    };
    each_flowop(&spec.flowops, &mut |flowop| {
        let all_semaphores =
            |name: &str| shared.signals.semaphores.get(name).cloned().unwrap_or_default();
        let all_gates = |name: &str| shared.signals.gates.get(name).cloned().unwrap_or_default();
        match flowop.kind {
            Kind::SemBlock => {
                let own = next(false, &flowop.name);
                worker.semaphores[flowop.cell] =
                    all_semaphores(&flowop.name).get(own).cloned().into_iter().collect();
            }
            Kind::Block => {
                let own = next(true, &flowop.name);
                worker.gates[flowop.cell] =
                    all_gates(&flowop.name).get(own).cloned().into_iter().collect();
            }
            Kind::SemPost => worker.semaphores[flowop.cell] = all_semaphores(&flowop.target),
            Kind::Wakeup => worker.gates[flowop.cell] = all_gates(&flowop.target),
            _ => {}
        }
    });
}
