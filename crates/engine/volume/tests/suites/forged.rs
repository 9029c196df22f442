//! Fields of a closed pool with other values and right checksums, which no program leaves: a check
//! tells them, no opening takes changes, and a repair makes them right where that is known.

use crate::common::hold::Call;
use crate::common::simulated::{DATA, METADATA, Simulation};
use crate::common::{BLOCK, content, open, options_with, read, tuning, write};
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_format::{
    CountAt, DedupMode, NODE_REF_BYTES, NodeRef, PAGE_BYTES, Page, Part, Pbn, Policy, PoolSeed,
    Root, StoreTable, StoreVolume, Superblock, Tree, VolumeId, VolumeRecord, array_value,
    build_chain, find_roots, read_chain, read_superblock, set_array_value,
};
use gemelo_store::PoolDisks;
use gemelo_volume::{LossChoice, Pool, RepairOptions, VolumeError, repair, repair_outlook};

/// Blocks of the data store.
const BLOCKS: u64 = 200;
/// Blocks of each volume. Their maps have a directory of four pages.
const LBNS: u64 = 4 * Part::Map.array_entries() as u64;
/// The LBNs that have contents, which are in three of these pages.
const WRITTEN: [u64; 8] = [0, 1, 2, 3, 4, 5, 700, 1100];

/// The content of one of these LBNs. The last ones have the same, and it has many references.
fn content_of(lbn: u64) -> Vec<u8> {
    content(1 + lbn.min(3), BLOCK)
}

