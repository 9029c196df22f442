//! Blocks whose contents were moved, and whose references follow with the next checkpoint.
//!
//! A content that is moved by its block alone ([`gemelo_format::Change::Move`]) takes all its
//! references with it, however many they are, also those in nodes that maps share. Looking for them
//! would be a walk over all maps for each change. So there is one for many:
//!
//! 1. The change notes where the content is now, and each word that is read from a map is
//!    translated from then on.
//! 2. A checkpoint writes the leaves anew that name a moved block, and the pages above them. A page
//!    that maps share is written once, and all of them follow.
//! 3. When it is durable, no page and no layer names the block any more, and it is forgotten.
//!
//! Until then the block must not be given out again: a word that names it would be taken for one of
//! the content that was there.

use super::array::{child, set_child};
use super::by_pbn::ByPbn;
use super::cache::Width;
use super::image;
use super::merge::Merged;
use super::pages::Pages;
use crate::error::{MetadataError, Result};
use gemelo_format::{
    DIRECTORY_ENTRIES, MAP_PAGE_ENTRIES, MapEntry, NodeRef, PAGE_BYTES, Page, Part, Pbn, Slot,
    Tree, WordForm, array_value, set_array_value,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Bytes of a word in a leaf.
const WORD_BYTES: usize = PAGE_BYTES / MAP_PAGE_ENTRIES;

/// The places of moved contents, by the blocks that had them.
#[derive(Default)]
pub(super) struct Relocations {
    to: ByPbn<u64>,
}

impl Relocations {
    fn is_empty(&self) -> bool {
        self.to.len() == 0
    }

    /// The word of a content where it is now. It may have moved several times.
    fn follow(&self, form: WordForm, word: u64) -> u64 {
        let MapEntry::Stored(pbn, checksum) = form.entry(word) else { return word };
        let mut now = pbn.number();
        while let Some(next) = self.to.get(now) {
            now = *next;
        }
        match Pbn::new(now) {
            Some(to) if to != pbn => form.word(MapEntry::Stored(to, checksum)),
            _ => word,
        }
    }
}

/// The moved blocks that pages or layers may name; see the module.
#[derive(Default)]
pub(super) struct MovedBlocks {
    /// Those that the checkpoint under way does not have.
    active: Relocations,
    /// Those that it has.
    frozen: Option<Arc<Relocations>>,
    /// `true` if there are any.
    has_any: bool,
}

impl MovedBlocks {
    pub(super) const fn is_empty(&self) -> bool {
        !self.has_any
    }

    /// Returns whether the content of a block was moved away.
    pub(super) fn has(&self, pbn: Pbn) -> bool {
        self.has_any
            && (self.active.to.has(pbn.number())
                || self.frozen.iter().any(|frozen| frozen.to.has(pbn.number())))
    }

    /// Notes that the content of a block is in another one, whose content was not moved away.
    pub(super) fn note(&mut self, from: Pbn, to: Pbn) {
        self.active.to.insert(from.number(), to.number());
        self.has_any = true;
    }

    /// The present word for one that a page or a layer has.
    #[inline]
    pub(super) fn follow(&self, form: WordForm, word: u64) -> u64 {
        if self.has_any { self.followed(form, word) } else { word }
    }

    #[cold]
    fn followed(&self, form: WordForm, word: u64) -> u64 {
        // What a checkpoint has moved may have been moved on since, and not the other way round.
        let frozen = self.frozen.as_ref().map_or(word, |frozen| frozen.follow(form, word));
        self.active.follow(form, frozen)
    }

    /// Begins a checkpoint, which writes the present places.
    pub(super) fn freeze(&mut self) -> Arc<Relocations> {
        let frozen = Arc::new(std::mem::take(&mut self.active));
        self.frozen = Some(Arc::clone(&frozen));
        frozen
    }

    /// Ends a checkpoint that is durable.
    pub(super) fn finish(&mut self) {
        self.frozen = None;
        self.has_any = !self.active.is_empty();
    }

    /// Gives up a checkpoint.
    pub(super) fn abandon(&mut self) {
        for (from, to) in self.frozen.take().iter().flat_map(|frozen| frozen.to.iter()) {
            self.active.to.insert(from, *to);
        }
    }

    /// Bytes of memory of those that the checkpoint under way does not have.
    pub(super) fn active_bytes(&self) -> u64 {
        self.active.to.allocated_bytes() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        let frozen = self.frozen.as_ref().map_or(0, |frozen| frozen.to.allocated_bytes() as u64);
        self.active_bytes() + frozen
    }
}

/// Writes the leaves of all maps anew that name a moved block.
pub(super) fn rewrite<I>(
    pages: &Pages,
    (blocks, form): (&Relocations, WordForm),
    merged: &mut Merged<I>,
) -> Result<()> {
    if blocks.is_empty() {
        return Ok(());
    }
    let mut maps =
        Rewriting { pages, blocks, form, kept: HashSet::new(), moved: image::Moved::new() };
    for map in merged.maps.values_mut() {
        maps.tree(map)?;
    }
    merged.layers.values_mut().for_each(|map| image::follow(map, &maps.moved));
    merged.moved = maps.moved;
    Ok(())
}

struct Rewriting<'r> {
    pages: &'r Pages,
    blocks: &'r Relocations,
    form: WordForm,
    /// Pages that stay, with all below them.
    kept: HashSet<Slot>,
    moved: image::Moved,
}

