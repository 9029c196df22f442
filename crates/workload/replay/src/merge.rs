//! Merges the results of hosts that each replayed a trace onto a target of their own, from the same
//! moment on: histograms by their buckets, counts by their sums.

use crate::result::{Lateness, ReplayResult, ReplayStats, ReplayVerification};
use crate::seconds::Seconds;
use crate::worker::MAX_MISMATCHES;

/// The result of one host.
#[derive(Debug, Clone, Copy)]
pub struct ReplayPart<'a> {
    /// Name of the host.
    pub host: &'a str,
    /// Its result.
    pub result: &'a ReplayResult,
}

/// Returns the result of all hosts together. What their pools store is left to the hosts.
#[must_use]
pub fn merge(parts: &[ReplayPart<'_>]) -> ReplayResult {
    let results = || parts.iter().map(|part| part.result);
    let sum = |of: fn(&ReplayResult) -> u64| results().map(of).sum();
    let mut seconds = Seconds::default();
    results().for_each(|result| seconds.add(&result.seconds));
    let longest = |of: fn(&ReplayResult) -> u64| results().map(of).max().unwrap_or(0);
    let failure = |part: &ReplayPart<'_>| {
        let failure = part.result.failure.as_ref()?;
        Some(format!("host {}: {failure}", part.host))
    };
    let duration_ns = longest(|result| result.duration_ns);
    ReplayResult {
        records: sum(|result| result.records),
        duration_ns,
        reads: stats(results().map(|result| &result.reads)),
        writes: stats(results().map(|result| &result.writes)),
        seconds: seconds.finish(duration_ns),
        flushes: sum(|result| result.flushes),
        trims: sum(|result| result.trims),
        populated_blocks: sum(|result| result.populated_blocks),
        populate_ns: longest(|result| result.populate_ns),
        generating_ns: sum(|result| result.generating_ns),
        lateness: results().filter_map(|result| result.lateness.clone()).reduce(both_late),
        stored: None,
        verification: verification(parts),
        is_complete: !parts.is_empty() && results().all(|result| result.is_complete),
        failure: parts.iter().find_map(failure),
    }
}

fn stats<'a>(parts: impl Iterator<Item = &'a ReplayStats>) -> ReplayStats {
    let mut all = ReplayStats::default();
    for part in parts {
        all.operations += part.operations;
        all.data_bytes += part.data_bytes;
        all.service_ns.merge(&part.service_ns);
        all.response_ns.merge(&part.response_ns);
    }
    all.response_summary = all.response_ns.summary();
    all
}

fn both_late(mut one: Lateness, other: Lateness) -> Lateness {
    let Lateness { late, late_after_ns, by_ns, summary: _ } = other;
    assert_eq!(one.late_after_ns, late_after_ns, "both count the same operations as late");
    one.late += late;
    one.by_ns.merge(&by_ns);
    one.summary = one.by_ns.summary();
    one
}

fn verification(parts: &[ReplayPart<'_>]) -> ReplayVerification {
    let mut all = ReplayVerification::default();
    for part in parts {
        let found = &part.result.verification;
        all.checked += found.checked;
        all.wrong += found.wrong;
        all.contradictions += found.contradictions;
        for mismatch in &found.mismatches {
            let mut mismatch = mismatch.clone();
            mismatch.found = format!("{} (host {})", mismatch.found, part.host);
            all.mismatches.push(mismatch);
        }
    }
    all.mismatches.truncate(MAX_MISMATCHES);
    all
}
