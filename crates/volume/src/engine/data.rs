//! Reading and writing blocks of the data store, and getting free ones.

use super::Engine;
use crate::error::{DiskRole, Result, VolumeError};
use crate::types::Pbn;
use std::io::IoSlice;
use std::time::Duration;

/// How long a write that finds the store full waits for requests that still read freed blocks.
const MOST_WAITS: u32 = 1000;
const WAIT: Duration = Duration::from_micros(100);

impl Engine {
    pub(super) const fn data_offset(&self, pbn: Pbn) -> u64 {
        pbn.number() as u64 * self.superblock.block_bytes as u64
    }

    /// Reads from within a block on, into its neighbours if the buffer is longer.
    pub(super) fn read_data(&self, pbn: Pbn, within: usize, buffer: &mut [u8]) -> Result<()> {
        self.data
            .read_at(self.data_offset(pbn) + within as u64, buffer)
            .map_err(VolumeError::io(DiskRole::Data, "read"))
    }

    /// Writes blocks to PBNs, each run of neighbours at once; for each run that failed, calls `failed` with the run.
    pub(super) fn write_data(
        &self,
        blocks: &[(Pbn, &[u8])],
        mut failed: impl FnMut(&[(Pbn, &[u8])], &VolumeError),
    ) {
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(blocks.len());
        for run in blocks.chunk_by(|a, b| a.0.number() + 1 == b.0.number()) {
            let Some((first, _)) = run.first() else { continue };
            slices.clear();
            slices.extend(run.iter().map(|(_, content)| IoSlice::new(content)));
            if let Err(error) = self.data.write_at(self.data_offset(*first), &mut slices) {
                failed(run, &VolumeError::io(DiskRole::Data, "write")(error));
            }
        }
    }

    /// Makes freed blocks usable: what frees them has to be durable, and requests that read them have to end. Whether
    /// so many blocks are free then. The caller holds no pin.
    pub(super) fn reclaim(&self, wanted: usize) -> Result<bool> {
        // Blocks that the collector has at the moment are free.
        let _collector = self.collector.lock();
        let (last, has_freed) = {
            let state = self.state.read();
            (state.open.last_number(), !state.open.freed.is_empty())
        };
        if has_freed {
            self.make_durable(last)?;
        }
        for _ in 0..MOST_WAITS {
            self.release(&mut Vec::new());
            if self.space.lock().free() >= wanted as u64 {
                return Ok(true);
            }
            if self.limbo.lock().len() == 0 {
                return Ok(false);
            }
            std::thread::sleep(WAIT);
        }
        Ok(false)
    }

    /// Waits until nobody reads freed blocks any more, for a while.
    pub(crate) fn reclaim_all(&self) {
        for _ in 0..MOST_WAITS {
            self.release(&mut Vec::new());
            if self.limbo.lock().len() == 0 {
                return;
            }
            std::thread::sleep(WAIT);
        }
    }
}
