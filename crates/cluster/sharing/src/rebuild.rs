//! Writing a ledger again that has lost records: from the index, from the ledgers of the members
//! that borrow, and from the pool itself.
//!
//! Nobody serves a member meanwhile. The records follow from these sources, step by step:
//!
//! 1. A record that is left stays if the others agree with it: the pool has no other content in the
//!    block, and the index or a borrower names the block as the place of the content, or the pool
//!    refers to it. All others may be older than the rest.
//! 2. Each block of this member that the index or a borrower names as the place of a content gets a
//!    record, and this member counts as one that refers to it. If it does not, it releases the
//!    reference when it is served. Only a block in which the pool has another content gets none:
//!    that content was lost before.
//! 3. A content of the pool without a record may be borrowed. If its own place has it no more, it
//!    is borrowed, from where the index has it. If its own place has it, and the index counts more
//!    members than are known, it stays there, and a reference is released.
//!
//! A reference that this member may have is counted, so no content is freed too early. The index is
//! rebuilt afterwards, with the counts that follow.

use crate::claims::LedgerClaims;
use crate::error::Result;
use crate::ledger::{head_of, write_anew};
use crate::places::{State, unanswered};
use crate::record::{BlockState, Elsewhere, Place, Record};
use crate::shared::Shared;
use gemelo_domain::{Claim, DomainConfig, Entry, MemberId, each_entry};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::Objects;
use gemelo_volume::Pool;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Contents of the pool whose fingerprints are looked up together.
const CONTENTS_AT_ONCE: usize = 65_536;

/// The other members' records, and what is left of this one's.
pub struct LedgerSources<'a> {
    /// What is left of the ledger.
    pub left: &'a LedgerClaims,
    /// The claims of the other members.
    pub others: &'a [(MemberId, Claim)],
    /// The tenure of this process.
    pub epoch: u64,
}

/// The sources, by block and by content.
struct Known {
    member: MemberId,
    /// The contents of the pool that have fingerprints.
    contents: BTreeMap<Pbn, Fingerprint>,
    /// The blocks that the pool refers to.
    used: HashSet<Pbn>,
    /// The entries of the index that name this member's blocks.
    own: BTreeSet<(Pbn, [u8; 16])>,
    /// The places of the pool's contents, and how many members refer to them beyond those that are
    /// known.
    places: HashMap<[u8; 16], (Place, i64)>,
}

/// Writes a ledger again; see the module.
pub(crate) struct LedgerRebuild<'s> {
    pub(crate) shared: &'s Shared,
    pub(crate) objects: &'s dyn Objects,
    pub(crate) config: &'s DomainConfig,
}

