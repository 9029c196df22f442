//! The ledger at the begin and the end of a tenure.

use super::Sharing;
use crate::blocks::Blocks;
use crate::error::Result;

impl Sharing {
    /// Returns the tenure in which the ledger was taken last, as its member counts them; [`None`]
    /// if the ledger does not exist.
    #[must_use]
    pub fn epoch(&self) -> Option<u64> {
        self.shared.ledger.lock().epoch()
    }

    /// Forgets the records that were read, because they are older than the rest of the member.
    pub fn forget_records(&self) {
        *self.shared.blocks.write() = Blocks::default();
    }

    /// Notes in the ledger the tenure in which the member was taken.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn mark(&self, epoch: u64) -> Result<()> {
        self.shared.ledger.lock().mark(epoch)
    }

    /// Finds out about the changes of the ledger whose outcome is unknown, and has its head know
    /// the versions of all pages. While there are such changes, the member must not be handed over
    /// to a client that does not fence this one.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn settle_ledger(&self) -> Result<()> {
        self.shared.ledger.lock().finish()
    }
}
