//! `gemelo pool`: commands on whole pools.

mod check;
pub(super) mod check_findings;
pub(crate) mod create;
mod dedup;
pub(super) mod estimate;
mod finder_text;
mod grow;
mod hand_over;
pub(super) mod ls;
mod outlook;
mod passes;
mod rm;
mod sharing_text;
mod shrink;
pub(super) mod stat;
mod stat_text;
pub(crate) mod status;
mod unit;

use super::settings;
use crate::context::Context;
use crate::exit::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Create a pool
    ///
    /// The settings that 'gemelo pool set --help' lists are options here as well.
    Create(create::Arguments),
    /// Estimate the memory and the metadata of a full pool with each policy, before it is created
    Estimate(estimate::Arguments),
    /// Show the space, the metadata and the counters of a pool
    Stat(stat::Arguments),
    /// Say in five lines whether somebody has to act on a pool, and what to do
    ///
    /// The health is good, full soon, degraded (a task in the background fails), read-only or
    /// damaged. The exit status is 0 if it is good, 5 if the pool is full soon, 4 if something is
    /// damaged, and 1 otherwise.
    Status(status::Arguments),
    /// Change settings of a pool, which apply whenever it is opened
    ///
    /// Most are in effect at once, also while the pool is served; the help says which wait for the
    /// next opening. The word 'default' as a value takes a choice back. 'gemelo pool get' shows
    /// what is in effect. 'gemelo serve' has the same options for one run of the server.
    Set(settings::PoolSet),
    /// Show the settings of a pool: the values in effect, and where they come from
    Get(settings::PoolGet),
    /// Make the snapshots that are due by the settings of volumes, and remove old ones
    ///
    /// A server does this by itself. For a pool that is not served, call it from a timer.
    Tick(settings::Tick),
    /// Make freed blocks usable, and return free space to the file system or device
    ///
    /// A served pool returns runs of blocks that were freed since it was opened, in the background
    /// and at a limited rate. This command returns all free space.
    Gc(passes::Arguments),
    /// Deduplicate all blocks of volumes with off-line deduplication now
    ///
    /// A served pool does this in the background, some time after blocks were written. --pause and
    /// --resume control that background work instead. In a member of a domain, the command also
    /// shares the contents with the other members, until nothing is left to share.
    Dedup(dedup::Arguments),
    /// Store neighbouring blocks of all volumes side by side now
    ///
    /// Random overwrites scatter the blocks of a volume, so that sequential reads become slow. A
    /// served pool brings them together in the background while it is idle and at a limited rate.
    /// It leaves blocks that are shared, by duplicates or snapshots, to this command.
    Defrag(passes::Arguments),
    /// Store the contents of all volumes again in the way in which their volumes compress now
    ///
    /// 'gemelo volume set --compression' changes how further writes are stored. This command does
    /// the same for earlier contents, also while the pool is served. What was stored again stays so
    /// if the command is stopped, and the next run goes on with the rest. It leaves contents with
    /// more than 16 references, and those of snapshots that share their maps.
    Recompress(passes::Arguments),
    /// Read all contents from the medium, compare them with their checksums, and heal damaged ones
    ///
    /// A damaged content is healed if the page cache still holds it, or if another block has it: in
    /// a volume without deduplication, in one whose duplicates are not shared yet, or at another
    /// member of the domain. The pool may be served meanwhile. A served pool with the setting
    /// scrub-interval does this by itself. 'gemelo pool stat' shows the progress and the outcome of
    /// the last scrub.
    ///
    /// The exit status is 4 if damage is left.
    Scrub(passes::Arguments),
    /// Check the metadata of a pool, and repair it
    ///
    /// The check of an idle pool reads every page of metadata and counts every reference. The check
    /// of a served pool compares its counts in memory, and requests wait meanwhile; with --data it
    /// also reads all contents, and requests continue. Pages on disk are checked, and repairs are
    /// made, only while no process serves the pool.
    ///
    /// Before a repair gives up data, it lists the blocks of each volume, and asks on a terminal or
    /// needs --force. A content that passes its checksum is never given up.
    ///
    /// The exit status is 0 if nothing is wrong or a repair lost nothing, 4 if there is damage, and
    /// 1 if only the settings are wrong.
    Check(check::Arguments),
    /// Enlarge the data store of a pool
    Grow(grow::Arguments),
    /// Make the data store of a pool smaller
    ///
    /// What lies beyond the new end is moved, with all references to it, also while the pool is
    /// served. A file is shortened; a device stays as it is, and its end can then be used for
    /// something else. If the command fails or is stopped, the pool keeps its size. A member of a
    /// domain is refused, because other members name its blocks.
    Shrink(shrink::Arguments),
    /// Hand a member of a domain over to another host
    ///
    /// The process of this host that serves the member executes the requests that clients have
    /// sent, flushes, closes the pool and gives up its lease. A standby on another host, `gemelo
    /// serve --standby`, then serves it at once. The command waits until the member is free or is
    /// served by another process.
    HandOver(hand_over::Arguments),
    /// List the pools in directories, with the processes that use them
    Ls(ls::Arguments),
    /// Print the drop-in that gives gemelo@NAME.service the rights to the disks of a pool
    ///
    /// The unit may write below /var/lib/gemelo. Data or metadata elsewhere, such as on a block
    /// device, need the paths, the device and its group.
    Unit(unit::Arguments),
    /// Remove a pool with all its volumes
    ///
    /// The command lists the volumes and files first, and asks on a terminal or needs --force. It
    /// removes the files of the pool in its directory, and the directory if nothing else is in it.
    /// A device, or a file elsewhere, that holds data or metadata of the pool stays, and its header
    /// is wiped. To complete a removal that was killed, run the command again. A pool in use is
    /// refused.
    Rm(rm::Arguments),
}

pub(crate) fn run(action: &Action, context: &Context) -> crate::Result<Outcome> {
    match action {
        Action::Create(arguments) => create::run(arguments, context),
        Action::Estimate(arguments) => estimate::run(arguments, context),
        Action::Stat(arguments) => stat::run(arguments, context),
        Action::Status(arguments) => status::run(arguments, context),
        Action::Set(arguments) => settings::set_pool(arguments, context),
        Action::Get(arguments) => settings::get_pool(arguments, context),
        Action::Tick(arguments) => settings::tick(arguments, context),
        Action::Gc(arguments) => passes::collect(arguments, context),
        Action::Dedup(arguments) => dedup::run(arguments, context),
        Action::Defrag(arguments) => passes::arrange(arguments, context),
        Action::Recompress(arguments) => passes::recompress(arguments, context),
        Action::Scrub(arguments) => passes::scrub(arguments, context),
        Action::Check(arguments) => check::run(arguments, context),
        Action::Grow(arguments) => grow::run(arguments, context),
        Action::Shrink(arguments) => shrink::run(arguments, context),
        Action::HandOver(arguments) => hand_over::run(arguments, context),
        Action::Ls(arguments) => ls::run(arguments, context),
        Action::Unit(arguments) => unit::run(arguments, context),
        Action::Rm(arguments) => rm::run(arguments, context),
    }
}
