//! Compares the reference counts on disk with the maps, for the PBNs of one window after another.

use crate::bits::UsedPbns;
use crate::family::Runs;
use crate::values::{Leaves, Values};
use crate::walk::Walk;
use crate::work::Work;
use crate::{CheckError, CheckReport};
use gemelo_format::{CountAt, MANY};
use std::collections::BTreeMap;
use std::ops::Range;

/// The references to the PBNs of a window.
struct Tally {
    window: Range<u64>,
    small: Vec<u8>,
    /// What does not fit there.
    large: BTreeMap<u64, u64>,
}

impl Tally {
    fn new(window: Range<u64>) -> Self {
        let small = vec![0; (window.end - window.start) as usize];
        Self { window, small, large: BTreeMap::new() }
    }

    /// For PBNs outside of the data store, of which a sound pool has none.
    fn outside(start: u64) -> Self {
        Self { window: start..u64::MAX, small: Vec::new(), large: BTreeMap::new() }
    }

    fn place(&self, pbn: u64) -> Option<usize> {
        let is_small = self.window.end < u64::MAX;
        pbn.checked_sub(self.window.start).filter(|_| is_small).map(|at| at as usize)
    }

    fn add(&mut self, pbn: u64) {
        if !self.window.contains(&pbn) {
            return;
        }
        let place = self.place(pbn);
        match place.and_then(|at| self.small.get_mut(at)) {
            Some(count) if *count < u8::MAX => *count += 1,
            _ => *self.large.entry(pbn).or_default() += 1,
        }
    }

    fn get(&self, pbn: u64) -> u64 {
        let small = self.place(pbn).and_then(|at| self.small.get(at)).copied().unwrap_or(0);
        let large = self.large.get(&pbn).copied().unwrap_or(0);
        u64::from(small) + large
    }
}

/// The counts on disk, in the order of the PBNs.
struct Stored<'l> {
    groups: Values<'l>,
    large: Values<'l>,
    group: u64,
    /// The counts of the group that are left.
    bits: u128,
}

impl Stored<'_> {
    /// The next PBN with a count, which stays.
    fn peek(&mut self) -> Result<Option<u64>, CheckError> {
        while self.bits == 0 {
            let Some((group, bits)) = self.groups.next()? else { return Ok(None) };
            (self.group, self.bits) = (group, bits);
        }
        let place = u64::from(self.bits.trailing_zeros() / 2);
        Ok(Some(self.group.saturating_mul(CountAt::GROUP_PBNS).saturating_add(place)))
    }

    /// Takes the count of a PBN, which is not above the next one. Reports large counts before it
    /// that no bits stand for.
    fn take(&mut self, pbn: u64, report: &mut CheckReport) -> Result<u128, CheckError> {
        if self.peek()? != Some(pbn) {
            return Ok(0);
        }
        let at = CountAt::of(pbn);
        let small = at.get(self.bits);
        self.bits &= !at.mask();
        self.report_large(pbn, report)?;
        if small < MANY {
            return Ok(u128::from(small));
        }
        let large = self.large.peek()?.filter(|(other, _)| *other == pbn);
        if large.is_some() {
            self.large.next()?;
        }
        let large = large.map(|(_, count)| count);
        Ok(large.filter(|count| *count >= u128::from(MANY)).unwrap_or(0))
    }

    /// Reports the large counts of the PBNs before this one.
    fn report_large(&mut self, pbn: u64, report: &mut CheckReport) -> Result<(), CheckError> {
        while let Some((other, _)) = self.large.peek()?.filter(|(other, _)| *other < pbn) {
            self.large.next()?;
            let what = format!("block {other} has a large count, but few references");
            report.add(false, what);
        }
        Ok(())
    }
}

/// Compares the counts on disk, which are whole, with the references.
pub(crate) fn compare_counts(
    walk: &Walk,
    runs: &Runs,
    (counts, many): (&Leaves, &Leaves),
    used: &UsedPbns,
    (work, report): (Work<'_>, &mut CheckReport),
) -> Result<(), CheckError> {
    let windows = used.ranges(work.memory_bytes);
    let mut stored = Stored {
        groups: counts.from((&walk.source, work), 0),
        large: many.from((&walk.source, work), 0),
        group: 0,
        bits: 0,
    };
    for (number, window) in (1..).zip(&windows) {
        let all = windows.len() as u64;
        let pages = runs.regions(walk)? + (counts.pages() + many.pages()) / all;
        work.begin("Counting references", (number, windows.len()), pages);
        let mut tally = Tally::new(window.clone());
        runs.each_reference(walk, work, &mut |pbn| tally.add(pbn))?;
        let inside = |pbn| used.next(pbn).filter(|pbn| *pbn < window.end);
        compare_window(&tally, inside, (&mut stored, &mut *report))?;
    }
    let mut outside = Tally::outside(used.end());
    if !used.outside().is_empty() {
        runs.each_reference(walk, work, &mut |pbn| outside.add(pbn))?;
    }
    let next = |from| used.outside().range(from..).next().copied();
    compare_window(&outside, next, (&mut stored, &mut *report))?;
    stored.report_large(u64::MAX, report)
}

/// Compares the counts of a window, and of the PBNs before it that are left. `next` gives the next
/// PBN of the window that has references.
fn compare_window(
    tally: &Tally,
    next: impl Fn(u64) -> Option<u64>,
    (stored, report): (&mut Stored<'_>, &mut CheckReport),
) -> Result<(), CheckError> {
    let mut used = next(tally.window.start);
    loop {
        let counted = stored.peek()?.filter(|pbn| *pbn < tally.window.end);
        let Some(pbn) = used.into_iter().chain(counted).min() else { return Ok(()) };
        let (right, count) = (tally.get(pbn), stored.take(pbn, report)?);
        if count != u128::from(right) {
            report.add(false, describe(pbn, right, count));
        }
        if used == Some(pbn) {
            used = next(pbn + 1);
        }
    }
}

fn describe(pbn: u64, right: u64, count: u128) -> String {
    match right {
        0 => format!("block {pbn} has no references, but its count is {count}"),
        _ => format!("block {pbn} has {right} references, but its count is {count}"),
    }
}
