//! The features of what is kept, in three fields, as ext4 and OpenZFS have them. The field of a
//! feature says what a program may do that does not know it.

use crate::codec::Reader;

/// Features, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// A program that does not know one of these reads nothing.
    pub incompatible: u64,
    /// A program that does not know one of these reads, and writes nothing.
    pub read_compatible: u64,
    /// A program that does not know one of these reads and writes, and keeps the bit.
    pub compatible: u64,
}

impl Features {
    /// No feature.
    pub const NONE: Self = Self { incompatible: 0, read_compatible: 0, compatible: 0 };
    /// Bytes of the encoding.
    pub const BYTES: usize = 24;

    /// Returns the encoding.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let fields = [self.incompatible, self.read_compatible, self.compatible];
        for (place, field) in bytes.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// Decodes what [`Self::to_bytes`] returns.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        Some(Self {
            incompatible: reader.u64()?,
            read_compatible: reader.u64()?,
            compatible: reader.u64()?,
        })
    }

    /// Returns those that are not among the known ones.
    #[must_use]
    pub const fn without(self, known: Self) -> Self {
        Self {
            incompatible: self.incompatible & !known.incompatible,
            read_compatible: self.read_compatible & !known.read_compatible,
            compatible: self.compatible & !known.compatible,
        }
    }

    /// Returns the name of the first incompatible one. Of unknown features, it keeps from reading.
    #[must_use]
    pub fn first_incompatible(self) -> Option<String> {
        first(self.incompatible).map(|bit| format!("the incompatible feature {bit}"))
    }

    /// Returns the name of the first read-compatible one. Of unknown features, it keeps from
    /// writing.
    #[must_use]
    pub fn first_read_compatible(self) -> Option<String> {
        first(self.read_compatible).map(|bit| format!("the read-compatible feature {bit}"))
    }
}

const fn first(bits: u64) -> Option<u32> {
    if bits == 0 { None } else { Some(bits.trailing_zeros()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_come_back_and_the_first_unknown_ones_are_named() {
        let all = Features { incompatible: 0b110, read_compatible: 1 << 63, compatible: 4 };
        assert_eq!(Features::from_bytes(&all.to_bytes()), Some(all));
        let unknown = all.without(Features { incompatible: 0b10, ..Features::NONE });
        assert_eq!(unknown.incompatible, 0b100);
        assert_eq!(unknown.first_incompatible().as_deref(), Some("the incompatible feature 2"));
        let named = unknown.first_read_compatible();
        assert_eq!(named.as_deref(), Some("the read-compatible feature 63"));
        let none = all.without(all);
        assert_eq!(none, Features::NONE);
        assert_eq!((none.first_incompatible(), none.first_read_compatible()), (None, None));
    }
}
