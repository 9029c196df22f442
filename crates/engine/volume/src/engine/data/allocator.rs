//! Gives out free PBNs, and takes back those that nothing refers to.
//!
//! One lock guards the space: which PBNs are in use, which blocks have room, and the blocks that
//! the cleaner has for itself. The count of taken blocks grows with the space locked alone, so that
//! the sum of these and the free ones is known at one instant.

use super::owners::Owners;
use super::{ContentSpace, LeftBlocks, Rule, Unmapped, Window};
use crate::engine::health::Health;
use crate::engine::locks::{OrderedGuard, OrderedMutex, Rank};
use gemelo_format::Pbn;
use gemelo_store::block_number;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Contents whose blocks are looked at while writers wait for the lock of the space.
const LEFT_AT_ONCE: usize = 1024;
/// Blocks that are looked at while writers wait for the lock of the space.
const LOOKED_AT: u32 = 1 << 16;

/// The free PBNs of an open pool; see the module.
pub(crate) struct Allocator {
    space: OrderedMutex<ContentSpace>,
    pub(super) owners: Owners,
    /// Blocks that writes under way have taken.
    taken: AtomicU64,
    /// Blocks that the veto holds and nothing refers to. It changes with the space locked.
    held: AtomicU64,
}

/// PBNs that count as taken until the guard is dropped.
pub(crate) type TakenPbns<'e> = (Vec<Pbn>, Taken<'e>);

/// The outcome of a search for a run of free blocks.
pub(crate) enum RunSearch<'e> {
    /// The run, whose blocks count as taken until the guard is dropped.
    Found(Vec<Pbn>, Taken<'e>),
    /// There is none in the part that was searched. The search goes on here.
    GoOn(u64),
    /// There is none up to the end of the store.
    End,
    /// Too few blocks are free.
    Full,
}

/// Blocks that a write has taken, until it has made its changes or given them back.
pub(crate) struct Taken<'e> {
    all: &'e AtomicU64,
    count: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.count, Ordering::Relaxed);
    }
}

impl Allocator {
    pub(super) fn new(space: ContentSpace, health: &Arc<Health>) -> Self {
        let allocator = Self {
            space: OrderedMutex::new(Rank::Space, health, space),
            owners: Owners::default(),
            taken: AtomicU64::new(0),
            held: AtomicU64::new(0),
        };
        allocator.fill_reserve();
        allocator
    }

