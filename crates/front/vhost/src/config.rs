//! The features of a device and its configuration space: `struct virtio_blk_config` of virtio 1.2,
//! 5.2.4. All numbers are little-endian.

use gemelo_device::Geometry;
use vhost::vhost_user::message::VhostUserVirtioFeatures;

/// The unit of places and lengths in requests, whatever the size of a block.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// Most queues of a device. A virtual machine asks for one for each of its processors.
pub(crate) const MAX_QUEUES: usize = 16;

/// Most requests that a queue holds.
pub(crate) const MAX_QUEUE_SIZE: usize = 1024;

/// Most segments of data in a request that the device announces.
const MAX_SEGMENTS: u32 = 126;

/// Most ranges in a request that discards or zeroes.
pub(crate) const MAX_RANGES: u32 = 16;

/// Longest of these ranges: 1 GiB.
pub(crate) const MAX_RANGE_SECTORS: u32 = 1 << 21;

/// Length in bytes of the identification of a device.
pub(crate) const ID_BYTES: usize = 20;

/// Bits of features: virtio 1.2, 5.2.3 and 6.
const SEGMENTS_MAXIMUM: u64 = 1 << 2;
pub(crate) const READ_ONLY: u64 = 1 << 5;
const BLOCK_SIZE: u64 = 1 << 6;
pub(crate) const FLUSH: u64 = 1 << 9;
const TOPOLOGY: u64 = 1 << 10;
pub(crate) const SEVERAL_QUEUES: u64 = 1 << 12;
pub(crate) const DISCARD: u64 = 1 << 13;
const WRITE_ZEROES: u64 = 1 << 14;
const INDIRECT_DESCRIPTORS: u64 = 1 << 28;
pub(crate) const EVENT_INDEX: u64 = 1 << 29;
pub(crate) const VERSION_1: u64 = 1 << 32;
pub(crate) const PROTOCOL_FEATURES: u64 = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();

/// Returns the features that the device offers.
pub(crate) fn features(geometry: &Geometry) -> u64 {
    let common = SEGMENTS_MAXIMUM
        | BLOCK_SIZE
        | FLUSH
        | TOPOLOGY
        | SEVERAL_QUEUES
        | INDIRECT_DESCRIPTORS
        | EVENT_INDEX
        | VERSION_1
        | PROTOCOL_FEATURES;
    common | if geometry.read_only { READ_ONLY } else { DISCARD | WRITE_ZEROES }
}

/// Returns `size` bytes of the configuration space from `offset` on. Bytes behind its end are zero.
pub(crate) fn space(geometry: &Geometry, offset: u32, size: u32) -> Vec<u8> {
    let block_bytes = u64::from(geometry.minimum_block_bytes).max(SECTOR_BYTES) as u32;
    let preferred = geometry.preferred_block_bytes.max(block_bytes) / block_bytes;
    let mut space = Vec::new();
    space.extend((geometry.size_bytes / SECTOR_BYTES).to_le_bytes());
    space.extend(0u32.to_le_bytes()); // size_max, which is not offered
    space.extend(MAX_SEGMENTS.to_le_bytes());
    space.extend([0; 4]); // geometry, which is not offered
    space.extend(block_bytes.to_le_bytes());
    space.push(preferred.ilog2() as u8); // physical_block_exp
    space.push(0); // alignment_offset
    space.extend(u16::try_from(preferred).unwrap_or(u16::MAX).to_le_bytes()); // min_io_size
    space.extend(0u32.to_le_bytes()); // opt_io_size
    space.extend([1, 0]); // writeback, and a byte that is not used
    space.extend((MAX_QUEUES as u16).to_le_bytes());
    for _ in ["discard", "write zeroes"] {
        space.extend(MAX_RANGE_SECTORS.to_le_bytes());
        space.extend(MAX_RANGES.to_le_bytes());
        // Of a discard this is its alignment in sectors; of zeroes, that they may deallocate.
        let last = if space.len() < 48 { block_bytes / SECTOR_BYTES as u32 } else { 1 };
        space.extend(last.to_le_bytes());
    }
    let (offset, end) = (offset as usize, (offset as usize).saturating_add(size as usize));
    space.resize(space.len().max(end), 0);
    space.get(offset..end).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry {
        size_bytes: 1 << 20,
        minimum_block_bytes: 1,
        preferred_block_bytes: 4096,
        maximum_request_bytes: 1 << 25,
        read_only: false,
    };

    #[test]
    fn the_fields_are_at_the_places_of_the_standard() {
        let all = space(&GEOMETRY, 0, 64);
        let number = |at: usize| u32::from_le_bytes(all[at..at + 4].try_into().unwrap());
        assert_eq!((number(0), number(4)), (2048, 0));
        assert_eq!((number(12), number(20)), (MAX_SEGMENTS, 512));
        assert_eq!((all[24], all[25], all[26]), (3, 0, 8), "blocks of 4 KiB are preferred");
        assert_eq!((all[32], all[34]), (1, MAX_QUEUES as u8));
        assert_eq!((number(36), number(40), number(44)), (MAX_RANGE_SECTORS, MAX_RANGES, 1));
        assert_eq!((number(48), number(52), number(56)), (MAX_RANGE_SECTORS, MAX_RANGES, 1));
        assert_eq!(space(&GEOMETRY, 20, 4), 512u32.to_le_bytes());
        assert_eq!(space(&GEOMETRY, 60, 60), [0; 60]);
    }

    #[test]
    fn a_device_that_refuses_writes_offers_no_changes() {
        let read_only = Geometry { read_only: true, ..GEOMETRY };
        assert_eq!(features(&read_only) & (DISCARD | WRITE_ZEROES), 0);
        assert_ne!(features(&read_only) & READ_ONLY, 0);
        assert_eq!(features(&GEOMETRY) & READ_ONLY, 0);
    }
}
