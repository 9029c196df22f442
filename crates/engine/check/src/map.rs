//! The map of a volume: which page of the metadata disk has the LBNs of each region. Volumes share
//! what they share on disk. Only what the journal has changed is in memory.

use crate::source::Entries;
use gemelo_format::{
    DIRECTORY_ENTRIES, MAP_PAGE_ENTRIES, MapEntry, NodeRef, Page, Slot, WordForm, array_value,
};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use gemelo_base::SparseBits;

/// LBNs of a region.
pub(crate) const REGION_LBNS: u64 = MAP_PAGE_ENTRIES as u64;
/// Regions of a chunk: those of the page above the leaves of an array.
const CHUNK_REGIONS: u64 = DIRECTORY_ENTRIES as u64;

/// Bytes of a word of a map.
const WORD_BYTES: usize = 8;

/// A page with the words of all LBNs of a region, and the numbers of LBNs that it maps, and of
/// those that have a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaf {
    checksum: u64,
    slot: Slot,
    mapped: u16,
    stored: u16,
}

impl Leaf {
    pub(crate) fn new(at: NodeRef, entries: &[(u64, MapEntry)]) -> Self {
        let LbnTally { mapped, stored } = LbnTally::of(entries);
        assert!(mapped <= REGION_LBNS, "a page has the LBNs of one region");
        Self { checksum: at.checksum, slot: at.slot, mapped: mapped as u16, stored: stored as u16 }
    }

    pub(crate) const fn at(self) -> NodeRef {
        NodeRef { slot: self.slot, checksum: self.checksum }
    }
}

/// The number of LBNs that are mapped, and of those that have a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LbnTally {
    pub(crate) mapped: u64,
    pub(crate) stored: u64,
}

impl LbnTally {
    pub(crate) fn of(entries: &[(u64, MapEntry)]) -> Self {
        let stored = entries.iter().filter(|(_, place)| place.pbn().is_some()).count() as u64;
        Self { mapped: entries.len() as u64, stored }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.mapped += other.mapped;
        self.stored += other.stored;
    }
}

/// The places of the LBNs of a region.
#[derive(Debug, Clone)]
pub(crate) enum Region {
    Page(Leaf),
    /// So many LBNs from the first one on are lost.
    Lost(u16),
    /// In memory, over what is below.
    Own(Arc<Own>),
}

/// The changed LBNs of a region, and what they cover.
#[derive(Debug, Clone, Default)]
pub(crate) struct Own {
    below: Option<Below>,
    changes: BTreeMap<u16, MapEntry>,
}

#[derive(Debug, Clone, Copy)]
enum Below {
    Page(Leaf),
    Lost(u16),
}

/// The numbers of regions and the regions, in order.
pub(crate) type Chunk = Vec<(u64, Region)>;

/// The LBNs of a region from its first one on whose places are those of a page, in their order.
pub(crate) fn places_of(
    page: &Page,
    first: u64,
    words: WordForm,
) -> impl Iterator<Item = (u64, MapEntry)> {
    let word = move |at| words.entry(array_value(page, at, WORD_BYTES) as u64);
    let places = (first..).zip((0..MAP_PAGE_ENTRIES).map(word));
    places.filter(|(_, place)| *place != MapEntry::Unmapped)
}

impl Region {
    /// The region with these entries alone, which are its own.
    pub(crate) fn of(entries: impl IntoIterator<Item = (u64, MapEntry)>) -> Self {
        let within = |(lbn, place)| ((lbn % REGION_LBNS) as u16, place);
        let changes = entries.into_iter().map(within).collect();
        Self::Own(Arc::new(Own { below: None, changes }))
    }

    /// The page that has to be read for its entries.
    pub(crate) fn leaf(&self) -> Option<Leaf> {
        match self {
            Self::Page(leaf) => Some(*leaf),
            Self::Lost(_) => None,
            Self::Own(own) => match own.below {
                Some(Below::Page(leaf)) => Some(leaf),
                Some(Below::Lost(_)) | None => None,
            },
        }
    }

