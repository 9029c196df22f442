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
use gemelo_objects::{KeyRange, ObjectError, Objects, Operation, Request, Update};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The value of a letter: all there is to say is in the key.
const LETTER: [u8; 1] = [1];

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
        let mut key = String::with_capacity(64);
        push_digits(&mut key, fingerprint);
        let (member, depth, version) = (intent.member, intent.shard.depth(), intent.receipt().0);
        let _ = write!(key, ".{member}.{depth:02}.{version:016x}"); // A string cannot fail.
        Self { key }
    }

    /// The letter about a content to which no member refers, after a shard was rebuilt.
    pub(crate) fn of_repair(fingerprint: Fingerprint, shard: Shard, version: u64) -> Self {
        let mut key = String::with_capacity(64);
        push_digits(&mut key, fingerprint);
        // A string cannot fail. No member has the number 0.
        let _ = write!(key, ".{}.{:02}.{version:016x}", MemberId(0), shard.depth());
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
    let update = |letters: Vec<Letter>| Update {
        set: letters.into_iter().map(|letter| (letter.key, LETTER.to_vec())).collect(),
        ..Update::default()
    };
    let updates: Vec<(String, Update)> =
        letters.into_iter().map(|(home, letters)| (mailbox_name(home), update(letters))).collect();
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
    let page = match objects.list_keys(&mailbox_name(member), range) {
        Err(ObjectError::NotFound { .. }) => return Ok((Vec::new(), false)),
        page => page?,
    };
    Ok((page.entries.into_iter().map(|(key, _)| Letter { key }).collect(), page.has_more))
}

/// Removes letters that were dealt with.
pub(crate) fn remove(objects: &dyn Objects, member: MemberId, letters: Vec<Letter>) -> Result<()> {
    let remove = letters.into_iter().map(|letter| letter.key).collect();
    Ok(objects.update(&mailbox_name(member), &Update { remove, ..Update::default() })?)
}
