//! An object of a ledger as it was read: by its member, which reads no fingerprints, or by the
//! check of a domain.

use super::{
    PAGE_PREFIX, SHARD_PREFIX, Seal, VERSION_KEY, expect_in_page, head_of, known_shard, named_page,
};
use crate::group::{Fingerprints, Kinds};
use crate::in_flight::{INTENT_PREFIX, InFlight};
use crate::record::BlockState;
use gemelo_domain::codec::{Reason, digest};
use gemelo_domain::{MemberId, Shard};
use gemelo_format::{Fingerprint, Pbn};
use std::collections::BTreeMap;

pub(super) const LOST_KEYS: Reason = "other keys of the object are lost, or older than it";
pub(super) const NO_SEAL: Reason = "it is lost";

/// An object as it was read.
#[derive(Default)]
pub(crate) struct Reading {
    pub(crate) kinds: Vec<(Pbn, BlockState)>,
    pub(crate) fingerprints: Vec<(Pbn, Fingerprint)>,
    pub(crate) in_flight: Vec<InFlight>,
    /// The pages that the head names, and the version that it knows of each.
    pub(crate) named: BTreeMap<u32, u64>,
    /// The version that each shard has at least.
    pub(crate) shards: BTreeMap<Shard, u64>,
    pub(crate) head_keys: BTreeMap<String, u64>,
    pub(crate) seal: Option<Seal>,
    pub(crate) damage: Vec<(String, Reason)>,
    /// The digests of its keys.
    keys: u64,
    fingerprints_digest: u64,
}

impl Reading {
    /// Takes a key. One that cannot be read is damage.
    pub(crate) fn take(&mut self, member: MemberId, object: &str, (key, value): (&str, &[u8])) {
        if let Err(reason) = self.try_take(member, object, (key, value)) {
            self.damage.push((key.to_owned(), reason));
        }
    }

    fn try_take(
        &mut self,
        member: MemberId,
        object: &str,
        (key, value): (&str, &[u8]),
    ) -> Result<(), Reason> {
        if key == VERSION_KEY {
            self.seal = Some(Seal::decode(value)?);
            return Ok(());
        }
        let (head, digest) = (head_of(member), digest(key, value));
        if let Some(number) = Fingerprints::number_of_key(key) {
            self.fingerprints_digest = self.fingerprints_digest.wrapping_add(digest);
            expect_in_page(&head, object, Fingerprints::first_block(number))?;
            self.fingerprints.extend(Fingerprints::decode(number, value)?.iter());
            return Ok(());
        }
        self.keys = self.keys.wrapping_add(digest);
        if let Some(number) = Kinds::number_of_key(key) {
            expect_in_page(&head, object, Kinds::first_block(number))?;
            self.kinds.extend(Kinds::decode(member, number, value)?.iter());
            return Ok(());
        }
        self.head_keys.insert(key.to_owned(), digest);
        if key.starts_with(INTENT_PREFIX) {
            self.in_flight.push(InFlight::decode_of(member, key, value)?);
        } else if key.starts_with(PAGE_PREFIX) {
            let (page, version) = named_page(key, value)?;
            self.named.insert(page, version);
        } else if key.starts_with(SHARD_PREFIX) {
            let (shard, version) = known_shard(key, value)?;
            self.shards.insert(shard, version);
        } else {
            return Err("it is no key of a ledger");
        }
        Ok(())
    }

    /// Compares the keys with the seal: those of fingerprints only if they were read. Where a key
    /// cannot be read, that is named already.
    pub(crate) fn check_seal(&mut self, has_fingerprints: bool) {
        if !self.damage.is_empty() {
            return;
        }
        let is_whole = |seal: Seal| {
            let are_there = seal.fingerprints == self.fingerprints_digest || !has_fingerprints;
            seal.keys == self.keys && are_there
        };
        let reason = match self.seal {
            None => NO_SEAL,
            Some(seal) if !is_whole(seal) => LOST_KEYS,
            Some(_) => return,
        };
        self.damage.push((VERSION_KEY.to_owned(), reason));
    }
}
