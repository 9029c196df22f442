//! Finds the LBNs in which the maps of two volumes differ.

use crate::error::Result;
use crate::traits::MetadataBackend;
use gemelo_format::{Lbn, MAX_VOLUME_BLOCKS, MapEntry, VolumeId};

/// Above every LBN.
pub(super) const END: Lbn = Lbn(u64::MAX);
/// LBNs that are compared in a list. Shared parts of maps begin and end at multiples of it.
pub(super) const STRETCH: u64 = 128;
/// Stretches, or shared parts, that are looked at in one hold of the state's lock. Takes some
/// milliseconds if every page has to be read.
const MAX_STRETCHES: usize = 32;

/// Adds the LBNs from `from` on that differ between a volume and its base, or that are mapped if it
/// has none, to `lbns`: some 100 of them. Returns the LBN from which on none was compared.
pub(super) fn differing(
    backend: &dyn MetadataBackend,
    volume: VolumeId,
    base: Option<VolumeId>,
    from: Lbn,
    lbns: &mut Vec<Lbn>,
) -> Result<Lbn> {
    let mut next = from;
    for _ in 0..MAX_STRETCHES {
        let Some(first) = next_of_either(backend, volume, base, next)? else { return Ok(END) };
        let shared = base.map(|base| backend.shared_end(volume, base, first)).transpose()?;
        if let Some(end) = shared.flatten() {
            assert!(end > first, "a shared part has the LBN that it was found by");
            next = end;
            continue;
        }
        next = Lbn((first.0 / STRETCH + 1) * STRETCH);
        let all: Vec<Lbn> = (first.0..next.0).map(Lbn).collect();
        let own = places(backend, Some(volume), &all)?;
        let other = places(backend, base, &all)?;
        let differing =
            all.iter().zip(own.iter().zip(&other)).filter(|(_, (own, other))| own != other);
        lbns.extend(differing.map(|(lbn, _)| *lbn));
        if lbns.len() as u64 >= STRETCH {
            break;
        }
    }
    Ok(next)
}

fn places(
    backend: &dyn MetadataBackend,
    volume: Option<VolumeId>,
    lbns: &[Lbn],
) -> Result<Vec<MapEntry>> {
    let Some(volume) = volume else { return Ok(vec![MapEntry::Unmapped; lbns.len()]) };
    let mut places = Vec::with_capacity(lbns.len());
    backend.look_up(volume, lbns, &mut places)?;
    assert_eq!(places.len(), lbns.len(), "each LBN has a place");
    Ok(places)
}

/// The first LBN from `from` on that either volume maps.
fn next_of_either(
    backend: &dyn MetadataBackend,
    volume: VolumeId,
    base: Option<VolumeId>,
    from: Lbn,
) -> Result<Option<Lbn>> {
    let end = Lbn(MAX_VOLUME_BLOCKS);
    if from >= end {
        return Ok(None);
    }
    let own = backend.next_mapped(volume, from, end)?;
    let other = base.map(|base| backend.next_mapped(base, from, own.unwrap_or(end))).transpose()?;
    Ok(other.flatten().or(own))
}
