//! The ranges of a volume that cannot be read, for an export that continues without them.

use gemelo_device::DeviceError;
use schemars::JsonSchema;
use serde::Serialize;
use std::io;

/// Most ranges in the list. Of further ranges only the bytes are counted. A volume with that many
/// is lost anyway.
const MAX_RANGES: usize = 1 << 16;

/// A range of a volume that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct BadRange {
    /// First byte of the range.
    pub offset_bytes: u64,
    /// Length of the range.
    pub length_bytes: u64,
    /// Error of reading its first block.
    pub error: String,
}

impl BadRange {
    fn end(&self) -> u64 {
        self.offset_bytes + self.length_bytes
    }
}

/// All ranges of a volume that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize)]
pub struct BadRanges {
    /// Bytes of all ranges that could not be read.
    pub total_bytes: u64,
    /// The ranges, in the order of their offsets; at most 65,536.
    pub ranges: Vec<BadRange>,
}

impl BadRanges {
    /// Adds a block. Each thread adds its blocks in order, so a block often continues the last
    /// range.
    pub(super) fn add(&mut self, offset_bytes: u64, length_bytes: u64, error: &DeviceError) {
        self.total_bytes += length_bytes;
        let is_full = self.ranges.len() >= MAX_RANGES;
        match self.ranges.last_mut() {
            Some(last) if last.end() == offset_bytes => last.length_bytes += length_bytes,
            _ if is_full => (),
            _ => self.ranges.push(BadRange { offset_bytes, length_bytes, error: describe(error) }),
        }
    }

    /// Sorts the ranges of all threads, and joins those that touch.
    pub(super) fn in_order(mut self) -> Self {
        self.ranges.sort_unstable_by_key(|range| range.offset_bytes);
        let mut ranges: Vec<BadRange> = Vec::with_capacity(self.ranges.len());
        for range in self.ranges {
            match ranges.last_mut() {
                Some(last) if last.end() == range.offset_bytes => {
                    last.length_bytes += range.length_bytes;
                }
                _ => ranges.push(range),
            }
        }
        Self { ranges, ..self }
    }
}

/// Returns whether other blocks may still be readable, which is not so if the server has gone.
pub(super) fn is_of_one_block(error: &DeviceError) -> bool {
    match error {
        DeviceError::Damaged { .. } => true,
        DeviceError::Io(error) => error.kind() != io::ErrorKind::NotConnected,
        _ => false,
    }
}

fn describe(error: &DeviceError) -> String {
    match error {
        DeviceError::Io(source) => format!("{error}: {source}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_two_threads_that_touch_become_one() {
        let mut bad = BadRanges::default();
        let error = DeviceError::Damaged { offset: 8192 };
        for offset in [8192, 12288, 0, 4096, 40960] {
            bad.add(offset, 4096, &error);
        }
        let found = bad.in_order();
        let ranges: Vec<_> =
            found.ranges.iter().map(|range| (range.offset_bytes, range.length_bytes)).collect();
        assert_eq!((found.total_bytes, ranges), (20480, vec![(0, 16384), (40960, 4096)]));
    }

    #[test]
    fn the_list_has_an_end_and_the_count_has_none() {
        let mut bad = BadRanges::default();
        for block in 0..MAX_RANGES as u64 + 5 {
            bad.add(block * 8192, 4096, &DeviceError::Damaged { offset: 0 });
        }
        assert_eq!(bad.ranges.len(), MAX_RANGES);
        assert_eq!(bad.total_bytes, (MAX_RANGES as u64 + 5) * 4096);
    }
}
