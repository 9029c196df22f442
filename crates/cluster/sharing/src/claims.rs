//! The ledger of a member as the check of a domain reads it, also while the member is served.

use crate::group::{Fingerprints, Kinds};
use crate::ledger::{
    LOST_PAGE, OLD_HEAD, OLD_PAGE, Reading, Seal, VERSION_KEY, head_of, page_name,
};
use crate::record::BlockState;
use gemelo_domain::{Claim, Claims, Damage, DomainError, Intent, MemberId, Shard};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::{KeyRange, MAX_PAGE_KEYS, Objects};
use std::collections::BTreeMap;

/// Attempts of a request whose answer is lost.
const ATTEMPTS: u32 = 3;
/// Attempts to read an object that its member changes meanwhile.
const UNCHANGED_ATTEMPTS: u32 = 4;

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
    pub(crate) kind: BlockState,
}

/// The claims of a member, from its ledger: 48 bytes for each block with a record.
pub struct LedgerClaims {
    member: MemberId,
    claims: Vec<Claim>,
    blocks: Vec<KeptBlock>,
    intents: Vec<Intent>,
    versions: Vec<(Shard, u64)>,
    damage: Vec<Damage>,
    epoch: Option<u64>,
}

/// The records of a ledger, before kinds and fingerprints are brought together.
struct ReadRecords {
    member: MemberId,
    kinds: BTreeMap<Pbn, BlockState>,
    fingerprints: BTreeMap<Pbn, Fingerprint>,
    intents: Vec<Intent>,
    /// The pages that the head names, and the version that it knows of each.
    named: BTreeMap<u32, u64>,
    /// The version that each shard has at least.
    versions: Vec<(Shard, u64)>,
    damage: Vec<Damage>,
}

impl LedgerClaims {
    /// Reads the ledger of a member. Damaged values are listed, and the rest is read. If the member
    /// changes its ledger meanwhile, a block may seem to have a kind and no fingerprint.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn load(objects: &dyn Objects, member: MemberId) -> Result<Self, DomainError> {
        let mut reading = ReadRecords::new(member);
        let head = head_of(member);
        let names = retry(|| objects.list(&head))?;
        let has_head = names.contains(&head);
        if !names.is_empty() && !has_head {
            // Its records were made by intents.
            reading.note(&head, VERSION_KEY, "the object is missing");
        }
        // The intents come first: a change that is settled later is seen as an intent.
        let mut epoch = None;
        if has_head {
            epoch = reading.read_object(objects, &head)?.map(|seal| seal.other);
        }
        let named = std::mem::take(&mut reading.named);
        let named: BTreeMap<String, u64> =
            named.into_iter().map(|(page, known)| (page_name(&head, page), known)).collect();
        let mut head_versions = Vec::new();
        for name in names.iter().filter(|name| **name != head) {
            let known = named.get(name).copied();
            if has_head && known.is_none() {
                reading.note(name, VERSION_KEY, "the member does not know of this page");
            }
            if let Some(seal) = reading.read_object(objects, name)? {
                head_versions.push(seal.other);
                if known.is_some_and(|known| seal.version < known) {
                    reading.note(name, VERSION_KEY, OLD_PAGE);
                }
            }
        }
        for (name, _) in named.iter().filter(|(name, known)| **known > 0 && !names.contains(name)) {
            reading.note(name, VERSION_KEY, LOST_PAGE);
        }
        // The head may have been changed since it was read, and the pages after it.
        let now = if has_head { seal_of(objects, &head)?.map(|seal| seal.version) } else { None };
        if now.is_some_and(|now| head_versions.iter().any(|version| *version > now)) {
            reading.note(&head, VERSION_KEY, OLD_HEAD);
        }
        Ok(LedgerClaims { epoch, ..reading.finish(member) })
    }

    /// Returns the tenure in which the ledger was taken last, as its member counts them; [`None`]
    /// if the ledger does not exist or its head cannot be read.
    #[must_use]
    pub const fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// Returns the claims about all contents.
    #[must_use]
    pub fn all_claims(&self) -> &[Claim] {
        &self.claims
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

/// Reads the seal of an object; [`None`] if there is none that can be read.
fn seal_of(objects: &dyn Objects, name: &str) -> Result<Option<Seal>, DomainError> {
    let value = retry(|| objects.value_if_there(name, VERSION_KEY))?;
    Ok(value.and_then(|value| Seal::decode(&value).ok()))
}

/// Reads all keys of an object.
fn read_keys(member: MemberId, objects: &dyn Objects, name: &str) -> Result<Reading, DomainError> {
    let (mut read, mut after) = (Reading::default(), String::new());
    loop {
        let range = KeyRange { after: &after, prefix: "", limit: MAX_PAGE_KEYS };
        let page = retry(|| objects.keys_if_there(name, range))?;
        page.entries.iter().for_each(|(key, value)| read.take(member, name, (key, value)));
        match page.entries.into_iter().next_back() {
            Some((last, _)) if page.has_more => after = last,
            _ => return Ok(read),
        }
    }
}

impl ReadRecords {
    const fn new(member: MemberId) -> Self {
        Self {
            member,
            kinds: BTreeMap::new(),
            fingerprints: BTreeMap::new(),
            intents: Vec::new(),
            named: BTreeMap::new(),
            versions: Vec::new(),
            damage: Vec::new(),
        }
    }

    fn note(&mut self, object: &str, key: &str, reason: &'static str) {
        self.damage.push(Damage { object: object.to_owned(), key: key.to_owned(), reason });
    }

    /// Reads an object, and compares it with its seal unless it was changed meanwhile.
    fn read_object(
        &mut self,
        objects: &dyn Objects,
        name: &str,
    ) -> Result<Option<Seal>, DomainError> {
        let mut before = seal_of(objects, name)?;
        let mut read = read_keys(self.member, objects, name)?;
        for _ in 1..UNCHANGED_ATTEMPTS {
            if before == read.seal {
                break;
            }
            before = seal_of(objects, name)?;
            read = read_keys(self.member, objects, name)?;
        }
        if before == read.seal {
            read.check_seal(true);
        }
        for (key, reason) in read.damage {
            self.note(name, &key, reason);
        }
        self.kinds.extend(read.kinds);
        self.fingerprints.extend(read.fingerprints);
        self.intents.extend(read.in_flight.into_iter().map(|one| one.intent));
        self.named.extend(read.named);
        self.versions.extend(read.shards);
        Ok(read.seal)
    }

    fn finish(mut self, member: MemberId) -> LedgerClaims {
        let (mut claims, mut blocks) = (Vec::new(), Vec::new());
        let head = head_of(member);
        for (pbn, kind) in std::mem::take(&mut self.kinds) {
            let Some(fingerprint) = self.fingerprints.remove(&pbn) else {
                self.note(&head, &Fingerprints::key(Fingerprints::number_of(pbn)), NO_FINGERPRINT);
                continue;
            };
            let is_counted = kind.is_counted();
            let borrowed = match kind {
                BlockState::Borrowed(other) => Some(other.place()),
                _ => None,
            };
            let is_alone = kind == BlockState::Alone;
            blocks.push(KeptBlock { pbn, fingerprint, borrowed, is_counted, is_alone, kind });
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
        let Self { intents, versions, mut damage, .. } = self;
        damage.sort_unstable();
        damage.dedup();
        assert!(claims.len() <= blocks.len(), "a claim is about a block");
        LedgerClaims { member, claims, blocks, intents, versions, damage, epoch: None }
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

    fn versions(&self) -> &[(Shard, u64)] {
        &self.versions
    }
}
