//! One operation of a trace in any format, and streams of operations.

use crate::TraceError;
use std::collections::HashMap;

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum TraceOperation {
    /// Reads a range of the device.
    #[default]
    Read,
    /// Writes a range of the device.
    Write,
    /// Discards a range of the device; its content is no longer needed.
    Trim,
    /// Makes earlier writes durable. Offset and length are 0.
    Flush,
}

/// The hash of a stretch of data in a trace, usually MD5. Longer hashes are cut to their first 128
/// bits. Shorter ones are in the low bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ContentHash(pub u128);

impl ContentHash {
    /// The content of a block of zeros, as [`crate::Blocks`] gives it for every size of a block.
    pub const ZEROS: Self = Self(0x620f_0b67_a91f_7f74_151b_c5be_745b_7110);

    /// Returns the MD5 hash of so many zeros, as the traces of FIU have it.
    #[must_use]
    pub const fn of_zeros(bytes: u32) -> Option<Self> {
        match bytes {
            512 => Some(Self(0xbf61_9eac_0cdf_3f68_d496_ea93_4413_7e8b)),
            4096 => Some(Self::ZEROS),
            _ => None,
        }
    }
}

/// One operation of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Time of issue in nanoseconds. The origin depends on the trace.
    pub time_ns: u64,
    /// Number of the device in [`Names`].
    pub device: u32,
    /// Id of the process that issued the operation, or 0 if the trace does not tell.
    pub process: u32,
    /// Number of the process's name in [`Names`]; 0 stands for no name.
    pub command: u32,
    /// Start in bytes from the beginning of the device.
    pub offset_bytes: u64,
    /// Length of the range in bytes, not rounded to sectors or blocks.
    pub length_bytes: u64,
    /// Kind of the operation.
    pub operation: TraceOperation,
    /// Hashes of the data from the offset on, one for each [`Self::hash_bytes`], or none. The last
    /// one may stand for a shorter stretch.
    pub hashes: Vec<ContentHash>,
    /// Bytes of data for each hash, or 0 without hashes.
    pub hash_bytes: u32,
}

impl Record {
    /// Returns an empty record.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the first byte after the operation.
    #[inline]
    #[must_use]
    pub const fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.length_bytes)
    }

    /// Clears names and hashes. Allocated memory is kept for the next record.
    pub(crate) fn clear(&mut self) {
        self.device = 0;
        self.process = 0;
        self.command = 0;
        self.hashes.clear();
        self.hash_bytes = 0;
    }
}

/// A stream of records.
pub trait RecordSource {
    /// Reads the next record into `record`. Returns `false` at the end.
    ///
    /// # Errors
    /// If reading fails, or a line is malformed and such lines are not left out.
    fn next_record(&mut self, record: &mut Record) -> Result<bool, TraceError>;

    /// Returns the names of devices and processes met so far.
    fn names(&self) -> &Names;
}

/// The names of devices and of processes, numbered in the order of their first record.
#[derive(Debug, Clone)]
pub struct Names {
    devices: Interner,
    commands: Interner,
}

/// Most devices, and most names of processes, of a trace. More would be a misread column.
const MAX_NAMES: usize = 1 << 20;

impl Default for Names {
    fn default() -> Self {
        let mut names = Self { devices: Interner::default(), commands: Interner::default() };
        // Number 0 stands for no name.
        names.commands.number(b"");
        names
    }
}

impl Names {
    /// Returns the number of a device, or `None` if there are too many devices.
    #[inline]
    pub(crate) fn device(&mut self, name: &[u8]) -> Option<u32> {
        self.devices.number(name)
    }

    /// Returns the number of a process name, or 0 if there are too many names.
    #[inline]
    pub(crate) fn command(&mut self, name: &[u8]) -> u32 {
        self.commands.number(name).unwrap_or(0)
    }

    /// Returns the name of a device.
    #[must_use]
    pub fn device_name(&self, device: u32) -> &[u8] {
        self.devices.name(device)
    }

    /// Returns the name of a process, or an empty one if the trace does not tell.
    #[must_use]
    pub fn command_name(&self, command: u32) -> &[u8] {
        self.commands.name(command)
    }
}

#[derive(Debug, Clone, Default)]
struct Interner {
    names: Vec<Box<[u8]>>,
    numbers: HashMap<Box<[u8]>, u32>,
    /// The last number returned. Most records name the same device as the record before.
    last: u32,
}

impl Interner {
    #[inline]
    fn number(&mut self, name: &[u8]) -> Option<u32> {
        if self.names.get(self.last as usize).is_some_and(|last| **last == *name) {
            return Some(self.last);
        }
        self.find_or_add(name)
    }

    fn find_or_add(&mut self, name: &[u8]) -> Option<u32> {
        if let Some(number) = self.numbers.get(name) {
            self.last = *number;
            return Some(*number);
        }
        let number =
            u32::try_from(self.names.len()).ok().filter(|_| self.names.len() < MAX_NAMES)?;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        self.last = number;
        Some(number)
    }

    fn name(&self, number: u32) -> &[u8] {
        self.names.get(number as usize).map_or(b"", |name| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_as_they_are_met() {
        let mut names = Names::default();
        assert_eq!(
            (names.device(b"8,0"), names.device(b"8,16"), names.device(b"8,0")),
            (Some(0), Some(1), Some(0))
        );
        assert_eq!((names.device_name(1), names.device_name(9)), (&b"8,16"[..], &b""[..]));
        assert_eq!((names.command(b""), names.command(b"nfsd"), names.command(b"nfsd")), (0, 1, 1));
        assert_eq!(names.device_name(2), b"");
    }
}
