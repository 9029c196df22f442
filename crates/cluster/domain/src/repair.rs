//! The repair of a domain: shards are rebuilt from the ledgers of the members.
//!
//! All members must be taken by this process, and their ledgers must be readable: a member that was
//! left out would lose its references. An entry counts the members whose ledgers refer to the
//! content, and its home is a member whose ledger keeps the content. A count that can be read is
//! not lowered, unless ledgers were written again from the index itself. The version of a rebuilt
//! shard is above all earlier ones, so that no change that was sent before takes effect on it.

use crate::check::{Claim, Claims, Key, ReadShard, ShardInUse, least_version, shards_in_use};
use crate::config::DomainConfig;
use crate::entry::{Entry, MemberId, Receipt};
use crate::error::Result;
use crate::header::{HEADER_KEY, ShardHeader, ShardState};
use crate::intent::{Effect, Intent};
use crate::mail::{self, Letter};
use crate::shard::{ENTRY_PREFIX, fingerprint_key};
use crate::split;
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::{KeyRange, MAX_PAGE_KEYS, Objects, Update};
use std::collections::BTreeMap;

/// The outcome of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repaired {
    /// Shards that were written anew.
    pub shards: u64,
    /// Contents in them.
    pub contents: u64,
    /// Members whose ledgers were written again before.
    pub ledgers: u64,
}

/// The counts of a rebuilt shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// A count that can be read is never lowered: a content that is freed too early is worse than
    /// one that is never freed.
    AtLeast,
    /// The members that the ledgers know of. They were written again just now, and the index counts
    /// references that they gave up by that.
    Exact,
}

/// Rebuilds the shards that differ from the ledgers of the members. `version` is above that of all
/// shards that are lost: the present time does.
///
/// # Errors
/// Fails if the store does. Another repair goes on.
pub fn repair(
    objects: &dyn Objects,
    config: &DomainConfig,
    members: &mut [&mut dyn Claims],
    version: u64,
    counts: Counts,
) -> Result<Repaired> {
    for shard in shards_in_use(objects, config)? {
        if matches!(&shard.header, Some(Ok(header)) if header.state == ShardState::Sealed) {
            split::split(objects, shard.shard)?;
        }
    }
    let mut repaired = Repaired::default();
    for shard in shards_in_use(objects, config)? {
        let mut rebuilt = Rebuilt::plan(objects, &shard, members, version, counts)?;
        if rebuilt.differs {
            rebuilt.write(objects)?;
            repaired.shards += 1;
            repaired.contents += rebuilt.entries.len() as u64;
        }
        rebuilt.tell_homes(objects)?;
    }
    Ok(repaired)
}

/// The statement of a member about a content, after its intents were settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Said {
    member: MemberId,
    place: (MemberId, Pbn),
    is_counted: bool,
}

/// A shard as it follows from the ledgers.
struct Rebuilt<'a> {
    shard: &'a ShardInUse,
    version: u64,
    entries: BTreeMap<Key, Entry>,
    /// The receipts of applied intents.
    receipts: BTreeMap<MemberId, Receipt>,
    /// Members whose intents are void, and may have no receipt.
    void: Vec<MemberId>,
    /// `true` if the shard in the store is another one.
    differs: bool,
}

