//! Merges a frozen delta into the pages, which is the main part of a checkpoint. It holds no lock
//! that writers need.

use super::layout::{Cursor, IndexEdit, Layout, Retire};
use super::pages::Pages;
use super::{Frozen, Version};
use crate::error::Result;
use gemelo_format::{Fingerprint, Identity, Part};
use std::collections::BTreeMap;

pub(super) fn merge<L: Layout>(
    pages: &Pages,
    before: &Version<L::Index>,
    frozen: &Frozen,
) -> Result<Version<L::Index>> {
    let delta = &frozen.delta;
    let mut after = Version { maps: BTreeMap::new(), ..before.clone() };
    for (id, map) in &before.maps {
        if frozen.volumes.contains_key(id) {
            after.maps.insert(*id, *map);
        } else {
            L::walk(pages, map, Part::Map, 0, &mut Retire(pages))?;
        }
    }
    for (id, words) in delta.words.iter().filter(|(id, _)| frozen.volumes.contains_key(id)) {
        let map = after.maps.get(id).copied().unwrap_or_default();
        let mut words = words.iter().map(|(lbn, word)| (*lbn, u128::from(*word)));
        after.maps.insert(*id, L::merge(pages, &map, Part::Map, &mut words)?);
    }
    assert!(
        after.maps.keys().all(|id| frozen.volumes.contains_key(id)),
        "only volumes of the checkpoint have maps"
    );
    // Computed from the state before this checkpoint, whose pages are all still on disk.
    let edits = index_edits::<L>(pages, before, frozen)?;
    after.index = L::merge_index(pages, &before.index, edits)?;
    let mut counts = delta.counts.iter().map(|(pbn, count)| (u64::from(*pbn), u128::from(*count)));
    after.counts = L::merge(pages, &before.counts, Part::Counts, &mut counts)?;
    let bits = |identity: &Identity| u128::from_le_bytes(identity.to_bytes());
    let mut identities = delta.identities.iter().map(|(pbn, found)| (u64::from(*pbn), bits(found)));
    after.fingerprints =
        L::merge(pages, &before.fingerprints, Part::Fingerprints, &mut identities)?;
    Ok(after)
}

/// Computes which index entries are added and removed. The index has every referenced PBN that has
/// a fingerprint.
fn index_edits<L: Layout>(
    pages: &Pages,
    before: &Version<L::Index>,
    frozen: &Frozen,
) -> Result<Vec<IndexEdit>> {
    let delta = &frozen.delta;
    let mut edits = Vec::new();
    let mut fingerprints = Cursor::<L>::new(pages, before.fingerprints, Part::Fingerprints);
    let mut counts = Cursor::<L>::new(pages, before.counts, Part::Counts);
    let mut stored = |pbn: u32| -> Result<Fingerprint> {
        Ok(Identity::from_bytes(fingerprints.get(u64::from(pbn))?.to_le_bytes()).fingerprint())
    };
    // A block that was identified has a new fingerprint and an unchanged count.
    let identified = delta.identities.keys().filter(|pbn| !delta.counts.contains_key(pbn));
    for pbn in delta.counts.keys().chain(identified) {
        let was_live = counts.get(u64::from(*pbn))? > 0;
        let is_live = delta.counts.get(pbn).map_or(was_live, |count| *count > 0);
        let fresh = delta.identities.get(pbn).map(|identity| identity.fingerprint());
        if fresh.is_none() && was_live == is_live {
            continue;
        }
        let old = if was_live { stored(*pbn)? } else { Fingerprint::NONE };
        let new = match (is_live, fresh) {
            (false, _) => Fingerprint::NONE,
            (true, Some(fresh)) => fresh,
            (true, None) => stored(*pbn)?,
        };
        if old != new {
            let edit = |found: Fingerprint, comes| {
                (!found.is_none()).then(|| IndexEdit { hash: found.low(), pbn: *pbn, comes })
            };
            edits.extend([edit(old, false), edit(new, true)].into_iter().flatten());
        }
    }
    Ok(edits)
}
