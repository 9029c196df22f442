//! The changes that a commit consists of. Replaying them on the checkpoint before gives the state after.

use super::Version;
use super::codec::{Reader, put_text, put_varint};
use crate::types::{Checksum, DedupMode, Fingerprint, Lbn, Pbn, VolumeId};
use crate::volume::{Birth, VolumeRecord};

/// A change of the metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The LBN has a fresh block.
    Store {
        /// Of which volume.
        volume: VolumeId,
        /// Which LBN.
        lbn: Lbn,
        /// The fresh block.
        pbn: Pbn,
        /// Its fingerprint, if it may be shared.
        fingerprint: Fingerprint,
        /// The checksum of its content.
        checksum: Checksum,
    },
    /// The LBN has an existing block.
    Share {
        /// Of which volume.
        volume: VolumeId,
        /// Which LBN.
        lbn: Lbn,
        /// The existing block.
        pbn: Pbn,
        /// The checksum of its content.
        checksum: Checksum,
    },
    /// The LBNs have no block any more.
    Unmap {
        /// Of which volume.
        volume: VolumeId,
        /// The first LBN.
        first: Lbn,
        /// How many.
        count: u64,
    },
    /// There is a new, empty volume.
    Create(VolumeRecord),
    /// There is a volume less.
    Remove {
        /// Which one.
        volume: VolumeId,
    },
    /// A volume has another name.
    Rename {
        /// Which one.
        volume: VolumeId,
        /// The new name.
        name: String,
    },
    /// A volume has another size.
    Resize {
        /// Which one.
        volume: VolumeId,
        /// The new size in bytes.
        size_bytes: u64,
    },
    /// There is a new volume with size, mode and map of another.
    Clone {
        /// The other one.
        source: VolumeId,
        /// The new one.
        volume: VolumeId,
        /// Its name.
        name: String,
        /// The new volume takes no writes.
        read_only: bool,
        /// Seconds since 1970, UTC, at which it was made; `None` if unknown.
        created_s: Option<u64>,
    },
    /// A volume looks for duplicates from now on, or does not.
    SetMode {
        /// Which one.
        volume: VolumeId,
        /// How.
        mode: DedupMode,
    },
    /// The data store is larger.
    Grow {
        /// Its size in blocks, block 0 included.
        data_blocks: u64,
    },
    /// A block that was stored without a fingerprint has one.
    Identify {
        /// Which block.
        pbn: Pbn,
        /// Its fingerprint.
        fingerprint: Fingerprint,
    },
    /// A volume is going to be removed: nobody sees it any more.
    Hide {
        /// Which one.
        volume: VolumeId,
    },
    /// A hidden volume is complete.
    Show {
        /// Which one.
        volume: VolumeId,
    },
    /// There is a new hidden volume with size and mode of another, whose map follows.
    Begin {
        /// The other one.
        source: VolumeId,
        /// The new one.
        volume: VolumeId,
        /// Its name.
        name: String,
        /// The new volume takes no writes.
        read_only: bool,
        /// Seconds since 1970, UTC, at which it was made; `None` if unknown.
        created_s: Option<u64>,
    },
    /// LBNs of a volume have what those of another have.
    Copy {
        /// The other one.
        source: VolumeId,
        /// Whose LBNs, which were unmapped.
        volume: VolumeId,
        /// The first LBN.
        first: Lbn,
        /// How many.
        count: u64,
    },
    /// A volume is smaller; LBNs beyond its end are unmapped by changes that follow.
    Shrink {
        /// Which one.
        volume: VolumeId,
        /// The new size in bytes.
        size_bytes: u64,
    },
    /// A block was found damaged, or its content was written anew.
    Suspect {
        /// Which block.
        pbn: Pbn,
        /// Whether it is damaged.
        is_suspect: bool,
    },
    /// The contents of LBNs are lost; reads fail until they are written.
    Lose {
        /// Of which volume.
        volume: VolumeId,
        /// The first LBN.
        first: Lbn,
        /// The number of LBNs.
        count: u64,
    },
}

