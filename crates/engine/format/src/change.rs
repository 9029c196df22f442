//! The changes that make up a commit. Replaying them on a checkpoint gives the state after the
//! commit.

use super::codec::{Reader, put_text, put_varint};
use crate::limits::{Holds, VolumeLimits};
use crate::packed::Compression;
use crate::types::{Checksum, DedupMode, Fingerprint, Lbn, Pbn, VolumeId};
use crate::volume::{Receiving, SnapshotId, VolumeRecord, padding_from, source_from};

mod bad;
mod effects;
mod of_store;

pub use bad::BadChange;

/// A change of the metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Maps an LBN to a fresh block.
    Store {
        /// The volume of the LBN.
        volume: VolumeId,
        /// The LBN that is mapped.
        lbn: Lbn,
        /// The block, to which nothing referred before.
        pbn: Pbn,
        /// The fingerprint of the content, or none if the block may not be shared.
        fingerprint: Fingerprint,
        /// The checksum of the content.
        checksum: Checksum,
    },
    /// Maps an LBN to an existing block.
    Share {
        /// The volume of the LBN.
        volume: VolumeId,
        /// The LBN that is mapped.
        lbn: Lbn,
        /// The block, to which other LBNs refer already.
        pbn: Pbn,
        /// The checksum of the content.
        checksum: Checksum,
    },
    /// Unmaps a range of LBNs, which read as zeros from then on.
    Unmap {
        /// The volume of the LBNs.
        volume: VolumeId,
        /// The first LBN that is unmapped.
        first: Lbn,
        /// The number of LBNs.
        count: u64,
    },
    /// Adds a new, empty volume.
    Create(VolumeRecord),
    /// Removes a volume with its map. Blocks without another reference are freed.
    Remove {
        /// The id of the volume.
        volume: VolumeId,
    },
    /// Gives a volume another name; its id stays.
    Rename {
        /// The id of the volume.
        volume: VolumeId,
        /// The name that the volume gets.
        name: String,
    },
    /// Changes the size of a volume at once: LBNs beyond the new end are unmapped.
    Resize {
        /// The id of the volume.
        volume: VolumeId,
        /// The new size in bytes.
        size_bytes: u64,
        /// Bytes at its end that fill up the last block of an import.
        padding_bytes: u32,
    },
    /// Adds a new volume with the size, mode and map of another.
    Clone {
        /// The id of the other volume.
        source: VolumeId,
        /// The id of the new volume.
        volume: VolumeId,
        /// The name of the new volume.
        name: String,
        /// `true` if the new volume takes no writes.
        read_only: bool,
        /// Creation time in seconds since 1970, UTC; `None` if unknown.
        created_s: Option<u64>,
    },
    /// Sets the deduplication mode of a volume.
    SetMode {
        /// The id of the volume.
        volume: VolumeId,
        /// The mode that the volume gets.
        mode: DedupMode,
    },
    /// Sets the compression of a volume's further writes.
    SetCompression {
        /// The id of the volume.
        volume: VolumeId,
        /// The compression that the volume gets.
        compression: Compression,
    },
    /// Enlarges the data store.
    Grow {
        /// The new size in blocks, block 0 included.
        data_blocks: u64,
    },
    /// Moves the content of a block to a fresh one, with all references to it.
    Move {
        /// The block that had the content, which is free from then on.
        from: Pbn,
        /// The block that has it, to which nothing referred before.
        to: Pbn,
        /// The checksum of the content.
        checksum: Checksum,
    },
    /// Makes the data store smaller. No block at or beyond its new end has a content.
    Cut {
        /// The new size in blocks, block 0 included.
        data_blocks: u64,
    },
    /// Gives a fingerprint to a block that was stored without one.
    Identify {
        /// The block whose content was fingerprinted.
        pbn: Pbn,
        /// The fingerprint of its content.
        fingerprint: Fingerprint,
    },
    /// Hides a volume from clients, before it is removed.
    Hide {
        /// The id of the volume.
        volume: VolumeId,
    },
    /// Makes a volume smaller. Changes that follow unmap the LBNs beyond its end.
    Shrink {
        /// The id of the volume.
        volume: VolumeId,
        /// The new size in bytes.
        size_bytes: u64,
        /// Bytes at its end that fill up the last block of an import.
        padding_bytes: u32,
    },
    /// Marks a block as damaged, or clears the mark of a block whose content was written anew.
    Suspect {
        /// The block whose content is doubtful.
        pbn: Pbn,
        /// `true` if the block is damaged.
        is_suspect: bool,
    },
    /// Marks the contents of LBNs as lost; reads fail until they are written.
    Lose {
        /// The volume of the LBNs.
        volume: VolumeId,
        /// The first LBN of the range.
        first: Lbn,
        /// The number of LBNs.
        count: u64,
    },
    /// Makes a volume a copy of a snapshot of another pool. It is unfinished, or a snapshot.
    Receive {
        /// The id of the volume.
        volume: VolumeId,
        /// The name that the volume gets.
        name: String,
        /// The snapshot of which it is a copy.
        identity: SnapshotId,
        /// The volume of which that is a snapshot; [`None`] if unknown.
        source: Option<VolumeId>,
        /// Creation time in seconds since 1970, UTC; `None` if unknown.
        created_s: Option<u64>,
        /// Its progress while it is filled; [`None`] if it is a snapshot now.
        receiving: Option<Receiving>,
    },
    /// Gives a volume the map and the size of another one. The map that it had goes to a new,
    /// hidden volume.
    Rollback {
        /// The id of the volume, which keeps its name and its settings.
        volume: VolumeId,
        /// The id of the other volume.
        source: VolumeId,
        /// The id of the hidden volume.
        left: VolumeId,
    },
    /// Adds a hold to a snapshot, or takes one away.
    Hold {
        /// The id of the snapshot.
        volume: VolumeId,
        /// The tag of the hold.
        tag: String,
        /// `true` to add it.
        is_held: bool,
    },
    /// Sets the limits of a volume.
    SetLimits {
        /// The id of the volume.
        volume: VolumeId,
        /// The limits that the volume gets.
        limits: VolumeLimits,
    },
    /// Carries the content of a block that the same commit stores or heals. The data store may lack
    /// it.
    JournalData {
        /// The block that has the content.
        pbn: Pbn,
        /// The content, a whole block.
        content: Vec<u8>,
    },
}

