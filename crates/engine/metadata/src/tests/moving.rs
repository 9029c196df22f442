//! Moves between all backends, while the metadata change. The new backend is compared with the
//! model, and so is the state that its root has.

use super::CACHE_BYTES;
use super::pair::Pair;
use super::{checksum_of, stored};
use crate::{BackendContext, Checkpoint, GivenUp, Map, MetadataBackend, MoveStep, Repair, Volumes};
use gemelo_disk::testing::DiskLayer;
use gemelo_disk::{Disk, DiskRead};
use gemelo_format::{BackendKind, Change, Fingerprint, Lbn, Pbn, Root, VolumeId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Changes before a move.
const CHANGES: usize = 2500;
/// Moves of each pair of backends.
const SEEDS: u64 = 12;

/// A move under way.
struct Move {
    pair: Pair,
    /// A volume that is being removed, and where its next piece begins.
    hidden: Option<(u32, Lbn)>,
    steps: u64,
}

/// A disk that reads wrong bytes when it is told to.
struct FailingDisk {
    below: Arc<dyn Disk>,
    fails: AtomicBool,
}

impl DiskLayer for FailingDisk {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        self.below.read_many(reads);
        if self.fails.load(Ordering::Relaxed) {
            reads.iter_mut().for_each(|read| read.buffer.fill(0xAA));
        }
    }
}

impl Move {
    fn begin(from: BackendKind, to: BackendKind, seed: u64) -> Self {
        Self::begin_on(from, to, seed, |disk| disk)
    }

    /// Begins a move to a backend on this disk.
    fn begin_on(
        from: BackendKind,
        to: BackendKind,
        seed: u64,
        on: impl FnOnce(Arc<dyn Disk>) -> Arc<dyn Disk>,
    ) -> Self {
        let mut pair = Pair::new(from, seed);
        pair.create(1);
        pair.create(2);
        (0..CHANGES).for_each(|_| pair.step(true));
        (0..8).for_each(|_| pair.change_volume());
        let superblock = pair.superblock.clone();
        pair.backend.begin_move(
            to,
            BackendContext::new(on(pair.metadata()), &superblock),
            CACHE_BYTES,
        );
        pair.is_moved = true;
        Self { pair, hidden: None, steps: 0 }
    }

    /// Makes some changes, those of whole volumes seldom.
    fn change(&mut self) {
        let pair = &mut self.pair;
        (0..pair.random.below(12)).for_each(|_| pair.step(false));
        match pair.random.below(40) {
            0 => pair.change_volume(),
            1 if self.hidden.is_none() => self.hidden = Some((pair.hide_any(), Lbn(0))),
            // The model does not know what a hidden volume still refers to.
            2 if self.hidden.is_none() => pair.free_unused(),
            _ => {}
        }
        if let Some((id, from)) = self.hidden
            && self.pair.random.below(3) == 0
        {
            self.unmap_next(id, from);
        }
    }

    fn unmap_next(&mut self, id: u32, from: Lbn) {
        self.hidden = self.pair.unmap_piece(id, from, 1024).map(|end| (id, end));
        if self.hidden.is_none() {
            self.pair.remove(id);
        }
    }

    /// Writes a checkpoint of the old backend, or fails to, while changes go on.
    fn checkpoint(&mut self) {
        self.pair.backend.freeze();
        self.change();
        self.pair.write();
        self.change();
        match self.pair.random.below(4) {
            0 => self.pair.backend.abandon(),
            _ => drop(self.pair.backend.finish()),
        }
    }

    /// Prepares a step and makes it after further changes. Returns whether there may be more.
    fn step(&mut self) -> bool {
        self.steps += 1;
        let step = self.pair.backend.prepare_step().unwrap().unwrap();
        if let MoveStep::Copy(_) = step {
            self.change();
        }
        let is_more = self.pair.backend.step(&step);
        if self.pair.backend.has_move_failed() {
            panic!("{:?}", self.pair.backend.give_up_move().and_then(GivenUp::reason));
        }
        is_more
    }

