//! The part of a pool that the owner of its veto uses; see [`gemelo_store::FreeVeto`].

use super::Pool;
use crate::engine::LeftBlocks;
use crate::error::Result;
use gemelo_format::{Fingerprint, Fingerprinter, Pbn};

impl Pool {
    /// Returns the fingerprint of each block, in the order of the list; `None` for a block that
    /// nothing refers to, that is not identified, or that is damaged.
    ///
    /// # Errors
    /// Fails if metadata cannot be read.
    pub fn fingerprints_of(&self, pbns: &[Pbn]) -> Result<Vec<Option<Fingerprint>>> {
        let records = self.engine.log.records(pbns)?;
        let fit = |record: &gemelo_metadata::Record| {
            let is_fit =
                record.references > 0 && !record.fingerprint.is_none() && !record.is_suspect;
            is_fit.then_some(record.fingerprint)
        };
        Ok(records.iter().map(fit).collect())
    }

    /// Returns the contents in use, also those without fingerprints.
    #[must_use]
    pub fn used(&self) -> Vec<Pbn> {
        self.engine.data.allocator.used()
    }

    /// Returns the function that takes the fingerprints of contents.
    #[must_use]
    pub fn fingerprinter(&self) -> &Fingerprinter {
        &self.engine.fingerprinter
    }

    /// Writes the content of a damaged block that the veto keeps to that block again. Returns
    /// `false` if the pool takes no changes, or if the block cannot be written. It is durable after
    /// [`Self::sync_healed`].
    ///
    /// # Errors
    /// Fails if metadata cannot be read or changed.
    pub fn heal_kept(&self, pbn: Pbn, content: &[u8]) -> Result<bool> {
        assert_eq!(
            content.len(),
            self.engine.data.block_bytes(),
            "a content has the bytes of a block"
        );
        let _pin = self.engine.data.pin();
        self.engine.healer.write_again(pbn, content)
    }

    /// Makes contents durable that were written again.
    ///
    /// # Errors
    /// Fails if the pool cannot be written.
    pub fn sync_healed(&self) -> Result<()> {
        self.engine.healer.sync_healed()
    }

    /// Returns whether equal fingerprints prove equal contents.
    #[must_use]
    pub fn fingerprints_prove_equality(&self) -> bool {
        self.engine.reader.proves_equality()
    }

    /// Looks for blocks of these contents that have only contents that lie elsewhere, so that the
    /// owner of the veto may give the space of the blocks back.
    #[must_use]
    pub fn left_blocks(&self, pbns: &[Pbn], is_elsewhere: &dyn Fn(&Pbn) -> bool) -> LeftBlocks {
        self.engine.data.allocator.left_blocks(pbns, is_elsewhere)
    }

    /// Frees blocks that the veto held and that nothing refers to.
    pub fn free_kept(&self, pbns: &[Pbn]) {
        self.engine.data.allocator.free_held(pbns);
    }

    /// Returns the number of blocks that the veto holds and that nothing refers to.
    #[must_use]
    pub fn held_blocks(&self) -> u64 {
        self.engine.data.unmapped().held
    }
}
