//! Open pools, with what keeps other processes from them.

use crate::error::{PlaceError, Result};
use crate::member::MemberPlace;
use crate::place::PoolPlace;
use crate::sharing::{MemberSharing, SharingStat};
use gemelo_base::background::TaskStat;
use gemelo_base::{Clock, StopFlag};
use gemelo_disk::DiskAccess;
use gemelo_member::{Inspection, LeaseState, MemberError, Service};
use gemelo_sharing::SharingWorker;
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolDirectory, Tuning};
use std::sync::Arc;

/// Threads that write contents of a member. A write to the cluster takes milliseconds, most of them
/// spent waiting.
const WRITE_THREADS: usize = 16;

/// The use that is made of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The pool is looked at for a moment and not changed. A member is not taken for it.
    Look,
    /// The pool is read or changed for as long as it is open.
    Hold,
}

/// The right to a pool, which excludes other processes.
enum Hold {
    /// Locks on the disks, which the disks themselves have.
    Locks,
    /// Nothing: that nobody took the member meanwhile is checked at the end.
    Inspection(Inspection),
    /// The right to serve the member.
    Service(Service),
}

impl Hold {
    fn note_use(&self) {
        if let Self::Service(service) = self {
            service.note_use();
        }
    }

    fn check(&self) -> std::result::Result<(), MemberError> {
        match self {
            Self::Locks => Ok(()),
            Self::Inspection(inspection) => inspection.check(),
            Self::Service(service) => Ok(service.lease_state().check()?),
        }
    }

    fn release(self) -> std::result::Result<(), MemberError> {
        match self {
            Self::Service(service) => service.release(),
            other => other.check(),
        }
    }
}

/// The disks of a pool, and what keeps other processes from them.
pub struct HeldDisks {
    disks: PoolDisks,
    hold: Hold,
    sharing: Option<MemberSharing>,
}

impl HeldDisks {
    /// Returns the data and metadata disks, with the veto of shared blocks.
    #[must_use]
    pub fn disks(&self) -> PoolDisks {
        self.disks.clone()
    }

    /// Gives the disks back. Nothing may use them any more.
    ///
    /// # Errors
    /// Fails if another process took the member meanwhile.
    pub fn release(self) -> Result<()> {
        let Self { disks, hold, sharing } = self;
        drop((disks, sharing));
        Ok(hold.release()?)
    }
}

/// A pool that is open at its place.
pub struct PlacedPool {
    // The thread that shares goes before the pool, and the pool before what keeps others from it.
    worker: Option<SharingWorker>,
    pool: Arc<Pool>,
    sharing: Option<MemberSharing>,
    hold: Hold,
}

impl PlacedPool {
    /// Returns the engine of the pool.
    #[must_use]
    pub const fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Returns the lease of this process, if the pool is a member. Nothing may be answered when
    /// it has ended.
    #[must_use]
    pub fn lease_state(&self) -> Option<Arc<LeaseState>> {
        match &self.hold {
            Hold::Service(service) => Some(service.lease_state()),
            Hold::Locks | Hold::Inspection(_) => None,
        }
    }

    /// Returns what a member shares with its domain; [`None`] for other pools.
    #[must_use]
    pub fn sharing_stat(&self) -> Option<SharingStat> {
        self.sharing.as_ref().map(|sharing| sharing.stat(self.worker.as_ref()))
    }

    /// Returns the figures of the tasks that the background repeats by itself: those of the engine,
    /// and for a member also the sharing, the renewals of the lease, and the fences.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskStat> {
        let mut tasks = self.pool.tasks();
        tasks.extend(self.worker.as_ref().map(SharingWorker::task));
        if let Hold::Service(service) = &self.hold {
            tasks.extend([service.renewals(), service.fences()]);
        }
        tasks
    }

    /// Publishes contents and releases references, as far as there are any now. Only members have
    /// something to do.
    ///
    /// # Errors
    /// Fails if the store does. A later call goes on.
    pub fn share(&self, stop: &StopFlag) -> Result<()> {
        match &self.sharing {
            Some(sharing) if !self.pool.is_read_only() => {
                // Only what is durable is shared, so what was found just now has to be committed.
                self.pool.flush()?;
                sharing.drain(&self.pool, stop)
            }
            _ => Ok(()),
        }
    }

    /// Keeps a small text with the member. Files of a directory are left to the caller.
    ///
    /// # Errors
    /// Fails if this process does not serve the member, or if the store fails.
    pub fn write_value(&self, name: &str, text: &str) -> Result<()> {
        match &self.hold {
            Hold::Service(service) => Ok(service.set_value(name, text.as_bytes())?),
            Hold::Locks | Hold::Inspection(_) => Err(PlaceError::OnlyMember),
        }
    }

    /// Writes a checkpoint, closes the pool and lets other processes have it. If a thread that
    /// hangs still has the pool, the checkpoint is written without closing it.
    ///
    /// # Errors
    /// Fails if the checkpoint cannot be written, or if this process may not act for the member any
    /// more.
    pub fn close(self) -> Result<()> {
        let Self { worker, pool, sharing, hold } = self;
        drop((worker, sharing));
        match Arc::try_unwrap(pool) {
            Ok(pool) => pool.close()?,
            Err(held) if held.is_read_only() => {}
            Err(held) => held.checkpoint()?,
        }
        Ok(hold.release()?)
    }
}