    /// Returns whether both are one region, so that no entry differs.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Page(one), Self::Page(other)) => one == other,
            (Self::Lost(one), Self::Lost(other)) => one == other,
            (Self::Own(one), Self::Own(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// The numbers of its LBNs, if they are known without a read.
    pub(crate) fn tally(&self) -> Option<LbnTally> {
        match self {
            Self::Page(leaf) => {
                Some(LbnTally { mapped: leaf.mapped.into(), stored: leaf.stored.into() })
            }
            Self::Lost(lbns) => Some(LbnTally { mapped: (*lbns).into(), stored: 0 }),
            Self::Own(_) if self.leaf().is_some() => None,
            Self::Own(_) => Some(LbnTally::of(&self.entries(0, None, WordForm::Narrow))),
        }
    }

    /// Its entries, with the page that was read for them.
    pub(crate) fn entries(&self, number: u64, page: Option<&Page>, words: WordForm) -> Entries {
        let first = number * REGION_LBNS;
        let lost = |lbns: u16| {
            (first..first + u64::from(lbns)).map(|lbn| (lbn, MapEntry::Damaged)).collect()
        };
        let read = || page.map_or_else(Vec::new, |page| places_of(page, first, words).collect());
        let own = match self {
            Self::Page(_) => return read(),
            Self::Lost(lbns) => return lost(*lbns),
            Self::Own(own) => own,
        };
        let below: Entries = match own.below {
            None => Vec::new(),
            Some(Below::Page(_)) => read(),
            Some(Below::Lost(lbns)) => lost(lbns),
        };
        let mut all: BTreeMap<u64, MapEntry> = below.into_iter().collect();
        all.extend(own.changes.iter().map(|(at, place)| (first + u64::from(*at), *place)));
        all.retain(|_, place| *place != MapEntry::Unmapped);
        all.into_iter().collect()
    }

    fn own(&mut self) -> &mut Own {
        let below = match self {
            Self::Page(leaf) => Some(Below::Page(*leaf)),
            Self::Lost(lbns) => Some(Below::Lost(*lbns)),
            Self::Own(own) => return Arc::make_mut(own),
        };
        *self = Self::Own(Arc::new(Own { below, changes: BTreeMap::new() }));
        self.own()
    }
}

/// The map of a volume.
#[derive(Debug, Clone, Default)]
pub(crate) struct WalkMap {
    chunks: Arc<BTreeMap<u64, Arc<Chunk>>>,
}

impl WalkMap {
    /// Makes a map of chunks, by their numbers.
    pub(crate) fn of(chunks: impl IntoIterator<Item = (u64, Arc<Chunk>)>) -> Self {
        Self { chunks: Arc::new(chunks.into_iter().collect()) }
    }

    /// Cuts regions, in their order, into chunks.
    pub(crate) fn cut(regions: impl IntoIterator<Item = (u64, Region)>) -> Vec<(u64, Arc<Chunk>)> {
        let mut chunks: Vec<(u64, Chunk)> = Vec::new();
        for (number, region) in regions {
            let chunk = number / CHUNK_REGIONS;
            match chunks.last_mut() {
                Some((last, regions)) if *last == chunk => regions.push((number, region)),
                _ => chunks.push((chunk, vec![(number, region)])),
            }
        }
        chunks.into_iter().map(|(chunk, regions)| (chunk, Arc::new(regions))).collect()
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.chunks, &other.chunks)
    }

    /// The chunks, in order.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &Arc<Chunk>> {
        self.chunks.values()
    }

    /// The chunks with LBNs of a range, each with that of another map at the same place.
    pub(crate) fn beside<'m>(
        &'m self,
        other: &'m Self,
        lbns: &Range<u64>,
    ) -> impl Iterator<Item = (&'m Arc<Chunk>, Option<&'m Arc<Chunk>>)> {
        let chunks = self.chunks.range(chunks_of(lbns));
        chunks.map(|(number, chunk)| (chunk, other.chunks.get(number)))
    }

    pub(crate) fn regions(&self) -> impl Iterator<Item = &(u64, Region)> {
        self.chunks().flat_map(|chunk| chunk.iter())
    }

    /// The regions with LBNs of a range.
    pub(crate) fn regions_of(&self, lbns: &Range<u64>) -> impl Iterator<Item = (u64, &Region)> {
        let chunks = self.chunks.range(chunks_of(lbns)).map(|(_, chunk)| chunk);
        let numbers = regions_of(lbns);
        let regions = chunks.flat_map(|chunk| chunk.iter());
        let regions = regions.filter(move |(number, _)| numbers.contains(number));
        regions.map(|(number, region)| (*number, region))
    }

    fn region_mut(&mut self, number: u64) -> &mut Region {
        let chunks = Arc::make_mut(&mut self.chunks);
        let chunk = Arc::make_mut(chunks.entry(number / CHUNK_REGIONS).or_default());
        let at = chunk.partition_point(|(other, _)| *other < number);
        if chunk.get(at).is_none_or(|(other, _)| *other != number) {
            chunk.insert(at, (number, Region::of([])));
        }
        let (_, region) = &mut chunk[at];
        region
    }

    pub(crate) fn insert(&mut self, lbn: u64, place: MapEntry) {
        let own = self.region_mut(lbn / REGION_LBNS).own();
        own.changes.insert((lbn % REGION_LBNS) as u16, place);
    }

    /// Marks LBNs as lost.
    pub(crate) fn lose(&mut self, lbns: Range<u64>) {
        let mut next = lbns.start;
        while next < lbns.end {
            let number = next / REGION_LBNS;
            let end = ((number + 1) * REGION_LBNS).min(lbns.end);
            if next.is_multiple_of(REGION_LBNS) && self.regions_of(&(next..end)).next().is_none() {
                *self.region_mut(number) = Region::Lost((end - next) as u16);
            } else {
                (next..end).for_each(|lbn| self.insert(lbn, MapEntry::Damaged));
            }
            next = end;
        }
    }

    /// Removes the LBNs of a range.
    pub(crate) fn remove(&mut self, lbns: Range<u64>) {
        let numbers = chunks_of(&lbns);
        let touched: Vec<u64> = self.chunks.range(numbers).map(|(number, _)| *number).collect();
        let chunks = Arc::make_mut(&mut self.chunks);
        for number in touched {
            let Some(chunk) = chunks.get_mut(&number) else { continue };
            let chunk = Arc::make_mut(chunk);
            for (number, region) in chunk.iter_mut() {
                let own = lbns_of(*number);
                let cut = own.start.max(lbns.start)..own.end.min(lbns.end);
                if cut == own {
                    *region = Region::of([]);
                } else if !cut.is_empty() {
                    let changes = &mut region.own().changes;
                    let within = cut.map(|lbn| (lbn % REGION_LBNS) as u16);
                    changes.extend(within.map(|at| (at, MapEntry::Unmapped)));
                }
            }
            chunk.retain(|(_, region)| region.tally() != Some(LbnTally::default()));
            if chunk.is_empty() {
                chunks.remove(&number);
            }
        }
    }
}

