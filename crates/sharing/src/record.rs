//! The ledger's record of a block.

use gemelo_domain::MemberId;
use gemelo_domain::codec::{Reader, Reason, Writer};
use gemelo_format::{Fingerprint, Pbn};

/// A block of a member.
pub(crate) type Place = (MemberId, Pbn);

/// The relation of a block to the domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The block is in the index, and this member refers to it.
    Published,
    /// The block is in the index, and this member does not refer to it.
    Lent,
    /// The content lies at another place, to which this member refers.
    Borrowed(Place),
    /// The content lies here, and the reference to another place is to be released.
    Restored(Place),
    /// The content lies here and is never shared: the index has a copy of it that differs or cannot
    /// be read.
    Alone,
}

/// The ledger's record of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) kind: Kind,
}

impl Kind {
    const fn tag(self) -> u8 {
        match self {
            Self::Published => 1,
            Self::Lent => 2,
            Self::Borrowed(_) => 3,
            Self::Restored(_) => 4,
            Self::Alone => 5,
        }
    }

    /// Returns the other place.
    pub(crate) const fn place(self) -> Option<Place> {
        match self {
            Self::Borrowed(place) | Self::Restored(place) => Some(place),
            Self::Published | Self::Lent | Self::Alone => None,
        }
    }
}

impl Record {
    pub(crate) fn encode(&self, key: &str) -> Vec<u8> {
        let place = self.kind.place();
        let (home, pbn) = place.map_or((0, 0), |(home, pbn)| (home.0, pbn.number()));
        let writer = Writer::new(self.kind.tag()).bytes(&self.fingerprint.to_bytes());
        writer.u32(home).u32(pbn).finish(key)
    }

    pub(crate) fn decode(key: &str, value: &[u8]) -> Result<Self, Reason> {
        let mut reader = Reader::new(key, value)?;
        let fingerprint = Fingerprint::from_bytes(reader.array()?);
        let (home, pbn) = (MemberId(reader.u32()?), Pbn::new(reader.u32()?));
        let place = pbn.ok_or("its place is out of range").map(|pbn| (home, pbn));
        let kind = match reader.tag {
            1 => Kind::Published,
            2 => Kind::Lent,
            3 => Kind::Borrowed(place?),
            4 => Kind::Restored(place?),
            5 => Kind::Alone,
            _ => return Err("its kind is unknown"),
        };
        reader.finish()?;
        Ok(Self { fingerprint, kind })
    }
}

/// Returns the key of a block's record.
pub(crate) fn key_of(pbn: Pbn) -> String {
    format!("{:08x}", pbn.number())
}

/// Reads the key of a record.
pub(crate) fn pbn_of_key(key: &str) -> Option<Pbn> {
    u32::from_str_radix(key, 16).ok().and_then(Pbn::new).filter(|pbn| key_of(*pbn) == key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_is_read_back_and_a_changed_byte_is_detected(
            hash: u128, home: u32, number in 1..u32::MAX, kind in 0..5, place in 0..32usize,
            flip in 1..=255u8,
        ) {
            let pbn = Pbn::new(number).unwrap();
            let other = (MemberId(home), pbn);
            let kinds = [
                Kind::Published, Kind::Lent, Kind::Borrowed(other), Kind::Restored(other),
                Kind::Alone,
            ];
            let record =
                Record { fingerprint: Fingerprint::of_hash(hash), kind: kinds[kind as usize] };
            let key = key_of(pbn);
            prop_assert_eq!(pbn_of_key(&key), Some(pbn));
            let mut value = record.encode(&key);
            prop_assert_eq!(value.len(), 32);
            prop_assert_eq!(Record::decode(&key, &value), Ok(record));
            value[place] ^= flip;
            prop_assert!(Record::decode(&key, &value).is_err());
        }
    }
}