impl Change {
    /// Adds it to a payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let head = |out: &mut Vec<u8>, tag: u8, volume: &VolumeId| {
            out.push(tag);
            put_varint(out, u64::from(volume.0));
        };
        match self {
            Self::Store { volume, lbn, pbn, fingerprint, checksum } => {
                head(out, 1, volume);
                put_varint(out, lbn.0);
                out.extend_from_slice(&pbn.number().to_le_bytes());
                out.extend_from_slice(&fingerprint.to_bytes());
                out.extend_from_slice(&checksum.0.to_le_bytes());
            }
            Self::Share { volume, lbn, pbn, checksum } => {
                head(out, 2, volume);
                put_varint(out, lbn.0);
                out.extend_from_slice(&pbn.number().to_le_bytes());
                out.extend_from_slice(&checksum.0.to_le_bytes());
            }
            Self::Unmap { volume, first, count } => {
                head(out, 3, volume);
                put_varint(out, first.0);
                put_varint(out, *count);
            }
            Self::Create(record) => {
                out.push(19);
                record.encode(out);
            }
            Self::Remove { volume } => head(out, 5, volume),
            Self::Rename { volume, name } => {
                head(out, 6, volume);
                put_text(out, name);
            }
            Self::Resize { volume, size_bytes } => {
                head(out, 7, volume);
                put_varint(out, *size_bytes);
            }
            Self::Clone { source, volume, name, read_only, created_s } => {
                head(out, 20, source);
                put_varint(out, u64::from(volume.0));
                put_text(out, name);
                out.push(u8::from(*read_only));
                put_varint(out, created_s.unwrap_or(0));
            }
            Self::SetMode { volume, mode } => {
                head(out, 9, volume);
                out.push(mode.byte());
            }
            Self::Grow { data_blocks } => {
                out.push(10);
                put_varint(out, *data_blocks);
            }
            Self::Identify { pbn, fingerprint } => {
                out.push(16);
                out.extend_from_slice(&pbn.number().to_le_bytes());
                out.extend_from_slice(&fingerprint.to_bytes());
            }
            Self::Suspect { pbn, is_suspect } => {
                out.push(17);
                out.extend_from_slice(&pbn.number().to_le_bytes());
                out.push(u8::from(*is_suspect));
            }
            Self::Lose { volume, first, count } => {
                head(out, 18, volume);
                put_varint(out, first.0);
                put_varint(out, *count);
            }
            Self::Hide { volume } => head(out, 11, volume),
            Self::Show { volume } => head(out, 12, volume),
            Self::Begin { source, volume, name, read_only, created_s } => {
                head(out, 21, source);
                put_varint(out, u64::from(volume.0));
                put_text(out, name);
                out.push(u8::from(*read_only));
                put_varint(out, created_s.unwrap_or(0));
            }
            Self::Copy { source, volume, first, count } => {
                head(out, 14, source);
                put_varint(out, u64::from(volume.0));
                put_varint(out, first.0);
                put_varint(out, *count);
            }
            Self::Shrink { volume, size_bytes } => {
                head(out, 15, volume);
                put_varint(out, *size_bytes);
            }
        }
    }

    /// The volume whose blocks the change replaces, and how many at most.
    #[must_use]
    pub const fn changed_blocks(&self) -> Option<(VolumeId, u64)> {
        match self {
            Self::Store { volume, .. } | Self::Share { volume, .. } => Some((*volume, 1)),
            Self::Unmap { volume, count, .. }
            | Self::Lose { volume, count, .. }
            | Self::Copy { volume, count, .. } => Some((*volume, *count)),
            _ => None,
        }
    }

    /// All changes of a payload, or `None` if it is none.
    #[must_use]
    pub fn decode_all(payload: &[u8], version: Version) -> Option<Vec<Self>> {
        let mut reader = Reader::new(payload);
        let mut changes = Vec::new();
        while !reader.is_empty() {
            changes.push(Self::decode(&mut reader, version)?);
        }
        Some(changes)
    }

    fn decode(reader: &mut Reader<'_>, version: Version) -> Option<Self> {
        let tag = reader.u8()?;
        match tag {
            10 => return Some(Self::Grow { data_blocks: reader.varint()? }),
            16 => {
                let pbn = Pbn::new(reader.u32()?)?;
                return Some(Self::Identify {
                    pbn,
                    fingerprint: Fingerprint::from_bytes(reader.array()?),
                });
            }
            17 => {
                let pbn = Pbn::new(reader.u32()?)?;
                return Some(Self::Suspect { pbn, is_suspect: reader.u8()? == 1 });
            }
            19 => return VolumeRecord::decode(reader).map(Self::Create),
            _ => {}
        }
        let volume = volume_from(reader)?;
        Some(match tag {
            1 => Self::Store {
                volume,
                lbn: Lbn(reader.varint()?),
                pbn: Pbn::new(reader.u32()?)?,
                fingerprint: Fingerprint::from_bytes(reader.array()?),
                checksum: checksum_from(reader, version)?,
            },
            2 => Self::Share {
                volume,
                lbn: Lbn(reader.varint()?),
                pbn: Pbn::new(reader.u32()?)?,
                checksum: checksum_from(reader, version)?,
            },
            3 => Self::Unmap { volume, first: Lbn(reader.varint()?), count: reader.varint()? },
            4 => Self::Create(VolumeRecord {
                id: volume,
                name: reader.text()?.to_owned(),
                size_bytes: reader.varint()?,
                mode: DedupMode::from_byte(reader.u8()?)?,
                read_only: false,
                is_hidden: false,
                birth: Birth::default(),
            }),
            5 => Self::Remove { volume },
            6 => Self::Rename { volume, name: reader.text()?.to_owned() },
            7 => Self::Resize { volume, size_bytes: reader.varint()? },
            8 | 20 => Self::Clone {
                source: volume,
                volume: volume_from(reader)?,
                name: reader.text()?.to_owned(),
                read_only: reader.u8()? == 1,
                created_s: if tag == 20 { created_from(reader)? } else { None },
            },
            9 => Self::SetMode { volume, mode: DedupMode::from_byte(reader.u8()?)? },
            11 => Self::Hide { volume },
            12 => Self::Show { volume },
            13 | 21 => Self::Begin {
                source: volume,
                volume: volume_from(reader)?,
                name: reader.text()?.to_owned(),
                read_only: reader.u8()? == 1,
                created_s: if tag == 21 { created_from(reader)? } else { None },
            },
            14 => Self::Copy {
                source: volume,
                volume: volume_from(reader)?,
                first: Lbn(reader.varint()?),
                count: reader.varint()?,
            },
            15 => Self::Shrink { volume, size_bytes: reader.varint()? },
            18 => Self::Lose { volume, first: Lbn(reader.varint()?), count: reader.varint()? },
            _ => return None,
        })
    }
}

