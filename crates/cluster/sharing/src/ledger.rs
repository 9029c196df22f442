//! The durable ledger of a member: the records of its blocks, and its intents in flight.
//!
//! Records are in page objects, `ledger.<member>.<page>`, a key for each group of neighbouring
//! blocks; intents are keys of the head object, `ledger.<member>`, which also names each page
//! before it is created, so that nobody has to look for pages. Each object has a version that every
//! update raises and is guarded by. The member's holder is the only writer, so an update
//! whose answer was lost can be sent again: if its guard fails and the version is the one that it
//! sets, it was applied. A copy of it that arrives later changes nothing.

use crate::error::{Result, SharingError};
use crate::group::{AFTER_FINGERPRINTS, Kinds};
use crate::in_flight::{INTENT_PREFIX, InFlight, intent_key};
use crate::record::{BlockState, Record};
use gemelo_base::Clock;
use gemelo_domain::codec::{Reader, Reason, Writer};
use gemelo_domain::{DomainError, Intent, MemberId};
use gemelo_format::Pbn;
use gemelo_objects::{
    Guard, KeyPage, KeyRange, MAX_PAGE_KEYS, ObjectError, Objects, Operation, Request, Update,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
const VERSION_KEY: &str = "version";
/// The prefix of the keys that name pages, in the head object.
const PAGE_PREFIX: &str = "p.";
/// The form of the records, in the version of each object. Form 0 had a key for each block, and the
/// head of form 1 named no pages.
const FORM: u8 = 2;

/// The changes of one object.
#[derive(Debug, Default)]
struct Changes {
    set: Vec<(String, Vec<u8>)>,
    remove: Vec<String>,
}

/// The ledger of a member that this client serves.
pub(crate) struct Ledger {
    objects: Arc<dyn Objects>,
    clock: Arc<dyn Clock>,
    member: MemberId,
    /// The version of each object that exists.
    versions: BTreeMap<String, u64>,
    /// The pages that the head names. Others do not exist.
    named: BTreeSet<u32>,
    /// Updates that were sent, and may or may not have been applied. They come first in
    /// the next change.
    doubtful: Vec<(String, Update)>,
}

/// Removes the objects of a member's ledger, which must have no records.
///
/// # Errors
/// Fails if the store does. Another removal removes the rest.
pub fn remove_ledger(objects: &dyn Objects, member: MemberId) -> Result<()> {
    for name in objects.list(&head_of(member))? {
        match objects.remove(&name) {
            Ok(()) | Err(ObjectError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub(crate) fn head_of(member: MemberId) -> String {
    format!("ledger.{member}")
}

impl Ledger {
    /// Reads the ledger, and calls a function with the kind of each block in it. Returns the
    /// intents in flight as well. The last holder of the member must be fenced.
    ///
    /// # Errors
    /// Fails if the store fails or a value is damaged.
    pub(crate) fn load(
        objects: Arc<dyn Objects>,
        clock: Arc<dyn Clock>,
        member: MemberId,
        mut take_kind: impl FnMut(Pbn, BlockState),
    ) -> Result<(Self, Vec<InFlight>)> {
        let mut ledger = Self {
            objects,
            clock,
            member,
            versions: BTreeMap::new(),
            named: BTreeSet::new(),
            doubtful: Vec::new(),
        };
        let mut in_flight = Vec::new();
        // Also what does not exist is asked for, so that no late call of the fenced holder creates
        // it.
        ledger.load_some(&[ledger.head()], &mut in_flight, &mut take_kind)?;
        let pages: Vec<String> = ledger.named.iter().map(|page| ledger.page(*page)).collect();
        for names in pages.chunks(OBJECTS_AT_ONCE) {
            ledger.load_some(names, &mut in_flight, &mut take_kind)?;
        }
        Ok((ledger, in_flight))
    }

    fn load_some(
        &mut self,
        names: &[String],
        in_flight: &mut Vec<InFlight>,
        take_kind: &mut impl FnMut(Pbn, BlockState),
    ) -> Result<()> {
        let mut open: Vec<(&String, String)> =
            names.iter().map(|name| (name, AFTER_FINGERPRINTS.to_owned())).collect();
        while !open.is_empty() {
            let pages = self.retry(|objects| {
                let mut requests: Vec<Request<'_>> = open.iter().map(list_after).collect();
                objects.execute(&mut requests);
                let page = |request: Request<'_>| match request.outcome {
                    Err(ObjectError::NotFound { .. }) => Ok(KeyPage::default()),
                    outcome => outcome.map(|()| page_of(request.operation)),
                };
                requests.into_iter().map(page).collect::<std::result::Result<Vec<_>, _>>()
            })?;
            let mut rest = Vec::new();
            for ((name, _), page) in open.into_iter().zip(pages) {
                for (key, value) in &page.entries {
                    let taken = match Kinds::number_of_key(key) {
                        Some(number) => Kinds::decode(number, value)
                            .map(|kinds| kinds.iter().for_each(|(pbn, kind)| take_kind(pbn, kind))),
                        None => self.take(name, (key, value), in_flight),
                    };
                    taken.map_err(|reason| damaged(name, key, reason))?;
                }
                let last = page.entries.into_iter().next_back().filter(|_| page.has_more);
                rest.extend(last.map(|(key, _)| (name, key)));
            }
            open = rest;
        }
        Ok(())
    }

    fn take(
        &mut self,
        name: &str,
        (key, value): (&str, &[u8]),
        in_flight: &mut Vec<InFlight>,
    ) -> std::result::Result<(), Reason> {
        if key == VERSION_KEY {
            self.versions.insert(name.into(), decode_version(value)?);
        } else if key.starts_with(INTENT_PREFIX) {
            in_flight.push(InFlight::decode(value)?);
        } else {
            self.named.insert(named_page(key, value)?);
        }
        Ok(())
    }

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
        let mut changes: BTreeMap<u32, Changes> = BTreeMap::new();
        for (page, key, value) in groups.changes() {
            let page = changes.entry(page).or_default();
            match value {
                Some(value) => page.set.push((key, value)),
                None => page.remove.push(key),
            }
        }
        self.send_changes(changes.into_iter().map(|(page, one)| (self.page(page), one)).collect())
    }

    /// Has the head name these pages, before they are created.
    fn name_pages(&mut self, pages: &BTreeSet<u32>) -> Result<()> {
        let new: Vec<u32> = pages.difference(&self.named).copied().collect();
        if new.is_empty() {
            return Ok(());
        }
        let set = new.iter().map(|page| page_entry(*page)).collect();
        self.change(BTreeMap::from([(self.head(), Changes { set, remove: Vec::new() })]))?;
        self.named.extend(new);
        Ok(())
    }

    /// Records intents. They are durable when this returns.
    ///
    /// # Errors
    /// Fails if the store does.
    pub(crate) fn add_intents(&mut self, intents: &[InFlight]) -> Result<()> {
        let set = intents.iter().map(|one| (intent_key(&one.intent), one.encode())).collect();
        self.change(BTreeMap::from([(self.head(), Changes { set, remove: Vec::new() })]))
    }

    /// Removes intents that are settled.
    ///
    /// # Errors
    /// Fails if the store does.
    pub(crate) fn remove_intents<'a>(
        &mut self,
        intents: impl Iterator<Item = &'a Intent>,
    ) -> Result<()> {
        let remove = intents.map(intent_key).collect();
        self.change(BTreeMap::from([(self.head(), Changes { set: Vec::new(), remove })]))
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

    /// Changes objects, each as a whole.
    fn change(&mut self, changes: BTreeMap<String, Changes>) -> Result<()> {
        self.resolve()?;
        for name in changes.keys() {
            self.look_at_missing(name)?;
        }
        self.send_changes(changes)
    }

    /// Changes objects that were looked at.
    fn send_changes(&mut self, changes: BTreeMap<String, Changes>) -> Result<()> {
        let mut updates: Vec<(String, Update)> =
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
        if self.versions.contains_key(name) {
            return Ok(());
        }
        let keys = [VERSION_KEY.to_owned()];
        let found = self.retry(|objects| match objects.get_keys(name, &keys) {
            Err(ObjectError::NotFound { .. }) => Ok(Vec::new()),
            values => values,
        })?;
        if let Some(value) = found.first().and_then(Option::as_deref) {
            let version = decode_version(value);
            let version = version.map_err(|reason| damaged(name, VERSION_KEY, reason))?;
            self.versions.insert(name.into(), version);
        }
        Ok(())
    }

    fn update(&self, name: String, Changes { mut set, remove }: Changes) -> (String, Update) {
        let version = self.versions.get(&name).copied();
        let expected = version.map(encode_version);
        set.push((VERSION_KEY.into(), encode_version(version.unwrap_or(0) + 1)));
        let guards = vec![Guard { key: VERSION_KEY.into(), expected }];
        (name, Update { creates: version.is_none(), guards, set, remove })
    }

    /// Sends updates until each was applied. `was_sent` is true if they were sent before. The
    /// outcome of one update says nothing about the others. An update that was sent before may
    /// arrive later, so it stays in doubt unless it is known to be applied.
    fn send(&mut self, mut open: Vec<(String, Update)>, mut was_sent: bool) -> Result<()> {
        for attempt in 1..=MAX_ATTEMPTS {
            let mut requests: Vec<Request<'_>> = open.iter().map(update_of).collect();
            self.objects.execute(&mut requests);
            let outcomes: Vec<_> = requests.into_iter().map(|request| request.outcome).collect();
            assert_eq!(outcomes.len(), open.len(), "each update that was sent has an outcome");
            let (mut unknown, mut failed) = (None, None);
            for (one, outcome) in std::mem::take(&mut open).into_iter().zip(outcomes) {
                match self.judge(&one.0, outcome, was_sent) {
                    Ok(()) => self.note_version(&one.0),
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
        name: &str,
        outcome: std::result::Result<(), ObjectError>,
        was_sent: bool,
    ) -> Result<()> {
        match outcome {
            Err(ObjectError::Guard { .. } | ObjectError::Exists { .. }) if was_sent => {
                self.expect_applied(name)
            }
            outcome => Ok(outcome?),
        }
    }

    fn note_version(&mut self, name: &str) {
        *self.versions.entry(name.into()).or_insert(0) += 1;
    }

    /// Proves that an update was applied whose guard failed when it was sent again.
    fn expect_applied(&self, name: &str) -> Result<()> {
        let keys = [VERSION_KEY.to_owned()];
        let values = self.retry(|objects| objects.get_keys(name, &keys))?;
        let value = values.first().and_then(Option::as_deref).unwrap_or_default();
        let version = decode_version(value).map_err(|reason| damaged(name, VERSION_KEY, reason))?;
        let expected = self.versions.get(name).copied().unwrap_or(0) + 1;
        if version == expected {
            return Ok(());
        }
        Err(damaged(name, VERSION_KEY, "another client has changed the ledger"))
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

/// Returns the request for the keys of an object after this one.
fn list_after<'a>((name, after): &'a (&String, String)) -> Request<'a> {
    let range = KeyRange { after, prefix: "", limit: MAX_PAGE_KEYS };
    Request::new(name, Operation::ListKeys { range, page: KeyPage::default() })
}

/// Returns the name of a page of the ledger with this head.
pub(crate) fn page_name(head: &str, page: u32) -> String {
    format!("{head}.{page:04x}")
}

/// Returns the key of the head that names a page, and its value.
fn page_entry(page: u32) -> (String, Vec<u8>) {
    let key = format!("{PAGE_PREFIX}{page:04x}");
    let value = Writer::new(0).finish(&key);
    (key, value)
}

/// Returns the page that an entry of the head names.
pub(crate) fn named_page(key: &str, value: &[u8]) -> std::result::Result<u32, Reason> {
    let digits = key.strip_prefix(PAGE_PREFIX).filter(|digits| digits.len() == 4);
    let page = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let page = page.ok_or("it is no block")?;
    Reader::new(key, value)?.finish().map(|()| page)
}

const fn page_of_block(pbn: Pbn) -> u32 {
    pbn.narrow() / PAGE_BLOCKS
}

fn update_of((name, update): &(String, Update)) -> Request<'_> {
    Request::new(name, Operation::Update(update))
}

fn page_of(operation: Operation<'_>) -> KeyPage {
    match operation {
        Operation::ListKeys { page, .. } => page,
        _ => KeyPage::default(),
    }
}

fn damaged(object: &str, key: &str, reason: Reason) -> SharingError {
    SharingError::Domain(DomainError::Damaged { object: object.into(), key: key.into(), reason })
}

fn encode_version(version: u64) -> Vec<u8> {
    Writer::new(FORM).u64(version).finish(VERSION_KEY)
}

pub(crate) fn decode_version(value: &[u8]) -> std::result::Result<u64, Reason> {
    let mut reader = Reader::new(VERSION_KEY, value)?;
    if reader.tag != FORM {
        return Err("it has the format of another version of gemelo");
    }
    let version = reader.u64()?;
    reader.finish().map(|()| version)
}

mod groups;
#[cfg(test)]
mod tests;
