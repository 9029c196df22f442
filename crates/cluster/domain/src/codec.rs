//! The encoding of values: a version byte, little-endian fields, and a checksum that covers the
//! key as well, so that a value under a wrong key is detected.

use gemelo_format::LAST_NUMBER;
use twox_hash::XxHash3_64;

/// The version of all encodings.
const VERSION: u8 = 1;
/// Bytes of the version and of the checksum.
const FRAME_BYTES: usize = 5;

/// A value being encoded.
pub struct Writer(Vec<u8>);

impl Writer {
    /// Begins a value. The tag is the byte after the version.
    #[must_use]
    pub fn new(tag: u8) -> Self {
        Self(vec![VERSION, tag, 0, 0])
    }

    /// Appends a number.
    #[must_use]
    pub fn u32(mut self, number: u32) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    /// Appends a number.
    #[must_use]
    pub fn u64(mut self, number: u64) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    /// Appends bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// Appends the checksum and returns the value.
    #[must_use]
    pub fn finish(mut self, key: &str) -> Vec<u8> {
        let checksum = checksum(key, &self.0);
        self.0.extend(checksum.to_le_bytes());
        self.0
    }
}

/// A value being decoded. Each method fails if the value is too short.
pub struct Reader<'a> {
    /// The byte after the version, whose meaning depends on the kind of value.
    pub tag: u8,
    rest: &'a [u8],
}

/// The reason why a value is damaged.
pub type Reason = &'static str;

const SHORT: Reason = "it is too short";

impl<'a> Reader<'a> {
    /// Checks the version and the checksum.
    ///
    /// # Errors
    /// Fails with the reason if either is wrong.
    pub fn new(key: &str, value: &'a [u8]) -> Result<Self, Reason> {
        let Some((body, sum)) = value.split_last_chunk::<4>() else { return Err(SHORT) };
        let &[version, tag, 0, 0, ref rest @ ..] = body else { return Err(SHORT) };
        if value.len() < FRAME_BYTES || checksum(key, body) != u32::from_le_bytes(*sum) {
            return Err("its checksum is wrong");
        }
        if version != VERSION {
            return Err("it has the format of another version of gemelo");
        }
        Ok(Self { tag, rest })
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// Fails if the value is too short.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Reason> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(SHORT)?;
        self.rest = rest;
        Ok(*head)
    }

    /// Reads a number.
    ///
    /// # Errors
    /// Fails if the value is too short.
    pub fn u32(&mut self) -> Result<u32, Reason> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads a number.
    ///
    /// # Errors
    /// Fails if the value is too short.
    pub fn u64(&mut self) -> Result<u64, Reason> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a number that is counted up, such as a version or a tenure: below 2^62, so that the
    /// next ones are numbers as well.
    ///
    /// # Errors
    /// Fails if the value is too short, or if the number is out of range.
    pub fn count(&mut self) -> Result<u64, Reason> {
        let number = self.u64()?;
        if number < LAST_NUMBER { Ok(number) } else { Err("its number is out of range") }
    }

    /// Returns whether everything was read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns what was not read yet.
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// Fails if something was not read.
    pub fn finish(self) -> Result<(), Reason> {
        if self.rest.is_empty() { Ok(()) } else { Err("it is too long") }
    }
}

/// Returns what a key and its value add to the digest of an object: the sum over all of its keys,
/// so that a change of one key changes the digest without a look at the others.
#[must_use]
pub fn digest(key: &str, value: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(key.as_bytes()), value)
}

fn checksum(key: &str, body: &[u8]) -> u32 {
    let seed = XxHash3_64::oneshot(key.as_bytes());
    XxHash3_64::oneshot_with_seed(seed, body) as u32
}
