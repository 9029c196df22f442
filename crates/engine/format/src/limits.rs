//! Limits of a volume, and holds of a snapshot.

use super::codec::{Reader, put_text, put_varint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The limits of a volume's load, and of its space. [`None`] stands for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, JsonSchema, Serialize, Deserialize)]
pub struct VolumeLimits {
    /// Most reads, writes, trims and writes of zeros a second.
    #[serde(default)]
    pub operations_per_s: Option<u64>,
    /// Most bytes that are read and written a second.
    #[serde(default)]
    pub bytes_per_s: Option<u64>,
    /// The time for which a volume that was idle saves these rates, in milliseconds; a second if it
    /// is not set.
    #[serde(default)]
    pub burst_ms: Option<u64>,
    /// Most bytes of blocks that hold data. Each counts, whether others have the same content or
    /// not.
    #[serde(default)]
    pub quota_bytes: Option<u64>,
    /// Bytes of blocks for which the data store keeps room.
    #[serde(default)]
    pub reserve_bytes: Option<u64>,
}

impl VolumeLimits {
    /// The burst of a volume for which none is set, in milliseconds.
    pub const USUAL_BURST_MS: u64 = 1000;

    const fn fields(&self) -> [Option<u64>; 5] {
        [
            self.operations_per_s,
            self.bytes_per_s,
            self.burst_ms,
            self.quota_bytes,
            self.reserve_bytes,
        ]
    }

    /// Adds the limits to a record; 0 stands for none.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.fields().iter().for_each(|limit| put_varint(out, limit.unwrap_or(0)));
    }

    /// Decodes limits. Returns [`None`] if the bytes are malformed.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let mut next = || Some(Some(reader.varint()?).filter(|limit| *limit > 0));
        Some(Self {
            operations_per_s: next()?,
            bytes_per_s: next()?,
            burst_ms: next()?,
            quota_bytes: next()?,
            reserve_bytes: next()?,
        })
    }
}

/// The holds of a snapshot, each with a tag that says who needs it.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Holds(BTreeSet<String>);

impl Holds {
    /// Most holds of a snapshot.
    pub const MOST: usize = 4;
    /// Most bytes of a tag.
    pub const MAX_TAG_BYTES: usize = 32;

    /// The holds with these tags.
    pub fn of<'t>(tags: impl IntoIterator<Item = &'t str>) -> Self {
        Self(tags.into_iter().map(str::to_owned).collect())
    }

    /// The tags, in order.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns whether nobody holds the snapshot.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether there is a hold with this tag.
    #[must_use]
    pub fn has(&self, tag: &str) -> bool {
        self.0.contains(tag)
    }

    /// Returns whether another hold can be added.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.0.len() < Self::MOST
    }

    /// Returns whether a hold can have this tag.
    #[must_use]
    pub fn is_tag(tag: &str) -> bool {
        (1..=Self::MAX_TAG_BYTES).contains(&tag.len()) && !tag.chars().any(char::is_control)
    }

    /// Adds or takes away the hold with this tag. There are never more than [`Self::MOST`].
    pub fn set(&mut self, tag: &str, is_held: bool) {
        if !is_held {
            self.0.remove(tag);
        } else if self.has_room() {
            self.0.insert(tag.to_owned());
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0.len() as u64);
        self.0.iter().for_each(|tag| put_text(out, tag));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let count = reader.varint().filter(|count| *count <= Self::MOST as u64)?;
        let mut tags = BTreeSet::new();
        for _ in 0..count {
            let tag = reader.text().filter(|tag| Self::is_tag(tag))?;
            tags.insert(tag.to_owned());
        }
        Some(Self(tags))
    }
}