impl LedgerRebuild<'_> {
    pub(crate) fn rebuild(&self, pool: &Pool, sources: &LedgerSources<'_>) -> Result<usize> {
        self.shared.fingerprinter.get_or_init(|| pool.fingerprinter().clone());
        let mut known = self.known(pool, sources)?;
        let mut records = BTreeMap::new();
        for block in sources.left.blocks() {
            let record = Record { fingerprint: block.fingerprint, kind: block.kind };
            if known.agrees(block.pbn, record) {
                records.insert(block.pbn, record);
            }
        }
        self.add_own(&known, &mut records)?;
        known.count(&records);
        self.add_borrowed(&mut known, &mut records)?;
        let head = head_of(self.shared.member);
        let is_whole = sources.left.damage().iter().all(|damage| damage.object != head);
        // Intents of an older head were settled since. What they did is in the index.
        let in_flight = self.shared.orphans.lock().clone();
        let in_flight = if is_whole { in_flight } else { Vec::new() };
        let count = records.len();
        let shards = self.shared.ledger.lock().shards().clone();
        let (objects, member) = (self.objects, self.shared.member);
        write_anew(objects, member, sources.epoch, records, &in_flight, &shards)?;
        Ok(count)
    }

    fn known(&self, pool: &Pool, sources: &LedgerSources<'_>) -> Result<Known> {
        let member = self.shared.member;
        let used = pool.used();
        let mut contents = BTreeMap::new();
        for pbns in used.chunks(CONTENTS_AT_ONCE) {
            let found = pool.fingerprints_of(pbns)?;
            assert_eq!(found.len(), pbns.len(), "each content has a fingerprint or none");
            contents.extend(pbns.iter().zip(found).filter_map(|(pbn, one)| Some((*pbn, one?))));
        }
        let wanted: HashSet<[u8; 16]> = contents.values().map(|one| one.to_bytes()).collect();
        let (mut own, mut places) = (BTreeSet::new(), HashMap::new());
        each_entry(self.objects, self.config, |fingerprint, entry: Entry| {
            if entry.home == member {
                own.insert((entry.pbn, fingerprint.to_bytes()));
            }
            if wanted.contains(&fingerprint.to_bytes()) {
                let counted = ((entry.home, entry.pbn), i64::from(entry.members));
                places.insert(fingerprint.to_bytes(), counted);
            }
        })?;
        for (from, claim) in sources.others {
            let (content, place) = (claim.fingerprint.to_bytes(), (claim.home, claim.pbn));
            if claim.home == member {
                own.insert((claim.pbn, content));
            }
            if let Some((_, surplus)) = places.get_mut(&content) {
                *surplus -= i64::from(claim.is_counted);
            } else if claim.home == *from && wanted.contains(&content) {
                // A shard is lost as well: the home says where the content lies.
                places.insert(content, (place, 0));
            }
        }
        let used = used.into_iter().collect();
        Ok(Known { member, contents, used, own, places })
    }

    /// Adds the blocks that the index or a borrower names.
    fn add_own(&self, known: &Known, records: &mut BTreeMap<Pbn, Record>) -> Result<()> {
        for (pbn, content) in &known.own {
            let fingerprint = Fingerprint::from_bytes(*content);
            if known.contents.get(pbn).is_some_and(|content| *content != fingerprint) {
                continue;
            }
            let is_identified = known.contents.contains_key(pbn);
            let is_used = known.used.contains(pbn);
            // The pool may have another content there, which has no fingerprint yet.
            if is_used && !is_identified && self.state(*pbn, fingerprint)? != State::Good {
                continue;
            }
            let record = Record { fingerprint, kind: BlockState::Published };
            let known = records.entry(*pbn).or_insert(record);
            let is_lent = *known == Record { kind: BlockState::Lent, ..record };
            if is_used && is_lent || !known.kind.is_home() {
                *known = record;
            }
        }
        Ok(())
    }

    /// Adds contents of the pool that lie elsewhere.
    fn add_borrowed(&self, known: &mut Known, records: &mut BTreeMap<Pbn, Record>) -> Result<()> {
        let open: Vec<(Pbn, Fingerprint)> = known
            .contents
            .iter()
            .filter(|(pbn, content)| {
                !records.contains_key(pbn) && known.places.contains_key(&content.to_bytes())
            })
            .map(|(pbn, content)| (*pbn, *content))
            .collect();
        for some in open.chunks(self.shared.contents_at_once()?) {
            let own: Vec<Place> = some.iter().map(|(pbn, _)| (known.member, *pbn)).collect();
            let contents = self.shared.read_places(&own)?;
            let fingerprints = some.iter().map(|(_, fingerprint)| *fingerprint);
            let states = contents.states(self.shared.fingerprinter()?, fingerprints);
            for (((pbn, fingerprint), own), state) in some.iter().zip(own).zip(states) {
                let Some((place, surplus)) = known.places.get_mut(&fingerprint.to_bytes()) else {
                    continue;
                };
                let Some(other) = Elsewhere::of(own, *place) else { continue };
                let kind = match state {
                    State::Unknown => return Err(unanswered("look for borrowed")),
                    State::Bad => BlockState::Borrowed(other),
                    State::Good if *surplus > 0 => BlockState::Restored(other),
                    State::Good => continue,
                };
                *surplus -= 1;
                records.insert(*pbn, Record { fingerprint: *fingerprint, kind });
            }
        }
        Ok(())
    }

    /// Compares a content at its own place with its fingerprint.
    fn state(&self, pbn: Pbn, fingerprint: Fingerprint) -> Result<State> {
        let contents = self.shared.read_places(&[(self.shared.member, pbn)])?;
        let expected = std::iter::once(fingerprint);
        let states = contents.states(self.shared.fingerprinter()?, expected);
        match states.first() {
            None | Some(State::Unknown) => Err(unanswered("look for borrowed")),
            Some(state) => Ok(*state),
        }
    }
}

impl Known {
    /// Returns whether a record that is left agrees with the pool and the index.
    fn agrees(&self, pbn: Pbn, Record { fingerprint, kind }: Record) -> bool {
        if self.contents.get(&pbn).is_some_and(|content| *content != fingerprint) {
            return false;
        }
        match kind {
            BlockState::Published | BlockState::Lent => {
                self.own.contains(&(pbn, fingerprint.to_bytes()))
            }
            BlockState::Borrowed(_) | BlockState::Restored(_) | BlockState::Alone => {
                self.contents.contains_key(&pbn)
            }
        }
    }

    /// Takes what this member refers to from the members that are not known.
    fn count(&mut self, records: &BTreeMap<Pbn, Record>) {
        for record in records.values().filter(|record| record.kind.is_counted()) {
            if let Some((_, surplus)) = self.places.get_mut(&record.fingerprint.to_bytes()) {
                *surplus -= 1;
            }
        }
    }
}
