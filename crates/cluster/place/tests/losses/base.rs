//! The domain that each case begins with.
//!
//! `one` is the home of contents that `two` borrows, of contents that it does not use itself any
//! more and lends, and of one that nobody uses any more: the letter about it is not read, and
//! neither is a doubt about another. `three` has died in changes of several shards: one does not
//! have its change, and the ledger has the intents alone. Contents and index have several
//! objects each: one shard of the index is split, and one is being split.

use crate::snapshot::{Snapshot, take};
use gemelo_base::{Clock, Silent, StopFlag, SystemClock};
use gemelo_device::{BlockDevice, DeviceError, Durability, Operation, Request};
use gemelo_domain::{Client, Shard, ShardView, SplitStep};
use gemelo_format::{Compression, DedupMode, FingerprintKind};
use gemelo_member::{DomainClient, MemberUri, NewDomain};
use gemelo_objects::simulated::{Faults, World};
use gemelo_objects::{
    Fenced, Holder, Instance, KeyRange, LockName, Locks, MAX_PAGE_KEYS, ObjectError, Objects,
    Operation as ObjectOperation, Request as ObjectRequest, Result as ObjectResult, Update,
};
use gemelo_place::{MemberPlace, PlaceError, PlacedPool, PoolPlace, Use};
use gemelo_volume::{PoolOptions, Tuning};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[macro_use]
#[path = "../support/locks.rs"]
mod locks;

pub(crate) const BLOCK: usize = 4096;
/// Blocks of a volume.
pub(crate) const BLOCKS: u64 = 96;
/// Long against the calls of a case.
const LEASE: Duration = Duration::from_secs(60);
/// Room for contents in several objects.
const CAPACITY: u64 = 12 << 20;
/// A short journal, and one with which the metadata have several objects.
pub(crate) const SHORT_JOURNAL: u64 = 64 << 10;
pub(crate) const LONG_JOURNAL: u64 = 3 << 20;
/// Blocks of the volume that has many contents, so that they lie in several objects.
const MANY: u64 = 1100;

/// The blocks that `three` wrote last, which were zeros before. Their contents and their commit
/// were written at once, so a commit whose contents are missing is one that a crash cut off.
pub(crate) const LAST: std::ops::Range<u64> = 30..34;

pub(crate) const MEMBERS: [&str; 3] = ["one", "two", "three"];

/// The shard whose last change is refused.
const REFUSING_SHARD: &str = "index.10";

/// A client of a store, which may lose the changes of ledgers after a change of the index that it
/// refuses.
pub(crate) struct Store {
    client: Arc<dyn Client>,
    dies_after_index: AtomicBool,
    is_dying: AtomicBool,
}

impl Store {
    pub(crate) fn new(client: Arc<dyn Client>) -> Arc<Self> {
        let (dies_after_index, is_dying) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { client, dies_after_index, is_dying })
    }
}

impl Objects for Store {
    fn execute(&self, requests: &mut [ObjectRequest<'_>]) {
        let changes = |request: &ObjectRequest<'_>, prefix: &str| {
            let is_change = matches!(request.operation, ObjectOperation::Update(_));
            is_change && request.object.starts_with(prefix)
        };
        if self.is_dying.load(Ordering::Relaxed)
            && requests.iter().any(|one| changes(one, "ledger."))
        {
            for request in requests {
                let (action, object) = (request.operation.verb(), request.object.to_owned());
                request.outcome = Err(ObjectError::TimedOut { action, object });
            }
            return;
        }
        let is_index = requests.iter().any(|one| changes(one, "index."));
        if !is_index || !self.dies_after_index.load(Ordering::Relaxed) {
            return self.client.execute(requests);
        }
        for request in requests {
            if changes(request, REFUSING_SHARD) {
                self.is_dying.store(true, Ordering::Relaxed);
                request.outcome = Err(ObjectError::Fenced { instance: self.client.instance() });
            } else {
                self.client.execute(std::slice::from_mut(request));
            }
        }
    }

    fn list(&self, prefix: &str) -> ObjectResult<Vec<String>> {
        self.client.list(prefix)
    }
}

type Result<T> = ObjectResult<T>;
pass_on_locks!(Store);

/// A process with a connection of its own.
pub(crate) struct Process {
    pub(crate) store: Arc<Store>,
    pub(crate) client: Arc<DomainClient>,
}

impl Process {
    pub(crate) fn new(client: Arc<dyn Client>) -> std::result::Result<Self, String> {
        let store = Store::new(client);
        let client = DomainClient::new(Arc::clone(&store) as _, Arc::clone(&store) as _);
        let client = Arc::new(client.map_err(|error| error.to_string())?);
        Ok(Self { store, client })
    }

    pub(crate) fn place(&self, name: &str) -> MemberPlace {
        let uri: MemberUri = format!("rados:vms/prod/{name}").parse().unwrap();
        MemberPlace::new(uri).with_lease(LEASE).with_client(Arc::clone(&self.client))
    }

