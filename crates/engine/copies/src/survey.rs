//! Counts what a copy will send, so that the time that is left is known.
//!
//! The map of a snapshot has the number of its blocks. What differs from an earlier one, or is left
//! of a copy that was broken off, is counted beside the copy, from maps alone.

use crate::giving_way::GivingWay;
use gemelo_base::{Monitor, StopFlag, SystemClock};
use gemelo_format::{Lbn, MapEntry};
use gemelo_volume::Outgoing;
use std::thread;

/// Does `work`, which sends a snapshot from a block on, and meanwhile tells the bytes of the blocks
/// that are not zeros as the total. Where the system refuses a thread, there is no total.
pub(crate) fn with_total<T>(
    outgoing: &Outgoing,
    (first, blocks): (u64, u64),
    monitor: &dyn Monitor,
    work: impl FnOnce() -> T,
) -> T {
    let block_bytes = u64::from(outgoing.block_bytes());
    if outgoing.base().is_none() && first == 0 {
        monitor.set_total(outgoing.mapped_blocks() * block_bytes);
        return work();
    }
    let over = StopFlag::new();
    thread::scope(|scope| {
        let survey = || {
            if let Some(count) = count(outgoing, (first, blocks), &over) {
                monitor.set_total(count * block_bytes);
            }
        };
        let _ = thread::Builder::new().name("gemelo-survey".into()).spawn_scoped(scope, survey);
        let done = work();
        over.raise();
        done
    })
}

/// Counts the blocks that differ and are not zeros, unless the copy is over before. What cannot be
/// read is left to the copy, which fails there.
fn count(outgoing: &Outgoing, (first, blocks): (u64, u64), over: &StopFlag) -> Option<u64> {
    let clock = SystemClock::new();
    let mut pace = GivingWay::new(&clock, outgoing.traffic());
    let (mut next, mut count) = (Lbn(first), 0);
    while next.0 < blocks && !over.is_raised() {
        let began_ns = pace.now_ns();
        let found = outgoing.differences(next).ok().filter(|found| found.end > next)?;
        let is_sent = |own: &MapEntry| *own != MapEntry::Unmapped;
        count += found.entries.iter().filter(|one| is_sent(&one.own)).count() as u64;
        next = found.end;
        pace.rest_after(began_ns, outgoing.traffic(), over);
    }
    (next.0 >= blocks).then_some(count)
}
