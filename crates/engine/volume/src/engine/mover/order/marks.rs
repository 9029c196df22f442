//! The stretches of a volume that were written since the arranger looked at them.
//!
//! A write stores the time of the last write to a stretch, and takes no lock for it. The table has
//! a fixed number of entries, so the stretches of a very large volume are longer.

use gemelo_format::Lbn;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Blocks of a stretch, as a power of two: 256, which are 1 MiB of blocks of 4 KiB.
const MIN_SHIFT: u32 = 8;
/// Stretches of a volume, as a power of two. Their marks take 1 MiB at most.
const MARKS_SHIFT: u32 = 18;
/// Marks of a page, as a power of two. A page takes 4 KiB, and is made when one of its stretches
/// is marked first.
const PAGE_SHIFT: u32 = 10;
const PAGE_MARKS: usize = 1 << PAGE_SHIFT;
/// The value of a stretch that is not marked.
const CLEAR: u32 = 0;
/// The value of the cursor of a sweep when none is under way.
const NO_SWEEP: u64 = u64::MAX;

/// A time in units of about one second, by the clock of the pool. It is never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u32);

impl Tick {
    /// Nanoseconds of a tick, as a power of two: 1.07 s.
    const SHIFT: u32 = 30;
    pub(super) fn of(now_ns: u64) -> Self {
        let tick = u32::try_from(now_ns >> Self::SHIFT).unwrap_or(u32::MAX - 1);
        Self(tick.saturating_add(1))
    }

    /// The last tick that is over at this time.
    pub(super) fn before(now_ns: u64) -> Self {
        Self(Self::of(now_ns).0 - 1)
    }
}

/// The present tick. The background sets it, so that a write need not ask the clock.
#[derive(Debug)]
pub(crate) struct Ticker(AtomicU32);

impl Ticker {
    pub(crate) fn new(now_ns: u64) -> Self {
        Self(AtomicU32::new(Tick::of(now_ns).0))
    }

    pub(super) fn set(&self, tick: Tick) {
        self.0.store(tick.0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn now(&self) -> Tick {
        Tick(self.0.load(Ordering::Relaxed))
    }
}

/// A number of consecutive LBNs: blocks from `first` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::mover) struct Stretch {
    pub(in crate::engine::mover) first: u64,
    pub(in crate::engine::mover) end: u64,
}

/// The ticks of the last writes to some stretches, or `CLEAR`.
type MarkPage = Box<[AtomicU32; PAGE_MARKS]>;

/// The stretches of a volume that the arranger has to look at.
#[derive(Debug)]
pub(crate) struct Marks {
    /// Made with the first mark, because most clones are never written.
    pages: OnceLock<Box<[OnceLock<MarkPage>]>>,
    /// All blocks from this LBN on have to be looked at, whether marked or not.
    sweep: AtomicU64,
}

impl Marks {
    /// Makes the marks of an unknown volume, so that all of it is looked at.
    pub(crate) const fn new() -> Self {
        Self { pages: OnceLock::new(), sweep: AtomicU64::new(0) }
    }

    /// Blocks of a stretch of a volume with this number of blocks, as a power of two.
    const fn shift(blocks: u64) -> u32 {
        let bits = u64::BITS - blocks.saturating_sub(1).leading_zeros();
        let shift = bits.saturating_sub(MARKS_SHIFT);
        if shift > MIN_SHIFT { shift } else { MIN_SHIFT }
    }

    /// The mark of a stretch, unless none of its page was ever set.
    fn at(&self, number: u64) -> Option<&AtomicU32> {
        let page = self.pages.get()?.get(usize::try_from(number >> PAGE_SHIFT).ok()?)?;
        page.get()?.get(number as usize % PAGE_MARKS)
    }

    #[inline]
    fn set(&self, number: u64, tick: Tick) {
        let made = || (0..1 << (MARKS_SHIFT - PAGE_SHIFT)).map(|_| OnceLock::new()).collect();
        let pages = self.pages.get_or_init(made);
        let Some(page) = pages.get((number >> PAGE_SHIFT) as usize) else { return };
        let page = page.get_or_init(|| Box::new([const { AtomicU32::new(CLEAR) }; PAGE_MARKS]));
        if let Some(mark) = page.get(number as usize % PAGE_MARKS) {
            mark.store(tick.0, Ordering::Relaxed);
        }
    }

    /// The marks that were ever set, with the numbers of their stretches.
    fn all(&self) -> impl Iterator<Item = (u64, &AtomicU32)> {
        let pages = (0u64..).zip(self.pages.get().into_iter().flatten());
        pages
            .filter_map(|(number, page)| Some((number << PAGE_SHIFT, page.get()?)))
            .flat_map(|(first, page)| (first..).zip(page.iter()))
    }

    /// Marks blocks that were written. `blocks` is the number of blocks of the volume.
    #[inline]
    pub(crate) fn mark(&self, blocks: u64, lbns: impl Iterator<Item = Lbn>, now: Tick) {
        let shift = Self::shift(blocks);
        for lbn in lbns {
            self.set(lbn.0 >> shift, now);
        }
    }

    /// Marks the whole volume, because nothing is known about its stretches.
    pub(crate) fn mark_all(&self) {
        self.sweep.store(0, Ordering::Relaxed);
    }

