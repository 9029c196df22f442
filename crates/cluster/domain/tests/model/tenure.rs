//! The right to serve a member in a model checker: take-overs, hand-overs, leases and fences of
//! two and three processes, of which some are cut off from the store and go on.
//!
//! The model runs [`gemelo_domain::Tenure`] itself, call by call. It adds the store, the time, and
//! what a process does with its tenure: it asks for the object of its disk, writes to it, and
//! answers clients. Each rule can be left out (`Weakness`), and the checker must then find a broken
//! promise.

mod process;
mod script;
mod steps;
mod store;

use process::{Process, Stage};
use stateright::{Checker, HasDiscoveries, Model, Property};
use store::{Message, Store};

/// A rule that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weakness {
    /// The last holder is not fenced.
    NoFence,
    /// The record of the holder is replaced whatever it is.
    NoRecordGuard,
    /// The object of the disk is not asked for after the fence.
    NoSettle,
    /// The disk is read before the last holder is fenced.
    ReadFirst,
    /// A process that sent a write and got no answer writes again.
    WriteAfterUnknown,
    /// Such a process hands the member over.
    HandOverUnknown,
    /// A process answers without a look at its lease.
    NoLease,
    /// A process looks at its lease before it executes a request, and not after it.
    CheckFirst,
    /// The lease is counted from the answer of the store, and not from the request.
    CountFromAnswer,
    /// A process answers while it hands the member over.
    AnswerAfterHandOver,
}

/// Limits of the number of events, so that there are finitely many states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Steps of the clock that a lease lasts.
    lease: u8,
    ticks: u8,
    /// Writes of all processes.
    writes: u8,
    /// Renewals of all leases.
    renewals: u8,
    hand_overs: u8,
    /// Calls that a process gives up, although it is not cut off.
    faults: u8,
    /// Processes that are cut off while they serve: what they send arrives later or never.
    cuts: u8,
}

/// The model: its size, and the rule that it lacks.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    processes: usize,
    budget: Budget,
    weakness: Option<Weakness>,
}

/// The store, the calls on their way, and the processes that want to serve the member.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    store: Store,
    /// In order.
    network: Vec<Message>,
    processes: Vec<Process>,
    budget: Budget,
    now: u8,
    /// Values that were written, which are numbered.
    values: u8,
    /// The highest epoch of a process that has served.
    served: u64,
    /// `true` once a process answered what it executed after another one had served.
    has_late_answer: bool,
}

const ALONE: &str = "nothing is answered that was executed after another process served";
const OWN_DISK: &str = "no write of another process takes effect under the one that serves";
const PASSED_ON: &str = "the member is served by one process after another";

impl Hosts {
    fn lacks(&self, weakness: Weakness) -> bool {
        self.weakness == Some(weakness)
    }
}

impl State {
    fn new(hosts: &Hosts) -> Self {
        Self {
            store: Store::default(),
            network: Vec::new(),
            processes: vec![Process::default(); hosts.processes],
            budget: hosts.budget,
            now: 0,
            values: 0,
            served: 0,
            has_late_answer: false,
        }
    }

    /// The disk of the process that serves is as that process has read and written it.
    fn disk_is_as_known(&self) -> bool {
        let found = self.store.disk;
        let is_known = |it: &Process| it.disk == found || it.write == Some(found);
        let serves = |process: &&Process| {
            process.stage == Stage::Serving && !process.has_ended && process.epoch() == self.served
        };
        self.processes.iter().filter(serves).all(is_known)
    }
}

fn properties() -> Vec<Property<Hosts>> {
    vec![
        Property::always(ALONE, |_, state: &State| !state.has_late_answer),
        Property::always(OWN_DISK, |_, state: &State| state.disk_is_as_known()),
        Property::sometimes(PASSED_ON, |hosts: &Hosts, state: &State| {
            state.served == hosts.processes as u64
        }),
    ]
}

fn holds(processes: usize, budget: Budget) {
    let hosts = Hosts { processes, budget, weakness: None };
    let checker = hosts.checker().threads(2).spawn_dfs().join();
    eprintln!("{processes} processes: {} states", checker.unique_state_count());
    checker.assert_properties();
}

fn is_missed(weakness: Weakness, processes: usize, budget: Budget) {
    let hosts = Hosts { processes, budget, weakness: Some(weakness) };
    let checker =
        hosts.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found = checker.discoveries();
    assert!(
        [ALONE, OWN_DISK].iter().any(|it| found.contains_key(it)),
        "nothing misses {weakness:?}"
    );
}

#[test]
fn two_processes_keep_the_promises_over_a_split_of_the_network() {
    holds(2, Budget { renewals: 1, hand_overs: 1, cuts: 1, ..SERVED });
}

#[test]
fn two_processes_keep_the_promises_over_a_lost_call() {
    holds(2, Budget { hand_overs: 1, faults: 1, ..SERVED });
}

#[test]
fn three_processes_keep_the_promises() {
    holds(3, Budget { ticks: 2, writes: 1, hand_overs: 1, cuts: 1, ..QUIET });
}

const QUIET: Budget =
    Budget { lease: 1, ticks: 1, writes: 0, renewals: 0, hand_overs: 0, faults: 0, cuts: 0 };
const SERVED: Budget = Budget { lease: 2, ticks: 3, writes: 1, ..QUIET };
const CUT: Budget = Budget { writes: 1, cuts: 1, ..QUIET };

#[test]
fn the_last_holder_is_fenced() {
    is_missed(Weakness::NoFence, 2, CUT);
}

#[test]
fn the_record_of_the_holder_is_guarded() {
    is_missed(Weakness::NoRecordGuard, 3, Budget { ticks: 2, writes: 1, ..QUIET });
}

#[test]
fn the_object_of_the_disk_is_asked_for_after_the_fence() {
    is_missed(Weakness::NoSettle, 2, CUT);
}

#[test]
fn the_disk_is_read_after_the_fence() {
    is_missed(Weakness::ReadFirst, 2, CUT);
}

#[test]
fn nothing_is_written_after_a_write_of_unknown_fate() {
    is_missed(Weakness::WriteAfterUnknown, 1, Budget { writes: 2, faults: 1, ..QUIET });
}

#[test]
fn a_write_of_unknown_fate_forbids_the_hand_over() {
    is_missed(Weakness::HandOverUnknown, 2, Budget { writes: 1, faults: 1, ..QUIET });
}

#[test]
fn the_lease_is_looked_at() {
    is_missed(Weakness::NoLease, 2, QUIET);
}

#[test]
fn the_lease_is_looked_at_after_a_request() {
    is_missed(Weakness::CheckFirst, 2, QUIET);
}

#[test]
fn the_lease_is_counted_from_its_request() {
    is_missed(Weakness::CountFromAnswer, 2, QUIET);
}

#[test]
fn a_process_that_hands_over_answers_no_more() {
    is_missed(Weakness::AnswerAfterHandOver, 2, Budget { hand_overs: 1, ..QUIET });
}