impl Rewriting<'_> {
    fn tree(&mut self, tree: &mut Tree) -> Result<()> {
        if let Some(root) = tree.root {
            tree.root = Some(self.node(root, tree.height, None)?);
        }
        Ok(())
    }

    /// Returns the page that takes the place of a node, to which several nodes may lead. `read` is
    /// its page, if it was read for that.
    fn node(&mut self, at: NodeRef, level: u8, read: Option<Arc<Page>>) -> Result<NodeRef> {
        if let Some(known) = self.moved.get(&at.slot) {
            return Ok(*known);
        }
        if self.kept.contains(&at.slot) {
            return Ok(at);
        }
        let width = Width::of(level, Part::Map);
        let page = match read.map_or_else(|| self.pages.read(at, width), Ok) {
            Ok(page) => page,
            // Its LBNs are lost, wherever their contents are.
            Err(MetadataError::Damaged { .. }) => {
                self.kept.insert(at.slot);
                return Ok(at);
            }
            Err(error) => return Err(error),
        };
        let changed = match level {
            0 => self.leaf(&page),
            level => self.inner(&page, level)?,
        };
        let Some(changed) = changed else {
            self.kept.insert(at.slot);
            return Ok(at);
        };
        self.pages.retire(at.slot);
        let new = self.pages.write(Arc::from(changed), width)?;
        self.moved.insert(at.slot, new);
        Ok(new)
    }

    /// The words of a leaf, if one of them changes.
    fn leaf(&self, page: &Page) -> Option<Box<Page>> {
        let mut changed: Option<Box<Page>> = None;
        for at in 0..MAP_PAGE_ENTRIES {
            let word = array_value(page, at, WORD_BYTES) as u64;
            let now = if word == 0 { 0 } else { self.blocks.follow(self.form, word) };
            if now != word {
                let changed = changed.get_or_insert_with(|| Box::new(*page));
                set_array_value(changed, at, WORD_BYTES, u128::from(now));
            }
        }
        changed
    }

    /// The children of an inner node, if one of them changes.
    fn inner(&mut self, page: &Page, level: u8) -> Result<Option<Box<Page>>> {
        let all = (0..DIRECTORY_ENTRIES as u64).filter_map(|at| Some((at, child(page, at)?)));
        let children: Vec<(u64, NodeRef)> = all.collect();
        let mut read = if level == 1 { self.read_leaves(&children) } else { HashMap::new() };
        let mut changed: Option<Box<Page>> = None;
        for (number, below) in children {
            let new = self.node(below, level - 1, read.remove(&below))?;
            if new != below {
                set_child(changed.get_or_insert_with(|| Box::new(*page)), number, Some(new));
            }
        }
        Ok(changed)
    }

    /// Reads the leaves below a node that were not looked at. The cache need not have them.
    fn read_leaves(&self, leaves: &[(u64, NodeRef)]) -> HashMap<NodeRef, Arc<Page>> {
        let is_new =
            |at: &NodeRef| !self.kept.contains(&at.slot) && !self.moved.contains_key(&at.slot);
        self.pages.read_once(leaves.iter().map(|(_, at)| *at).filter(is_new).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_format::Checksum;

    fn pbn(number: u64) -> Pbn {
        Pbn::new(number).unwrap()
    }

    #[test]
    fn words_follow_moves_before_and_after_a_checkpoint_began() {
        let form = WordForm::Narrow;
        let word = |number| form.word(MapEntry::Stored(pbn(number), Checksum(7)));
        let mut moved = MovedBlocks::default();
        moved.note(pbn(9), pbn(4));
        let frozen = moved.freeze();
        moved.note(pbn(4), pbn(2));
        moved.note(pbn(8), pbn(3));
        let now = |moved: &MovedBlocks| [9, 4, 8, 5].map(|number| moved.follow(form, word(number)));
        assert_eq!(now(&moved), [2, 2, 3, 5].map(word));
        assert_eq!(frozen.follow(form, word(9)), word(4), "the checkpoint has its own time");
        assert!(moved.has(pbn(9)) && moved.has(pbn(8)) && !moved.has(pbn(2)));
        moved.abandon();
        assert_eq!(now(&moved), [2, 2, 3, 5].map(word));
        moved.freeze();
        moved.finish();
        assert!(moved.is_empty());
        assert_eq!(now(&moved), [9, 4, 8, 5].map(word), "the pages have them");
        assert_eq!(moved.follow(form, WordForm::DAMAGED), WordForm::DAMAGED);
    }
}
