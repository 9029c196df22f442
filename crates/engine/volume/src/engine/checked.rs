//! Reading contents and comparing each with the checksum in the map.
//!
//! A block that fails is read once more, from the medium, because a transfer or a cache can be
//! wrong where the medium is good. If it fails again it is damaged: the request gets an error, and
//! the block is noted.

use super::{VolumeShared, Wanted};
use crate::counters::{PoolCounters, add};
use crate::engine::damage::Healer;
use crate::engine::data::DataPath;
use crate::engine::live::LiveTuning;
use crate::engine::log::Log;
use crate::engine::parts::Common;
use crate::error::{Result, VolumeError};
use gemelo_format::{DiskRole, Fingerprint, Fingerprinter, Lbn, Pbn, PoolSeed, VolumeId};
use gemelo_store::{ContentComparison, ContentRead};
use std::io;
use std::sync::Arc;

/// A content that a block may have, because both have one fingerprint.
#[derive(Debug, Clone, Copy)]
pub(super) struct FingerprintMatch<'a> {
    pub(super) pbn: Pbn,
    pub(super) fingerprint: Fingerprint,
    pub(super) content: &'a [u8],
}

/// The reads of a batch that wait for the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// All that have to.
    All,
    /// None: they are started, and left to a later batch.
    None,
}

/// The source from which contents were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadSource {
    /// In memory or on the disk. A wrong content must not stay in the cache.
    Any,
    /// On the medium. The cache may have what the medium has lost.
    Medium,
}

/// The blocks that the reads of a batch need, to be read in one list.
#[derive(Default)]
pub(super) struct BlockReads<'a> {
    /// `true` if contents are compared with their checksums.
    is_verified: bool,
    /// The requests and blocks of `reads`.
    wanted: Vec<(usize, Wanted)>,
    reads: Vec<ContentRead<'a>>,
    /// Blocks that are wanted in part and have to be read as a whole.
    parts: Vec<PartRead<'a>>,
}

struct PartRead<'a> {
    request: usize,
    wanted: Wanted,
    within: usize,
    buffer: &'a mut [u8],
}

impl<'a> BlockReads<'a> {
    pub(super) fn with_capacity(reader: &Reader, blocks: usize) -> Self {
        let (wanted, reads) = (Vec::with_capacity(blocks), Vec::with_capacity(blocks));
        let is_verified = reader.live.verify_reads();
        Self { is_verified, wanted, reads, parts: Vec::new() }
    }

    /// Adds the bytes of a block from `within` on. Without `verify_reads` only the wanted bytes are
    /// read. With it a block that is wanted in part is read as a whole, because its checksum covers
    /// all of it.
    pub(super) fn add(
        &mut self,
        reader: &Reader,
        request: usize,
        wanted: Wanted,
        (within, buffer): (usize, &'a mut [u8]),
    ) {
        if self.is_verified && buffer.len() < reader.data.block_bytes() {
            self.parts.push(PartRead { request, wanted, within, buffer });
        } else {
            self.wanted.push((request, wanted));
            let read = ContentRead::new(wanted.pbn, within, buffer);
            self.reads.push(ContentRead { is_compared: self.is_verified, ..read });
        }
    }

    /// Reads them; calls `failed` with each request that has an unreadable block. Returns
    /// the requests that were left because a block of them has to wait for the medium.
    pub(super) fn run(
        self,
        reader: &Reader,
        volume: VolumeId,
        waiting: Waiting,
        failed: &mut impl FnMut(usize, VolumeError),
    ) -> Vec<usize> {
        let Self { is_verified, mut wanted, reads, parts } = self;
        let block_bytes = reader.data.block_bytes();
        let mut blocks = vec![0; parts.len() * block_bytes];
        let mut reads: Vec<ContentRead<'_>> = reads;
        wanted.extend(parts.iter().map(|part| (part.request, part.wanted)));
        let buffers = blocks.chunks_exact_mut(block_bytes);
        let whole = parts.iter().zip(buffers);
        reads.extend(
            whole.map(|(part, block)| ContentRead::new(part.wanted.pbn, 0, block).compared()),
        );
        let left = match waiting {
            Waiting::All => {
                reader.data.read(&mut reads);
                Vec::new()
            }
            Waiting::None => {
                reader.data.read_ready(&mut reads);
                left_of(&wanted, &reads)
            }
        };
        assert_eq!(wanted.len(), reads.len(), "each block that is wanted is read once");
        for ((request, wanted), mut read) in wanted.into_iter().zip(reads) {
            if left.binary_search(&request).is_ok() {
                continue;
            }
            let done = match is_verified {
                true => reader.check_read((volume, ReadSource::Any), wanted, &mut read),
                false if read.outcome.is_ok() => Ok(()),
                false => reader.read_whole(volume, wanted, &mut read),
            };
            if let Err(error) = done {
                failed(request, error);
            }
        }
        for (part, block) in parts.into_iter().zip(blocks.chunks_exact(block_bytes)) {
            let read = block.get(part.within..part.within + part.buffer.len());
            assert!(read.is_some(), "a part ends within its block");
            read.into_iter().for_each(|read| part.buffer.copy_from_slice(read));
        }
        left
    }
}

/// The error of a block that could not be read. A packed block that fails its own checksum is as
/// damaged as a plain one that fails that of the map.
fn error_at(lbn: Lbn) -> impl FnOnce(io::Error) -> VolumeError {
    move |source| match source.kind() {
        io::ErrorKind::InvalidData => VolumeError::DamagedBlock { lbn: lbn.0 },
        _ => VolumeError::io(DiskRole::Data, "read")(source),
    }
}

/// Returns whether a content was not read because where it lies cannot be reached. It may be
/// intact.
fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::HostUnreachable | io::ErrorKind::TimedOut)
}

