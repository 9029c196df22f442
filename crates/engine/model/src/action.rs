//! The actions of the model.

use crate::numbers::{Cell, Content, Mode, Pbn};

/// A step that the engine makes under one hold of a lock, or one call to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A client asks for a write of a content, and the first pass looks the block up.
    Write(u8, Cell, Content),
    /// The next pass of a client's write looks the block up.
    LookUp(u8),
    /// A client's write takes a free block and writes its content there.
    Store(u8, Pbn),
    /// A client's write finds no free block.
    Refuse(u8),
    /// A client's write makes its change and is acknowledged, or begins another pass.
    Change(u8),
    /// An LBN is unmapped.
    Trim(Cell),
    /// A client's read looks the block up.
    BeginRead(u8, Cell),
    /// A client's read gets the content.
    EndRead(u8),
    /// The finder takes the marks of a volume and lists the blocks that have no fingerprint.
    Search(u8),
    /// The finder takes the mark of one LBN, and leaves the others of the volume for later: it
    /// takes blocks that were written before those of a whole volume, and a bounded number at a
    /// time.
    SearchOne(Cell),
    /// The finder looks the content of a listed block up.
    Examine(u8),
    /// A thread that has written a content out begins to take its fingerprint.
    BeginTake(Pbn),
    /// The fingerprint is taken.
    EndTake,
    /// The finder shares or identifies an examined block, or leaves it.
    Settle(u8),
    /// The open commit is closed.
    Close,
    /// The open commit is closed, and a checkpoint begins.
    CloseForCheckpoint,
    /// The sync of the contents begins.
    BeginSync,
    /// The sync of the contents ends.
    EndSync,
    /// The closed commit is written, or finds no room in the journal.
    WriteCommit,
    /// The state is frozen for a root that replaces the commit without room.
    FreezeForRoot,
    /// The journal is synced.
    SyncCommit,
    /// The root that replaces a commit is synced.
    SyncRoot,
    /// The root of a checkpoint is written.
    WriteCheckpoint,
    /// The root of a checkpoint is synced.
    SyncCheckpoint,
    /// The collector begins to give back the space of a block.
    BeginDiscard(Pbn),
    /// The collector has given back the space of a block.
    EndDiscard,
    /// A volume is made.
    Create(u8, Mode),
    /// A volume is removed.
    Remove(u8),
    /// A volume is copied at once to a new one.
    Clone(u8, u8),
    /// A large volume is hidden, and removed later.
    Hide(u8),
    /// A hidden volume is removed.
    ClearHidden(u8),
    /// The mode of a volume changes.
    SetMode(u8, Mode),
    /// The power is cut; `true` if the commit that was being written is on the disk.
    CutPower(bool),
    /// The process is killed.
    Kill,
}
