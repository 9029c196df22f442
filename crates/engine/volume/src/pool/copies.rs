//! The search for another good copy of damaged contents, which a scrub and a repair share.
//!
//! A damaged block has a copy where the page cache still holds its content, where another block has
//! the same content, or where another member of the domain has it. Another block of the pool is
//! worth reading if the map expects the same checksum of it, which has 32 bits and proves nothing:
//! with 2^28 contents and some damage an equal checksum is an accident. Only an equal fingerprint,
//! of a kind that proves equality, shows that a copy has the content. A damaged block without a
//! fingerprint, as volumes without deduplication have them, is therefore never healed from another
//! block: an error can be mended from a backup, a wrong content is not even noticed.

use gemelo_base::StopFlag;
use gemelo_format::{Checksum, Fingerprint, Fingerprinter, Pbn, PoolSeed};
use gemelo_store::Copies;
use std::collections::HashMap;

use crate::error::{Result, VolumeError};

/// Contents that other pools are asked for at once.
const ASKED_AT_ONCE: usize = 256;

/// A content as a map expects it: its block, and its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Expected {
    pub(super) pbn: Pbn,
    pub(super) checksum: Checksum,
}

/// The fingerprint of a damaged content, and the block that should hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wound {
    pub(super) expected: Expected,
    pub(super) fingerprint: Fingerprint,
}

/// Damaged contents that may be healed from a copy.
pub(super) struct Wounds {
    seed: PoolSeed,
    fingerprinter: Fingerprinter,
    by_checksum: HashMap<Checksum, Vec<Wound>>,
}

impl Wounds {
    pub(super) fn new(seed: PoolSeed, fingerprinter: Fingerprinter) -> Self {
        Self { seed, fingerprinter, by_checksum: HashMap::new() }
    }

    /// Adds a damaged content. One without a fingerprint cannot be healed and is left out.
    pub(super) fn add(&mut self, wound: Wound) {
        let same = self.by_checksum.entry(wound.expected.checksum).or_default();
        if !wound.fingerprint.is_none() && !same.contains(&wound) {
            same.push(wound);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_checksum.values().all(Vec::is_empty)
    }

    /// Returns whether a stored content may be a copy, so that it is worth reading.
    pub(super) fn may_be_healed_by(&self, stored: Expected) -> bool {
        let wounds = self.by_checksum.get(&stored.checksum).map(Vec::as_slice).unwrap_or_default();
        wounds.iter().any(|wound| wound.expected.pbn != stored.pbn)
            && wounds.iter().all(|wound| wound.expected.pbn != stored.pbn)
    }

    /// Takes out the wounds whose content this is.
    pub(super) fn take_healed_by(&mut self, content: &[u8]) -> Vec<Wound> {
        let Some(wounds) = self.by_checksum.get_mut(&self.seed.of_content(content)) else {
            return Vec::new();
        };
        if wounds.is_empty() {
            return Vec::new();
        }
        let fingerprint = self.fingerprinter.of(content);
        assert!(!fingerprint.is_none(), "a content has a fingerprint");
        wounds.extract_if(.., |wound| wound.fingerprint == fingerprint).collect()
    }

    /// Asks other pools for the contents that are left. Calls `found` with each copy and with the
    /// wounds that it heals, which are taken out.
    pub(super) fn ask(
        &mut self,
        copies: &dyn Copies,
        stop: &StopFlag,
        mut found: impl FnMut(&[u8], Vec<Wound>) -> Result<()>,
    ) -> Result<()> {
        let all = self.by_checksum.values().flatten().map(|wound| wound.fingerprint);
        let mut wanted: Vec<Fingerprint> = all.collect();
        wanted.sort_unstable_by_key(|fingerprint| fingerprint.to_bytes());
        wanted.dedup();
        for some in wanted.chunks(ASKED_AT_ONCE) {
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            let mut outcome = Ok(());
            copies.read(some, &mut |content| {
                if outcome.is_ok() {
                    let healed = self.take_healed_by(content);
                    outcome = found(content, healed);
                }
            });
            outcome?;
        }
        Ok(())
    }
}
