//! A volume's map: pages of 1024 PBNs, in groups, both only where something is mapped.

use super::pager::{Entry, PageData, PageKey, Pager};
use crate::format::{MAP_PAGE_ENTRIES, Page, PageRef};
use crate::types::{Lbn, VolumeId};

/// Entries of a group: what an empty part of a large volume costs is 8 bytes for each.
const GROUP_PAGES: usize = 256;

/// The PBNs of 1024 consecutive LBNs.
pub(super) struct MapPage {
    pub(super) words: [u32; MAP_PAGE_ENTRIES],
}

impl PageData for MapPage {
    fn empty() -> Box<Self> {
        Box::new(Self { words: [0; MAP_PAGE_ENTRIES] })
    }

    fn to_image(&self) -> Box<Page> {
        let mut image = Box::new([0; crate::format::PAGE_BYTES]);
        for (bytes, word) in image.chunks_exact_mut(4).zip(&self.words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        image
    }

    fn fill_from(&mut self, image: &Page) {
        for (word, bytes) in self.words.iter_mut().zip(image.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
    }
}

type Group = Box<[Entry<MapPage>]>;

/// The map of a volume.
#[derive(Default)]
pub(super) struct Map {
    groups: Vec<Option<Group>>,
    mapped: u64,
    pages: u64,
}

/// The page of an LBN, and where in it.
const fn place(lbn: Lbn) -> (usize, usize) {
    let entries = MAP_PAGE_ENTRIES as u64;
    ((lbn.0 / entries) as usize, (lbn.0 % entries) as usize)
}

impl Map {
    fn page(&self, number: usize) -> Option<&MapPage> {
        let group = self.groups.get(number / GROUP_PAGES)?.as_ref()?;
        group.get(number % GROUP_PAGES)?.page.as_deref()
    }

    pub(super) fn entry_mut(&mut self, number: u32) -> Option<&mut Entry<MapPage>> {
        let number = number as usize;
        self.groups.get_mut(number / GROUP_PAGES)?.as_mut()?.get_mut(number % GROUP_PAGES)
    }

    /// The entry of a page, made if it was not there.
    pub(super) fn entry_or_new(&mut self, number: u32) -> Option<&mut Entry<MapPage>> {
        let group = number as usize / GROUP_PAGES;
        if group >= self.groups.len() {
            self.groups.resize_with(group + 1, || None);
        }
        self.groups
            .get_mut(group)?
            .get_or_insert_with(|| (0..GROUP_PAGES).map(|_| Entry::ABSENT).collect())
            .get_mut(number as usize % GROUP_PAGES)
    }

    #[inline]
    pub(super) fn word(&self, lbn: Lbn) -> u32 {
        let (page, at) = place(lbn);
        self.page(page).and_then(|page| page.words.get(at)).copied().unwrap_or(0)
    }

    /// Sets the word of an LBN, and gives the one before.
    #[inline]
    pub(super) fn set(&mut self, id: VolumeId, pager: &mut Pager, lbn: Lbn, word: u32) -> u32 {
        let (page, at) = place(lbn);
        let number = page as u32;
        let Some(entry) = self.entry_or_new(number) else { return 0 };
        let is_new = entry.page.is_none();
        pager.touch(PageKey::Map(id, number), entry);
        let Some(held) = entry.page_mut().words.get_mut(at) else { return 0 };
        let before = std::mem::replace(held, word);
        self.pages += u64::from(is_new);
        self.mapped += u64::from(word != 0);
        self.mapped -= u64::from(before != 0);
        before
    }

    /// The first LBN in the range that has a word.
    pub(super) fn next_mapped(&self, from: Lbn, end: Lbn) -> Option<Lbn> {
        let mut lbn = from.0;
        while lbn < end.0 {
            let (number, at) = place(Lbn(lbn));
            let next_page = (number as u64 + 1) * MAP_PAGE_ENTRIES as u64;
            if let Some(page) = self.page(number)
                && let Some(ahead) = page.words.iter().skip(at).position(|word| *word != 0)
            {
                let found = lbn + ahead as u64;
                return (found < end.0).then_some(Lbn(found));
            }
            lbn = match self.groups.get(number / GROUP_PAGES) {
                None => return None,
                Some(None) => next_page.next_multiple_of((GROUP_PAGES * MAP_PAGE_ENTRIES) as u64),
                Some(Some(_)) => next_page,
            };
        }
        None
    }

    /// The LBNs whose word is such.
    pub(super) fn lbns_where(&self, is_such: impl Fn(u32) -> bool) -> Vec<Lbn> {
        let entries = MAP_PAGE_ENTRIES as u64;
        let in_page = |(number, page): (u32, &MapPage)| {
            let lbns = (u64::from(number) * entries..).zip(page.words);
            lbns.filter(|(_, word)| is_such(*word)).map(|(lbn, _)| Lbn(lbn)).collect::<Vec<_>>()
        };
        self.pages().flat_map(in_page).collect()
    }

    pub(super) const fn mapped(&self) -> u64 {
        self.mapped
    }

    /// All pages that are in memory, with their numbers.
    pub(super) fn pages(&self) -> impl Iterator<Item = (u32, &MapPage)> {
        self.entries().filter_map(|(number, entry)| Some((number, entry.page.as_deref()?)))
    }

    fn entries(&self) -> impl Iterator<Item = (u32, &Entry<MapPage>)> {
        self.groups.iter().enumerate().flat_map(|(group, entries)| {
            let first = (group * GROUP_PAGES) as u32;
            entries.iter().flat_map(move |entries| (first..).zip(entries.iter()))
        })
    }

    /// The entries that have a page, to be changed.
    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = (u32, &mut Entry<MapPage>)> {
        self.groups.iter_mut().enumerate().flat_map(|(group, entries)| {
            let first = (group * GROUP_PAGES) as u32;
            let entries = entries.iter_mut().flat_map(move |entries| (first..).zip(entries.iter_mut()));
            entries.filter(|(_, entry)| entry.page.is_some())
        })
    }

    pub(super) fn page_refs(&self) -> Vec<PageRef> {
        self.entries().filter_map(|(number, entry)| entry.page_ref(number)).collect()
    }

    pub(super) fn slots(&self) -> Vec<crate::format::Slot> {
        self.entries().filter_map(|(_, entry)| entry.slot()).collect()
    }

    /// Counts a page that was read or copied, and replaced none.
    pub(super) fn count_words(&mut self, words: &[u32; MAP_PAGE_ENTRIES]) {
        self.pages += 1;
        self.mapped += words.iter().filter(|word| **word != 0).count() as u64;
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let groups = self.groups.iter().flatten().count() * GROUP_PAGES * size_of::<Entry<MapPage>>();
        self.pages * size_of::<MapPage>() as u64
            + (groups + self.groups.len() * size_of::<Option<Group>>()) as u64
    }
}