fn volume_from(reader: &mut Reader<'_>) -> Option<VolumeId> {
    u32::try_from(reader.varint()?).ok().map(VolumeId)
}

/// A creation time, of which 0 means that it is unknown.
fn created_from(reader: &mut Reader<'_>) -> Option<Option<u64>> {
    reader.varint().map(|seconds| Some(seconds).filter(|seconds| *seconds > 0))
}

/// A change of format version 1 has no checksum; its conversion computes it from the content.
fn checksum_from(reader: &mut Reader<'_>, version: Version) -> Option<Checksum> {
    match version {
        Version::V1 => Some(Checksum(0)),
        Version::V2 => reader.u32().map(Checksum),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::Origin;
    use proptest::prelude::*;

    fn one_of_each() -> Vec<Change> {
        let volume = VolumeId(300);
        let pbn = Pbn::new(70_000).unwrap();
        let name = String::from("a name");
        vec![
            Change::Store {
                volume,
                lbn: Lbn(1 << 36),
                pbn,
                fingerprint: Fingerprint::of_hash(5 << 90),
                checksum: Checksum(77),
            },
            Change::Share { volume, lbn: Lbn(0), pbn, checksum: Checksum(u32::MAX) },
            Change::Suspect { pbn, is_suspect: true },
            Change::Lose { volume, first: Lbn(3), count: 4 },
            Change::Unmap { volume, first: Lbn(7), count: 1 << 30 },
            Change::Create(VolumeRecord {
                id: volume,
                name: name.clone(),
                size_bytes: 1 << 50,
                mode: DedupMode::Inline,
                read_only: true,
                is_hidden: false,
                birth: Birth { created_s: Some(1 << 31), origin: Origin::Empty },
            }),
            Change::Remove { volume },
            Change::Rename { volume, name: name.clone() },
            Change::Resize { volume, size_bytes: 512 },
            Change::Clone {
                source: VolumeId(1),
                volume,
                name: name.clone(),
                read_only: true,
                created_s: Some(1_700_000_000),
            },
            Change::Begin { source: VolumeId(1), volume, name, read_only: false, created_s: None },
            Change::Copy { source: VolumeId(1), volume, first: Lbn(1 << 20), count: 9 },
            Change::Hide { volume },
            Change::Show { volume },
            Change::Shrink { volume, size_bytes: 1024 },
            Change::SetMode { volume, mode: DedupMode::Off },
            Change::Grow { data_blocks: 9 },
            Change::Identify { pbn, fingerprint: Fingerprint::of_hash(6 << 80) },
        ]
    }

    #[test]
    fn every_change_comes_back_and_no_cut_one_does() {
        let mut payload = Vec::new();
        for change in one_of_each() {
            let mut one = Vec::new();
            change.encode(&mut one);
            for end in 1..one.len() {
                assert_eq!(
                    Change::decode_all(&one[..end], Version::V2),
                    None,
                    "{change:?} cut at {end}"
                );
            }
            payload.extend(one);
        }
        assert_eq!(Change::decode_all(&payload, Version::V2), Some(one_of_each()));
    }

    /// Tags 4, 8 and 13 are those of pools from before volumes had a creation time.
    #[test]
    fn an_older_change_has_no_creation_time() {
        let name = [2, 0, b'a', b'b'];
        let create = [&[4, 9][..], &name, &[128, 4, 1]].concat();
        let clone = [&[8, 9, 10][..], &name, &[1]].concat();
        let begin = [&[13, 9, 10][..], &name, &[0]].concat();
        let (source, volume, name) = (VolumeId(9), VolumeId(10), String::from("ab"));
        let expected = vec![
            Change::Create(VolumeRecord {
                id: source,
                name: name.clone(),
                size_bytes: 512,
                mode: DedupMode::Inline,
                read_only: false,
                is_hidden: false,
                birth: Birth::default(),
            }),
            Change::Clone { source, volume, name: name.clone(), read_only: true, created_s: None },
            Change::Begin { source, volume, name, read_only: false, created_s: None },
        ];
        let payload = [create, clone, begin].concat();
        assert_eq!(Change::decode_all(&payload, Version::V2), Some(expected));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
            let _ = Change::decode_all(&bytes, Version::V2);
        }
    }
}
