//! The records of the PBNs. A record has an identity, which is on disk too, and a reference count,
//! which is only in memory.

use super::pager::{PageKey, Pager, Saved, State};
use crate::PageWrites;
use crate::Record;
use crate::error::Result;
use gemelo_format::{
    Fingerprint, Identity, NodeRef, PAGE_BYTES, Page, PageRef, Pbn, RECORD_PAGE_ENTRIES,
};

/// The records of 256 consecutive PBNs.
pub(super) struct RecordPage {
    identities: [Identity; RECORD_PAGE_ENTRIES],
    counts: [u32; RECORD_PAGE_ENTRIES],
}

impl RecordPage {
    const EMPTY: Self = Self {
        identities: [Identity::NONE; RECORD_PAGE_ENTRIES],
        counts: [0; RECORD_PAGE_ENTRIES],
    };

    fn to_image(&self) -> Box<Page> {
        let mut image = Box::new([0; PAGE_BYTES]);
        for (bytes, identity) in image.chunks_exact_mut(16).zip(&self.identities) {
            bytes.copy_from_slice(&identity.to_bytes());
        }
        image
    }

    fn of_image(image: &Page) -> Self {
        let mut page = Self::EMPTY;
        for (identity, bytes) in page.identities.iter_mut().zip(image.as_chunks::<16>().0) {
            *identity = Identity::from_bytes(*bytes);
        }
        page
    }
}

/// A page in memory and where it is on disk.
pub(super) struct RecordEntry {
    page: Option<Box<RecordPage>>,
    at: Option<NodeRef>,
    pub(super) state: State,
}

impl RecordEntry {
    const ABSENT: Self = Self { page: None, at: None, state: State::Clean };

    /// The page as it was read from its slot; without an image nothing is known of its PBNs.
    pub(super) fn load(&mut self, at: NodeRef, image: Option<&Page>) {
        let page = Box::new(image.map_or(RecordPage::EMPTY, RecordPage::of_image));
        *self = Self { page: Some(page), at: Some(at), state: State::Clean };
    }

    /// The page, which is made if it does not exist.
    fn page_mut(&mut self) -> &mut RecordPage {
        self.page.get_or_insert_with(|| Box::new(RecordPage::EMPTY))
    }

    fn to_image(&self) -> Box<Page> {
        self.page.as_ref().map_or_else(|| Box::new([0; PAGE_BYTES]), |page| page.to_image())
    }

    fn touch(&mut self, pager: &mut Pager, number: u32) {
        let Self { page, state, .. } = self;
        pager.touch(PageKey::Record(number), state, || {
            let image = page.as_ref().map(|page| page.to_image());
            Saved::Record(image.unwrap_or_else(|| Box::new([0; PAGE_BYTES])))
        });
    }

    /// Gives a frozen page a fresh slot. A page without an identity needs none.
    pub(super) fn gather(
        &mut self,
        pager: &mut Pager,
        saved: Option<Box<Page>>,
        writes: &mut PageWrites,
    ) -> Result<()> {
        let image = saved.unwrap_or_else(|| {
            assert!(self.state == State::Frozen, "a page is gathered once");
            self.state = State::Clean;
            self.to_image()
        });
        pager.replace(self.at.take().map(|at| at.slot));
        if image.iter().any(|byte| *byte != 0) {
            self.at = Some(pager.gather(image, writes)?);
        }
        Ok(())
    }
}

/// The records of all PBNs.
#[derive(Default)]
pub(super) struct Records {
    entries: Vec<RecordEntry>,
}

const fn place(pbn: Pbn) -> (usize, usize) {
    (pbn.index() / RECORD_PAGE_ENTRIES, pbn.index() % RECORD_PAGE_ENTRIES)
}

impl Records {
    #[inline]
    fn page(&self, pbn: Pbn) -> Option<(&RecordPage, usize)> {
        let (page, at) = place(pbn);
        Some((self.entries.get(page)?.page.as_deref()?, at))
    }

    #[inline]
    pub(super) fn get(&self, pbn: Pbn) -> Record {
        let read = |(page, at): (&RecordPage, usize)| {
            Some(Record::new(*page.identities.get(at)?, *page.counts.get(at)?))
        };
        self.page(pbn).and_then(read).unwrap_or(Record::NONE)
    }

    /// The identity of a PBN, as it is stored.
    pub(super) fn identity(&self, pbn: Pbn) -> Identity {
        let record = self.get(pbn);
        Identity::of(record.fingerprint).with_suspect(record.is_suspect)
    }

    #[inline]
    pub(super) fn fingerprint(&self, pbn: Pbn) -> Fingerprint {
        self.get(pbn).fingerprint
    }

    /// The number of references, to be changed.
    #[inline]
    pub(super) fn count_mut(&mut self, pbn: Pbn) -> &mut u32 {
        let (page, at) = place(pbn);
        &mut self.entry_or_new(page as u32).page_mut().counts[at]
    }

    #[inline]
    pub(super) fn set_identity(&mut self, pager: &mut Pager, pbn: Pbn, identity: Identity) {
        let (page, at) = place(pbn);
        let entry = self.entry_or_new(page as u32);
        entry.touch(pager, page as u32);
        entry.page_mut().identities[at] = identity;
    }

    /// Marks a page as changed, because its copies on disk are damaged.
    pub(super) fn rewrite(&mut self, pager: &mut Pager, number: u32) {
        if let Some(entry) = self.entries.get_mut(number as usize) {
            entry.touch(pager, number);
        }
    }

    /// Sets all counts to 0, before the references are counted again.
    pub(super) fn forget_counts(&mut self) {
        for page in self.entries.iter_mut().filter_map(|entry| entry.page.as_mut()) {
            page.counts.fill(0);
        }
    }

    pub(super) fn entry_mut(&mut self, number: u32) -> Option<&mut RecordEntry> {
        self.entries.get_mut(number as usize)
    }

    /// The entry of a page, which is made if it does not exist.
    pub(super) fn entry_or_new(&mut self, number: u32) -> &mut RecordEntry {
        let number = number as usize;
        if number >= self.entries.len() {
            self.entries.resize_with(number + 1, || RecordEntry::ABSENT);
        }
        &mut self.entries[number]
    }

    /// The entries that have a page, to be changed.
    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = (u32, &mut RecordEntry)> {
        (0..).zip(&mut self.entries).filter(|(_, entry)| entry.page.is_some())
    }

    pub(super) fn page_refs(&self) -> Vec<PageRef> {
        let refer = |(number, entry): (u32, &RecordEntry)| {
            let NodeRef { slot, checksum } = entry.at?;
            Some(PageRef { number, slot, checksum })
        };
        (0..).zip(&self.entries).filter_map(refer).collect()
    }

    /// Calls `visit` with every PBN that is in a page in memory.
    pub(super) fn visit(&self, visit: &mut impl FnMut(Pbn, Record)) {
        for (number, entry) in (0u64..).zip(&self.entries) {
            let Some(page) = &entry.page else { continue };
            let first = number * RECORD_PAGE_ENTRIES as u64;
            for (at, (identity, references)) in
                (0u64..).zip(page.identities.iter().zip(&page.counts))
            {
                if let Some(pbn) = Pbn::new(first + at) {
                    visit(pbn, Record::new(*identity, *references));
                }
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let pages = self.entries.iter().filter(|entry| entry.page.is_some()).count();
        (pages * size_of::<RecordPage>() + self.entries.capacity() * size_of::<RecordEntry>())
            as u64
    }
}
