//! One module a command: its arguments, the call of the library, the printed result.

pub(crate) mod bench;
mod completions;
pub(crate) mod dedisbench;
mod distribution;
mod filebench;
mod generate;
mod log;
mod manual;
mod pool;
mod replay;
mod scan;
mod serve;
mod suite;
pub(crate) mod trace;
mod verify;
mod volume;

use crate::context::Context;
use crate::exit::Outcome;
use clap::{Parser, Subcommand};

/// Deduplicated storage: analyse data, generate load with the same duplicates, measure.
#[derive(Debug, Parser)]
#[command(name = "gemelo", version, max_term_width = 100, infer_subcommands = false)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show, check, scale, convert, compare and fit duplicate distributions
    Distribution(distribution::Arguments),
    /// Find out which duplicates data has
    Scan(Box<scan::Arguments>),
    /// Write a data set with a chosen distribution of duplicates
    Generate(generate::Arguments),
    /// Run load with realistic duplicates, hot spots and entropy
    Bench(Box<bench::Arguments>),
    /// Run the eight loads of the DEDISbench paper, in its order
    Suite(Box<suite::Arguments>),
    /// Run an existing DEDISbench command line
    Dedisbench(dedisbench::Arguments),
    /// Run a script of Filebench's workload language, with data of a chosen entropy or distribution
    Filebench(Box<filebench::Arguments>),
    /// Re-check the files that a run kept
    Verify(verify::Arguments),
    /// Print a log of operations as CSV
    Log(log::Arguments),
    /// Replay recorded block I/O with its content
    Replay(Box<replay::Arguments>),
    /// Count, convert and make block I/O traces
    Trace(Box<trace::Arguments>),
    /// Make, measure, check and grow pools
    Pool(pool::Arguments),
    /// Make, copy, fill, read and remove the volumes of a pool
    Volume(volume::Arguments),
    /// Export the volumes of a pool over NBD
    ///
    /// Serves until SIGTERM or Ctrl-C; then takes no more clients, does what they have sent,
    /// flushes and closes the pool. A second signal ends it at once, as a crash would.
    ///
    /// Every `pool` and `volume` command works on the pool meanwhile. With socket activation it listens at the sockets it was
    /// started with.
    Serve(Box<serve::Arguments>),
    /// Print a script that completes the command line in a shell
    Completions(completions::Arguments),
    /// Write the manual pages
    Manual(manual::Arguments),
}

pub(crate) fn run(arguments: Arguments, context: &Context) -> anyhow::Result<Outcome> {
    match arguments.command {
        Command::Distribution(arguments) => distribution::run(arguments, context),
        Command::Scan(arguments) => scan::run(*arguments, context),
        Command::Generate(arguments) => generate::run(&arguments, context),
        Command::Bench(arguments) => bench::run(&arguments, context),
        Command::Suite(arguments) => suite::run(&arguments, context),
        Command::Dedisbench(arguments) => dedisbench::run(&arguments, context),
        Command::Filebench(arguments) => filebench::run(&arguments, context),
        Command::Verify(arguments) => verify::run(arguments, context),
        Command::Log(arguments) => log::run(&arguments, context),
        Command::Replay(arguments) => replay::run(&arguments, context),
        Command::Trace(arguments) => trace::run(&arguments, context),
        Command::Pool(arguments) => pool::run(&arguments, context),
        Command::Volume(arguments) => volume::run(&arguments, context),
        Command::Serve(arguments) => serve::run(&arguments, context),
        Command::Completions(arguments) => completions::run(&arguments, context),
        Command::Manual(arguments) => manual::run(&arguments, context),
    }
}
