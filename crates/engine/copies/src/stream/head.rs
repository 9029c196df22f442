//! The head of a stream: what it needs, and which snapshot it has.

use super::bytes::{Bytes, put_text};
use gemelo_format::{DedupMode, Features, SnapshotId, VolumeId};
use gemelo_volume::Receipt;

/// The smallest block of a stream in bytes.
pub const MIN_BLOCK_BYTES: u32 = 512;
/// The largest block of a stream in bytes.
pub const MAX_BLOCK_BYTES: u32 = 1 << 20;

/// The features that this program knows; a reader must know all of these.
const KNOWN: Features = Features { incompatible: ALL, ..Features::NONE };
const LZ4: u64 = 1 << 0;
const ZSTD: u64 = 1 << 1;
const SINCE: u64 = 1 << 2;
const EXCHANGE: u64 = 1 << 3;
const FRAMES: u64 = 1 << 4;
const ALL: u64 = LZ4 | ZSTD | SINCE | EXCHANGE | FRAMES;

/// The head of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Size of the snapshot in bytes.
    pub size_bytes: u64,
    /// Bytes at its end that fill up the last block of an import.
    pub padding_bytes: u32,
    /// Identity of the snapshot.
    pub identity: SnapshotId,
    /// The volume of which it is a snapshot, in the pool where it was made; [`None`] if unknown.
    pub source: Option<VolumeId>,
    /// Creation time of the snapshot in seconds since 1970; [`None`] if unknown.
    pub created_s: Option<u64>,
    /// Name of the snapshot where it was sent.
    pub name: String,
    /// The snapshot of which the stream has the differences; [`None`] for a whole one.
    pub since: Option<SnapshotId>,
    /// `true` if contents may be compressed.
    pub is_compressed: bool,
    /// `true` if the sender asks which contents the receiver has.
    pub is_exchange: bool,
    /// `true` if records may be compressed together.
    pub has_compressed_frames: bool,
}

/// The reason why a head is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BadHead {
    Malformed,
    Feature(String),
}

impl Head {
    fn features(&self) -> Features {
        let set = |is_set: bool, features| if is_set { features } else { 0 };
        let incompatible = set(self.is_compressed, LZ4 | ZSTD)
            | set(self.since.is_some(), SINCE)
            | set(self.is_exchange, EXCHANGE)
            | set(self.has_compressed_frames, FRAMES);
        Features { incompatible, ..Features::NONE }
    }

    /// The description by which a pool makes a copy of the snapshot.
    #[must_use]
    pub const fn receipt(&self, mode: DedupMode) -> Receipt {
        Receipt {
            identity: self.identity,
            source: self.source,
            created_s: self.created_s,
            size_bytes: self.size_bytes,
            padding_bytes: self.padding_bytes,
            base: self.since,
            mode,
            goes_on: self.is_exchange,
        }
    }

    /// The number of blocks of the snapshot.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.size_bytes / self.block_bytes as u64
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = self.features().to_bytes().to_vec();
        out.extend_from_slice(&self.block_bytes.to_le_bytes());
        out.extend_from_slice(&self.size_bytes.to_le_bytes());
        out.extend_from_slice(&self.padding_bytes.to_le_bytes());
        out.extend_from_slice(&self.created_s.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&self.identity.to_bytes());
        out.extend_from_slice(&self.source.map_or(0, |source| source.0).to_le_bytes());
        put_text(&mut out, &self.name);
        out.extend(self.since.iter().flat_map(|since| since.to_bytes()));
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, BadHead> {
        let mut bytes = Bytes::new(bytes);
        let features = bytes.array().and_then(|field| Features::from_bytes(&field));
        let features = features.ok_or(BadHead::Malformed)?;
        if let Some(unknown) = features.without(KNOWN).first_incompatible() {
            return Err(BadHead::Feature(unknown));
        }
        Self::rest_from(&mut bytes, features).ok_or(BadHead::Malformed)
    }

    fn rest_from(bytes: &mut Bytes<'_>, features: Features) -> Option<Self> {
        let is_block_size = |bytes: &u32| {
            bytes.is_power_of_two() && (MIN_BLOCK_BYTES..=MAX_BLOCK_BYTES).contains(bytes)
        };
        let block_bytes = bytes.u32().filter(is_block_size)?;
        let is_size = |size: &u64| *size > 0 && size.is_multiple_of(block_bytes.into());
        let size_bytes = bytes.u64().filter(is_size)?;
        let padding_bytes = bytes.u32().filter(|bytes| u64::from(*bytes) < size_bytes)?;
        let created_s = Some(bytes.u64()?).filter(|seconds| *seconds > 0);
        let identity = SnapshotId::from_bytes(&bytes.array()?)?;
        let source = match bytes.u32()? {
            0 => None,
            id => Some(Some(VolumeId(id)).filter(|id| id.is_possible())?),
        };
        let name = bytes.text()?.to_owned();
        let has = |feature| features.incompatible & feature != 0;
        let since = match has(SINCE) {
            true => Some(SnapshotId::from_bytes(&bytes.array()?)?),
            false => None,
        };
        let (is_exchange, is_compressed) = (has(EXCHANGE), has(LZ4 | ZSTD));
        let head = Self {
            block_bytes,
            size_bytes,
            padding_bytes,
            identity,
            source,
            created_s,
            name,
            since,
            is_compressed,
            is_exchange,
            has_compressed_frames: has(FRAMES),
        };
        // A feature that a reader need not know may add to the end.
        let may_add = features.without(KNOWN) != Features::NONE;
        (may_add || bytes.is_empty()).then_some(head)
    }
}
