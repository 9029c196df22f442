//! The groups of a ledger whose blocks are read or changed together.

use super::{Changes, Ledger, OBJECTS_AT_ONCE, PAGE_BLOCKS, damaged, page_of_block};
use crate::error::Result;
use crate::group::{Fingerprints, Kinds};
use crate::record::Record;
use gemelo_domain::MemberId;
use gemelo_domain::codec::{Reason, digest};
use gemelo_format::Pbn;
use gemelo_objects::{Operation, Request};
use std::collections::{BTreeMap, BTreeSet};

/// Keys that are read of an object at once.
const KEYS_AT_ONCE: usize = 4096;

/// A group, and what its value in the store adds to the digest of its page.
#[derive(Debug)]
struct Read<G> {
    group: G,
    digest: u64,
    is_changed: bool,
}

impl<G> Read<G> {
    const fn new(group: G, digest: u64) -> Self {
        Self { group, digest, is_changed: false }
    }
}

/// Groups by number.
#[derive(Debug)]
pub(super) struct Groups {
    member: MemberId,
    kinds: BTreeMap<u32, Read<Kinds>>,
    fingerprints: BTreeMap<u32, Read<Fingerprints>>,
}

impl Groups {
    pub(super) const fn new(member: MemberId) -> Self {
        Self { member, kinds: BTreeMap::new(), fingerprints: BTreeMap::new() }
    }

    fn take(&mut self, key: &str, value: &[u8]) -> std::result::Result<(), Reason> {
        let digest = digest(key, value);
        if let Some(number) = Kinds::number_of_key(key) {
            let group = Kinds::decode(self.member, number, value)?;
            self.kinds.insert(number, Read::new(group, digest));
        } else if let Some(number) = Fingerprints::number_of_key(key) {
            let group = Fingerprints::decode(number, value)?;
            self.fingerprints.insert(number, Read::new(group, digest));
        }
        Ok(())
    }

    pub(super) fn set(&mut self, pbn: Pbn, record: Option<Record>) {
        let number = Kinds::number_of(pbn);
        let new = || Read::new(Kinds::new(number), 0);
        let kinds = self.kinds.entry(number).or_insert_with(new);
        kinds.group.set(pbn, record.map(|record| record.kind));
        let number = Fingerprints::number_of(pbn);
        let new = || Read::new(Fingerprints::new(number), 0);
        let fingerprints = self.fingerprints.entry(number).or_insert_with(new);
        let fingerprint = record.map(|record| record.fingerprint);
        fingerprints.is_changed |= fingerprints.group.get(pbn) != fingerprint;
        fingerprints.group.set(pbn, fingerprint);
    }

    /// Returns the changes of each page. A group without blocks has no value. The kinds are always
    /// written, because what was only read may be not durable yet.
    pub(super) fn changes(&self) -> BTreeMap<u32, Changes> {
        let mut changes: BTreeMap<u32, Changes> = BTreeMap::new();
        for (number, read) in &self.kinds {
            let page = changes.entry(Kinds::first_block(*number) / PAGE_BLOCKS).or_default();
            let new = page.put(Kinds::key(*number), read.group.encode());
            page.keys_by = page.keys_by.wrapping_add(new).wrapping_sub(read.digest);
        }
        for (number, read) in self.fingerprints.iter().filter(|(_, read)| read.is_changed) {
            let page = changes.entry(Fingerprints::first_block(*number) / PAGE_BLOCKS).or_default();
            let new = page.put(Fingerprints::key(*number), read.group.encode());
            page.fingerprints_by = page.fingerprints_by.wrapping_add(new).wrapping_sub(read.digest);
        }
        changes
    }
}

impl Ledger {
    /// Reads the groups of blocks.
    pub(super) fn groups_of(&self, pbns: impl Iterator<Item = Pbn>) -> Result<Groups> {
        let keys = self.keys_of(pbns);
        let reads = keys
            .iter()
            .flat_map(|(name, keys)| keys.chunks(KEYS_AT_ONCE).map(move |keys| (&**name, keys)));
        let reads: Vec<KeysOf<'_>> = reads.collect();
        let mut groups = Groups::new(self.member);
        for reads in reads.chunks(OBJECTS_AT_ONCE) {
            let values = self.retry(|objects| {
                let mut requests: Vec<Request<'_>> = reads.iter().copied().map(get).collect();
                objects.execute(&mut requests);
                requests.into_iter().map(values_of).collect::<std::result::Result<Vec<_>, _>>()
            })?;
            for ((name, keys), values) in reads.iter().zip(values) {
                assert_eq!(values.len(), keys.len(), "each key has a value or none");
                for (key, value) in keys.iter().zip(values) {
                    let Some(value) = value else { continue };
                    groups.take(key, &value).map_err(|reason| damaged(name, key, reason))?;
                }
            }
        }
        Ok(groups)
    }

    /// Returns the keys of the groups of blocks, for each page that exists.
    fn keys_of(&self, pbns: impl Iterator<Item = Pbn>) -> BTreeMap<String, Vec<String>> {
        let mut groups: BTreeMap<u32, [BTreeSet<u32>; 2]> = BTreeMap::new();
        for pbn in pbns {
            let [kinds, fingerprints] = groups.entry(page_of_block(pbn)).or_default();
            kinds.insert(Kinds::number_of(pbn));
            fingerprints.insert(Fingerprints::number_of(pbn));
        }
        let pages = groups.into_iter().map(|(page, groups)| (self.page(page), groups));
        let pages = pages.filter(|(name, _)| self.seals.contains_key(name));
        let keys = pages.map(|(name, [kinds, fingerprints])| {
            let fingerprints = fingerprints.into_iter().map(Fingerprints::key);
            (name, kinds.into_iter().map(Kinds::key).chain(fingerprints).collect())
        });
        keys.collect()
    }

    /// Returns the record of a block.
    ///
    /// # Errors
    /// Fails if the block has a kind and no fingerprint, or the other way round.
    pub(super) fn record_in(&self, groups: &Groups, pbn: Pbn) -> Result<Option<Record>> {
        let kinds = groups.kinds.get(&Kinds::number_of(pbn));
        let fingerprints = groups.fingerprints.get(&Fingerprints::number_of(pbn));
        let kind = kinds.and_then(|read| read.group.get(pbn));
        match (kind, fingerprints.and_then(|read| read.group.get(pbn))) {
            (Some(kind), Some(fingerprint)) => Ok(Some(Record { fingerprint, kind })),
            (None, None) => Ok(None),
            _ => {
                let key = Fingerprints::key(Fingerprints::number_of(pbn));
                let reason = "it has other blocks than the kinds";
                Err(damaged(&self.page(page_of_block(pbn)), &key, reason))
            }
        }
    }
}

/// The name of an object, and keys of it.
type KeysOf<'a> = (&'a str, &'a [String]);

const fn get<'a>((name, keys): KeysOf<'a>) -> Request<'a> {
    Request::new(name, Operation::get_keys(keys))
}

fn values_of(request: Request<'_>) -> gemelo_objects::Result<Vec<Option<Vec<u8>>>> {
    match request.operation {
        Operation::GetKeys { values, .. } => request.outcome.map(|()| values),
        _ => Ok(Vec::new()),
    }
}
