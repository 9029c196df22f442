//! The identifiers of contents.

/// Identifies one content of generated load.
///
/// A *shared* content may occur any number of times, in every process, host and run of the same
/// seed. A *unique* content occurs once in a run: its id contains the process that made it and a
/// serial number that this process never uses again. Its bytes depend on the run as well.
///
/// Layout: the top bit is set for a unique content; 15 bits of process and 48 bits of serial
/// follow. The id of a shared content has 63 bits of number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentId(u64);

const UNIQUE_BIT: u64 = 1 << 63;
const SERIAL_BITS: u32 = 48;

impl ContentId {
    /// The number of processes that can make unique contents in one run.
    pub const PROCESSES: u32 = 1 << 15;
    /// The number of unique contents that one process can make: 1 EiB in blocks of 4 KiB.
    pub const SERIALS: u64 = 1 << SERIAL_BITS;

    /// Returns the id of the shared content with this number, taken modulo 2^63.
    #[inline]
    #[must_use]
    pub const fn shared(number: u64) -> Self {
        Self(number & !UNIQUE_BIT)
    }

    /// Returns the id of unique content `serial` of `process`. Both are taken modulo their range.
    #[inline]
    #[must_use]
    pub const fn unique(process: u32, serial: u64) -> Self {
        let process = (process % Self::PROCESSES) as u64;
        Self(UNIQUE_BIT | (process << SERIAL_BITS) | (serial % Self::SERIALS))
    }

    /// Returns whether the content occurs only once in a run.
    #[inline]
    #[must_use]
    pub const fn is_unique(self) -> bool {
        self.0 & UNIQUE_BIT != 0
    }

    /// Returns the process that made a unique content; `None` for a shared one.
    #[must_use]
    pub const fn process(self) -> Option<u32> {
        if self.is_unique() { Some(((self.0 & !UNIQUE_BIT) >> SERIAL_BITS) as u32) } else { None }
    }

    /// Returns the number of a shared content or the serial of a unique one.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u64 {
        if self.is_unique() { self.0 & (Self::SERIALS - 1) } else { self.0 }
    }

    /// Returns the id with another number of the same kind (shared, or unique to the same process).
    #[inline]
    #[must_use]
    pub const fn with_number(self, number: u64) -> Self {
        if self.is_unique() {
            Self((self.0 & !(Self::SERIALS - 1)) | (number % Self::SERIALS))
        } else {
            Self::shared(number)
        }
    }

    /// Returns the id as a 64-bit word, for tables of contents by place.
    #[inline]
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the id for a word of [`Self::to_bits`]. Every word is a valid id.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl std::fmt::Display for ContentId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.process() {
            Some(process) => write!(formatter, "unique {} of process {process}", self.number()),
            None => write!(formatter, "shared {}", self.number()),
        }
    }
}

/// The content of a block of generated load.
///
/// Zeros have no id, because their bytes hold no mark: a reader knows by the position of a block
/// that zeros belong there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockContent {
    /// All bytes are zero.
    Zeros,
    /// The bytes that a generator makes for an id.
    Id(ContentId),
}

impl std::fmt::Display for BlockContent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Zeros => formatter.write_str("zeros"),
            Self::Id(id) => id.fmt(formatter),
        }
    }
}

impl From<ContentId> for BlockContent {
    fn from(id: ContentId) -> Self {
        Self::Id(id)
    }
}

impl BlockContent {
    /// The word of zeros. No process makes a unique content with this id, because its serial would
    /// be the last but one of all.
    const ZEROS: u64 = u64::MAX - 1;

    /// Returns the content as a 64-bit word, for tables of contents by place. It is never
    /// `u64::MAX`, so that such a table has a word for unknown contents.
    #[inline]
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        match self {
            Self::Zeros => Self::ZEROS,
            Self::Id(id) => id.to_bits(),
        }
    }

    /// Returns the content for a word of [`Self::to_bits`].
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        if bits == Self::ZEROS { Self::Zeros } else { Self::Id(ContentId::from_bits(bits)) }
    }

    /// Returns the id; `None` for zeros.
    #[inline]
    #[must_use]
    pub const fn id(self) -> Option<ContentId> {
        match self {
            Self::Zeros => None,
            Self::Id(id) => Some(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_back_what_it_was_made_of() {
        let unique = ContentId::unique(12, 345);
        assert_eq!((unique.process(), unique.number(), unique.is_unique()), (Some(12), 345, true));
        let shared = ContentId::shared(7);
        assert_eq!((shared.process(), shared.number(), shared.is_unique()), (None, 7, false));
        assert_eq!(ContentId::from_bits(unique.to_bits()), unique);
        assert_eq!(unique.with_number(9), ContentId::unique(12, 9));
        assert_eq!(shared.with_number(9), ContentId::shared(9));
        assert_eq!(unique.to_string(), "unique 345 of process 12");
        for content in [BlockContent::Zeros, unique.into(), shared.into()] {
            assert_eq!(BlockContent::from_bits(content.to_bits()), content);
            assert_ne!(content.to_bits(), u64::MAX);
        }
    }
}