impl Change {
    /// Most bytes of an encoded [`Self::JournalData`] besides its content.
    pub const JOURNAL_DATA_HEAD_BYTES: usize = 1 + 6 + 5;

    /// Appends an encoded [`Self::JournalData`] to a payload.
    pub fn encode_journal_data(pbn: Pbn, content: &[u8], out: &mut Vec<u8>) {
        out.push(19);
        put_pbn(out, pbn);
        put_varint(out, content.len() as u64);
        out.extend_from_slice(content);
    }

    /// Appends the encoded change to a payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Store { volume, lbn, pbn, fingerprint, checksum } => {
                put_mapped(out, 1, *volume, *lbn, *pbn);
                out.extend_from_slice(&fingerprint.to_bytes());
                out.extend_from_slice(&checksum.0.to_le_bytes());
            }
            Self::Share { volume, lbn, pbn, checksum } => {
                put_mapped(out, 2, *volume, *lbn, *pbn);
                out.extend_from_slice(&checksum.0.to_le_bytes());
            }
            Self::Unmap { volume, first, count } => put_range(out, 3, *volume, *first, *count),
            Self::Create(record) => {
                out.push(4);
                record.encode(out);
            }
            Self::Receive { volume, name, identity, source, created_s, receiving } => {
                put_head(out, 21, *volume);
                put_text(out, name);
                out.extend_from_slice(&identity.to_bytes());
                out.extend_from_slice(&source.map_or(0, |source| source.0).to_le_bytes());
                put_varint(out, created_s.unwrap_or(0));
                out.push(u8::from(receiving.is_none()));
                receiving.iter().for_each(|receiving| receiving.encode(out));
            }
            Self::Remove { volume } => put_head(out, 5, *volume),
            Self::Rename { volume, name } => {
                put_head(out, 6, *volume);
                put_text(out, name);
            }
            Self::Resize { volume, size_bytes, padding_bytes } => {
                put_size(out, 7, *volume, (*size_bytes, *padding_bytes));
            }
            Self::Clone { source, volume, name, read_only, created_s } => {
                put_head(out, 8, *source);
                put_varint(out, u64::from(volume.0));
                put_text(out, name);
                out.push(u8::from(*read_only));
                // No volume was made in the first second of 1970, so 0 stands for an unknown time.
                put_varint(out, created_s.unwrap_or(0));
            }
            Self::Lose { volume, first, count } => put_range(out, 18, *volume, *first, *count),
            Self::Hide { volume } => put_head(out, 11, *volume),
            Self::Shrink { volume, size_bytes, padding_bytes } => {
                put_size(out, 15, *volume, (*size_bytes, *padding_bytes));
            }
            Self::JournalData { pbn, content } => Self::encode_journal_data(*pbn, content, out),
            Self::SetMode { .. }
            | Self::SetCompression { .. }
            | Self::SetLimits { .. }
            | Self::Hold { .. }
            | Self::Rollback { .. } => self.encode_setting(out),
            Self::Grow { .. }
            | Self::Cut { .. }
            | Self::Move { .. }
            | Self::Identify { .. }
            | Self::Suspect { .. } => self.encode_of_store(out),
        }
    }

    /// Appends an encoded change of a volume's settings or of its whole map.
    fn encode_setting(&self, out: &mut Vec<u8>) {
        match self {
            Self::SetMode { volume, mode } => {
                put_head(out, 9, *volume);
                out.push(mode.byte());
            }
            Self::SetCompression { volume, compression } => {
                put_head(out, 20, *volume);
                out.extend_from_slice(&compression.bytes());
            }
            Self::Rollback { volume, source, left } => {
                put_head(out, 22, *volume);
                put_varint(out, u64::from(source.0));
                put_varint(out, u64::from(left.0));
            }
            Self::Hold { volume, tag, is_held } => {
                put_head(out, 23, *volume);
                put_text(out, tag);
                out.push(u8::from(*is_held));
            }
            Self::SetLimits { volume, limits } => {
                put_head(out, 24, *volume);
                limits.encode(out);
            }
            _ => {}
        }
    }

    /// Decodes all changes of a payload. `pbn_of` has no PBN for a block that the pool cannot have.
    ///
    /// # Errors
    /// Fails with the reason at the first change that cannot be decoded.
    pub fn decode_all(
        payload: &[u8],
        pbn_of: impl Fn(u64) -> Option<Pbn> + Copy,
    ) -> Result<Vec<Self>, BadChange> {
        let mut reader = Reader::new(payload);
        let mut changes = Vec::new();
        while !reader.is_empty() {
            let tag = reader.u8().ok_or(BadChange::Malformed)?;
            if !Self::is_known(tag) {
                return Err(BadChange::Unknown { tag });
            }
            let change = Self::decode(tag, &mut reader, pbn_of);
            changes.push(change.ok_or(BadChange::Malformed)?);
        }
        Ok(changes)
    }

    /// Returns whether a change has this tag. Those between were given to no change of version 1.
    const fn is_known(tag: u8) -> bool {
        matches!(tag, 1..=11 | 15..=26)
    }

    fn decode(
        tag: u8,
        reader: &mut Reader<'_>,
        pbn_of: impl Fn(u64) -> Option<Pbn>,
    ) -> Option<Self> {
        match tag {
            10 | 16 | 17 | 25 | 26 => return Self::decode_of_store(tag, reader, pbn_of),
            4 => return VolumeRecord::decode(reader).map(Self::Create),
            19 => {
                let pbn = pbn_of(reader.varint()?)?;
                let bytes = usize::try_from(reader.varint()?).ok()?;
                return Some(Self::JournalData { pbn, content: reader.bytes(bytes)?.to_vec() });
            }
            _ => {}
        }
        let volume = volume_from(reader)?;
        Some(match tag {
            1 => Self::Store {
                volume,
                lbn: Lbn(reader.varint()?),
                pbn: pbn_of(reader.varint()?)?,
                fingerprint: Fingerprint::from_bytes(reader.array()?),
                checksum: checksum_from(reader)?,
            },
            2 => Self::Share {
                volume,
                lbn: Lbn(reader.varint()?),
                pbn: pbn_of(reader.varint()?)?,
                checksum: checksum_from(reader)?,
            },
            3 => Self::Unmap { volume, first: Lbn(reader.varint()?), count: reader.varint()? },
            5 => Self::Remove { volume },
            6 => Self::Rename { volume, name: reader.text()?.to_owned() },
            7 => {
                let (size_bytes, padding_bytes) = size_from(reader)?;
                Self::Resize { volume, size_bytes, padding_bytes }
            }
            8 => Self::Clone {
                source: volume,
                volume: volume_from(reader)?,
                name: reader.text()?.to_owned(),
                read_only: reader.flag()?,
                created_s: created_from(reader)?,
            },
            11 => Self::Hide { volume },
            15 => {
                let (size_bytes, padding_bytes) = size_from(reader)?;
                Self::Shrink { volume, size_bytes, padding_bytes }
            }
            21 => Self::Receive {
                volume,
                name: reader.text()?.to_owned(),
                identity: SnapshotId::decode(reader)?,
                source: source_from(reader)?,
                created_s: created_from(reader)?,
                receiving: match reader.flag()? {
                    true => None,
                    false => Some(Receiving::decode(reader)?),
                },
            },
            18 => Self::Lose { volume, first: Lbn(reader.varint()?), count: reader.varint()? },
            _ => return Self::decode_setting(tag, volume, reader),
        })
    }

    /// Decodes a change of a volume's settings or of its whole map.
    fn decode_setting(tag: u8, volume: VolumeId, reader: &mut Reader<'_>) -> Option<Self> {
        Some(match tag {
            9 => Self::SetMode { volume, mode: DedupMode::from_byte(reader.u8()?)? },
            20 => Self::SetCompression { volume, compression: compression_from(reader)? },
            22 => {
                Self::Rollback { volume, source: volume_from(reader)?, left: volume_from(reader)? }
            }
            23 => Self::Hold {
                volume,
                tag: reader.text().filter(|tag| Holds::is_tag(tag))?.to_owned(),
                is_held: reader.flag()?,
            },
            24 => Self::SetLimits { volume, limits: VolumeLimits::decode(reader)? },
            _ => return None,
        })
    }
}

