//! One operation of a trace, whatever its format, and streams of them.

use crate::TraceError;
use std::collections::HashMap;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Operation {
    /// Reads a stretch of the device.
    #[default]
    Read,
    /// Writes it.
    Write,
    /// Gives it back: its content is of no interest any more.
    Trim,
    /// Makes what was written durable; has neither offset nor length.
    Flush,
}

/// The hash of a stretch of data, as the trace has it: MD5 in most. Longer hashes are cut to their first 128 bits,
/// shorter ones stand in the low bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ContentHash(pub u128);

/// One operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// When it was issued, in nanoseconds since an origin of the trace's own.
    pub time_ns: u64,
    /// Which device, by its number in [`Names`].
    pub device: u32,
    /// Which process issued it; 0 where the trace does not say.
    pub process: u32,
    /// The name of that process, by its number in [`Names`]; 0 is no name.
    pub command: u32,
    /// Where, in bytes from the start of the device.
    pub offset_bytes: u64,
    /// How much, in bytes.
    pub length_bytes: u64,
    /// What.
    pub operation: Operation,
    /// Hashes of the data from the offset on, one for each stretch of [`Self::hash_bytes`]; empty where the trace has
    /// none. The last stretch may be shorter.
    pub hashes: Vec<ContentHash>,
    /// How much data each hash stands for, in bytes; 0 without hashes.
    pub hash_bytes: u32,
}

impl Record {
    /// A record that has nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The first byte after the operation.
    #[inline]
    #[must_use]
    pub const fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.length_bytes)
    }

    /// Makes it a record without hashes and names; keeps what memory it has.
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
    /// Puts the next record into `record`; `false` at the end.
    ///
    /// # Errors
    /// If the trace cannot be read on, or a line is malformed and not to be skipped.
    fn next_record(&mut self, record: &mut Record) -> Result<bool, TraceError>;

    /// What devices and processes are called.
    fn names(&self) -> &Names;
}

/// Names of devices and processes, numbered in the order in which they were met.
#[derive(Debug, Clone)]
pub struct Names {
    devices: Interner,
    commands: Interner,
}

/// Devices, or names of processes, that one trace can have: more would be a misread column, not a trace.
const MOST_NAMES: usize = 1 << 20;

impl Default for Names {
    fn default() -> Self {
        let mut names = Self { devices: Interner::default(), commands: Interner::default() };
        // Number 0 is no name.
        names.commands.number(b"");
        names
    }
}

impl Names {
    /// The number of a device; `None` if there are too many.
    #[inline]
    pub(crate) fn device(&mut self, name: &[u8]) -> Option<u32> {
        self.devices.number(name)
    }

    /// The number of a process's name; of no name if there are too many.
    #[inline]
    pub(crate) fn command(&mut self, name: &[u8]) -> u32 {
        self.commands.number(name).unwrap_or(0)
    }

    /// What a device is called.
    #[must_use]
    pub fn device_name(&self, device: u32) -> &[u8] {
        self.devices.name(device)
    }

    /// What a process is called; empty where the trace does not say.
    #[must_use]
    pub fn command_name(&self, command: u32) -> &[u8] {
        self.commands.name(command)
    }

    /// How many devices were met.
    #[must_use]
    pub fn device_count(&self) -> usize {
        self.devices.names.len()
    }
}

#[derive(Debug, Clone, Default)]
struct Interner {
    names: Vec<Box<[u8]>>,
    numbers: HashMap<Box<[u8]>, u32>,
    /// The last one asked for: most records are of the same device as the one before.
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
            u32::try_from(self.names.len()).ok().filter(|_| self.names.len() < MOST_NAMES)?;
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
        assert_eq!(names.device_count(), 2);
    }
}
