//! The time of a simulation: which client runs, and when calls arrive at the store.

use super::call::CallAnswer;
use super::client::Client;
use super::faults::{Fate, Faults};
use super::files::Directory;
use super::store::{Message, Store};
use crate::{Instance, Locks, Result};
use gemelo_base::Clock;
use gemelo_base::random::Random;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A simulated store, its time, and the state of its clients.
#[derive(Debug, Clone)]
pub struct World {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
}

/// A call on its way; calls arrive in the order of time, and of their numbers.
type Ticket = u64;

#[derive(Debug)]
struct State {
    now_ns: u64,
    random: Random,
    faults: Faults,
    store: Store,
    /// Which world over its directory it is; 0 in memory.
    number: u64,
    next_ticket: Ticket,
    on_the_way: BTreeMap<(u64, Ticket), Message>,
    answers: BTreeMap<Ticket, Result<CallAnswer>>,
    clients: BTreeMap<Instance, Condition>,
    /// The clients that have a thread in [`World::run`], and when each goes on.
    wakes: BTreeMap<Instance, u64>,
    /// Wakes the thread of a client, and no other: a step of a simulation is a few microseconds.
    turns: BTreeMap<Instance, Arc<Condvar>>,
    running: Option<Instance>,
}

/// The state of one client.
#[derive(Debug)]
struct Condition {
    /// The first client of the same thread, by which the thread is known.
    thread: Instance,
    dies_at_ns: Option<u64>,
    cut_off_ns: Range<u64>,
    stopped_ns: Range<u64>,
    /// The newest list of fences that the client knows.
    epoch: u64,
}

impl World {
    /// Creates an empty store. Equal seeds give equal runs.
    #[must_use]
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self::with_store(seed, faults, Store::new(), 0)
    }

    /// Creates a store whose objects are files of a directory, with those that it has. Other
    /// worlds over the directory must be gone. Locks and fences do not outlive a world.
    ///
    /// # Errors
    /// Fails if the files cannot be read or created.
    pub fn in_directory(seed: u64, faults: Faults, path: &Path) -> io::Result<Self> {
        let (directory, number) = Directory::open(path)?;
        Ok(Self::with_store(seed, faults, Store::in_directory(&directory)?, number))
    }

    fn with_store(seed: u64, faults: Faults, store: Store, number: u64) -> Self {
        let state = State {
            now_ns: 0,
            random: Random::new(seed),
            faults,
            store,
            number,
            next_ticket: 0,
            on_the_way: BTreeMap::new(),
            answers: BTreeMap::new(),
            clients: BTreeMap::new(),
            wakes: BTreeMap::new(),
            turns: BTreeMap::new(),
            running: None,
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state) }) }
    }

    /// Connects a new client.
    #[must_use]
    pub fn client(&self) -> Client {
        let instance = self.shared.state.lock().connect(None);
        Client::new(self.clone(), instance)
    }

    /// Connects a new client in the thread of an old one, as a process that starts again does.
    #[must_use]
    pub fn reconnect(&self, old: &Client) -> Client {
        let instance = self.shared.state.lock().connect(Some(&old.instance()));
        Client::new(self.clone(), instance)
    }

    /// Replaces the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.shared.state.lock().faults = faults;
    }

    /// Bounds what the store holds.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.state.lock().store.capacity_bytes = bytes;
    }

    /// Lets a client die: from then on its calls fail without being sent. Calls that are on their
    /// way arrive.
    pub fn kill_at(&self, client: &Instance, at_ns: u64) {
        self.change(client, |condition| condition.dies_at_ns = Some(at_ns));
    }

    /// Lets the calls that a client sends in a span of time be lost.
    pub fn cut_off(&self, client: &Instance, span_ns: Range<u64>) {
        self.change(client, |condition| condition.cut_off_ns = span_ns);
    }

    /// Stops a client for a span of time: after it, the client goes on as if nothing had happened.
    pub fn stop(&self, client: &Instance, span_ns: Range<u64>) {
        self.change(client, |condition| condition.stopped_ns = span_ns);
    }

    fn change(&self, client: &Instance, change: impl FnOnce(&mut Condition)) {
        let mut state = self.shared.state.lock();
        if let Some(condition) = state.clients.get_mut(client) {
            change(condition);
        }
    }

    /// Draws a number below the bound from the run's random numbers.
    #[must_use]
    pub fn draw(&self, bound: u64) -> u64 {
        self.shared.state.lock().random.below(bound)
    }

    /// Runs a function for each client, each in a thread of its own, one at a time, and returns
    /// when all have returned. Calls on their way arrive before that.
    pub fn run<'a>(&self, clients: Vec<(Instance, Box<dyn FnOnce() + Send + 'a>)>) {
        let mut state = self.shared.state.lock();
        let now_ns = state.now_ns;
        for (instance, _) in &clients {
            state.wakes.insert(instance.clone(), now_ns);
            state.turns.insert(instance.clone(), Arc::default());
        }
        state.choose();
        drop(state);
        std::thread::scope(|scope| {
            for (instance, function) in clients {
                let client = move || {
                    let turn = Turn { world: self, instance };
                    self.await_turn(self.shared.state.lock(), &turn.instance);
                    function();
                };
                let thread = std::thread::Builder::new().spawn_scoped(scope, client);
                assert!(thread.is_ok(), "a simulation needs a thread for each client");
            }
        });
        let mut state = self.shared.state.lock();
        if let Some(((last_ns, _), _)) = state.on_the_way.last_key_value() {
            let last_ns = *last_ns;
            state.advance(last_ns);
        }
    }

    fn await_turn(&self, mut state: MutexGuard<'_, State>, instance: &Instance) {
        if let Some(turn) = state.turns.get(instance).map(Arc::clone) {
            while state.running.as_ref() != Some(instance) {
                turn.wait(&mut state);
            }
        }
        let wake_ns = state.wakes.get(instance).copied().unwrap_or(0);
        state.advance(wake_ns);
    }

    /// Lets time pass for one client.
    pub(super) fn wait_until(&self, instance: &Instance, wake_ns: u64) {
        let mut state = self.shared.state.lock();
        let Some(condition) = state.clients.get(instance) else { return };
        let thread = condition.thread.clone();
        let stopped_ns = &condition.stopped_ns;
        let wake_ns = wake_ns.max(state.now_ns);
        let wake_ns = if stopped_ns.contains(&wake_ns) { stopped_ns.end } else { wake_ns };
        if !state.wakes.contains_key(&thread) {
            state.advance(wake_ns);
            return;
        }
        state.wakes.insert(thread.clone(), wake_ns);
        state.choose();
        self.await_turn(state, &thread);
    }

    /// Sends a call, and returns its ticket and when its sender goes on.
    pub(super) fn send(&self, mut message: Message) -> (Ticket, u64) {
        let mut state = self.shared.state.lock();
        let State { now_ns, faults, random, .. } = &mut *state;
        let (now_ns, timeout_ns) = (*now_ns, faults.timeout_ns);
        let mut fate = faults.draw(random);
        if let Some(condition) = state.clients.get(&message.sender) {
            message.epoch = condition.epoch;
            if condition.cut_off_ns.contains(&now_ns) {
                fate = Fate::LOST;
            }
        }
        message.has_reply = fate.reply_ns.is_some();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        if let Some(arrival_ns) = fate.arrival_ns {
            state.on_the_way.insert((now_ns + arrival_ns, ticket), message);
        }
        (ticket, now_ns + fate.reply_ns.unwrap_or(timeout_ns))
    }

    /// Takes the answer to a call; `None` if there is none in time.
    pub(super) fn take_answer(
        &self,
        client: &Instance,
        ticket: Ticket,
    ) -> Option<Result<CallAnswer>> {
        let mut state = self.shared.state.lock();
        let answer = state.answers.remove(&ticket);
        if let Some(Ok(CallAnswer::Epoch(epoch))) = &answer
            && let Some(condition) = state.clients.get_mut(client)
        {
            condition.epoch = condition.epoch.max(*epoch);
        }
        answer
    }

    pub(super) fn is_dead(&self, client: &Instance) -> bool {
        let state = self.shared.state.lock();
        let condition = state.clients.get(client);
        let dies_at_ns = condition.and_then(|condition| condition.dies_at_ns);
        dies_at_ns.is_some_and(|at_ns| at_ns <= state.now_ns)
    }
}

