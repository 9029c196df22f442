//! The guards of the protocol: checks and orders that can be left out of the model one by one.

/// A check or an order of the engine. Without it a promise is broken, and a test shows how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guard {
    /// The finder shares or identifies a block only if the LBN still refers to it. Without it a
    /// write is undone: the published "update lost while sharing".
    FinderChecksPlace,
    /// The finder shares a block only if the index still leads to it, and its record has the
    /// fingerprint and a reference.
    FinderChecksEntry,
    /// A writer shares a block only if its record still has the fingerprint and a reference.
    /// Without it a freed block is shared: the published "block freed while in use".
    WriterChecksRecord,
    /// A writer that found no block for a content looks again before it stores the content.
    WriterLooksAgain,
    /// The index forgets a block that loses its last reference: the published "index entry that
    /// outlives its block".
    IndexForgetsFreed,
    /// A freed block is not reused before the commit that frees it is durable.
    FreedWaitsForCommit,
    /// A freed block is not reused before the requests that may still read it have ended.
    FreedWaitsForPins,
    /// Contents are synced before a commit that refers to them is written.
    DataBeforeCommit,
    /// A commit is closed before the contents are synced. Contents that are written during the sync
    /// belong to the next commit.
    CloseBeforeSync,
    /// A flush is acknowledged after the journal is synced.
    AckAfterSync,
    /// A flush that comes while a commit is being written waits for the commit that has its writes.
    FollowerWaitsForOwnCommit,
    /// A commit that found no room in the journal frees its blocks only after the root is durable.
    FreedWaitsForRoot,
    /// The journal gives up commits only after the root that contains them is durable.
    TrimAfterRoot,
    /// A write marks its block for the finder after its change, not before.
    MarkAfterChange,
    /// The finder marks a block again that it leaves because the index kept changing.
    FinderMarksLeft,
    /// Every write of a block forgets the fingerprint that is remembered of it.
    WriteForgetsRemembered,
    /// A fingerprint that was taken while a content was written is remembered only if the block was
    /// not written again since.
    TicketTiesFingerprint,
    /// The collector takes free blocks before it gives back their space.
    DiscardTakesBlocks,
    /// A change of a whole volume, except a copy that is made at once, waits until no request and
    /// no finder is in the volume.
    GateClosed,
    /// An opening writes the newest commit again, and syncs it, before it relies on it.
    OpeningWritesAgain,
    /// Hidden volumes are cleared, also those that a crash has left.
    HiddenAreCleared,
}

impl Guard {
    /// All guards.
    pub const ALL: [Self; 21] = [
        Self::FinderChecksPlace,
        Self::FinderChecksEntry,
        Self::WriterChecksRecord,
        Self::WriterLooksAgain,
        Self::IndexForgetsFreed,
        Self::FreedWaitsForCommit,
        Self::FreedWaitsForPins,
        Self::DataBeforeCommit,
        Self::CloseBeforeSync,
        Self::AckAfterSync,
        Self::FollowerWaitsForOwnCommit,
        Self::FreedWaitsForRoot,
        Self::TrimAfterRoot,
        Self::MarkAfterChange,
        Self::FinderMarksLeft,
        Self::WriteForgetsRemembered,
        Self::TicketTiesFingerprint,
        Self::DiscardTakesBlocks,
        Self::GateClosed,
        Self::OpeningWritesAgain,
        Self::HiddenAreCleared,
    ];
}
