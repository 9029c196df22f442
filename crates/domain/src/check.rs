//! The check of a domain: the members' own records against the counts of the index.
//!
//! It holds one shard in memory at a time. Nobody may submit changes meanwhile. A content that an
//! unsettled intent of a dead member is about is not checked: its records and its count are not
//! both changed yet.

use crate::config::damaged;
use crate::entry::{Entry, MemberId};
use crate::header::{HEADER_KEY, ShardHeader, ShardState};
use crate::mail;
use crate::shard::{SHARD_PREFIX, Shard, fingerprint_key, fingerprint_of_key};
use crate::split::each_page;
use crate::{DomainError, Result};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::{MAX_PAGE_KEYS, Objects};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// The records of a member about a content of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The fingerprint of the content.
    pub fingerprint: Fingerprint,
    /// The place of the content, as the member knows it.
    pub home: MemberId,
    /// The PBN of the content in its home.
    pub pbn: Pbn,
    /// `true` if the member refers to the content, so that the index counts it. A home that does
    /// not refer to a content may still lend it.
    pub is_counted: bool,
}

/// The records of one member.
pub trait Claims {
    /// Returns the number of the member whose records these are.
    fn member(&self) -> MemberId;

    /// Returns what the member refers to, and what it keeps as a home, among the contents of a
    /// shard.
    ///
    /// # Errors
    /// Fails if the member's records cannot be read.
    fn claims(&mut self, shard: Shard) -> Result<Vec<Claim>>;

    /// Returns the contents of a shard that unsettled intents of the member are about.
    fn unsettled(&self, shard: Shard) -> Vec<Fingerprint>;
}

/// A contradiction. Each names the content by its key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Finding {
    /// The count differs from the members that refer to the content.
    #[error("content {content}: the index counts {counted} members, and {found} refer to it")]
    Count {
        /// The key of the content in the index.
        content: String,
        /// Members according to the index.
        counted: u32,
        /// Members whose records refer to it.
        found: u32,
    },
    /// A member refers to a content that the index does not have.
    #[error("content {content}: member {member} refers to it, and the index does not have it")]
    Missing {
        /// The key that the content would have.
        content: String,
        /// The member that refers to it.
        member: MemberId,
    },
    /// A home keeps a block for the index that the index does not know: it is never freed.
    #[error("content {content}: member {member} keeps it for a domain that does not have it")]
    Leaked {
        /// The key that the content would have.
        content: String,
        /// The member that keeps it.
        member: MemberId,
    },
    /// A member and the index differ in where the content lies.
    #[error("content {content}: member {member} expects it elsewhere than the index has it")]
    Elsewhere {
        /// The key of the content in the index.
        content: String,
        /// The member that expects it elsewhere.
        member: MemberId,
    },
    /// The home does not keep a content that the index says is there.
    #[error("content {content}: its home, member {home}, does not keep it")]
    NotKept {
        /// The key of the content in the index.
        content: String,
        /// The home according to the index.
        home: MemberId,
    },
    /// No member refers to a content and its home was not told: it is never freed.
    #[error("content {content}: no member refers to it, and its home, member {home}, was not told")]
    NotTold {
        /// The key of the content in the index.
        content: String,
        /// The home according to the index.
        home: MemberId,
    },
    /// The header of a shard has a wrong number of entries.
    #[error("shard '{shard}' has {found} entries, and its header says {expected}")]
    Entries {
        /// The name of the shard's object.
        shard: String,
        /// Entries that the shard has.
        found: u64,
        /// Entries according to the header.
        expected: u64,
    },
}

/// Compares the records of all members with the index. Returns what contradicts.
///
/// # Errors
/// Fails if the store fails or a value is damaged.
pub fn check(objects: &dyn Objects, members: &mut [&mut dyn Claims]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let letters = all_letters(objects, members)?;
    for name in objects.list(SHARD_PREFIX)? {
        let shard = Shard::of_object(&name);
        let shard = shard.ok_or_else(|| damaged(&name, HEADER_KEY, "it is no shard's name"))?;
        let header = objects.get_keys(&name, &[HEADER_KEY.into()])?;
        let header = ShardHeader::decode(header.first().and_then(Option::as_deref));
        let header = header.map_err(|reason| damaged(&name, HEADER_KEY, reason))?;
        // A split that was begun and not finished: the sealed shard has all entries.
        if matches!(header.state, ShardState::Open | ShardState::Sealed) {
            let entries = read_entries(objects, &name)?;
            let (found, expected) = (entries.len() as u64, header.entries);
            if found != expected {
                findings.push(Finding::Entries { shard: name, found, expected });
            }
            check_shard(shard, entries, members, &letters, &mut findings)?;
        }
    }
    Ok(findings)
}