/// A closed pool of the volume `a` and a snapshot of it, whose map has a directory of its own.
fn pool(policy: Policy) -> Simulation {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(policy, BLOCKS)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("a", LBNS * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    for lbn in WRITTEN {
        write(&volume, lbn * BLOCK as u64, &content_of(lbn)).unwrap();
    }
    pool.snapshot_volume("a", "b").unwrap();
    write(&volume, 0, &content_of(9)).unwrap();
    pool.checkpoint().unwrap();
    write(&volume, 0, &content_of(0)).unwrap();
    pool.close().unwrap();
    simulation
}

/// The structs of a closed pool, to be changed.
struct Forge {
    images: [Vec<u8>; 2],
    superblock: Superblock,
    seed: PoolSeed,
    root: Root,
    table: StoreTable,
}

impl Forge {
    fn new(closed: &Simulation) -> Self {
        let metadata = closed.disks().metadata;
        let superblock = read_superblock(&*metadata, &mut Vec::new()).unwrap();
        let seed = PoolSeed::of(&superblock);
        let root = find_roots(&*metadata, &superblock, seed).unwrap().newest;
        let chain = read_chain(&*metadata, &superblock, &root, seed).unwrap();
        let table = StoreTable::decode(&chain.stream).unwrap();
        Self { images: closed.images(), superblock, seed, root, table }
    }

    /// Changes the root page of a tree, and returns the tree with its new checksum.
    fn change(&mut self, tree: Tree, change: impl FnOnce(&mut Page)) -> Tree {
        let slot = tree.root.unwrap().slot;
        let offsets = self.superblock.regions().slot(slot).map(|offset| offset as usize);
        let mut page: Page = self.images[METADATA][offsets[0]..][..PAGE_BYTES].try_into().unwrap();
        change(&mut page);
        for offset in offsets {
            self.images[METADATA][offset..][..PAGE_BYTES].copy_from_slice(&page);
        }
        Tree { root: Some(NodeRef { slot, checksum: self.seed.checksum(&page) }), ..tree }
    }

    /// Writes the table over the one before, and the only root.
    fn done(mut self) -> Simulation {
        let metadata = Simulation::of_images(1, self.images.clone()).disks().metadata;
        let mut before = read_chain(&*metadata, &self.superblock, &self.root, self.seed).unwrap();
        let stream = self.table.encode();
        let chain = build_chain(&stream, self.seed, || before.slots.pop()).unwrap();
        let regions = self.superblock.regions();
        let pages = chain.pages.iter();
        let mut written: Vec<(u64, &Page)> =
            pages.flat_map(|(slot, page)| regions.slot(*slot).map(|at| (at, &**page))).collect();
        (self.root.table, self.root.table_bytes) = (chain.first, stream.len() as u64);
        let (root, superblock) =
            (self.root.encode(&self.superblock, self.seed), self.superblock.encode());
        written.extend(Root::offsets(self.root.generation).map(|at| (at, &*root)));
        written.extend(Superblock::offsets().map(|at| (at, &*superblock)));
        // A repair would take the root before if it could not take this one.
        let none = [0; PAGE_BYTES];
        written.extend(Root::offsets(self.root.generation - 1).map(|at| (at, &none)));
        for (at, page) in written {
            self.images[METADATA][at as usize..][..PAGE_BYTES].copy_from_slice(page);
        }
        Simulation::of_images(1, self.images)
    }
}

/// What a check with all contents finds.
fn told(disks: &PoolDisks) -> Vec<String> {
    let report = check(disks, CheckOptions { data: true }, &Silent, &StopFlag::new()).unwrap();
    report.problems.into_iter().map(|problem| problem.what).collect()
}

/// Why an opened pool takes no changes.
fn refused(disks: &PoolDisks) -> Vec<String> {
    match open(disks, tuning()) {
        Ok(pool) if pool.is_read_only() => vec![format!("{:?}", pool.damage())],
        Ok(_) => Vec::new(),
        Err(error) => vec![error.to_string()],
    }
}

fn repaired(disks: &PoolDisks, data: bool) -> Result<(), VolumeError> {
    let options = RepairOptions { data, choice: LossChoice::RollBack };
    repair(disks, options, &Silent, &StopFlag::new()).map(drop)
}

fn assert_has(pool: &Pool, name: &str, what: &str) {
    for lbn in WRITTEN {
        let found = read(&pool.volume(name).unwrap(), lbn * BLOCK as u64, BLOCK).unwrap();
        assert!(found == content_of(lbn), "{what}: block {lbn} of {name}");
    }
}

/// Repairs the pool, and changes it, which leaves nothing to tell.
fn assert_repairable(forged: &Simulation, data: bool, what: &str) {
    let disks = forged.disks();
    repaired(&disks, data).unwrap();
    assert_eq!(told(&disks), [""; 0], "{what}");
    let pool = open(&disks, tuning()).unwrap();
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{what}");
    ["a", "b"].into_iter().for_each(|name| assert_has(&pool, name, what));
    for lbn in WRITTEN {
        write(&pool.volume("a").unwrap(), lbn * BLOCK as u64, &content(90 + lbn, BLOCK)).unwrap();
    }
    pool.remove_volume("b").unwrap();
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{what}");
    pool.close().unwrap();
    assert_eq!(told(&disks), [""; 0], "{what}, after changes");
}

fn assert_names(said: &[String], words: &str, what: &str) {
    assert!(said.iter().any(|said| said.contains(words)), "{what}: {said:?}");
}

/// Only the references of a volume that is being removed leave it.
#[test]
fn a_volume_that_left_its_family_without_being_removed_is_refused() {
    for policy in Policy::ALL {
        let what = format!("{policy:?}");
        let mut forge = Forge::new(&pool(policy));
        forge.table.volumes[1].left = 1;
        let forged = forge.done();
        let words = "has left its family, but is not being removed";
        assert_names(&told(&forged.disks()), words, &what);
        assert_names(&refused(&forged.disks()), "the order of the volumes", &what);
        assert_repairable(&forged, false, &what);
    }
}

/// A power cut after a checkpoint in the middle of a removal.
#[test]
fn a_volume_that_is_being_removed_may_have_left_its_family() {
    const LARGE: u64 = 4000;
    for policy in Policy::ALL {
        let what = format!("{policy:?}");
        let simulation = Simulation::new(1);
        Pool::format(&simulation.disks(), &options_with(policy, 3 * LARGE)).unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        let own = |first: u64| (first..first + LARGE).flat_map(|id| content(id, BLOCK));
        pool.create_volume("a", LARGE * BLOCK as u64, DedupMode::Inline).unwrap();
        write(&pool.volume("a").unwrap(), 0, &own(1).collect::<Vec<_>>()).unwrap();
        pool.clone_volume("a", "b").unwrap();
        write(&pool.volume("a").unwrap(), 0, &own(1 + LARGE).collect::<Vec<_>>()).unwrap();
        pool.checkpoint().unwrap();
        let [_, copy] = Root::offsets(Forge::new(&simulation).root.generation + 1);
        let hold = simulation.hold_at(METADATA, Call::Write, copy..copy + 1);
        let crashed = std::thread::scope(|scope| {
            let removal = scope.spawn(|| pool.remove_volume("a"));
            hold.wait();
            let crashed = Simulation::of_images(1, simulation.images());
            hold.release();
            removal.join().unwrap().unwrap();
            crashed
        });
        assert!(Forge::new(&crashed).table.volumes.iter().any(|volume| volume.left > 0), "{what}");
        assert_eq!(told(&crashed.disks()), [""; 0], "{what}");
        let pool = open(&crashed.disks(), tuning()).unwrap();
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{what}");
        assert!(read(&pool.volume("b").unwrap(), 0, BLOCK).unwrap() == content(1, BLOCK), "{what}");
        pool.close().unwrap();
        assert_eq!(told(&crashed.disks()), [""; 0], "{what}");
    }
}

/// A page of a map that is also elsewhere in it, or that another map has with another checksum. It
/// is unknown which place is right.
#[test]
fn a_page_of_maps_in_two_places_is_refused() {
    for policy in Policy::ALL {
        for in_one_map in [false, true] {
            let what = format!("{policy:?}, {in_one_map}");
            let mut forge = Forge::new(&pool(policy));
            let map = forge.table.volumes[1].map;
            assert_eq!(map.height, 1, "{what}");
            forge.table.volumes[1].map = forge.change(map, |page| {
                let link = array_value(page, 1, NODE_REF_BYTES);
                match in_one_map {
                    true => set_array_value(page, 3, NODE_REF_BYTES, link),
                    false => set_array_value(page, 1, NODE_REF_BYTES, link ^ 1 << 40),
                }
            });
            let forged = forge.done();
            assert_names(&told(&forged.disks()), "is used in two ways", &what);
            assert_names(&refused(&forged.disks()), "is used in two ways", &what);
            let before = forged.images();
            let refused = repaired(&forged.disks(), false).unwrap_err().to_string();
            assert_names(&[refused], "is used in two ways", &what);
            assert!(forged.images() == before, "{what}");
        }
    }
}

/// The next copy of the header would destroy the content.
#[test]
fn a_content_where_the_copy_of_the_header_is_is_refused() {
    for policy in Policy::ALL {
        let what = format!("{policy:?}");
        let mut forge = Forge::new(&pool(policy));
        forge.superblock.header_copy = Some(Pbn::FIRST);
        let forged = forge.done();
        let before = forged.images();
        assert_names(&told(&forged.disks()), "lies where the copy of the header is", &what);
        let words = "a content where the copy of the data store's header is";
        assert_names(&refused(&forged.disks()), words, &what);
        for data in [false, true] {
            let refused = repaired(&forged.disks(), data).unwrap_err().to_string();
            assert_names(&[refused], words, &what);
            let outlook = repair_outlook(&forged.disks(), data, &Silent, &StopFlag::new()).unwrap();
            assert_names(outlook.refusal.as_slice(), words, &what);
        }
        assert!(forged.images()[DATA] == before[DATA], "{what}");
    }
}

/// A block that the data store does not have, and a large count of a block with few references.
#[test]
fn impossible_counts_are_dropped_by_a_repair() {
    for policy in Policy::ALL {
        for is_large in [false, true] {
            let what = format!("{policy:?}, {is_large}");
            let mut forge = Forge::new(&pool(policy));
            let part = if is_large { Part::Many } else { Part::Counts };
            let (many, counts) = (forge.table.many, forge.table.counts);
            let outside = CountAt::of(BLOCKS * 10);
            let (tree, at) = if is_large { (many, 1) } else { (counts, outside.group as usize) };
            assert_eq!(tree.height, 0, "{what}");
            let tree = forge.change(tree, |page| {
                let before = array_value(page, at, part.value_bytes());
                assert_eq!(before, 0, "{what}");
                let after = if is_large { 9 } else { outside.set(before, 1) };
                set_array_value(page, at, part.value_bytes(), after);
            });
            *(if is_large { &mut forge.table.many } else { &mut forge.table.counts }) = tree;
            let forged = forge.done();
            assert_ne!(told(&forged.disks()), [""; 0], "{what}");
            assert_repairable(&forged, false, &what);
        }
    }
}

/// Counts that say that free blocks are in use, to one of which a commit of the journal stores.
#[test]
fn wrong_counts_keep_no_repair_from_the_journal() {
    for policy in Policy::ALL {
        let what = format!("{policy:?}");
        let simulation = pool(policy);
        let opened = open(&simulation.disks(), tuning()).unwrap();
        write(&opened.volume("a").unwrap(), 7 * BLOCK as u64, &content(77, BLOCK)).unwrap();
        opened.flush().unwrap();
        let mut forge = Forge::new(&simulation);
        let (tree, bytes) = (forge.table.counts, Part::Counts.value_bytes());
        forge.table.counts = forge.change(tree, |page| {
            for at in (1..BLOCKS).map(CountAt::of) {
                let group = array_value(page, at.group as usize, bytes);
                let count = at.set(group, at.get(group).max(1));
                set_array_value(page, at.group as usize, bytes, count);
            }
        });
        let disks = forge.done().disks();
        assert_names(&refused(&disks), "which is in use", &what);
        repaired(&disks, false).unwrap();
        assert_eq!(told(&disks), [""; 0], "{what}");
        let pool = open(&disks, tuning()).unwrap();
        let found = read(&pool.volume("a").unwrap(), 7 * BLOCK as u64, BLOCK).unwrap();
        assert!(found == content(77, BLOCK), "{what}");
        assert_has(&pool, "a", &what);
    }
}

/// A fingerprint that is not that of the content is found by reading the content.
#[test]
fn a_wrong_fingerprint_is_made_right_by_a_repair_with_the_contents() {
    for policy in Policy::ALL {
        let what = format!("{policy:?}");
        let mut forge = Forge::new(&pool(policy));
        let (tree, bytes) = (forge.table.fingerprints, Part::Fingerprints.value_bytes());
        assert_eq!(tree.height, 0, "{what}");
        forge.table.fingerprints = forge.change(tree, |page| {
            let before = array_value(page, 1, bytes);
            assert_ne!(before, 0, "{what}");
            set_array_value(page, 1, bytes, before ^ 1 << 20);
        });
        let forged = forge.done();
        assert_ne!(told(&forged.disks()), [""; 0], "{what}");
        assert_repairable(&forged, true, &what);
    }
}

/// The id of the next volume is one more, and 0 stands for no volume.
#[test]
fn no_volume_gets_an_id_that_none_can_have() {
    for policy in Policy::ALL {
        let what = format!("{policy:?}");
        let mut forge = Forge::new(&pool(policy));
        forge.root.next_volume = u32::MAX - 1;
        let disks = forge.done().disks();
        assert_eq!(told(&disks), [""; 0], "{what}");
        let pool = open(&disks, tuning()).unwrap();
        let create = |name| pool.create_volume(name, LBNS * BLOCK as u64, DedupMode::Inline);
        create("last").unwrap();
        let error = create("beyond").unwrap_err().to_string();
        assert_names(&[error], "no volume can have the id 4294967295", &what);
        assert!(pool.snapshot_volume("a", "beyond").is_err(), "{what}");
        assert!(pool.clone_volume("a", "beyond").is_err(), "{what}");
        pool.close().unwrap();
        assert_eq!(told(&disks), [""; 0], "{what}, after changes");
        let empty = Simulation::new(1);
        Pool::format(&empty.disks(), &options_with(policy, BLOCKS)).unwrap();
        open(&empty.disks(), tuning()).unwrap().close().unwrap();
        let with_next = |next_volume| {
            let mut forge = Forge::new(&empty);
            forge.root.next_volume = next_volume;
            forge
        };
        let with_volume = |id| {
            let mut forge = with_next(u32::MAX);
            let volume = Forge::new(&self::pool(policy)).table.volumes.swap_remove(0);
            let record = VolumeRecord { id: VolumeId(id), ..volume.record };
            let (map, mapped, stored) = (Tree::default(), 0, 0);
            let none = StoreVolume { record, map, mapped, stored, follows: None, ..volume };
            forge.table.volumes.push(none);
            forge
        };
        assert_eq!(told(&with_volume(7).done().disks()), [""; 0], "{what}");
        for forge in [with_next(0), with_volume(0), with_volume(u32::MAX)] {
            let disks = forge.done().disks();
            let checked = check(&disks, CheckOptions { data: true }, &Silent, &StopFlag::new());
            assert!(!checked.is_ok_and(|report| report.is_clean()), "{what}");
            assert_ne!(refused(&disks), [""; 0], "{what}");
        }
    }
}
