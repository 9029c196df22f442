//! The values of a ledger's page. The records of neighbouring blocks are in one value, because each
//! key has a cost of its own. Kinds and fingerprints are apart: a take-over reads the kinds only.

use crate::record::{BlockState, Elsewhere, Place};
use gemelo_domain::MemberId;
use gemelo_domain::codec::{Reader, Reason, Writer};
use gemelo_format::{Fingerprint, Pbn};

/// Blocks whose kinds are in one value. A take-over reads one key for all of them.
pub(crate) const KIND_BLOCKS: u32 = 256;
/// Blocks whose fingerprints are in one value. A change of one writes 16 bytes for each of them.
pub(crate) const FINGERPRINT_BLOCKS: u32 = 32;

/// Keys sort so that the fingerprints of a page come before its kinds and its version.
const KINDS: &str = "k.";
const FINGERPRINTS: &str = "f.";
/// A listing that begins here leaves out the fingerprints.
pub(crate) const AFTER_FINGERPRINTS: &str = "g";

/// Bytes of a set of a group's blocks: a bit for each.
const SET_BYTES: usize = KIND_BLOCKS as usize / 8;
const UNKNOWN: Reason = "its kinds are unknown";
const NO_BLOCK: Reason = "it is no block";
const REPEATED: Reason = "a block has two kinds";

/// A group of values: the value of each block that has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group<T, const BLOCKS: u32> {
    number: u32,
    values: Vec<Option<T>>,
}

/// The kinds of a group's blocks.
///
/// The byte after the version has bit t if a block has kind t. For each of these, in order: the set
/// of its blocks, and the other place of each block of it, if the kind has one.
pub(crate) type Kinds = Group<BlockState, KIND_BLOCKS>;

/// The fingerprints of a group's blocks: the set of the blocks, and the fingerprint of each.
pub(crate) type Fingerprints = Group<Fingerprint, FINGERPRINT_BLOCKS>;

impl<T: Copy, const BLOCKS: u32> Group<T, BLOCKS> {
    /// Returns the number of the group of a block.
    pub(crate) const fn number_of(pbn: Pbn) -> u32 {
        pbn.narrow() / BLOCKS
    }

    /// Creates a group without values.
    pub(crate) fn new(number: u32) -> Self {
        Self { number, values: vec![None; BLOCKS as usize] }
    }

    /// Returns the number of the first block of a group.
    pub(crate) const fn first_block(number: u32) -> u32 {
        number.saturating_mul(BLOCKS)
    }

    pub(crate) fn get(&self, pbn: Pbn) -> Option<T> {
        self.values.get((pbn.narrow() % BLOCKS) as usize).copied().flatten()
    }

    pub(crate) fn set(&mut self, pbn: Pbn, value: Option<T>) {
        if let Some(slot) = self.values.get_mut((pbn.narrow() % BLOCKS) as usize) {
            *slot = value;
        }
    }

    /// Returns the blocks that have a value, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Pbn, T)> {
        let found = self.values.iter().zip(0..);
        found.filter_map(|(value, at)| Some((Self::pbn(self.number, at)?, (*value)?)))
    }

    fn pbn(number: u32, at: u32) -> Option<Pbn> {
        Pbn::new(number.checked_mul(BLOCKS)?.checked_add(at)?.into())
    }

    /// Adds a value of a damaged group.
    fn add(&mut self, at: u32, value: T) -> Result<(), Reason> {
        let pbn = Self::pbn(self.number, at).ok_or(NO_BLOCK)?;
        if self.get(pbn).is_some() {
            return Err(REPEATED);
        }
        self.set(pbn, Some(value));
        Ok(())
    }
}

/// Returns the number of the group of a key.
fn number_of_key(prefix: &str, key: &str) -> Option<u32> {
    let number = u32::from_str_radix(key.strip_prefix(prefix)?, 16).ok()?;
    (key == key_of(prefix, number)).then_some(number)
}

fn key_of(prefix: &str, number: u32) -> String {
    format!("{prefix}{number:08x}")
}

impl Kinds {
    pub(crate) fn key(number: u32) -> String {
        key_of(KINDS, number)
    }

    /// Returns the number of the group, if the key is one of kinds.
    pub(crate) fn number_of_key(key: &str) -> Option<u32> {
        number_of_key(KINDS, key)
    }

