//! The check of a domain: the members' own records against the counts of the index.
//!
//! It holds one shard in memory at a time, and goes on after each contradiction. Members may change
//! the index meanwhile: what a look finds may be a change under way, so only what several looks
//! find is a contradiction. A content that an unsettled intent is about is not checked: its records
//! and its count are not both changed yet.

use crate::config::DomainConfig;
use crate::damage::Damage;
use crate::entry::{Entry, MemberId};
use crate::error::{DomainError, Result};
use crate::finding::{Finding, Findings};
use crate::header::{HEADER_KEY, ShardHeader, ShardState};
use crate::intent::Intent;
use crate::mail;
use crate::shard::{SHARD_PREFIX, Shard, fingerprint_key, fingerprint_of_key};
use crate::split::each_page;
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::{MAX_PAGE_KEYS, ObjectError, Objects};
use std::collections::{BTreeMap, BTreeSet};

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

    /// Returns the unsettled intents of the member.
    fn intents(&self) -> &[Intent];

    /// Returns the versions that shards have at least: those of the member's last changes.
    fn versions(&self) -> &[(Shard, u64)] {
        &[]
    }
}

/// The bytes of a fingerprint, by which contents are sorted.
pub(crate) type Key = [u8; 16];

/// Compares the records of all members with the index once.
///
/// # Errors
/// Fails if the store fails.
pub fn check(
    objects: &dyn Objects,
    config: &DomainConfig,
    members: &mut [&mut dyn Claims],
) -> Result<Findings> {
    let mut findings = Findings::default();
    let letters = all_letters(objects, members)?;
    let mut known = BTreeSet::new();
    for shard in shards_in_use(objects, config)? {
        known.insert(shard.shard.object());
        check_shard(objects, &shard, members, &letters, &mut findings)?;
        known.extend(shard.others);
    }
    for name in objects.list(SHARD_PREFIX)?.into_iter().filter(|name| !known.contains(name)) {
        let (key, reason) = (HEADER_KEY.to_owned(), "it belongs to no shard of this domain");
        findings.add(Finding::Damaged { object: name, key, reason });
    }
    Ok(findings)
}

/// A shard that holds entries, or should.
pub(crate) struct ShardInUse {
    pub(crate) shard: Shard,
    /// [`None`] if the shard is missing.
    pub(crate) header: Option<std::result::Result<ShardHeader, Damage>>,
    /// Names of shards that were split into this one, or that it is being split into.
    others: Vec<String>,
}

/// Follows the splits from the shards that the settings name.
pub(crate) fn shards_in_use(
    objects: &dyn Objects,
    config: &DomainConfig,
) -> Result<Vec<ShardInUse>> {
    let mut found = Vec::new();
    let mut open: Vec<(Shard, Vec<String>)> =
        Shard::all(config.depth).map(|shard| (shard, Vec::new())).collect();
    open.reverse();
    while let Some((shard, mut others)) = open.pop() {
        let name = shard.object();
        let header = match objects.get_keys(&name, &[HEADER_KEY.into()]) {
            Err(ObjectError::NotFound { .. }) => None,
            values => Some(decode_header(&name, &values?)),
        };
        let state = header.as_ref().and_then(|header| header.as_ref().ok()).map(|one| one.state);
        match (state, shard.halves()) {
            (Some(ShardState::Split), Some(halves)) => {
                others.push(name);
                let [first, second] = halves;
                open.push((second, Vec::new()));
                open.push((first, others));
            }
            (state, halves) => {
                // The halves of a sealed shard are being filled.
                if state == Some(ShardState::Sealed) {
                    others.extend(halves.into_iter().flatten().map(Shard::object));
                }
                found.push(ShardInUse { shard, header, others });
            }
        }
    }
    Ok(found)
}

fn decode_header(
    object: &str,
    values: &[Option<Vec<u8>>],
) -> std::result::Result<ShardHeader, Damage> {
    let header = ShardHeader::decode(values.first().and_then(Option::as_deref));
    let damage = |reason| Damage { object: object.to_owned(), key: HEADER_KEY.into(), reason };
    match header.map_err(damage)? {
        header if header.state == ShardState::Filling => {
            Err(damage("its rebuilding was interrupted, or what it is a half of is split"))
        }
        header => Ok(header),
    }
}

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

/// The entries of a shard.
#[derive(Default)]
pub(crate) struct ReadShard {
    pub(crate) entries: BTreeMap<Key, Entry>,
    /// Contents whose entries are damaged.
    pub(crate) damaged: BTreeSet<Key>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) count: u64,
}

impl ReadShard {
    pub(crate) fn read(objects: &dyn Objects, name: &str) -> Result<Self> {
        let mut read = Self::default();
        let listed = each_page(objects, name, |page| {
            page.iter().for_each(|(key, value)| read.take(name, key, value));
            Ok(())
        });
        match listed {
            Err(DomainError::Object(ObjectError::NotFound { .. })) => {}
            listed => listed?,
        }
        Ok(read)
    }

