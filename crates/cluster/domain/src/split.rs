//! Splitting a shard in use.
//!
//! Any member may begin a split, and any may finish it, also several at once: each step is guarded,
//! and repeating it has no effect. The steps are: seal the shard, so that no change takes effect
//! any more; create the halves; copy the entries; open the halves; mark the shard as split; remove
//! its entries. The receipts stay, because an intent may ask for its fate later.

use crate::config::damaged;
use crate::error::{DomainError, Result};
use crate::header::{HEADER_KEY, ShardHeader, ShardState};
use crate::shard::{ENTRY_PREFIX, Shard, fingerprint_of_key};
use gemelo_objects::{Guard, KeyRange, MAX_PAGE_KEYS, ObjectError, Objects, Update};

/// Splits a shard, or finishes its split. A shard that cannot be halved stays as it is.
///
/// # Errors
/// Fails if the store does not answer. It may be called again.
pub(crate) fn split(objects: &dyn Objects, shard: Shard) -> Result<()> {
    let Some(halves) = shard.halves() else { return Ok(()) };
    let name = shard.object();
    let sealed = loop {
        let header = read_header(objects, &name)?;
        match header.state {
            ShardState::Filling => return Ok(()),
            ShardState::Sealed => break header,
            ShardState::Split => return clean(objects, &name, header),
            ShardState::Open => {
                replace(objects, &name, header, header.next(ShardState::Sealed, header.entries))?;
            }
        }
    };
    for half in halves {
        create(objects, half)?;
    }
    let counts = copy(objects, &name, halves)?;
    assert!(sealed.state == ShardState::Sealed, "only a sealed shard is copied");
    for (half, entries) in halves.into_iter().zip(counts) {
        let filling = ShardHeader::new(ShardState::Filling);
        replace(objects, &half.object(), filling, filling.next(ShardState::Open, entries))?;
    }
    let split = sealed.next(ShardState::Split, sealed.entries);
    replace(objects, &name, sealed, split)?;
    clean(objects, &name, split)
}

/// Removes the entries of a shard that is split. Its header counts them until they are removed, so
/// that a member that comes later finishes this as well.
fn clean(objects: &dyn Objects, name: &str, split: ShardHeader) -> Result<()> {
    if split.entries > 0 {
        remove_entries(objects, name)?;
        replace(objects, name, split, split.next(ShardState::Split, 0))?;
    }
    Ok(())
}

fn read_header(objects: &dyn Objects, name: &str) -> Result<ShardHeader> {
    let values = objects.get_keys(name, &[HEADER_KEY.into()])?;
    let header = ShardHeader::decode(values.first().and_then(Option::as_deref));
    header.map_err(|reason| damaged(name, HEADER_KEY, reason))
}

/// Replaces a header, unless another member or an earlier attempt has done so.
fn replace(objects: &dyn Objects, name: &str, from: ShardHeader, to: ShardHeader) -> Result<()> {
    let guards = vec![guard(from)];
    let set = vec![(HEADER_KEY.into(), to.encode())];
    done_or_overtaken(objects.update(name, &Update { guards, set, ..Update::default() })).map(drop)
}

fn guard(header: ShardHeader) -> Guard {
    Guard { key: HEADER_KEY.into(), expected: Some(header.encode()) }
}

/// Returns whether an update took effect now.
fn done_or_overtaken(outcome: std::result::Result<(), ObjectError>) -> Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(ObjectError::Guard { .. } | ObjectError::Exists { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn create(objects: &dyn Objects, half: Shard) -> Result<()> {
    let header = ShardHeader::new(ShardState::Filling).encode();
    let set = vec![(HEADER_KEY.into(), header)];
    let update = Update { creates: true, set, ..Update::default() };
    done_or_overtaken(objects.update(&half.object(), &update)).map(drop)
}

/// Copies the entries of a sealed shard and returns how many each half has. Once a half is open,
/// the guard stops copies: they could undo changes.
fn copy(objects: &dyn Objects, name: &str, halves: [Shard; 2]) -> Result<[u64; 2]> {
    let mut counts = [0; 2];
    each_page(objects, name, |page| {
        for (half, count) in halves.into_iter().zip(&mut counts) {
            let mut set = Vec::new();
            for (key, value) in page {
                if belongs(half, key) {
                    set.push((key.clone(), value.clone()));
                }
            }
            *count += set.len() as u64;
            let guards = vec![guard(ShardHeader::new(ShardState::Filling))];
            if !set.is_empty() {
                let update = Update { guards, set, ..Update::default() };
                done_or_overtaken(objects.update(&half.object(), &update))?;
            }
        }
        Ok(())
    })?;
    Ok(counts)
}

/// Returns whether a key belongs to a half. A damaged value is copied as it is: members leave out
/// the changes that need it, and the check of the domain names it. A key of no content belongs
/// nowhere.
fn belongs(half: Shard, key: &str) -> bool {
    fingerprint_of_key(key).is_some_and(|fingerprint| half.contains(fingerprint))
}

fn remove_entries(objects: &dyn Objects, name: &str) -> Result<()> {
    each_page(objects, name, |page| {
        let remove = page.iter().map(|(key, _)| key.clone()).collect();
        Ok(objects.update(name, &Update { remove, ..Update::default() })?)
    })
}

/// Calls a function with each page of the entries of a shard.
pub(crate) fn each_page(
    objects: &dyn Objects,
    name: &str,
    mut call: impl FnMut(&[(String, Vec<u8>)]) -> Result<()>,
) -> Result<()> {
    let mut after = String::new();
    loop {
        let range = KeyRange { after: &after, prefix: ENTRY_PREFIX, limit: MAX_PAGE_KEYS };
        let page = objects.list_keys(name, range).map_err(DomainError::from)?;
        if !page.entries.is_empty() {
            call(&page.entries)?;
        }
        match page.entries.last() {
            Some((last, _)) if page.has_more => after.clone_from(last),
            _ => return Ok(()),
        }
    }
}
