//! The header of a shard: its state, its version and the number of its entries.

use crate::codec::{Reader, Reason, Writer};

/// The key of the header in a shard's object.
pub(crate) const HEADER_KEY: &str = "header";

/// The life of a shard. It only moves forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShardState {
    /// A split copies entries into it; nobody else uses it.
    Filling,
    /// It is in use.
    Open,
    /// It is being split: no change is accepted any more.
    Sealed,
    /// Its two halves are in use. Only the receipts of members remain.
    Split,
}

/// The header of a shard. Every change of a shard raises the version, and is guarded by the header
/// as it was read: a change that was planned before another one took effect never takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShardHeader {
    /// Open for changes, or a step of a split.
    pub state: ShardState,
    /// The number of changes.
    pub version: u64,
    /// The number of entries. A shard that is split has those that are yet to be removed.
    pub entries: u64,
}

impl ShardHeader {
    /// The header of a new shard.
    #[must_use]
    pub const fn new(state: ShardState) -> Self {
        Self { state, version: 0, entries: 0 }
    }

    pub(crate) const fn next(self, state: ShardState, entries: u64) -> Self {
        Self { state, version: self.version + 1, entries }
    }

    /// Returns the encoded header.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        let tag = match self.state {
            ShardState::Filling => 0,
            ShardState::Open => 1,
            ShardState::Sealed => 2,
            ShardState::Split => 3,
        };
        Writer::new(tag).u64(self.version).u64(self.entries).finish(HEADER_KEY)
    }

    pub(crate) fn decode(value: Option<&[u8]>) -> Result<Self, Reason> {
        let mut reader = Reader::new(HEADER_KEY, value.ok_or("it is missing")?)?;
        let state = match reader.tag {
            0 => ShardState::Filling,
            1 => ShardState::Open,
            2 => ShardState::Sealed,
            3 => ShardState::Split,
            _ => return Err("its state is unknown"),
        };
        let (version, entries) = (reader.count()?, reader.count()?);
        reader.finish()?;
        Ok(Self { state, version, entries })
    }
}
