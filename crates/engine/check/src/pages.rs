//! The pages of slots. Each is used once and has two copies.

use crate::CheckReport;
use gemelo_base::units::format_counted;
use gemelo_disk::Disk;
use gemelo_format::{
    COPIES, FormatError, NodeRef, Page, PoolSeed, ReadChain, Reading, Regions, Slot, read_slot,
};
use std::collections::HashSet;

/// Reads pages, and notes damaged copies and slots that are used twice.
pub(crate) struct Pages<'r> {
    pub(crate) disk: &'r dyn Disk,
    pub(crate) regions: Regions,
    pub(crate) seed: PoolSeed,
    pub(crate) report: &'r mut CheckReport,
    seen: HashSet<Slot>,
    /// Pages with one damaged copy.
    halved: u64,
}

impl<'r> Pages<'r> {
    pub(crate) fn new(
        disk: &'r dyn Disk,
        regions: Regions,
        seed: PoolSeed,
        report: &'r mut CheckReport,
    ) -> Self {
        Self { disk, regions, seed, report, seen: HashSet::new(), halved: 0 }
    }

    /// Notes the pages of the table, which were read.
    pub(crate) fn add_chain(&mut self, chain: &ReadChain) {
        assert!(chain.damaged_copies.len() <= chain.slots.len(), "each slot is listed once");
        for slot in &chain.slots {
            self.claim(*slot);
        }
        self.halved += chain.damaged_copies.len() as u64;
    }

    /// Marks a slot as used. Returns whether it was free.
    fn claim(&mut self, slot: Slot) -> bool {
        let is_new = self.seen.insert(slot);
        if !is_new {
            self.report.add(true, format!("slot {} is used twice", slot.number()));
        }
        is_new
    }

    /// Reads a page with both copies. Returns `None` if none is good, or if another page is in the
    /// same slot.
    pub(crate) fn read(&mut self, at: NodeRef) -> Result<Option<Box<Page>>, FormatError> {
        if !self.claim(at.slot) {
            return Ok(None);
        }
        let read = read_slot(self.disk, self.regions, at, self.seed, Reading::All)?;
        assert!(read.damaged_copies < COPIES || read.page.is_none(), "a good page has a good copy");
        self.halved += u64::from(read.page.is_some() && read.damaged_copies > 0);
        Ok(read.page)
    }

    /// Reports the pages with one damaged copy.
    pub(crate) fn finish(self) {
        if self.halved > 0 {
            let pages = format_counted(self.halved, "page");
            self.report.add(false, format!("one of the two copies of {pages} is damaged"));
        }
    }
}