impl<'a> Rebuilt<'a> {
    fn plan(
        objects: &dyn Objects,
        shard: &'a ShardInUse,
        members: &mut [&mut dyn Claims],
        version: u64,
        counts: Counts,
    ) -> Result<Self> {
        let name = shard.shard.object();
        let header = shard.header.as_ref().and_then(|header| header.as_ref().ok());
        let read = ReadShard::read(objects, &name)?;
        let mut said: BTreeMap<Key, Vec<Said>> = BTreeMap::new();
        for member in members.iter_mut() {
            let number = member.member();
            for claim in member.claims(shard.shard)? {
                said.entry(claim.fingerprint.to_bytes())
                    .or_default()
                    .push(Said::of(number, &claim));
            }
        }
        let mut rebuilt = Self {
            shard,
            version: version.max(header.map_or(0, |header| header.version)),
            entries: BTreeMap::new(),
            receipts: BTreeMap::new(),
            void: Vec::new(),
            differs: header.is_none() || !read.damage.is_empty(),
        };
        let least = least_version(shard.shard, members);
        rebuilt.differs |= rebuilt.version < least || header.is_some_and(|one| one.version < least);
        rebuilt.version = rebuilt.version.max(least);
        let intents: Vec<Intent> = members
            .iter()
            .flat_map(|member| member.intents())
            .filter(|intent| intent.shard == shard.shard)
            .cloned()
            .collect();
        for intent in &intents {
            assert_eq!(intent.shard, shard.shard, "an intent is about one shard");
            rebuilt.version = rebuilt.version.max(intent.receipt().0);
            let receipt = match header {
                Some(_) => receipt_of(objects, &name, intent.member)?,
                None => None,
            };
            let is_applied = match receipt {
                Some(receipt) => receipt == intent.receipt(),
                None => is_relied_on(intent, &said),
            };
            if is_applied {
                rebuilt.receipts.insert(intent.member, intent.receipt());
                settle(intent, &mut said);
            } else {
                rebuilt.void.push(intent.member);
            }
            rebuilt.differs |= receipt.is_none();
        }
        let suspect = |key: &Key, entry: Entry| {
            let found = read
                .entries
                .get(key)
                .filter(|found| (found.home, found.pbn) == (entry.home, entry.pbn));
            Entry { is_suspect: found.is_some_and(|found| found.is_suspect), ..entry }
        };
        let entries = said.iter().filter_map(|(key, said)| Some((*key, entry_of(said)?)));
        rebuilt.entries = entries.map(|(key, entry)| (key, suspect(&key, entry))).collect();
        if counts == Counts::AtLeast {
            rebuilt.keep_counts(&read);
        }
        let is_counted = header.is_some_and(|header| header.entries == read.count);
        rebuilt.differs |= rebuilt.entries != read.entries || !is_counted;
        Ok(rebuilt)
    }

    /// Keeps what the index counts beyond the ledgers.
    fn keep_counts(&mut self, read: &ReadShard) {
        for (key, found) in read.entries.iter().filter(|(_, found)| found.members > 0) {
            let entry = self.entries.entry(*key).or_insert(*found);
            entry.members = entry.members.max(found.members);
        }
    }

    /// Writes the shard. Until it is complete, its state keeps members from using it.
    fn write(&mut self, objects: &dyn Objects) -> Result<()> {
        let name = self.shard.shard.object();
        let header = |state, version, entries| {
            let header = ShardHeader { state, version, entries };
            vec![(HEADER_KEY.to_owned(), header.encode())]
        };
        self.version += 1;
        let set = header(ShardState::Filling, self.version, 0);
        objects.update(&name, &Update { set, ..Update::default() })?;
        remove_entries(objects, &name)?;
        let entries: Vec<(String, Vec<u8>)> = self
            .entries
            .iter()
            .map(|(key, entry)| {
                let key = fingerprint_key(Fingerprint::from_bytes(*key));
                let value = entry.encode(&key);
                (key, value)
            })
            .collect();
        for some in entries.chunks(MAX_PAGE_KEYS) {
            let update = Update { set: some.to_vec(), ..Update::default() };
            objects.update(&name, &update)?;
        }
        self.version += 1;
        let mut set = header(ShardState::Open, self.version, entries.len() as u64);
        for (member, receipt) in &self.receipts {
            assert!(receipt.0 < self.version, "a rebuilt shard is newer than all intents");
            let key = Receipt::key(*member);
            let value = receipt.encode(&key);
            set.push((key, value));
        }
        let remove = self.void.iter().map(|member| Receipt::key(*member)).collect();
        Ok(objects.update(&name, &Update { set, remove, ..Update::default() })?)
    }

