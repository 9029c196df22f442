//! The durable ledger of a member: the records of its blocks, and its intents in flight.
//!
//! Records are in page objects, `ledger.<member>.<page>`, a key for each group of neighbouring
//! blocks; intents are keys of the head object, `ledger.<member>`, which also names each page
//! before it is created, so that nobody has to look for pages. Each object has a version that every
//! update raises and is guarded by. The member's holder is the only writer, so an update
//! whose answer was lost can be sent again: if its guard fails and the version is the one that it
//! sets, it was applied. A copy of it that arrives later changes nothing.

use crate::error::{Result, SharingError};
use crate::in_flight::{InFlight, intent_key};
use crate::record::Record;
use gemelo_base::Clock;
use gemelo_domain::codec::{Reader, Reason, Writer, digest};
use gemelo_domain::{DomainError, MemberId, Settled, Shard, Verdict};
use gemelo_format::Pbn;
use gemelo_objects::{Guard, ObjectError, Objects, Operation, Request, Update};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use anew::write_anew;
pub(crate) use load::{LOST_PAGE, Loaded, OLD_HEAD, OLD_PAGE};
pub(crate) use reading::Reading;
pub(crate) use seal::{Seal, VERSION_KEY};

/// Blocks whose records are in one object: the store keeps the keys of an object together. No group
/// is in two pages.
const PAGE_BLOCKS: u32 = 1 << 16;
/// Objects that are read or written together.
const OBJECTS_AT_ONCE: usize = 32;
/// Attempts of a request whose outcome is unknown.
const MAX_ATTEMPTS: u32 = 20;
/// The first pause after an attempt; it doubles, up to the longest one.
const FIRST_PAUSE_NS: u64 = 1_000_000;
const MAX_PAUSE_NS: u64 = 128_000_000;
/// The prefix of the keys that name pages, in the head object.
pub(crate) const PAGE_PREFIX: &str = "p.";
/// The prefix of the keys of shards, in the head object.
pub(crate) const SHARD_PREFIX: &str = "s.";

/// The changes of one object.
#[derive(Debug, Default)]
struct Changes {
    set: Vec<(String, Vec<u8>)>,
    remove: Vec<String>,
    /// What they add to the digests of a page. Those of the head follow from its keys.
    keys_by: u64,
    fingerprints_by: u64,
}

impl Changes {
    /// Sets a key, or removes it if there is no value. Returns what it adds to the digest.
    fn put(&mut self, key: String, value: Option<Vec<u8>>) -> u64 {
        match value {
            Some(value) => {
                let added = digest(&key, &value);
                self.set.push((key, value));
                added
            }
            None => {
                self.remove.push(key);
                0
            }
        }
    }
}

/// An update of an object, and the seal that the object has after it.
#[derive(Debug, Clone)]
struct Sealed {
    name: String,
    update: Update,
    seal: Seal,
}

/// The ledger of a member that this client serves.
pub(crate) struct Ledger {
    objects: Arc<dyn Objects>,
    clock: Arc<dyn Clock>,
    member: MemberId,
    /// The seal of each object that exists.
    seals: BTreeMap<String, Seal>,
    /// What each key of the head adds to its digest.
    head_keys: BTreeMap<String, u64>,
    /// The pages that the head names, with the version that it knows of each. A page of version 0
    /// may not exist, and others do not.
    named: BTreeMap<u32, u64>,
    /// The version that each shard of the index has at least: that of this member's last change.
    shards: BTreeMap<Shard, u64>,
    /// The tenure in which the ledger was taken.
    epoch: u64,
    /// Updates that were sent, and may or may not have been applied. They come first in
    /// the next change.
    doubtful: Vec<Sealed>,
}

/// Removes the objects of a member's ledger, which must have no records.
///
/// # Errors
/// Fails if the store does. Another removal removes the rest.
pub fn remove_ledger(objects: &dyn Objects, member: MemberId) -> Result<()> {
    for name in objects.list(&head_of(member))? {
        objects.remove_if_there(&name)?;
    }
    Ok(())
}

pub(crate) fn head_of(member: MemberId) -> String {
    format!("ledger.{member}")
}

impl Ledger {
    /// Returns the records of blocks, in the order of the list.
    ///
    /// # Errors
    /// Fails if the store fails or a record is damaged.
    pub(crate) fn read(&self, pbns: &[Pbn]) -> Result<Vec<Option<Record>>> {
        let groups = self.groups_of(pbns.iter().copied())?;
        pbns.iter().map(|pbn| self.record_in(&groups, *pbn)).collect()
    }

