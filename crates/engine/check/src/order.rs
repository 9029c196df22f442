//! The order of stores and shares: a commit may store to a block only while nothing refers to it,
//! and share a block only while something does. The engine counts references and refuses other
//! commits, so a check that passed them would promise a pool that does not open.
//!
//! A check does not count. It remembers some LBNs that refer to each block which a commit stores or
//! shares, and looks at the maps of all volumes only if these do not decide.

use crate::CheckError;
use crate::bits::UsedPbns;
use crate::map::Region;
use crate::source::Source;
use crate::walk::WalkVolume;
use gemelo_format::{FormatError, Lbn, MapEntry, Pbn, VolumeId};
use std::collections::{BTreeMap, HashMap};

/// Most LBNs of a block that a look at all maps remembers.
const MAX_KNOWN: usize = 16;

/// The volumes as the commits before have left them, and the disk that has their maps.
type Maps<'w> = (&'w BTreeMap<VolumeId, WalkVolume>, &'w Source);

/// LBNs that referred to blocks when they were looked at last, for all blocks that commits share.
pub(crate) struct Sharers {
    known: HashMap<Pbn, Vec<(VolumeId, Lbn)>>,
    /// The blocks that the maps of the checkpoint refer to.
    used_before: UsedPbns,
}

impl Sharers {
    /// Before any commit.
    pub(crate) fn new(used_before: UsedPbns) -> Self {
        Self { known: HashMap::new(), used_before }
    }

    /// Notes that commits share these blocks.
    pub(crate) fn expect(&mut self, pbns: impl IntoIterator<Item = Pbn>) {
        self.known = pbns.into_iter().map(|pbn| (pbn, Vec::new())).collect();
    }

    /// Notes that an LBN refers to a block from now on.
    pub(crate) fn note(&mut self, pbn: Pbn, at: (VolumeId, Lbn)) {
        self.known.entry(pbn).or_default().push(at);
    }

    /// Notes that all LBNs that refer to a block refer to another one from now on.
    pub(crate) fn follow(&mut self, from: Pbn, to: Pbn) {
        let known = self.known.remove(&from).unwrap_or_default();
        self.known.insert(to, known);
    }

    /// Fails if nothing refers to a block that a commit shares.
    pub(crate) fn check_share(&mut self, pbn: Pbn, maps: Maps<'_>) -> Result<(), CheckError> {
        if self.is_shared(pbn, maps)? {
            return Ok(());
        }
        self.look_for_sharers(maps)?;
        if self.is_shared(pbn, maps)? {
            return Ok(());
        }
        let what = format!("a commit shares block {}, but nothing refers to it", pbn.number());
        Err(FormatError::damaged(what).into())
    }

    /// Fails if something refers to a block to which a commit stores. A block that the checkpoint
    /// uses is not given out before the next checkpoint, so all maps are hardly ever looked at.
    pub(crate) fn check_store(&mut self, pbn: Pbn, maps: Maps<'_>) -> Result<(), CheckError> {
        let mut is_used = self.is_shared(pbn, maps)?;
        if !is_used && self.used_before.has(pbn.number()) {
            self.known.entry(pbn).or_default();
            self.look_for_sharers(maps)?;
            is_used = self.is_shared(pbn, maps)?;
        }
        if !is_used {
            return Ok(());
        }
        let what = format!("a commit stores to block {}, which is in use", pbn.number());
        Err(FormatError::damaged(what).into())
    }

    /// Returns whether one of the LBNs that are known for a block refers to it still.
    fn is_shared(&mut self, pbn: Pbn, (volumes, source): Maps<'_>) -> Result<bool, CheckError> {
        while let Some((volume, lbn)) = self.known.get(&pbn).and_then(|known| known.last()) {
            let entries = match volumes.get(volume) {
                Some(volume) => volume.entries(source, &(lbn.0..lbn.0 + 1))?,
                None => Vec::new(),
            };
            if entries.iter().any(|(_, place)| place.pbn() == Some(pbn)) {
                return Ok(true);
            }
            self.known.get_mut(&pbn).and_then(Vec::pop);
        }
        Ok(false)
    }

    /// Looks for LBNs of all blocks that commits share.
    fn look_for_sharers(&mut self, (volumes, source): Maps<'_>) -> Result<(), CheckError> {
        for (id, volume) in volumes {
            for chunk in volume.map.chunks() {
                let regions: Vec<(u64, &Region)> =
                    chunk.iter().map(|(number, region)| (*number, region)).collect();
                for (lbn, place) in source.entries(&regions)?.into_iter().flatten() {
                    let MapEntry::Stored(pbn, _) = place else { continue };
                    let known = self.known.get_mut(&pbn).filter(|known| known.len() < MAX_KNOWN);
                    known.into_iter().for_each(|known| known.push((*id, Lbn(lbn))));
                }
            }
        }
        Ok(())
    }
}
