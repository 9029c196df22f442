//! The records of the PBNs. A record has an identity, which is on disk too, and a reference count,
//! which is only in memory.

use super::pager::{Entry, PageData, PageKey, Pager};
use crate::Record;
use gemelo_format::{Fingerprint, Identity, Page, PageRef, Pbn, RECORD_PAGE_ENTRIES};

/// The records of 256 consecutive PBNs.
pub(super) struct RecordPage {
    identities: [Identity; RECORD_PAGE_ENTRIES],
    counts: [u32; RECORD_PAGE_ENTRIES],
}

impl PageData for Box<RecordPage> {
    fn empty() -> Self {
        Self::new(RecordPage {
            identities: [Identity::NONE; RECORD_PAGE_ENTRIES],
            counts: [0; RECORD_PAGE_ENTRIES],
        })
    }

    fn to_image(&self) -> Box<Page> {
        let mut image = Box::new([0; gemelo_format::PAGE_BYTES]);
        for (bytes, identity) in image.chunks_exact_mut(16).zip(&self.identities) {
            bytes.copy_from_slice(&identity.to_bytes());
        }
        image
    }

    fn fill_from(&mut self, image: &Page) {
        for (identity, bytes) in self.identities.iter_mut().zip(image.as_chunks::<16>().0) {
            *identity = Identity::from_bytes(*bytes);
        }
    }
}

type RecordEntry = Entry<Box<RecordPage>>;

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
        pager.touch(PageKey::Record(page as u32), entry);
        entry.page_mut().identities[at] = identity;
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
            self.entries.resize_with(number + 1, || Entry::ABSENT);
        }
        &mut self.entries[number]
    }

    /// The entries that have a page, to be changed.
    pub(super) fn entries_mut(
        &mut self,
    ) -> impl Iterator<Item = (u32, &mut Entry<Box<RecordPage>>)> {
        (0..).zip(&mut self.entries).filter(|(_, entry)| entry.page.is_some())
    }

    pub(super) fn page_refs(&self) -> Vec<PageRef> {
        (0..).zip(&self.entries).filter_map(|(number, entry)| entry.page_ref(number)).collect()
    }

    /// Calls `visit` with every PBN that is in a page in memory.
    pub(super) fn visit(&self, visit: &mut impl FnMut(Pbn, Record)) {
        for (number, entry) in (0u32..).zip(&self.entries) {
            let Some(page) = &entry.page else { continue };
            let first = number * RECORD_PAGE_ENTRIES as u32;
            for (at, (identity, references)) in
                (0u32..).zip(page.identities.iter().zip(&page.counts))
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
