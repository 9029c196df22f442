//! Doubts: a member tells the home of a content that the home's block may be damaged, and where a
//! good copy lies. The home looks at its block, and heals it.
//!
//! A doubt is advice. The home trusts its own reading only, so a doubt that is lost, late or
//! repeated does no harm.

use crate::entry::MemberId;
use crate::error::Result;
use crate::mail::put_keys;
use crate::shard::{leading_fingerprint, push_digits};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::{KeyRange, Objects, Update};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Returns the name of the object with the doubts about a member's blocks.
#[must_use]
pub fn doubts_name(home: MemberId) -> String {
    format!("doubt.{home}")
}

/// A doubt about the block in which a home keeps a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubt {
    /// The fingerprint of the content.
    pub fingerprint: Fingerprint,
    /// The member that doubts.
    pub from: MemberId,
    /// The block of that member that has the content, if it has a copy of its own. The block may
    /// have got another content since.
    pub copy: Option<Pbn>,
}

impl Doubt {
    fn key(&self) -> String {
        let mut key = String::with_capacity(64);
        push_digits(&mut key, self.fingerprint);
        let copy = self.copy.map_or(0, Pbn::number);
        let _ = write!(key, ".{}.{copy:08x}", self.from); // A string cannot fail.
        key
    }

    fn of_key(key: &str) -> Option<Self> {
        let fingerprint = leading_fingerprint(key)?;
        let (_, rest) = key.split_once('.')?;
        let (from, copy) = rest.split_once('.')?;
        let number = |text: &str| u32::from_str_radix(text, 16).ok();
        let doubt = Self {
            fingerprint,
            from: MemberId(number(from)?),
            copy: Pbn::new(number(copy)?.into()),
        };
        (doubt.key() == key).then_some(doubt)
    }
}

/// Doubts as they were read, with the keys that are to be removed when they are dealt with.
#[derive(Debug, Default)]
pub struct Doubts {
    /// The doubts that can be read.
    pub doubts: Vec<Doubt>,
    keys: Vec<String>,
}

impl Doubts {
    /// Returns whether there is nothing to deal with.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Sends doubts to the homes of the contents. Sending one twice is harmless.
pub(crate) fn send(objects: &dyn Objects, doubts: &BTreeMap<MemberId, Vec<Doubt>>) -> Result<()> {
    let keys = |doubts: &Vec<Doubt>| doubts.iter().map(Doubt::key).collect();
    put_keys(objects, doubts.iter().map(|(home, doubts)| (doubts_name(*home), keys(doubts))))
}

/// Reads the first doubts about a member's blocks.
pub(crate) fn read(objects: &dyn Objects, home: MemberId, limit: usize) -> Result<Doubts> {
    let range = KeyRange { after: "", prefix: "", limit };
    let page = objects.keys_if_there(&doubts_name(home), range)?;
    let keys: Vec<String> = page.entries.into_iter().map(|(key, _)| key).collect();
    let doubts = keys.iter().filter_map(|key| Doubt::of_key(key)).collect();
    Ok(Doubts { doubts, keys })
}

/// Removes doubts that were dealt with, and keys that are no doubts.
pub(crate) fn remove(objects: &dyn Objects, home: MemberId, doubts: &Doubts) -> Result<()> {
    let update = Update { remove: doubts.keys.clone(), ..Update::default() };
    Ok(objects.update(&doubts_name(home), &update)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_doubt_is_read_back(hash: u128, from: u32, copy: u32) {
            let fingerprint = Fingerprint::of_hash(hash);
            let doubt = Doubt { fingerprint, from: MemberId(from), copy: Pbn::new(copy.into()) };
            prop_assert_eq!(Doubt::of_key(&doubt.key()), Some(doubt));
        }

        #[test]
        fn other_keys_are_none(key: String) {
            prop_assert_eq!(Doubt::of_key(&key), None);
        }
    }
}
