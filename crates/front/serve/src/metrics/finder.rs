//! The metrics of the finder.

use super::page::{Page, seconds};
use gemelo_volume::{FinderState, FinderStats, RememberedStats};

/// Stats of the finder.
pub(super) fn finder_figures(page: &mut Page, finder: &FinderStats) {
    for (name, help, value) in [
        (
            "finder_paused",
            "1 if a user has paused it.",
            u64::from(finder.state == FinderState::Paused),
        ),
        (
            "finder_working",
            "1 if it examines blocks.",
            u64::from(finder.state == FinderState::Working),
        ),
        (
            "finder_backlog_blocks",
            "Blocks that were written and not examined.",
            finder.backlog_blocks,
        ),
        (
            "finder_swept_volumes",
            "Volumes whose blocks are all looked at, because none was remembered.",
            finder.swept_volumes,
        ),
    ] {
        page.gauge(name, help, value);
    }
    for (name, help, value) in [
        (
            "finder_rewritten_blocks_total",
            "Blocks that were written again before they were examined.",
            finder.rewritten_blocks,
        ),
        (
            "finder_sampled_blocks_total",
            "Examined blocks of a sample of all blocks.",
            finder.sampled_blocks,
        ),
        (
            "finder_wasted_blocks_total",
            "Blocks of the sample that were overwritten soon after they were examined.",
            finder.wasted_blocks,
        ),
    ] {
        page.counter(name, help, value);
    }
    let help = "Time since the oldest group of these blocks was marked or looked at.";
    page.gauge("finder_oldest_seconds", help, seconds(finder.oldest_ns));
    let help = "Time in which it has examined blocks.";
    page.counter("finder_working_seconds_total", help, seconds(finder.working_ns));
    let help = "Processor time that it has used.";
    page.counter("finder_cpu_seconds_total", help, seconds(finder.cpu_ns));
    remembered_figures(page, &finder.remembered);
    let held = "finder_held_back_seconds_total";
    page.head(held, "counter", "Time for which it waited although blocks were due.");
    for (reason, held_ns) in finder.held_back.named() {
        page.value(held, &[("reason", reason)], seconds(held_ns));
    }
}

/// Stats of the fingerprints that are taken while contents are written.
fn remembered_figures(page: &mut Page, remembered: &RememberedStats) {
    for (name, help, value) in [
        ("finder_fingerprints", "Fingerprints that are remembered.", remembered.held),
        ("finder_fingerprints_capacity", "Most of them.", remembered.capacity),
    ] {
        page.gauge(name, help, value);
    }
    for (name, help, value) in [
        (
            "finder_fingerprints_taken_total",
            "Fingerprints taken while contents were written.",
            remembered.taken,
        ),
        (
            "finder_fingerprints_skipped_total",
            "Blocks of which none was taken, because no core was free.",
            remembered.skipped,
        ),
        ("finder_fingerprints_dropped_total", "Fingerprints dropped.", remembered.dropped),
        (
            "finder_fingerprint_hits_total",
            "Blocks that the finder did not have to read.",
            remembered.hits,
        ),
        ("finder_fingerprint_misses_total", "Blocks that the finder read.", remembered.misses),
    ] {
        page.counter(name, help, value);
    }
    let help = "Processor time of taking fingerprints.";
    page.counter("finder_fingerprint_cpu_seconds_total", help, seconds(remembered.cpu_ns));
}
