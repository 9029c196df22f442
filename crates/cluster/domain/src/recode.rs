//! All values of a domain, for fuzzers: each is read and encoded again.

use crate::codec::Reason;
use crate::config::DomainConfig;
use crate::entry::{Entry, Receipt};
use crate::error::DomainError;
use crate::fences::FencedHolder;
use crate::header::ShardHeader;
use crate::members::recode_member;
use crate::shared::recode_shared;
use crate::tenure::Record;

/// Reads the value of any key of the objects `domain`, `members`, `member.*` and `index.*`, and
/// encodes it again. Ledgers are left to their crate.
///
/// # Errors
/// Fails with the reason if the value is damaged.
pub fn recode_value(key: &str, value: &[u8]) -> Result<Vec<u8>, Reason> {
    let of_error = |error: DomainError| match error {
        DomainError::Damaged { reason, .. } => reason,
        _ => "it cannot be read",
    };
    match key.split_once('.').map_or(key, |(kind, _)| kind) {
        "config" => DomainConfig::decode(value).map(|(config, is_ready)| config.encode(is_ready)),
        "fingerprint" | "data-pool" => recode_shared(key, value),
        "header" => ShardHeader::decode(Some(value)).map(ShardHeader::encode),
        "f" => Entry::decode(key, value).map(|entry| entry.encode(key)),
        "r" => Receipt::decode(key, Some(value)).map(|receipt| receipt.encode(key)),
        "name" | "next" => recode_member(key, value).map_err(of_error),
        "holder" => Record::decode(value).map(|record| record.encode()),
        "fenced" => {
            FencedHolder::decode(key, value).map(|one| one.entry().1).ok_or("it is no fence")
        }
        _ => Err("it is no key of a domain"),
    }
}
