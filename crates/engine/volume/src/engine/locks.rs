//! Locks whose order is checked in debug builds.
//!
//! [`Rank`] lists every lock of the engine in the order in which a thread takes them. A debug
//! build keeps the ranks that each thread holds, and panics where a lock is taken out of order,
//! so every test also tests the order. A release build has no trace of it.
//!
//! A try that gives up after a while cannot deadlock, so it may come out of order. What is locked
//! after it still has to follow all that is held.
//!
//! A panic while one of them is locked stops the pool before it is released: the state that it
//! guards may be half changed, and no other thread must acknowledge or write what it finds there.
//!
//! Locks that are private to one type, and whose holder calls nothing but that type, need no rank:
//! the members of a group commit and the stop signal of a worker, which wait on condition
//! variables.

use super::health::{Health, PanicWatch};
use gemelo_base::locks::{self, Mutex, MutexGuard};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

/// The locks of the engine, in the order in which they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// A volume: shared while it is copied, alone while it is removed or resized.
    Resizing,
    /// Changes of the list of volumes, and of the pool's size.
    Catalogue,
    /// The gate of a volume: shared by requests, alone for a change of the whole volume.
    Gate,
    /// Partial writes of a block.
    Patch,
    /// The work of the cleaner.
    Cleaning,
    /// Free blocks that the collector has taken to discard them.
    Discarding,
    /// The lead of a group commit.
    GroupCommit,
    /// Checkpoints, and changes of whole volumes.
    Checkpoint,
    /// Allocation of slots on the metadata disk.
    Allocation,
    /// Commits that are closed and not durable, and the journal.
    Committer,
    /// Syncs of one disk.
    Sync,
    /// The volumes by name.
    Names,
    /// The metadata, the open commit and the copies under way.
    State,
    /// The blocks of a volume that the finder has to look at.
    Dirty,
    /// Damaged blocks that were found.
    Damages,
    /// Blocks that no durable state refers to and that a request may still read.
    Retired,
    /// The block of the data store to which compressed contents are added.
    Packer,
    /// Free blocks.
    Space,
    /// Volumes that are to be cleared.
    Hidden,
    /// The settings that change while the pool is open.
    Tuning,
}

#[cfg(debug_assertions)]
mod check {
    use super::Rank;
    use std::cell::RefCell;

    thread_local! {
        static HELD: RefCell<Vec<(Rank, u64)>> = const { RefCell::new(Vec::new()) };
    }

    /// The place of a lock in the order; `number` tells locks of one rank apart.
    #[derive(Clone, Copy)]
    pub(crate) struct LockPosition(Rank, u64);

    impl LockPosition {
        pub(super) const fn new(rank: Rank, number: u64) -> Self {
            Self(rank, number)
        }

        /// Panics if this lock is out of order. Called before the thread waits for the lock.
        pub(super) fn assert_next(self) {
            let last = HELD.with_borrow(|held| held.iter().max().copied());
            assert!(
                last.is_none_or(|last| last < (self.0, self.1)),
                "lock order: {:?} {} is taken while {last:?} is held",
                self.0,
                self.1
            );
        }

        pub(super) fn hold(self) -> Held {
            HELD.with_borrow_mut(|held| held.push((self.0, self.1)));
            Held(self)
        }
    }

    /// A lock that this thread holds.
    pub(crate) struct Held(LockPosition);

    impl Drop for Held {
        fn drop(&mut self) {
            let LockPosition(rank, number) = self.0;
            // The thread may be ending.
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(at) = held.iter().rposition(|one| *one == (rank, number)) {
                    held.remove(at);
                }
            });
        }
    }
}

#[cfg(not(debug_assertions))]
mod check {
    use super::Rank;

    #[derive(Clone, Copy)]
    pub(crate) struct LockPosition;

    impl LockPosition {
        pub(super) const fn new(_: Rank, _: u64) -> Self {
            Self
        }

        #[inline]
        pub(super) const fn assert_next(self) {}

