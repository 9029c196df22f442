//! The maps of `log` and `ram`, read page by page. A node that several maps have is read once.

use crate::map::{Region, WalkMap};
use crate::pages::Pages;
use gemelo_format::{
    FormatError, INNER_BITS, MapEntry, MapKind, MapRef, Page, Slot, WordForm, inner_children,
    sparse_entries,
};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The entries below a node.
#[derive(Default)]
pub(crate) struct Below {
    pub(crate) regions: Vec<(u64, Arc<Region>)>,
    /// LBNs whose places are lost.
    pub(crate) lost: Vec<LostLbns>,
}

#[derive(Clone)]
pub(crate) struct LostLbns {
    pub(crate) lbns: Range<u64>,
    /// `true` if a repair has marked them before.
    pub(crate) is_known: bool,
}

/// Reads maps.
#[derive(Default)]
pub(crate) struct MapReader {
    nodes: HashMap<Slot, (MapRef, u64, Arc<Below>)>,
}

impl MapReader {
    /// Reads the node with the LBNs from `first` on, unless it is known.
    pub(crate) fn read(
        &mut self,
        node: MapRef,
        first: u64,
        pages: &mut Pages<'_>,
    ) -> Result<Arc<Below>, FormatError> {
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
            (MapKind::Dense, Some(page)) => Some(Below::of(dense_places(&page, first))),
            (MapKind::Sparse, Some(page)) => {
                let entries = sparse_entries(&page, first, node.bits);
                let place = |(lbn, word)| (lbn, WordForm::Narrow.entry(word));
                entries.map(|entries| Below::of(entries.into_iter().map(place)))
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
    ) -> Result<Option<Below>, FormatError> {
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
    pub(crate) fn of(places: impl Iterator<Item = (u64, MapEntry)>) -> Self {
        Self { regions: WalkMap::cut(places), lost: Vec::new() }
    }
}

fn dense_places(page: &Page, first: u64) -> impl Iterator<Item = (u64, MapEntry)> {
    let words = page.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let places = (first..).zip(words.map(|word| WordForm::Narrow.entry(word)));
    places.filter(|(_, place)| *place != MapEntry::Unmapped)
}
