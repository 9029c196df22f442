//! All values of a domain, for fuzzers: each is read and encoded again.

use crate::codec::Reason;
use crate::config::DomainConfig;
use crate::entry::{Entry, Receipt};
use crate::error::DomainError;
use crate::fences::FencedHolder;
use crate::header::ShardHeader;
use crate::members::recode_member;
use crate::shared::recode_shared;
use crate::tenure::TenureRecord;

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
        "holder" => TenureRecord::decode(value).map(|record| record.encode()),
        "fenced" => {
            FencedHolder::decode(key, value).map(|one| one.entry().1).ok_or("it is no fence")
        }
        _ => Err("it is no key of a domain"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Writer;

    /// Returns why the value with these fields is refused.
    fn refusal(key: &str, tag: u8, fields: &[&[u8]]) -> Option<Reason> {
        recode_value(key, &Writer::new(tag).bytes(&fields.concat()).finish(key)).err()
    }

    #[test]
    fn numbers_and_texts_that_cannot_be_are_refused() {
        let (least, most) = (&0_u64.to_le_bytes()[..], &(1_u64 << 62).to_le_bytes()[..]);
        assert_eq!(refusal("header", 1, &[least, least]), None);
        let one = &1_u32.to_le_bytes()[..];
        let config = |bytes: u32, tag| {
            refusal("config", tag, &[&bytes.to_le_bytes(), one, &[7; 16], &[0; 24]])
        };
        assert_eq!((config(4096, 1), config(4096, 0)), (None, None));
        let refused = [
            refusal("header", 1, &[most, least]),
            refusal("header", 1, &[least, most]),
            refusal("r.00000001", 0, &[most]),
            refusal("holder", 0, &[most]),
            refusal("next", 0, &[&[0; 4]]),
            refusal("next", 0, &[one, &[0]]),
            refusal("name.one", 0, &[&[0; 4], least]),
            refusal("data-pool", 0, &[]),
            refusal("data-pool", 0, &[b"a\0b"]),
            config(0, 1),
            config(4095, 1),
            config(4096, 2),
        ];
        for (number, reason) in refused.iter().enumerate() {
            assert!(reason.is_some(), "case {number}");
        }
    }
}
