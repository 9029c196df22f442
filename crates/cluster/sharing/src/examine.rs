//! Looks at blocks that this member or another one doubts, heals them from good copies, and marks
//! those in the index that stay damaged, so that nobody shares them.
//!
//! The home alone judges its blocks, by reading them: a member that finds one damaged tells it. A
//! copy is good if it has the fingerprint, so it does not matter what has become of the block that
//! a doubt names.

use crate::blocks::Noticed;
use crate::error::Result;
use crate::journal::LedgerJournal;
use crate::places::{State, unanswered};
use crate::record::{BlockState, Place, Record};
use crate::shared::Shared;
use crate::sharing::Worker;
use gemelo_domain::{Action, Change, Doubt, Doubts, Entry, MemberId};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_volume::Pool;
use std::collections::BTreeMap;

/// Most doubts that are dealt with in a round.
const DOUBTS_AT_ONCE: usize = 256;

/// An own block that is doubted.
#[derive(Debug)]
struct Doubted {
    pbn: Pbn,
    fingerprint: Fingerprint,
    /// Places that may have a good copy.
    copies: Vec<Place>,
}

/// Doubts for other members, by home.
pub(crate) type Told = BTreeMap<MemberId, Vec<Doubt>>;

/// Looks at the doubted blocks of a member.
pub(crate) struct Examiner<'s> {
    pub(crate) shared: &'s Shared,
}

