//! Contents published, shared and released per second by a member with an engine, bytes of index
//! and ledger for each GB written, and memory of the tables:
//!
//! ```sh
//! cargo bench -p gemelo-sharing --bench sharing
//! ```
//!
//! The store of objects is the simulated one without delays, in memory, so that the figures are the
//! cost of the member itself and of that store. Two members have the same contents.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and fails by panicking"
)]

use gemelo_base::random::mix_pair;
use gemelo_base::{Clock, Silent, StopFlag, SystemClock};
use gemelo_device::{BlockDevice, Durability, Operation as Io, Request as IoRequest};
use gemelo_disk::testing::MemoryDisk;
use gemelo_domain::{DomainConfig, MemberId};
use gemelo_format::DedupMode;
use gemelo_objects::simulated::{Client, Faults, World};
use gemelo_objects::{Objects, Operation, Request, Result};
use gemelo_sharing::{ForeignContents, ForeignRead, Sharing, SharingOptions, SharingParts};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, Tuning};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCK: usize = 4096;
/// Contents of each member.
const CONTENTS: u64 = 50_000;
const GB: f64 = 1e9;

/// No contents: nothing is read here.
struct Nothing;

impl ForeignContents for Nothing {
    fn read(&self, _: &mut [ForeignRead<'_>]) {}
}

/// A client that counts bytes and operations of keys, of the index and of ledgers.
struct Counting {
    client: Client,
    index: [AtomicU64; 2],
    ledger: [AtomicU64; 2],
}

fn bytes_of(operation: &Operation<'_>) -> u64 {
    let keys = |keys: &[String]| keys.iter().map(String::len).sum::<usize>();
    let length = match operation {
        Operation::GetKeys { keys: asked, values } => {
            keys(asked) + values.iter().flatten().map(Vec::len).sum::<usize>()
        }
        Operation::ListKeys { page, .. } => {
            page.entries.iter().map(|(key, value)| key.len() + value.len()).sum()
        }
        Operation::Update(update) => {
            let set = update.set.iter().map(|(key, value)| key.len() + value.len());
            set.sum::<usize>() + keys(&update.remove)
        }
        _ => 0,
    };
    length as u64
}

impl Objects for Counting {
    fn execute(&self, requests: &mut [Request<'_>]) {
        self.client.execute(requests);
        for request in requests {
            let is_ledger = request.object.starts_with("ledger");
            let [bytes, operations] = if is_ledger { &self.ledger } else { &self.index };
            bytes.fetch_add(bytes_of(&request.operation), Ordering::Relaxed);
            operations.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.client.list(prefix)
    }
}

struct Member {
    pool: Pool,
    sharing: Sharing,
    objects: Arc<Counting>,
}

impl Member {
    fn new(world: &World, config: DomainConfig, number: u32) -> Self {
        let disk = || Arc::new(MemoryDisk::default());
        let disks = PoolDisks::new(disk(), disk());
        let options = PoolOptions {
            capacity_bytes: (CONTENTS + 1000) * BLOCK as u64,
            key: Some([7; 32]),
            ..PoolOptions::default()
        };
        Pool::format(&disks, &options).unwrap();
        let (index, ledger) = Default::default();
        let objects = Arc::new(Counting { client: world.client(), index, ledger });
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let sharing = Sharing::load(SharingParts {
            objects: Arc::clone(&objects) as _,
            clock: Arc::clone(&clock),
            config,
            member: MemberId(number),
            foreign: Arc::new(Nothing),
            options: SharingOptions::default(),
        });
        let sharing = sharing.unwrap();
        let tuning = Tuning { background: false, ..Tuning::default() };
        let disks = disks.with_free_veto(sharing.free_veto());
        let pool = Pool::open_disks(disks, tuning, clock).unwrap();
        Self { pool, sharing, objects }
    }

    fn fill(&self) {
        let bytes = CONTENTS * BLOCK as u64;
        self.pool.create_volume("vm", bytes, DedupMode::Inline).unwrap();
        let volume = self.pool.volume("vm").unwrap();
        let mut content = vec![0; BLOCK];
        for lbn in 0..CONTENTS {
            for (word, bytes) in content.chunks_exact_mut(8).enumerate() {
                bytes.copy_from_slice(&mix_pair(lbn, word as u64).to_le_bytes());
            }
            let (offset, data) = (lbn * BLOCK as u64, content.as_slice());
            let operation = Io::Write { offset, data, durability: Durability::Flushed };
            let mut batch = [IoRequest { operation, outcome: Ok(()) }];
            volume.execute(&mut batch);
            batch[0].outcome.as_ref().unwrap();
        }
        self.pool.flush().unwrap();
    }

    fn measure(&self, what: &str) {
        let count =
            |counts: &[AtomicU64; 2]| counts.each_ref().map(|c| c.swap(0, Ordering::Relaxed));
        let _ = (count(&self.objects.index), count(&self.objects.ledger));
        let (clock, before) = (SystemClock::new(), self.sharing.figures());
        let begun_ns = clock.now_ns();
        while !self.sharing.work(&self.pool).unwrap().is_idle() {}
        let seconds = (clock.now_ns() - begun_ns) as f64 / 1e9;
        let after = self.sharing.figures();
        let changes = (after.published + after.shared + after.released + after.withdrawn)
            - (before.published + before.shared + before.released + before.withdrawn);
        let written = changes as f64 * BLOCK as f64 / GB;
        let [index, index_operations] = count(&self.objects.index);
        let [ledger, ledger_operations] = count(&self.objects.ledger);
        println!(
            "{what:10} {:>9.0} contents/s, index {:>5.1} MB and {:>5.0} operations, ledger {:>5.1} MB \
             and {:>5.0} operations for each GB",
            changes as f64 / seconds,
            index as f64 / 1e6 / written,
            index_operations as f64 / written,
            ledger as f64 / 1e6 / written,
            ledger_operations as f64 / written,
        );
    }
}

fn main() {
    let world = World::new(1, Faults { min_delay_ns: 0, max_delay_ns: 0, ..Faults::NONE });
    let config = DomainConfig {
        block_bytes: BLOCK as u32,
        depth: 4,
        fingerprint_id: [0; 16],
        unknown: gemelo_format::Features::NONE,
    };
    config.create(&world.client()).unwrap();
    let [one, two] = [1, 2].map(|number| Member::new(&world, config, number));
    for (member, what) in [(&one, "published"), (&two, "shared")] {
        member.fill();
        member.measure(what);
        let figures = member.sharing.block_figures();
        println!(
            "{what:10} tables of {} blocks: {:.2} bytes for each block of the pool",
            figures.kept,
            figures.memory_bytes as f64 / CONTENTS as f64
        );
    }
    for (member, what) in [(&two, "released"), (&one, "withdrawn")] {
        member.pool.remove_volume("vm").unwrap();
        member.pool.gc(None, &Silent, &StopFlag::new()).unwrap();
        member.measure(what);
    }
}
