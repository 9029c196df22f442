//! The member's journal: what follows for its blocks from intents.

use crate::blocks::{Blocks, Progress};
use crate::compare::Comparison;
use crate::error::Result;
use crate::in_flight::InFlight;
use crate::own_blocks::OwnBlocks;
use crate::record::{BlockState, Elsewhere, Record};
use crate::shared::Shared;
use crate::stats::Stats;
use gemelo_domain::{Action, Change, Effect, Intent, Journal, JournalError, Settled, Verdict};
use gemelo_format::{Fingerprint, Pbn};
use std::collections::BTreeMap;

/// The journal of the index, in the member's ledger.
pub(crate) struct LedgerJournal<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) figures: &'a mut Stats,
    pub(crate) own: &'a dyn OwnBlocks,
}

/// The consequences of applied intents for blocks.
#[derive(Default)]
struct Consequences {
    /// Blocks that were published or shared, and their new kinds.
    taken: Vec<(Pbn, Record)>,
    /// Released blocks that are kept, and their new kinds.
    kept: Vec<(Pbn, Record)>,
    /// Blocks whose ledger records are removed.
    forgotten: Vec<Pbn>,
    /// Further ones, to which the pool may refer.
    withdrawn: Vec<Pbn>,
    /// Contents of homes that were read.
    checked: u64,
}

impl Journal for LedgerJournal<'_> {
    fn record(&mut self, intents: &[Intent]) -> std::result::Result<(), JournalError> {
        if let Some(pbn) = self.lost_block(intents)? {
            return Err(Box::new(self.shared.note_lost(pbn, self.own)));
        }
        let in_flight: Vec<InFlight> = {
            let mut blocks = self.shared.blocks.write();
            note_progress(&mut blocks, intents, Progress::Recorded);
            let released = |change: Change| match change.action {
                Action::Release | Action::Withdraw => blocks.released(change.fingerprint),
                _ => None,
            };
            let one = |intent: &Intent| InFlight {
                intent: intent.clone(),
                released: intent.steps.iter().map(|step| released(step.change)).collect(),
            };
            intents.iter().map(one).collect()
        };
        let mut ledger = self.shared.ledger.lock();
        // A change before these that is in doubt keeps them from being sent to the ledger.
        let resolved = ledger.resolve();
        let is_sent = resolved.is_ok();
        let recorded = resolved.and_then(|()| ledger.add_intents(&in_flight));
        if recorded.is_err() {
            if is_sent && ledger.is_in_doubt() {
                // The ledger may have them nevertheless. They are settled before anything else.
                self.shared.orphans.lock().extend(in_flight);
            } else {
                // It does not have them, so they must not be sent.
                note_progress(&mut self.shared.blocks.write(), intents, Progress::Planned);
            }
        }
        recorded.map_err(|error| -> JournalError { Box::new(error) })
    }

    fn settle(&mut self, settled: &[Settled<'_>]) -> std::result::Result<(), JournalError> {
        self.settle_all(settled).map_err(|error| -> JournalError { Box::new(error) })
    }
}

/// Notes for the blocks of intents that are published or released whether the ledger has them.
fn note_progress(blocks: &mut Blocks, intents: &[Intent], progress: Progress) {
    for change in intents.iter().flat_map(|intent| &intent.steps).map(|step| step.change) {
        match change.action {
            Action::Publish(pbn) => blocks.note_publishing(pbn, progress),
            Action::Release | Action::Withdraw => {
                blocks.note_releasing(change.fingerprint, progress);
            }
            Action::Share | Action::Reclaim | Action::Mark { .. } => {}
        }
    }
}

