//! What differs between two volumes, and the contents of what is sent.
//!
//! Maps of volumes that were cloned from one another share nodes, and these are not looked at. So a
//! comparison takes the time of what differs. LBNs with another block differ, though its content
//! may be the same: an off-line volume stores a duplicate until the finder shares it.

use super::catalogue::Catalogue;
use super::data::{DataPath, GoodForm};
use super::read::wanted_at;
use super::volumes::check_there;
use super::{Range as ByteRange, VolumeShared, Wanted};
use crate::engine::checked::{FingerprintMatch, Reader};
use crate::engine::log::Log;
use crate::engine::parts::Common;
use crate::error::{Result, VolumeError};
use gemelo_base::StopFlag;
use gemelo_device::ChangedExtent;
use gemelo_format::{Fingerprint, Lbn, MapEntry, Pbn, Superblock};
use gemelo_metadata::{Differences, DifferingEntry, HeldPages, KnownBlock};
use gemelo_store::{Compressed, ContentRead};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// Leaves of maps that are compared in one hold of the state's lock. A thread holds them in memory.
const LEAVES_AT_ONCE: usize = 64;

/// The way in which a range differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// It was zeros, and holds data now.
    New,
    /// It holds other data.
    Changed,
    /// It held data, and is zeros now.
    Zero,
}

impl DifferenceKind {
    /// Returns whether the range holds data now.
    #[must_use]
    pub const fn is_data(self) -> bool {
        matches!(self, Self::New | Self::Changed)
    }
}

/// A range that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DifferingRange {
    /// Its first byte.
    pub offset_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
    /// The way in which it differs.
    pub kind: DifferenceKind,
}

/// Some of the ranges that differ, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifferingRanges {
    /// The ranges.
    pub ranges: Vec<DifferingRange>,
    /// The end of what was compared.
    pub end_bytes: u64,
    /// Size of the volume.
    pub size_bytes: u64,
    /// Size of the other volume.
    pub since_size_bytes: u64,
}

/// A content that is sent.
#[derive(Debug)]
pub struct SentContent {
    /// The content.
    pub content: Vec<u8>,
    /// The algorithm and the bytes of its stored form, if that is compressed.
    pub form: Option<(u8, Vec<u8>)>,
    /// `true` if more than one LBN may have the content.
    pub is_shared: bool,
}

/// Compares volumes; see the module.
pub(crate) struct Comparer {
    catalogue: Arc<Catalogue>,
    data: Arc<DataPath>,
    log: Arc<Log>,
    reader: Arc<Reader>,
    superblock: Superblock,
}

impl Comparer {
    pub(in crate::engine) fn new(common: &Common, reader: &Arc<Reader>) -> Self {
        Self {
            catalogue: Arc::clone(&common.catalogue),
            data: Arc::clone(&common.data),
            log: Arc::clone(&common.log),
            reader: Arc::clone(reader),
            superblock: common.superblock.clone(),
        }
    }

    /// Compares a volume with another one, or with nothing, from an LBN on, and gives as much as
    /// takes a few milliseconds. Blocks beyond the end of the other volume count as unmapped.
    pub(crate) fn compare(
        &self,
        (name, volume): (&str, &VolumeShared),
        since: Option<(&str, &VolumeShared)>,
        lbns: Range<Lbn>,
    ) -> Result<Differences> {
        // Gates are entered in the order of the ids, as their ranks demand.
        let mut gates: Vec<_> = [Some((name, volume)), since].into_iter().flatten().collect();
        gates.sort_by_key(|(_, volume)| volume.id());
        gates.dedup_by_key(|(_, volume)| volume.id());
        let mut entered = Vec::with_capacity(gates.len());
        for (name, volume) in gates {
            let removed = volume.enter();
            check_there(*removed, name)?;
            entered.push(removed);
        }
        let lbns = lbns.start..lbns.end.min(Lbn(volume.blocks()));
        let since_end = since.map_or(Lbn(0), |(_, since)| Lbn(since.blocks()));
        let (other, lbns) = match since {
            Some((_, since)) if lbns.start < since_end => {
                (Some(since.id()), lbns.start..lbns.end.min(since_end))
            }
            _ => (None, lbns),
        };
        if lbns.start >= lbns.end {
            return Ok(Differences { entries: Vec::new(), end: lbns.end });
        }
        let _held = HeldPages::hold();
        self.log.look(|state| {
            let backend = state.backend();
            Ok(backend.differences(volume.id(), other, lbns.clone(), LEAVES_AT_ONCE)?)
        })
    }