        #[inline]
        pub(super) const fn hold(self) -> Held {
            Held
        }
    }

    pub(crate) struct Held;
}

pub(crate) use check::Held;
use check::LockPosition;

/// Notes that this thread takes a resource with a rank that this module does not lock.
pub(crate) fn enter(rank: Rank) -> Held {
    let place = LockPosition::new(rank, 0);
    place.assert_next();
    place.hold()
}

/// A guard, and the note that it is held. After a panic the pool is stopped first. Then the lock is
/// released.
pub(crate) struct Ordered<'a, G> {
    _watch: PanicWatch<'a>,
    guard: G,
    _held: Held,
}

impl<G: Deref> Deref for Ordered<'_, G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Ordered<'_, G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// A lock with a rank.
pub(crate) struct Ranked<L> {
    lock: L,
    place: LockPosition,
    health: Arc<Health>,
}

/// A mutex with a rank.
pub(crate) type OrderedMutex<T> = Ranked<Mutex<T>>;
/// A lock with a rank for readers and writers who hold it for microseconds.
pub(crate) type OrderedQuickLock<T> = Ranked<locks::RwLock<T>>;
/// A lock with a rank for readers and writers who may hold it for long. A thread that waits for it
/// never holds it already, because a reader that comes again waits for a writer that waits for the
/// reader.
pub(crate) type OrderedRwLock<T> = Ranked<RwLock<T>>;

/// The guard of an [`OrderedMutex`].
pub(crate) type OrderedGuard<'a, T> = Ordered<'a, MutexGuard<'a, T>>;
/// The guard of a reader of an [`OrderedQuickLock`].
pub(crate) type QuickRead<'a, T> = Ordered<'a, locks::RwLockReadGuard<'a, T>>;
/// The guard of a writer of an [`OrderedQuickLock`].
pub(crate) type QuickWrite<'a, T> = Ordered<'a, locks::RwLockWriteGuard<'a, T>>;
/// The guard of a reader of an [`OrderedRwLock`].
pub(crate) type OrderedRead<'a, T> = Ordered<'a, RwLockReadGuard<'a, T>>;
/// The guard of a writer of an [`OrderedRwLock`].
pub(crate) type OrderedWrite<'a, T> = Ordered<'a, RwLockWriteGuard<'a, T>>;

impl<L> Ranked<L> {
    pub(crate) fn new<T>(rank: Rank, health: &Arc<Health>, value: T) -> Self
    where
        L: From<T>,
    {
        Self::numbered(rank, 0, health, value)
    }

    /// One of several locks of a rank, which are taken in the order of their numbers.
    pub(crate) fn numbered<T>(rank: Rank, number: u64, health: &Arc<Health>, value: T) -> Self
    where
        L: From<T>,
    {
        let place = LockPosition::new(rank, number);
        Self { lock: L::from(value), place, health: Arc::clone(health) }
    }

    /// Waits for the lock in its order.
    #[inline]
    fn wait<'a, G>(&'a self, take: impl FnOnce(&'a L) -> G) -> Ordered<'a, G> {
        self.place.assert_next();
        self.held(take(&self.lock))
    }

    /// Notes that this thread has the lock.
    #[inline]
    fn held<'a, G>(&'a self, guard: G) -> Ordered<'a, G> {
        Ordered { _watch: self.health.watch(), guard, _held: self.place.hold() }
    }
}

impl<T> OrderedMutex<T> {
    #[inline]
    pub(crate) fn lock(&self) -> OrderedGuard<'_, T> {
        self.wait(Mutex::lock)
    }

    /// Locks it if no other thread has.
    pub(crate) fn try_lock(&self) -> Option<OrderedGuard<'_, T>> {
        self.place.assert_next();
        Some(self.held(self.lock.try_lock()?))
    }
}

impl<T> OrderedQuickLock<T> {
    #[inline]
    pub(crate) fn read(&self) -> QuickRead<'_, T> {
        self.wait(locks::RwLock::read)
    }

    #[inline]
    pub(crate) fn write(&self) -> QuickWrite<'_, T> {
        self.wait(locks::RwLock::write)
    }
}

