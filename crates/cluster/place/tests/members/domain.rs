//! A domain of the simulated store, its members, and their volumes.

use crate::store::Store;
use gemelo_base::{Clock, Silent, StopFlag, SystemClock};
use gemelo_device::{BlockDevice, Durability, Operation, Request};
use gemelo_format::{DedupMode, FingerprintKind};
use gemelo_member::{DomainClient, MemberUri, NewDomain};
use gemelo_objects::simulated::{Faults, World};
use gemelo_place::{MemberPlace, PlaceError, PlacedPool, PoolPlace, Use};
use gemelo_volume::{PoolOptions, Tuning};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) const BLOCK: usize = 4096;
/// Blocks of a volume.
pub(crate) const BLOCKS: u64 = 16;
/// Long against the calls of a test: the time of the simulation passes with the calls alone.
pub(crate) const LEASE: Duration = Duration::from_secs(60);

pub(crate) struct Domain {
    pub(crate) world: World,
}

impl Domain {
    pub(crate) fn new() -> Self {
        let quick = Faults { min_delay_ns: 0, max_delay_ns: 1000, ..Faults::NONE };
        let world = World::new(1, quick);
        let new = NewDomain {
            block_bytes: BLOCK as u32,
            depth: 1,
            fingerprint: FingerprintKind::Blake3,
            data_pool: None,
        };
        new.create_in(&world.client()).unwrap();
        Self { world }
    }

    /// Connects a process.
    pub(crate) fn process(&self) -> Process {
        let store = Store::new(&self.world);
        let client = DomainClient::new(Arc::clone(&store) as _, Arc::clone(&store) as _);
        Process { store, client: Arc::new(client.unwrap()) }
    }

    /// Two processes whose members, one and two, have stored and shared the same contents.
    pub(crate) fn two_with_the_same_contents(&self) -> (Process, Process) {
        let (first, second) = (self.process(), self.process());
        for (process, name) in [(&first, "one"), (&second, "two")] {
            let placed = process.filled(name, 1..=8);
            placed.share(&StopFlag::new()).unwrap();
            placed.close().unwrap();
        }
        (first, second)
    }

    /// Lets the leases of processes that are gone end.
    pub(crate) fn outlive_leases(&self) {
        self.world.sleep_until_ns(self.world.now_ns() + LEASE.as_nanos() as u64);
    }
}

/// A process, which has a connection of its own.
pub(crate) struct Process {
    pub(crate) store: Arc<Store>,
    pub(crate) client: Arc<DomainClient>,
}

impl Process {
    pub(crate) fn place(&self, name: &str) -> MemberPlace {
        let uri: MemberUri = format!("rados:vms/prod/{name}").parse().unwrap();
        MemberPlace::new(uri).with_lease(LEASE).with_client(Arc::clone(&self.client))
    }

    pub(crate) fn create(&self, name: &str) {
        let options = PoolOptions { capacity_bytes: 4 << 20, ..PoolOptions::default() };
        self.place(name).create(&options, &[], &Silent).unwrap();
    }

    pub(crate) fn open(
        &self,
        name: &str,
        used: Use,
        background: bool,
    ) -> Result<PlacedPool, PlaceError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let tuning = Tuning { background, read_only: used == Use::Look, ..Tuning::default() };
        PoolPlace::Member(Box::new(self.place(name))).open(used, tuning, clock)
    }

    /// Serves a member without background threads.
    pub(crate) fn serve(&self, name: &str) -> PlacedPool {
        self.open(name, Use::Hold, false).unwrap()
    }

    /// Makes a member whose volume "vm" has these contents, and serves it.
    pub(crate) fn filled(&self, name: &str, ids: impl Iterator<Item = u64>) -> PlacedPool {
        self.create(name);
        let placed = self.serve(name);
        let bytes = BLOCKS * BLOCK as u64;
        placed.pool().create_volume("vm", bytes, DedupMode::Inline).unwrap();
        (0..).zip(ids).for_each(|(lbn, id)| write(&placed, lbn, id));
        placed.pool().flush().unwrap();
        placed
    }

    /// Makes a member that has published eight contents, and has one other content since then.
    pub(crate) fn changed(&self, name: &str) -> PlacedPool {
        let placed = self.filled(name, 1..=8);
        placed.share(&StopFlag::new()).unwrap();
        trim(&placed);
        write(&placed, 0, 9);
        placed.pool().flush().unwrap();
        placed
    }

    /// Makes a member whose first attempt to share has lost its changes of the ledger.
    pub(crate) fn in_doubt(&self, name: &str) -> PlacedPool {
        let placed = self.filled(name, 1..=8);
        self.store.loses_ledger.store(true, Ordering::Relaxed);
        assert!(placed.share(&StopFlag::new()).is_err());
        self.store.loses_ledger.store(false, Ordering::Relaxed);
        placed
    }
}

fn execute(placed: &PlacedPool, operation: Operation<'_>) {
    let volume = placed.pool().volume("vm").unwrap();
    let mut batch = [Request { operation, outcome: Ok(()) }];
    volume.execute(&mut batch);
    batch[0].outcome.as_ref().unwrap();
}

pub(crate) fn content(id: u64) -> Vec<u8> {
    let word = |word| gemelo_base::random::mix_pair(id, word).to_le_bytes();
    (0..BLOCK as u64 / 8).flat_map(word).collect()
}

pub(crate) fn write(placed: &PlacedPool, lbn: u64, id: u64) {
    let (offset, data) = (lbn * BLOCK as u64, content(id));
    let durability = Durability::Flushed;
    execute(placed, Operation::Write { offset, data: &data, durability });
}

/// Writes all blocks of the volume in one request, with contents from an id on.
pub(crate) fn write_all(placed: &PlacedPool, first: u64) {
    let data: Vec<u8> = (first..first + BLOCKS).flat_map(content).collect();
    execute(placed, Operation::Write { offset: 0, data: &data, durability: Durability::Flushed });
}

pub(crate) fn trim(placed: &PlacedPool) {
    let length = BLOCKS * BLOCK as u64;
    execute(placed, Operation::Trim { offset: 0, length, durability: Durability::Flushed });
    placed.pool().flush().unwrap();
}

pub(crate) fn read(placed: &PlacedPool, lbn: u64) -> Vec<u8> {
    let mut buffer = vec![0; BLOCK];
    execute(placed, Operation::Read { offset: lbn * BLOCK as u64, buffer: &mut buffer });
    buffer
}

pub(crate) fn expect(placed: &PlacedPool, ids: impl Iterator<Item = u64>) {
    (0..).zip(ids).for_each(|(lbn, id)| assert!(read(placed, lbn) == content(id), "block {lbn}"));
}
