//! The metrics of the finder.

use super::page::{Page, seconds};
use gemelo_volume::{FinderState, FinderStats};

/// Adds the figures of the finder.
pub(super) fn finder_stats(page: &mut Page, finder: &FinderStats) {
    for (name, help, state) in [
        ("finder_paused", "1 if a user has paused the finder.", FinderState::Paused),
        ("finder_working", "1 if the finder examines blocks.", FinderState::Working),
    ] {
        page.gauge(name, help, u64::from(finder.state == state));
    }
    page.table("finder", finder);
    page.table("finder_fingerprints", &finder.remembered);
    let held = "finder_held_back_seconds_total";
    page.head(held, "counter", "Time for which the finder waited although blocks were due.");
    for (reason, held_ns) in finder.held_back.named() {
        page.value(held, &[("reason", reason)], seconds(held_ns));
    }
}
