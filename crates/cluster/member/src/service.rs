//! A member that this process serves: its lease, its disks, and the end of both.

use crate::client::{CREATING_KEY, DomainClient, has_pool};
use crate::disk::{DiskContext, MemberDisk};
use crate::error::{MemberError, Result};
use crate::flight::Flight;
use crate::lease_renewer;
use crate::lease_state::{Ended, LeaseState};
use crate::marks::MARK_KEY;
use gemelo_base::background::{Step, Task, TaskStat, Worker};
use gemelo_base::{Clock, with_causes};
use gemelo_domain::{DomainError, MemberId, MemberValues, Members, Tenure, tend_fences};
use gemelo_objects::{ObjectError, Objects, Operation, Request};
use gemelo_store::PoolDisks;
use parking_lot::Mutex;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Objects removed at once.
const REMOVED_AT_ONCE: usize = 256;
/// Interval between two looks at the fences of processes that have ended.
const FENCES_EVERY: Duration = Duration::from_secs(60);

/// The lease of a member, and what renews it.
pub(crate) struct HeldLease {
    client: Arc<DomainClient>,
    clock: Arc<dyn Clock>,
    tenure: Mutex<Tenure>,
    context: Arc<DiskContext>,
    /// `true` once the member is in use, so that a loss ends the process.
    is_in_use: AtomicBool,
    /// The renewals. They are not put off while they fail, because the lease would end meanwhile.
    renewals: Task,
    /// The looks at the fences of processes of this machine that have ended. While they fail, the
    /// fences last for longer.
    fences: Task,
}

impl HeldLease {
    pub(crate) fn is_in_use(&self) -> bool {
        self.is_in_use.load(Ordering::Acquire)
    }

    pub(crate) fn lease_state(&self) -> &LeaseState {
        &self.context.lease_state
    }

    /// Renews the lease once. It ends the lease if another client has the member.
    pub(crate) fn renew(&self) {
        let began_ns = self.renewals.now_ns();
        let mut tenure = self.tenure.lock();
        let lease_state = self.lease_state();
        match tenure.renew(&*self.client.index, &*self.clock) {
            Ok(()) => lease_state.prolong(tenure.ends_ns()),
            Err(DomainError::NotHeld) => lease_state.end(Ended::LeaseOver),
            Err(DomainError::Object(ObjectError::Fenced { .. })) => lease_state.end(Ended::Fenced),
            // The store may answer in time yet. If it does not, the lease is over.
            Err(error) => return self.renewals.note_failure(began_ns, with_causes(&error)),
        }
        self.renewals.note_step(Step::more(1));
    }

    /// Looks after the fences of earlier clients of the member, if it is time.
    pub(crate) fn tend_fences(&self) {
        let Self { client, clock, context, .. } = self;
        tend(&self.fences, client, &**clock, context.member);
    }

    /// Waits for what is in flight and gives the member back. Nothing is written afterwards.
    fn release(&self) -> Result<()> {
        let lease_state = self.lease_state();
        let may = lease_state.check();
        lease_state.end(Ended::Released);
        self.context.flight.wait_for_none();
        let may = may.and_then(|()| match lease_state.check() {
            // A call in flight may have ended the lease for another reason.
            Err(Ended::Released) => Ok(()),
            other => other,
        });
        if let Err(why) = may {
            self.client.spend();
            return Err(why.into());
        }
        let tenure = self.tenure.lock().clone();
        Ok(tenure.end(&*self.client.index)?)
    }
}

fn tend(fences: &Task, client: &DomainClient, clock: &dyn Clock, member: MemberId) {
    let look = || {
        let ended = tend_fences(&*client.index, clock, member)?;
        Ok::<_, DomainError>(Step::then_rest(ended as u64, FENCES_EVERY))
    };
    fences.turn(look);
}

/// A member that this process serves, until the value is released or dropped.
pub struct Service {
    held_lease: Arc<HeldLease>,
    disks: PoolDisks,
    /// The threads that renew the lease. They are waited for, because a thread that uses librados
    /// while the process exits would crash it.
    renewers: Vec<Worker>,
    condition: Option<ReleaseCondition>,
    is_released: bool,
}

/// Finds out if everything that this process sent for a member has been answered, or fails with the
/// reason why that is unknown.
type ReleaseCondition = Box<dyn FnOnce() -> std::result::Result<(), String> + Send + Sync>;

