//! The state that one lock guards: the metadata and the open commit.

use super::commit::OpenCommit;
use crate::engine::Wanted;
use crate::engine::read::wanted_at;
use crate::error::Result;
use gemelo_format::{Fingerprint, Lbn, MapEntry, Pbn, VolumeId};
use gemelo_metadata::{KnownBlock, MetadataBackend, Record};

/// The most LBNs that are unmapped in one hold of the state's lock. Each is looked up in trees,
/// which takes a few milliseconds.
const MOST_UNMAPPED: u64 = 1024;

/// The metadata and the open commit; see the module.
pub(crate) struct State {
    pub(super) backend: Box<dyn MetadataBackend>,
    pub(super) open: OpenCommit,
}

impl State {
    pub(super) fn new(backend: Box<dyn MetadataBackend>, open: OpenCommit) -> Self {
        Self { backend, open }
    }

    /// The backend that has the metadata.
    pub(crate) fn backend(&self) -> &dyn MetadataBackend {
        &*self.backend
    }

    /// The same as [`Self::backend`], to be changed.
    pub(super) fn backend_mut(&mut self) -> &mut dyn MetadataBackend {
        &mut *self.backend
    }

    /// The places of LBNs.
    pub(crate) fn places(&self, volume: VolumeId, lbns: &[Lbn]) -> Result<Vec<MapEntry>> {
        let mut places = Vec::with_capacity(lbns.len());
        self.backend.look_up(volume, lbns, &mut places)?;
        assert_eq!(places.len(), lbns.len(), "each LBN has a place");
        Ok(places)
    }

    /// The records of blocks.
    pub(crate) fn records(&self, pbns: &[Pbn]) -> Result<Vec<Record>> {
        let mut records = Vec::with_capacity(pbns.len());
        self.backend.records(pbns, &mut records)?;
        assert_eq!(records.len(), pbns.len(), "each block has a record");
        Ok(records)
    }

    /// The reference counts of blocks.
    pub(crate) fn counts(&self, pbns: &[Pbn]) -> Result<Vec<u32>> {
        let mut counts = Vec::with_capacity(pbns.len());
        self.backend.counts(pbns, &mut counts)?;
        assert_eq!(counts.len(), pbns.len(), "each block has a count");
        Ok(counts)
    }

    /// The blocks that are stored at LBNs, with their records.
    pub(crate) fn stored(&self, volume: VolumeId, lbns: &[Lbn]) -> Result<Vec<(Wanted, Record)>> {
        let places = self.places(volume, lbns)?;
        let pairs = lbns.iter().map(|lbn| lbn.0).zip(&places);
        let stored: Vec<Wanted> = pairs.filter_map(wanted_at).collect();
        let pbns: Vec<Pbn> = stored.iter().map(|wanted| wanted.pbn).collect();
        Ok(stored.into_iter().zip(self.records(&pbns)?).collect())
    }

    /// A block with each of these contents, if the index knows one.
    pub(crate) fn find(&self, contents: &[Fingerprint]) -> Result<Vec<Option<KnownBlock>>> {
        let mut found = Vec::with_capacity(contents.len());
        self.backend.find(contents, &mut found)?;
        assert_eq!(found.len(), contents.len(), "each content is looked for once");
        Ok(found)
    }

    /// The most LBNs that one change unmaps. They fit the backend's memory and take a few
    /// milliseconds.
    pub(crate) fn piece_blocks(&self) -> u64 {
        self.backend.piece_blocks().min(MOST_UNMAPPED)
    }

    /// Tells states of the pool apart: every change gives another version.
    pub(crate) const fn version(&self) -> (u64, usize) {
        self.open.version()
    }

    /// Blocks that changes of the open commit have freed.
    pub(crate) const fn freed_blocks(&self) -> usize {
        self.open.freed_blocks()
    }

    pub(super) const fn open(&self) -> &OpenCommit {
        &self.open
    }
}
