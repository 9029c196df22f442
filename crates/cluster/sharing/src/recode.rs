//! All values of a ledger, for fuzzers: each is read and encoded again.

use crate::group::{Fingerprints, Kinds};
use crate::in_flight::{INTENT_PREFIX, InFlight};
use crate::ledger::{
    PAGE_PREFIX, SHARD_PREFIX, Seal, VERSION_KEY, known_shard, named_page, page_entry, shard_entry,
};
use gemelo_domain::codec::Reason;
use gemelo_domain::{Intent, MemberId};

/// The member whose ledger it is: no place may be one of its own blocks, so it is no member's.
const MEMBER: MemberId = MemberId(0);
const EMPTY: Reason = "it has no block";

/// Reads any value of a ledger and encodes it again.
///
/// # Errors
/// Fails with the reason if the value is damaged.
pub fn recode_ledger_value(key: &str, value: &[u8]) -> Result<Vec<u8>, Reason> {
    if let Some(number) = Kinds::number_of_key(key) {
        return Kinds::decode(MEMBER, number, value)?.encode().ok_or(EMPTY);
    }
    if let Some(number) = Fingerprints::number_of_key(key) {
        return Fingerprints::decode(number, value)?.encode().ok_or(EMPTY);
    }
    if key == VERSION_KEY {
        return Seal::decode(value).map(Seal::encode);
    }
    if key.starts_with(PAGE_PREFIX) {
        return named_page(key, value).map(|(page, version)| page_entry(page, version).1);
    }
    if key.starts_with(SHARD_PREFIX) {
        return known_shard(key, value).map(|(shard, version)| shard_entry(shard, version).1);
    }
    match key.strip_prefix(INTENT_PREFIX) {
        Some(_) => {
            let Intent { member, .. } = InFlight::decode(value)?.intent;
            InFlight::decode_of(member, key, value).map(|one| one.encode())
        }
        None => Err("it is no key of a ledger"),
    }
}
