//! The tree of a volume's map, as the backends `log` and `ram` write it.
//!
//! A node has the LBNs from a multiple of a power of two on. A *dense* leaf has a place for each of
//! 512 LBNs, a *sparse* leaf the mapped LBNs of any longer stretch, and an *inner* node has up to
//! 256 children. Volumes share nodes: a node is named as often as there are maps that have it.

use super::codec::Reader;
use super::{MAP_PAGE_ENTRIES, Node, NodeRef, PAGE_BYTES, Page, Part, Slot};

/// The LBNs of a dense leaf, as a power of two.
pub const DENSE_BITS: u8 = MAP_PAGE_ENTRIES.ilog2() as u8;
/// The positions of an inner node, as a power of two.
pub const INNER_BITS: u8 = 8;
/// Positions of an inner node. A child takes one of them, or a power of two.
pub const INNER_POSITIONS: usize = 1 << INNER_BITS;
/// The most LBNs of a node, as a power of two: more than a volume has.
pub const MAX_MAP_BITS: u8 = DENSE_BITS + 4 * INNER_BITS;
/// Bytes of a [`MapRef`] on disk.
pub const MAP_REF_BYTES: usize = PAGE_BYTES / INNER_POSITIONS;
/// The most entries of a sparse leaf.
pub const SPARSE_ENTRIES: usize = Node::capacity(Part::Map, 0);

const INNER: u8 = 1;
const DENSE: u8 = 2;
const SPARSE: u8 = 3;
const LOST: u8 = 4;

/// The kind of a page of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// The children of a node.
    Inner,
    /// A word for each LBN.
    Dense,
    /// The mapped LBNs, each with its word.
    Sparse,
}

/// A node of a map, as its parent or the table names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapRef {
    /// The number of its LBNs, as a power of two.
    pub bits: u8,
    /// Its page, or `None` if all of its LBNs are damaged because the page was lost.
    pub page: Option<(MapKind, NodeRef)>,
}

impl MapRef {
    /// Encodes a node, or the absence of one.
    #[must_use]
    pub fn encode(node: Option<Self>) -> [u8; MAP_REF_BYTES] {
        let mut bytes = [0; MAP_REF_BYTES];
        let Some(Self { bits, page }) = node else { return bytes };
        let kind = match page {
            Some((MapKind::Inner, _)) => INNER,
            Some((MapKind::Dense, _)) => DENSE,
            Some((MapKind::Sparse, _)) => SPARSE,
            None => LOST,
        };
        let (head, rest) = bytes.split_at_mut(4);
        let (slot, checksum) = rest.split_at_mut(4);
        head.copy_from_slice(&[kind, bits, 0, 0]);
        if let Some((_, at)) = page {
            slot.copy_from_slice(&at.slot.number().to_le_bytes());
            checksum.copy_from_slice(&at.checksum.to_le_bytes());
        }
        bytes
    }

    /// Decodes what [`Self::encode`] has made. The outer `None` means malformed bytes.
    #[must_use]
    pub fn decode(bytes: [u8; MAP_REF_BYTES]) -> Option<Option<Self>> {
        let mut reader = Reader::new(&bytes);
        let (kind, bits) = (reader.u8()?, reader.u8()?);
        reader.bytes(2)?;
        let (slot, checksum) = (Slot::new(reader.u32()?), reader.u64()?);
        let kind = match kind {
            0 => return Some(None),
            LOST => None,
            INNER if is_inner_bits(bits) => Some(MapKind::Inner),
            DENSE if bits == DENSE_BITS => Some(MapKind::Dense),
            SPARSE => Some(MapKind::Sparse),
            _ => return None,
        };
        let page = match (kind, slot) {
            (Some(kind), Some(slot)) => Some((kind, NodeRef { slot, checksum })),
            (None, None) => None,
            _ => return None,
        };
        (DENSE_BITS..=MAX_MAP_BITS).contains(&bits).then_some(Some(Self { bits, page }))
    }
}

/// Returns whether an inner node may have this number of LBNs.
#[must_use]
pub const fn is_inner_bits(bits: u8) -> bool {
    bits > DENSE_BITS && bits <= MAX_MAP_BITS && (bits - DENSE_BITS).is_multiple_of(INNER_BITS)
}

/// Makes the page of an inner node from its children and the positions at which they begin.
#[must_use]
pub fn inner_page(children: impl IntoIterator<Item = (usize, MapRef)>) -> Box<Page> {
    let mut page = Box::new([0; PAGE_BYTES]);
    let (places, _) = page.as_chunks_mut::<MAP_REF_BYTES>();
    for (position, child) in children {
        let place = places.get_mut(position);
        assert!(place.is_some(), "an inner node has no position {position}");
        if let Some(place) = place {
            *place = MapRef::encode(Some(child));
        }
    }
    page
}