    /// The space, locked.
    pub(super) fn lock(&self) -> OrderedGuard<'_, ContentSpace> {
        self.space.lock()
    }

    /// Makes the blocks usable up to this number.
    pub(super) fn grow(&self, data_blocks: u64) {
        self.lock().grow(data_blocks);
        self.fill_reserve();
    }

    /// Gives out no block of these any more.
    pub(super) fn bar(&self, blocks: Range<u64>) {
        self.lock().bar(blocks);
        self.fill_reserve();
    }

    /// Gives out barred blocks again.
    pub(super) fn unbar(&self) {
        self.lock().blocks_mut().unbar();
        self.fill_reserve();
    }

    /// The number of free blocks in a part of the store.
    pub(crate) fn free_in(&self, blocks: &Range<u64>) -> u64 {
        self.lock().blocks().free_in(blocks)
    }

    /// Has another block be in use for ever in place of this one. Both are barred.
    pub(super) fn move_fixed(&self, from: Pbn, to: Pbn) {
        self.lock().blocks_mut().move_fixed(from.number(), to.number());
    }

    /// The barred blocks that nobody uses.
    pub(crate) fn parked_blocks(&self) -> u64 {
        self.lock().blocks().parked()
    }

    /// Forgets the blocks from this one on, which are all parked or have no content for ever.
    pub(super) fn cut(&self, data_blocks: u64) {
        self.lock().cut(data_blocks);
        self.fill_reserve();
    }

    /// Notes that PBNs are taken which were free until now. The space is locked since.
    pub(super) fn taken(
        &self,
        space: OrderedGuard<'_, ContentSpace>,
        pbns: Vec<Pbn>,
    ) -> TakenPbns<'_> {
        pbns.iter().for_each(|pbn| self.owners.take(*pbn));
        let count = pbns.len() as u64;
        self.taken.fetch_add(count, Ordering::Relaxed);
        drop(space);
        (pbns, Taken { all: &self.taken, count })
    }

    /// Takes free blocks: for each that is to be near another one a hole there if there is one, and
    /// blocks in a row for the others. `near` is empty if that is all the same.
    pub(super) fn take(&self, wanted: usize, near: &[Option<Pbn>]) -> Option<TakenPbns<'_>> {
        assert!(near.is_empty() || near.len() == wanted, "each block has a wish or none has");
        let mut pbns = Vec::with_capacity(wanted);
        let mut space = self.lock();
        if space.blocks().free() < wanted as u64 {
            return None;
        }
        let blocks = space.blocks_mut();
        for wish in near {
            match wish.and_then(|wish| blocks.take_near(wish)) {
                Some(found) => pbns.push(found),
                None => blocks.take(1, &mut pbns),
            }
        }
        blocks.take(wanted - pbns.len(), &mut pbns);
        assert_eq!(pbns.len(), wanted, "as many blocks as were free");
        Some(self.taken(space, pbns))
    }

    /// Takes the next run of free blocks at or after `from`, of a length in `lengths`, unless fewer
    /// than `kept` blocks would stay free. Looks at a part of the store only.
    pub(crate) fn take_run(&self, from: u64, lengths: (u32, u32), kept: u64) -> RunSearch<'_> {
        let (least, most) = lengths;
        let mut space = self.lock();
        let blocks = space.blocks_mut();
        if blocks.free() < kept + u64::from(least) {
            return RunSearch::Full;
        }
        let most = u64::from(most).min(blocks.free() - kept) as u32;
        let (run, next) = blocks.take_free_run(from, least, most);
        let Some((first, count)) = run else { return next.map_or(RunSearch::End, RunSearch::GoOn) };
        let numbers = first.number()..first.number() + u64::from(count);
        let (pbns, taken) = self.taken(space, numbers.filter_map(Pbn::new).collect());
        RunSearch::Found(pbns, taken)
    }

    /// Frees blocks that were taken, and that nothing has ever referred to.
    pub(crate) fn give_back(&self, pbns: Vec<Pbn>) {
        if !pbns.is_empty() {
            let mut space = self.lock();
            for pbn in pbns {
                self.owners.give_back(pbn);
                space.release(pbn, |_| ());
            }
        }
    }

    /// Frees retired blocks that no request reads, or leaves them to the veto, if `keeps` says so.
    /// Calls with the blocks of the store that are free then, before a writer can have them.
    pub(super) fn free(
        &self,
        unread: Vec<Pbn>,
        keeps: impl Fn(Pbn) -> bool,
        told: impl FnOnce(&[Pbn]),
    ) {
        let (mut space, mut freed) = (self.lock(), Vec::new());
        for pbn in unread {
            if keeps(pbn) {
                self.owners.hold(pbn);
                self.held.fetch_add(1, Ordering::Relaxed);
            } else {
                self.owners.free(pbn);
                space.release(pbn, |block| freed.push(block));
            }
        }
        told(&freed);
    }

    /// Keeps blocks that nothing refers to, and that the veto holds since the pool was opened.
    pub(crate) fn hold_unused(&self, pbns: &[Pbn]) {
        let mut space = self.lock();
        for pbn in pbns {
            let was_free = space.claim(*pbn);
            assert!(was_free, "block {} is held and in use", pbn.number());
            self.owners.hold_unused(*pbn);
        }
        self.held.fetch_add(pbns.len() as u64, Ordering::Relaxed);
    }

    /// Frees blocks that the veto held.
    pub(crate) fn free_held(&self, pbns: &[Pbn]) {
        let mut space = self.lock();
        for pbn in pbns {
            self.owners.free_held(*pbn);
            space.release(*pbn, |_| ());
        }
        self.held.fetch_sub(pbns.len() as u64, Ordering::Relaxed);
    }

    /// Counts blocks at one instant, beside the retired ones and those that wait for a checkpoint.
    /// `due` tells how many of those that the veto holds it is about to give back.
    pub(super) fn unmapped(
        &self,
        (retired, named): (u64, u64),
        due: impl FnOnce() -> u64,
    ) -> Unmapped {
        let space = self.lock();
        let taken = self.taken.load(Ordering::Relaxed);
        let held = self.held.load(Ordering::Relaxed);
        let (free, due) = (space.blocks().free(), due().min(held));
        Unmapped { free, retired, named, taken, held, due }
    }

    /// Notes that the metadata refer to a block that was taken.
    pub(crate) fn note_mapped(&self, pbn: Pbn) {
        debug_assert!(self.is_used(pbn), "block {} is free", pbn.number());
        self.owners.map(pbn);
    }

    /// Returns whether the block exists and is not free. Takes a lock, so only assertions call it.
    pub(crate) fn is_used(&self, pbn: Pbn) -> bool {
        let space = self.lock();
        space.is_within(pbn) && space.is_used(pbn)
    }

    /// Contents in use, with `reserved` blocks that have none.
    pub(crate) fn contents_in_use(&self, reserved: u64) -> u64 {
        self.lock().contents(reserved)
    }

    /// The contents in use.
    pub(crate) fn used(&self) -> Vec<Pbn> {
        let mut used = Vec::new();
        self.lock().each_used(&mut |pbn| used.push(pbn));
        used
    }

    /// Looks for blocks whose space can be given back; see [`ContentSpace::left_blocks`].
    pub(crate) fn left_blocks(
        &self,
        pbns: &[Pbn],
        is_elsewhere: &dyn Fn(&Pbn) -> bool,
    ) -> LeftBlocks {
        let mut left = LeftBlocks::default();
        for some in pbns.chunks(LEFT_AT_ONCE) {
            let LeftBlocks { unused, open } = self.lock().left_blocks(some, is_elsewhere);
            left.unused.extend(unused);
            left.open.extend(open);
        }
        left.unused.sort_unstable();
        left.unused.dedup();
        left
    }

    /// Blocks that can be taken at once.
    pub(crate) fn free_blocks(&self) -> u64 {
        self.lock().free_blocks()
    }

    /// Free blocks for writers, and all blocks of the store.
    pub(crate) fn free_of_all(&self) -> (u64, u64) {
        let space = self.lock();
        (space.blocks().free(), space.blocks().blocks())
    }

    /// Free blocks whose space on disk was used before and was not given back.
    pub(crate) fn undiscarded_blocks(&self) -> u64 {
        self.lock().blocks().freed()
    }

    /// Free blocks that may have been used before the pool was opened.
    pub(crate) fn unswept_blocks(&self) -> u64 {
        self.lock().blocks().unswept()
    }

    /// Contents that were freed since the pool was opened, and those in use.
    pub(crate) fn released_and_used(&self) -> (u64, u64) {
        let space = self.lock();
        (space.released(), space.contents(0))
    }

    /// Finds windows in the next blocks; see [`ContentSpace::windows`]. Returns where to go on, or
    /// [`None`] at the end of the store.
    pub(crate) fn windows(&self, from: u32, rule: Rule, found: &mut Vec<Window>) -> Option<u32> {
        let space = self.lock();
        let all = space.blocks().blocks() as u32;
        let end = all.min(from.saturating_add(LOOKED_AT));
        space.windows(from..end, rule, found);
        (end < all).then_some(end)
    }

    /// A bit for each slot in use of these blocks.
    pub(crate) fn used_slots(&self, blocks: Range<u32>) -> Vec<u8> {
        self.lock().used_slots(blocks)
    }

    /// The contents that have a part in a block of this range.
    pub(crate) fn contents_of_blocks(&self, blocks: Range<u32>) -> Vec<Pbn> {
        let numbers: Vec<Pbn> = blocks.filter_map(block_number).collect();
        self.lock().contents_of(&numbers)
    }

    /// Fills the cleaner's reserve, with the longest runs of free blocks that there are. A store
    /// that does not compress has none.
    fn fill_reserve(&self) {
        let mut space = self.lock();
        space.set_reserve();
        let goal = space.reserve_goal();
        // Writers begin at the front of a fresh store.
        let end = space.blocks().blocks() as u32;
        space.fit_reserve(end.saturating_sub(goal), goal);
        drop(space);
        let mut least = goal;
        while least > 0 {
            self.fit_reserve(least);
            least /= 2;
        }
    }

    /// Looks for a free run of at least `least` blocks if the cleaner's reserve has none.
    fn fit_reserve(&self, least: u32) {
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.lock().fit_reserve(from, least);
        }
    }

    /// Prepares the cleaner's reserve for a pass.
    pub(crate) fn begin_cleaning(&self) {
        let mut space = self.lock();
        space.expect_emptied(&[], true);
        let goal = space.reserve_goal();
        drop(space);
        self.fit_reserve(goal);
    }

    /// Notes that the cleaner moves all contents of these blocks, which are its own then.
    pub(crate) fn expect_emptied(&self, blocks: &[u32]) {
        self.lock().expect_emptied(blocks, false);
    }

    /// Gives blocks to writers that the cleaner does not need.
    pub(crate) fn give_surplus(&self) {
        self.lock().give_surplus();
    }

    /// The lengths of the runs of the cleaner's blocks, the longest one first, and of all together
    /// when none is missing.
    pub(crate) fn reserved_runs(&self) -> (Vec<u64>, u64) {
        let space = self.lock();
        (space.reserved_runs(), u64::from(space.reserve_goal()))
    }
}
