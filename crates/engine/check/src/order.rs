//! The order of stores and shares: a commit may store to a block only while nothing refers to it,
//! and share a block only while something does. The engine counts references and refuses other
//! commits, so a check that passed them would promise a pool that does not open.
//!
//! A check does not count. It remembers some LBNs that refer to each block which a commit stores or
//! shares, and looks at the maps of all volumes only if these do not decide.

use crate::CheckError;
use crate::map::Region;
use crate::walk::Walk;
use gemelo_format::{FormatError, Lbn, MapEntry, Pbn, VolumeId};
use std::collections::HashMap;

/// Most LBNs of a block that a look at all maps remembers.
const MAX_KNOWN: usize = 16;

/// LBNs that referred to blocks when they were looked at last, for all blocks that commits share.
#[derive(Default)]
pub(crate) struct Sharers(HashMap<Pbn, Vec<(VolumeId, Lbn)>>);

impl Sharers {
    pub(crate) fn of(pbns: impl IntoIterator<Item = Pbn>) -> Self {
        Self(pbns.into_iter().map(|pbn| (pbn, Vec::new())).collect())
    }

    /// Notes that an LBN refers to a block from now on.
    pub(crate) fn note(&mut self, pbn: Pbn, at: (VolumeId, Lbn)) {
        self.0.entry(pbn).or_default().push(at);
    }
}

impl Walk {
    /// Fails if nothing refers to a block that a commit shares.
    pub(crate) fn check_share(&mut self, pbn: Pbn) -> Result<(), CheckError> {
        if self.is_shared(pbn)? {
            return Ok(());
        }
        self.look_for_sharers()?;
        if self.is_shared(pbn)? {
            return Ok(());
        }
        let what = format!("a commit shares block {}, but nothing refers to it", pbn.number());
        Err(FormatError::damaged(what).into())
    }

    /// Fails if something refers to a block to which a commit stores. A block that the checkpoint
    /// uses is not given out before the next checkpoint, so all maps are hardly ever looked at.
    pub(crate) fn check_store(&mut self, pbn: Pbn) -> Result<(), CheckError> {
        let mut is_used = self.is_shared(pbn)?;
        if !is_used && self.used_before.has(pbn.number()) {
            self.sharers.0.entry(pbn).or_default();
            self.look_for_sharers()?;
            is_used = self.is_shared(pbn)?;
        }
        if !is_used {
            return Ok(());
        }
        let what = format!("a commit stores to block {}, which is in use", pbn.number());
        Err(FormatError::damaged(what).into())
    }

    /// Returns whether one of the LBNs that are known for a block refers to it still.
    fn is_shared(&mut self, pbn: Pbn) -> Result<bool, CheckError> {
        while let Some((volume, lbn)) = self.sharers.0.get(&pbn).and_then(|known| known.last()) {
            let (volume, lbns) = (*volume, lbn.0..lbn.0 + 1);
            let is_there = self.volumes.contains_key(&volume);
            let entries = if is_there { self.entries_of(volume, lbns)? } else { Vec::new() };
            if entries.iter().any(|(_, place)| place.pbn() == Some(pbn)) {
                return Ok(true);
            }
            self.sharers.0.get_mut(&pbn).and_then(Vec::pop);
        }
        Ok(false)
    }

    /// Looks for LBNs of all blocks that commits share.
    fn look_for_sharers(&mut self) -> Result<(), CheckError> {
        let Self { volumes, source, sharers, .. } = self;
        for (id, volume) in volumes.iter() {
            for chunk in volume.map.chunks() {
                let regions: Vec<(u64, &Region)> =
                    chunk.iter().map(|(number, region)| (*number, region)).collect();
                for (lbn, place) in source.entries(&regions)?.into_iter().flatten() {
                    let MapEntry::Stored(pbn, _) = place else { continue };
                    let known = sharers.0.get_mut(&pbn).filter(|known| known.len() < MAX_KNOWN);
                    known.into_iter().for_each(|known| known.push((*id, Lbn(lbn))));
                }
            }
        }
        Ok(())
    }
}