impl PoolPlace {
    /// Opens the disks of the pool, to read or to write them without the engine.
    ///
    /// # Errors
    /// Fails if another process has the pool, or if there is none.
    pub fn open_disks(&self, access: DiskAccess) -> Result<HeldDisks> {
        match self {
            Self::Directory(path) => {
                let disks = PoolDirectory::open(path, access)?.disks();
                Ok(HeldDisks { disks, hold: Hold::Locks, sharing: None })
            }
            Self::Member(member) => {
                let used = if access == DiskAccess::Shared { Use::Look } else { Use::Hold };
                let held = member.open_disks(used, access == DiskAccess::Exclusive)?;
                held.hold.note_use();
                Ok(held)
            }
        }
    }

    /// Opens the pool.
    ///
    /// # Errors
    /// Fails if another process has the pool, if there is none, or if it is too damaged.
    pub fn open(&self, used: Use, tuning: Tuning, clock: Arc<dyn Clock>) -> Result<PlacedPool> {
        let (pool, sharing, hold) = match self {
            Self::Directory(path) => (Pool::open(path, tuning, clock)?, None, Hold::Locks),
            Self::Member(member) => {
                let HeldDisks { disks, hold, sharing } =
                    member.open_disks(used, !tuning.read_only)?;
                let tuning = Tuning { write_threads: WRITE_THREADS, ..tuning };
                let opened = Pool::open_disks(disks, tuning, clock);
                // What was read while another client changed it means nothing.
                hold.check()?;
                (opened?, sharing, hold)
            }
        };
        hold.note_use();
        let pool = Arc::new(pool);
        let shares = tuning.background && !pool.is_read_only();
        let worker = match (&sharing, &hold) {
            (Some(sharing), Hold::Service(service)) if shares => {
                Some(sharing.start(&pool, service.lease_state())?)
            }
            _ => None,
        };
        Ok(PlacedPool { worker, pool, sharing, hold })
    }
}

impl MemberPlace {
    /// Opens the disks. A member that is to be changed must have a whole ledger; one that is read
    /// is read as far as possible.
    fn open_disks(&self, used: Use, writes: bool) -> Result<HeldDisks> {
        let client = self.client()?;
        if used == Use::Look {
            let inspection = client.inspect(&self.uri().name)?;
            let member = inspection.member();
            let looked = MemberSharing::look(&client, member);
            let looked = looked.and_then(|sharing| sharing.compare_marks(&client, member));
            // What was read while another client changed it means nothing.
            inspection.check()?;
            let sharing = looked?;
            let disks = sharing.keep(inspection.disks());
            let hold = Hold::Inspection(inspection);
            return Ok(HeldDisks { disks, hold, sharing: Some(sharing) });
        }
        let mut service = self.take()?;
        if !service.has_pool()? {
            return Err(client.no_pool(&self.uri().name, service.member())?.into());
        }
        let member = service.member();
        let sharing = MemberSharing::look(&client, member)?.compare_marks(&client, member)?;
        if writes {
            sharing.expect_whole()?;
            service.mark()?;
            sharing.mark(service.epoch())?;
            service.complete_marks()?;
        }
        // A client that does not fence this one must find the ledger as it stays.
        let settled = sharing.clone();
        service.before_release(move || settled.settle_ledger().map_err(|error| error.to_string()));
        let disks = sharing.keep(service.disks());
        Ok(HeldDisks { disks, hold: Hold::Service(service), sharing: Some(sharing) })
    }
}