impl Service {
    /// Takes a member that no client serves, or whose client's lease is over: fences the last
    /// client, and makes sure that none of its changes of metadata takes effect later.
    ///
    /// # Errors
    /// Fails with [`DomainError::InUse`] if another client serves the member.
    pub fn take(
        client: &Arc<DomainClient>,
        name: &str,
        clock: &Arc<dyn Clock>,
        lease: Duration,
    ) -> Result<Self> {
        if client.is_spent() {
            return Err(Ended::Fenced.into());
        }
        client.config().check_writable()?;
        let members = Members::new(&*client.index);
        let member = members.find(name)?;
        let fences = Task::new("fences", Arc::clone(clock));
        tend(&fences, client, &**clock, member);
        let tenure = Tenure::take(&*client.index, &**clock, member, lease)?;
        assert_eq!(tenure.member(), member, "the tenure is that of the member");
        // Another process may have removed the member before it was taken.
        let found = members.find(name);
        if !matches!(found, Ok(found) if found == member) {
            tenure.end(&*client.index)?;
            found?;
            return Err(DomainError::NoMember { name: name.into() }.into());
        }
        let lease_state = LeaseState::until(Arc::clone(clock), tenure.ends_ns());
        let lease_state = Arc::new(lease_state.unless_fenced(client.is_fenced()));
        let context = Arc::new(DiskContext {
            index: Arc::clone(&client.index) as Arc<dyn Objects>,
            member,
            lease_state,
            flight: Flight::default(),
            read_only: false,
            epoch: tenure.epoch(),
        });
        let (disks, metadata) = client.open_disks(&context)?;
        metadata.settle()?;
        let (client, clock, tenure) = (Arc::clone(client), Arc::clone(clock), Mutex::new(tenure));
        let renewals = Task::steady("lease", Arc::clone(&clock));
        let held_lease = Arc::new(HeldLease {
            client,
            clock,
            tenure,
            context,
            is_in_use: AtomicBool::new(false),
            renewals,
            fences,
        });
        Ok(Self { held_lease, disks, renewers: Vec::new(), condition: None, is_released: false })
    }

    /// Starts the threads that renew the lease and watch it.
    ///
    /// # Errors
    /// Fails if the system starts no thread.
    pub fn keep(&mut self) -> Result<()> {
        self.renewers = lease_renewer::start(&self.held_lease).map_err(MemberError::Thread)?;
        Ok(())
    }

    /// Notes that the member is in use: from now on the process ends if it loses the member.
    /// Before, while it is being opened, it may try again.
    pub fn note_use(&self) {
        self.held_lease.is_in_use.store(true, Ordering::Release);
    }

    /// Returns the figures of the renewals of the lease.
    #[must_use]
    pub fn renewals(&self) -> TaskStat {
        self.held_lease.renewals.stat()
    }

    /// Returns the figures of the looks at the fences of earlier clients.
    #[must_use]
    pub fn fences(&self) -> TaskStat {
        self.held_lease.fences.stat()
    }

    /// Looks at these fences, for callers without a renewer.
    pub fn tend_fences(&self) {
        self.held_lease.tend_fences();
    }

    /// Renews the lease once, for callers without a renewer.
    pub fn renew(&self) {
        self.held_lease.renew();
    }

    /// Returns the number of the member.
    #[must_use]
    pub fn member(&self) -> MemberId {
        self.held_lease.context.member
    }

