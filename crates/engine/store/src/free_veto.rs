//! The veto of blocks whose contents other pools use, or that lie in other pools.

use crate::Store;
use gemelo_format::{Fingerprint, Pbn};
use std::io;
use std::sync::Arc;

/// Keeps blocks of a pool from being given to other contents, beyond the pool's own references.
///
/// An open pool tells its veto which blocks have known contents, and asks it before it frees a
/// block. The calls come from the threads that make commits durable, with locks held: all but
/// [`Self::lent`] answer from memory and call nothing of the pool.
pub trait FreeVeto: Send + Sync {
    /// Returns the store that is to be used in place of the pool's own one below.
    fn store_over(&self, below: Arc<dyn Store>) -> Arc<dyn Store>;

    /// Learns that the pool was opened for writing, which blocks its durable state refers to, and
    /// the number of blocks. Returns the kept blocks to which the state does not refer: they are
    /// not free.
    fn opened(&self, blocks: u64, is_used: &dyn Fn(Pbn) -> bool) -> Vec<Pbn>;

    /// Learns of blocks whose contents and fingerprints have become durable.
    fn identified(&self, pbns: &[Pbn]);

    /// Learns that the content of a block was found damaged, or is good again: the owner should
    /// look at it. Another block may have the content as well.
    fn doubt(&self, pbn: Pbn, copy: Option<Pbn>);

    /// Returns kept blocks that others use and the pool does not refer to, with the fingerprints of
    /// their contents: the next ones after a block, at least one of them and at most `most`. None
    /// means that no more follow. The call may take as long as a request to a disk.
    ///
    /// # Errors
    /// Fails if the owner's records cannot be read.
    fn lent(&self, after: Option<Pbn>, most: usize) -> io::Result<Vec<(Pbn, Fingerprint)>>;

    /// Decides about a block that has lost its last reference, durably, and that no request reads
    /// any more. `true` keeps it, until the veto's owner gives it back to the pool.
    fn keep(&self, pbn: Pbn) -> bool;

    /// Returns the number of kept blocks without references that are soon given back, unless others
    /// need them. A writer that finds the pool full waits for them.
    fn due_blocks(&self) -> u64;

    /// Returns whether the block would be kept now, so that moving its content frees nothing.
    fn is_kept(&self, pbn: Pbn) -> bool;
}