    pub(crate) fn create(&self, name: &str, compression: Option<Compression>, journal_bytes: u64) {
        let journal_bytes = Some(journal_bytes);
        let options = PoolOptions {
            capacity_bytes: CAPACITY,
            journal_bytes,
            compression,
            ..PoolOptions::default()
        };
        self.place(name).create(&options, &[], &Silent).unwrap();
    }

    pub(crate) fn open(
        &self,
        name: &str,
        used: Use,
        read_only: bool,
    ) -> std::result::Result<PlacedPool, PlaceError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let tuning = Tuning {
            background: false,
            read_only,
            // Contents are read where they lie.
            content_cache_bytes: Some(0),
            ..Tuning::default()
        };
        PoolPlace::Member(Box::new(self.place(name))).open(used, tuning, clock)
    }

    pub(crate) fn serve(&self, name: &str) -> PlacedPool {
        self.open(name, Use::Hold, false).unwrap()
    }
}

fn execute(
    placed: &PlacedPool,
    volume: &str,
    operation: Operation<'_>,
) -> std::result::Result<(), String> {
    let volume = placed.pool().volume(volume).map_err(|error| error.to_string())?;
    let mut batch = [Request { operation, outcome: Ok(()) }];
    volume.execute(&mut batch);
    let [Request { outcome, .. }] = batch;
    outcome.map_err(|error: DeviceError| error.to_string())
}

pub(crate) fn content(id: u64) -> Vec<u8> {
    let word = |word| gemelo_base::random::mix_pair(id, word).to_le_bytes();
    (0..BLOCK as u64 / 8).flat_map(word).collect()
}

pub(crate) fn write(
    placed: &PlacedPool,
    volume: &str,
    lbn: u64,
    id: u64,
) -> std::result::Result<(), String> {
    let (offset, data) = (lbn * BLOCK as u64, content(id));
    execute(
        placed,
        volume,
        Operation::Write { offset, data: &data, durability: Durability::Flushed },
    )
}

pub(crate) fn read(
    placed: &PlacedPool,
    volume: &str,
    lbn: u64,
) -> std::result::Result<Vec<u8>, String> {
    let mut buffer = vec![0; BLOCK];
    let operation = Operation::Read { offset: lbn * BLOCK as u64, buffer: &mut buffer };
    execute(placed, volume, operation).map(|()| buffer)
}

/// What the volumes of the members have: member and volume, then block and content.
pub(crate) type Images = BTreeMap<(&'static str, &'static str), BTreeMap<u64, u64>>;

/// The domain at an earlier time and now, and what the volumes have now.
pub(crate) struct Base {
    pub(crate) before: Snapshot,
    pub(crate) now: Snapshot,
    pub(crate) images: Images,
}

/// Creates a volume, and writes contents with these numbers.
pub(crate) fn fill(
    images: &mut Images,
    placed: &PlacedPool,
    (member, volume): (&'static str, &'static str),
    ids: impl Iterator<Item = u64>,
) {
    let ids: Vec<u64> = ids.collect();
    let blocks = BLOCKS.max(ids.len() as u64);
    placed.pool().create_volume(volume, blocks * BLOCK as u64, DedupMode::Inline).unwrap();
    overwrite(images, placed, (member, volume), (0..).zip(ids));
}

pub(crate) fn overwrite(
    images: &mut Images,
    placed: &PlacedPool,
    (member, volume): (&'static str, &'static str),
    blocks: impl Iterator<Item = (u64, u64)>,
) {
    for (lbn, id) in blocks {
        write(placed, volume, lbn, id).unwrap();
        images.entry((member, volume)).or_default().insert(lbn, id);
    }
    placed.pool().flush().unwrap();
}

pub(crate) fn share(placed: &PlacedPool) {
    placed.share(&StopFlag::new()).unwrap();
}

impl Base {
    /// Makes the domain on the simulated store.
    pub(crate) fn simulated(compression: Option<Compression>) -> Self {
        Self::in_memory(compression, SHORT_JOURNAL)
    }

    pub(crate) fn in_memory(compression: Option<Compression>, journal_bytes: u64) -> Self {
        let world = new_world();
        let connect = || -> Arc<dyn Client> { Arc::new(world.client()) };
        let outlive = || {
            world.sleep_until_ns(world.now_ns() + 2 * LEASE.as_nanos() as u64);
        };
        Self::make(&connect, &outlive, compression, journal_bytes)
    }

