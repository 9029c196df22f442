//! Mailboxes: a member that gives up the last reference to a content tells the home.
//!
//! A letter is sent after the index has the count of 0, and read before the home looks at the
//! entry. If a member refers to the content by then, its release will send another letter, under
//! another key: removing the one that was read cannot remove it.

use crate::entry::MemberId;
use crate::error::Result;
use crate::intent::{Effect, Intent};
use crate::shard::{Shard, leading_fingerprint, push_digits};
use gemelo_format::Fingerprint;
use gemelo_objects::{KeyRange, Objects, Operation, Request, Update};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The value of a key of letters and doubts: a store takes no empty one.
const PRESENT: [u8; 1] = [1];

/// Returns the name of a member's mailbox object.
#[must_use]
pub fn mailbox_name(member: MemberId) -> String {
    format!("mail.{member}")
}

/// A letter in a mailbox.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Letter {
    key: String,
}

impl Letter {
    /// The letter about a content, unlike any other: no two intents have the same shard and
    /// version, and the content and the depth tell the shard.
    #[must_use]
    pub fn new(fingerprint: Fingerprint, intent: &Intent) -> Self {
        Self::of(fingerprint, intent.member, (intent.shard, intent.receipt().0))
    }

    /// The letter about a content to which no member refers, after a shard was rebuilt. No member
    /// has the number 0.
    pub(crate) fn of_repair(fingerprint: Fingerprint, shard: Shard, version: u64) -> Self {
        Self::of(fingerprint, MemberId(0), (shard, version))
    }

    fn of(fingerprint: Fingerprint, from: MemberId, (shard, version): (Shard, u64)) -> Self {
        let mut key = String::with_capacity(64);
        push_digits(&mut key, fingerprint);
        let _ = write!(key, ".{from}.{:02}.{version:016x}", shard.depth()); // It cannot fail.
        Self { key }
    }

    /// Returns the content.
    #[must_use]
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        leading_fingerprint(&self.key)
    }
}

/// Returns the letters that applied intents send, by home.
#[must_use]
pub(crate) fn letters<'a>(
    intents: impl Iterator<Item = &'a Intent>,
) -> BTreeMap<MemberId, Vec<Letter>> {
    let mut letters: BTreeMap<MemberId, Vec<Letter>> = BTreeMap::new();
    for intent in intents {
        for (change, effect) in intent.effects() {
            if let Effect::Released { tell: Some(home) } = effect {
                let letter = Letter::new(change.fingerprint, intent);
                letters.entry(home).or_default().push(letter);
            }
        }
    }
    letters
}

/// Sends letters. Sending one twice is harmless.
pub(crate) fn send(objects: &dyn Objects, letters: BTreeMap<MemberId, Vec<Letter>>) -> Result<()> {
    let keys = |letters: Vec<Letter>| letters.into_iter().map(|letter| letter.key).collect();
    let letters = letters.into_iter().map(|(home, letters)| (mailbox_name(home), keys(letters)));
    put_keys(objects, letters)
}

/// Adds keys to objects in one list. All there is to say is in the keys.
pub(crate) fn put_keys(
    objects: &dyn Objects,
    keys: impl Iterator<Item = (String, Vec<String>)>,
) -> Result<()> {
    let update = |keys: Vec<String>| Update {
        set: keys.into_iter().map(|key| (key, PRESENT.to_vec())).collect(),
        ..Update::default()
    };
    let updates: Vec<(String, Update)> = keys.map(|(name, keys)| (name, update(keys))).collect();
    let mut requests: Vec<_> = updates
        .iter()
        .map(|(name, update)| Request::new(name, Operation::Update(update)))
        .collect();
    objects.execute(&mut requests);
    requests.into_iter().try_for_each(|request| Ok(request.outcome?))
}

/// Reads the first letters, at most as many as a page has.
pub(crate) fn read(objects: &dyn Objects, member: MemberId, limit: usize) -> Result<Vec<Letter>> {
    Ok(read_page(objects, member, "", limit)?.0)
}

/// Reads all letters, page by page.
pub(crate) fn read_all(
    objects: &dyn Objects,
    member: MemberId,
    page: usize,
) -> Result<Vec<Letter>> {
    let mut letters: Vec<Letter> = Vec::new();
    loop {
        let after = letters.last().map_or("", |letter| letter.key.as_str());
        let (more, has_more) = read_page(objects, member, after, page)?;
        letters.extend(more);
        if !has_more {
            return Ok(letters);
        }
    }
}

fn read_page(
    objects: &dyn Objects,
    member: MemberId,
    after: &str,
    limit: usize,
) -> Result<(Vec<Letter>, bool)> {
    let range = KeyRange { after, prefix: "", limit };
    let page = objects.keys_if_there(&mailbox_name(member), range)?;
    Ok((page.entries.into_iter().map(|(key, _)| Letter { key }).collect(), page.has_more))
}

/// Removes letters that were dealt with.
pub(crate) fn remove(objects: &dyn Objects, member: MemberId, letters: Vec<Letter>) -> Result<()> {
    let remove = letters.into_iter().map(|letter| letter.key).collect();
    Ok(objects.update(&mailbox_name(member), &Update { remove, ..Update::default() })?)
}
