//! Hashes of the parts of a volume, by which two volumes are compared that are far from each other.
//!
//! A *part* is 1 MiB. Its hash is the BLAKE3 of its bytes, with zeros behind the end of the volume;
//! that of a part of zeros is zero. The hash of several parts is the BLAKE3 of their hashes, and
//! zero if all of them are. So holes are not read, and volumes of different sizes can be compared.

use super::pieces::Pieces;
use super::sink::read_at;
use super::{TransferError, run_workers};
use gemelo_base::{StopFlag, is_zero};
use gemelo_device::BlockDevice;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a part.
pub const PART_BYTES: u64 = 1 << 20;
/// Bytes of the smallest range that is told apart.
pub const UNIT_BYTES: u64 = 4096;
/// Hashes of parts that are remembered: 64 MiB of memory, for 1 TiB of data.
const MAX_REMEMBERED: usize = 1 << 20;

/// The hash of a range.
pub type RangeHash = [u8; 32];

const ZERO: RangeHash = [0; 32];

/// A volume whose parts are hashed. Each of the devices is the volume, and gets a thread.
pub struct HashedVolume {
    devices: Vec<Arc<dyn BlockDevice>>,
    size_bytes: u64,
    known: BTreeMap<u64, RangeHash>,
}

impl HashedVolume {
    /// Takes connections to a volume.
    #[must_use]
    pub fn new(devices: Vec<Arc<dyn BlockDevice>>) -> Self {
        let size_bytes = devices.first().map_or(0, |device| device.geometry().size_bytes);
        Self { devices, size_bytes, known: BTreeMap::new() }
    }

    /// Returns the hashes of parts, and remembers them as long as there is room.
    ///
    /// # Errors
    /// Fails if the volume cannot be read.
    pub fn parts(
        &mut self,
        parts: Range<u64>,
        stop: &StopFlag,
    ) -> Result<Vec<RangeHash>, TransferError> {
        if let Some(known) = parts.clone().map(|part| self.known.get(&part).copied()).collect() {
            return Ok(known);
        }
        let first = parts.start;
        let data = self.with_data(parts.clone())?;
        let hashes = Mutex::new(vec![ZERO; parts.count()]);
        let next = AtomicUsize::new(0);
        run_workers(&self.devices, |device| {
            let mut buffer = Vec::new();
            while let Some(part) = data.get(next.fetch_add(1, Ordering::Relaxed)) {
                if stop.is_raised() {
                    return Err(TransferError::Interrupted);
                }
                self.read(&**device, *part, &mut buffer)?;
                if !is_zero(&buffer) {
                    let hash = *blake3::hash(&buffer).as_bytes();
                    let place = usize::try_from(*part - first).unwrap_or(usize::MAX);
                    hashes.lock().get_mut(place).into_iter().for_each(|kept| *kept = hash);
                }
            }
            Ok(())
        })?;
        let hashes = hashes.into_inner();
        if self.known.len() + hashes.len() > MAX_REMEMBERED {
            self.known.clear();
        }
        self.known.extend((first..).zip(hashes.iter().copied()));
        Ok(hashes)
    }

    /// Returns one hash of several parts.
    ///
    /// # Errors
    /// Fails if the volume cannot be read.
    pub fn whole(
        &mut self,
        parts: Range<u64>,
        stop: &StopFlag,
    ) -> Result<RangeHash, TransferError> {
        let hashes = self.parts(parts, stop)?;
        let is_zero = hashes.iter().all(|hash| *hash == ZERO);
        Ok(if is_zero { ZERO } else { *blake3::hash(hashes.as_flattened()).as_bytes() })
    }

    /// Returns the hashes of the units of a part.
    ///
    /// # Errors
    /// Fails if the volume cannot be read.
    pub fn units(&self, part: u64) -> Result<Vec<RangeHash>, TransferError> {
        let mut buffer = Vec::new();
        if let Some(device) = self.devices.first() {
            self.read(&**device, part, &mut buffer)?;
        }
        let hash = |unit: &[u8]| if is_zero(unit) { ZERO } else { *blake3::hash(unit).as_bytes() };
        Ok(buffer.chunks(UNIT_BYTES as usize).map(hash).collect())
    }

    /// The parts that are no holes.
    fn with_data(&self, parts: Range<u64>) -> Result<Vec<u64>, TransferError> {
        let Some(device) = self.devices.first() else { return Ok(Vec::new()) };
        let [start, end] =
            [parts.start, parts.end].map(|part| (part * PART_BYTES).min(self.size_bytes));
        let mut pieces = Pieces::between(start, end);
        let mut data: Vec<u64> = Vec::new();
        let failed = |(offset, source)| TransferError::Volume { action: "map", offset, source };
        while let Some(piece) = pieces.next(&**device).map_err(failed)? {
            if !piece.is_hole {
                let last = (piece.offset + piece.length - 1) / PART_BYTES;
                let from = data.last().map_or(0, |last| last + 1).max(piece.offset / PART_BYTES);
                data.extend(from..=last);
            }
        }
        Ok(data)
    }

    /// Reads a part, with zeros behind the end of the volume.
    fn read(
        &self,
        device: &dyn BlockDevice,
        part: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<(), TransferError> {
        buffer.clear();
        buffer.resize(PART_BYTES as usize, 0);
        let offset = part.saturating_mul(PART_BYTES);
        let there = self.size_bytes.saturating_sub(offset).min(PART_BYTES) as usize;
        let Some(within) = buffer.get_mut(..there).filter(|within| !within.is_empty()) else {
            return Ok(());
        };
        let failed = |source| TransferError::Volume { action: "read", offset, source };
        read_at(device, offset, within).map_err(failed)
    }
}