    pub(crate) fn make(
        connect: &dyn Fn() -> Arc<dyn Client>,
        outlive: &dyn Fn(),
        compression: Option<Compression>,
        journal_bytes: u64,
    ) -> Self {
        let new = NewDomain {
            block_bytes: BLOCK as u32,
            depth: 1,
            fingerprint: FingerprintKind::Blake3,
            data_pool: None,
        };
        new.create_in(&*connect()).unwrap();
        let process = Process::new(connect()).unwrap();
        let mut images = Images::new();
        MEMBERS.iter().for_each(|name| process.create(name, compression, journal_bytes));

        let one = process.serve("one");
        fill(&mut images, &one, ("one", "vm"), 1..=24);
        fill(&mut images, &one, ("one", "lent"), 101..=109);
        fill(&mut images, &one, ("one", "many"), 1000..1000 + MANY);
        share(&one);
        one.close().unwrap();
        let two = process.serve("two");
        fill(&mut images, &two, ("two", "vm"), (1..=12).chain(101..=109).chain(201..=212));
        share(&two);
        two.close().unwrap();
        let three = process.serve("three");
        fill(&mut images, &three, ("three", "vm"), (1..=6).chain(301..=318));
        share(&three);
        three.close().unwrap();
        let before = take(&*process.store);
        let split = Shard::new(1, 1).unwrap();
        split_until_open(&*process.store, split, true);

        let one = process.serve("one");
        one.pool().remove_volume("lent").unwrap();
        images.remove(&("one", "lent"));
        overwrite(&mut images, &one, ("one", "vm"), (0..3).zip(401..));
        overwrite(&mut images, &one, ("one", "vm"), (30..36).zip(411..));
        share(&one);
        one.close().unwrap();
        let two = process.serve("two");
        overwrite(&mut images, &two, ("two", "vm"), (3..5).zip(421..));
        // Block 20 had content 109, which nobody uses any more: a letter tells its home.
        overwrite(&mut images, &two, ("two", "vm"), (20..22).zip(431..));
        overwrite(&mut images, &two, ("two", "vm"), (40..44).zip(411..));
        // An older index does not count these references.
        overwrite(&mut images, &two, ("two", "vm"), (45..47).zip(14..));
        share(&two);
        two.close().unwrap();
        let dying = Process::new(connect()).unwrap();
        let three = dying.serve("three");
        // So many contents that no shard has all of them.
        overwrite(&mut images, &three, ("three", "vm"), (0..2).chain(10..24).zip(441..));
        overwrite(&mut images, &three, ("three", "vm"), LAST.zip(13..));
        dying.store.dies_after_index.store(true, Ordering::Relaxed);
        assert!(three.share(&StopFlag::new()).is_err());
        drop(three);
        outlive();
        split_until_open(&*process.store, Shard::new(1, 0).unwrap(), false);
        doubt(&*process.store);
        let now = take(&*process.store);
        let intents = now["ledger.00000003"].keys.keys().filter(|key| key.starts_with("i."));
        // The background may have published most contents before, and so left a single intent.
        assert!(intents.count() > 0, "one was refused, and the others were applied");
        let is_long = journal_bytes > SHORT_JOURNAL;
        assert_eq!(now.contains_key("meta.00000001.1"), is_long);
        assert!(now.contains_key("data.00000001.1"));
        Self { before, now, images }
    }
}

/// Takes the steps of a split up to the copy of the entries, or all but the removal of the old
/// ones, which the next member makes.
fn split_until_open(store: &dyn Objects, shard: Shard, opens: bool) {
    let (name, halves) = (shard.object(), shard.halves().unwrap());
    let step = |object: &str, step: SplitStep<'_>| store.update(object, &step.update()).unwrap();
    let header = || {
        let keys = ShardView::keys(std::iter::empty());
        ShardView::decode(&keys, &store.get_keys(&name, &keys).unwrap()).unwrap().header
    };
    step(&name, SplitStep::Seal(header()));
    let range = KeyRange { after: "", prefix: "f.", limit: MAX_PAGE_KEYS };
    let page = store.list_keys(&name, range).unwrap();
    assert!(!page.has_more, "one page has all entries");
    for half in halves {
        step(&half.object(), SplitStep::Create);
        let copy = SplitStep::Copy { half, entries: &page.entries };
        let entries = copy.update().set.len() as u64;
        step(&half.object(), copy);
        if opens {
            step(&half.object(), SplitStep::Open { entries });
        }
    }
    if opens {
        step(&name, SplitStep::MarkSplit(header()));
    }
}

/// Sends the home a doubt of the second member about a content.
fn doubt(store: &dyn Objects) {
    let range = KeyRange { after: "", prefix: "f.", limit: 1 };
    let page = store.list_keys("index.10", range).unwrap();
    let digits = page.entries[0].0.strip_prefix("f.").unwrap();
    let set = vec![(format!("{digits}.00000002.00000000"), vec![1])];
    store.update("doubt.00000001", &Update { set, ..Update::default() }).unwrap();
}

pub(crate) const FAULTS: Faults = Faults { min_delay_ns: 0, max_delay_ns: 1000, ..Faults::NONE };

pub(crate) fn new_world() -> World {
    World::new(1, FAULTS)
}
