//! A member that a process serves: its tenure, its pool, and what it shares.

use crate::disk::{ObjectDisk, Others, data_name};
use crate::{BLOCK, TIMEOUT_NS};
use gemelo_base::Clock;
use gemelo_device::{BlockDevice, DeviceError, Durability, Operation, Request};
use gemelo_domain::{DomainConfig, DomainError, MemberId, Tenure};
use gemelo_format::{BackendKind, Compression};
use gemelo_objects::simulated::Client;
use gemelo_sharing::{Sharing, SharingError, SharingOptions, SharingParts};
use gemelo_store::PoolDisks;
use gemelo_volume::{LayoutTuning, Pool, PoolOptions, Tuning, Volume, VolumeError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Long against a call and a time-out, short against a run.
const LEASE: Duration = Duration::from_nanos(50 * TIMEOUT_NS);
/// Entries above which a shard is split.
const SPLIT_ABOVE: u64 = 25;

pub(crate) struct Member {
    pub(crate) pool: Arc<Pool>,
    pub(crate) sharing: Arc<Sharing>,
    pub(crate) others: Arc<Others>,
    pub(crate) tenure: Tenure,
    pub(crate) client: Client,
    pub(crate) is_broken: Arc<AtomicBool>,
    /// Reads of the own disks that failed.
    pub(crate) failed_reads: Arc<AtomicU64>,
}

/// The reason why a process ends.
#[derive(Debug)]
#[expect(dead_code, reason = "a panic of a test shows all fields")]
pub(crate) enum Failure {
    Domain(DomainError),
    Sharing(SharingError),
    Volume(VolumeError),
    Device(DeviceError),
}

impl From<DomainError> for Failure {
    fn from(error: DomainError) -> Self {
        Self::Domain(error)
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

fn disks(
    client: &Client,
    member: MemberId,
    is_broken: &Arc<AtomicBool>,
    failed_reads: &Arc<AtomicU64>,
) -> PoolDisks {
    let disk = |name| Arc::new(ObjectDisk::open(client, name, (is_broken, failed_reads)));
    PoolDisks::new(disk(data_name(member)), disk(format!("meta.{member}")))
}

/// Makes the empty pool of a member.
pub(crate) fn format(client: &Client, member: MemberId, backend: BackendKind, blocks: u64) {
    format_as(client, member, (backend, blocks), None);
}

/// Does the same for a pool that may compress.
pub(crate) fn format_as(
    client: &Client,
    member: MemberId,
    (backend, blocks): (BackendKind, u64),
    compression: Option<Compression>,
) {
    let options = PoolOptions {
        block_bytes: BLOCK as u32,
        capacity_bytes: blocks * BLOCK as u64,
        journal_bytes: Some(64 << 10),
        key: Some([7; 32]),
        backend,
        compression,
        ..PoolOptions::default()
    };
    Pool::format(&disks(client, member, &Arc::default(), &Arc::default()), &options).unwrap();
}

pub(crate) fn tuning() -> Tuning {
    Tuning {
        background: false,
        cache_bytes: 64 << 10,
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
    /// Takes the member, fences its last holder, and opens its pool.
    pub(crate) fn start(
        client: &Client,
        config: DomainConfig,
        member: MemberId,
        compares: bool,
    ) -> Result<Self, Failure> {
        Self::start_with(client, config, member, (compares, tuning()))
    }

    /// Does the same as [`Self::start`], with settings for the pool.
    pub(crate) fn start_with(
        client: &Client,
        config: DomainConfig,
        member: MemberId,
        (compares, tuning): (bool, Tuning),
    ) -> Result<Self, Failure> {
        let clock = Arc::new(client.clock());
        let tenure = Tenure::take(client, clock.as_ref(), member, LEASE)?;
        let others = Arc::new(Others::new(client));
        let objects = Arc::new(client.clone());
        let foreign = Arc::clone(&others) as _;
        let options = SharingOptions {
            compares,
            batch: 20,
            letters: 10,
            idle_pause: Duration::from_millis(1),
            split_above: Some(SPLIT_ABOVE),
        };
        let parts =
            SharingParts { objects, clock: clock.clone(), config, member, foreign, options };
        let sharing = Arc::new(Sharing::load(parts)?);
        let (is_broken, failed_reads) = (Arc::default(), Arc::default());
        let disks = disks(client, member, &is_broken, &failed_reads);
        let disks = disks.with_free_veto(sharing.free_veto()).with_copies(sharing.copies());
        let pool = Arc::new(Pool::open_disks(disks, tuning, clock)?);
        let is_excused =
            is_broken.load(Ordering::Relaxed) || failed_reads.load(Ordering::Relaxed) > 0;
        assert!(!pool.is_read_only() || is_excused, "{:?}", pool.damage());
        Ok(Self { pool, sharing, others, tenure, client: client.clone(), is_broken, failed_reads })
    }

    pub(crate) fn id(&self) -> MemberId {
        self.tenure.member()
    }

    /// The disks of the member, for the offline check of the closed pool.
    pub(crate) fn disks(&self) -> PoolDisks {
        disks(&self.client, self.id(), &self.is_broken, &self.failed_reads)
            .with_free_veto(self.sharing.free_veto())
    }

    /// Returns whether what this process found and did may be told to clients.
    pub(crate) fn is_valid(&self) -> bool {
        self.tenure.is_valid(&self.client.clock())
    }

    pub(crate) fn renew_if_due(&mut self) -> Result<(), Failure> {
        let clock = self.client.clock();
        if self.tenure.ends_ns() < clock.now_ns() + LEASE.as_nanos() as u64 / 2 {
            match self.tenure.renew(&self.client, &clock) {
                // The next one may arrive in time.
                Err(DomainError::Object(error)) if error.is_unknown() => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }

    pub(crate) fn hand_over(self) -> Result<(), Failure> {
        let Self { pool, tenure, client, .. } = self;
        Arc::into_inner(pool).unwrap().close()?;
        Ok(tenure.end(&client)?)
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
