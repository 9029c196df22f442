//! Runs a replay: populates the target, starts the processes, distributes the trace, and collects
//! the measurements.

use crate::batch::Lane;
use crate::contents::ReplayContents;
use crate::dispatch::{DispatchCounts, Dispatcher};
use crate::error::ReplayError;
use crate::options::{ReplayOptions, Speed};
use crate::plan::ReplayPlan;
use crate::populate::{Holds, populate};
use crate::result::{Lateness, ReplayResult, ReplayStats, ReplayVerification};
use crate::shared::Shared;
use crate::worker::{Worker, WorkerOutcome};
use crossbeam_channel::{bounded, unbounded};
use gemelo_base::live::TotalProgress;
use gemelo_base::{StopFlag, Unit};
use gemelo_load::{Environment, LATE_NS, PredictedBlocks, StartBarrier, Stored};
use gemelo_target::{PoolStats, QueueOptions, Target};
use gemelo_trace::RecordSource;

/// Most bytes of one operation. Longer requests become several operations.
pub(crate) const MAX_OPERATION_BYTES: u64 = 1 << 20;

/// Batches on the way to each process: enough that a process does not wait for the reader, few
/// enough to bound memory.
const BATCHES: usize = 8;

/// Replays a trace. `source` reads it for the second time.
///
/// A failure during the replay does not lose earlier measurements; the result contains both.
///
/// # Errors
/// If the replay cannot begin, or the second reading of the trace fails.
pub fn replay(
    source: &mut impl RecordSource,
    plan: &ReplayPlan,
    contents: &ReplayContents,
    target: &dyn Target,
    options: &ReplayOptions,
    environment: &Environment<'_>,
) -> Result<ReplayResult, ReplayError> {
    if options.verify && !target.holds_data() {
        return Err(ReplayError::NothingToVerify);
    }
    if options.processes as usize > target.max_queues() {
        return Err(ReplayError::OneQueue);
    }
    let operation_blocks = plan.longest_blocks.min(MAX_OPERATION_BYTES / plan.block_bytes()).max(1);
    let queue = QueueOptions {
        engine: options.engine,
        depth: options.queue_depth,
        buffer_bytes: (operation_blocks * plan.block_bytes()) as usize,
    };
    let pool_before = target.pool_figures();
    let began_ns = environment.clock.now_ns();
    let populated = populate(plan, contents, target, &queue, environment)?;
    let populate_ns = environment.clock.now_ns() - began_ns;
    let halt = StopFlag::new();
    let shared = Shared {
        plan,
        contents,
        environment,
        halt: &halt,
        options,
        queue,
        progress: TotalProgress::default(),
        counts_contents: pool_before.is_some(),
    };
    let mut ran = carry_out(&shared, target, source, (populated, operation_blocks))?;
    ran.0.populate_ns = populate_ns;
    if pool_before.is_some()
        && !environment.stop.is_raised()
        && let Err(error) = target.settle(environment.monitor, environment.stop)
    {
        ran.0.failure.get_or_insert(error.to_string());
    }
    ran.0.stored = pool_before.zip(target.pool_figures()).map(|(before, after)| {
        let predicted = ran.1.and_then(|blocks| in_pool_blocks(blocks, plan.block_bytes(), &after));
        Stored { before, after, predicted }
    });
    Ok(ran.0)
}

/// Starts the processes, all or none, and distributes the trace to them.
fn carry_out(
    shared: &Shared<'_>,
    target: &dyn Target,
    source: &mut impl RecordSource,
    (populated, operation_blocks): (Holds, u64),
) -> Result<(ReplayResult, Option<PredictedBlocks>), ReplayError> {
    let (plan, environment) = (shared.plan, shared.environment);
    let processes = shared.options.processes;
    let (start, starter) = StartBarrier::new();
    std::thread::scope(|scope| {
        let (outcomes, finished) = unbounded();
        let mut lanes = Vec::with_capacity(processes as usize);
        for number in 0..processes {
            let ((send, batches), (emptied, empty)) = (bounded(BATCHES), bounded(BATCHES + 2));
            let (outcomes, start) = (outcomes.clone(), &start);
            let body = move || {
                let opened = target.open(0, &shared.queue);
                start.together();
                let outcome = match opened {
                    Ok(queue) => Worker::run(shared, queue, (&batches, &emptied)),
                    Err(error) => {
                        shared.halt.raise();
                        WorkerOutcome::of_failure(error.to_string())
                    }
                };
                // The receiver lives until every process has reported, so sending cannot fail.
                let _ = outcomes.send(outcome);
            };
            // On failure the starter is dropped, and the lanes are: the processes that did start
            // end without an operation.
            std::thread::Builder::new()
                .spawn_scoped(scope, body)
                .map_err(|source| ReplayError::Thread { number, processes, source })?;
            lanes.push(Lane { send, empty });
        }
        drop(outcomes);
        starter.wait_for(processes);
        start.open(starter, environment.clock);
        // Other hosts may still populate their targets.
        environment.start.wait();
        environment.monitor.begin("replaying", Unit::Items, Some(plan.records));
        let handed = Dispatcher::new(shared, lanes, populated, operation_blocks).run(source);
        let workers: Vec<WorkerOutcome> = finished.iter().collect();
        environment.monitor.finish();
        handed.map(|handed| (gather(shared, workers, handed), handed.predicted))
    })
}

/// Converts blocks of the trace to blocks of the pool. Returns `None` if the trace's block is not a
/// multiple of the pool's.
fn in_pool_blocks(
    blocks: PredictedBlocks,
    block_bytes: u64,
    pool: &PoolStats,
) -> Option<PredictedBlocks> {
    let per_block = block_bytes.checked_div(pool.block_bytes)?;
    (per_block > 0 && block_bytes.is_multiple_of(pool.block_bytes)).then(|| PredictedBlocks {
        logical_blocks: blocks.logical_blocks * per_block,
        distinct_blocks: blocks.distinct_blocks * per_block,
    })
}

fn gather(
    shared: &Shared<'_>,
    workers: Vec<WorkerOutcome>,
    handed: DispatchCounts,
) -> ReplayResult {
    let mut all = WorkerOutcome::default();
    for worker in workers {
        all.add(worker);
    }
    let figures = |side: crate::worker::Side| {
        let response_ns = side.response.to_histogram();
        ReplayStats {
            operations: side.response.count(),
            data_bytes: side.data_bytes,
            service_ns: side.service.to_histogram(),
            response_summary: response_ns.summary(),
            response_ns,
        }
    };
    let is_paced = shared.options.speed != Speed::Unlimited;
    let by_ns = all.late.to_histogram();
    let duration_ns = all.ended_ns.saturating_sub(handed.origin_ns);
    ReplayResult {
        records: handed.records,
        duration_ns,
        reads: figures(all.reads),
        writes: figures(all.writes),
        seconds: all.seconds.finish(duration_ns),
        flushes: all.flushes,
        trims: all.trims,
        populated_blocks: shared.plan.populated_blocks(),
        populate_ns: 0,
        generating_ns: all.generating_ns,
        lateness: is_paced.then(|| Lateness {
            late: all.late.count(),
            late_after_ns: LATE_NS,
            summary: by_ns.summary(),
            by_ns,
        }),
        stored: None,
        verification: ReplayVerification {
            checked: all.checked,
            wrong: all.wrong,
            contradictions: handed.contradictions,
            mismatches: all.mismatches,
        },
        is_complete: handed.is_complete && all.failure.is_none(),
        failure: all.failure,
    }
}
