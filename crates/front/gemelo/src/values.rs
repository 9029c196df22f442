//! Types of option values.

use clap::builder::{OsStringValueParser, TypedValueParser};
use gemelo_base::units::{self, UnitError};
use gemelo_format::Compression;
use gemelo_place::{PoolPlace, VolumePath};
use std::ffi::OsString;
use std::str::FromStr;

/// A block size in bytes, from 1 byte to 1 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockSize(pub(crate) u64);

/// Largest block size in bytes. Every unit of deduplication is smaller.
const MAX_BLOCK_BYTES: u64 = 1 << 30;

impl FromStr for BlockSize {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bytes = units::parse_size(text)?;
        if !(1..=MAX_BLOCK_BYTES).contains(&bytes) {
            return Err(UnitError {
                text: text.to_owned(),
                expected: "a block size from 1 byte to 1 GiB, such as 4k",
            });
        }
        Ok(Self(bytes))
    }
}

/// Reads the place of a pool. A directory may have any name.
pub(crate) fn pool_place_parser() -> impl TypedValueParser<Value = PoolPlace> {
    OsStringValueParser::new().try_map(|name: OsString| match name.into_string() {
        Ok(text) => text.parse(),
        Err(name) => Ok(PoolPlace::Directory(name.into())),
    })
}

/// Reads the place of a pool and the name of a volume. The directory of the pool may have any name.
pub(crate) fn volume_path_parser() -> impl TypedValueParser<Value = VolumePath> {
    OsStringValueParser::new().try_map(|text: OsString| VolumePath::from_os_text(&text))
}

/// Reads a compression.
pub(crate) fn parse_compression(name: &str) -> Result<Compression, String> {
    let allowed = "allowed: off, lz4, zstd, zstd:1 to zstd:19";
    Compression::from_name(name).ok_or_else(|| allowed.to_owned())
}
