//! The requests to an open pool, and their replies. Commands of this process and clients of the
//! control socket use the same list.

use crate::report::StatReport;
use crate::settings::SettingReport;
use gemelo_format::DedupMode;
use gemelo_volume::{
    ArrangeReport, DifferingRanges, FindEstimate, FinderReport, GcReport, NewCopy,
    RecompressReport, ScrubReport, ShrinkReport, SnapshotSpace, VolumeSpace,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A request to an open pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolRequest {
    /// Reports the figures of the pool.
    Stat,
    /// Computes the space that volumes hold alone and share. Walks the map of each volume.
    VolumeSpace {
        /// Name of the volume; [`None`] for all volumes.
        name: Option<String>,
    },
    /// Counts the blocks with and without snapshots. Walks the maps of all volumes.
    SnapshotSpace,
    /// Creates a volume.
    CreateVolume {
        /// Name of the volume.
        name: String,
        /// Size of the volume in bytes.
        size_bytes: u64,
        /// Deduplication of its writes.
        mode: DedupMode,
        /// An import is going to fill it.
        #[serde(default)]
        is_imported: bool,
    },
    /// Removes a volume.
    RemoveVolume {
        /// Name of the volume.
        name: String,
        /// `true` to remove a volume that holds data or has connected clients.
        force: bool,
    },
    /// Renames a volume.
    RenameVolume {
        /// Present name of the volume.
        name: String,
        /// New name of the volume.
        new_name: String,
    },
    /// Changes the size of a volume.
    ResizeVolume {
        /// Name of the volume.
        name: String,
        /// New size in bytes.
        size_bytes: u64,
        /// Bytes at its end that fill up the last block of an import.
        #[serde(default)]
        padding_bytes: u32,
        /// `true` to let the volume become smaller, which loses the data beyond the new end.
        force: bool,
    },
    /// Makes a clone of a volume.
    CloneVolume {
        /// Name of the volume.
        name: String,
        /// Name of the clone.
        new_name: String,
    },
    /// Snapshots volumes, all at one moment.
    SnapshotVolumes {
        /// The volumes, with the names of their snapshots.
        copies: Vec<NewCopy>,
    },
    /// Gives a volume the contents of one of its snapshots.
    RollBack {
        /// Name of the volume.
        name: String,
        /// Name of the snapshot.
        snapshot: String,
        /// `true` to roll back a volume that has connected clients.
        force: bool,
    },
    /// Adds a hold to a snapshot, or takes one away.
    Hold {
        /// Name of the snapshot.
        name: String,
        /// The tag of the hold.
        tag: String,
        /// `true` to add it.
        is_held: bool,
    },
    /// Compares a volume with another one, from a byte on.
    DifferingRanges {
        /// Name of the volume.
        name: String,
        /// Name of the other volume.
        since: String,
        /// First byte that is compared.
        from_bytes: u64,
    },
    /// Sends a snapshot as a stream over the connection.
    Send {
        /// Name of the snapshot.
        name: String,
        /// Name of the snapshot from which on only differences are sent.
        since: Option<String>,
        /// `true` if the receiver's answers come over the connection, too.
        #[serde(default)]
        is_exchange: bool,
        /// The level by which the stream is compressed, if it is.
        #[serde(default)]
        level: Option<u8>,
        /// `true` if the client wants to know the progress.
        #[serde(default)]
        tells_progress: bool,
    },
    /// Makes a snapshot of a stream that comes over the connection.
    Receive {
        /// Name of the snapshot.
        name: String,
        /// Deduplication of a snapshot that builds on no other one.
        mode: DedupMode,
        /// `true` if answers to the sender go over the connection, too.
        #[serde(default)]
        is_exchange: bool,
    },
    /// Changes settings of the pool or of a volume.
    Set {
        /// Name of the volume; [`None`] for the pool.
        volume: Option<String>,
        /// The new values by the names of the settings; [`None`] takes a choice back.
        changes: BTreeMap<String, Option<String>>,
    },
    /// Reports on the settings of the pool or of a volume.
    Settings {
        /// Name of the volume; [`None`] for the pool.
        volume: Option<String>,
    },
    /// Makes the snapshots that are due by the settings of the volumes, and removes old ones.
    Tick,
    /// Removes copies of earlier snapshots of the volume of whose snapshot this is a copy.
    PruneCopies {
        /// Name of the copy.
        name: String,
        /// The rule, as the setting `keep` has it.
        keep: String,
    },
    /// Runs the collector.
    Collect {
        /// Most bytes a second that are given back; [`None`] for no limit.
        max_bytes_per_s: Option<u64>,
    },
    /// Runs the finder over all blocks of off-line volumes.
    Find,
    /// Pauses or resumes the finder of the background of a served pool.
    PauseFinder {
        /// `true` to pause it.
        is_paused: bool,
    },
    /// Estimates what running the finder would save.
    EstimateFind {
        /// Most bytes of contents that are read.
        sample_bytes: u64,
        /// Seed of the choice of the blocks.
        seed: u64,
    },
    /// Brings together what lies scattered in all volumes.
    Arrange {
        /// Most bytes a second that are moved; [`None`] for no limit.
        max_bytes_per_s: Option<u64>,
    },
    /// Stores contents again that have another form than the compression of their volume gives.
    Recompress {
        /// Most bytes a second that are moved; [`None`] for no limit.
        max_bytes_per_s: Option<u64>,
    },
    /// Counts the references to all blocks and compares them with the records.
    Check {
        /// `true` to read all contents as well, and to compare them with their checksums.
        data: bool,
    },
    /// Reads all contents from the medium, compares them with their checksums, and heals what has
    /// another copy.
    Scrub {
        /// Most bytes a second that are read; [`None`] for no limit.
        max_bytes_per_s: Option<u64>,
    },
    /// Makes the data store larger.
    Grow {
        /// New size of the data store in bytes.
        capacity_bytes: u64,
    },
    /// Makes the data store smaller.
    Shrink {
        /// New size of the data store in bytes.
        capacity_bytes: u64,
        /// Most bytes a second that are moved; [`None`] for no limit.
        max_bytes_per_s: Option<u64>,
        /// `true` to look only what has to be moved.
        is_dry: bool,
    },
    /// Ends the service of a member in good order, so that another process can take it at once.
    HandOver,
    /// Gives the connection to a front end, which exports all volumes over it.
    Connect,
    /// Makes a volume a device of this host.
    Attach {
        /// Name of the volume.
        name: String,
        /// The driver that makes the device.
        driver: String,
    },
    /// Removes the device of a volume.
    Detach {
        /// Name of the volume.
        name: String,
        /// `true` to remove a device in use, whose requests fail.
        force: bool,
    },
}

/// The reply to a request that succeeded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The reply to requests that return nothing.
    Done,
    /// The reply to [`PoolRequest::Stat`].
    Stat(Box<StatReport>),
    /// The reply to [`PoolRequest::VolumeSpace`], by the names of the volumes.
    VolumeSpace(BTreeMap<String, VolumeSpace>),
    /// The reply to [`PoolRequest::SnapshotSpace`].
    SnapshotSpace(SnapshotSpace),
    /// The reply to [`PoolRequest::DifferingRanges`].
    DifferingRanges(DifferingRanges),
    /// The reply to [`PoolRequest::Send`] and [`PoolRequest::Receive`] after the stream.
    Copied(CopiedReport),
    /// The reply to [`PoolRequest::Collect`].
    Collected(GcReport),
    /// The reply to [`PoolRequest::Find`].
    Found(FoundReport),
    /// The reply to [`PoolRequest::EstimateFind`].
    Estimated(FindEstimate),
    /// The reply to [`PoolRequest::Arrange`].
    Arranged(ArrangeReport),
    /// The reply to [`PoolRequest::Recompress`].
    Recompressed(RecompressReport),
    /// The reply to [`PoolRequest::Shrink`].
    Shrunk(ShrinkReport),
    /// The reply to [`PoolRequest::Scrub`].
    Scrubbed(ScrubReport),
    /// The reply to [`PoolRequest::Attach`].
    Attached {
        /// Path of the device.
        path: String,
    },
    /// The reply to [`PoolRequest::Settings`].
    Settings(Vec<SettingReport>),
    /// The reply to [`PoolRequest::Tick`] and [`PoolRequest::PruneCopies`].
    Ticked(TickReport),
    /// The reply to [`PoolRequest::Check`].
    Checked(CheckedReport),
}