    /// Sets records, and removes those that are `None`. It is durable when this returns.
    ///
    /// # Errors
    /// Fails if the store does. Then some of the records may have been changed.
    pub(crate) fn write(&mut self, records: &BTreeMap<Pbn, Option<Record>>) -> Result<()> {
        // The groups are read after each change that may still arrive, and each update is guarded
        // by the version of the page, so that no record of a group is lost.
        self.resolve()?;
        let pages: BTreeSet<u32> = records.keys().map(|pbn| page_of_block(*pbn)).collect();
        self.name_pages(&pages)?;
        for page in &pages {
            self.look_at_missing(&self.page(*page))?;
        }
        let mut groups = self.groups_of(records.keys().copied())?;
        for (pbn, record) in records {
            self.record_in(&groups, *pbn)?;
            groups.set(*pbn, *record);
        }
        let changes = groups.changes().into_iter();
        self.send_changes(changes.map(|(page, one)| (self.page(page), one)).collect())
    }

    /// Has the head name these pages, before they are created.
    fn name_pages(&mut self, pages: &BTreeSet<u32>) -> Result<()> {
        let new = pages.iter().filter(|page| !self.named.contains_key(page));
        let new: Vec<(String, Vec<u8>)> = new.map(|page| page_entry(*page, 0)).collect();
        if new.is_empty() { Ok(()) } else { self.change_head(new, Vec::new()) }
    }

    /// Records intents. They are durable when this returns.
    ///
    /// # Errors
    /// Fails if the store does.
    pub(crate) fn add_intents(&mut self, intents: &[InFlight]) -> Result<()> {
        let set = intents.iter().map(|one| (intent_key(&one.intent), one.encode())).collect();
        self.change_head(set, Vec::new())
    }

    /// Removes intents that are settled, and keeps the version that each shard has at least now.
    ///
    /// # Errors
    /// Fails if the store does.
    pub(crate) fn remove_intents(&mut self, settled: &[Settled<'_>]) -> Result<()> {
        let mut shards = BTreeMap::new();
        for Settled { intent, verdict } in settled {
            let known = self.shards.get(&intent.shard).copied().unwrap_or(0);
            let version = match verdict {
                Verdict::Applied => intent.receipt().0,
                Verdict::Void => intent.header.version,
            };
            let newest = shards.entry(intent.shard).or_insert(known);
            *newest = version.max(*newest);
        }
        let set = shards.into_iter().map(|(shard, version)| shard_entry(shard, version)).collect();
        let intents = settled.iter().map(|settled| settled.intent);
        self.change_head(set, intents.map(intent_key).collect())
    }

    /// Notes in the head the tenure in which the member was taken.
    ///
    /// # Errors
    /// Fails if the store does.
    pub(crate) fn mark(&mut self, epoch: u64) -> Result<()> {
        self.epoch = epoch;
        self.change_head(Vec::new(), Vec::new())
    }

    /// Has the head know the versions of all pages, so that a page which is put back is found.
    ///
    /// # Errors
    /// Fails if the store does.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.resolve()?;
        match self.newer_pages().is_empty() {
            true => Ok(()),
            false => self.change_head(Vec::new(), Vec::new()),
        }
    }

    /// Returns the version that each shard of the index has at least.
    pub(crate) const fn shards(&self) -> &BTreeMap<Shard, u64> {
        &self.shards
    }

