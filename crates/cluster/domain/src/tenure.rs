//! The right to serve a member: an exclusive lock with a lease, and the record of its holder.
//!
//! A lock whose lease is over names no holder, but its last holder may only be slow. The member's
//! object therefore keeps the last holder's instance, and a new holder fences it before it reads or
//! writes anything else.

use crate::codec::{Reader, Reason, Writer};
use crate::config::damaged;
use crate::entry::MemberId;
use crate::error::{DomainError, Result};
use crate::fences::FencedHolder;
use gemelo_base::Clock;
use gemelo_base::process::ProcessIdentity;
use gemelo_objects::{
    Fenced, Guard, Holder, Instance, LockName, Locks, ObjectError, Objects, Update,
};
use std::time::Duration;

const LOCK: &str = "serve";
/// The key of the last holder.
const HOLDER_KEY: &str = "holder";
/// Parts the address of a holder from the identity of its process.
const PROCESS_MARK: char = '\n';
/// Attempts to write the record while others try to take the member, or while answers are lost.
const MAX_ATTEMPTS: u32 = 20;

/// The right to serve a member. It ends with the lease, unless it is renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenure {
    member: MemberId,
    epoch: u64,
    lease: Duration,
    ends_ns: u64,
}

/// The last holder of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TenureRecord {
    epoch: u64,
    /// `None` if the holder handed the member over.
    instance: Option<Instance>,
    /// The process of the holder, as far as it knows itself.
    process: Option<ProcessIdentity>,
}

/// A client: its objects and its locks.
pub trait Client: Objects + Locks {}
impl<T: Objects + Locks + ?Sized> Client for T {}

impl Tenure {
    /// Takes a member that no host serves, or whose holder's lease is over. The last holder is
    /// fenced unless it handed the member over. The clock counts from the start of the machine.
    ///
    /// # Errors
    /// Fails with [`DomainError::InUse`] if another client serves the member.
    pub fn take(
        client: &(impl Client + ?Sized),
        clock: &dyn Clock,
        member: MemberId,
        lease: Duration,
    ) -> Result<Self> {
        let object = member_object(member);
        let lock = LockName { object: &object, name: LOCK };
        for _ in 0..MAX_ATTEMPTS {
            // The lease is counted from before the request, so that it is over here first.
            let begun_ns = clock.now_ns();
            match client.lock(lock, lease) {
                Err(ObjectError::Held { holder, .. }) => return Err(DomainError::InUse { holder }),
                Err(ObjectError::TimedOut { .. }) => continue,
                outcome => outcome?,
            }
            if let Some(epoch) = register(client, clock, &object)? {
                let ends_ns = begun_ns.saturating_add(nanoseconds(lease));
                return Ok(Self { member, epoch, lease, ends_ns });
            }
        }
        Err(DomainError::Contended { changes: 1, rounds: MAX_ATTEMPTS })
    }

