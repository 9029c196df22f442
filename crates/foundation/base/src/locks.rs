//! Locks that never give a processor away while they wait.
//!
//! A thread that finds a lock taken looks at it for about a microsecond, and then sleeps until its
//! turn. Many locks call `sched_yield` in between. Linux 6.18 takes the rest of its time slice from
//! a thread that calls it, so a thread that was to wait for a microsecond waits until all others
//! have had a slice, which is milliseconds, and longer for a thread with long slices.
//!
//! They are the locks of the standard library, without poison: who guards something that a panic
//! leaves half changed notes that itself.

use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError};
use std::time::Duration;

/// A value that one thread at a time has.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

/// The value of a [`Mutex`], until it is dropped.
#[derive(Debug)]
pub struct MutexGuard<'m, T> {
    mutex: &'m Mutex<T>,
    /// [`None`] only while a method of this module has it.
    guard: Option<sync::MutexGuard<'m, T>>,
}

impl<T> Mutex<T> {
    /// Makes one that nobody has.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// Waits for its turn.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, guard: Some(self.lock_std()) }
    }

    /// Locks it if no other thread has.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(sync::TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { mutex: self, guard: Some(guard) })
    }

    /// The value, for the only owner, who needs no turn.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn lock_std(&self) -> sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T> MutexGuard<'_, T> {
    /// Does something without the lock. It is locked again after a panic as well.
    pub fn unlocked<R>(&mut self, act: impl FnOnce() -> R) -> R {
        self.guard = None;
        let _again = LockAgain(self);
        act()
    }
}

/// Locks a mutex when it is dropped.
struct LockAgain<'g, 'm, T>(&'g mut MutexGuard<'m, T>);

impl<T> Drop for LockAgain<'_, '_, T> {
    fn drop(&mut self) {
        self.0.guard = Some(self.0.mutex.lock_std());
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.guard {
            Some(guard) => guard,
            None => unreachable!("a guard is used while another one has its lock"),
        }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.guard {
            Some(guard) => guard,
            None => unreachable!("a guard is used while another one has its lock"),
        }
    }
}

/// Wakes threads that wait for a change of what a [`Mutex`] guards.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// Makes one for which nobody waits.
    #[must_use]
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Waits for a signal without the lock. The thread may wake without one.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(held) = guard.guard.take() {
            guard.guard = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Does the same, at most this long. Returns whether the time has passed.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, most: Duration) -> bool {
        let Some(held) = guard.guard.take() else { return false };
        let waited = self.0.wait_timeout(held, most);
        let (held, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
        guard.guard = Some(held);
        outcome.timed_out()
    }

    /// Wakes one thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A value that many threads read at a time, or one changes.
#[derive(Debug, Default)]
pub struct RwLock<T>(sync::RwLock<T>);

/// The value of a [`RwLock`], to be read.
pub type RwLockReadGuard<'l, T> = sync::RwLockReadGuard<'l, T>;
/// The value of a [`RwLock`], to be changed.
pub type RwLockWriteGuard<'l, T> = sync::RwLockWriteGuard<'l, T>;

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T> RwLock<T> {
    /// Makes one that nobody has.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    /// Waits until no thread changes the value.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the value unless another thread changes it, or waits to.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        match self.0.try_read() {
            Ok(guard) => Some(guard),
            Err(sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(sync::TryLockError::WouldBlock) => None,
        }
    }

    /// Waits until no other thread has the value.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_changed_by_one_thread_at_a_time() {
        let (count, both) = (Mutex::new(0), RwLock::new((0, 0)));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        *count.lock() += 1;
                        both.write().0 += 1;
                        both.write().1 += 1;
                        let (one, other) = *both.read();
                        assert!(one > 0 && other > 0);
                    }
                });
            }
        });
        assert_eq!((count.into_inner(), *both.read()), (4000, (4000, 4000)));
    }

    #[test]
    fn a_panic_leaves_the_lock_usable_and_locked_until_the_guard_is_gone() {
        let mutex = Mutex::new(1);
        let panicking = std::panic::AssertUnwindSafe(|| {
            let mut guard = mutex.lock();
            guard.unlocked(|| *mutex.lock() = 2);
            assert_eq!(*guard, 2);
            let again = std::panic::AssertUnwindSafe(|| guard.unlocked(|| panic!("without it")));
            assert!(std::panic::catch_unwind(again).is_err());
            assert!(mutex.try_lock().is_none(), "it is locked again");
            panic!("with it");
        });
        assert!(std::panic::catch_unwind(panicking).is_err());
        assert_eq!(mutex.try_lock().map(|guard| *guard), Some(2));
    }

    #[test]
    fn a_waiting_thread_is_woken_or_its_time_passes() {
        let (is_set, set) = (Mutex::new(false), Condvar::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                *is_set.lock() = true;
                set.notify_all();
            });
            let mut guard = is_set.lock();
            while !*guard {
                set.wait(&mut guard);
            }
            assert!(set.wait_for(&mut guard, Duration::from_millis(1)));
        });
    }
}