    /// Returns the tenure in which the ledger was taken last, or [`None`] if there is no ledger.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.seals.contains_key(&self.head()).then_some(self.epoch)
    }

    fn head(&self) -> String {
        head_of(self.member)
    }

    fn page(&self, page: u32) -> String {
        page_name(&self.head(), page)
    }

    /// Finds out about the updates whose outcome is unknown.
    ///
    /// # Errors
    /// Fails if the store does.
    pub(crate) fn resolve(&mut self) -> Result<()> {
        let doubtful = std::mem::take(&mut self.doubtful);
        if doubtful.is_empty() { Ok(()) } else { self.send(doubtful, true) }
    }

    /// Changes the head, and has it know the versions of the pages.
    fn change_head(&mut self, mut set: Vec<(String, Vec<u8>)>, remove: Vec<String>) -> Result<()> {
        self.resolve()?;
        let head = self.head();
        self.look_at_missing(&head)?;
        set.extend(self.newer_pages());
        let changes = Changes { set, remove, ..Changes::default() };
        self.send_changes(BTreeMap::from([(head, changes)]))
    }

    /// Returns the entries of pages that have changed since the head was told.
    fn newer_pages(&self) -> Vec<(String, Vec<u8>)> {
        let version = |page| self.seals.get(&self.page(page)).map_or(0, |seal| seal.version);
        let pages = self.named.iter().map(|(page, known)| (*page, *known, version(*page)));
        let newer = pages.filter(|(_, known, version)| version > known);
        newer.map(|(page, _, version)| page_entry(page, version)).collect()
    }

    /// Changes objects that were looked at, each as a whole.
    fn send_changes(&mut self, changes: BTreeMap<String, Changes>) -> Result<()> {
        let mut updates: Vec<Sealed> =
            changes.into_iter().map(|(name, changes)| self.update(name, changes)).collect();
        while !updates.is_empty() {
            let rest = updates.split_off(updates.len().min(OBJECTS_AT_ONCE));
            self.send(std::mem::replace(&mut updates, rest), false)?;
        }
        Ok(())
    }

    /// Looks at a page that did not exist when the ledger was read. A late call of the fenced
    /// holder may have created it since, with records of intents in flight, which are written again
    /// when those are settled. After this look no call of that holder takes effect on it.
    fn look_at_missing(&mut self, name: &str) -> Result<()> {
        if self.seals.contains_key(name) {
            return Ok(());
        }
        if let Some(value) = self.retry(|objects| objects.value_if_there(name, VERSION_KEY))? {
            let seal = Seal::decode(&value);
            let seal = seal.map_err(|reason| damaged(name, VERSION_KEY, reason))?;
            self.seals.insert(name.into(), seal);
        }
        Ok(())
    }

    fn update(&self, name: String, changes: Changes) -> Sealed {
        let Changes { mut set, remove, keys_by, fingerprints_by } = changes;
        let (head, known) = (self.head(), self.seals.get(&name).copied());
        let before = known.unwrap_or_default();
        let version = before.version + 1;
        let seal = if name == head {
            let mut keys = self.head_keys.clone();
            keys.extend(set.iter().map(|(key, value)| (key.clone(), digest(key, value))));
            for key in &remove {
                keys.remove(key);
            }
            let keys = keys.into_values().fold(0, u64::wrapping_add);
            Seal { version, other: self.epoch, keys, fingerprints: 0 }
        } else {
            Seal {
                version,
                other: self.seals.get(&head).map_or(0, |seal| seal.version),
                keys: before.keys.wrapping_add(keys_by),
                fingerprints: before.fingerprints.wrapping_add(fingerprints_by),
            }
        };
        set.push((VERSION_KEY.into(), seal.encode()));
        let expected = known.map(Seal::encode);
        let guards = vec![Guard { key: VERSION_KEY.into(), expected }];
        let update = Update { creates: known.is_none(), guards, set, remove };
        Sealed { name, update, seal }
    }

    /// Sends updates until each was applied. `was_sent` is true if they were sent before. The
    /// outcome of one update says nothing about the others. An update that was sent before may
    /// arrive later, so it stays in doubt unless it is known to be applied.
    fn send(&mut self, mut open: Vec<Sealed>, mut was_sent: bool) -> Result<()> {
        for attempt in 1..=MAX_ATTEMPTS {
            let mut requests: Vec<Request<'_>> = open.iter().map(update_of).collect();
            self.objects.execute(&mut requests);
            let outcomes: Vec<_> = requests.into_iter().map(|request| request.outcome).collect();
            assert_eq!(outcomes.len(), open.len(), "each update that was sent has an outcome");
            let (mut unknown, mut failed) = (None, None);
            for (one, outcome) in std::mem::take(&mut open).into_iter().zip(outcomes) {
                match self.judge(&one, outcome, was_sent) {
                    Ok(()) => self.note_applied(one),
                    Err(error) if is_unknown(&error) => {
                        unknown = Some(error);
                        open.push(one);
                    }
                    Err(error) => {
                        failed = Some(error);
                        open.extend(was_sent.then_some(one));
                    }
                }
            }
            // All that are left were sent.
            was_sent = true;
            let is_last = failed.is_some() || attempt == MAX_ATTEMPTS;
            match failed.or(unknown) {
                None => return Ok(()),
                Some(error) if is_last => {
                    self.doubtful = open;
                    return Err(error);
                }
                Some(_) => self.pause(attempt),
            }
        }
        Ok(())
    }

    /// Returns whether changes were sent whose outcome is unknown.
    pub(crate) fn is_in_doubt(&self) -> bool {
        !self.doubtful.is_empty()
    }

    /// Returns whether an update was applied. An error with an unknown outcome leaves it open.
    fn judge(
        &self,
        one: &Sealed,
        outcome: std::result::Result<(), ObjectError>,
        was_sent: bool,
    ) -> Result<()> {
        match outcome {
            Err(ObjectError::Guard { .. } | ObjectError::Exists { .. }) if was_sent => {
                self.expect_applied(one)
            }
            outcome => Ok(outcome?),
        }
    }

    fn note_applied(&mut self, Sealed { name, update, seal }: Sealed) {
        if name == self.head() {
            for (key, value) in update.set.iter().filter(|(key, _)| key != VERSION_KEY) {
                self.head_keys.insert(key.clone(), digest(key, value));
                if let Ok((page, version)) = named_page(key, value) {
                    self.named.insert(page, version);
                } else if let Ok((shard, version)) = known_shard(key, value) {
                    self.shards.insert(shard, version);
                }
            }
            for key in &update.remove {
                self.head_keys.remove(key);
            }
        }
        self.seals.insert(name, seal);
    }

    /// Proves that an update was applied whose guard failed when it was sent again.
    fn expect_applied(&self, Sealed { name, seal, .. }: &Sealed) -> Result<()> {
        let keys = [VERSION_KEY.to_owned()];
        let values = self.retry(|objects| objects.get_keys(name, &keys))?;
        let value = values.first().and_then(Option::as_deref).unwrap_or_default();
        match Seal::decode(value) {
            Ok(found) if found == *seal => Ok(()),
            Ok(_) => Err(damaged(name, VERSION_KEY, "another client has changed the ledger")),
            Err(reason) => Err(damaged(name, VERSION_KEY, reason)),
        }
    }

    fn retry<T>(
        &self,
        run: impl Fn(&dyn Objects) -> std::result::Result<T, ObjectError>,
    ) -> Result<T> {
        for attempt in 1..MAX_ATTEMPTS {
            match run(&*self.objects) {
                Err(error) if error.is_unknown() => self.pause(attempt - 1),
                outcome => return Ok(outcome?),
            }
        }
        Ok(run(&*self.objects)?)
    }

    fn pause(&self, attempt: u32) {
        let pause_ns = FIRST_PAUSE_NS.checked_shl(attempt).unwrap_or(MAX_PAUSE_NS);
        self.clock.sleep_until_ns(self.clock.now_ns().saturating_add(pause_ns.min(MAX_PAUSE_NS)));
    }
}

