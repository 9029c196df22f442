//! A member that a process serves: its lease, its pool, and what it shares.

use crate::disk::{Counted, Others};
use crate::repeat::cache_bytes;
use crate::{BLOCK, TIMEOUT_NS, domain};
use gemelo_base::{Clock, ManualClock};
use gemelo_device::{BlockDevice, DeviceError, Durability, Operation, Request};
use gemelo_domain::{DomainError, MemberId};
use gemelo_format::{Compression, Policy};
use gemelo_member::{DomainClient, MemberError, Service};
use gemelo_objects::Objects;
use gemelo_objects::simulated::Client;
use gemelo_sharing::{Sharing, SharingError, SharingOptions, SharingParts};
use gemelo_store::PoolDisks;
use gemelo_volume::{LayoutTuning, Pool, PoolOptions, Tuning, Volume, VolumeError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Long against a call and a time-out, short against a run.
pub(crate) const LEASE_NS: u64 = 50 * TIMEOUT_NS;
/// Interval between two renewals: two of them may fail.
const RENEWED_EVERY_NS: u64 = LEASE_NS / 4;
/// Entries above which a shard is split.
const SPLIT_ABOVE: u64 = 25;

pub(crate) struct Member {
    pub(crate) pool: Arc<Pool>,
    pub(crate) sharing: Arc<Sharing>,
    pub(crate) others: Arc<Others>,
    pub(crate) client: Client,
    /// Reads of the own disks that failed.
    pub(crate) failed_reads: Arc<AtomicU64>,
    renewed_ns: u64,
    served: Served,
}

/// A member that is served. A process that does not hand it over ends without notice.
struct Served(Option<Service>);

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(service) = &self.0 {
            service.doubt("serve", &std::io::Error::other("the process has ended"));
        }
    }
}

impl Served {
    fn take(client: &Client, clock: &Arc<dyn Clock>, member: MemberId) -> Result<Self, Failure> {
        let objects = Arc::new(client.clone());
        let domain = Arc::new(DomainClient::new(objects.clone(), objects)?);
        let (name, lease) = (domain::name_of(member), Duration::from_nanos(LEASE_NS));
        Ok(Self(Some(Service::take(&domain, &name, clock, lease)?)))
    }

    fn service(&self) -> &Service {
        self.0.as_ref().unwrap()
    }

    /// The disks of the member. Reads of them that fail are counted.
    fn disks(&self, failed_reads: &Arc<AtomicU64>) -> PoolDisks {
        let PoolDisks { data, metadata, .. } = self.service().disks();
        let counted = |below| Arc::new(Counted { below, failed_reads: Arc::clone(failed_reads) });
        PoolDisks::new(counted(data), counted(metadata))
    }

    fn release(mut self) -> Result<(), Failure> {
        Ok(self.0.take().unwrap().release()?)
    }
}

/// The reason why a process ends.
#[derive(Debug)]
#[expect(dead_code, reason = "a panic of a test shows all fields")]
pub(crate) enum Failure {
    Domain(DomainError),
    Member(MemberError),
    Sharing(SharingError),
    Volume(VolumeError),
    Device(DeviceError),
}

impl From<DomainError> for Failure {
    fn from(error: DomainError) -> Self {
        Self::Domain(error)
    }
}
impl From<MemberError> for Failure {
    fn from(error: MemberError) -> Self {
        match error {
            MemberError::Domain(error) => Self::Domain(error),
            error => Self::Member(error),
        }
    }
}
impl From<SharingError> for Failure {
    fn from(error: SharingError) -> Self {
        Self::Sharing(error)
    }
}
impl From<VolumeError> for Failure {
    fn from(error: VolumeError) -> Self {
        Self::Volume(error)
    }
}
impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

/// A clock that stands still, for members that need not renew their leases.
pub(crate) fn standing_clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::new())
}

/// Makes the empty pool of a member.
pub(crate) fn format(client: &Client, member: MemberId, policy: Policy, blocks: u64) {
    format_as(client, member, (policy, blocks), None);
}

/// Does the same for a pool that may compress.
pub(crate) fn format_as(
    client: &Client,
    member: MemberId,
    (policy, blocks): (Policy, u64),
    compression: Option<Compression>,
) {
    let options = PoolOptions {
        block_bytes: BLOCK as u32,
        capacity_bytes: blocks * BLOCK as u64,
        journal_bytes: Some(64 << 10),
        key: Some(domain::KEY),
        policy,
        compression,
        ..PoolOptions::default()
    };
    let served = Served::take(client, &standing_clock(), member).unwrap();
    Pool::format(&served.disks(&Arc::default()), &options).unwrap();
    served.release().unwrap();
}

pub(crate) fn tuning() -> Tuning {
    Tuning {
        background: false,
        cache_bytes: Some(cache_bytes()),
        write_buffer_bytes: 24 * BLOCK as u64,
        // Tests damage contents in the store, and read them.
        content_cache_bytes: Some(0),
        // The veto knows of a content as soon as it is flushed.
        max_journal_data_bytes: Some(0),
        layout: LayoutTuning { run_bytes: 8 * BLOCK as u64, ..LayoutTuning::default() },
        ..Tuning::default()
    }
}

/// The same settings, with commits that carry their contents.
pub(crate) fn journal_data() -> Tuning {
    Tuning { max_journal_data_bytes: None, ..tuning() }
}

impl Member {
    /// Takes the member, fences its last holder, and opens its pool. Its lease is never over.
    pub(crate) fn start(
        client: &Client,
        member: MemberId,
        compares: bool,
    ) -> Result<Self, Failure> {
        Self::start_with(client, member, (compares, tuning()))
    }