impl LedgerJournal<'_> {
    /// Looks in what intents found for a block of this member that the index names and of which the
    /// ledger has no record, or that of another content. It proves that records are lost. One that
    /// is to be published cannot be there yet.
    fn lost_block(&self, intents: &[Intent]) -> std::result::Result<Option<Pbn>, JournalError> {
        let mut named = BTreeMap::new();
        {
            let blocks = self.shared.blocks.read();
            for step in intents.iter().flat_map(|intent| &intent.steps) {
                let Some(entry) = step.before.filter(|entry| entry.home == self.shared.member)
                else {
                    continue;
                };
                let is_own = step.change.action == Action::Publish(entry.pbn);
                if is_own || !blocks.may_be_in_index(entry.pbn) {
                    return Ok(Some(entry.pbn));
                }
                // What is released has its content from the ledger.
                let is_found = matches!(
                    step.change.action,
                    Action::Publish(_) | Action::Share | Action::Reclaim
                );
                if is_found && !blocks.is_publishing(entry.pbn) {
                    named.insert(entry.pbn, step.change.fingerprint);
                }
            }
        }
        let pbns: Vec<Pbn> = named.keys().copied().collect();
        let records = self.shared.ledger.lock().read(&pbns);
        let records = records.map_err(|error| -> JournalError { Box::new(error) })?;
        let lost = named.into_iter().zip(records).find(|((_, expected), record)| {
            record.is_none_or(|record| record.fingerprint != *expected)
        });
        Ok(lost.map(|((pbn, _), _)| pbn))
    }

    /// The order matters. The ledger knows where a content lies before its own place is given up,
    /// and it forgets an intent before a block becomes free. Each step may be repeated.
    fn settle_all(&mut self, settled: &[Settled<'_>]) -> Result<()> {
        let applied: Vec<&Intent> = settled
            .iter()
            .filter(|settled| settled.verdict == Verdict::Applied)
            .map(|settled| settled.intent)
            .collect();
        let mut consequences = self.consequences(&applied)?;
        self.figures.checked += consequences.checked;
        let borrowed = {
            let ledger = &mut *self.shared.ledger.lock();
            consequences.keep_restored(&self.shared.blocks.read());
            ledger.write(&consequences.records())?;
            let borrowed = consequences.borrowed();
            self.shared.forget_cached(&borrowed);
            let mut blocks = self.shared.blocks.write();
            consequences.taken.iter().for_each(|(pbn, record)| blocks.set_kind(*pbn, record.kind));
            borrowed
        };
        self.shared.discard(borrowed, self.own)?;
        self.shared.ledger.lock().remove_intents(settled)?;
        self.finish(settled, &consequences);
        Ok(())
    }

    /// Returns what follows from applied intents, and changes nothing.
    fn consequences(&self, applied: &[&Intent]) -> Result<Consequences> {
        let mut found = Consequences::default();
        let mut comparison = Comparison::new(self.shared);
        {
            let blocks = self.shared.blocks.read();
            for (change, effect) in applied.iter().flat_map(|intent| intent.effects()) {
                let fingerprint = change.fingerprint;
                match (change.action, effect) {
                    (Action::Publish(pbn), Effect::Published(_)) => {
                        found
                            .taken
                            .push((pbn, Record { fingerprint, kind: BlockState::Published }));
                    }
                    (Action::Publish(pbn), Effect::Shared(home, content)) => {
                        let other = Elsewhere::of((self.shared.member, pbn), (home, content));
                        match (blocks.kind(pbn), other) {
                            // It was decided before, and its own place may be gone.
                            (Some(kind), _) => {
                                found.taken.push((pbn, Record { fingerprint, kind }));
                            }
                            (None, Some(other)) => comparison.add(pbn, fingerprint, other),
                            (None, None) => {
                                let kind = BlockState::Published;
                                found.taken.push((pbn, Record { fingerprint, kind }));
                            }
                        }
                    }
                    (Action::Release, effect) => {
                        if let Some(pbn) = blocks.released(fingerprint) {
                            found.add_released(pbn, fingerprint, (blocks.kind(pbn), effect));
                        }
                    }
                    (Action::Reclaim, Effect::Withdrawn(pbn)) => found.forgotten.push(pbn),
                    (Action::Withdraw, Effect::Withdrawn(pbn)) => found.withdrawn.push(pbn),
                    _ => {}
                }
            }
        }
        found.checked = comparison.len();
        found.taken.extend(comparison.run()?);
        Ok(found)
    }

    /// Makes the consequences known that the ledger has.
    fn finish(&mut self, settled: &[Settled<'_>], consequences: &Consequences) {
        let mut blocks = self.shared.blocks.write();
        for settled in settled {
            let is_applied = settled.verdict == Verdict::Applied;
            self.figures.count(settled.intent, is_applied);
            // Each content occurs once in an intent of this crate, so that no block of a void one
            // is in the index.
            for (change, effect) in settled.intent.effects() {
                match change.action {
                    // It is not kept, and may be tried again.
                    Action::Publish(pbn) if matches!(effect, Effect::Refused { .. }) => {
                        blocks.note_publishing(pbn, Progress::Planned);
                        blocks.give_up(pbn, true);
                    }
                    Action::Publish(pbn) if is_applied => blocks.end_publishing(pbn),
                    Action::Publish(pbn) => blocks.note_publishing(pbn, Progress::Planned),
                    Action::Release if is_applied => blocks.end_release(change.fingerprint),
                    Action::Withdraw if is_applied => {
                        let pbn = blocks.released(change.fingerprint);
                        blocks.end_release(change.fingerprint);
                        let stays = pbn.filter(|_| effect == Effect::Nothing);
                        stays.into_iter().for_each(|pbn| blocks.keep_published(pbn));
                    }
                    Action::Release | Action::Withdraw => {
                        blocks.note_releasing(change.fingerprint, Progress::Planned);
                    }
                    Action::Share | Action::Reclaim | Action::Mark { .. } => {}
                }
            }
        }
        for (pbn, record) in &consequences.kept {
            if blocks.is_kept(*pbn) {
                blocks.set_kind(*pbn, record.kind);
            }
        }
        consequences.forgotten.iter().for_each(|pbn| blocks.free(*pbn));
        consequences.withdrawn.iter().for_each(|pbn| blocks.withdraw(*pbn));
        let taken = consequences.taken.iter().map(|(_, record)| record.kind);
        self.figures.refused +=
            taken.filter(|kind| matches!(kind, BlockState::Restored(_))).count() as u64;
    }
}

impl Consequences {
    /// Adds a block whose reference was released.
    fn add_released(
        &mut self,
        pbn: Pbn,
        fingerprint: Fingerprint,
        (kind, effect): (Option<BlockState>, Effect),
    ) {
        let withdrawn = match effect {
            Effect::Withdrawn(withdrawn) => Some(withdrawn),
            _ => None,
        };
        // The block itself, or another own block that lent the content to this one.
        self.forgotten.extend(withdrawn);
        let kept = match kind {
            // Other members refer to it.
            Some(BlockState::Published | BlockState::Lent) if withdrawn != Some(pbn) => {
                Some(BlockState::Lent)
            }
            Some(BlockState::Restored(_) | BlockState::Alone) => Some(BlockState::Alone),
            _ => None,
        };
        match kept {
            Some(kind) => self.kept.push((pbn, Record { fingerprint, kind })),
            None if withdrawn != Some(pbn) => self.forgotten.push(pbn),
            None => {}
        }
    }

    /// Leaves blocks as they are that were healed meanwhile, and are read at their own places.
    fn keep_restored(&mut self, blocks: &Blocks) {
        for (pbn, record) in &mut self.taken {
            if let Some(kind @ BlockState::Restored(_)) = blocks.kind(*pbn) {
                record.kind = kind;
            }
        }
    }

    fn borrowed(&self) -> Vec<Pbn> {
        let taken = self.taken.iter();
        let borrowed = taken.filter(|(_, record)| matches!(record.kind, BlockState::Borrowed(_)));
        borrowed.map(|(pbn, _)| *pbn).collect()
    }

    /// Returns the changes of the ledger.
    fn records(&self) -> BTreeMap<Pbn, Option<Record>> {
        let kept = self.taken.iter().chain(&self.kept);
        let kept = kept.map(|(pbn, record)| (*pbn, Some(*record)));
        let gone = self.forgotten.iter().chain(&self.withdrawn);
        kept.chain(gone.map(|pbn| (*pbn, None))).collect()
    }
}
