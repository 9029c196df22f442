//! Names for contents.

use thiserror::Error;

/// Names one content of generated load.
///
/// A *shared* content may occur any number of times, in every process, host and run of the same seed. A *unique*
/// one occurs once in a run: its name holds the process that made it and a number that this process never uses
/// again, and its bytes depend on the run besides.
///
/// Layout: the top bit says unique; then 15 bits of process and 48 of serial. A shared content has 63 bits of number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentId(u64);

const UNIQUE_BIT: u64 = 1 << 63;
const SERIAL_BITS: u32 = 48;

/// A unique content outside of what a name can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "process {process}, serial {serial} is above 2^15 processes or 2^48 unique contents a process"
)]
pub struct UniqueIdError {
    /// The process asked for.
    pub process: u32,
    /// The serial asked for.
    pub serial: u64,
}

impl ContentId {
    /// Processes that can make unique contents in one run.
    pub const PROCESSES: u32 = 1 << 15;
    /// Unique contents that one process can make: 1 EiB of 4 KiB blocks.
    pub const SERIALS: u64 = 1 << SERIAL_BITS;

    /// The shared content of this number, taken modulo 2^63.
    #[inline]
    #[must_use]
    pub const fn shared(number: u64) -> Self {
        Self(number & !UNIQUE_BIT)
    }

    /// The unique content `serial` of `process`, both taken modulo their range; [`Self::try_unique`] checks them.
    #[inline]
    #[must_use]
    pub const fn unique(process: u32, serial: u64) -> Self {
        let process = (process % Self::PROCESSES) as u64;
        Self(UNIQUE_BIT | (process << SERIAL_BITS) | (serial % Self::SERIALS))
    }

    /// The unique content `serial` of `process`.
    ///
    /// # Errors
    /// If either is out of range.
    pub const fn try_unique(process: u32, serial: u64) -> Result<Self, UniqueIdError> {
        if process >= Self::PROCESSES || serial >= Self::SERIALS {
            return Err(UniqueIdError { process, serial });
        }
        Ok(Self::unique(process, serial))
    }

    /// Whether the content occurs once in a run.
    #[inline]
    #[must_use]
    pub const fn is_unique(self) -> bool {
        self.0 & UNIQUE_BIT != 0
    }

    /// The process that made a unique content; `None` for a shared one.
    #[must_use]
    pub const fn process(self) -> Option<u32> {
        if self.is_unique() { Some(((self.0 & !UNIQUE_BIT) >> SERIAL_BITS) as u32) } else { None }
    }

    /// A shared content's number, or a unique one's serial.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u64 {
        if self.is_unique() { self.0 & (Self::SERIALS - 1) } else { self.0 }
    }

    /// The same kind of content (shared, or unique to the same process) with another number.
    #[inline]
    #[must_use]
    pub const fn with_number(self, number: u64) -> Self {
        if self.is_unique() {
            Self((self.0 & !(Self::SERIALS - 1)) | (number % Self::SERIALS))
        } else {
            Self::shared(number)
        }
    }

    /// The name as a word, for tables of what each place holds.
    #[inline]
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The content that [`Self::to_bits`] named. Every word names a content.
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
    }

    #[test]
    fn what_a_name_cannot_hold_is_refused() {
        assert!(ContentId::try_unique(ContentId::PROCESSES, 0).is_err());
        assert!(ContentId::try_unique(0, ContentId::SERIALS).is_err());
        assert!(ContentId::try_unique(ContentId::PROCESSES - 1, ContentId::SERIALS - 1).is_ok());
    }
}
