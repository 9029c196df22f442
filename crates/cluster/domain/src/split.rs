//! Splitting a shard in use.
//!
//! Any member may begin a split, and any may finish it, also several at once: each step is guarded,
//! and repeating it has no effect. The steps are: seal the shard, so that no change takes effect
//! any more; create the halves; copy the entries; open the halves; mark the shard as split; remove
//! its entries. The receipts stay, because an intent may ask for its fate later.

mod steps;

pub use steps::{ShardEntries, SplitStep};

use crate::config::damaged;
use crate::error::{DomainError, Result};
use crate::header::{HEADER_KEY, ShardHeader, ShardState};
use crate::shard::{ENTRY_PREFIX, Shard};
use gemelo_objects::{KeyRange, MAX_PAGE_KEYS, ObjectError, Objects};

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
            ShardState::Open => take(objects, &name, SplitStep::Seal(header))?,
        }
    };
    for half in halves {
        take(objects, &half.object(), SplitStep::Create)?;
    }
    let counts = copy(objects, &name, halves)?;
    for (half, entries) in halves.into_iter().zip(counts) {
        take(objects, &half.object(), SplitStep::Open { entries })?;
    }
    take(objects, &name, SplitStep::MarkSplit(sealed))?;
    clean(objects, &name, sealed.next(ShardState::Split, sealed.entries))
}

/// Removes the entries of a shard that is split. Its header counts them until they are removed, so
/// that a member that comes later finishes this as well.
fn clean(objects: &dyn Objects, name: &str, split: ShardHeader) -> Result<()> {
    if split.entries > 0 {
        each_page(objects, name, |page| take(objects, name, SplitStep::Remove(page)))?;
        take(objects, name, SplitStep::NoteRemoved(split))?;
    }
    Ok(())
}

fn read_header(objects: &dyn Objects, name: &str) -> Result<ShardHeader> {
    let values = objects.get_keys(name, &[HEADER_KEY.into()])?;
    let header = ShardHeader::decode(values.first().and_then(Option::as_deref));
    header.map_err(|reason| damaged(name, HEADER_KEY, reason))
}

/// Takes a step, unless another member or an earlier attempt has taken it.
fn take(objects: &dyn Objects, name: &str, step: SplitStep<'_>) -> Result<()> {
    match objects.update(name, &step.update()) {
        Ok(()) | Err(ObjectError::Guard { .. } | ObjectError::Exists { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Copies the entries of a sealed shard and returns how many each half has.
fn copy(objects: &dyn Objects, name: &str, halves: [Shard; 2]) -> Result<[u64; 2]> {
    let mut counts = [0; 2];
    each_page(objects, name, |page| {
        for (half, count) in halves.into_iter().zip(&mut counts) {
            let update = SplitStep::Copy { half, entries: page };
            let copied = update.update().set.len();
            if copied > 0 {
                take(objects, &half.object(), update)?;
            }
            *count += copied as u64;
        }
        Ok(())
    })?;
    Ok(counts)
}

/// Calls a function with each page of the entries of a shard.
pub(crate) fn each_page(
    objects: &dyn Objects,
    name: &str,
    mut call: impl FnMut(&ShardEntries) -> Result<()>,
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