/// The result of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedReport {
    /// Name that the snapshot had where it was sent.
    pub name: String,
    /// `true` if it was sent as differences from an earlier snapshot.
    pub is_increment: bool,
    /// Size of the snapshot in bytes.
    pub size_bytes: u64,
    /// Length of the stream in bytes.
    pub stream_bytes: u64,
    /// Bytes of the blocks whose contents were in the stream.
    pub content_bytes: u64,
    /// Bytes of the blocks that have the same contents as earlier ones.
    pub duplicate_bytes: u64,
    /// Bytes that are zeros now.
    pub zero_bytes: u64,
    /// Bytes of the blocks whose contents the receiver had.
    #[serde(default)]
    pub known_bytes: u64,
    /// Time in nanoseconds for which this side gave way to clients of its pool.
    #[serde(default)]
    pub rested_ns: u64,
}

/// The snapshots that the schedule has made and removed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TickReport {
    /// Names of the snapshots that were made.
    pub made: Vec<String>,
    /// Names of the snapshots that were removed.
    pub removed: Vec<String>,
    /// Names of those that should go and stay, each with the reason.
    pub left: BTreeMap<String, String>,
}

impl TickReport {
    pub(crate) fn add(&mut self, other: Self) {
        self.made.extend(other.made);
        self.removed.extend(other.removed);
        self.left.extend(other.left);
    }

    /// Returns a line for each snapshot that was made or removed.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let made = self.made.iter().map(|name| format!("{name}: snapshot made by schedule"));
        made.chain(self.removed.iter().map(|name| format!("{name}: snapshot removed by schedule")))
    }
}

/// The result of a search for duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundReport {
    /// The blocks of the pool.
    pub blocks: FinderReport,
    /// The contents that the pool shared with its domain meanwhile; [`None`] for a pool that is no
    /// member.
    pub domain: Option<DomainShare>,
}

/// The contents that a member has shared with its domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainShare {
    /// Contents that the domain had already.
    pub shared: u64,
    /// Contents that the domain knows now.
    pub published: u64,
}

/// The result of a check of an open pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedReport {
    /// Differences between counted and recorded references, one text for each.
    pub differences: Vec<String>,
    /// Result of the check of the contents, if they were read.
    pub contents: Option<ScrubReport>,
    /// Damaged blocks of volumes that were found since the pool was opened, if contents were not
    /// read now.
    #[serde(default)]
    pub known_damaged: u64,
}

impl CheckedReport {
    /// Returns whether the check found nothing wrong, and no damage was found before.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.differences.is_empty()
            && self.contents.as_ref().is_none_or(ScrubReport::is_clean)
            && self.known_damaged == 0
    }

    /// Returns whether a scrub restores everything that the check found wrong.
    #[must_use]
    pub fn can_be_healed(&self) -> bool {
        self.differences.is_empty()
            && self.contents.as_ref().is_some_and(ScrubReport::can_be_healed)
    }
}
