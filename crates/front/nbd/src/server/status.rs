//! The reply to BLOCK_STATUS ("Metadata querying"): a chunk for `base:allocation`, and one for
//! `gemelo:since=SNAPSHOT`, if both were agreed on.

use super::check::NegotiatedOptions;
use crate::wire::{
    BASE_ALLOCATION_ID, BlockDescriptor, CHUNK_FLAG_DONE, CHUNK_HEADER_BYTES, COMMAND_FLAG_REQ_ONE,
    ErrorCode, RequestHeader, SINCE_ID, STATE_CHANGED, STATE_HOLE, STATE_ZERO, STATE_ZERO_NOW,
    encode_block_status_header, encode_error_chunk,
};
use gemelo_device::{BlockDevice, ChangedExtent, Extent};

/// Most extents in one reply. The client requests the rest again.
const MAX_EXTENTS: usize = 2048;

/// Length of the longest reply in bytes: for each context a header, and the extents.
pub(super) const MAX_STATUS_BYTES: usize = 2 * (CHUNK_HEADER_BYTES + 4 + MAX_EXTENTS * 8);

/// The contexts that were agreed on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StatusContexts {
    base_allocation: bool,
    since: bool,
}

impl StatusContexts {
    pub(super) const fn of(agreed: NegotiatedOptions) -> Self {
        Self { base_allocation: agreed.base_allocation, since: agreed.since }
    }
}

/// Appends the reply to a request that was accepted, or refused with `error`.
pub(super) fn put_block_status(
    replies: &mut Vec<u8>,
    request: &RequestHeader,
    error: ErrorCode,
    (device, contexts): (&dyn BlockDevice, StatusContexts),
) {
    let described = if error.is_none() { chunks(request, device, contexts) } else { Err(error) };
    match described {
        Ok(chunks) => {
            let last = chunks.len().saturating_sub(1);
            for (number, (context, descriptors)) in chunks.into_iter().enumerate() {
                assert!(
                    (1..=MAX_EXTENTS).contains(&descriptors.len()),
                    "a block status has an extent, and not more than its bound"
                );
                replies.extend_from_slice(&encode_block_status_header(
                    request.cookie,
                    context,
                    descriptors.len(),
                    if number == last { CHUNK_FLAG_DONE } else { 0 },
                ));
                for descriptor in descriptors {
                    replies.extend_from_slice(&descriptor.encode());
                }
            }
        }
        Err(error) => replies.extend_from_slice(&encode_error_chunk(request.cookie, error)),
    }
}

/// The extents of each context.
fn chunks(
    request: &RequestHeader,
    device: &dyn BlockDevice,
    contexts: StatusContexts,
) -> Result<Vec<(u32, Vec<BlockDescriptor>)>, ErrorCode> {
    let (offset, length) = (request.offset, request.length.into());
    let most = if request.has(COMMAND_FLAG_REQ_ONE) { 1 } else { MAX_EXTENTS };
    let failed = |error| ErrorCode::of_device(&error);
    let mut chunks = Vec::with_capacity(2);
    if contexts.base_allocation {
        let extents = device.extents(offset, length, most).map_err(failed)?;
        let states = extents.iter().map(|extent| (extent.length, state_of(extent)));
        chunks.push((BASE_ALLOCATION_ID, describe(states, request)?));
    }
    if contexts.since {
        let extents = device.changed_extents(offset, length, most).map_err(failed)?;
        let states = extents.iter().map(|extent| (extent.length, state_of_change(*extent)));
        chunks.push((SINCE_ID, describe(states, request)?));
    }
    assert!(!chunks.is_empty(), "a block status without a context was refused");
    Ok(chunks)
}

const fn state_of(extent: &Extent) -> u32 {
    let hole = if extent.allocated { 0 } else { STATE_HOLE };
    hole | if extent.zero { STATE_ZERO } else { 0 }
}

const fn state_of_change(extent: ChangedExtent) -> u32 {
    let changed = if extent.is_changed { STATE_CHANGED } else { 0 };
    changed | if extent.is_zero { STATE_ZERO_NOW } else { 0 }
}

fn describe(
    states: impl Iterator<Item = (u64, u32)>,
    request: &RequestHeader,
) -> Result<Vec<BlockDescriptor>, ErrorCode> {
    let one_is_enough = request.has(COMMAND_FLAG_REQ_ONE);
    let mut descriptors = merge(states, request.length);
    descriptors.truncate(MAX_EXTENTS);
    if one_is_enough {
        descriptors.truncate(1);
    }
    // A reply must hold at least one extent.
    if descriptors.is_empty() { Err(ErrorCode::IO) } else { Ok(descriptors) }
}

/// Merges neighbours of equal state, and cuts them to the requested length.
fn merge(states: impl Iterator<Item = (u64, u32)>, asked_bytes: u32) -> Vec<BlockDescriptor> {
    let mut descriptors: Vec<BlockDescriptor> = Vec::new();
    let mut left = asked_bytes;
    for (length, state) in states {
        let length = u32::try_from(length).unwrap_or(u32::MAX).min(left);
        if length == 0 {
            continue;
        }
        assert!(length <= left, "the extents of a reply are within what was asked");
        left -= length;
        match descriptors.last_mut() {
            Some(last) if last.state == state => last.length += length,
            _ => descriptors.push(BlockDescriptor { length, state }),
        }
    }
    descriptors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_state_become_one_within_what_was_asked() {
        let hole = Extent { length: 4096, allocated: false, zero: true };
        let data = Extent { length: 1 << 40, allocated: true, zero: false };
        assert_eq!(
            merge([hole, hole, data].iter().map(|one| (one.length, state_of(one))), 10_000),
            [
                BlockDescriptor { length: 8192, state: STATE_HOLE | STATE_ZERO },
                BlockDescriptor { length: 1808, state: 0 },
            ]
        );
    }
}
