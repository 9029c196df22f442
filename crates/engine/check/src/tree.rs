//! The maps of `log` and `ram`, read page by page. A node that several maps have is read once.

use crate::CheckError;
use crate::bits::UsedPbns;
use crate::map::{Leaf, REGION_LBNS, Region, places_of};
use crate::pages::Pages;
use gemelo_format::{
    INNER_BITS, MapEntry, MapKind, MapRef, NodeRef, Page, Slot, WordForm, inner_children,
    sparse_entries,
};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The entries below a node.
#[derive(Default)]
pub(crate) struct Below {
    pub(crate) regions: Vec<(u64, Region)>,
    /// LBNs whose places are lost.
    pub(crate) lost: Vec<LostLbns>,
}

#[derive(Clone)]
pub(crate) struct LostLbns {
    pub(crate) lbns: Range<u64>,
    /// `true` if a repair has marked them before.
    pub(crate) is_known: bool,
}

/// Reads maps, and notes the blocks that they refer to.
pub(crate) struct MapReader<'u> {
    nodes: HashMap<Slot, (MapRef, u64, Arc<Below>)>,
    used: &'u mut UsedPbns,
}

impl<'u> MapReader<'u> {
    pub(crate) fn new(used: &'u mut UsedPbns) -> Self {
        Self { nodes: HashMap::new(), used }
    }

    /// Reads the node with the LBNs from `first` on, unless it is known.
    pub(crate) fn read(
        &mut self,
        node: MapRef,
        first: u64,
        pages: &mut Pages<'_>,
    ) -> Result<Arc<Below>, CheckError> {
        let lbns = first..first + (1 << node.bits);
        let lost = |is_known| {
            let lost = vec![LostLbns { lbns: lbns.clone(), is_known }];
            Arc::new(Below { regions: Vec::new(), lost })
        };
        let Some((kind, at)) = node.page else { return Ok(lost(true)) };
        if let Some((known, known_first, below)) = self.nodes.get(&at.slot) {
            if (*known, *known_first) == (node, first) {
                return Ok(Arc::clone(below));
            }
            pages.report.add(true, format!("slot {} is used in two ways", at.slot.number()));
            return Ok(lost(false));
        }
        let page = pages.read(at)?;
        let below = match (kind, page) {
            (_, None) => None,
            (MapKind::Dense, Some(page)) => Some(Below::of_leaf(at, &page, first, self.used)),
            (MapKind::Sparse, Some(page)) => {
                let entries = sparse_entries(&page, first, node.bits);
                let place = |(lbn, word)| (lbn, WordForm::Narrow.entry(word));
                let places = entries.map(|entries| entries.into_iter().map(place));
                places.map(|places| Below::of(places, self.used))
            }
            (MapKind::Inner, Some(page)) => self.inner(&page, node.bits, first, pages)?,
        };
        let below = below.map_or_else(|| lost(false), Arc::new);
        self.nodes.insert(at.slot, (node, first, Arc::clone(&below)));
        Ok(below)
    }

    fn inner(
        &mut self,
        page: &Page,
        bits: u8,
        first: u64,
        pages: &mut Pages<'_>,
    ) -> Result<Option<Below>, CheckError> {
        let Some(children) = inner_children(page, bits) else { return Ok(None) };
        let mut all = Below::default();
        for (position, child) in children {
            let child_first = first + ((position as u64) << (bits - INNER_BITS));
            let below = self.read(child, child_first, pages)?;
            all.regions.extend(below.regions.iter().cloned());
            all.lost.extend(below.lost.iter().cloned());
        }
        Ok(Some(all))
    }
}

impl Below {
    /// The regions of these places, which are in their order.
    pub(crate) fn of(places: impl Iterator<Item = (u64, MapEntry)>, used: &mut UsedPbns) -> Self {
        let mut all: Vec<(u64, Vec<(u64, MapEntry)>)> = Vec::new();
        for (lbn, place) in places {
            used.note(&[(lbn, place)]);
            let number = lbn / REGION_LBNS;
            match all.last_mut() {
                Some((last, places)) if *last == number => places.push((lbn, place)),
                _ => all.push((number, vec![(lbn, place)])),
            }
        }
        let regions = all.into_iter().map(|(number, places)| (number, Region::of(places)));
        Self { regions: regions.collect(), lost: Vec::new() }
    }

    fn of_leaf(at: NodeRef, page: &Page, first: u64, used: &mut UsedPbns) -> Self {
        let places: Vec<_> = places_of(page, first, WordForm::Narrow).collect();
        used.note(&places);
        let region = Region::Page(Leaf::new(at, &places));
        Self { regions: vec![(first / REGION_LBNS, region)], lost: Vec::new() }
    }
}