type Key = [u8; 16];

fn all_letters(
    objects: &dyn Objects,
    members: &[&mut dyn Claims],
) -> Result<BTreeSet<(MemberId, Key)>> {
    let mut letters = BTreeSet::new();
    for member in members.iter().map(|member| member.member()) {
        for letter in mail::read_all(objects, member, MAX_PAGE_KEYS)? {
            letters.extend(letter.fingerprint().map(|content| (member, content.to_bytes())));
        }
    }
    Ok(letters)
}

fn read_entries(objects: &dyn Objects, name: &str) -> Result<BTreeMap<Key, Entry>> {
    let mut entries = BTreeMap::new();
    each_page(objects, name, |page| {
        for (key, value) in page {
            let damaged = |reason| -> DomainError { damaged(name, key, reason) };
            let content = fingerprint_of_key(key).ok_or("it is no fingerprint").map_err(damaged)?;
            entries.insert(content.to_bytes(), Entry::decode(key, value).map_err(damaged)?);
        }
        Ok(())
    })?;
    Ok(entries)
}

fn check_shard(
    shard: Shard,
    entries: BTreeMap<Key, Entry>,
    members: &mut [&mut dyn Claims],
    letters: &BTreeSet<(MemberId, Key)>,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let mut counts: BTreeMap<Key, u32> = BTreeMap::new();
    let mut kept: BTreeSet<Key> = BTreeSet::new();
    let unsettled = members.iter().flat_map(|claims| claims.unsettled(shard));
    let unsettled: BTreeSet<Key> = unsettled.map(Fingerprint::to_bytes).collect();
    for claims in members {
        let member = claims.member();
        for claim in claims.claims(shard)? {
            let key = claim.fingerprint.to_bytes();
            if unsettled.contains(&key) {
                continue;
            }
            let content = digits(key);
            match entries.get(&key) {
                None if claim.is_counted => findings.push(Finding::Missing { content, member }),
                None => findings.push(Finding::Leaked { content, member }),
                Some(entry) if (entry.home, entry.pbn) != (claim.home, claim.pbn) => {
                    findings.push(Finding::Elsewhere { content, member });
                }
                Some(entry) => {
                    *counts.entry(key).or_default() += u32::from(claim.is_counted);
                    if entry.home == member {
                        kept.insert(key);
                    }
                }
            }
        }
    }
    for (key, entry) in entries.into_iter().filter(|(key, _)| !unsettled.contains(key)) {
        let (content, home) = (digits(key), entry.home);
        let found = counts.get(&key).copied().unwrap_or(0);
        if found != entry.members {
            let (content, counted) = (content.clone(), entry.members);
            findings.push(Finding::Count { content, counted, found });
        }
        if !kept.contains(&key) {
            findings.push(Finding::NotKept { content: content.clone(), home });
        }
        if entry.members == 0 && !letters.contains(&(home, key)) {
            findings.push(Finding::NotTold { content, home });
        }
    }
    Ok(())
}

fn digits(key: Key) -> String {
    fingerprint_key(Fingerprint::from_bytes(key))
}

/// Counts the contents for which the index names a member as their home.
///
/// # Errors
/// Fails if the store does.
pub fn count_entries_of(objects: &dyn Objects, home: MemberId) -> Result<u64> {
    let mut count = 0;
    for name in objects.list(SHARD_PREFIX)? {
        each_page(objects, &name, |page| {
            let entries = page.iter().filter_map(|(key, value)| Entry::decode(key, value).ok());
            count += entries.filter(|entry| entry.home == home).count() as u64;
            Ok(())
        })?;
    }
    Ok(count)
}
