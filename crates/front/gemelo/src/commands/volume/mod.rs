//! `gemelo volume`: commands on the volumes of a pool.

mod birth;
mod change;
mod copy;
mod create;
pub(super) mod diff;
mod end;
pub(super) mod export;
mod hashes;
mod image;
mod import;
pub(super) mod limits;
pub(super) mod ls;
mod mode;
mod prune;
mod send;
mod send_to;
pub(super) mod stat;
pub(super) mod verify;

use super::settings;
use crate::context::Context;
use crate::exit::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Create a volume; it takes no space until it is written
    Create(create::Arguments),
    /// List the volumes of a pool
    Ls(ls::Arguments),
    /// Show the size, the settings, the origin and the counters of a volume
    Stat(stat::Arguments),
    /// Change the size of a volume
    Resize(change::Resize),
    /// Change the name of a volume
    ///
    /// Connected clients stay connected. New clients use the new name.
    Rename(change::Rename),
    /// Remove a volume
    ///
    /// A volume that holds data or has connected clients is removed only with --force.
    Rm(change::Rm),
    /// Create a read-only copy of a volume at this moment
    ///
    /// The copy shares all blocks. It takes further space only when the original volume changes.
    /// Snapshots of several volumes are of the same moment: either all are made, or none.
    /// 'gemelo volume set --every 1h --keep 168h' has one made each hour and kept for a week.
    Snapshot(copy::Snapshot),
    /// Give a volume the contents and the size of one of its snapshots again
    ///
    /// Takes no time, however large the volume is. What was written since then is lost, unless
    /// there is a snapshot of it. All snapshots stay, also later ones. A volume with connected
    /// clients is rolled back only with --force. 'gemelo volume ls' lists the snapshots.
    Rollback(copy::Rollback),
    /// Keep a snapshot from being removed, also with --force
    Hold(copy::Hold),
    /// End a hold of a snapshot
    Release(copy::Hold),
    /// Create a writable copy of a volume or of a snapshot at this moment
    ///
    /// The copy shares all blocks until either volume is written.
    Clone(copy::Clone),
    /// Change settings of a volume: deduplication, compression, finder, snapshots, limits
    ///
    /// A change is in effect at once, also while the volume is served; stored data stay. The word
    /// 'default' as a value takes a choice back. 'gemelo volume get' shows what is in effect.
    Set(settings::VolumeSet),
    /// Show the settings of a volume: the values in effect, and where they come from
    Get(settings::VolumeGet),
    /// Fill a volume from a file, a device or standard input
    ///
    /// Holes are not read, and zeros are not stored. `qemu-nbd` reads images of other formats than
    /// raw.
    Import(import::Arguments),
    /// Write a volume to a file, a device or standard output
    ///
    /// Zeros become holes of the file. If clients write to the volume meanwhile, create a snapshot
    /// first and export that, because an export does not read all blocks at the same moment.
    Export(export::Arguments),
    /// List the ranges of bytes in which two snapshots of a pool differ
    ///
    /// Takes the time of what differs, however large the snapshots are.
    Diff(diff::Arguments),
    /// Write a snapshot to standard output as a stream for another pool
    ///
    /// The stream has each content once, and compressed ones as they are stored.
    Send(send::Send),
    /// Copy a snapshot to another pool, here or on another host
    ///
    /// Only what differs from a snapshot that both pools have is sent. The copy appears when it is
    /// whole and durable.
    Copy(send_to::Arguments),
    /// Compare two volumes of any pools, here or on other hosts
    ///
    /// Both ends read and hash their volumes, and only hashes travel. Ends with status 1 if the
    /// volumes differ.
    Verify(verify::Arguments),
    /// Remove copies of earlier snapshots of the same volume
    ///
    /// Only copies that 'gemelo volume copy' or 'receive' made of snapshots of one volume are
    /// looked at. Those that are held or in use stay.
    Prune(prune::Arguments),
    /// Answer 'gemelo volume verify' with hashes of a volume
    #[command(hide = true)]
    Hashes(hashes::Arguments),
    /// Make a snapshot of the stream that standard input has
    ///
    /// The snapshot appears when it is whole and durable. If anything fails before, the pool stays
    /// as it was.
    Receive(send::Receive),
}

pub(crate) fn run(action: &Action, context: &Context) -> crate::Result<Outcome> {
    match action {
        Action::Create(arguments) => create::run(arguments, context),
        Action::Ls(arguments) => ls::run(arguments, context),
        Action::Stat(arguments) => stat::run(arguments, context),
        Action::Resize(arguments) => change::resize(arguments, context),
        Action::Rename(arguments) => change::rename(arguments, context),
        Action::Rm(arguments) => change::remove(arguments, context),
        Action::Snapshot(arguments) => copy::snapshot(arguments, context),
        Action::Rollback(arguments) => copy::roll_back(arguments, context),
        Action::Hold(arguments) => copy::hold(arguments, true, context),
        Action::Release(arguments) => copy::hold(arguments, false, context),
        Action::Clone(arguments) => copy::clone(arguments, context),
        Action::Set(arguments) => settings::set_volume(arguments, context),
        Action::Get(arguments) => settings::get_volume(arguments, context),
        Action::Import(arguments) => import::run(arguments, context),
        Action::Export(arguments) => export::run(arguments, context),
        Action::Diff(arguments) => diff::run(arguments, context),
        Action::Send(arguments) => send::send(arguments, context),
        Action::Copy(arguments) => send_to::run(arguments, context),
        Action::Verify(arguments) => verify::run(arguments, context),
        Action::Prune(arguments) => prune::run(arguments, context),
        Action::Hashes(arguments) => hashes::run(arguments, context),
        Action::Receive(arguments) => send::receive(arguments, context),
    }
}