impl Examiner<'_> {
    /// Looks at doubted blocks. Returns how many there were.
    pub(crate) fn examine(&self, worker: &mut Worker, pool: &Pool) -> Result<usize> {
        let noticed = self.shared.blocks.write().take_doubted(DOUBTS_AT_ONCE);
        let examined = self.examine_noticed(worker, pool, &noticed);
        if examined.is_err() {
            let mut blocks = self.shared.blocks.write();
            noticed.iter().for_each(|noticed| blocks.doubt(*noticed));
        }
        examined
    }

    fn examine_noticed(
        &self,
        worker: &mut Worker,
        pool: &Pool,
        noticed: &[Noticed],
    ) -> Result<usize> {
        let doubts = worker.index.doubts(DOUBTS_AT_ONCE)?;
        if noticed.is_empty() && doubts.is_empty() {
            return Ok(0);
        }
        let (mut doubted, told) = self.sort_noticed(noticed)?;
        worker.index.doubt(&told)?;
        self.add_told(worker, &doubts, &mut doubted)?;
        let doubted: Vec<Doubted> = doubted.into_values().collect();
        let changes = self.judge(worker, pool, &doubted)?;
        let Worker { index, figures, .. } = &mut *worker;
        let mut journal = LedgerJournal { shared: self.shared, figures, own: pool };
        index.submit(&changes, &mut journal)?;
        if !doubts.is_empty() {
            index.forget_doubts(&doubts)?;
        }
        Ok(noticed.len() + doubts.doubts.len())
    }

    /// Parts blocks that this member doubts into own ones, and into borrowed ones, of which their
    /// homes are told.
    fn sort_noticed(&self, noticed: &[Noticed]) -> Result<(BTreeMap<Pbn, Doubted>, Told)> {
        let pbns: Vec<Pbn> = noticed.iter().map(|noticed| noticed.pbn).collect();
        let records = self.shared.ledger.lock().read(&pbns)?;
        assert_eq!(records.len(), noticed.len(), "each block has a record or none");
        let (mut doubted, mut told) = (BTreeMap::new(), Told::new());
        for (Noticed { pbn, copy }, record) in noticed.iter().copied().zip(records) {
            let Some(Record { fingerprint, kind }) = record else { continue };
            match kind {
                BlockState::Published | BlockState::Lent => {
                    let copies = copy.map(|copy| (self.shared.member, copy)).into_iter().collect();
                    doubted.insert(pbn, Doubted { pbn, fingerprint, copies });
                }
                BlockState::Borrowed(other) => {
                    let (home, _) = other.place();
                    let doubt = Doubt { fingerprint, from: self.shared.member, copy: None };
                    told.entry(home).or_default().push(doubt);
                }
                BlockState::Restored(_) | BlockState::Alone => {}
            }
        }
        Ok((doubted, told))
    }

    /// Adds the blocks of this member that others doubt.
    fn add_told(
        &self,
        worker: &mut Worker,
        doubts: &Doubts,
        doubted: &mut BTreeMap<Pbn, Doubted>,
    ) -> Result<()> {
        let contents: Vec<Fingerprint> =
            doubts.doubts.iter().map(|doubt| doubt.fingerprint).collect();
        let entries = worker.index.entries(&contents)?;
        assert_eq!(entries.len(), doubts.doubts.len(), "each doubt has an entry or none");
        let own = |entry: &Option<Entry>| {
            entry.filter(|entry| entry.home == self.shared.member).map(|entry| entry.pbn)
        };
        let places: Vec<Option<Pbn>> = entries.iter().map(own).collect();
        let pbns: Vec<Pbn> = places.iter().copied().flatten().collect();
        let mut records = self.shared.ledger.lock().read(&pbns)?.into_iter();
        for (doubt, pbn) in doubts.doubts.iter().zip(places) {
            // Without an entry here the block is this member's no more.
            let Some(pbn) = pbn else { continue };
            let record = records.next().flatten();
            let Some(record) = record.filter(|record| record.fingerprint == doubt.fingerprint)
            else {
                continue;
            };
            if !record.kind.is_home() {
                continue;
            }
            let new = Doubted { pbn, fingerprint: doubt.fingerprint, copies: Vec::new() };
            let known = doubted.entry(pbn).or_insert(new);
            known.copies.extend(doubt.copy.map(|copy| (doubt.from, copy)));
        }
        Ok(())
    }

    /// Reads doubted blocks, and heals those that are damaged and have a good copy. Returns what
    /// the index has to know.
    fn judge(&self, worker: &mut Worker, pool: &Pool, doubted: &[Doubted]) -> Result<Vec<Change>> {
        if doubted.is_empty() {
            return Ok(Vec::new());
        }
        // A rewritten content must be in the store before it is read there.
        if !pool.is_read_only() {
            pool.flush()?;
        }
        let mut changes = Vec::with_capacity(doubted.len());
        let mut healed = 0;
        for some in doubted.chunks(self.shared.contents_at_once()?) {
            let places: Vec<Place> = some.iter().map(|one| (self.shared.member, one.pbn)).collect();
            let contents = self.shared.read_places(&places)?;
            let fingerprints = some.iter().map(|one| one.fingerprint);
            let states = contents.states(self.shared.fingerprinter()?, fingerprints);
            assert_eq!(states.len(), some.len(), "each doubted block was read");
            for (one, state) in some.iter().zip(states) {
                let is_suspect = match state {
                    State::Good => false,
                    State::Bad => {
                        let is_healed = self.heal(pool, one)?;
                        healed += u64::from(is_healed);
                        !is_healed
                    }
                    State::Unknown => return Err(unanswered("look at doubted")),
                };
                let action = Action::Mark { is_suspect };
                changes.push(Change { fingerprint: one.fingerprint, action });
            }
        }
        if healed > 0 {
            pool.sync_healed()?;
            worker.figures.healed += healed;
        }
        Ok(changes)
    }

    /// Writes a block again from a good copy, if there is one. Only a fingerprint that proves
    /// equality tells that a copy is good.
    fn heal(&self, pool: &Pool, one: &Doubted) -> Result<bool> {
        if !pool.fingerprints_prove_equality() {
            return Ok(false);
        }
        let copies = self.shared.read_places(&one.copies)?;
        let expected = std::iter::repeat(one.fingerprint);
        let states = copies.states(self.shared.fingerprinter()?, expected);
        for (copy, state) in copies.iter().zip(states) {
            match (copy, state) {
                (Some(content), State::Good) => return Ok(pool.heal_kept(one.pbn, content)?),
                (_, State::Good | State::Bad) => {}
                (_, State::Unknown) => return Err(unanswered("look at doubted")),
            }
        }
        Ok(false)
    }

    /// Returns the doubts about the homes of restored blocks, which have good copies.
    pub(crate) fn doubts_of(&self, restored: impl Iterator<Item = (Pbn, Record)>) -> Told {
        let mut told = Told::new();
        for (pbn, Record { fingerprint, kind }) in restored {
            if let BlockState::Restored(other) = kind {
                let (home, _) = other.place();
                let (from, copy) = (self.shared.member, Some(pbn));
                told.entry(home).or_default().push(Doubt { fingerprint, from, copy });
            }
        }
        told
    }
}