    /// The ranges that differ from a byte on: at least `most` of them, if there are as many.
    pub(crate) fn ranges(
        &self,
        name: &str,
        since: &str,
        bytes: Range<u64>,
        (most, stop): (usize, &StopFlag),
    ) -> Result<DifferingRanges> {
        let (volume, earlier) = (self.catalogue.find(name)?, self.catalogue.find(since)?);
        let block_bytes = u64::from(self.superblock.block_bytes);
        let end = Lbn(volume.blocks().min(bytes.end.div_ceil(block_bytes)));
        let (mut next, mut ranges) = (Lbn(bytes.start / block_bytes), Vec::new());
        while next < end && ranges.len() < most {
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            let found = self.compare((name, &volume), Some((since, &*earlier)), next..end)?;
            found.entries.iter().for_each(|entry| add_range(&mut ranges, *entry, block_bytes));
            // A volume that was cut meanwhile has nothing beyond its end.
            next = if found.end > next { found.end } else { end };
        }
        Ok(DifferingRanges {
            ranges,
            end_bytes: next.0 * block_bytes,
            size_bytes: volume.size_bytes(),
            since_size_bytes: earlier.size_bytes(),
        })
    }

    /// The extents of a range, by what differs from another volume.
    pub(crate) fn extents(
        &self,
        (name, volume): (&str, &VolumeShared),
        since: (&str, &VolumeShared),
        range: ByteRange,
        most: usize,
    ) -> Result<Vec<ChangedExtent>> {
        let block_bytes = u64::from(self.superblock.block_bytes);
        let blocks = range.blocks(block_bytes);
        let (mut next, mut extents) = (blocks.start, Vec::new());
        while next < blocks.end {
            let lbns = Lbn(next)..Lbn(blocks.end);
            let found = self.compare((name, volume), Some(since), lbns)?;
            // A volume that was cut meanwhile has nothing beyond its end.
            let end = if found.end.0 > next { found.end.0 } else { blocks.end };
            for entry in &found.entries {
                let (is_changed, is_zero) = (true, entry.own == MapEntry::Unmapped);
                let same = range.part(next..entry.lbn.0, block_bytes);
                let own = range.part(entry.lbn.0..entry.lbn.0 + 1, block_bytes);
                if !add_extent(&mut extents, (same, false, false), most)
                    || !add_extent(&mut extents, (own, is_changed, is_zero), most)
                {
                    return Ok(extents);
                }
                next = entry.lbn.0 + 1;
            }
            let same = range.part(next..end, block_bytes);
            if !add_extent(&mut extents, (same, false, false), most) {
                return Ok(extents);
            }
            next = end;
        }
        Ok(extents)
    }

    /// Reads the contents of LBNs, in their order; [`None`] for one without a content.
    pub(crate) fn contents(
        &self,
        name: &str,
        volume: &VolumeShared,
        lbns: &[Lbn],
    ) -> Result<Vec<Option<SentContent>>> {
        let removed = volume.enter();
        check_there(*removed, name)?;
        // The pin keeps the blocks from being reused before all are read.
        let _pin = self.data.pin();
        let places = self.log.places(volume.id(), lbns)?;
        if let Some((lbn, _)) =
            lbns.iter().zip(&places).find(|(_, place)| **place == MapEntry::Damaged)
        {
            return Err(VolumeError::DamagedBlock { lbn: lbn.0 });
        }
        let pairs = lbns.iter().map(|lbn| lbn.0).zip(&places);
        let wanted: Vec<Option<Wanted>> = pairs.map(wanted_at).collect();
        let stored: Vec<Wanted> = wanted.iter().flatten().copied().collect();
        let pbns: Vec<Pbn> = stored.iter().map(|wanted| wanted.pbn).collect();
        let counts = self.log.look(|state| state.counts(&pbns))?;
        let read = match self.data.has_forms() {
            true => self.read_packed(volume, &stored),
            false => self.read_plain(volume, &stored),
        };
        let mut read = read?.into_iter().zip(counts);
        let content =
            |wanted: &Option<Wanted>| {
                wanted.is_some().then(|| read.next()).flatten().map(|((content, form), count)| {
                    SentContent { content, form, is_shared: count > 1 }
                })
            };
        let all: Vec<_> = wanted.iter().map(content).collect();
        assert_eq!(all.iter().flatten().count(), stored.len(), "each stored block was read");
        Ok(all)
    }

