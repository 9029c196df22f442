//! The pages of slots. Each is used once and has two copies.

use crate::source::Source;
use crate::{CheckError, CheckReport, Work};
use gemelo_base::SparseBits;
use gemelo_base::units::format_counted;
use gemelo_disk::DiskRead;
use gemelo_format::{COPIES, NodeRef, PAGE_BYTES, Page, ReadChain, Reading, Slot, read_slot};

/// Pages that are read in one list, with both copies: 4 MiB.
const PAGES_AT_ONCE: usize = 512;

/// Reads pages, and notes damaged copies and slots that are used twice.
pub(crate) struct Pages<'r> {
    pub(crate) source: &'r Source,
    pub(crate) report: &'r mut CheckReport,
    work: Work<'r>,
    seen: SparseBits,
    /// Pages with one damaged copy.
    halved: u64,
}

impl<'r> Pages<'r> {
    pub(crate) fn new(source: &'r Source, work: Work<'r>, report: &'r mut CheckReport) -> Self {
        Self { source, report, work, seen: SparseBits::default(), halved: 0 }
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
        let is_new = self.seen.insert(slot.number().into());
        if !is_new {
            self.report.add(true, format!("slot {} is used twice", slot.number()));
        }
        is_new
    }

    /// Reads a page with both copies. Returns `None` if none is good, or if another page is in the
    /// same slot.
    pub(crate) fn read(&mut self, at: NodeRef) -> Result<Option<Box<Page>>, CheckError> {
        Ok(self.read_all(&[at])?.pop().flatten())
    }

    /// Does the same for many pages.
    pub(crate) fn read_all(
        &mut self,
        all: &[NodeRef],
    ) -> Result<Vec<Option<Box<Page>>>, CheckError> {
        let mut pages = Vec::with_capacity(all.len());
        for some in all.chunks(PAGES_AT_ONCE) {
            self.work.go_on(some.len() as u64)?;
            let free: Vec<bool> = some.iter().map(|at| self.claim(at.slot)).collect();
            let wanted = some.iter().zip(&free).filter(|(_, is_free)| **is_free);
            let wanted: Vec<NodeRef> = wanted.map(|(at, _)| *at).collect();
            let mut read = self.read_copies(&wanted)?.into_iter();
            let page = |is_free: bool| if is_free { read.next().flatten() } else { None };
            pages.extend(free.into_iter().map(page));
        }
        Ok(pages)
    }

    /// Reads both copies of pages in one list.
    fn read_copies(&mut self, all: &[NodeRef]) -> Result<Vec<Option<Box<Page>>>, CheckError> {
        let mut copies = vec![[[0; PAGE_BYTES]; COPIES]; all.len()];
        let offsets = all.iter().flat_map(|at| self.source.regions.slot(at.slot));
        let mut reads: Vec<(usize, DiskRead<'_>)> = offsets
            .zip(copies.as_flattened_mut())
            .map(|(offset, page)| DiskRead::new(offset, page.as_mut_slice()))
            .enumerate()
            .collect();
        reads.sort_unstable_by_key(|(_, read)| read.offset);
        let (places, mut reads): (Vec<usize>, Vec<DiskRead<'_>>) = reads.into_iter().unzip();
        self.source.disk.read_many(&mut reads);
        let failed = places.into_iter().zip(&reads).filter(|(_, read)| read.outcome.is_err());
        let failed: Vec<usize> = failed.map(|(place, _)| place / COPIES).collect();
        drop(reads);
        let mut pages = Vec::with_capacity(all.len());
        for (number, (at, copies)) in all.iter().zip(&copies).enumerate() {
            let is_good = |page: &&Page| self.source.seed.checksum(page.as_slice()) == at.checksum;
            let mut good = copies.iter().filter(is_good);
            let first = good.next().map(|page| Box::new(*page));
            if good.next().is_some() && !failed.contains(&number) {
                pages.push(first);
                continue;
            }
            let Source { disk, regions, seed, .. } = self.source;
            let read = read_slot(&**disk, *regions, *at, *seed, Reading::All)?;
            let has_good = read.damaged_copies < COPIES;
            assert!(has_good || read.page.is_none(), "a good page has a good copy");
            self.halved += u64::from(read.page.is_some() && read.damaged_copies > 0);
            pages.push(read.page);
        }
        Ok(pages)
    }

    /// Reports the pages with one damaged copy.
    pub(crate) fn finish(self) {
        if self.halved > 0 {
            let pages = format_counted(self.halved, "page");
            self.report.add(false, format!("one of the two copies of {pages} is damaged"));
        }
    }
}
