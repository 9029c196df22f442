//! Reads: one look-up and one list of contents for a whole batch.

use super::checked::{BlockReads, Waiting};
use super::{Range, VolumeShared, Wanted};
use crate::engine::checked::Reader;
use crate::error::{Result, VolumeError};
use gemelo_device::Extent;
use gemelo_format::{Lbn, MapEntry};

/// A read request within the volume.
pub(super) struct Read<'a> {
    pub(super) request: usize,
    pub(super) range: Range,
    pub(super) buffer: &'a mut [u8],
}

/// LBNs looked up at once for [`Reader::extents`].
const EXTENT_BLOCKS: u64 = 4096;

impl Reader {
    /// Executes the reads. Calls `failed` for each that failed. Returns the requests that were
    /// left.
    pub(super) fn read(
        &self,
        volume: &VolumeShared,
        reads: &mut [Read<'_>],
        waiting: Waiting,
        mut failed: impl FnMut(usize, VolumeError),
    ) -> Vec<usize> {
        let block_bytes = self.data.block_bytes() as u64;
        let mut lbns = Vec::new();
        for read in reads.iter() {
            lbns.extend(read.range.blocks(block_bytes).map(Lbn));
        }
        // The pin is taken before the look-up, so no block is reused before all are read.
        let _pin = self.data.pin();
        let places = match self.log.places(volume.id(), &lbns) {
            Ok(places) => places,
            Err(error) => {
                let damaged = || VolumeError::damaged(error.to_string());
                reads.iter().for_each(|read| failed(read.request, damaged()));
                return Vec::new();
            }
        };
        let mut blocks = BlockReads::with_capacity(self, lbns.len());
        let mut rest = places.as_slice();
        for read in reads {
            let count = read.range.blocks(block_bytes).count();
            assert!(count <= rest.len(), "a read has a place for each of its blocks");
            let (mine, others) = rest.split_at(count);
            rest = others;
            let request = read.request;
            if let Err(error) = self.add_read(&mut blocks, read, mine) {
                failed(request, error);
            }
        }
        blocks.run(self, volume.id(), waiting, &mut failed)
    }

    /// Adds the stored blocks of a request to a list, and fills the others with zeros.
    fn add_read<'a>(
        &self,
        blocks: &mut BlockReads<'a>,
        read: &'a mut Read<'_>,
        places: &[MapEntry],
    ) -> Result<()> {
        let block_bytes = self.data.block_bytes();
        let first = read.range.offset / block_bytes as u64;
        let mut within = (read.range.offset % block_bytes as u64) as usize;
        let mut rest: &mut [u8] = read.buffer;
        for (lbn, place) in (first..).zip(places) {
            let bytes = (block_bytes - within).min(rest.len());
            let (part, after) = rest.split_at_mut(bytes);
            match wanted_at((lbn, place)) {
                Some(wanted) => blocks.add(self, read.request, wanted, (within, part)),
                None if *place == MapEntry::Damaged => {
                    return Err(VolumeError::DamagedBlock { lbn });
                }
                None => part.fill(0),
            }
            rest = after;
            within = 0;
        }
        assert!(rest.is_empty(), "bytes of a read belong to no block");
        Ok(())
    }

    /// Returns the extents of a range, mapped and unmapped in turn.
    pub(crate) fn extents(
        &self,
        volume: &VolumeShared,
        range: Range,
        most: usize,
    ) -> Result<Vec<Extent>> {
        let block_bytes = self.data.block_bytes() as u64;
        let blocks = range.blocks(block_bytes);
        let mut extents: Vec<Extent> = Vec::new();
        let mut next = blocks.start;
        while next < blocks.end {
            if self.log.places(volume.id(), &[Lbn(next)])?.pop() == Some(MapEntry::Unmapped) {
                // Most of a large volume is unmapped, and the search skips it.
                let mapped = self.log.next_mapped(volume.id(), Lbn(next), Lbn(blocks.end))?;
                let end = mapped.map_or(blocks.end, |lbn| lbn.0.max(next + 1));
                if !add_extent(&mut extents, range.part(next..end, block_bytes), false, most) {
                    return Ok(extents);
                }
                next = end;
                continue;
            }
            let lbns: Vec<Lbn> = (next..blocks.end.min(next + EXTENT_BLOCKS)).map(Lbn).collect();
            let places = self.log.places(volume.id(), &lbns)?;
            for (lbn, place) in lbns.iter().zip(places) {
                let bytes = range.part(lbn.0..lbn.0 + 1, block_bytes);
                if !add_extent(&mut extents, bytes, place != MapEntry::Unmapped, most) {
                    return Ok(extents);
                }
            }
            next += EXTENT_BLOCKS;
        }
        Ok(extents)
    }
}

/// A block to be read, if the place has one.
pub(super) fn wanted_at((lbn, place): (u64, &MapEntry)) -> Option<Wanted> {
    match place {
        MapEntry::Stored(pbn, checksum) => {
            Some(Wanted { lbn: Lbn(lbn), pbn: *pbn, checksum: *checksum })
        }
        MapEntry::Unmapped | MapEntry::Damaged => None,
    }
}

/// Adds a stretch to the extents; `false` if it would be one too many.
fn add_extent(extents: &mut Vec<Extent>, length: u64, is_mapped: bool, most: usize) -> bool {
    if let Some(last) = extents.last_mut().filter(|last| last.allocated == is_mapped) {
        last.length += length;
        return true;
    }
    if extents.len() == most {
        return false;
    }
    extents.push(Extent { length, allocated: is_mapped, zero: !is_mapped });
    true
}