    /// Reads contents of the pool by their fingerprints; [`None`] for one that the pool does not
    /// have, or whose block is damaged.
    pub(crate) fn known_contents(&self, wanted: &[Fingerprint]) -> Result<Vec<Option<Vec<u8>>>> {
        // The pin keeps the blocks from being reused before all are read.
        let _pin = self.data.pin();
        let known = self.log.look(|state| state.find(wanted))?;
        let mut contents = vec![vec![0; self.data.block_bytes()]; known.iter().flatten().count()];
        let buffers = contents.iter_mut().map(Vec::as_mut_slice);
        let places = known.iter().flatten().map(|known| known.pbn);
        let mut reads: Vec<ContentRead<'_>> =
            places.zip(buffers).map(|(pbn, buffer)| ContentRead::new(pbn, 0, buffer)).collect();
        self.data.read(&mut reads);
        let outcomes: Vec<bool> = reads.into_iter().map(|read| read.outcome.is_ok()).collect();
        let mut read = contents.into_iter().zip(outcomes);
        let content = |(wanted, known): (&Fingerprint, &Option<KnownBlock>)| {
            let (content, is_read) = known.as_ref().and_then(|_| read.next())?;
            let is_it = is_read && self.reader.fingerprinter.of(&content) == *wanted;
            if let (false, Some(known)) = (is_it, known) {
                // Then the content heals the block when it is written.
                let (pbn, fingerprint) = (known.pbn, *wanted);
                let found = FingerprintMatch { pbn, fingerprint, content: &content };
                self.reader.note_difference(&found, is_read);
            }
            is_it.then_some(content)
        };
        Ok(wanted.iter().zip(&known).map(content).collect())
    }

    fn read_plain(&self, volume: &VolumeShared, stored: &[Wanted]) -> Result<Vec<ReadContent>> {
        let block_bytes = self.data.block_bytes();
        let mut contents = vec![vec![0; block_bytes]; stored.len()];
        let buffers = contents.iter_mut().map(Vec::as_mut_slice);
        self.reader
            .read_blocks(volume.id(), stored, buffers)
            .into_iter()
            .collect::<Result<()>>()?;
        Ok(contents.into_iter().map(|content| (content, None)).collect())
    }

    fn read_packed(&self, volume: &VolumeShared, stored: &[Wanted]) -> Result<Vec<ReadContent>> {
        let wanted: Vec<_> = stored.iter().map(|wanted| (wanted.pbn, wanted.checksum)).collect();
        let forms = self.data.read_good_forms(&wanted);
        let read = stored.iter().zip(forms).map(|(wanted, form)| {
            let good = form.and_then(|form| compressed_part(wanted.pbn, form));
            good.map_or_else(|| self.read_again(volume, *wanted), Ok)
        });
        read.collect()
    }

    /// Reads a content whose form is damaged, or lies with another member.
    #[cold]
    fn read_again(&self, volume: &VolumeShared, wanted: Wanted) -> Result<ReadContent> {
        let read = self.read_plain(volume, &[wanted])?.pop();
        read.ok_or(VolumeError::DamagedBlock { lbn: wanted.lbn.0 })
    }
}

/// A content and its compressed form.
type ReadContent = (Vec<u8>, Option<(u8, Vec<u8>)>);

/// A content and the compressed bytes of its form.
fn compressed_part(pbn: Pbn, GoodForm { form, content }: GoodForm) -> Option<ReadContent> {
    let compressed = Compressed::of_forms([(pbn, &*form)].into_iter())?;
    let part = compressed.parts().next()?;
    Some((content, part.map(|(algorithm, bytes)| (algorithm, bytes.to_vec()))))
}

/// Adds a stretch to the extents; `false` if it would be one too many.
fn add_extent(
    extents: &mut Vec<ChangedExtent>,
    (length, is_changed, is_zero): (u64, bool, bool),
    most: usize,
) -> bool {
    let is_same =
        |last: &&mut ChangedExtent| last.is_changed == is_changed && last.is_zero == is_zero;
    if length == 0 {
        return true;
    }
    if let Some(last) = extents.last_mut().filter(is_same) {
        last.length += length;
        return true;
    }
    let has_room = extents.len() < most;
    extents.extend(has_room.then_some(ChangedExtent { length, is_changed, is_zero }));
    has_room
}

/// Adds an LBN to the ranges.
fn add_range(ranges: &mut Vec<DifferingRange>, entry: DifferingEntry, block_bytes: u64) {
    let kind = match (entry.other, entry.own) {
        (_, MapEntry::Unmapped) => DifferenceKind::Zero,
        (MapEntry::Unmapped, _) => DifferenceKind::New,
        _ => DifferenceKind::Changed,
    };
    let offset_bytes = entry.lbn.0 * block_bytes;
    match ranges.last_mut() {
        Some(last)
            if last.kind == kind && last.offset_bytes + last.length_bytes == offset_bytes =>
        {
            last.length_bytes += block_bytes;
        }
        _ => ranges.push(DifferingRange { offset_bytes, length_bytes: block_bytes, kind }),
    }
}
