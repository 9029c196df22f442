//! Metadata that are in memory as a whole, and on disk as an image: an opening reads every page,
//! and a checkpoint writes every page, whether it has changed or not.
//!
//! Maps share pages in the image as they do elsewhere. A page that was written anew has another
//! slot, so the names of nodes and the roots of maps follow when the checkpoint ends.

use super::array::{child, set_child};
use super::cache::Width;
use super::layer::FANOUT;
use super::layout::IndexState;
use super::merge::Merged;
use super::pages::Pages;
use crate::error::{MetadataError, Result};
use gemelo_format::{NodeRef, Page, Part, Slot, Tree};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The pages that were written anew, by the slots that they had before.
pub(super) type Moved = HashMap<Slot, NodeRef>;

fn children(directory: &Page) -> impl Iterator<Item = (u64, NodeRef)> {
    (0..FANOUT).filter_map(|number| Some((number, child(directory, number)?)))
}

/// Reads all pages of a tree into the cache. A damaged one is left to its first use.
pub(super) fn read_all(pages: &Pages, tree: &Tree, seen: &mut HashSet<Slot>) -> Result<()> {
    let Some(root) = tree.root else { return Ok(()) };
    pages.fetch(vec![root]);
    read_below(pages, root, tree.height, seen)
}

fn read_below(pages: &Pages, at: NodeRef, level: u8, seen: &mut HashSet<Slot>) -> Result<()> {
    if level == 0 || !seen.insert(at.slot) {
        return Ok(());
    }
    let page = match pages.read(at, Width::Wide) {
        Ok(page) => page,
        Err(MetadataError::Damaged { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    pages.fetch(children(&page).map(|(_, below)| below).collect());
    children(&page).try_for_each(|(_, below)| read_below(pages, below, level - 1, seen))
}

/// Writes all pages of a state anew that the checkpoint has not made, and names the new ones.
pub(super) fn write_all<I: IndexState>(pages: &Pages, merged: &mut Merged<I>) -> Result<()> {
    let mut image = Image { pages, made: pages.accounted().1, moved: Moved::new() };
    let before = std::mem::take(&mut merged.moved);
    for map in merged.maps.values_mut() {
        image.tree(map, Part::Map)?;
    }
    let records = &mut merged.records;
    for (array, part) in [
        (&mut records.counts, Part::Counts),
        (&mut records.many, Part::Many),
        (&mut records.fingerprints, Part::Fingerprints),
    ] {
        let mut tree = **array;
        image.tree(&mut tree, part)?;
        *array = tree.into();
    }
    assert!(merged.index.stored().tree.root.is_none(), "an image has no index");
    merged.layers.values_mut().for_each(|map| follow(map, &image.moved));
    let now = |page: NodeRef| image.moved.get(&page.slot).copied().unwrap_or(page);
    merged.moved = before.into_iter().map(|(slot, page)| (slot, now(page))).collect();
    merged.moved.extend(image.moved);
    Ok(())
}

/// Gives a map its new root.
pub(super) fn follow(map: &mut Tree, moved: &Moved) {
    map.root = map.root.map(|root| moved.get(&root.slot).copied().unwrap_or(root));
}

struct Image<'p> {
    pages: &'p Pages,
    /// The slots that the checkpoint took before.
    made: HashSet<Slot>,
    moved: Moved,
}

impl Image<'_> {
    fn tree(&mut self, tree: &mut Tree, part: Part) -> Result<()> {
        if let Some(root) = tree.root {
            tree.root = Some(self.node(root, tree.height, part)?);
        }
        Ok(())
    }

    /// Returns the page that takes the place of a node. Several nodes may lead to it.
    fn node(&mut self, at: NodeRef, level: u8, part: Part) -> Result<NodeRef> {
        if let Some(known) = self.moved.get(&at.slot) {
            return Ok(*known);
        }
        let width = Width::of(level, part);
        let mut after = self.pages.own_or_empty(Some(self.pages.read(at, width)?));
        let page = Arc::make_mut(&mut after);
        let mut is_changed = false;
        if level > 0 {
            for (number, below) in children(&*page).collect::<Vec<_>>() {
                let new = self.node(below, level - 1, part)?;
                is_changed |= new != below;
                set_child(page, number, Some(new));
            }
        }
        let new = if is_changed || !self.made.contains(&at.slot) {
            self.pages.retire(at.slot);
            self.pages.write(after, width)?
        } else {
            at
        };
        self.moved.insert(at.slot, new);
        Ok(new)
    }
}
