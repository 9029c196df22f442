//! Finding contents in the index without changing it, as a member does that looks for a copy of
//! what it has lost.

use crate::config::DomainConfig;
use crate::entry::Entry;
use crate::error::Result;
use crate::header::{HEADER_KEY, ShardHeader, ShardState};
use crate::shard::{MAX_DEPTH, Shard, fingerprint_key};
use gemelo_format::Fingerprint;
use gemelo_objects::{ObjectError, Objects};

/// Returns where a content lies by the index; [`None`] if the index does not have it, or if its
/// entry is damaged. Nothing keeps it there, so what is read there has to be proved.
///
/// # Errors
/// Fails if the store does not answer.
pub fn find_content(
    objects: &dyn Objects,
    config: &DomainConfig,
    fingerprint: Fingerprint,
) -> Result<Option<Entry>> {
    let keys = [HEADER_KEY.to_owned(), fingerprint_key(fingerprint)];
    for depth in config.depth..=MAX_DEPTH {
        let values = match objects.get_keys(&Shard::of(fingerprint, depth).object(), &keys) {
            Err(ObjectError::NotFound { .. }) => return Ok(None),
            values => values?,
        };
        let [header, entry] = values.as_slice() else { return Ok(None) };
        match ShardHeader::decode(header.as_deref()).map(|header| header.state) {
            Ok(ShardState::Split) => {}
            Ok(ShardState::Open | ShardState::Sealed) => {
                let [_, key] = &keys;
                let decode = |value: &[u8]| Entry::decode(key, value).ok();
                return Ok(entry.as_deref().and_then(decode));
            }
            Ok(ShardState::Filling) | Err(_) => return Ok(None),
        }
    }
    Ok(None)
}