/// Reads the children of an inner node with 2^`bits` LBNs, and the positions at which they begin.
/// Returns `None` if the page is malformed.
#[must_use]
pub fn inner_children(page: &Page, bits: u8) -> Option<Vec<(usize, MapRef)>> {
    let below = bits.checked_sub(INNER_BITS)?;
    let (mut children, mut free_from) = (Vec::new(), 0);
    for (position, bytes) in page.as_chunks::<MAP_REF_BYTES>().0.iter().enumerate() {
        let Some(child) = MapRef::decode(*bytes)? else { continue };
        let span = 1 << child.bits.checked_sub(below).filter(|span| *span < INNER_BITS)?;
        let is_inner = matches!(child.page, Some((MapKind::Inner, _)));
        if position < free_from || position % span != 0 || is_inner && span > 1 {
            return None;
        }
        free_from = position + span;
        children.push((position, child));
    }
    (!children.is_empty()).then_some(children)
}

/// Makes the page of a sparse leaf from its LBNs, in ascending order, and their words.
#[must_use]
pub fn sparse_page(entries: &[(u64, u64)]) -> Box<Page> {
    let entries: Vec<(u64, u128)> =
        entries.iter().map(|(lbn, word)| (*lbn, u128::from(*word))).collect();
    Node::page(Part::Map, 0, &entries)
}

/// Reads the LBNs and words of a sparse leaf whose LBNs are the 2^`bits` from `first` on. Returns
/// `None` if the page is malformed.
#[must_use]
pub fn sparse_entries(page: &Page, first: u64, bits: u8) -> Option<Vec<(u64, u64)>> {
    let node = Node::of(page, Part::Map, 0)?;
    let entries: Vec<(u64, u64)> = node.entries().map(|(lbn, word)| (lbn, word as u64)).collect();
    let is_such = |(lbn, word): &(u64, u64)| {
        lbn.checked_sub(first).is_some_and(|at| at >> bits == 0) && *word != 0
    };
    let is_whole = entries.iter().all(is_such) && entries.is_sorted_by(|a, b| a.0 < b.0);
    (is_whole && !entries.is_empty()).then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(kind: MapKind, bits: u8) -> MapRef {
        let at = NodeRef { slot: Slot::new(7).unwrap(), checksum: 99 };
        MapRef { bits, page: Some((kind, at)) }
    }

    #[test]
    fn nodes_come_back() {
        let lost = MapRef { bits: 30, page: None };
        for child in
            [node(MapKind::Dense, 9), node(MapKind::Sparse, 20), node(MapKind::Inner, 25), lost]
        {
            assert_eq!(MapRef::decode(MapRef::encode(Some(child))), Some(Some(child)));
        }
        assert_eq!(MapRef::decode(MapRef::encode(None)), Some(None));
        for wrong in [node(MapKind::Dense, 10), node(MapKind::Inner, 24), node(MapKind::Sparse, 8)]
        {
            assert_eq!(MapRef::decode(MapRef::encode(Some(wrong))), None);
        }
    }

    #[test]
    fn children_lie_beside_each_other_in_powers_of_two() {
        let sound = [(0, node(MapKind::Dense, 9)), (4, node(MapKind::Sparse, 11))];
        assert_eq!(inner_children(&inner_page(sound), 17), Some(sound.to_vec()));
        let overlapping = [(4, node(MapKind::Sparse, 11)), (7, node(MapKind::Dense, 9))];
        let askew = [(2, node(MapKind::Sparse, 11))];
        let too_long = [(0, node(MapKind::Sparse, 17))];
        for wrong in [overlapping.as_slice(), &askew, &too_long, &[]] {
            assert_eq!(inner_children(&inner_page(wrong.iter().copied()), 17), None, "{wrong:?}");
        }
        let above = [(3, node(MapKind::Inner, 17)), (4, node(MapKind::Dense, 9))];
        assert_eq!(
            inner_children(&inner_page(above), 25),
            None,
            "a dense leaf is two levels below"
        );
    }

    #[test]
    fn sparse_leaves_come_back() {
        let entries = [(1 << 30, 5), ((1 << 30) + 77, 6)];
        let page = sparse_page(&entries);
        assert_eq!(sparse_entries(&page, 1 << 30, 20), Some(entries.to_vec()));
        assert_eq!(sparse_entries(&page, 0, 20), None, "LBNs of another node");
        assert_eq!(sparse_entries(&page, 1 << 30, 6), None);
        assert_eq!(sparse_entries(&sparse_page(&[]), 0, 20), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic(bytes: [u8; 64], at in 0usize..64, bits: u8) {
            let mut page = [0; PAGE_BYTES];
            page[at * 64..][..64].copy_from_slice(&bytes);
            let _ = inner_children(&page, bits);
            let _ = sparse_entries(&page, 0, bits % 42);
        }
    }
}
