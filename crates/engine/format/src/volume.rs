//! The record of a volume: all of its metadata except the map.

use super::codec::{Reader, put_text};
use crate::packed::Compression;
use crate::types::{DedupMode, VolumeId};
use gemelo_base::StatTable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bits of the flags byte.
const READ_ONLY: u8 = 1;
const HIDDEN: u8 = 2;

/// The record of a volume.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize, StatTable)]
#[stat(gauge)]
pub struct VolumeRecord {
    /// The id of the volume.
    #[stat(skip)]
    pub id: VolumeId,
    /// The name that its users gave it.
    #[stat(skip)]
    pub name: String,
    /// The size in bytes.
    pub size_bytes: u64,
    /// The time at which writes are deduplicated.
    #[stat(skip)]
    pub mode: DedupMode,
    /// The compression of further writes.
    #[stat(skip)]
    pub compression: Compression,
    /// `true` if the volume takes no writes: it is a snapshot.
    pub read_only: bool,
    /// `true` if the volume is being made or removed, so that no client sees it.
    #[serde(skip)]
    #[stat(skip)]
    pub is_hidden: bool,
    /// Creation time and origin.
    #[stat(skip)]
    #[serde(flatten)]
    pub birth: Birth,
}

/// The creation time and the origin of a volume.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Birth {
    /// Creation time in seconds since 1970, UTC; `None` if unknown.
    #[serde(default)]
    pub created_s: Option<u64>,
    /// The source of the volume's first contents.
    pub origin: Origin,
}

/// The source of a volume's first contents.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Origin {
    /// It was made empty.
    Empty,
    /// It was made to hold the contents of a file or a device.
    Imported,
    /// It was cloned from another volume, which may have been a snapshot.
    Clone {
        /// The id of the other volume.
        volume: VolumeId,
        /// The name that the other volume had then.
        name: String,
    },
}

impl Birth {
    fn encode(&self, out: &mut Vec<u8>) {
        // No volume was made in the first second of 1970, so 0 stands for an unknown time.
        out.extend_from_slice(&self.created_s.unwrap_or(0).to_le_bytes());
        match &self.origin {
            Origin::Empty => out.push(1),
            Origin::Imported => out.push(2),
            Origin::Clone { volume, name } => {
                out.push(3);
                out.extend_from_slice(&volume.0.to_le_bytes());
                put_text(out, name);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let created_s = Some(reader.u64()?).filter(|seconds| *seconds > 0);
        let origin = match reader.u8()? {
            1 => Origin::Empty,
            2 => Origin::Imported,
            3 => Origin::Clone { volume: VolumeId(reader.u32()?), name: reader.text()?.to_owned() },
            _ => return None,
        };
        Some(Self { created_s, origin })
    }
}

impl VolumeRecord {
    /// Makes the record of a clone of this volume.
    #[must_use]
    pub fn cloned(
        &self,
        id: VolumeId,
        name: &str,
        read_only: bool,
        created_s: Option<u64>,
    ) -> Self {
        let origin = Origin::Clone { volume: self.id, name: self.name.clone() };
        let birth = Birth { created_s, origin };
        Self { id, name: name.to_owned(), read_only, is_hidden: false, birth, ..self.clone() }
    }

    /// Adds the record to a table or a change.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0.to_le_bytes());
        put_text(out, &self.name);
        out.extend_from_slice(&self.size_bytes.to_le_bytes());
        out.push(self.mode.byte());
        out.extend_from_slice(&self.compression.bytes());
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        out.push(flag(self.read_only, READ_ONLY) | flag(self.is_hidden, HIDDEN));
        self.birth.encode(out);
    }

    /// Decodes a record. Returns `None` if the bytes are malformed.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let id = Some(VolumeId(reader.u32()?)).filter(|id| id.is_possible())?;
        let name = reader.text()?.to_owned();
        let size_bytes = reader.u64()?;
        let mode = DedupMode::from_byte(reader.u8()?)?;
        let compression = Compression::from_bytes(reader.array()?)?;
        let flags = reader.u8().filter(|flags| *flags <= READ_ONLY | HIDDEN)?;
        let birth = Birth::decode(reader)?;
        let (read_only, is_hidden) = (flags & READ_ONLY != 0, flags & HIDDEN != 0);
        Some(Self { id, name, size_bytes, mode, compression, read_only, is_hidden, birth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(birth: Birth) -> VolumeRecord {
        VolumeRecord {
            id: VolumeId(300),
            name: "größer".into(),
            size_bytes: 1 << 40,
            mode: DedupMode::Offline,
            compression: Compression::Zstd(7),
            read_only: true,
            is_hidden: true,
            birth,
        }
    }

    #[test]
    fn every_record_comes_back_and_no_cut_one_does() {
        let origins = [
            Origin::Empty,
            Origin::Imported,
            Origin::Clone { volume: VolumeId(7), name: "base".into() },
        ];
        for origin in origins {
            for created_s in [None, Some(1_700_000_000)] {
                let record = record(Birth { created_s, origin: origin.clone() });
                let mut bytes = Vec::new();
                record.encode(&mut bytes);
                assert_eq!(VolumeRecord::decode(&mut Reader::new(&bytes)), Some(record));
                for end in 0..bytes.len() {
                    assert_eq!(VolumeRecord::decode(&mut Reader::new(&bytes[..end])), None);
                }
            }
        }
    }
}
