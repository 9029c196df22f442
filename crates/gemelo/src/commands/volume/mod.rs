//! `gemelo volume`: the volumes of a pool.

mod change;
mod copy;
mod create;
mod export;
mod import;
mod ls;
mod mode;
mod stat;

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
    /// Make a volume; it takes no space before it is written
    Create(create::Arguments),
    /// List the volumes of a pool
    Ls(ls::Arguments),
    /// Show what a volume has and has done
    Stat(stat::Arguments),
    /// Give a volume another size
    Resize(change::Resize),
    /// Give a volume another name
    ///
    /// Clients that are connected stay so; new ones find it under the new name.
    Rename(change::Rename),
    /// Remove a volume
    ///
    /// One that holds something, or that clients are connected to, is removed with --force only.
    Rm(change::Rm),
    /// Make a read-only volume that is what another is now
    ///
    /// It takes no space but for its map, until the other changes.
    Snapshot(copy::Snapshot),
    /// Make a volume that begins as what another is now
    ///
    /// It takes writes of its own. Clone a snapshot to go back to it.
    Clone(copy::Clone),
    /// Change how a volume deduplicates its further writes
    ///
    /// What is written from now on is deduplicated so, also while the volume is served.
    Set(change::Set),
    /// Make a volume of a file, a device or standard input
    ///
    /// Zeros and holes are skipped. Other formats than raw come through
    /// `qemu-img convert` to the export of a served pool.
    Import(import::Arguments),
    /// Write a volume to a file, a device or standard output
    ///
    /// What is zero becomes holes of the file. Of a volume that clients
    /// write to meanwhile, make a snapshot first and export that.
    Export(export::Arguments),
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    match &arguments.action {
        Action::Create(arguments) => create::run(arguments, context),
        Action::Ls(arguments) => ls::run(arguments, context),
        Action::Stat(arguments) => stat::run(arguments, context),
        Action::Resize(arguments) => change::resize(arguments, context),
        Action::Rename(arguments) => change::rename(arguments, context),
        Action::Rm(arguments) => change::remove(arguments, context),
        Action::Snapshot(arguments) => copy::snapshot(arguments, context),
        Action::Clone(arguments) => copy::clone(arguments, context),
        Action::Set(arguments) => change::set(arguments, context),
        Action::Import(arguments) => import::run(arguments, context),
        Action::Export(arguments) => export::run(arguments, context),
    }
}
