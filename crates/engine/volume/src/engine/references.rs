//! The references in a map, with the counts of their blocks.

use super::log::Log;
use crate::error::Result;
use gemelo_format::{Lbn, Pbn, VolumeId};

/// LBNs looked up in one hold of the state's lock. Takes some milliseconds if every page has to be
/// read.
const PIECE_BLOCKS: u64 = 64;

/// A reference of a volume to a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountedReference {
    pub(super) lbn: Lbn,
    pub(super) pbn: Pbn,
    /// All references to the block.
    pub(super) count: u32,
    /// `true` if volumes share this part of their maps, so that the reference counts once.
    pub(super) is_in_shared_part: bool,
}

/// Adds the references in the next piece of a map to those blocks that `is_looked_at` names.
/// Returns the LBN at which the following piece begins. The caller has entered the gate.
pub(super) fn next_references(
    log: &Log,
    volume: VolumeId,
    (from, end): (Lbn, Lbn),
    is_looked_at: &dyn Fn(Pbn) -> bool,
    found: &mut Vec<CountedReference>,
) -> Result<Option<Lbn>> {
    let Some(first) = log.next_mapped(volume, from, end)? else { return Ok(None) };
    assert!(first < end, "a reference beyond the end of its volume");
    let next = first.0.saturating_add(PIECE_BLOCKS).min(end.0);
    let lbns: Vec<Lbn> = (first.0..next).map(Lbn).collect();
    let references = log.look(|state| {
        let places = state.places(volume, &lbns)?;
        let stored = lbns.iter().zip(&places).filter_map(|(lbn, place)| Some((*lbn, place.pbn()?)));
        let stored: Vec<(Lbn, Pbn)> = stored.filter(|(_, pbn)| is_looked_at(*pbn)).collect();
        let pbns: Vec<Pbn> = stored.iter().map(|(_, pbn)| *pbn).collect();
        let counts = state.counts(&pbns)?;
        let reference = |((lbn, pbn), count): ((Lbn, Pbn), u32)| {
            let is_in_shared_part = state.backend().is_in_shared_part(volume, lbn);
            CountedReference { lbn, pbn, count, is_in_shared_part }
        };
        Ok(stored.into_iter().zip(counts).map(reference).collect::<Vec<_>>())
    })?;
    found.extend(references);
    Ok(Some(Lbn(next)))
}
