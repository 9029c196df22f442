//! The pieces in which a device is copied: its holes whole, its data a few MiB at a time.

use super::PIECE_BYTES;
use gemelo_device::{BlockDevice, DeviceError};
use std::collections::VecDeque;

/// Bytes whose extents are requested at once.
const ASKED_BYTES: u64 = 1 << 30;

/// Most extents that are requested at once.
const ASKED_EXTENTS: usize = 4096;
/// A piece of a device. A piece that is no hole is at most [`PIECE_BYTES`] long.
pub(super) struct DevicePiece {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) is_hole: bool,
}

/// Walks over the extents of a device.
pub(super) struct Pieces {
    next: u64,
    size_bytes: u64,
    /// Lengths of the extents from `next` on, and whether they are zero.
    known: VecDeque<(u64, bool)>,
}

impl Pieces {
    /// The pieces of a device of this size.
    pub(super) const fn of(size_bytes: u64) -> Self {
        Self::between(0, size_bytes)
    }

    /// The pieces of a part of a device.
    pub(super) const fn between(start: u64, end: u64) -> Self {
        Self { next: start, size_bytes: end, known: VecDeque::new() }
    }

    /// Returns the end of the last piece.
    pub(super) const fn position(&self) -> u64 {
        self.next
    }

    /// Returns the next piece, or the place at which the device has failed, and its error.
    pub(super) fn next(
        &mut self,
        device: &dyn BlockDevice,
    ) -> Result<Option<DevicePiece>, (u64, DeviceError)> {
        if self.next >= self.size_bytes {
            return Ok(None);
        }
        if self.known.is_empty() {
            let asked = (self.size_bytes - self.next).min(ASKED_BYTES);
            let found = device.extents(self.next, asked, ASKED_EXTENTS);
            let found = found.map_err(|error| (self.next, error))?;
            self.known.extend(found.iter().map(|extent| (extent.length.min(asked), extent.zero)));
        }
        // A device that describes no extents may hold data everywhere.
        let (length, is_hole) =
            self.known.pop_front().unwrap_or((self.size_bytes - self.next, false));
        let offset = self.next;
        let whole = length.min(self.size_bytes - offset);
        let taken = if is_hole { whole } else { whole.min(PIECE_BYTES as u64) };
        if taken < whole {
            self.known.push_front((whole - taken, is_hole));
        }
        self.next += taken;
        Ok(Some(DevicePiece { offset, length: taken, is_hole }))
    }
}
