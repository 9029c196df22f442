//! The record of a volume: all of its metadata except the map.

use super::codec::{Reader, put_text, put_varint};
use super::limits::{Holds, VolumeLimits};
use crate::packed::Compression;
use crate::types::{DedupMode, VolumeId};
use gemelo_base::StatTable;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// Bits of the flags byte.
const READ_ONLY: u8 = 1;
const HIDDEN: u8 = 2;
const UNFINISHED: u8 = 4;

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
    /// Bytes at its end that fill up the last block of an import, so that an export can leave them
    /// out.
    #[stat(skip)]
    #[serde(default)]
    pub padding_bytes: u32,
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
    /// The progress of a volume that is being received, which no client sees; [`None`] for others.
    #[serde(skip)]
    #[stat(skip)]
    pub receiving: Option<Receiving>,
    /// Limits of its load and its space.
    #[stat(skip)]
    #[serde(default)]
    pub limits: VolumeLimits,
    /// The times that it was rolled back to a snapshot. Devices of clients are of one of them.
    #[stat(skip)]
    #[serde(default)]
    pub rollbacks: u32,
    /// The holds of a snapshot, which cannot be removed while it has any.
    #[stat(skip)]
    #[serde(default)]
    pub holds: Holds,
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
    /// It was received from another pool.
    Received {
        /// The snapshot of which it is a copy.
        #[schemars(with = "String")]
        identity: SnapshotId,
        /// The volume of which that is a snapshot, in the pool where it was made; `None` if
        /// unknown.
        #[serde(default)]
        source: Option<VolumeId>,
    },
}

/// The progress of a volume that is being received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Receiving {
    /// The snapshot on which it builds; [`None`] if it is received as a whole.
    pub base: Option<SnapshotId>,
    /// It has all that comes before this byte. Without any, it cannot be continued.
    pub received_bytes: u64,
    /// The time of the last progress in seconds since 1970, UTC; 0 if unknown.
    pub seen_s: u64,
}

impl Receiving {
    /// An unfinished copy is kept for a week after its last progress.
    pub const KEPT_S: u64 = 7 * 86_400;

    /// Returns whether the copy can still be continued at this time. A clock that was set back
    /// makes nothing old.
    #[must_use]
    pub fn is_kept(&self, now_utc_s: Option<u64>) -> bool {
        let age_s = now_utc_s.map_or(0, |now_s| now_s.saturating_sub(self.seen_s));
        self.received_bytes > 0 && (self.seen_s == 0 || age_s <= Self::KEPT_S)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.received_bytes);
        put_varint(out, self.seen_s);
        out.push(u8::from(self.base.is_some()));
        out.extend(self.base.iter().flat_map(|base| base.to_bytes()));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (received_bytes, seen_s) = (reader.varint()?, reader.varint()?);
        let base = match reader.u8()? {
            0 => None,
            1 => Some(SnapshotId::decode(reader)?),
            _ => return None,
        };
        Some(Self { base, received_bytes, seen_s })
    }
}

/// Tells a snapshot from all others, of this pool and of others. A copy keeps the identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SnapshotId {
    /// The pool in which the snapshot was made.
    pub pool: [u8; 16],
    /// Its volume there. Ids are not used twice.
    pub volume: VolumeId,
    /// Its creation time in seconds since 1970; 0 if unknown. A pool that was copied with its disks
    /// makes other snapshots of the same ids later.
    pub created_s: u64,
}

impl SnapshotId {
    /// Bytes of an identity.
    pub const BYTES: usize = 16 + 4 + 8;

    /// The identity of the volume of this record in the pool with this UUID: its own, or that of
    /// the snapshot of which it is a copy. [`None`] for a volume that takes writes.
    #[must_use]
    pub fn of(pool: [u8; 16], record: &VolumeRecord) -> Option<Self> {
        if !record.read_only {
            return None;
        }
        Some(match record.birth.origin {
            Origin::Received { identity, .. } => identity,
            _ => Self { pool, volume: record.id, created_s: record.birth.created_s.unwrap_or(0) },
        })
    }

    /// The volume of which the volume of this record is a snapshot, in the pool where it was made.
    #[must_use]
    pub const fn source_of(record: &VolumeRecord) -> Option<VolumeId> {
        match record.birth.origin {
            Origin::Received { source, .. } => source,
            Origin::Clone { volume, .. } => Some(volume),
            Origin::Empty | Origin::Imported => None,
        }
    }