    /// Copies everything.
    fn copy(&mut self) {
        while self.step() {
            match self.pair.random.below(20) {
                0 => self.checkpoint(),
                1 if self.steps.is_multiple_of(16) => {
                    assert_eq!(self.pair.backend.prove(5).unwrap(), Vec::<String>::new());
                }
                _ => {}
            }
        }
        while let Some((id, from)) = self.hidden {
            self.unmap_next(id, from);
        }
        while self.step() {}
    }

    /// Writes the checkpoint of the new backend.
    fn switch(&mut self) -> Root {
        assert!(self.pair.backend.begin_switch().unwrap(), "every volume is there");
        self.pair.backend.freeze();
        self.pair.write()
    }
}

fn moves(from: BackendKind, to: BackendKind) {
    for seed in 0..SEEDS {
        let mut moving = Move::begin(from, to, seed);
        moving.copy();
        let root = moving.switch();
        assert_eq!(root.backend, to);
        let at_freeze = moving.pair.model.clone();
        (0..300).for_each(|_| moving.pair.step(false));
        let mut pair = moving.pair;
        drop(pair.backend.finish());
        assert_eq!(pair.backend.kind(), to);
        pair.compare();
        let pages = pair.backend.totals().pages;
        pair.model = at_freeze;
        pair.reload(&root);
        assert_eq!(pair.backend.totals().pages, pages, "no slot is lost");
        pair.compare();
        // The new backend works on.
        pair.free_unused();
        (0..500).for_each(|_| pair.step(true));
        pair.backend.freeze();
        pair.write();
        pair.backend.finish();
        pair.compare();
    }
}

fn moves_from(from: BackendKind) {
    BackendKind::ALL.into_iter().filter(|to| *to != from).for_each(|to| moves(from, to));
}

gemelo_format::test_each_backend!(moves_to_all_others, moves_from);

#[test]
fn a_move_that_is_given_up_leaves_the_old_backend_and_no_slot() {
    for (from, to) in BackendKind::ALL.into_iter().zip(BackendKind::ALL.into_iter().rev()) {
        let mut moving = Move::begin(from, to, 7);
        for _ in 0..30 {
            moving.step();
        }
        moving.checkpoint();
        assert!(
            moving.pair.backend.give_up_move().is_some_and(|given_up| given_up.reason().is_none())
        );
        let mut pair = moving.pair;
        pair.backend.freeze();
        let root = pair.write();
        let totals = pair.backend.totals();
        let root = Root { references: totals.references, physical: totals.physical, ..root };
        drop(pair.backend.finish());
        let pages = pair.backend.totals().pages;
        assert_eq!((pair.backend.kind(), root.backend), (from, from));
        pair.reload(&root);
        assert_eq!(pair.backend.totals().pages, pages, "no slot is lost");
    }
}

/// The instant from which on the new backend fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailsAfter {
    /// Everything is copied, and a checkpoint of the old backend is under way.
    Copy,
    /// The next checkpoint will be that of the new backend.
    BeginSwitch,
    /// That checkpoint has the state of the new backend.
    Freeze,
}

/// Makes changes that the new backend has to read for, until one fails or the move has.
fn change_until_failed(moving: &mut Move) -> Option<String> {
    let backend = &mut moving.pair.backend;
    for number in 0..1000 {
        let (lbn, pbn) = (Lbn(number * 20), Pbn::new(100_000 + number).unwrap());
        let (volume, checksum) = (VolumeId(1), checksum_of(pbn.number()));
        let fingerprint = Fingerprint::NONE;
        let change = Change::Store { volume, lbn, pbn, fingerprint, checksum };
        if let Err(error) = backend.apply(&[change], &mut Vec::new()) {
            return Some(error.to_string());
        }
        let mut places = Vec::new();
        backend.look_up(volume, &[lbn], &mut places).unwrap();
        assert_eq!(places, [stored(pbn.number())], "the pool has its change");
        if backend.has_move_failed() {
            return None;
        }
    }
    panic!("the new backend reads nothing");
}

