//! Maintenance in the background: commits, checkpoints before the journal is full, the collector,
//! the clearing of volumes that were removed, and the completion of the index.

use super::Engine;
use super::collector::Collector;
use super::worker::POLL_INTERVAL;
use crate::error::Result;
use crate::pool::Tuning;
use gemelo_base::background::{Step, StopSignal};

/// The thread that commits rests so many times as long as the last commit took, unless much has
/// gathered: commits take a fifth of the time of a slow disk at most.
const REST_PER_COMMIT: u64 = 4;

/// An interval that has passed now and then.
struct Interval {
    seen: u64,
    length_ns: u64,
    due_ns: u64,
}

impl Interval {
    fn of_commits(engine: &Engine) -> Self {
        let length_ns = length_of(engine.tuning);
        Self { seen: 0, length_ns, due_ns: engine.clock.now_ns().saturating_add(length_ns) }
    }

    /// Returns whether the interval has passed since the last time that it had.
    fn has_passed(&mut self, engine: &Engine) -> bool {
        let now_ns = engine.clock.now_ns();
        if let Some(tuning) = engine.live.newer_than(&mut self.seen) {
            self.length_ns = length_of(tuning);
            self.due_ns = self.due_ns.min(now_ns.saturating_add(self.length_ns));
        }
        let has_passed = now_ns >= self.due_ns;
        if has_passed {
            self.due_ns = now_ns.saturating_add(self.length_ns);
        }
        has_passed
    }
}

fn length_of(tuning: Tuning) -> u64 {
    u64::try_from(tuning.commit_interval.as_nanos()).unwrap_or(u64::MAX)
}

/// The time until which the thread that commits rests.
#[derive(Default)]
struct Rest {
    until_ns: u64,
}

impl Rest {
    /// Rests after a commit that began and ended at these times.
    fn after(began_ns: u64, ended_ns: u64) -> Self {
        let took_ns = ended_ns.saturating_sub(began_ns);
        Self { until_ns: ended_ns.saturating_add(took_ns.saturating_mul(REST_PER_COMMIT)) }
    }

    const fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.until_ns
    }
}

/// The memory that checkpoints have freed. The allocator keeps many megabytes of it, and to give it
/// back takes its locks for a while, which disturbs nobody when the pool rests.
#[derive(Default)]
struct FreedMemory {
    /// Commits at the last look.
    commits: u64,
    /// Checkpoints when it was given back.
    checkpoints: u64,
}

impl FreedMemory {
    /// Gives it back if there was no commit since the last look, and a checkpoint since the last
    /// time.
    fn look(&mut self, engine: &Engine) {
        let (commits, checkpoints) = engine.log.commits_and_checkpoints();
        if commits == self.commits && checkpoints != self.checkpoints {
            gemelo_base::memory::give_back_freed();
            self.checkpoints = checkpoints;
        }
        self.commits = commits;
    }
}

/// The work of the thread that looks after the pool.
pub(super) fn work(engine: &Engine, stop: &StopSignal) {
    let mut interval = Interval::of_commits(engine);
    let mut collector = Collector::new(engine.tuning.collect_bytes_per_s, engine.clock.now_ns());
    let mut freed = FreedMemory::default();
    let mut seen = 0;
    while !stop.wait_for(POLL_INTERVAL) {
        if let Some(tuning) = engine.live.newer_than(&mut seen) {
            collector.set_rate(tuning.collect_bytes_per_s, engine.clock.now_ns());
        }
        let is_due = interval.has_passed(engine);
        if is_due {
            freed.look(engine);
        }
        // A pool that takes no changes needs none of this.
        if engine.health.check_writable().is_ok() {
            maintain(engine, is_due);
            engine.tasks.collector.turn(|| collector.work(engine).map(Step::more));
        }
    }
}

/// Does what is due. Each task is independent of the others: a full disk keeps nothing else from
/// being done.
fn maintain(engine: &Engine, is_due: bool) {
    let tasks = &engine.tasks;
    if is_due {
        tasks.write_out.turn(|| engine.data.retry_unwritten().map(|()| Step::more(0)));
        tasks.veto.turn(|| engine.log.tell_free_veto().map(|()| Step::more(0)));
        engine.data.free_retired();
    }
    if tasks.checkpoint.is_due() && engine.log.is_checkpoint_due() {
        // The log notes the outcome, because requests write checkpoints as well.
        let _ = engine.log.checkpoint();
    }
}

/// The work of the thread that makes changes durable while others write, also during a checkpoint:
/// at the interval, and when so many have gathered that the next flush would take long.
pub(super) fn commit(engine: &Engine, stop: &StopSignal) {
    let (mut interval, mut rest) = (Interval::of_commits(engine), Rest::default());
    while !stop.wait_for(POLL_INTERVAL) {
        let began_ns = engine.clock.now_ns();
        let is_due = interval.has_passed(engine);
        // What was acknowledged is made durable also if damage keeps the pool from taking more.
        if engine.health.check_running().is_err() {
            continue;
        }
        let is_due = is_due || engine.tasks.commit.is_failing();
        let mut step = || -> Result<Step> {
            let is_wanted = is_due || engine.log.is_commit_long(rest.is_over(began_ns));
            if is_wanted {
                engine.log.flush()?;
                rest = Rest::after(began_ns, engine.clock.now_ns());
            }
            engine.log.mark_if_idle().map(|()| Step::more(u64::from(is_wanted)))
        };
        engine.tasks.commit.turn(&mut step);
    }
}

/// The work of the thread that completes the index of an opened pool.
pub(super) fn catch_up(engine: &Engine, stop: &StopSignal) {
    let complete = || engine.log.complete_index(&|| stop.is_raised()).map(|()| Step::more(1));
    // Until then, what the index does not lead to is not found as a duplicate.
    while engine.health.check_writable().is_ok() && engine.tasks.index.turn(complete).is_none() {
        if stop.wait_for(POLL_INTERVAL) {
            return;
        }
    }
}

/// The work of the thread that clears volumes. It takes as long as the volumes are large, and
/// nothing else waits for it.
pub(super) fn clear(engine: &Engine, stop: &StopSignal) {
    let (mut interval, mut has_left, mut is_due) = (Interval::of_commits(engine), true, true);
    loop {
        // Volumes whose removal found no room are tried again at the interval.
        is_due |= engine.catalogue.take_new_hidden() || interval.has_passed(engine);
        if is_due && engine.health.check_writable().is_ok() {
            let clear = || match has_left {
                true => engine.volumes.clearer.clear_left(&|| stop.is_raised()),
                false => engine.volumes.clearer.clear_hidden(&|| stop.is_raised()),
            };
            let cleared = engine.tasks.removal.turn(|| clear().map(|()| Step::more(1)));
            has_left &= cleared.is_none();
            is_due = cleared.is_none();
        }
        if stop.wait_for(POLL_INTERVAL) {
            break;
        }
    }
    if engine.catalogue.take_new_hidden() || is_due {
        // Removals just before the end of a short command are not left to the next opening.
        let _ = engine.volumes.clearer.clear_hidden(&|| false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_followed_by_a_rest_of_four_times_its_length() {
        assert!(Rest::default().is_over(0));
        let rest = Rest::after(100, 110);
        assert!(!rest.is_over(149));
        assert!(rest.is_over(150));
        assert!(!Rest::after(0, u64::MAX).is_over(u64::MAX - 1));
    }
}
