//! The veto of blocks whose contents other pools use, or that lie in other pools.

use crate::{ReadCache, Store};
use gemelo_format::{Fingerprint, Pbn, StoreKind};
use std::io;
use std::sync::Arc;

/// Calls a function with each PBN of a set.
pub type EachPbn<'a> = dyn Fn(&mut dyn FnMut(Pbn)) + 'a;

/// The store of a pool whose blocks have a veto.
pub struct VetoedStore {
    /// The store that the pool uses.
    pub store: Arc<dyn Store>,
    /// The same contents, without those that only a write buffer has.
    pub medium: Arc<dyn Store>,
    /// The kind of both.
    pub kind: StoreKind,
    /// A cache of contents that lie elsewhere; [`None`] for a pool that is opened without one.
    pub cache: Option<Arc<ReadCache>>,
}

/// Keeps blocks of a pool from being given to other contents, beyond the pool's own references.
///
/// An open pool tells its veto which blocks have known contents, and asks it before it frees a
/// block. The calls come from the threads that make commits durable, with locks held: all but
/// [`Self::lent`] answer from memory and call nothing of the pool.
pub trait FreeVeto: Send + Sync {
    /// Returns the store that is to be used in place of the pool's own one.
    fn store_over(&self, own: VetoedStore) -> Arc<dyn Store>;

    /// Returns whether the content is read elsewhere, and not at its place in the pool's own store.
    fn is_elsewhere(&self, pbn: Pbn) -> bool;

    /// Has the content of a block that is read elsewhere written to its own place, where it is read
    /// from then on. `write` makes it durable there.
    ///
    /// # Errors
    /// Fails if the own place may be another content's, if `write` fails, or if the owner cannot
    /// record it.
    fn restore(&self, pbn: Pbn, write: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;

    /// Learns that the pool was opened for writing, and which contents its durable state refers to.
    /// `each_used` lists them. Returns the kept ones to which the state does not refer: they are
    /// not free.
    fn opened(&self, each_used: &EachPbn<'_>, is_used: &dyn Fn(Pbn) -> bool) -> Vec<Pbn>;

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

    /// Returns whether a content that is kept may become the pool's own alone, so that it can be
    /// moved.
    fn may_come_back(&self, pbn: Pbn) -> bool;

    /// Asks for contents that may come back. Later, they are not kept any more, or may not come
    /// back, or may be asked for again.
    fn want_back(&self, pbns: &[Pbn]);

    /// Returns whether contents that were asked for are not decided about.
    fn is_coming_back(&self) -> bool;
}
