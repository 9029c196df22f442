//! Tracks the files of a fileset that exist, and picks free ones from a given number on.
//!
//! The pool takes no lock. A file has one word of state: whether it exists, whether a thread is
//! opening, creating or deleting it (busy), and its number of opens. Two levels of bitmaps find the
//! next existing or missing file: one bit for each file, and one for each 64 files, so that one
//! word covers 4096 files. The bitmaps may lag behind the states for an instant. The states decide,
//! and the count of existing files tells when no file is left.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const EXISTS: u32 = 1 << 31;
const BUSY: u32 = 1 << 30;
const OPENS: u32 = BUSY - 1;

/// Vain searches before a thread yields to others.
const LOOKS_BEFORE_YIELD: u32 = 4;

/// The files, or the leaf directories, of a fileset.
pub(super) struct Pool {
    states: Box<[AtomicU32]>,
    /// One bit for each file, set if the file exists.
    existing: Box<[AtomicU64]>,
    /// One bit for each word of `existing` that has a bit set.
    some_exist: Box<[AtomicU64]>,
    /// One bit for each word of `existing` that has a bit clear.
    some_missing: Box<[AtomicU64]>,
    existing_count: AtomicU64,
    /// Number at which rotation continues, for existing and for missing files.
    rotor_existing: AtomicU32,
    rotor_missing: AtomicU32,
}