/// Returns the requests with a block that was left, in order.
fn left_of(wanted: &[(usize, Wanted)], reads: &[ContentRead<'_>]) -> Vec<usize> {
    let pairs = wanted.iter().zip(reads);
    let left = pairs.filter(|(_, read)| read.is_left()).map(|((request, _), _)| *request);
    let mut left: Vec<usize> = left.collect();
    left.sort_unstable();
    left.dedup();
    left
}

/// Reads contents, and finds out whether they are what the maps expect; see the module.
pub(crate) struct Reader {
    pub(super) data: Arc<DataPath>,
    pub(super) log: Arc<Log>,
    pub(super) healer: Arc<Healer>,
    pub(super) fingerprinter: Arc<Fingerprinter>,
    pub(crate) seed: PoolSeed,
    pub(super) counters: Arc<PoolCounters>,
    pub(super) live: Arc<LiveTuning>,
}

impl Reader {
    pub(in crate::engine) fn new(common: &Common, healer: &Arc<Healer>) -> Self {
        Self {
            data: Arc::clone(&common.data),
            log: Arc::clone(&common.log),
            healer: Arc::clone(healer),
            fingerprinter: Arc::clone(&common.fingerprinter),
            seed: common.seed,
            counters: Arc::clone(&common.counters),
            live: Arc::clone(&common.live),
        }
    }

    /// Returns whether equal fingerprints prove equal contents.
    pub(crate) fn proves_equality(&self) -> bool {
        !self.must_compare()
    }

    fn must_compare(&self) -> bool {
        self.live.verify_bytes() || self.fingerprinter.must_compare()
    }

    /// Returns whether bytes are compared before a block is shared by a write to this volume.
    pub(in crate::engine) fn must_compare_in(&self, volume: &VolumeShared) -> bool {
        volume.verifies_bytes() || self.fingerprinter.must_compare()
    }

    /// Reads whole blocks, and compares each with its checksum, even without `verify_reads`. The
    /// outcomes are in the order of the blocks; of more buffers than blocks the rest is left alone.
    pub(crate) fn read_blocks<'b>(
        &self,
        volume: VolumeId,
        wanted: &[Wanted],
        buffers: impl Iterator<Item = &'b mut [u8]>,
    ) -> Vec<Result<()>> {
        let read = |reads: &mut [ContentRead<'_>]| self.data.read(reads);
        self.read_and_check((volume, ReadSource::Any), wanted, buffers, read)
    }

    /// Reads blocks as [`Self::read_blocks`] does, but from the medium.
    pub(crate) fn read_blocks_of_medium<'b>(
        &self,
        volume: VolumeId,
        wanted: &[Wanted],
        buffers: impl Iterator<Item = &'b mut [u8]>,
    ) -> Vec<Result<()>> {
        let read = |reads: &mut [ContentRead<'_>]| self.data.read_medium(reads);
        self.read_and_check((volume, ReadSource::Medium), wanted, buffers, read)
    }

    fn read_and_check<'b>(
        &self,
        (volume, source): (VolumeId, ReadSource),
        wanted: &[Wanted],
        buffers: impl Iterator<Item = &'b mut [u8]>,
        read: impl FnOnce(&mut [ContentRead<'_>]),
    ) -> Vec<Result<()>> {
        let pairs = wanted.iter().zip(buffers);
        let mut reads: Vec<ContentRead<'_>> = pairs
            .map(|(wanted, buffer)| ContentRead::new(wanted.pbn, 0, buffer).compared())
            .collect();
        assert_eq!(reads.len(), wanted.len(), "each block has a buffer");
        read(&mut reads);
        let checked = wanted.iter().zip(reads);
        let check = |(wanted, mut read): (&Wanted, _)| {
            self.check_read((volume, source), *wanted, &mut read)
        };
        checked.map(check).collect()
    }

    /// Compares a block that was read with its checksum, and reads it again if it fails.
    fn check_read(
        &self,
        (volume, source): (VolumeId, ReadSource),
        wanted: Wanted,
        read: &mut ContentRead<'_>,
    ) -> Result<()> {
        if read.outcome.is_ok() && self.seed.of_content(read.buffer) == wanted.checksum {
            return Ok(());
        }
        if source == ReadSource::Any {
            self.data.forget_cached(wanted.pbn);
        }
        self.read_again(volume, wanted, read.buffer)
    }

    /// The second try of a block of which a part could not be read. The checksum is that of all of
    /// it.
    #[cold]
    fn read_whole(
        &self,
        volume: VolumeId,
        wanted: Wanted,
        read: &mut ContentRead<'_>,
    ) -> Result<()> {
        self.data.forget_cached(wanted.pbn);
        let mut content = vec![0; self.data.block_bytes()];
        let outcome = self.read_again(volume, wanted, &mut content);
        let part = content.get(read.within..read.within + read.buffer.len());
        assert!(part.is_some(), "a part ends within its block");
        part.into_iter().for_each(|part| read.buffer.copy_from_slice(part));
        outcome
    }

    /// The second try of a block that could not be read or failed its checksum.
    #[cold]
    fn read_again(&self, volume: VolumeId, wanted: Wanted, content: &mut [u8]) -> Result<()> {
        let read = self.data.read_one(wanted.pbn, content);
        if read.is_ok() && self.seed.of_content(content) == wanted.checksum {
            return Ok(());
        }
        if !read.as_ref().is_err_and(is_out_of_reach) {
            self.healer.note_damage(volume, wanted);
        }
        // A client must not get the bytes of a damaged block.
        content.fill(0);
        read.map_err(error_at(wanted.lbn))?;
        Err(VolumeError::DamagedBlock { lbn: wanted.lbn.0 })
    }

    /// Compares contents with those of blocks that have the same fingerprints. A block that turns
    /// out to be damaged becomes suspect.
    pub(super) fn are_equal(&self, likenesses: &[FingerprintMatch<'_>]) -> Vec<bool> {
        if likenesses.is_empty() {
            return Vec::new();
        }
        let mut comparisons: Vec<_> =
            likenesses.iter().map(|one| ContentComparison::new(one.pbn, one.content)).collect();
        self.data.compare(&mut comparisons);
        let outcomes = comparisons.into_iter().zip(likenesses).map(|(done, likeness)| {
            let is_equal = matches!(done.outcome, Ok(true));
            if !is_equal {
                self.note_difference(likeness, done.outcome.is_ok());
            }
            is_equal
        });
        outcomes.collect()
    }

    /// Finds out why a block has another content than its fingerprint told.
    #[cold]
    pub(super) fn note_difference(&self, likeness: &FingerprintMatch<'_>, is_readable: bool) {
        self.data.forget_cached(likeness.pbn);
        let mut stored = vec![0; self.data.block_bytes()];
        let is_read = is_readable && self.data.read_one(likeness.pbn, &mut stored).is_ok();
        if is_read && self.fingerprinter.of(&stored) == likeness.fingerprint {
            add(&self.counters.collisions, 1);
        } else {
            self.healer.suspect(likeness.pbn);
        }
    }
}
