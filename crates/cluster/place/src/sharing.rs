//! A member that shares contents with its domain: its ledger, the contents of other members, and
//! the thread that publishes and releases.

use crate::error::{PlaceError, Result};
use gemelo_base::{StopFlag, SystemClock};
use gemelo_domain::{Damage, MemberId};
use gemelo_member::{
    DomainClient, LeaseState, MemberDisk, OBJECT_BYTES, StoreTraffic, Traffic, superblock_of,
};
use gemelo_sharing::{
    BlockStats, Homes, LedgerSources, ObjectContents, Sharing, SharingError, SharingOptions,
    SharingParts, SharingWorker, Stats,
};
use gemelo_store::PoolDisks;
use gemelo_volume::Pool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The begin of the names of the objects of all ledgers.
pub(crate) const LEDGER_PREFIX: &str = "ledger.";

fn ledger_damaged(first: &Damage, more: usize) -> PlaceError {
    SharingError::LedgerDamaged { first: first.clone(), more }.into()
}

/// Figures of what a member shares with its domain.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct SharingStat {
    /// Counts since the member was opened.
    #[serde(flatten)]
    pub counts: Stats,
    /// Counts of the member's blocks.
    #[serde(flatten)]
    pub blocks: BlockStats,
    /// Traffic with the shared store since the member was opened.
    pub traffic: StoreTraffic,
    /// The reason for which the last round failed.
    pub failure: Option<String>,
}

/// The sharing of a member that is open.
#[derive(Clone)]
pub(crate) struct MemberSharing {
    sharing: Arc<Sharing>,
    /// What the ledger has lost: the pool is open for reading only.
    lost: Arc<[Damage]>,
    traffic: Arc<Traffic>,
}

impl MemberSharing {
    /// Reads the ledger of a member as far as it can be read. Its last holder is fenced, or it is
    /// only looked at.
    pub(crate) fn look(client: &Arc<DomainClient>, member: MemberId) -> Result<Self> {
        let config = client.config();
        let index = client.objects();
        let foreign = Arc::new(ObjectContents {
            objects: client.data_objects(),
            block_bytes: config.block_bytes,
            object_bytes: OBJECT_BYTES,
            name: |member, number| MemberDisk::Data.object(member, number),
            homes: Homes::new(move |member| superblock_of(&index, member)),
        });
        let (sharing, lost) = Sharing::look(SharingParts {
            objects: client.objects(),
            clock: Arc::new(SystemClock::new()),
            config: *config,
            member,
            foreign,
            options: SharingOptions::default(),
        })?;
        let traffic = Arc::clone(client.traffic());
        Ok(Self { sharing: Arc::new(sharing), lost: lost.into(), traffic })
    }

    /// Fails if the ledger has lost records, so that the member must not be changed.
    pub(crate) fn expect_whole(&self) -> Result<()> {
        match self.lost.split_first() {
            None => Ok(()),
            Some((first, more)) => Err(ledger_damaged(first, more.len())),
        }
    }

    /// Compares the marks of the member's parts. The records of an older ledger are forgotten.
    ///
    /// # Errors
    /// Fails if another part is older or lost, so that even reading would go to wrong places.
    pub(crate) fn compare_marks(self, client: &DomainClient, member: MemberId) -> Result<Self> {
        let stale = client.stale_parts(member, self.sharing.epoch())?;
        let (ledger, others): (Vec<Damage>, Vec<Damage>) =
            stale.into_iter().partition(|damage| damage.object.starts_with(LEDGER_PREFIX));
        if let Some((first, more)) = others.split_first() {
            let (first, more) = (first.clone(), more.len());
            return Err(PlaceError::Older { first, more });
        }
        if ledger.is_empty() {
            return Ok(self);
        }
        self.sharing.forget_records();
        let lost = ledger.into_iter().chain(self.lost.iter().cloned()).collect();
        Ok(Self { lost, ..self })
    }

    /// Notes in the ledger the tenure in which the member was taken.
    pub(crate) fn mark(&self, epoch: u64) -> Result<()> {
        Ok(self.sharing.mark(epoch)?)
    }

    /// Writes the ledger again that has lost records.
    pub(crate) fn rebuild(&self, pool: &Pool, sources: &LedgerSources<'_>) -> Result<usize> {
        Ok(self.sharing.rebuild(pool, sources)?)
    }

    /// Returns the disks with the veto of the member's blocks, and the copies of the domain.
    pub(crate) fn keep(&self, disks: PoolDisks) -> PoolDisks {
        disks.with_free_veto(self.sharing.free_veto()).with_copies(self.sharing.copies())
    }

    /// Starts the thread that shares, until the value is dropped or the lease ends.
    pub(crate) fn start(
        &self,
        pool: &Arc<Pool>,
        lease_state: Arc<LeaseState>,
    ) -> Result<SharingWorker> {
        let may_work = move || lease_state.check().is_ok();
        let (sharing, pool) = (Arc::clone(&self.sharing), Arc::clone(pool));
        let clock = Arc::new(SystemClock::new());
        SharingWorker::start(sharing, pool, clock, may_work).map_err(PlaceError::Thread)
    }

    /// Does the work that is there now.
    pub(crate) fn drain(&self, pool: &Pool, stop: &StopFlag) -> Result<()> {
        Ok(self.sharing.drain(pool, stop)?)
    }

    /// Finds out about the changes of the ledger whose outcome is unknown.
    pub(crate) fn settle_ledger(&self) -> Result<()> {
        Ok(self.sharing.settle_ledger()?)
    }

    pub(crate) fn stat(&self, worker: Option<&SharingWorker>) -> SharingStat {
        SharingStat {
            counts: self.sharing.figures(),
            blocks: self.sharing.block_figures(),
            traffic: self.traffic.figures(),
            failure: match self.lost.split_first() {
                Some((first, more)) => Some(ledger_damaged(first, more.len()).to_string()),
                None => worker.map_or_else(|| self.sharing.damage_text(), SharingWorker::failure),
            },
        }
    }
}
