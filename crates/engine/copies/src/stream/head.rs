//! The head of a stream: what it needs, and which snapshot it has.

use super::bytes::{Bytes, put_text};
use gemelo_format::{SnapshotId, VolumeId};

/// The smallest block of a stream in bytes.
pub const MIN_BLOCK_BYTES: u32 = 512;
/// The largest block of a stream in bytes.
pub const MAX_BLOCK_BYTES: u32 = 1 << 20;

/// The features that a reader must know, by name.
const KNOWN_FEATURES: [&str; 4] = [LZ4, ZSTD, SINCE, EXCHANGE];
const LZ4: &str = "lz4";
const ZSTD: &str = "zstd";
const SINCE: &str = "since";
const EXCHANGE: &str = "exchange";
/// Most features of a stream.
const MAX_FEATURES: u8 = 64;

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
}

/// The reason why a head is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BadHead {
    Malformed,
    Feature(String),
}

impl Head {
    fn features(&self) -> Vec<&'static str> {
        let mut features = Vec::new();
        if self.is_compressed {
            features.extend([LZ4, ZSTD]);
        }
        features.extend(self.since.map(|_| SINCE));
        features.extend(self.is_exchange.then_some(EXCHANGE));
        features
    }

    /// The number of blocks of the snapshot.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.size_bytes / self.block_bytes as u64
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let (mut out, features) = (Vec::new(), self.features());
        out.push(features.len() as u8);
        features.iter().for_each(|feature| put_text(&mut out, feature));
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
        let features = features_from(&mut bytes).ok_or(BadHead::Malformed)?;
        if let Some(unknown) = features.iter().find(|name| !KNOWN_FEATURES.contains(name)) {
            return Err(BadHead::Feature((*unknown).to_owned()));
        }
        Self::rest_from(&mut bytes, &features).ok_or(BadHead::Malformed)
    }

    fn rest_from(bytes: &mut Bytes<'_>, features: &[&str]) -> Option<Self> {
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
        let since = match features.contains(&SINCE) {
            true => Some(SnapshotId::from_bytes(&bytes.array()?)?),
            false => None,
        };
        let is_exchange = features.contains(&EXCHANGE);
        let is_compressed = features.contains(&LZ4) || features.contains(&ZSTD);
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
        };
        bytes.is_empty().then_some(head)
    }
}

fn features_from<'a>(bytes: &mut Bytes<'a>) -> Option<Vec<&'a str>> {
    let count = bytes.u8().filter(|count| *count <= MAX_FEATURES)?;
    (0..count).map(|_| bytes.text()).collect()
}