fn compression_from(reader: &mut Reader<'_>) -> Option<Compression> {
    Compression::from_bytes(reader.array()?)
}

fn put_head(out: &mut Vec<u8>, tag: u8, volume: VolumeId) {
    out.push(tag);
    put_varint(out, u64::from(volume.0));
}

fn put_pbn(out: &mut Vec<u8>, pbn: Pbn) {
    put_varint(out, pbn.number());
}

fn put_mapped(out: &mut Vec<u8>, tag: u8, volume: VolumeId, lbn: Lbn, pbn: Pbn) {
    put_head(out, tag, volume);
    put_varint(out, lbn.0);
    put_pbn(out, pbn);
}

fn put_range(out: &mut Vec<u8>, tag: u8, volume: VolumeId, first: Lbn, count: u64) {
    put_head(out, tag, volume);
    put_varint(out, first.0);
    put_varint(out, count);
}

fn put_size(out: &mut Vec<u8>, tag: u8, volume: VolumeId, (size_bytes, padding_bytes): (u64, u32)) {
    put_head(out, tag, volume);
    put_varint(out, size_bytes);
    put_varint(out, u64::from(padding_bytes));
}

fn size_from(reader: &mut Reader<'_>) -> Option<(u64, u32)> {
    let size_bytes = reader.varint()?;
    Some((size_bytes, padding_from(reader, size_bytes)?))
}

fn volume_from(reader: &mut Reader<'_>) -> Option<VolumeId> {
    let id = u32::try_from(reader.varint()?).ok().map(VolumeId);
    id.filter(|id| id.is_possible())
}

/// Reads a creation time; 0 stands for an unknown one.
fn created_from(reader: &mut Reader<'_>) -> Option<Option<u64>> {
    reader.varint().map(|seconds| Some(seconds).filter(|seconds| *seconds > 0))
}

fn checksum_from(reader: &mut Reader<'_>) -> Option<Checksum> {
    reader.u32().map(Checksum)
}

#[cfg(test)]
mod tests;