/// A failure of the new backend ends the move and no change, until its own root may be durable: a
/// change that it does not have must not be acknowledged then.
#[test]
fn a_change_fails_with_the_new_backend_only_if_its_root_may_be_durable() {
    use FailsAfter::{BeginSwitch, Copy, Freeze};
    for to in [BackendKind::Table, BackendKind::BTree, BackendKind::Compact] {
        for fails_after in [Copy, BeginSwitch, Freeze] {
            let mut disk = None;
            let mut moving = Move::begin_on(BackendKind::Log, to, 7, |below| {
                let failing = Arc::new(FailingDisk { below, fails: AtomicBool::new(false) });
                disk = Some(Arc::clone(&failing));
                failing
            });
            moving.copy();
            moving.pair.backend.freeze();
            moving.pair.write();
            drop(moving.pair.backend.finish());
            if fails_after == Copy {
                moving.pair.backend.freeze();
                moving.pair.write();
            } else {
                assert!(moving.pair.backend.begin_switch().unwrap());
            }
            if fails_after == Freeze {
                moving.pair.backend.freeze();
                assert_eq!(moving.pair.write().backend, to);
            }
            disk.unwrap().fails.store(true, Ordering::Relaxed);
            let failed = change_until_failed(&mut moving);
            assert_eq!(failed.is_some(), fails_after == Freeze, "{to:?} {fails_after:?}");
            if fails_after == Copy {
                drop(moving.pair.backend.finish());
            }
            if fails_after != Freeze {
                moving.pair.backend.freeze();
                assert_eq!(moving.pair.backend.kind(), BackendKind::Log, "it stays");
                assert!(moving.pair.backend.give_up_move().and_then(GivenUp::reason).is_some());
            }
        }
    }
}

/// While a clone is copied, the volume that it began as gets an entry of the clone. They differ no
/// more, so that the copy would not find it.
#[test]
fn a_base_that_becomes_equal_to_its_clone_changes_the_clone() {
    for from in BackendKind::ALL {
        for to in BackendKind::ALL.into_iter().filter(|to| *to != from) {
            let mut pair = Pair::new(from, 5);
            pair.create(1);
            pair.store(1, 5);
            let clone = pair.backend.totals().next_volume;
            pair.clone_volume(1);
            pair.store(clone, 5);
            let superblock = pair.superblock.clone();
            pair.backend.begin_move(
                to,
                BackendContext::new(pair.metadata(), &superblock),
                CACHE_BYTES,
            );
            let mut begun = 0;
            while begun < 2 {
                let step = pair.backend.prepare_step().unwrap().unwrap();
                begun += u32::from(matches!(step, MoveStep::Begin));
                assert!(pair.backend.step(&step), "a volume is left");
            }
            pair.share_from(clone, 1, 5);
            let mut moving = Move { pair, hidden: None, steps: 0 };
            loop {
                let step = moving.pair.backend.prepare_step().unwrap().unwrap();
                if !moving.pair.backend.step(&step) {
                    break;
                }
            }
            moving.switch();
            drop(moving.pair.backend.finish());
            moving.pair.compare();
        }
    }
}

/// Clones share their maps in the new backend as in the old one.
#[test]
fn clones_take_no_room_of_their_own_after_a_move() {
    let sharing = BackendKind::ALL.into_iter().filter(|kind| *kind != BackendKind::BTree);
    for from in sharing.clone() {
        for to in sharing.clone().filter(|to| *to != from) {
            let pages_with = |clones: u64| {
                let mut pair = Pair::new(from, 3);
                pair.create(1);
                (0..20_000).for_each(|_| pair.step(false));
                (0..clones).for_each(|_| pair.clone_volume(1));
                let superblock = pair.superblock.clone();
                pair.backend.begin_move(
                    to,
                    BackendContext::new(pair.metadata(), &superblock),
                    CACHE_BYTES,
                );
                let mut moving = Move { pair, hidden: None, steps: 0 };
                while let Some(step) = moving.pair.backend.prepare_step().unwrap() {
                    if !moving.pair.backend.step(&step) {
                        break;
                    }
                }
                moving.switch();
                drop(moving.pair.backend.finish());
                assert_eq!(moving.pair.backend.volumes().len() as u64, 1 + clones);
                moving.pair.backend.totals().pages
            };
            let (without, with) = (pages_with(0), pages_with(50));
            assert!(with <= without + 8, "{from:?} to {to:?}: {without} pages, {with} with clones");
        }
    }
}
