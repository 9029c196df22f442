//! The map of a volume in memory. Volumes share what they share on disk, so a pool with many clones
//! takes no more memory than one without.

use gemelo_format::MapEntry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// LBNs of a region.
const REGION_BLOCKS: u64 = gemelo_format::MAP_PAGE_ENTRIES as u64;

/// The places of the LBNs of a region that are not unmapped.
pub(crate) type Region = BTreeMap<u64, MapEntry>;

/// The places of the LBNs of a volume that are not unmapped.
#[derive(Clone, Default)]
pub struct WalkMap {
    regions: Arc<BTreeMap<u64, Arc<Region>>>,
}

impl WalkMap {
    /// Makes a map of regions and their numbers.
    pub(crate) fn of(regions: impl IntoIterator<Item = (u64, Arc<Region>)>) -> Self {
        Self { regions: Arc::new(regions.into_iter().collect()) }
    }

    /// Cuts places, in the order of their LBNs, into regions.
    pub(crate) fn cut(
        places: impl IntoIterator<Item = (u64, MapEntry)>,
    ) -> Vec<(u64, Arc<Region>)> {
        let mut regions: Vec<(u64, Region)> = Vec::new();
        for (lbn, place) in places {
            let number = lbn / REGION_BLOCKS;
            match regions.last_mut() {
                Some((last, region)) if *last == number => drop(region.insert(lbn, place)),
                _ => regions.push((number, Region::from([(lbn, place)]))),
            }
        }
        regions.into_iter().map(|(number, region)| (number, Arc::new(region))).collect()
    }

    /// All LBNs with their places, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, MapEntry)> {
        self.range(0..u64::MAX)
    }

    /// All places, in the order of the LBNs.
    pub fn values(&self) -> impl Iterator<Item = MapEntry> {
        self.iter().map(|(_, place)| place)
    }

    /// The LBNs of a range, with their places.
    pub(crate) fn range(&self, lbns: Range<u64>) -> impl Iterator<Item = (u64, MapEntry)> {
        let numbers = lbns.start / REGION_BLOCKS..lbns.end.div_ceil(REGION_BLOCKS);
        let regions = self.regions.range(numbers).map(|(_, region)| region);
        let entries = regions.flat_map(move |region| region.range(lbns.clone()));
        entries.map(|(lbn, place)| (*lbn, *place))
    }

    /// Calls `visit` with the places of these LBNs whose PBNs differ from those of another map.
    /// Parts that both share are not looked at.
    pub(crate) fn differing(
        &self,
        other: &Self,
        lbns: Range<u64>,
        visit: &mut dyn FnMut(MapEntry),
    ) {
        if Arc::ptr_eq(&self.regions, &other.regions) {
            return;
        }
        let numbers = lbns.start / REGION_BLOCKS..lbns.end.div_ceil(REGION_BLOCKS);
        for (number, region) in self.regions.range(numbers) {
            let beside = other.regions.get(number);
            if beside.is_some_and(|beside| Arc::ptr_eq(region, beside)) {
                continue;
            }
            for (lbn, place) in region.range(lbns.clone()) {
                let beside = beside.and_then(|beside| beside.get(lbn));
                if beside.and_then(|beside| beside.pbn()) != place.pbn() {
                    visit(*place);
                }
            }
        }
    }

    pub(crate) fn insert(&mut self, lbn: u64, place: MapEntry) {
        let regions = Arc::make_mut(&mut self.regions);
        Arc::make_mut(regions.entry(lbn / REGION_BLOCKS).or_default()).insert(lbn, place);
    }

    /// Removes the LBNs of a range.
    pub(crate) fn remove(&mut self, lbns: Range<u64>) {
        let numbers = lbns.start / REGION_BLOCKS..lbns.end.div_ceil(REGION_BLOCKS);
        let touched: Vec<u64> = self.regions.range(numbers).map(|(number, _)| *number).collect();
        let regions = Arc::make_mut(&mut self.regions);
        for number in touched {
            let Some(region) = regions.get_mut(&number) else { continue };
            let region = Arc::make_mut(region);
            region.retain(|lbn, _| !lbns.contains(lbn));
            if region.is_empty() {
                regions.remove(&number);
            }
        }
    }
}

/// The regions of all maps, each once, with the number of maps that have it.
pub(crate) fn distinct<'m>(maps: impl Iterator<Item = &'m WalkMap>) -> Vec<(&'m Region, u64)> {
    let mut whole: HashMap<*const BTreeMap<u64, Arc<Region>>, (&WalkMap, u64)> = HashMap::new();
    for map in maps {
        whole.entry(Arc::as_ptr(&map.regions)).or_insert((map, 0)).1 += 1;
    }
    let mut regions: HashMap<*const Region, (&Region, u64)> = HashMap::new();
    for (map, maps) in whole.into_values() {
        for region in map.regions.values() {
            regions.entry(Arc::as_ptr(region)).or_insert((region, 0)).1 += maps;
        }
    }
    regions.into_values().collect()
}

/// Counts the places that satisfy a condition, in every map. A region that maps share is looked at
/// once.
pub(crate) struct Counter<F> {
    is_such: F,
    known: HashMap<*const Region, u64>,
}

impl<F: Fn(&MapEntry) -> bool> Counter<F> {
    pub(crate) fn new(is_such: F) -> Self {
        Self { is_such, known: HashMap::new() }
    }

    pub(crate) fn count(&mut self, map: &WalkMap) -> u64 {
        let regions = map.regions.values();
        let counts = regions.map(|region| {
            let known = self.known.entry(Arc::as_ptr(region));
            let is_such = &self.is_such;
            *known.or_insert_with(|| region.values().filter(|place| is_such(place)).count() as u64)
        });
        counts.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lbns(map: &WalkMap) -> Vec<u64> {
        map.iter().map(|(lbn, _)| lbn).collect()
    }

    #[test]
    fn maps_share_regions_until_they_change() {
        let numbers = [0, 5, 511, 512, 2000, 5000];
        let places = numbers.map(|lbn| (lbn, MapEntry::Damaged));
        let map = WalkMap::of(WalkMap::cut(places));
        assert_eq!(lbns(&map), numbers);
        let mut copy = map.clone();
        assert_eq!(
            distinct([&map, &copy].into_iter()).iter().map(|(_, maps)| maps).sum::<u64>(),
            8
        );
        copy.insert(513, MapEntry::Damaged);
        copy.remove(5..512);
        copy.remove(1999..2001);
        assert_eq!(lbns(&copy), [0, 512, 513, 5000]);
        assert_eq!(lbns(&map), numbers, "the other map has not changed");
        let regions = distinct([&map, &copy].into_iter());
        assert_eq!(regions.iter().map(|(_, maps)| maps).sum::<u64>(), 7);
        assert_eq!(regions.len(), 6, "that of 5000 is shared");
        let mut counter = Counter::new(|place| *place == MapEntry::Damaged);
        assert_eq!((counter.count(&map), counter.count(&copy)), (6, 4));
    }
}