    /// Returns the value, unless no block has a kind.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let mut sets = [[0_u8; SET_BYTES]; TAGS];
        let mut places = [const { Vec::new() }; TAGS];
        for (at, kind) in self.values.iter().enumerate() {
            let Some(kind) = kind else { continue };
            let tag = tag_of(*kind);
            if let Some(byte) = sets.get_mut(tag).and_then(|set| set.get_mut(at / 8)) {
                *byte |= 1 << (at % 8);
            }
            if let (Some(places), Some((home, pbn))) = (places.get_mut(tag), kind.place()) {
                places.extend(home.0.to_le_bytes());
                places.extend(pbn.narrow().to_le_bytes());
            }
        }
        let is_used = |tag: &usize| sets.get(*tag).is_some_and(|set| *set != [0; SET_BYTES]);
        let used = (0..TAGS).filter(is_used).fold(0, |used, tag| used | 1 << tag);
        let mut writer = Writer::new(used);
        for (set, places) in sets.iter().zip(&places).filter(|(set, _)| **set != [0; SET_BYTES]) {
            writer = writer.bytes(set).bytes(places);
        }
        (used != 0).then(|| writer.finish(&Self::key(self.number)))
    }

    /// Decodes the value of a group of this member.
    pub(crate) fn decode(member: MemberId, number: u32, value: &[u8]) -> Result<Self, Reason> {
        let mut reader = Reader::new(&Self::key(number), value)?;
        let mut group = Self::new(number);
        let used = reader.tag;
        if used == 0 || used >> TAGS != 0 {
            return Err(UNKNOWN);
        }
        for tag in (0..TAGS).filter(|tag| used >> tag & 1 != 0) {
            let set: [u8; SET_BYTES] = reader.array()?;
            if set == [0; SET_BYTES] {
                return Err("a kind has no block");
            }
            for at in blocks_of(&set) {
                let place = if has_place(tag) { Some(read_place(&mut reader)?) } else { None };
                let own = (member, Self::pbn(number, at).ok_or(NO_BLOCK)?);
                group.add(at, kind_of(tag, own, place)?)?;
            }
        }
        reader.finish().map(|()| group)
    }
}

impl Fingerprints {
    pub(crate) fn key(number: u32) -> String {
        key_of(FINGERPRINTS, number)
    }

    /// Returns the number of the group, if the key is one of fingerprints.
    pub(crate) fn number_of_key(key: &str) -> Option<u32> {
        number_of_key(FINGERPRINTS, key)
    }

    /// Returns the value, unless no block has a fingerprint.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let places = self.values.iter().enumerate();
        let set = places.fold(0_u32, |set, (at, one)| set | u32::from(one.is_some()) << at);
        let bytes: Vec<u8> = self.values.iter().flatten().flat_map(|one| one.to_bytes()).collect();
        (set != 0).then(|| Writer::new(0).u32(set).bytes(&bytes).finish(&Self::key(self.number)))
    }

    pub(crate) fn decode(number: u32, value: &[u8]) -> Result<Self, Reason> {
        let mut reader = Reader::new(&Self::key(number), value)?;
        let mut group = Self::new(number);
        let set = reader.u32()?;
        if set == 0 {
            return Err("it has no block");
        }
        for at in blocks_of(&set.to_le_bytes()) {
            group.add(at, Fingerprint::from_bytes(reader.array()?))?;
        }
        reader.finish().map(|()| group)
    }
}

/// The numbers of kinds are below it. There is no kind 0.
const TAGS: usize = 6;

const fn tag_of(kind: BlockState) -> usize {
    match kind {
        BlockState::Published => 1,
        BlockState::Lent => 2,
        BlockState::Borrowed(_) => 3,
        BlockState::Restored(_) => 4,
        BlockState::Alone => 5,
    }
}

const fn has_place(tag: usize) -> bool {
    matches!(tag, 3 | 4)
}

fn kind_of(tag: usize, own: Place, place: Option<Place>) -> Result<BlockState, Reason> {
    let other = || {
        let place = place.ok_or(UNKNOWN)?;
        Elsewhere::of(own, place).ok_or("a block is borrowed from itself")
    };
    Ok(match tag {
        1 => BlockState::Published,
        2 => BlockState::Lent,
        3 => BlockState::Borrowed(other()?),
        4 => BlockState::Restored(other()?),
        5 => BlockState::Alone,
        _ => return Err(UNKNOWN),
    })
}

fn read_place(reader: &mut Reader<'_>) -> Result<Place, Reason> {
    let (home, pbn) = (MemberId(reader.u32()?), Pbn::new(reader.u32()?.into()));
    Ok((home, pbn.ok_or("a place is out of range")?))
}

/// Returns the numbers of the bits that are set, in order.
fn blocks_of(set: &[u8]) -> impl Iterator<Item = u32> {
    let bits = set.iter().zip(0..).flat_map(|(byte, at)| (0..8).map(move |bit| (*byte, at, bit)));
    bits.filter(|(byte, _, bit)| byte >> bit & 1 != 0).map(|(_, at, bit)| at * 8 + bit)
}

#[cfg(test)]
mod tests;