const fn is_unknown(error: &SharingError) -> bool {
    matches!(error, SharingError::Domain(DomainError::Object(error)) if error.is_unknown())
}

/// Returns the name of a page of the ledger with this head.
pub(crate) fn page_name(head: &str, page: u32) -> String {
    format!("{head}.{page:04x}")
}

/// Returns the key of the head that names a page, and its value: the version that the page has at
/// least.
pub(crate) fn page_entry(page: u32, version: u64) -> (String, Vec<u8>) {
    let key = format!("{PAGE_PREFIX}{page:04x}");
    let value = Writer::new(0).u64(version).finish(&key);
    (key, value)
}

/// Returns the key of the head for a shard, and its value: the version that the shard has at least.
pub(crate) fn shard_entry(shard: Shard, version: u64) -> (String, Vec<u8>) {
    let key = format!("{SHARD_PREFIX}{:02}.{:08x}", shard.depth(), shard.bits());
    let value = Writer::new(0).u64(version).finish(&key);
    (key, value)
}

/// Returns the shard that an entry of the head names, and the version that it has at least.
pub(crate) fn known_shard(key: &str, value: &[u8]) -> std::result::Result<(Shard, u64), Reason> {
    let parts = key.strip_prefix(SHARD_PREFIX).and_then(|rest| rest.split_once('.'));
    let shard = parts.and_then(|(depth, bits)| {
        Shard::new(depth.parse().ok()?, u32::from_str_radix(bits, 16).ok()?)
    });
    let shard = shard.ok_or("it is no shard")?;
    let mut reader = Reader::new(key, value)?;
    let version = reader.count()?;
    reader.finish().map(|()| (shard, version))
}

/// Returns the page that an entry of the head names, and the version that it has at least.
pub(crate) fn named_page(key: &str, value: &[u8]) -> std::result::Result<(u32, u64), Reason> {
    let digits = key.strip_prefix(PAGE_PREFIX).filter(|digits| digits.len() == 4);
    let page = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let page = page.ok_or("it is no block")?;
    let mut reader = Reader::new(key, value)?;
    let version = reader.count()?;
    reader.finish().map(|()| (page, version))
}

/// Checks that a group of blocks lies in the object to which it belongs: the head has none.
pub(crate) fn expect_in_page(
    head: &str,
    object: &str,
    first_block: u32,
) -> std::result::Result<(), Reason> {
    let is_right = object == page_name(head, first_block / PAGE_BLOCKS);
    if is_right { Ok(()) } else { Err("its blocks belong to another object") }
}

const fn page_of_block(pbn: Pbn) -> u32 {
    pbn.narrow() / PAGE_BLOCKS
}

fn update_of(one: &Sealed) -> Request<'_> {
    Request::new(&one.name, Operation::Update(&one.update))
}

fn damaged(object: &str, key: &str, reason: Reason) -> SharingError {
    SharingError::Domain(DomainError::Damaged { object: object.into(), key: key.into(), reason })
}

mod anew;
mod groups;
mod load;
mod reading;
mod seal;
#[cfg(test)]
mod tests;
