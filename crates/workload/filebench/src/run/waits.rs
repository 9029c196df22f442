//! Flowops that use no file: waiting, rates, signals between threads, finishers, and tests of
//! random variables.

use super::cells::Totals;
use super::worker::{Done, Flow, Worker};
use crate::flowop::Kind;
use crate::model::Flowop;
use gemelo_base::Clock;
use std::sync::Arc;

/// Bytes of one event of bwlimit.
const EVENT_BYTES: i64 = 1 << 20;
/// Longest sleep before the stop flag is checked.
const LONGEST_SLEEP_NS: u64 = 20_000_000;
/// Steps of hog between two checks of the stop flag.
const HOG_STEPS: u64 = 1 << 20;

impl Worker {
    pub(super) fn delay(&mut self, flowop: &Flowop) -> Done {
        let begin_ns = self.clock.now_ns();
        let wait_ns = (flowop.value.next_real(&mut self.random).max(0.0) * 1e9) as u64;
        let end_ns = begin_ns.saturating_add(wait_ns);
        while self.clock.now_ns() < end_ns && !self.shared.is_stopped() {
            let next_ns = self.clock.now_ns().saturating_add(LONGEST_SLEEP_NS);
            self.clock.sleep_until_ns(end_ns.min(next_ns));
        }
        self.ended(flowop, begin_ns, 0);
        Ok(Flow::Continue)
    }

    /// Writes to memory `value` times.
    pub(super) fn hog(&mut self, flowop: &Flowop) -> Done {
        let begin_ns = self.clock.now_ns();
        let mut left = flowop.value.next(&mut self.random);
        let mut place = 0u8;
        while left > 0 && !self.shared.is_stopped() {
            let steps = left.min(HOG_STEPS);
            for _ in 0..steps {
                *std::hint::black_box(&mut place) = 1;
            }
            left -= steps;
        }
        self.ended(flowop, begin_ns, 0);
        Ok(Flow::Continue)
    }

    pub(super) fn block(&mut self, flowop: &Flowop) -> Done {
        let begin_ns = self.clock.now_ns();
        let shared = Arc::clone(&self.shared);
        for condition in self.signals.conditions(flowop.cell) {
            condition.wait(&|| shared.is_stopped());
        }
        self.ended(flowop, begin_ns, 0);
        Ok(Flow::Continue)
    }

    pub(super) fn wake_up(&mut self, flowop: &Flowop) -> Done {
        let begin_ns = self.clock.now_ns();
        for condition in self.signals.conditions(flowop.cell) {
            condition.signal();
        }
        self.ended(flowop, begin_ns, 0);
        Ok(Flow::Continue)
    }

    fn signal_value(&mut self, flowop: &Flowop) -> i64 {
        i64::try_from(flowop.value.next(&mut self.random)).unwrap_or(i64::MAX)
    }

    pub(super) fn sem_block(&mut self, flowop: &Flowop) -> Done {
        let value = self.signal_value(flowop);
        let begin_ns = self.clock.now_ns();
        let shared = Arc::clone(&self.shared);
        for semaphore in self.signals.semaphores(flowop.cell) {
            semaphore.take(value, &|| shared.is_stopped());
        }
        self.ended(flowop, begin_ns, 0);
        Ok(Flow::Continue)
    }

    pub(super) fn sem_post(&mut self, flowop: &Flowop) -> Done {
        let value = self.signal_value(flowop);
        let begin_ns = self.clock.now_ns();
        let shared = Arc::clone(&self.shared);
        for semaphore in self.signals.semaphores(flowop.cell) {
            semaphore.post(value, flowop.blocking, &|| shared.is_stopped());
        }
        self.ended(flowop, begin_ns, 0);
        Ok(Flow::Continue)
    }

    pub(super) fn event_limit(&mut self, flowop: &Flowop) -> Done {
        let shared = Arc::clone(&self.shared);
        if let Some(events) = &shared.events {
            let begin_ns = self.clock.now_ns();
            events.take(1, &self.clock, &|| shared.is_stopped());
            self.ended(flowop, begin_ns, 0);
        }
        Ok(Flow::Continue)
    }

    /// Returns the totals of the target so far, or those of the whole process if there is no
    /// target.
    fn target_totals(&self, flowop: &Flowop) -> Totals {
        let mut sum = Totals::default();
        let mut add = |totals: Totals| {
            sum.count += totals.count;
            sum.bytes += totals.bytes;
            sum.transfers += totals.transfers;
        };
        if flowop.target_cells.is_empty() {
            self.identity.siblings.iter().for_each(|cells| add(cells.io_totals()));
        } else {
            flowop.target_cells.iter().for_each(|cell| add(self.identity.cells.totals_of(*cell)));
        }
        sum
    }

    /// Takes an event for every operation, transfer or MiB of the target since the last call.
    pub(super) fn limit(&mut self, flowop: &Flowop) -> Done {
        let shared = Arc::clone(&self.shared);
        let Some(events) = &shared.events else { return Ok(Flow::Continue) };
        let totals = self.target_totals(flowop);
        let now = match flowop.kind {
            Kind::BwLimit => totals.bytes,
            Kind::IopsLimit => totals.transfers,
            _ => totals.count,
        };
        let limit = self.state.limit_mut(flowop.cell);
        let first = limit.last == 0;
        let done = i64::try_from(now.saturating_sub(limit.last)).unwrap_or(i64::MAX);
        limit.last = now;
        if first {
            return Ok(Flow::Continue);
        }
        limit.credit = limit.credit.saturating_sub(done);
        let owed = limit.credit.saturating_neg();
        let begin_ns = self.clock.now_ns();
        if owed > 0 {
            let unit = if flowop.kind == Kind::BwLimit { EVENT_BYTES } else { 1 };
            let count = if flowop.kind == Kind::BwLimit { owed / EVENT_BYTES + 1 } else { owed };
            events.take(count as u64, &self.clock, &|| shared.is_stopped());
            self.state.limit_mut(flowop.cell).credit += count * unit;
        }
        self.ended(flowop, begin_ns, 0);
        Ok(Flow::Continue)
    }

    /// Ends the thread when the target has done enough.
    pub(super) fn finish(&mut self, flowop: &Flowop) -> Done {
        let begin_ns = self.clock.now_ns();
        let totals = self.target_totals(flowop);
        let wanted = flowop.value.next(&mut self.random);
        let enough = match flowop.kind {
            Kind::FinishOnCount => totals.count >= wanted,
            _ => totals.bytes >= wanted,
        };
        self.ended(flowop, begin_ns, 0);
        Ok(if enough { Flow::Finished } else { Flow::Continue })
    }

    pub(super) fn test_random_variable(&mut self, flowop: &Flowop) -> Done {
        let begin_ns = self.clock.now_ns();
        let value = flowop.value.next_real(&mut self.random);
        self.state.add_value(flowop.cell, value);
        self.ended(flowop, begin_ns, 0);
        Ok(Flow::Continue)
    }

    pub(super) fn print(&mut self, flowop: &Flowop) -> Done {
        let begin_ns = self.clock.now_ns();
        let process = &self.shared.plan.processes[self.identity.process].name;
        self.shared.console.line(&format!(
            "Message from process ({process},{}), thread ({},{}): {}",
            self.identity.process_instance,
            self.spec.name,
            self.identity.thread_instance,
            flowop.message
        ));
        self.ended(flowop, begin_ns, 0);
        Ok(Flow::Continue)
    }
}
