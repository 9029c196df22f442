//! The columns of a set, in the order of the file.

use parquet::errors::ParquetError;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;
use std::sync::Arc;

/// The schema of a row, which is a distinct content at a block size. Rows ascend by block size,
/// then by fingerprint.
const SCHEMA: &str = "message gemelo_scan_set {
    required int32 block_bytes;
    required fixed_len_byte_array(16) fingerprint;
    required int32 length_bytes;
    required int64 copies;
    required boolean zero;
    optional binary place_path (STRING);
    optional int64 place_offset_bytes;
    optional int32 lz4_bytes;
    optional int32 zstd_bytes;
    optional double entropy_bits;
    optional binary positions;
}";

/// The indexes of the columns in the schema.
pub(super) mod column {
    pub(in crate::saved) const BLOCK_BYTES: usize = 0;
    pub(in crate::saved) const FINGERPRINT: usize = 1;
    pub(in crate::saved) const LENGTH_BYTES: usize = 2;
    pub(in crate::saved) const COPIES: usize = 3;
    pub(in crate::saved) const ZERO: usize = 4;
    pub(in crate::saved) const PLACE_PATH: usize = 5;
    pub(in crate::saved) const PLACE_OFFSET: usize = 6;
    pub(in crate::saved) const LZ4_BYTES: usize = 7;
    pub(in crate::saved) const ZSTD_BYTES: usize = 8;
    pub(in crate::saved) const ENTROPY: usize = 9;
    pub(in crate::saved) const POSITIONS: usize = 10;
}

pub(super) fn schema() -> Result<Arc<Type>, ParquetError> {
    parse_message_type(SCHEMA).map(Arc::new)
}