impl<T> OrderedRwLock<T> {
    #[inline]
    pub(crate) fn read(&self) -> OrderedRead<'_, T> {
        self.wait(RwLock::read)
    }

    #[inline]
    pub(crate) fn write(&self) -> OrderedWrite<'_, T> {
        self.wait(RwLock::write)
    }

    /// Waits for the lock no longer than `most`. It may come out of order.
    pub(crate) fn try_write_for(&self, most: Duration) -> Option<OrderedWrite<'_, T>> {
        self.lock.try_write_for(most).map(|guard| self.held(guard))
    }

    /// Locks it for a reader unless a writer holds it. It may come out of order, and again to a
    /// thread that reads already.
    pub(crate) fn try_read(&self) -> Option<OrderedRead<'_, T>> {
        self.lock.try_read_recursive().map(|guard| self.held(guard))
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;
    use gemelo_metadata::FoundDamage;

    fn mutex(rank: Rank) -> OrderedMutex<()> {
        OrderedMutex::new(rank, &Arc::new(Health::new(false, FoundDamage::default())), ())
    }

    fn rw_lock(rank: Rank) -> OrderedRwLock<()> {
        OrderedRwLock::new(rank, &Arc::new(Health::new(false, FoundDamage::default())), ())
    }

    fn patches() -> [OrderedMutex<()>; 2] {
        let health = Arc::new(Health::new(false, FoundDamage::default()));
        [1, 2].map(|number| OrderedMutex::numbered(Rank::Patch, number, &health, ()))
    }

    #[test]
    fn a_panic_under_a_lock_stops_the_pool_before_another_thread_gets_it() {
        let health = Arc::new(Health::new(false, FoundDamage::default()));
        let state = OrderedRwLock::new(Rank::State, &health, 0);
        let space = OrderedMutex::new(Rank::Space, &health, 0);
        std::thread::scope(|scope| {
            let (held, is_held) = std::sync::mpsc::channel();
            let state = &state;
            let panicking = scope.spawn(move || {
                let _state = state.write();
                held.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(20));
                panic!("half changed");
            });
            is_held.recv().unwrap();
            let _state = state.read();
            let reason = health.stop_reason().expect("the pool has stopped by now").to_string();
            assert!(reason.contains("locks.rs:") && reason.contains("half changed"), "{reason}");
            assert!(panicking.join().is_err());
        });
        drop(space.lock());
    }

    #[test]
    fn locks_are_taken_in_order_and_let_go_in_any() {
        let (state, space) = (rw_lock(Rank::State), mutex(Rank::Space));
        let (read, taken) = (state.read(), space.lock());
        drop(read);
        drop(taken);
        drop(state.write());
        let patches = patches();
        let _both = patches.each_ref().map(OrderedMutex::lock);
    }

    #[test]
    #[should_panic(expected = "lock order: State")]
    fn a_lock_out_of_order_panics() {
        let (state, space) = (rw_lock(Rank::State), mutex(Rank::Space));
        let _taken = space.lock();
        drop(state.read());
    }

    #[test]
    #[should_panic(expected = "lock order: State")]
    fn a_second_look_of_one_reader_panics() {
        let state = rw_lock(Rank::State);
        let _first = state.read();
        drop(state.read());
    }

    #[test]
    #[should_panic(expected = "lock order: Patch")]
    fn locks_of_one_rank_are_taken_by_number() {
        let patches = patches();
        let [one, two] = &patches;
        let _two = two.lock();
        drop(one.lock());
    }

    #[test]
    #[should_panic(expected = "lock order: Checkpoint")]
    fn what_follows_a_try_out_of_order_is_checked() {
        let (checkpoint, gate) = (mutex(Rank::Checkpoint), rw_lock(Rank::Gate));
        let state = rw_lock(Rank::State);
        let _state = state.read();
        let _gate = gate.try_write_for(Duration::from_millis(1));
        drop(checkpoint.lock());
    }
}