    /// Encodes the identity.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (pool, rest) = bytes.split_at_mut(16);
        let (volume, created) = rest.split_at_mut(4);
        pool.copy_from_slice(&self.pool);
        volume.copy_from_slice(&self.volume.0.to_le_bytes());
        created.copy_from_slice(&self.created_s.to_le_bytes());
        bytes
    }

    /// Decodes an identity. Returns [`None`] if the bytes are malformed.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        Self::decode(&mut Reader::new(bytes))
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let pool = reader.array()?;
        let volume = Some(VolumeId(reader.u32()?)).filter(|id| id.is_possible())?;
        Some(Self { pool, volume, created_s: reader.u64()? })
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.pool {
            write!(formatter, "{byte:02x}")?;
        }
        write!(formatter, "-{}-{}", self.volume.0, self.created_s)
    }
}

impl FromStr for SnapshotId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = || {
            let mut parts = text.split('-');
            let (digits, volume, created) = (parts.next()?, parts.next()?, parts.next()?);
            if parts.next().is_some() || digits.len() != 32 || !digits.is_ascii() {
                return None;
            }
            let mut pool = [0; 16];
            for (byte, at) in pool.iter_mut().zip((0..).step_by(2)) {
                *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
            }
            let volume = Some(VolumeId(volume.parse().ok()?)).filter(|id| id.is_possible())?;
            Some(Self { pool, volume, created_s: created.parse().ok()? })
        };
        parsed().ok_or("it is no identity of a snapshot")
    }
}

impl Serialize for SnapshotId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SnapshotId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
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
            Origin::Received { identity, source } => {
                out.push(4);
                out.extend_from_slice(&identity.to_bytes());
                out.extend_from_slice(&source.map_or(0, |source| source.0).to_le_bytes());
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let created_s = Some(reader.u64()?).filter(|seconds| *seconds > 0);
        let origin = match reader.u8()? {
            1 => Origin::Empty,
            2 => Origin::Imported,
            3 => Origin::Clone { volume: VolumeId(reader.u32()?), name: reader.text()?.to_owned() },
            4 => {
                let identity = SnapshotId::decode(reader)?;
                Origin::Received { identity, source: source_from(reader)? }
            }
            _ => return None,
        };
        Some(Self { created_s, origin })
    }
}

impl VolumeRecord {
    /// Makes the record of a clone of this volume. Limits and holds are of the volume alone.
    #[must_use]
    pub fn cloned(
        &self,
        id: VolumeId,
        name: &str,
        read_only: bool,
        created_s: Option<u64>,
    ) -> Self {
        let origin = Origin::Clone { volume: self.id, name: self.name.clone() };
        Self {
            id,
            name: name.to_owned(),
            read_only,
            is_hidden: false,
            receiving: None,
            limits: VolumeLimits::default(),
            rollbacks: 0,
            holds: Holds::default(),
            birth: Birth { created_s, origin },
            ..self.clone()
        }
    }

    /// Returns whether the volume is being received.
    #[must_use]
    pub const fn is_unfinished(&self) -> bool {
        self.receiving.is_some()
    }

    /// Gives the volume this size.
    pub const fn resize(&mut self, size_bytes: u64, padding_bytes: u32) {
        (self.size_bytes, self.padding_bytes) = (size_bytes, padding_bytes);
    }

