//! A random sample of the blocks that the finder would examine.

use super::super::{VolumeShared, Wanted};
use super::search::SWEPT_AT_ONCE;
use crate::engine::finder::Finder;
use crate::error::{Result, VolumeError};
use gemelo_base::random::Random;
use gemelo_base::{Monitor, SparseBits, StopFlag, Unit};
use gemelo_format::Lbn;
use std::collections::BTreeMap;

/// Blocks that are read at once. Their PBNs are not reused until they are fingerprinted.
const READ_AT_ONCE: usize = 256;

/// A sample of the stored blocks without a fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SampledBlocks {
    /// The number of all such blocks.
    pub(crate) blocks: u64,
    /// The number of blocks in the sample.
    pub(crate) sampled: u64,
    /// The copies in the sample of each content that the index does not know.
    pub(crate) copies_of_new: Vec<u32>,
}

/// A sample of fixed size from a stream of unknown length: each block has the same chance.
struct Reservoir {
    most: usize,
    seen: u64,
    random: Random,
    /// Each block with the number of its volume.
    kept: Vec<(usize, Lbn)>,
}

impl Reservoir {
    fn add(&mut self, volume: usize, lbn: Lbn) {
        self.seen += 1;
        if self.kept.len() < self.most {
            self.kept.push((volume, lbn));
            return;
        }
        let place = usize::try_from(self.random.below(self.seen)).unwrap_or(usize::MAX);
        if let Some(kept) = self.kept.get_mut(place) {
            *kept = (volume, lbn);
        }
    }
}

impl Finder {
    /// Takes a sample of at most `most` blocks and looks their contents up.
    pub(crate) fn sample(
        &self,
        (most, seed): (usize, u64),
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<SampledBlocks> {
        let volumes = self.examined_volumes();
        let mut reservoir =
            Reservoir { most, seen: 0, random: Random::new(seed), kept: Vec::new() };
        // A block counts once, whatever the number of its references.
        let mut seen = SparseBits::default();
        monitor.begin("Choosing a sample", Unit::Items, None);
        for (number, volume) in volumes.iter().enumerate() {
            self.choose(volume, (monitor, stop), &mut seen, |lbn| reservoir.add(number, lbn))?;
        }
        monitor.finish();
        let Reservoir { seen, mut kept, .. } = reservoir;
        // In order, so that neighbours are read together.
        kept.sort_unstable();
        monitor.begin("Reading the sample", Unit::Items, Some(kept.len() as u64));
        let mut sample = SampledBlocks { blocks: seen, ..SampledBlocks::default() };
        let mut copies: BTreeMap<[u8; 16], u32> = BTreeMap::new();
        for some in kept
            .chunk_by(|one, next| one.0 == next.0)
            .flat_map(|of_one| of_one.chunks(READ_AT_ONCE))
        {
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            if let Some(volume) = some.first().and_then(|(number, _)| volumes.get(*number)) {
                self.look_at_sample(volume, some, &mut sample, &mut copies)?;
            }
            monitor.advance(some.len() as u64);
        }
        monitor.finish();
        sample.copies_of_new = copies.into_values().collect();
        Ok(sample)
    }

    /// Calls with an LBN of each block of a volume that has no fingerprint and is not in `seen`.
    fn choose(
        &self,
        volume: &VolumeShared,
        (monitor, stop): (&dyn Monitor, &StopFlag),
        seen: &mut SparseBits,
        mut each: impl FnMut(Lbn),
    ) -> Result<()> {
        let end = Lbn(volume.size_bytes() / self.data.block_bytes() as u64);
        let mut from = Lbn(0);
        loop {
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            // The gate is left in between, so that nobody waits long to remove the volume.
            let removed = volume.enter();
            if *removed {
                return Ok(());
            }
            let first = self.log.next_mapped(volume.id(), from, end)?;
            let Some(first) = first else { return Ok(()) };
            let next = (first.0 + SWEPT_AT_ONCE).min(end.0);
            let lbns: Vec<Lbn> = (first.0..next).map(Lbn).collect();
            for wanted in self.unidentified(volume, &lbns)? {
                if seen.insert(wanted.pbn.number()) {
                    each(wanted.lbn);
                }
            }
            monitor.advance(next - first.0);
            from = Lbn(next);
        }
    }

    /// Reads blocks of the sample. Those that were written meanwhile, or cannot be read, are left
    /// out of it.
    fn look_at_sample(
        &self,
        volume: &VolumeShared,
        some: &[(usize, Lbn)],
        sample: &mut SampledBlocks,
        copies: &mut BTreeMap<[u8; 16], u32>,
    ) -> Result<()> {
        // The pin keeps all blocks that are looked up here from being reused before the end.
        let _pin = self.data.pin();
        let lbns: Vec<Lbn> = some.iter().map(|(_, lbn)| *lbn).collect();
        let removed = volume.enter();
        let wanted: Vec<Wanted> =
            if *removed { Vec::new() } else { self.unidentified(volume, &lbns)? };
        let block_bytes = self.data.block_bytes();
        let mut contents = vec![0; wanted.len() * block_bytes];
        let read =
            self.reader.read_blocks(volume.id(), &wanted, contents.chunks_exact_mut(block_bytes));
        let blocks = contents.chunks_exact(block_bytes).zip(&read);
        let good: Vec<&[u8]> =
            blocks.filter(|(_, read)| read.is_ok()).map(|(content, _)| content).collect();
        let mut fingerprints = Vec::with_capacity(good.len());
        self.fingerprinter.of_all(&good, |fingerprint| fingerprints.push(fingerprint));
        let found = self.log.look(|state| state.find(&fingerprints))?;
        sample.sampled += fingerprints.len() as u64;
        sample.blocks -= (some.len() - fingerprints.len()) as u64;
        for (fingerprint, _) in fingerprints.iter().zip(&found).filter(|(_, pbn)| pbn.is_none()) {
            *copies.entry(fingerprint.to_bytes()).or_default() += 1;
        }
        Ok(())
    }
}