/// The LBNs of a region.
const fn lbns_of(number: u64) -> Range<u64> {
    number * REGION_LBNS..(number + 1) * REGION_LBNS
}

const fn regions_of(lbns: &Range<u64>) -> Range<u64> {
    lbns.start / REGION_LBNS..lbns.end.div_ceil(REGION_LBNS)
}

fn chunks_of(lbns: &Range<u64>) -> Range<u64> {
    let regions = regions_of(lbns);
    regions.start / CHUNK_REGIONS..regions.end.div_ceil(CHUNK_REGIONS)
}

/// The regions that were looked at, so that each that maps share is looked at once.
#[derive(Default)]
pub(crate) struct Seen {
    chunks: HashSet<*const Chunk>,
    slots: SparseBits,
    own: HashSet<*const Own>,
}

impl Seen {
    /// The regions of a chunk that were not looked at before.
    pub(crate) fn new_of<'c>(&mut self, chunk: &'c Arc<Chunk>) -> Vec<(u64, &'c Region)> {
        if !self.chunks.insert(Arc::as_ptr(chunk)) {
            return Vec::new();
        }
        let regions = chunk.iter().filter(|(_, region)| self.add(region));
        regions.map(|(number, region)| (*number, region)).collect()
    }

    /// Adds a region. Returns whether it is new. A lost one always is.
    pub(crate) fn add(&mut self, region: &Region) -> bool {
        match region {
            Region::Page(leaf) => self.slots.insert(leaf.slot.number().into()),
            Region::Lost(_) => true,
            Region::Own(own) => self.own.insert(Arc::as_ptr(own)),
        }
    }

    pub(crate) fn has(&self, region: &Region) -> bool {
        match region {
            Region::Page(leaf) => self.slots.has(leaf.slot.number().into()),
            Region::Lost(_) => false,
            Region::Own(own) => self.own.contains(&Arc::as_ptr(own)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lbns(map: &WalkMap) -> Vec<u64> {
        let regions = map.regions();
        let entries =
            regions.flat_map(|(number, region)| region.entries(*number, None, WordForm::Narrow));
        entries.map(|(lbn, _)| lbn).collect()
    }

    fn new_regions<'m>(maps: impl IntoIterator<Item = &'m WalkMap>) -> usize {
        let mut seen = Seen::default();
        let chunks = maps.into_iter().flat_map(WalkMap::chunks);
        chunks.map(|chunk| seen.new_of(chunk).len()).sum()
    }

    #[test]
    fn maps_share_regions_until_they_change() {
        let numbers = [0, 5, 511, 512, 2000, 5000, 400_000];
        let mut map = WalkMap::default();
        numbers.iter().for_each(|lbn| map.insert(*lbn, MapEntry::Damaged));
        assert_eq!(lbns(&map), numbers);
        let mut copy = map.clone();
        assert!(copy.is_same(&map));
        assert_eq!(new_regions([&map, &copy]), 5);
        copy.insert(513, MapEntry::Damaged);
        copy.remove(5..512);
        copy.remove(1999..2001);
        assert_eq!(lbns(&copy), [0, 512, 513, 5000, 400_000]);
        assert_eq!(lbns(&map), numbers, "the other map has not changed");
        assert_eq!(new_regions([&map, &copy]), 7, "those of 5000 and 400,000 are shared");
        copy.remove(1000..u64::MAX);
        assert_eq!(lbns(&copy), [0, 512, 513]);
        copy.lose(1024..1600);
        copy.lose(510..513);
        assert_eq!(
            lbns(&copy),
            [0, 510, 511, 512, 513].into_iter().chain(1024..1600).collect::<Vec<_>>()
        );
        copy.remove(1030..1599);
        assert_eq!(lbns(&copy).len(), 5 + 7);
    }
}
