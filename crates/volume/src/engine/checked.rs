//! Reading contents and comparing each with the checksum in the map.
//!
//! A block that fails is read once more, because a transfer can fail where the medium is good. If it
//! fails again it is damaged: the request gets an error, and the block is noted.

use super::Engine;
use crate::error::{Result, VolumeError};
use crate::types::{Checksum, Lbn, Pbn, VolumeId};

/// A block to be read: where it is in a volume and in the data store, and the checksum it must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) lbn: Lbn,
    pub(crate) pbn: Pbn,
    pub(crate) checksum: Checksum,
}

impl Engine {
    /// Reads from within the first of some blocks that lie one after another in the data store. The
    /// buffer ends within the last one.
    ///
    /// Without `verify_reads` only the wanted bytes are read. With it a block that is wanted in part is
    /// read as a whole, because its checksum covers all of it.
    pub(super) fn read_run(
        &self,
        volume: VolumeId,
        run: &[Wanted],
        within: usize,
        buffer: &mut [u8],
    ) -> Result<()> {
        let Some(first) = run.first() else { return Ok(()) };
        if !self.tuning.verify_reads {
            return self.data.read(first.pbn, within, buffer);
        }
        let block_bytes = self.block_bytes();
        let (mut run, mut rest) = (run, buffer);
        if within > 0 {
            let (part, after) = rest.split_at_mut((block_bytes - within).min(rest.len()));
            self.read_part(volume, *first, within, part)?;
            (run, rest) = (run.get(1..).unwrap_or_default(), after);
        }
        let whole = rest.len() / block_bytes;
        let (blocks, part) = rest.split_at_mut(whole * block_bytes);
        let (whole_run, last) = run.split_at_checked(whole).unwrap_or((run, &[]));
        self.read_whole(volume, whole_run, blocks)?;
        match last.first() {
            Some(last) if !part.is_empty() => self.read_part(volume, *last, 0, part),
            _ => Ok(()),
        }
    }

    /// Reads whole blocks that lie one after another.
    fn read_whole(&self, volume: VolumeId, run: &[Wanted], buffer: &mut [u8]) -> Result<()> {
        let Some(first) = run.first() else { return Ok(()) };
        let is_read = self.data.read(first.pbn, 0, buffer).is_ok();
        for (wanted, content) in run.iter().zip(buffer.chunks_exact_mut(self.block_bytes())) {
            if !is_read || self.seed.of_content(content) != wanted.checksum {
                self.read_again(volume, *wanted, content)?;
            }
        }
        Ok(())
    }

    fn read_part(
        &self,
        volume: VolumeId,
        wanted: Wanted,
        within: usize,
        part: &mut [u8],
    ) -> Result<()> {
        let mut block = vec![0; self.block_bytes()];
        self.read_block(volume, wanted, &mut block)?;
        let content = block.get(within..within + part.len()).unwrap_or_default();
        part.copy_from_slice(content);
        Ok(())
    }

    /// Reads one whole block.
    pub(crate) fn read_block(
        &self,
        volume: VolumeId,
        wanted: Wanted,
        block: &mut [u8],
    ) -> Result<()> {
        self.read_whole(volume, &[wanted], block)
    }

    /// The second try of a block that could not be read or failed its checksum.
    #[cold]
    fn read_again(&self, volume: VolumeId, wanted: Wanted, content: &mut [u8]) -> Result<()> {
        let read = self.data.read(wanted.pbn, 0, content);
        if read.is_ok() && self.seed.of_content(content) == wanted.checksum {
            return Ok(());
        }
        self.note_damage(volume, wanted);
        // What was read must not reach anybody.
        content.fill(0);
        read.and(Err(VolumeError::DamagedBlock { lbn: wanted.lbn.0 }))
    }
}
