//! The ledger of a member as the check of a domain reads it, also while the member is served.

use crate::group::{Fingerprints, Kinds};
use crate::in_flight::{INTENT_PREFIX, InFlight};
use crate::ledger::{
    LOST_KEYS, LOST_PAGE, NO_SEAL, OLD_HEAD, OLD_PAGE, PAGE_PREFIX, SHARD_PREFIX, Seal,
    VERSION_KEY, expect_in_page, head_of, known_shard, named_page, page_name,
};
use crate::record::BlockState;
use gemelo_domain::codec::{Reason, digest};
use gemelo_domain::{Claim, Claims, Damage, DomainError, Intent, MemberId, Shard};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::{KeyPage, KeyRange, MAX_PAGE_KEYS, ObjectError, Objects};
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

/// An object as it was read.
#[derive(Default)]
struct ReadObject {
    kinds: BTreeMap<Pbn, BlockState>,
    fingerprints: BTreeMap<Pbn, Fingerprint>,
    intents: Vec<Intent>,
    named: BTreeMap<u32, u64>,
    versions: Vec<(Shard, u64)>,
    damage: Vec<(String, Reason)>,
    seal: Option<Seal>,
    /// The digests of its keys.
    keys_digest: u64,
    fingerprints_digest: u64,
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
    let keys = [VERSION_KEY.to_owned()];
    let values = retry(|| match objects.get_keys(name, &keys) {
        Err(ObjectError::NotFound { .. }) => Ok(Vec::new()),
        values => values,
    })?;
    Ok(values.first().and_then(Option::as_deref).and_then(|value| Seal::decode(value).ok()))
}

impl ReadObject {
    fn read(member: MemberId, objects: &dyn Objects, name: &str) -> Result<Self, DomainError> {
        let (mut read, mut after) = (Self::default(), String::new());
        loop {
            let range = KeyRange { after: &after, prefix: "", limit: MAX_PAGE_KEYS };
            let page = retry(|| match objects.list_keys(name, range) {
                Err(ObjectError::NotFound { .. }) => Ok(KeyPage::default()),
                page => page,
            })?;
            for (key, value) in &page.entries {
                if let Err(reason) = read.take(member, name, (key, value)) {
                    read.damage.push((key.clone(), reason));
                }
            }
            match page.entries.into_iter().next_back() {
                Some((last, _)) if page.has_more => after = last,
                _ => return Ok(read),
            }
        }
    }

    fn take(
        &mut self,
        member: MemberId,
        object: &str,
        (key, value): (&str, &[u8]),
    ) -> Result<(), Reason> {
        let head = head_of(member);
        if key == VERSION_KEY {
            self.seal = Some(Seal::decode(value)?);
            return Ok(());
        }
        let digest = digest(key, value);
        if let Some(number) = Fingerprints::number_of_key(key) {
            self.fingerprints_digest = self.fingerprints_digest.wrapping_add(digest);
            expect_in_page(&head, object, Fingerprints::first_block(number))?;
            self.fingerprints.extend(Fingerprints::decode(number, value)?.iter());
            return Ok(());
        }
        self.keys_digest = self.keys_digest.wrapping_add(digest);
        if let Some(number) = Kinds::number_of_key(key) {
            expect_in_page(&head, object, Kinds::first_block(number))?;
            self.kinds.extend(Kinds::decode(member, number, value)?.iter());
        } else if key.starts_with(INTENT_PREFIX) {
            self.intents.push(InFlight::decode_of(member, key, value)?.intent);
        } else if key.starts_with(PAGE_PREFIX) {
            let (page, version) = named_page(key, value)?;
            self.named.insert(page, version);
        } else if key.starts_with(SHARD_PREFIX) {
            self.versions.push(known_shard(key, value)?);
        } else {
            return Err("it is no key of a ledger");
        }
        Ok(())
    }

    /// Compares the keys with the seal. Where a key cannot be read, that is named already.
    fn check_seal(&mut self) {
        if !self.damage.is_empty() {
            return;
        }
        let reason = match self.seal {
            None => NO_SEAL,
            Some(Seal { keys, fingerprints, .. })
                if (keys, fingerprints) != (self.keys_digest, self.fingerprints_digest) =>
            {
                LOST_KEYS
            }
            Some(_) => return,
        };
        self.damage.push((VERSION_KEY.to_owned(), reason));
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
        let mut read = ReadObject::read(self.member, objects, name)?;
        for _ in 1..UNCHANGED_ATTEMPTS {
            if before == read.seal {
                break;
            }
            before = seal_of(objects, name)?;
            read = ReadObject::read(self.member, objects, name)?;
        }
        if before == read.seal {
            read.check_seal();
        }
        for (key, reason) in read.damage {
            self.note(name, &key, reason);
        }
        self.kinds.extend(read.kinds);
        self.fingerprints.extend(read.fingerprints);
        self.intents.extend(read.intents);
        self.named.extend(read.named);
        self.versions.extend(read.versions);
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
            let is_counted = !matches!(kind, BlockState::Lent | BlockState::Alone);
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