    /// Forgets all marks, and marks the whole volume. Called when its size changes, because the
    /// length of a stretch follows from the size.
    pub(crate) fn restart(&self) {
        self.all().for_each(|(_, mark)| mark.store(CLEAR, Ordering::Relaxed));
        self.mark_all();
    }

    /// The whole volume is known to be in order, but for marked stretches.
    pub(crate) fn end_sweep(&self) {
        self.sweep.store(NO_SWEEP, Ordering::Relaxed);
    }

    /// Removes the mark of the stretch that has this LBN.
    pub(super) fn clear(&self, blocks: u64, lbn: Lbn) {
        if let Some(mark) = self.at(lbn.0 >> Self::shift(blocks)) {
            mark.store(CLEAR, Ordering::Relaxed);
        }
    }

    fn stretch(blocks: u64, number: u64) -> Stretch {
        let shift = Self::shift(blocks);
        Stretch { first: number << shift, end: ((number + 1) << shift).min(blocks) }
    }

    /// Returns whether the stretch that has this LBN is marked.
    pub(super) fn is_marked(&self, blocks: u64, lbn: Lbn) -> bool {
        let mark = self.at(lbn.0 >> Self::shift(blocks));
        mark.is_some_and(|mark| mark.load(Ordering::Relaxed) != CLEAR)
    }

    /// Removes the mark of a stretch that was last written no later than `until`, and returns the
    /// stretch.
    pub(super) fn take(&self, blocks: u64, until: Tick) -> Option<Stretch> {
        for (number, mark) in self.all() {
            let tick = mark.load(Ordering::Relaxed);
            let is_due = tick != CLEAR && tick <= until.0;
            // A write that marks the stretch meanwhile keeps its mark.
            if is_due
                && mark.compare_exchange(tick, CLEAR, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                return Some(Self::stretch(blocks, number));
            }
        }
        None
    }

    /// The LBN from which the sweep goes on, if one is under way.
    pub(super) fn sweep_from(&self) -> Option<Lbn> {
        let from = self.sweep.load(Ordering::Relaxed);
        (from != NO_SWEEP).then_some(Lbn(from))
    }

    /// Moves the sweep on, unless it was restarted meanwhile. `next` is [`None`] at its end.
    pub(super) fn go_on(&self, from: Lbn, next: Option<Lbn>) {
        let next = next.map_or(NO_SWEEP, |next| next.0);
        // A failure means that the sweep was restarted.
        let _ = self.sweep.compare_exchange(from.0, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The stretch that has this LBN.
    pub(super) fn stretch_of(blocks: u64, lbn: Lbn) -> Stretch {
        Self::stretch(blocks, lbn.0 >> Self::shift(blocks))
    }

    /// The number of marked stretches, and whether the whole volume is marked.
    pub(crate) fn waiting(&self) -> (u64, bool) {
        let marked = self.all().filter(|(_, mark)| mark.load(Ordering::Relaxed) != CLEAR).count();
        (marked as u64, self.sweep_from().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(number: u64) -> Tick {
        Tick::of(number << Tick::SHIFT)
    }

    fn lbns(numbers: &[u64]) -> impl Iterator<Item = Lbn> {
        numbers.iter().copied().map(Lbn)
    }

    #[test]
    fn a_stretch_is_taken_once_and_after_its_last_write() {
        let marks = Marks::new();
        let blocks = 1000;
        assert_eq!(marks.waiting(), (0, true));
        marks.mark(blocks, lbns(&[3, 255, 999]), tick(5));
        marks.mark(blocks, lbns(&[7]), tick(8));
        assert_eq!(marks.waiting(), (2, true));
        assert_eq!(marks.take(blocks, tick(4)), None);
        assert_eq!(marks.take(blocks, tick(7)), Some(Stretch { first: 768, end: 1000 }));
        assert_eq!(marks.take(blocks, tick(7)), None, "the first was written again");
        assert!(marks.is_marked(blocks, Lbn(200)) && !marks.is_marked(blocks, Lbn(800)));
        assert_eq!(marks.take(blocks, tick(8)), Some(Stretch { first: 0, end: 256 }));
        assert_eq!(marks.waiting(), (0, true));
    }

    #[test]
    fn a_sweep_that_is_restarted_begins_anew() {
        let marks = Marks::new();
        let from = marks.sweep_from().unwrap();
        marks.go_on(from, Some(Lbn(256)));
        assert_eq!(marks.sweep_from(), Some(Lbn(256)));
        marks.restart();
        marks.go_on(Lbn(256), None);
        assert_eq!(marks.sweep_from(), Some(Lbn(0)));
        marks.go_on(Lbn(0), None);
        assert_eq!(marks.sweep_from(), None);
    }

    #[test]
    fn every_block_of_the_largest_volume_has_a_stretch() {
        for blocks in [1, 256, 257, 1 << 26, (1 << 26) + 1, gemelo_format::MAX_VOLUME_BLOCKS] {
            let shift = Marks::shift(blocks);
            assert!((blocks - 1) >> shift < 1 << MARKS_SHIFT, "{blocks}");
            let last = Marks::stretch_of(blocks, Lbn(blocks - 1));
            assert_eq!(last.end, blocks);
            let marks = Marks::new();
            marks.mark(blocks, lbns(&[blocks - 1]), tick(0));
            assert_eq!(marks.take(blocks, Tick(u32::MAX)), Some(last));
        }
    }
}
