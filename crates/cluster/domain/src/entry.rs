//! The entries of the index, and the receipts of members.

use crate::codec::{Reader, Reason, Writer};
use gemelo_format::Pbn;
use std::fmt;

/// The number of a member in its domain. Numbers are never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u32);

impl fmt::Display for MemberId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:08x}", self.0)
    }
}

/// The knowledge of the index about a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The member in whose store the content lies.
    pub home: MemberId,
    /// The content's block there.
    pub pbn: Pbn,
    /// The members that refer to the content. At 0 the home may take the entry out.
    pub members: u32,
    /// `true` if the home has found its block damaged: no further member refers to it until the
    /// home has healed it.
    pub is_suspect: bool,
}

impl Entry {
    pub(crate) fn encode(&self, key: &str) -> Vec<u8> {
        let Self { home, pbn, members, is_suspect } = self;
        let writer = Writer::new(u8::from(*is_suspect)).u32(home.0);
        writer.u64(pbn.number()).u32(*members).finish(key)
    }

    pub(crate) fn decode(key: &str, value: &[u8]) -> Result<Self, Reason> {
        let mut reader = Reader::new(key, value)?;
        let is_suspect = match reader.tag {
            0 => false,
            1 => true,
            _ => return Err("its state is unknown"),
        };
        let home = MemberId(reader.u32()?);
        // Intents and ledgers have PBNs of 32 bits.
        let pbn = u32::try_from(reader.u64()?).ok().and_then(|pbn| Pbn::new(pbn.into()));
        let pbn = pbn.ok_or("its PBN is out of range")?;
        let members = reader.u32()?;
        reader.finish()?;
        Ok(Self { home, pbn, members, is_suspect })
    }
}

/// The version that a member's last applied intent gave a shard; 0 before the first one. It tells
/// if an intent was applied, because no two intents give a shard the same version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Receipt(pub u64);

impl Receipt {
    /// Returns the key of a member's receipt in a shard.
    #[must_use]
    pub fn key(member: MemberId) -> String {
        format!("r.{member}")
    }

    pub(crate) fn encode(self, key: &str) -> Vec<u8> {
        Writer::new(0).u64(self.0).finish(key)
    }

    /// Decodes the value.
    ///
    /// # Errors
    /// Fails with the reason if it is damaged.
    pub fn decode(key: &str, value: Option<&[u8]>) -> Result<Self, Reason> {
        let Some(value) = value else { return Ok(Self(0)) };
        let mut reader = Reader::new(key, value)?;
        let receipt = Self(reader.count()?);
        reader.finish()?;
        Ok(receipt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_entry_is_read_back_and_a_changed_byte_is_detected(
            home: u32, pbn in 1..1u64 << 32, members: u32, is_suspect: bool,
            place in 0..24usize, flip in 1..=255u8,
        ) {
            let pbn = Pbn::new(pbn).unwrap();
            let entry = Entry { home: MemberId(home), pbn, members, is_suspect };
            let mut value = entry.encode("f.1");
            prop_assert_eq!(value.len(), 24);
            prop_assert_eq!(Entry::decode("f.1", &value), Ok(entry));
            prop_assert!(Entry::decode("f.2", &value).is_err());
            prop_assert!(Entry::decode("f.1", &value[..23]).is_err());
            value[place] ^= flip;
            prop_assert!(Entry::decode("f.1", &value).is_err());
        }
    }

    #[test]
    fn a_missing_receipt_is_of_no_version() {
        assert_eq!(Receipt::decode("r", None), Ok(Receipt(0)));
        let value = Receipt(7).encode("r");
        assert_eq!(Receipt::decode("r", Some(&value)), Ok(Receipt(7)));
        assert!(Receipt::decode("s", Some(&value)).is_err());
    }
}