fn words(bits: usize) -> Box<[AtomicU64]> {
    (0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect()
}

impl Pool {
    /// Creates a pool of files that do not exist yet.
    pub(super) fn new(count: usize) -> Self {
        let existing = words(count);
        let some_missing = words(existing.len());
        for word in 0..existing.len() {
            some_missing[word / 64].fetch_or(1 << (word % 64), Ordering::Relaxed);
        }
        Self {
            states: (0..count).map(|_| AtomicU32::new(0)).collect(),
            some_exist: words(existing.len()),
            existing,
            some_missing,
            existing_count: AtomicU64::new(0),
            rotor_existing: AtomicU32::new(0),
            rotor_missing: AtomicU32::new(0),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    pub(super) fn existing(&self) -> u64 {
        self.existing_count.load(Ordering::Relaxed)
    }

    pub(super) fn exists(&self, file: usize) -> bool {
        self.states[file].load(Ordering::Acquire) & EXISTS != 0
    }

    pub(super) fn opens(&self, file: usize) -> u32 {
        self.states[file].load(Ordering::Acquire) & OPENS
    }

    /// Returns the number at which rotation continues.
    pub(super) fn rotor(&self, exists: bool) -> &AtomicU32 {
        if exists { &self.rotor_existing } else { &self.rotor_missing }
    }

    /// Picks the next existing or missing file in rotation and marks it busy. Waits while all such
    /// files are busy. Returns `None` if there is no such file, or if `stopped` returns `true`.
    pub(super) fn pick_next(
        &self,
        exists: bool,
        rotor: &AtomicU32,
        stopped: impl Fn() -> bool,
    ) -> Option<usize> {
        let picked = self.pick_from(exists, rotor.load(Ordering::Relaxed) as usize, stopped)?;
        // Two threads may start at the same number. The second one picks the next file.
        rotor.store(picked as u32 + 1, Ordering::Relaxed);
        Some(picked)
    }

    /// Does the same from a given number on.
    pub(super) fn pick_from(
        &self,
        exists: bool,
        from: usize,
        stopped: impl Fn() -> bool,
    ) -> Option<usize> {
        let mut looks = 0;
        loop {
            if let Some(file) = self.pick_once(exists, from) {
                return Some(file);
            }
            let existing = self.existing();
            let left = if exists { existing } else { self.len() as u64 - existing };
            if left == 0 || stopped() {
                return None;
            }
            looks += 1;
            if looks % LOOKS_BEFORE_YIELD == 0 {
                std::thread::yield_now();
            }
        }
    }

    fn pick_once(&self, exists: bool, from: usize) -> Option<usize> {
        let from = if from >= self.len() { 0 } else { from };
        let mut at = from;
        while let Some(file) = self.next(exists, at) {
            if self.latch(file, exists) {
                return Some(file);
            }
            at = file + 1;
        }
        let mut at = 0;
        while let Some(file) = self.next(exists, at) {
            if file >= from {
                return None;
            }
            if self.latch(file, exists) {
                return Some(file);
            }
            at = file + 1;
        }
        None
    }

    /// Marks a file busy if it exists and is not busy. Returns whether it did.
    pub(super) fn latch_existing(&self, file: usize) -> bool {
        self.latch(file, true)
    }

    fn latch(&self, file: usize, exists: bool) -> bool {
        let state = self.states[file].load(Ordering::Relaxed);
        if state & BUSY != 0 || (state & EXISTS != 0) != exists {
            return false;
        }
        self.states[file]
            .compare_exchange(state, state | BUSY, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Returns the next file from `from` on according to the bitmaps.
    fn next(&self, exists: bool, from: usize) -> Option<usize> {
        if from >= self.len() {
            return None;
        }
        let first = from / 64;
        if let Some(file) = self.in_word(exists, first, u64::MAX << (from % 64)) {
            return Some(file);
        }
        let summary = if exists { &self.some_exist } else { &self.some_missing };
        let mut mask = u64::MAX << ((first + 1) % 64);
        for group in (first + 1) / 64..summary.len() {
            let mut bits = summary[group].load(Ordering::Relaxed) & mask;
            while bits != 0 {
                let word = group * 64 + bits.trailing_zeros() as usize;
                if let Some(file) = self.in_word(exists, word, u64::MAX) {
                    return Some(file);
                }
                bits &= bits - 1;
            }
            mask = u64::MAX;
        }
        None
    }

    fn in_word(&self, exists: bool, word: usize, mask: u64) -> Option<usize> {
        let bits = self.existing.get(word)?.load(Ordering::Relaxed);
        let bits = if exists { bits } else { !bits } & mask;
        let file = word * 64 + bits.trailing_zeros() as usize;
        (bits != 0 && file < self.len()).then_some(file)
    }

    /// Releases a busy file without a change.
    pub(super) fn release(&self, file: usize) {
        self.states[file].fetch_and(!BUSY, Ordering::Release);
    }

    /// Releases a busy, existing file that was opened.
    pub(super) fn release_opened(&self, file: usize) {
        self.states[file].fetch_sub(BUSY - 1, Ordering::Release);
    }

    /// Releases a busy, missing file that was created and opened `opens` times.
    pub(super) fn release_created(&self, file: usize, opens: u32) {
        self.mark(file, true);
        self.states[file].fetch_add(EXISTS - BUSY + opens, Ordering::Release);
    }

    /// Releases a busy, existing file that was deleted. No thread may have it open.
    pub(super) fn release_deleted(&self, file: usize) {
        self.mark(file, false);
        self.states[file].store(0, Ordering::Release);
    }

    /// Counts a close. The file may be busy, as a deleting thread checks the number of opens.
    pub(super) fn closed(&self, file: usize) {
        self.states[file].fetch_sub(1, Ordering::Release);
    }

    fn mark(&self, file: usize, exists: bool) {
        let (word, bit) = (file / 64, 1 << (file % 64));
        let (group, group_bit) = (word / 64, 1 << (word % 64));
        if exists {
            let before = self.existing[word].fetch_or(bit, Ordering::SeqCst);
            if before == 0 {
                self.some_exist[group].fetch_or(group_bit, Ordering::SeqCst);
            }
            if before | bit == u64::MAX {
                self.some_missing[group].fetch_and(!group_bit, Ordering::SeqCst);
                // Another thread may have cleared a bit, and set the summary before it was cleared
                // here.
                if self.existing[word].load(Ordering::SeqCst) != u64::MAX {
                    self.some_missing[group].fetch_or(group_bit, Ordering::SeqCst);
                }
            }
            self.existing_count.fetch_add(1, Ordering::SeqCst);
        } else {
            let before = self.existing[word].fetch_and(!bit, Ordering::SeqCst);
            if before == u64::MAX {
                self.some_missing[group].fetch_or(group_bit, Ordering::SeqCst);
            }
            if before & !bit == 0 {
                self.some_exist[group].fetch_and(!group_bit, Ordering::SeqCst);
                if self.existing[word].load(Ordering::SeqCst) != 0 {
                    self.some_exist[group].fetch_or(group_bit, Ordering::SeqCst);
                }
            }
            self.existing_count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn never() -> bool {
        false
    }

    #[test]
    fn rotation_takes_one_after_the_other_and_skips_busy_ones() {
        let pool = Pool::new(200);
        let rotor = AtomicU32::new(0);
        for file in 0..200 {
            assert_eq!(pool.pick_next(false, &rotor, never), Some(file));
            pool.release_created(file, 0);
        }
        assert_eq!(pool.pick_next(false, &rotor, never), None);
        assert_eq!(pool.pick_from(true, 7, never), Some(7));
        assert_eq!(pool.pick_from(true, 7, never), Some(8));
        assert_eq!(pool.pick_from(true, 199, never), Some(199));
        assert_eq!(pool.pick_from(true, 199, never), Some(0));
        pool.release_opened(7);
        assert_eq!((pool.opens(7), pool.exists(7)), (1, true));
        pool.closed(7);
        assert_eq!(pool.opens(7), 0);
    }

    #[test]
    fn threads_that_create_and_delete_never_share_a_file() {
        const FILES: usize = 4100;
        let pool = Pool::new(FILES);
        let owners: Vec<AtomicU32> = (0..FILES).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let (pool, owners) = (&pool, &owners);
                scope.spawn(move || {
                    for round in 0..20_000u32 {
                        let exists = (round + thread) % 2 == 0;
                        let Some(file) = pool.pick_next(exists, pool.rotor(exists), never) else {
                            continue;
                        };
                        assert_eq!(owners[file].swap(thread + 1, Ordering::SeqCst), 0);
                        owners[file].store(0, Ordering::SeqCst);
                        if exists {
                            pool.release_deleted(file);
                        } else {
                            pool.release_created(file, 0);
                        }
                    }
                });
            }
        });
        let found = (0..FILES).filter(|file| pool.exists(*file)).count() as u64;
        assert_eq!(found, pool.existing());
        let mut listed = 0;
        while pool.pick_from(true, 0, never).is_some() {
            listed += 1;
            if listed == found {
                break;
            }
        }
        assert_eq!(listed, found, "the bitmaps know every file");
    }

    proptest! {
        #[test]
        fn the_next_file_is_that_of_a_plain_set(
            count in 1usize..9000, changes in proptest::collection::vec((0usize..9000, any::<bool>()), 0..60),
            from in 0usize..9000, exists: bool
        ) {
            let pool = Pool::new(count);
            let mut model = BTreeSet::new();
            for (file, create) in changes {
                let file = file % count;
                if create && model.insert(file) {
                    prop_assert!(pool.latch(file, false));
                    pool.release_created(file, 0);
                } else if !create && model.remove(&file) {
                    prop_assert!(pool.latch(file, true));
                    pool.release_deleted(file);
                }
            }
            let from = from % count;
            let wanted = (from..count).chain(0..from).find(|file| model.contains(file) == exists);
            prop_assert_eq!(pool.pick_from(exists, from, || true), wanted);
        }
    }
}