    /// Does the same as [`Self::start`], with settings for the pool.
    pub(crate) fn start_with(
        client: &Client,
        member: MemberId,
        settings: (bool, Tuning),
    ) -> Result<Self, Failure> {
        Self::start_by(&standing_clock(), client, member, settings)
    }

    /// Does the same as [`Self::start_with`], with a lease that ends by the clock.
    pub(crate) fn start_by(
        lease_clock: &Arc<dyn Clock>,
        client: &Client,
        member: MemberId,
        settings: (bool, Tuning),
    ) -> Result<Self, Failure> {
        let objects = Arc::new(client.clone());
        Self::start_on((lease_clock, objects), client, member, settings)
    }

    /// Does the same as [`Self::start_by`], with another way to the objects of the domain, which
    /// the disks and the lease do not go.
    pub(crate) fn start_on(
        (lease_clock, objects): (&Arc<dyn Clock>, Arc<dyn Objects>),
        client: &Client,
        member: MemberId,
        (compares, tuning): (bool, Tuning),
    ) -> Result<Self, Failure> {
        let renewed_ns = lease_clock.now_ns();
        let served = Served::take(client, lease_clock, member)?;
        let others = Arc::new(Others::new(client));
        let clock = Arc::new(client.clock());
        let options = SharingOptions {
            compares,
            batch: 20,
            letters: 10,
            idle_pause: Duration::from_millis(1),
            split_above: Some(SPLIT_ABOVE),
        };
        let sharing = Arc::new(Sharing::load(SharingParts {
            objects,
            clock: clock.clone(),
            config: *served.service().client().config(),
            member,
            foreign: Arc::clone(&others) as _,
            options,
        })?);
        let failed_reads = Arc::default();
        let disks = served.disks(&failed_reads);
        let disks = disks.with_free_veto(sharing.free_veto()).with_copies(sharing.copies());
        let pool = Arc::new(Pool::open_disks(disks, tuning, clock)?);
        let client = client.clone();
        let member = Self { pool, sharing, others, client, failed_reads, renewed_ns, served };
        let is_excused = !member.is_valid() || member.failed_reads.load(Ordering::Relaxed) > 0;
        assert!(!member.pool.is_read_only() || is_excused, "{:?}", member.pool.damage());
        Ok(member)
    }

    pub(crate) fn id(&self) -> MemberId {
        self.served.service().member()
    }

    /// Returns how often the member was taken.
    pub(crate) fn epoch(&self) -> u64 {
        self.served.service().epoch()
    }

    /// The disks of the member, for the offline check of the closed pool.
    pub(crate) fn disks(&self) -> PoolDisks {
        self.served.disks(&self.failed_reads).with_free_veto(self.sharing.free_veto())
    }

    /// Returns whether what this process found and did may be told to clients.
    pub(crate) fn is_valid(&self) -> bool {
        self.served.service().lease_state().check().is_ok()
    }

    pub(crate) fn renew_if_due(&mut self) {
        let now_ns = self.client.clock().now_ns();
        if now_ns >= self.renewed_ns + RENEWED_EVERY_NS {
            self.renewed_ns = now_ns;
            self.served.service().renew();
        }
    }

    pub(crate) fn hand_over(self) -> Result<(), Failure> {
        let Self { pool, sharing, mut served, .. } = self;
        Arc::into_inner(pool).unwrap().close()?;
        let settle = move || sharing.settle_ledger().map_err(|error| error.to_string());
        served.0.as_mut().unwrap().before_release(settle);
        served.release()
    }

    /// Works until nothing is left to do.
    pub(crate) fn drain(&self) -> Result<(), Failure> {
        while !self.sharing.work(&self.pool)?.is_idle() {}
        Ok(())
    }
}

pub(crate) fn execute(volume: &Volume, operation: Operation<'_>) -> Result<(), DeviceError> {
    let mut batch = [Request { operation, outcome: Ok(()) }];
    volume.execute(&mut batch);
    let [request] = batch;
    request.outcome
}

pub(crate) fn write(volume: &Volume, lbn: u64, data: &[u8]) -> Result<(), DeviceError> {
    let (offset, durability) = (lbn * BLOCK as u64, Durability::Flushed);
    execute(volume, Operation::Write { offset, data, durability })
}

pub(crate) fn trim(volume: &Volume, lbn: u64, blocks: u64) -> Result<(), DeviceError> {
    let (offset, length) = (lbn * BLOCK as u64, blocks * BLOCK as u64);
    execute(volume, Operation::Trim { offset, length, durability: Durability::Flushed })
}

pub(crate) fn flush(volume: &Volume) -> Result<(), DeviceError> {
    execute(volume, Operation::Flush)
}

pub(crate) fn read(volume: &Volume, lbn: u64) -> Result<Vec<u8>, DeviceError> {
    let mut buffer = vec![0xEE; BLOCK];
    execute(volume, Operation::Read { offset: lbn * BLOCK as u64, buffer: &mut buffer })?;
    Ok(buffer)
}

/// Makes the content of an id. The content of 0 is zeros. Three of four others can be compressed to
/// little more than the half.
pub(crate) fn content(id: u64) -> Vec<u8> {
    if id == 0 {
        return vec![0; BLOCK];
    }
    let words = BLOCK as u64 / 8;
    let word = |word| match !id.is_multiple_of(4) && word >= words / 2 {
        true => [0; 8],
        false => gemelo_base::random::mix_pair(id, word).to_le_bytes(),
    };
    (0..words).flat_map(word).collect()
}
