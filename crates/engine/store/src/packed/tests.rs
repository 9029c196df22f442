//! Tests of packing.

use super::*;
use gemelo_format::{FingerprintKind, StoreKind};

pub(crate) fn superblock(block_bytes: u32) -> Superblock {
    Superblock {
        block_bytes,
        pool_id: [1; 16],
        key: [2; 32],
        fingerprint: FingerprintKind::Blake3,
        ring_pages: 8,
        header_copy: None,
        store: StoreKind::Packed(Compression::Lz4),
    }
}
