//! The reply to BLOCK_STATUS for `base:allocation` ("Metadata querying").

use crate::wire::{
    BASE_ALLOCATION_ID, BlockDescriptor, CHUNK_HEADER_BYTES, COMMAND_FLAG_REQ_ONE, ErrorCode,
    RequestHeader, STATE_HOLE, STATE_ZERO, encode_block_status_header, encode_error_chunk,
};
use gemelo_device::{BlockDevice, Extent};

/// Most extents in one reply. The client requests the rest again.
const MAX_EXTENTS: usize = 2048;

/// Length of the longest reply in bytes: a header with the context, and the extents.
pub(super) const MAX_STATUS_BYTES: usize = CHUNK_HEADER_BYTES + 4 + MAX_EXTENTS * 8;

/// Appends the reply to a request that was accepted, or refused with `error`.
pub(super) fn put_block_status(
    replies: &mut Vec<u8>,
    request: &RequestHeader,
    error: ErrorCode,
    device: &dyn BlockDevice,
) {
    let descriptors = if error.is_none() { describe(request, device) } else { Err(error) };
    match descriptors {
        Ok(descriptors) => {
            assert!(
                (1..=MAX_EXTENTS).contains(&descriptors.len()),
                "a block status has an extent, and not more than its bound"
            );
            replies.extend_from_slice(&encode_block_status_header(
                request.cookie,
                BASE_ALLOCATION_ID,
                descriptors.len(),
            ));
            for descriptor in descriptors {
                replies.extend_from_slice(&descriptor.encode());
            }
        }
        Err(error) => replies.extend_from_slice(&encode_error_chunk(request.cookie, error)),
    }
}

fn describe(
    request: &RequestHeader,
    device: &dyn BlockDevice,
) -> Result<Vec<BlockDescriptor>, ErrorCode> {
    let one_is_enough = request.has(COMMAND_FLAG_REQ_ONE);
    let most = if one_is_enough { 1 } else { MAX_EXTENTS };
    let extents = device
        .extents(request.offset, request.length.into(), most)
        .map_err(|error| ErrorCode::of_device(&error))?;
    let mut descriptors = merge(&extents, request.length);
    descriptors.truncate(MAX_EXTENTS);
    if one_is_enough {
        descriptors.truncate(1);
    }
    // A reply must hold at least one extent.
    if descriptors.is_empty() { Err(ErrorCode::IO) } else { Ok(descriptors) }
}

/// Merges neighbours of equal state, and cuts them to the requested length.
fn merge(extents: &[Extent], asked_bytes: u32) -> Vec<BlockDescriptor> {
    let mut descriptors: Vec<BlockDescriptor> = Vec::with_capacity(extents.len());
    let mut left = asked_bytes;
    for extent in extents {
        let length = u32::try_from(extent.length).unwrap_or(u32::MAX).min(left);
        if length == 0 {
            continue;
        }
        assert!(length <= left, "the extents of a reply are within what was asked");
        left -= length;
        let hole = if extent.allocated { 0 } else { STATE_HOLE };
        let state = hole | if extent.zero { STATE_ZERO } else { 0 };
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
            merge(&[hole, hole, data], 10_000),
            [
                BlockDescriptor { length: 8192, state: STATE_HOLE | STATE_ZERO },
                BlockDescriptor { length: 1808, state: 0 },
            ]
        );
    }
}
