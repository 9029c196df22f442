//! Decides whether blocks are left to the finder, and tells it of them.

use super::InlineOverload;
use crate::counters::add;
use crate::engine::VolumeShared;
use crate::engine::plan::Plan;
use crate::engine::write::Writer;
use gemelo_format::DedupMode;

impl Writer {
    /// Returns the mode in which blocks of a volume are written at this moment.
    pub(in crate::engine) fn mode_at_present(&self, volume: &VolumeShared) -> DedupMode {
        let mode = volume.mode();
        let may_defer = self.tuning.inline_overload == InlineOverload::Defer;
        if may_defer && mode == DedupMode::Inline && self.data.is_overloaded() {
            DedupMode::Offline
        } else {
            mode
        }
    }

    /// Counts the blocks of an in-line volume that were stored without a fingerprint, and tells the
    /// finder of them.
    pub(in crate::engine) fn note_deferred(&self, volume: &VolumeShared, plan: &Plan<'_>) {
        let lbns: Vec<_> = plan.stored().collect();
        add(&volume.counters().deferred_blocks, lbns.len() as u64);
        volume.dirty().mark(lbns.into_iter(), self.clock.now_ns());
    }
}
