//! The proof of a commit that was written beside its contents and that nothing follows: it counts
//! only if the data store has all of them.

use crate::error::{Result, VolumeError};
use gemelo_format::{Checksum, DiskRole, Pbn, PoolSeed, Superblock};
use gemelo_store::{ContentRead, FreeVeto, PoolDisks, Store};
use std::io;
use std::sync::Arc;

/// Contents that are read at once.
const CONTENTS_AT_ONCE: usize = 256;

/// Looks for the contents of a commit.
pub(super) struct Prover {
    store: Arc<dyn Store>,
    free_veto: Option<Arc<dyn FreeVeto>>,
    seed: PoolSeed,
    /// `true` if a content that cannot be read counts as one that is not there.
    is_salvage: bool,
}

impl Prover {
    pub(super) fn new(
        disks: &PoolDisks,
        store: &Arc<dyn Store>,
        superblock: &Superblock,
        is_salvage: bool,
    ) -> Self {
        let (store, free_veto) = (Arc::clone(store), disks.free_veto());
        Self { store, free_veto, seed: PoolSeed::of(superblock), is_salvage }
    }

    /// Returns whether all of these contents are there. Fails if one cannot be read, which does not
    /// show that it was not written.
    pub(super) fn prove(&self, contents: &[(Pbn, Checksum)]) -> Result<bool> {
        // The veto learns of a block only after its commit is complete.
        let is_kept = |pbn| self.free_veto.as_ref().is_some_and(|veto| veto.is_kept(pbn));
        if contents.iter().any(|(pbn, _)| is_kept(*pbn)) {
            return Ok(true);
        }
        let block_bytes = self.store.block_bytes();
        let mut buffer = vec![0; block_bytes * contents.len().min(CONTENTS_AT_ONCE)];
        for some in contents.chunks(CONTENTS_AT_ONCE) {
            let buffers = buffer.chunks_exact_mut(block_bytes);
            let mut reads: Vec<ContentRead<'_>> = some
                .iter()
                .zip(buffers)
                .map(|((pbn, _), buffer)| ContentRead::new(*pbn, 0, buffer).compared())
                .collect();
            assert!(reads.len() == some.len(), "each content is read");
            self.store.read(&mut reads);
            for ((_, checksum), read) in some.iter().zip(reads) {
                let is_there = match read.outcome {
                    Ok(()) => self.seed.of_content(read.buffer) == *checksum,
                    Err(error) if self.is_salvage || is_absent(&error) => false,
                    Err(error) => return Err(VolumeError::io(DiskRole::Data, "read")(error)),
                };
                if !is_there {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// Returns whether an error says that there is no such content, and not that it cannot be read.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}