    /// Length in bytes of what was imported; the size of a volume that was not, or that was resized
    /// since.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.size_bytes.saturating_sub(u64::from(self.padding_bytes))
    }

    /// Gives the volume the size of another one, with whose map it goes on.
    pub const fn roll_back(&mut self, (size_bytes, padding_bytes): (u64, u32)) {
        self.resize(size_bytes, padding_bytes);
        self.rollbacks = self.rollbacks.wrapping_add(1);
    }

    /// Makes the volume a copy of a snapshot: an unfinished one, or the snapshot itself.
    pub fn receive(
        &mut self,
        name: &str,
        (identity, source): (SnapshotId, Option<VolumeId>),
        created_s: Option<u64>,
        receiving: Option<Receiving>,
    ) {
        name.clone_into(&mut self.name);
        self.birth = Birth { created_s, origin: Origin::Received { identity, source } };
        (self.read_only, self.receiving) = (receiving.is_none(), receiving);
    }

    /// Adds the record to a table or a change.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0.to_le_bytes());
        put_text(out, &self.name);
        out.extend_from_slice(&self.size_bytes.to_le_bytes());
        out.push(self.mode.byte());
        out.extend_from_slice(&self.compression.bytes());
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        out.push(
            flag(self.read_only, READ_ONLY)
                | flag(self.is_hidden, HIDDEN)
                | flag(self.is_unfinished(), UNFINISHED),
        );
        self.limits.encode(out);
        put_varint(out, u64::from(self.padding_bytes));
        put_varint(out, u64::from(self.rollbacks));
        self.holds.encode(out);
        self.birth.encode(out);
        if let Some(receiving) = self.receiving {
            receiving.encode(out);
        }
    }

    /// Decodes a record. Returns `None` if the bytes are malformed.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let id = Some(VolumeId(reader.u32()?)).filter(|id| id.is_possible())?;
        let name = reader.text()?.to_owned();
        let size_bytes = reader.u64()?;
        let mode = DedupMode::from_byte(reader.u8()?)?;
        let compression = Compression::from_bytes(reader.array()?)?;
        let all = READ_ONLY | HIDDEN | UNFINISHED;
        let flags = reader.u8().filter(|flags| flags & !all == 0)?;
        let limits = VolumeLimits::decode(reader)?;
        let padding_bytes = padding_from(reader, size_bytes)?;
        let rollbacks = u32::try_from(reader.varint()?).ok()?;
        let holds = Holds::decode(reader)?;
        let birth = Birth::decode(reader)?;
        let has = |bit: u8| flags & bit != 0;
        let (read_only, is_hidden) = (has(READ_ONLY), has(HIDDEN));
        let receiving = if has(UNFINISHED) { Some(Receiving::decode(reader)?) } else { None };
        Some(Self {
            id,
            name,
            size_bytes,
            padding_bytes,
            mode,
            compression,
            read_only,
            is_hidden,
            receiving,
            limits,
            rollbacks,
            holds,
            birth,
        })
    }
}

/// Reads the id of a volume, or 0 for none.
pub(super) fn source_from(reader: &mut Reader<'_>) -> Option<Option<VolumeId>> {
    match reader.u32()? {
        0 => Some(None),
        id => Some(Some(VolumeId(id)).filter(|id| id.is_possible())),
    }
}

/// Reads the padding of a volume, which is less than its size.
pub(super) fn padding_from(reader: &mut Reader<'_>, size_bytes: u64) -> Option<u32> {
    let padding = reader.varint()?;
    u32::try_from(padding).ok().filter(|_| padding == 0 || padding < size_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(birth: Birth) -> VolumeRecord {
        VolumeRecord {
            id: VolumeId(300),
            name: "größer".into(),
            size_bytes: 1 << 40,
            padding_bytes: 3519,
            mode: DedupMode::Offline,
            compression: Compression::Zstd(7),
            read_only: true,
            is_hidden: true,
            receiving: Some(Receiving {
                base: Some(IDENTITY),
                received_bytes: 1 << 41,
                seen_s: 1_700_000_002,
            }),
            limits: VolumeLimits { quota_bytes: Some(1 << 40), ..VolumeLimits::default() },
            rollbacks: 3,
            holds: Holds::of(["backup"]),
            birth,
        }
    }

    const IDENTITY: SnapshotId =
        SnapshotId { pool: [0xa7; 16], volume: VolumeId(9), created_s: 1_700_000_001 };

    #[test]
    fn every_record_comes_back_and_no_cut_one_does() {
        let origins = [
            Origin::Empty,
            Origin::Imported,
            Origin::Clone { volume: VolumeId(7), name: "base".into() },
            Origin::Received { identity: IDENTITY, source: None },
            Origin::Received { identity: IDENTITY, source: Some(VolumeId(7)) },
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

    #[test]
    fn an_identity_is_read_as_it_was_written_and_nothing_else_is_one() {
        assert_eq!(SnapshotId::from_bytes(&IDENTITY.to_bytes()), Some(IDENTITY));
        let text = IDENTITY.to_string();
        assert_eq!(text.parse(), Ok(IDENTITY));
        for wrong in ["", "a7", &text[1..], &format!("{text}-1"), &text.replace('a', "é")] {
            assert!(wrong.parse::<SnapshotId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_copy_keeps_the_identity_and_a_volume_that_takes_writes_has_none() {
        let origin = Origin::Received { identity: IDENTITY, source: None };
        let copy = record(Birth { created_s: Some(5), origin });
        assert_eq!(SnapshotId::of([1; 16], &copy), Some(IDENTITY));
        let own = record(Birth { created_s: Some(5), origin: Origin::Empty });
        let expected = SnapshotId { pool: [1; 16], volume: own.id, created_s: 5 };
        assert_eq!(SnapshotId::of([1; 16], &own), Some(expected));
        assert_eq!(SnapshotId::of([1; 16], &VolumeRecord { read_only: false, ..own }), None);
    }
}
