//! Writing a whole ledger again.

use super::groups::Groups;
use super::{Changes, Seal, VERSION_KEY, head_of, page_entry, page_name, shard_entry};
use crate::error::Result;
use crate::in_flight::{InFlight, intent_key};
use crate::record::Record;
use gemelo_domain::codec::digest;
use gemelo_domain::{MemberId, Shard};
use gemelo_format::Pbn;
use gemelo_objects::{Objects, Update};
use std::collections::BTreeMap;

/// Replaces a ledger. All objects get a version above those that are there, and the head is written
/// first: if this is interrupted, the pages that are left are older than it says, so that the
/// ledger stays damaged until another call has written all of it.
///
/// # Errors
/// Fails if the store does.
pub(crate) fn write_anew(
    objects: &dyn Objects,
    member: MemberId,
    epoch: u64,
    records: BTreeMap<Pbn, Record>,
    in_flight: &[InFlight],
    shards: &BTreeMap<Shard, u64>,
) -> Result<()> {
    let head = head_of(member);
    let old = objects.list(&head)?;
    let version = newest(objects, &old)? + 1;
    let mut groups = Groups::new(member);
    records.into_iter().for_each(|(pbn, record)| groups.set(pbn, Some(record)));
    let pages = groups.changes();
    let mut set: Vec<(String, Vec<u8>)> =
        pages.keys().map(|page| page_entry(*page, version)).collect();
    set.extend(in_flight.iter().map(|one| (intent_key(&one.intent), one.encode())));
    set.extend(shards.iter().map(|(shard, version)| shard_entry(*shard, *version)));
    let keys = set.iter().map(|(key, value)| digest(key, value)).fold(0, u64::wrapping_add);
    replace(objects, &head, set, Seal { version, other: epoch, keys, fingerprints: 0 })?;
    let names: Vec<String> = pages.keys().map(|page| page_name(&head, *page)).collect();
    for (name, Changes { set, keys_by: keys, fingerprints_by: fingerprints, .. }) in
        names.iter().zip(pages.into_values())
    {
        replace(objects, name, set, Seal { version, other: version, keys, fingerprints })?;
    }
    old.iter()
        .filter(|name| **name != head && !names.contains(name))
        .try_for_each(|name| Ok(objects.remove_if_there(name)?))
}

/// Returns the highest version of the objects whose seals can be read.
fn newest(objects: &dyn Objects, names: &[String]) -> Result<u64> {
    let mut newest = 0;
    for name in names {
        let values = objects.get_keys(name, &[VERSION_KEY.to_owned()])?;
        let seal = values.first().and_then(Option::as_deref).map(Seal::decode);
        if let Some(Ok(seal)) = seal {
            newest = newest.max(seal.version).max(seal.other);
        }
    }
    Ok(newest)
}

fn replace(
    objects: &dyn Objects,
    name: &str,
    mut set: Vec<(String, Vec<u8>)>,
    seal: Seal,
) -> Result<()> {
    objects.remove_if_there(name)?;
    set.push((VERSION_KEY.to_owned(), seal.encode()));
    Ok(objects.update(name, &Update { creates: true, set, ..Update::default() })?)
}