impl State {
    fn connect(&mut self, old: Option<&Instance>) -> Instance {
        let client = self.clients.len() + 1;
        let instance = Instance(match self.number {
            0 => format!("client.{client}"),
            number => format!("client.{number}.{client}"),
        });
        let thread = old.and_then(|old| self.clients.get(old)).map(|old| old.thread.clone());
        let condition = Condition {
            thread: thread.unwrap_or_else(|| instance.clone()),
            dies_at_ns: None,
            cut_off_ns: 0..0,
            stopped_ns: 0..0,
            epoch: 0,
        };
        self.clients.insert(instance.clone(), condition);
        instance
    }

    fn advance(&mut self, to_ns: u64) {
        while let Some(entry) = self.on_the_way.first_entry() {
            let (arrival_ns, ticket) = *entry.key();
            if arrival_ns > to_ns {
                break;
            }
            let message = entry.remove();
            let has_reply = message.has_reply;
            let answer = self.store.receive(message, arrival_ns);
            if has_reply {
                self.answers.insert(ticket, answer);
            }
        }
        self.now_ns = self.now_ns.max(to_ns);
    }

    /// Gives the turn to the client whose next event is the earliest.
    fn choose(&mut self) {
        let earliest = self.wakes.iter().min_by_key(|(_, wake_ns)| **wake_ns);
        self.running = earliest.map(|(instance, _)| instance.clone());
        if let Some(turn) = self.running.as_ref().and_then(|next| self.turns.get(next)) {
            turn.notify_one();
        }
    }
}

/// Gives the turn on when a client's thread ends, also by a panic.
struct Turn<'a> {
    world: &'a World,
    instance: Instance,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.world.shared.state.lock();
        state.wakes.remove(&self.instance);
        state.turns.remove(&self.instance);
        state.choose();
    }
}

impl Clock for World {
    fn now_ns(&self) -> u64 {
        self.shared.state.lock().now_ns
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        self.shared.state.lock().advance(deadline_ns);
    }
}
