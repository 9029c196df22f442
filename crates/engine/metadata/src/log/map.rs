//! A volume's map: pages of 512 map words, in groups. Pages and groups exist only where something
//! is mapped.
//!
//! Volumes that were cloned share pages. A volume that changes a shared page gets its own copy
//! first. A shared page holds one reference to each of its PBNs, whatever the number of volumes
//! that share it.

use super::pager::{Entry, PageData, PageKey, Pager};
use gemelo_format::{Lbn, MAP_PAGE_ENTRIES, Page, PageRef, Place, VolumeId};
use std::sync::Arc;

/// Entries of a group. An unmapped part of a large volume costs 8 bytes for each group.
const GROUP_PAGES: usize = 256;

/// The map words of 512 consecutive LBNs.
#[derive(Clone)]
pub(super) struct MapPage {
    pub(super) words: Words,
}

pub(super) type Words = [u64; MAP_PAGE_ENTRIES];

impl PageData for Arc<MapPage> {
    fn empty() -> Self {
        Self::new(MapPage { words: [0; MAP_PAGE_ENTRIES] })
    }

    fn to_image(&self) -> Box<Page> {
        let mut image = Box::new([0; gemelo_format::PAGE_BYTES]);
        for (bytes, word) in image.chunks_exact_mut(8).zip(&self.words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        image
    }

    fn fill_from(&mut self, image: &Page) {
        for (word, bytes) in words_mut(self).iter_mut().zip(image.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
    }
}

/// The words of a page, to be changed. A shared page is copied first.
pub(super) fn words_mut(page: &mut Arc<MapPage>) -> &mut Words {
    &mut Arc::make_mut(page).words
}

/// Returns whether more than one volume has the page.
pub(super) fn is_shared(page: &Arc<MapPage>) -> bool {
    Arc::strong_count(page) > 1
}

type MapEntry = Entry<Arc<MapPage>>;
type Group = Box<[MapEntry]>;

/// The map of a volume.
#[derive(Default)]
pub(super) struct PagedMap {
    groups: Vec<Option<Group>>,
    mapped: u64,
    /// The number of mapped LBNs whose PBN is known.
    stored: u64,
    pages: u64,
}

/// The number of the page that has an LBN, and the LBN's index in that page.
const fn place(lbn: Lbn) -> (usize, usize) {
    let entries = MAP_PAGE_ENTRIES as u64;
    ((lbn.0 / entries) as usize, (lbn.0 % entries) as usize)
}

impl PagedMap {
    fn page(&self, number: usize) -> Option<&MapPage> {
        let group = self.groups.get(number / GROUP_PAGES)?.as_ref()?;
        group.get(number % GROUP_PAGES)?.page.as_deref()
    }

    pub(super) fn entry_mut(&mut self, number: u32) -> Option<&mut MapEntry> {
        let number = number as usize;
        self.groups.get_mut(number / GROUP_PAGES)?.as_mut()?.get_mut(number % GROUP_PAGES)
    }

    /// The entry of a page, which is made if it does not exist.
    pub(super) fn entry_or_new(&mut self, number: u32) -> &mut MapEntry {
        let (group, within) = (number as usize / GROUP_PAGES, number as usize % GROUP_PAGES);
        if group >= self.groups.len() {
            self.groups.resize_with(group + 1, || None);
        }
        let absent = || (0..GROUP_PAGES).map(|_| Entry::ABSENT).collect();
        &mut self.groups[group].get_or_insert_with(absent)[within]
    }

    #[inline]
    pub(super) fn word(&self, lbn: Lbn) -> u64 {
        let (page, at) = place(lbn);
        self.page(page).and_then(|page| page.words.get(at)).copied().unwrap_or(0)
    }

    /// Sets the place of an LBN. Returns the place before.
    #[inline]
    pub(super) fn set(&mut self, id: VolumeId, pager: &mut Pager, lbn: Lbn, place: Place) -> Place {
        let (page, at) = self::place(lbn);
        let number = page as u32;
        let entry = self.entry_or_new(number);
        let is_new = entry.page.is_none();
        pager.touch(PageKey::Map(id, number), entry);
        let held = &mut words_mut(entry.page_mut())[at];
        let before = Place::from_word(std::mem::replace(held, place.word()));
        self.pages += u64::from(is_new);
        self.count_one(place, 1);
        self.count_one(before, -1);
        before
    }

    /// Returns whether other volumes share the page of this LBN.
    pub(super) fn is_in_shared_page(&self, lbn: Lbn) -> bool {
        let number = place(lbn).0;
        let group = self.groups.get(number / GROUP_PAGES).and_then(Option::as_ref);
        let entry = group.and_then(|group| group.get(number % GROUP_PAGES));
        entry.and_then(|entry| entry.page.as_ref()).is_some_and(is_shared)
    }

    /// The first LBN of the page that has this one, and the first LBN after that page.
    pub(super) const fn page_of(lbn: Lbn) -> (Lbn, Lbn) {
        let entries = MAP_PAGE_ENTRIES as u64;
        let first = lbn.0 / entries * entries;
        (Lbn(first), Lbn(first + entries))
    }

    /// Removes the page that has this LBN, which unmaps all of its LBNs.
    pub(super) fn take_page(
        &mut self,
        id: VolumeId,
        pager: &mut Pager,
        lbn: Lbn,
    ) -> Option<Arc<MapPage>> {
        let number = place(lbn).0 as u32;
        let entry = self.entry_mut(number).filter(|entry| entry.page.is_some())?;
        pager.touch(PageKey::Map(id, number), entry);
        let page = entry.page.take()?;
        self.pages -= 1;
        page.words.iter().for_each(|word| self.count_one(Place::from_word(*word), -1));
        Some(page)
    }

    /// Replaces the page of this LBN by a copy if the page is shared, and returns the words of the
    /// page.
    pub(super) fn own(&mut self, lbn: Lbn) -> Option<Words> {
        let page = self.entry_mut(place(lbn).0 as u32)?.page.as_mut()?;
        is_shared(page).then(|| *words_mut(page))
    }

    const fn count_one(&mut self, place: Place, by: i64) {
        match place {
            Place::Unmapped => {}
            Place::Damaged => self.mapped = self.mapped.wrapping_add_signed(by),
            Place::Stored(..) => {
                self.mapped = self.mapped.wrapping_add_signed(by);
                self.stored = self.stored.wrapping_add_signed(by);
            }
        }
    }

    /// Makes the map of another volume, which shares all pages of this one.
    pub(super) fn share(&self, id: VolumeId, pager: &mut Pager) -> Self {
        let mut share_entry = |(number, entry): (u32, &MapEntry)| match &entry.page {
            Some(page) => {
                pager.note_dirty(PageKey::Map(id, number));
                Entry::new_dirty(Arc::clone(page))
            }
            None => Entry::ABSENT,
        };
        let mut share_group = |(group, entries): (usize, &Option<Group>)| {
            let first = (group * GROUP_PAGES) as u32;
            entries
                .as_ref()
                .map(|entries| (first..).zip(entries.iter()).map(&mut share_entry).collect())
        };
        let groups = self.groups.iter().enumerate().map(&mut share_group).collect();
        Self { groups, mapped: self.mapped, stored: self.stored, pages: self.pages }
    }

    /// Returns the first LBN in the range that has a word.
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

    /// Returns the LBNs whose words satisfy a condition.
    pub(super) fn lbns_where(&self, is_such: impl Fn(u64) -> bool) -> Vec<Lbn> {
        let entries = MAP_PAGE_ENTRIES as u64;
        let in_page = |(number, page): (u32, &Arc<MapPage>)| {
            let lbns = (u64::from(number) * entries..).zip(page.words);
            lbns.filter(|(_, word)| is_such(*word)).map(|(lbn, _)| Lbn(lbn)).collect::<Vec<_>>()
        };
        self.pages().flat_map(in_page).collect()
    }

    pub(super) const fn mapped(&self) -> u64 {
        self.mapped
    }

    pub(super) const fn stored(&self) -> u64 {
        self.stored
    }

    /// The number of pages, shared ones included.
    pub(super) const fn page_count(&self) -> u64 {
        self.pages
    }

    /// All pages that are in memory, with their numbers.
    pub(super) fn pages(&self) -> impl Iterator<Item = (u32, &Arc<MapPage>)> {
        self.entries().filter_map(|(number, entry)| Some((number, entry.page.as_ref()?)))
    }

    fn entries(&self) -> impl Iterator<Item = (u32, &MapEntry)> {
        self.groups.iter().enumerate().flat_map(|(group, entries)| {
            let first = (group * GROUP_PAGES) as u32;
            entries.iter().flat_map(move |entries| (first..).zip(entries.iter()))
        })
    }

    /// The entries that have a page, to be changed.
    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = (u32, &mut Entry<Arc<MapPage>>)> {
        self.groups.iter_mut().enumerate().flat_map(|(group, entries)| {
            let first = (group * GROUP_PAGES) as u32;
            let entries =
                entries.iter_mut().flat_map(move |entries| (first..).zip(entries.iter_mut()));
            entries.filter(|(_, entry)| entry.page.is_some())
        })
    }

    pub(super) fn page_refs(&self) -> Vec<PageRef> {
        self.entries().filter_map(|(number, entry)| entry.page_ref(number)).collect()
    }

    pub(super) fn slots(&self) -> Vec<gemelo_format::Slot> {
        self.entries().filter_map(|(_, entry)| entry.slot()).collect()
    }

    /// Counts the words of a page that was read and that replaced no other page.
    pub(super) fn count_words(&mut self, words: &Words) {
        self.pages += 1;
        words.iter().for_each(|word| self.count_one(Place::from_word(*word), 1));
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let groups = self.groups.iter().flatten().count() * GROUP_PAGES * size_of::<MapEntry>();
        self.pages * size_of::<MapPage>() as u64
            + (groups + self.groups.len() * size_of::<Option<Group>>()) as u64
    }
}
