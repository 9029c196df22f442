//! The sizes and flags that clients are told about an export.

use crate::wire::{BlockSizes, ExportFlags, LONGEST_PAYLOAD_BYTES};
use gemelo_device::Geometry;

/// Returns the block sizes that clients are told. They follow the rules of the protocol ("Block
/// size constraints"): the minimum is a power of two of at most 64 KiB, and the preferred size a
/// power of two of at least 512 bytes.
pub(crate) fn block_sizes(geometry: &Geometry) -> BlockSizes {
    const LARGEST_MINIMUM: u32 = 1 << 16;
    const SMALLEST_PREFERRED: u32 = 512;
    let minimum = geometry.minimum_block_bytes.clamp(1, LARGEST_MINIMUM).next_power_of_two();
    let smallest = SMALLEST_PREFERRED.max(minimum);
    let maximum =
        geometry.maximum_request_bytes.clamp(smallest, LONGEST_PAYLOAD_BYTES) / minimum * minimum;
    let preferred = 1 << geometry.preferred_block_bytes.clamp(smallest, maximum).ilog2();
    BlockSizes { minimum, preferred, maximum }
}

/// Returns the transmission flags of a device.
pub(crate) fn export_flags(geometry: &Geometry, structured_replies: bool) -> ExportFlags {
    let mut flags = ExportFlags::HAS_FLAGS
        | ExportFlags::SEND_FLUSH
        | ExportFlags::SEND_FUA
        | ExportFlags::CAN_MULTI_CONN
        | ExportFlags::SEND_CACHE;
    if structured_replies {
        flags |= ExportFlags::SEND_DF;
    }
    flags |= if geometry.read_only {
        ExportFlags::READ_ONLY
    } else {
        ExportFlags::SEND_TRIM | ExportFlags::SEND_WRITE_ZEROES | ExportFlags::SEND_FAST_ZERO
    };
    ExportFlags(flags)
}