    fn take(&mut self, name: &str, key: &str, value: &[u8]) {
        self.count += 1;
        let content = fingerprint_of_key(key).map(Fingerprint::to_bytes);
        let entry = match content {
            None => Err("it is no fingerprint"),
            Some(_) => Entry::decode(key, value),
        };
        match (content, entry) {
            (Some(content), Ok(entry)) => {
                self.entries.insert(content, entry);
            }
            (content, Err(reason)) => {
                self.damaged.extend(content);
                self.damage.push(Damage { object: name.to_owned(), key: key.to_owned(), reason });
            }
            (None, Ok(_)) => {}
        }
    }
}

fn check_shard(
    objects: &dyn Objects,
    shard: &ShardInUse,
    members: &mut [&mut dyn Claims],
    letters: &BTreeSet<(MemberId, Key)>,
    findings: &mut Findings,
) -> Result<()> {
    let name = shard.shard.object();
    let Some(header) = &shard.header else {
        let mut contents = 0;
        for member in members {
            contents += member.claims(shard.shard)?.len() as u64;
        }
        findings.add(Finding::NoShard { shard: name, contents });
        return Ok(());
    };
    let read = ReadShard::read(objects, &name)?;
    match header {
        Ok(header) if header.entries != read.count => {
            let (found, expected) = (read.count, header.entries);
            findings.add(Finding::Entries { shard: name, found, expected });
        }
        Ok(header) if header.version < least_version(shard.shard, members) => {
            findings.add(older(shard.shard).into());
        }
        Ok(_) => {}
        Err(damage) => findings.add(damage.clone().into()),
    }
    read.damage.iter().for_each(|damage| findings.add(damage.clone().into()));
    // A damaged value is named once.
    let mut left_out = read.damaged;
    for intent in members.iter().flat_map(|member| member.intents()) {
        left_out.extend(intent.steps.iter().map(|step| step.change.fingerprint.to_bytes()));
    }
    let mut compared = Compared { entries: read.entries, left_out, ..Compared::default() };
    for member in members {
        let claims = member.claims(shard.shard)?;
        compared.take_claims(member.member(), &claims, findings);
    }
    compared.finish(letters, findings);
    Ok(())
}

/// Returns the version that a shard has at least, by the last changes of the members.
pub(crate) fn least_version(shard: Shard, members: &[&mut dyn Claims]) -> u64 {
    let versions = members.iter().flat_map(|member| member.versions());
    versions.filter(|(one, _)| *one == shard).map(|(_, version)| *version).max().unwrap_or(0)
}

/// Returns the damage of a shard that was put back as it was.
pub(crate) fn older(shard: Shard) -> Damage {
    let reason = "the shard is older than the last change that a member made";
    Damage { object: shard.object(), key: HEADER_KEY.into(), reason }
}

/// The entries of a shard, compared with claims.
#[derive(Default)]
struct Compared {
    entries: BTreeMap<Key, Entry>,
    left_out: BTreeSet<Key>,
    counts: BTreeMap<Key, u32>,
    kept: BTreeSet<Key>,
}

impl Compared {
    fn take_claims(&mut self, member: MemberId, claims: &[Claim], findings: &mut Findings) {
        for claim in claims {
            let key = claim.fingerprint.to_bytes();
            if self.left_out.contains(&key) {
                continue;
            }
            let content = digits(key);
            match self.entries.get(&key) {
                None if claim.is_counted => findings.add(Finding::Missing { content, member }),
                None => findings.add(Finding::Leaked { content, member }),
                Some(entry) if (entry.home, entry.pbn) != (claim.home, claim.pbn) => {
                    findings.add(Finding::Elsewhere { content, member });
                }
                Some(entry) => {
                    *self.counts.entry(key).or_default() += u32::from(claim.is_counted);
                    if entry.home == member {
                        self.kept.insert(key);
                    }
                }
            }
        }
    }

    fn finish(self, letters: &BTreeSet<(MemberId, Key)>, findings: &mut Findings) {
        let Self { entries, left_out, counts, kept } = self;
        for (key, entry) in entries.into_iter().filter(|(key, _)| !left_out.contains(key)) {
            let (content, home) = (digits(key), entry.home);
            let found = counts.get(&key).copied().unwrap_or(0);
            if found != entry.members {
                let (content, counted) = (content.clone(), entry.members);
                findings.add(Finding::Count { content, counted, found });
            }
            if !kept.contains(&key) {
                findings.add(Finding::NotKept { content: content.clone(), home });
            }
            if entry.members == 0 && !letters.contains(&(home, key)) {
                findings.add(Finding::NotTold { content, home });
            }
        }
    }
}

fn digits(key: Key) -> String {
    fingerprint_key(Fingerprint::from_bytes(key))
}

/// Calls with each entry of the index that can be read, one shard after another.
///
/// # Errors
/// Fails if the store does.
pub fn each_entry(
    objects: &dyn Objects,
    config: &DomainConfig,
    mut each: impl FnMut(Fingerprint, Entry),
) -> Result<()> {
    for ShardInUse { shard, .. } in shards_in_use(objects, config)? {
        let entries = ReadShard::read(objects, &shard.object())?.entries;
        entries.into_iter().for_each(|(key, entry)| each(Fingerprint::from_bytes(key), entry));
    }
    Ok(())
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