    /// Returns how often the member was taken.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.held_lease.tenure.lock().epoch()
    }

    /// Returns the lease of this process.
    #[must_use]
    pub fn lease_state(&self) -> Arc<LeaseState> {
        Arc::clone(&self.held_lease.context.lease_state)
    }

    /// Returns the data and metadata disks of the member.
    #[must_use]
    pub fn disks(&self) -> PoolDisks {
        self.disks.clone()
    }

    /// Returns whether the member has a pool.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn has_pool(&self) -> Result<bool> {
        has_pool(&*self.held_lease.client.index, self.member())
    }

    /// Returns whether a creation of the member's pool was begun and not finished, so that the pool
    /// holds nothing.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn is_being_created(&self) -> Result<bool> {
        let values = MemberValues::new(&*self.held_lease.client.index, self.member());
        Ok(values.get(CREATING_KEY)?.is_some())
    }

    /// Notes that the pool is being created, until [`Self::finish_creation`].
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn begin_creation(&self) -> Result<()> {
        self.set_value(CREATING_KEY, b"pool")
    }

    /// Notes that the pool is complete.
    ///
    /// # Errors
    /// Fails if the store does. The creation can then be repeated.
    pub fn finish_creation(&self) -> Result<()> {
        // No part has a mark yet but what was made in this tenure.
        self.set_value(MARK_KEY, &0_u64.to_le_bytes())?;
        self.end_creation()
    }

    fn end_creation(&self) -> Result<()> {
        self.change_value(CREATING_KEY, |values| values.remove(&[CREATING_KEY]))
    }

    /// Returns the client of the domain.
    #[must_use]
    pub fn client(&self) -> &DomainClient {
        &self.held_lease.client
    }

    /// Sets a value of the member, such as its settings.
    ///
    /// # Errors
    /// Fails if this process may not act for the member, or if the store fails.
    pub fn set_value(&self, key: &str, value: &[u8]) -> Result<()> {
        self.change_value(key, |values| values.set(&[(key, value)]))
    }

    /// Changes a value. A change of unknown fate ends the lease.
    fn change_value(
        &self,
        key: &str,
        change: impl FnOnce(&MemberValues<'_>) -> gemelo_domain::Result<()>,
    ) -> Result<()> {
        self.held_lease.lease_state().check()?;
        let values = MemberValues::new(&*self.held_lease.client.index, self.member());
        change(&values).map_err(|error| {
            if let DomainError::Object(cause) = &error {
                self.held_lease.lease_state().judge("change a value of", key, cause);
            }
            error.into()
        })
    }

    /// Removes the objects of both disks and their lengths. The member has no pool then.
    ///
    /// # Errors
    /// Fails if the store does. Another removal removes the rest.
    pub fn clear(&self) -> Result<()> {
        let client = &self.held_lease.client;
        // The metadata go last: without them the rest is not known for a pool.
        let stores = [
            (MemberDisk::Data, &*client.data),
            (MemberDisk::Metadata, &*client.index as &dyn Objects),
        ];
        for (disk, objects) in stores {
            for names in objects.list(&disk.prefix(self.member()))?.chunks(REMOVED_AT_ONCE) {
                self.held_lease.lease_state().check()?;
                let remove = |name| Request::new(name, Operation::Remove);
                let mut requests: Vec<_> = names.iter().map(String::as_str).map(remove).collect();
                objects.execute(&mut requests);
                let is_done = |error: &ObjectError| matches!(error, ObjectError::NotFound { .. });
                self.held_lease.lease_state().judge_all(requests, is_done)?;
            }
        }
        let [data, metadata] = MemberDisk::ALL.map(MemberDisk::length_key);
        self.change_value("length", |values| values.remove(&[data, metadata, MARK_KEY]))?;
        self.end_creation()
    }

    /// Ends the lease after a failure midway: a change may still be on its way. The member is not
    /// handed over then, and the next process fences this one.
    pub fn doubt(&self, action: &'static str, cause: &dyn Error) {
        let (object, cause) = (format!("member.{}", self.member()), with_causes(cause));
        self.held_lease.lease_state().end(Ended::Unknown { action, object, cause });
    }

    /// Sets what has to hold when the member is given back. If it fails, the lease ends without
    /// a hand-over, and the next client fences this one.
    pub fn before_release(
        &mut self,
        condition: impl FnOnce() -> std::result::Result<(), String> + Send + Sync + 'static,
    ) {
        self.condition = Some(Box::new(condition));
    }

    /// Hands the member over: waits for what is in flight, and gives the tenure up, so that another
    /// process can take the member at once.
    ///
    /// # Errors
    /// Fails if this process may not act for the member any more, or if the store fails.
    pub fn release(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_released, true) {
            return Ok(());
        }
        // The lease is kept while the requests in flight end.
        if let Some(Err(cause)) = self.condition.take().map(|condition| condition()) {
            let (action, object) = ("record what is shared in", "ledger".to_owned());
            self.held_lease.lease_state().end(Ended::Unknown { action, object, cause });
        }
        let released = self.held_lease.release();
        self.renewers.clear();
        released
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // If it fails, the next client fences this one.
        let _ = self.end();
    }
}
