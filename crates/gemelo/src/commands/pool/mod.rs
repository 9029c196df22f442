//! `gemelo pool`: pools as a whole.

mod check;
mod convert;
mod create;
mod find;
mod gc;
mod grow;
mod ls;
mod outlook;
mod rm;
mod stat;
mod stat_text;

use crate::context::Context;
use crate::exit::Outcome;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a pool
    Create(create::Arguments),
    /// Show what a pool has and has done
    Stat(stat::Arguments),
    /// Make freed blocks usable and give free space back to the system
    ///
    /// A served pool does so by itself in the background, within a rate, for runs of blocks freed since it was opened. This
    /// does it for all free space.
    Gc(gc::Arguments),
    /// Look for duplicates in volumes with off-line deduplication, now and all of them
    ///
    /// A served pool does so by itself in the background, some time after blocks were written.
    Find(find::Arguments),
    /// Prove that a pool is what it should be, and repair it
    ///
    /// An idle pool is checked from outside: every page of metadata, every count. A served pool counts its references again,
    /// while requests wait, and with --data reads its contents, while they do not. Pages on disk are checked, and repairs
    /// made, when nobody serves it.
    ///
    /// Before a repair gives up anything, it says which blocks of which volumes, and does so only with
    /// --yes or after it was told to on a terminal. A content that passes its checksum is never given up.
    ///
    /// Exit status 0 if nothing is wrong or a repair lost nothing, 4 if there is damage, 1 if only
    /// the settings are wrong.
    Check(check::Arguments),
    /// Give a pool of an older version the present format
    ///
    /// Contents stay where they are and are read once, because the new format has a checksum for each.
    /// The new metadata are made beside the old ones and replace them at the end, in one step: a
    /// conversion that is stopped or killed leaves the pool as it was.
    Convert(convert::Arguments),
    /// Make the data store larger
    Grow(grow::Arguments),
    /// List the pools in directories
    Ls(ls::Arguments),
    /// Remove a pool with all its volumes
    ///
    /// The files of the pool's directory are removed, and the directory if nothing else is in it. A
    /// device, or a file elsewhere, that holds data or metadata of the pool stays, and its header
    /// is wiped. A removal that was killed is completed by the same command.
    ///
    /// The volumes and files are named first, and removed only with --yes or after it was told to
    /// on a terminal. A pool in use is refused.
    Rm(rm::Arguments),
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    match &arguments.action {
        Action::Create(arguments) => create::run(arguments, context),
        Action::Stat(arguments) => stat::run(arguments, context),
        Action::Gc(arguments) => gc::run(arguments, context),
        Action::Find(arguments) => find::run(arguments, context),
        Action::Check(arguments) => check::run(arguments, context),
        Action::Convert(arguments) => convert::run(arguments, context),
        Action::Grow(arguments) => grow::run(arguments, context),
        Action::Ls(arguments) => ls::run(arguments, context),
        Action::Rm(arguments) => rm::run(arguments, context),
    }
}
