//! The semaphores and wakeup conditions of a run, and those of one thread among them.

use super::shared::ThreadIdentity;
use super::signals::{Semaphore, WakeupCondition};
use crate::flowop::Kind;
use crate::model::{Flowop, WorkloadPlan, each_flowop};
use std::collections::HashMap;
use std::sync::Arc;

type Semaphores = Vec<Arc<Semaphore>>;
type Conditions = Vec<Arc<WakeupCondition>>;

/// The signals of all threads, by the name of their flowop.
#[derive(Default)]
pub(super) struct Signals {
    semaphores: HashMap<String, Semaphores>,
    conditions: HashMap<String, Conditions>,
    /// Number of signals of each name that were assigned to threads so far.
    assigned: HashMap<(Kind, String), usize>,
}

/// The signals of one thread by cell: its own, and those of its targets.
pub(super) struct ThreadSignals {
    semaphores: Vec<Semaphores>,
    conditions: Vec<Conditions>,
}

impl Signals {
    /// Creates a semaphore for each semblock and a condition for each block of every thread.
    pub(super) fn new(plan: &WorkloadPlan, identities: &[ThreadIdentity]) -> Self {
        let mut signals = Self::default();
        for identity in identities {
            let thread = &plan.processes[identity.process].threads[identity.thread];
            each_flowop(&thread.flowops, &mut |flowop| match flowop.kind {
                Kind::SemBlock => {
                    let semaphore = Arc::new(Semaphore::new(flowop.high_water));
                    signals.semaphores.entry(flowop.name.clone()).or_default().push(semaphore);
                }
                Kind::Block => {
                    let condition = Arc::new(WakeupCondition::default());
                    signals.conditions.entry(flowop.name.clone()).or_default().push(condition);
                }
                _ => {}
            });
        }
        signals
    }

    /// Assigns a thread its own signals and those of its targets.
    pub(super) fn assign(&mut self, flowops: &[Flowop], cells: usize) -> ThreadSignals {
        let mut thread = ThreadSignals {
            semaphores: vec![Vec::new(); cells],
            conditions: vec![Vec::new(); cells],
        };
        each_flowop(flowops, &mut |flowop| {
            let semaphores = |name: &str| self.semaphores.get(name).cloned().unwrap_or_default();
            let conditions = |name: &str| self.conditions.get(name).cloned().unwrap_or_default();
            match flowop.kind {
                Kind::SemBlock => {
                    let all = semaphores(&flowop.name);
                    thread.semaphores[flowop.cell] = own(all, self.next(flowop));
                }
                Kind::Block => {
                    let all = conditions(&flowop.name);
                    thread.conditions[flowop.cell] = own(all, self.next(flowop));
                }
                Kind::SemPost => thread.semaphores[flowop.cell] = semaphores(&flowop.target),
                Kind::Wakeup => thread.conditions[flowop.cell] = conditions(&flowop.target),
                _ => {}
            }
        });
        thread
    }

    /// Returns the number of the next unassigned signal of the flowop's kind and name.
    fn next(&mut self, flowop: &Flowop) -> usize {
        let count = self.assigned.entry((flowop.kind, flowop.name.clone())).or_insert(0);
        *count += 1;
        *count - 1
    }
}

fn own<T>(all: Vec<Arc<T>>, number: usize) -> Vec<Arc<T>> {
    all.into_iter().nth(number).into_iter().collect()
}

impl ThreadSignals {
    pub(super) fn semaphores(&self, cell: usize) -> &[Arc<Semaphore>] {
        &self.semaphores[cell]
    }

    pub(super) fn conditions(&self, cell: usize) -> &[Arc<WakeupCondition>] {
        &self.conditions[cell]
    }
}
