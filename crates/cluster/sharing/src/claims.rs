//! The ledger of a member as the check of a domain reads it, also while the member is served.

use crate::group::{Fingerprints, Kinds};
use crate::in_flight::{INTENT_PREFIX, InFlight};
use crate::ledger::{decode_version, head_of, named_page, page_name};
use crate::record::BlockState;
use gemelo_domain::{Claim, Claims, Damage, DomainError, Intent, MemberId, Shard};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::{KeyPage, KeyRange, MAX_PAGE_KEYS, ObjectError, Objects};
use std::collections::{BTreeMap, BTreeSet};

/// Attempts of a request whose answer is lost.
const ATTEMPTS: u32 = 3;

/// A block with a ledger record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptBlock {
    /// Address of the block in the pool of the member.
    pub pbn: Pbn,
    /// Fingerprint of the content of the block.
    pub fingerprint: Fingerprint,
    /// The home of the content and its block there, if it is not this block.
    pub borrowed: Option<(MemberId, Pbn)>,
    /// `true` if the pool must refer to the block, unless its reference is about to be released.
    pub is_counted: bool,
    /// `true` if the block is never shared, because the index has a copy that differs.
    pub is_alone: bool,
}

/// The claims of a member, from its ledger: 48 bytes for each block with a record.
pub struct LedgerClaims {
    member: MemberId,
    claims: Vec<Claim>,
    blocks: Vec<KeptBlock>,
    intents: Vec<Intent>,
    damage: Vec<Damage>,
}

/// The records of a ledger, before kinds and fingerprints are brought together.
#[derive(Default)]
struct Reading {
    kinds: BTreeMap<Pbn, BlockState>,
    fingerprints: BTreeMap<Pbn, Fingerprint>,
    intents: Vec<Intent>,
    /// The pages that the head names.
    named: BTreeSet<u32>,
    damage: Vec<Damage>,
}

impl LedgerClaims {
    /// Reads the ledger of a member. Damaged values are listed, and the rest is read. If the member
    /// changes its ledger meanwhile, a block may seem to have a kind and no fingerprint.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn load(objects: &dyn Objects, member: MemberId) -> Result<Self, DomainError> {
        let mut reading = Reading::default();
        let head = head_of(member);
        let names = retry(|| objects.list(&head))?;
        if !names.is_empty() && !names.contains(&head) {
            // Its records were made by intents.
            reading.note(&head, "version", "the object is missing");
        }
        // The intents come first: a change that is settled later is seen as an intent.
        let pages = names.iter().filter(|name| **name != head);
        let has_head = names.contains(&head);
        if has_head {
            reading.read_object(objects, &head)?;
        }
        let named: BTreeSet<String> =
            reading.named.iter().map(|page| page_name(&head, *page)).collect();
        for name in pages {
            if has_head && !named.contains(name) {
                reading.note(name, "version", "the member does not know of this page");
            }
            reading.read_object(objects, name)?;
        }
        Ok(reading.finish(member))
    }

    /// Returns the blocks with a ledger record.
    #[must_use]
    pub fn blocks(&self) -> &[KeptBlock] {
        &self.blocks
    }

    /// Returns the number of intents in flight.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.intents.len()
    }

    /// Returns the values of the ledger that are damaged.
    #[must_use]
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }
}

fn retry<T>(attempt: impl Fn() -> gemelo_objects::Result<T>) -> Result<T, DomainError> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(error) if error.is_unknown() => {}
            outcome => return Ok(outcome?),
        }
    }
    Ok(attempt()?)
}

impl Reading {
    fn note(&mut self, object: &str, key: &str, reason: &'static str) {
        self.damage.push(Damage { object: object.to_owned(), key: key.to_owned(), reason });
    }

    fn read_object(&mut self, objects: &dyn Objects, name: &str) -> Result<(), DomainError> {
        let mut after = String::new();
        loop {
            let range = KeyRange { after: &after, prefix: "", limit: MAX_PAGE_KEYS };
            let page = retry(|| match objects.list_keys(name, range) {
                Err(ObjectError::NotFound { .. }) => Ok(KeyPage::default()),
                page => page,
            })?;
            for (key, value) in &page.entries {
                if let Err(reason) = self.take(key, value) {
                    self.note(name, key, reason);
                }
            }
            match page.entries.into_iter().next_back() {
                Some((last, _)) if page.has_more => after = last,
                _ => return Ok(()),
            }
        }
    }

    fn take(&mut self, key: &str, value: &[u8]) -> Result<(), &'static str> {
        if let Some(number) = Kinds::number_of_key(key) {
            self.kinds.extend(Kinds::decode(number, value)?.iter());
        } else if let Some(number) = Fingerprints::number_of_key(key) {
            self.fingerprints.extend(Fingerprints::decode(number, value)?.iter());
        } else if key.starts_with(INTENT_PREFIX) {
            self.intents.push(InFlight::decode(value)?.intent);
        } else if key == "version" {
            decode_version(value)?;
        } else {
            self.named.insert(named_page(key, value)?);
        }
        Ok(())
    }

    fn finish(mut self, member: MemberId) -> LedgerClaims {
        let (mut claims, mut blocks) = (Vec::new(), Vec::new());
        let head = head_of(member);
        for (pbn, kind) in std::mem::take(&mut self.kinds) {
            let Some(fingerprint) = self.fingerprints.remove(&pbn) else {
                self.note(&head, &Fingerprints::key(Fingerprints::number_of(pbn)), NO_FINGERPRINT);
                continue;
            };
            let is_counted = !matches!(kind, BlockState::Lent | BlockState::Alone);
            let borrowed = match kind {
                BlockState::Borrowed(place) => Some(place),
                _ => None,
            };
            let is_alone = kind == BlockState::Alone;
            blocks.push(KeptBlock { pbn, fingerprint, borrowed, is_counted, is_alone });
            if !is_alone {
                let (home, pbn) = match kind.place() {
                    Some(place) => place,
                    None => (member, pbn),
                };
                claims.push(Claim { fingerprint, home, pbn, is_counted });
            }
        }
        for (pbn, _) in std::mem::take(&mut self.fingerprints) {
            self.note(&head, &Kinds::key(Kinds::number_of(pbn)), NO_KIND);
        }
        claims.sort_unstable_by_key(|claim| claim.fingerprint.to_bytes());
        let Self { intents, mut damage, .. } = self;
        damage.sort_unstable();
        damage.dedup();
        assert!(claims.len() <= blocks.len(), "a claim is about a block");
        LedgerClaims { member, claims, blocks, intents, damage }
    }
}

const NO_FINGERPRINT: &str = "a block has a kind and no fingerprint";
const NO_KIND: &str = "a block has a fingerprint and no kind";

impl Claims for LedgerClaims {
    fn member(&self) -> MemberId {
        self.member
    }

    fn claims(&mut self, shard: Shard) -> Result<Vec<Claim>, DomainError> {
        // The fingerprints of a shard begin with the same bits, so they are side by side.
        let is_before = |claim: &Claim| Shard::of(claim.fingerprint, shard.depth()) < shard;
        let first = self.claims.partition_point(is_before);
        let claims = self.claims.iter().skip(first);
        Ok(claims.take_while(|claim| shard.contains(claim.fingerprint)).copied().collect())
    }

    fn intents(&self) -> &[Intent] {
        &self.intents
    }
}