    /// Prolongs the lease, counted from now.
    ///
    /// # Errors
    /// Fails with [`DomainError::NotHeld`] if the lease is over. The host must stop serving.
    pub fn renew(&mut self, client: &(impl Client + ?Sized), clock: &dyn Clock) -> Result<()> {
        let object = member_object(self.member);
        let begun_ns = clock.now_ns();
        match client.renew(LockName { object: &object, name: LOCK }, self.lease) {
            Ok(()) => {
                self.ends_ns = begun_ns.saturating_add(nanoseconds(self.lease));
                Ok(())
            }
            Err(ObjectError::NotHeld { .. }) => Err(DomainError::NotHeld),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands the member over: the next holder need not fence this client. All writes of the member
    /// must have been answered before.
    ///
    /// # Errors
    /// Fails if the store does. The next holder then fences this client.
    pub fn end(self, client: &(impl Client + ?Sized)) -> Result<()> {
        let object = member_object(self.member);
        let held = TenureRecord::of_this_process(self.epoch, client.instance());
        let free = TenureRecord { epoch: self.epoch, instance: None, process: None };
        match client.update(&object, &replace(Some(held.encode()), &free)) {
            Err(ObjectError::Guard { .. }) => return Err(DomainError::NotHeld),
            outcome => outcome?,
        }
        match client.unlock(LockName { object: &object, name: LOCK }) {
            // The lease was over by itself, after the record was written.
            Err(ObjectError::NotHeld { .. }) => Ok(()),
            outcome => Ok(outcome?),
        }
    }

    /// Returns whether the lease is valid. A host whose lease is over must not answer requests: a
    /// new holder may have changed the volumes.
    #[must_use]
    pub fn is_valid(&self, clock: &dyn Clock) -> bool {
        clock.now_ns() < self.ends_ns
    }

    /// Returns the client that serves a member now, and how often the member was taken. A client
    /// whose lease is over serves it no more.
    ///
    /// # Errors
    /// Fails if the store does, or if the record of the holder is damaged.
    pub fn look(
        client: &(impl Client + ?Sized),
        member: MemberId,
    ) -> Result<(Option<Holder>, u64)> {
        let object = member_object(member);
        let holder = client.holder(LockName { object: &object, name: LOCK })?;
        let record = client.value_if_there(&object, HOLDER_KEY)?;
        let record = record.as_deref().map(TenureRecord::decode).transpose();
        let record = record.map_err(|reason| damaged(&object, HOLDER_KEY, reason))?;
        Ok((holder, record.map_or(0, |record| record.epoch)))
    }

    /// Returns the number of the member that is served.
    #[must_use]
    pub const fn member(&self) -> MemberId {
        self.member
    }

    /// Returns how often the member was taken.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns when the lease ends, in nanoseconds of the client's clock.
    #[must_use]
    pub const fn ends_ns(&self) -> u64 {
        self.ends_ns
    }
}

/// Returns the name of the object of a member.
#[must_use]
pub fn member_object(member: MemberId) -> String {
    format!("member.{member}")
}

fn nanoseconds(lease: Duration) -> u64 {
    u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX)
}

/// Fences the last holder and writes this client as the holder. Returns `None` if the attempt must
/// be repeated: another client wrote the record, or the answer was lost.
fn register(
    client: &(impl Client + ?Sized),
    clock: &dyn Clock,
    object: &str,
) -> Result<Option<u64>> {
    let me = client.instance();
    let values = match client.get_keys(object, &[HOLDER_KEY.into()]) {
        Err(ObjectError::TimedOut { .. }) => return Ok(None),
        values => values?,
    };
    let value = values.into_iter().next().flatten();
    let last = value.as_deref().map(TenureRecord::decode).transpose();
    let last = last.map_err(|reason| damaged(object, HOLDER_KEY, reason))?;
    let epoch = last.as_ref().map_or(0, |last| last.epoch);
    let mut kept = None;
    match last.and_then(|last| Some((last.instance?, last.process))) {
        // The answer to an earlier attempt was lost, or to a hand-over. That one may arrive yet,
        // and finds another record.
        Some((instance, _)) if instance == me => {}
        Some((instance, process)) => {
            let has_ended = process.as_ref().is_some_and(ProcessIdentity::has_ended);
            let ended_ns = has_ended.then(|| clock.now_ns());
            let fenced = if has_ended { Fenced::Ended } else { Fenced::Lost };
            match client.fence(&instance, fenced) {
                Err(ObjectError::TimedOut { .. }) => return Ok(None),
                outcome => outcome?,
            }
            kept = process.map(|process| FencedHolder { instance, process, ended_ns }.entry());
        }
        None => {}
    }
    let record = TenureRecord::of_this_process(epoch + 1, me);
    let mut update = replace(value, &record);
    update.set.extend(kept);
    match client.update(object, &update) {
        Ok(()) => Ok(Some(record.epoch)),
        Err(ObjectError::Guard { .. } | ObjectError::TimedOut { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn replace(expected: Option<Vec<u8>>, record: &TenureRecord) -> Update {
    let guards = vec![Guard { key: HOLDER_KEY.into(), expected }];
    Update { guards, set: vec![(HOLDER_KEY.into(), record.encode())], ..Update::default() }
}

impl TenureRecord {
    fn of_this_process(epoch: u64, instance: Instance) -> Self {
        Self { epoch, instance: Some(instance), process: ProcessIdentity::of_this_process() }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut text = self.instance.as_ref().map_or_else(String::new, |one| one.0.clone());
        assert!(!text.contains(PROCESS_MARK), "an address has one line");
        if let Some(process) = &self.process {
            text.push(PROCESS_MARK);
            text.push_str(&process.text());
        }
        Writer::new(0).u64(self.epoch).bytes(text.as_bytes()).finish(HOLDER_KEY)
    }

    pub(crate) fn decode(value: &[u8]) -> std::result::Result<Self, Reason> {
        let mut reader = Reader::new(HOLDER_KEY, value)?;
        let epoch = reader.count()?;
        let text = std::str::from_utf8(reader.rest()).map_err(|_| "its address is no text")?;
        let (address, process) = match text.split_once(PROCESS_MARK) {
            Some((address, process)) => (address, ProcessIdentity::parse(process)),
            None => (text, None),
        };
        let instance = (!address.is_empty()).then(|| Instance(address.into()));
        Ok(Self { epoch, instance, process })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fences::tests::{MEMBER, ended_process};
    use crate::fences::{QUIET_NS, tend_fences};
    use gemelo_objects::simulated::{Faults, World};

    #[test]
    fn a_holder_whose_process_has_ended_is_fenced_for_a_while_only() {
        let world = World::new(1, Faults::NONE);
        let (one, two) = (world.client(), world.client());
        let lease = Duration::from_secs(10);
        Tenure::take(&one, &one.clock(), MEMBER, lease).unwrap();
        let mut record = TenureRecord::of_this_process(1, one.instance());
        let held = Some(record.encode());
        record.process = Some(ended_process());
        one.update(&member_object(MEMBER), &replace(held, &record)).unwrap();
        world.sleep_until_ns(20_000_000_000);
        Tenure::take(&two, &two.clock(), MEMBER, lease).unwrap();
        assert!(one.stat(&member_object(MEMBER)).is_err(), "it is fenced");
        let taken_ns = world.now_ns();
        assert_eq!(tend_fences(&two, &world, MEMBER).unwrap(), 0);
        world.sleep_until_ns(taken_ns + QUIET_NS);
        assert_eq!(tend_fences(&two, &world, MEMBER).unwrap(), 1);
        one.stat(&member_object(MEMBER)).unwrap();
    }
}