    /// Tells the homes of contents to which no member refers, so that they free them.
    fn tell_homes(&self, objects: &dyn Objects) -> Result<()> {
        let mut letters: BTreeMap<MemberId, Vec<Letter>> = BTreeMap::new();
        for (key, entry) in self.entries.iter().filter(|(_, entry)| entry.members == 0) {
            let fingerprint = Fingerprint::from_bytes(*key);
            let letter = Letter::of_repair(fingerprint, self.shard.shard, self.version);
            letters.entry(entry.home).or_default().push(letter);
        }
        mail::send(objects, letters)
    }
}

impl Said {
    const fn of(member: MemberId, claim: &Claim) -> Self {
        Self { member, place: (claim.home, claim.pbn), is_counted: claim.is_counted }
    }

    fn is_kept(&self) -> bool {
        self.place.0 == self.member
    }
}

/// Returns the entry of a content. Without a home that keeps it there is none.
fn entry_of(said: &[Said]) -> Option<Entry> {
    let referring = |place| said.iter().filter(|one| one.place == place && one.is_counted).count();
    let kept = said.iter().filter(|one| one.is_kept()).map(|one| one.place);
    let (home, pbn) = kept.max_by_key(|place| referring(*place))?;
    let members = said.iter().filter(|one| one.is_counted).count();
    let members = u32::try_from(members).unwrap_or(u32::MAX);
    Some(Entry { home, pbn, members, is_suspect: false })
}

/// Returns whether another member borrows a content that the intent publishes. It was applied then.
/// Without a receipt, any other intent counts as void: its member plans it again.
fn is_relied_on(intent: &Intent, said: &BTreeMap<Key, Vec<Said>>) -> bool {
    intent.effects().any(|(change, effect)| {
        let Effect::Published(pbn) = effect else { return false };
        let said = said.get(&change.fingerprint.to_bytes());
        said.into_iter()
            .flatten()
            .any(|one| one.member != intent.member && one.place == (intent.member, pbn))
    })
}

/// Adds the effects of an applied intent.
fn settle(intent: &Intent, said: &mut BTreeMap<Key, Vec<Said>>) {
    let member = intent.member;
    for (change, effect) in intent.effects() {
        let all = said.entry(change.fingerprint.to_bytes()).or_default();
        let place = match effect {
            Effect::Published(pbn) => Some((member, pbn)),
            Effect::Shared(home, pbn) => Some((home, pbn)),
            _ => None,
        };
        match (effect, place) {
            (_, Some(place)) => {
                all.retain(|one| one.member != member);
                all.push(Said { member, place, is_counted: true });
            }
            (Effect::Released { .. }, None) => {
                all.retain(|one| one.member != member || one.is_kept());
                let own = all.iter_mut().filter(|one| one.member == member);
                own.for_each(|one| one.is_counted = false);
            }
            (Effect::Withdrawn(_), None) => all.retain(|one| one.member != member),
            _ => {}
        }
    }
}

/// Reads a member's receipt; [`None`] if it is damaged.
fn receipt_of(objects: &dyn Objects, name: &str, member: MemberId) -> Result<Option<Receipt>> {
    let key = Receipt::key(member);
    let values = objects.get_keys(name, std::slice::from_ref(&key))?;
    Ok(Receipt::decode(&key, values.first().and_then(Option::as_deref)).ok())
}

/// Removes all keys of entries, also of damaged ones.
fn remove_entries(objects: &dyn Objects, name: &str) -> Result<()> {
    loop {
        let range = KeyRange { after: "", prefix: ENTRY_PREFIX, limit: MAX_PAGE_KEYS };
        let page = objects.keys_if_there(name, range)?;
        if page.entries.is_empty() {
            return Ok(());
        }
        let remove = page.entries.into_iter().map(|(key, _)| key).collect();
        objects.update(name, &Update { remove, ..Update::default() })?;
    }
}
