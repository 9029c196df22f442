//! A client of the simulated store.

use super::call::{Call, CallAnswer};
use super::store::Message;
use super::world::World;
use crate::{Fenced, Holder, Instance, LockName, Locks, ObjectError, Objects, Request, Result};
use gemelo_base::Clock;
use std::io;
use std::time::Duration;

/// A client of the simulated store.
#[derive(Debug, Clone)]
pub struct Client {
    world: World,
    instance: Instance,
}

/// The simulation's time as one client sees it: sleeping lets other clients run.
#[derive(Debug, Clone)]
pub struct ClientClock {
    client: Client,
}

/// A call that was sent: its number, and when its sender goes on.
type Sent = (u64, u64);

impl Client {
    pub(super) const fn new(world: World, instance: Instance) -> Self {
        Self { world, instance }
    }

    /// Returns this client's clock.
    #[must_use]
    pub fn clock(&self) -> ClientClock {
        ClientClock { client: self.clone() }
    }

    fn send(&self, object: &str, call: Call) -> Sent {
        let sender = self.instance.clone();
        self.world.send(Message { sender, epoch: 0, has_reply: true, object: object.into(), call })
    }

    fn answer(&self, sent: Sent, action: &'static str, object: &str) -> Result<CallAnswer> {
        if self.world.is_dead(&self.instance) {
            return Err(dead(action, object));
        }
        let answer = self.world.take_answer(&self.instance, sent.0);
        answer.unwrap_or_else(|| Err(ObjectError::TimedOut { action, object: object.into() }))
    }

    fn call(&self, action: &'static str, object: &str, call: Call) -> Result<CallAnswer> {
        if self.world.is_dead(&self.instance) {
            return Err(dead(action, object));
        }
        let sent = self.send(object, call);
        self.world.wait_until(&self.instance, sent.1);
        self.answer(sent, action, object)
    }

    fn call_lock(&self, lock: LockName<'_>, lease: Duration, renews: bool) -> Result<()> {
        let lease_ns = u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX);
        assert!(lease_ns > 0, "a lock without a lease never ends");
        let call = Call::Lock { lock: lock.name.into(), lease_ns, renews };
        self.call("lock", lock.object, call).map(drop)
    }
}

fn dead(action: &'static str, object: &str) -> ObjectError {
    let source = io::Error::other("the client is dead");
    ObjectError::Io { action, object: object.into(), source }
}

impl Objects for Client {
    fn execute(&self, requests: &mut [Request<'_>]) {
        let mut sent = Vec::with_capacity(requests.len());
        for request in &mut *requests {
            let verb = request.operation.verb();
            request.outcome = request.operation.validate(request.object);
            if request.outcome.is_ok() && self.world.is_dead(&self.instance) {
                request.outcome = Err(dead(verb, request.object));
            }
            let is_sent = request.outcome.is_ok();
            sent.push(is_sent.then(|| self.send(request.object, Call::of(&request.operation))));
        }
        if let Some(last_ns) = sent.iter().flatten().map(|sent| sent.1).max() {
            self.world.wait_until(&self.instance, last_ns);
        }
        assert_eq!(sent.len(), requests.len(), "each request was sent or refused");
        for (request, sent) in requests.iter_mut().zip(sent) {
            let Some(sent) = sent else { continue };
            let answer = self.answer(sent, request.operation.verb(), request.object);
            request.outcome = answer.map(|answer| answer.fill(&mut request.operation));
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        match self.call("list", prefix, Call::List(prefix.into()))? {
            CallAnswer::Names(names) => Ok(names),
            answer => unreachable!("a list is answered by {answer:?}"),
        }
    }
}

impl Locks for Client {
    fn instance(&self) -> Instance {
        self.instance.clone()
    }

    fn lock(&self, lock: LockName<'_>, lease: Duration) -> Result<()> {
        self.call_lock(lock, lease, false)
    }

    fn renew(&self, lock: LockName<'_>, lease: Duration) -> Result<()> {
        self.call_lock(lock, lease, true)
    }

    fn unlock(&self, lock: LockName<'_>) -> Result<()> {
        self.call("unlock", lock.object, Call::Unlock(lock.name.into())).map(drop)
    }

    fn holder(&self, lock: LockName<'_>) -> Result<Option<Holder>> {
        match self.call("ask for the lock of", lock.object, Call::Holder(lock.name.into()))? {
            CallAnswer::Holder(holder) => Ok(holder),
            answer => unreachable!("a holder is answered by {answer:?}"),
        }
    }

    fn fence(&self, instance: &Instance, _fenced: Fenced) -> Result<()> {
        assert!(*instance != self.instance, "a client does not fence itself");
        self.call("fence a client of", "the store", Call::Fence(instance.clone())).map(drop)
    }

    fn unfence(&self, instance: &Instance) -> Result<()> {
        let call = Call::Unfence(instance.clone());
        self.call("end a fence of", "the store", call).map(drop)
    }
}

impl Clock for ClientClock {
    fn now_ns(&self) -> u64 {
        self.client.world.now_ns()
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        self.client.world.wait_until(&self.client.instance, deadline_ns);
    }
}
