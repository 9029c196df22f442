//! Taking contents out of the index that the pool wants to move.

use crate::error::Result;
use crate::journal::LedgerJournal;
use crate::record::Record;
use crate::sharing::{Sharing, Worker};
use gemelo_domain::{Action, Change};
use gemelo_format::Pbn;
use gemelo_volume::Pool;

impl Sharing {
    /// Takes contents out of the index that the pool wants to move, as far as no other member uses
    /// them. Those about which nothing is decided stay, until the pool asks again.
    pub(crate) fn withdraw(&self, worker: &mut Worker, pool: &Pool) -> Result<usize> {
        let Worker { index, figures, .. } = worker;
        let wanted = self.shared.blocks.read().wanted(self.at_once(index));
        if wanted.is_empty() {
            return Ok(0);
        }
        let submitted = self.plan_withdrawals(&wanted).and_then(|changes| {
            let mut journal = LedgerJournal { shared: &self.shared, figures, own: pool };
            index.submit(&changes, &mut journal)?;
            Ok(())
        });
        let mut blocks = self.shared.blocks.write();
        blocks.give_up_releases();
        blocks.end_wanted(&wanted);
        submitted.map(|()| wanted.len())
    }

    fn plan_withdrawals(&self, wanted: &[Pbn]) -> Result<Vec<Change>> {
        let records = self.shared.ledger.lock().read(wanted)?;
        assert_eq!(records.len(), wanted.len(), "each wanted block has a record or none");
        let mut blocks = self.shared.blocks.write();
        let mut changes = Vec::with_capacity(wanted.len());
        for (pbn, record) in wanted.iter().zip(records) {
            let Some(Record { fingerprint, .. }) = record else { continue };
            // A block that has lost its last reference meanwhile is released.
            if blocks.may_come_back(*pbn) && blocks.begin_release(fingerprint, *pbn) {
                changes.push(Change { fingerprint, action: Action::Withdraw });
            }
        }
        Ok(changes)
    }
}
