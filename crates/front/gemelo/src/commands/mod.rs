//! The commands. Each has a module with its arguments, the call of the library, and the output.

mod attach;
pub(crate) mod bench;
mod campaign;
mod compare;
mod completions;
pub(crate) mod dedisbench;
mod distribution;
mod domain;
mod filebench;
mod generate;
mod host;
mod hosts;
pub mod list;
mod log;
mod manual;
mod pool;
mod replay;
mod report;
mod scan;
mod schema;
mod serve;
pub mod settings;
mod suite;
mod support;
pub(crate) mod trace;
mod verify;
mod volume;

use crate::context::{Context, Verbosity};
use crate::exit::Outcome;
use crate::help::{completed, hint};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::io::Write as _;

/// Analyse data, generate load with the same duplicates, and store data with deduplication.
#[derive(Debug, Parser)]
#[command(name = "gemelo", version, max_term_width = 100, infer_subcommands = false)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Print no text and no progress; result files, warnings and errors are written as usual
    #[arg(short, long, global = true, help_heading = "Global options")]
    quiet: bool,
}

impl Arguments {
    /// Reads the arguments of this process. If they make no command, says so and ends the process,
    /// with status 0 after the help and 2 after an error.
    pub(crate) fn read() -> Self {
        let matches = with_negative_values(completed(Self::command())).try_get_matches();
        let read = matches.and_then(|matches| Self::from_arg_matches(&matches));
        read.unwrap_or_else(|error| refuse(error))
    }

    /// Uses, and gives up, the rights that the command needs only once.
    pub(crate) fn use_rights(&self) {
        if let Command::Serve(arguments) = &self.command {
            arguments.open_driver();
        }
    }

    /// Returns whether the command prints its results as text.
    pub(crate) const fn verbosity(&self) -> Verbosity {
        if self.quiet { Verbosity::Quiet } else { Verbosity::Usual }
    }
}

/// Says that the arguments make no command, and what is meant if that can be guessed, and ends the
/// process.
fn refuse(mut error: clap::Error) -> ! {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| gemelo_base::text_of_name(&word)).collect();
    let here = hint(&words).filter(|_| error.use_stderr());
    if here.is_some() {
        // What is meant is known, and it is no value that looks like an option.
        error.remove(clap::error::ContextKind::Suggested);
    }
    let _ = error.print();
    if let Some(here) = here {
        let _ = writeln!(std::io::stderr(), "\nhere: {here}");
    }
    std::process::exit(error.exit_code())
}

/// Has a negative number be the value of the option before it, so that the option says what is
/// wrong with it. Otherwise it would be an unknown option.
fn with_negative_values(command: clap::Command) -> clap::Command {
    let with = |argument: clap::Arg| match argument.get_action().takes_values() {
        true => argument.allow_negative_numbers(true),
        false => argument,
    };
    command.mut_args(with).mut_subcommands(with_negative_values)
}

/// The commands. A variant without a text has the text of its arguments.
#[derive(Debug, Subcommand)]
enum Command {
    Distribution(distribution::Arguments),
    Scan(Box<scan::Arguments>),
    Generate(generate::Arguments),
    Bench(Box<bench::Arguments>),
    Suite(Box<suite::Arguments>),
    /// Compare systems: run a plan of targets, workloads and repetitions
    #[command(subcommand)]
    Campaign(campaign::Action),
    Dedisbench(dedisbench::Arguments),
    Filebench(Box<filebench::Arguments>),
    Verify(verify::Arguments),
    Log(log::Arguments),
    Replay(Box<replay::Arguments>),
    Compare(compare::Arguments),
    Report(report::Arguments),
    /// Analyse, convert and synthesise traces of block I/O
    #[command(subcommand)]
    Trace(Box<trace::Action>),
    /// Create, list, check, grow, shrink and remove pools
    #[command(subcommand)]
    Pool(pool::Action),
    /// Create and inspect domains, whose pools share contents across hosts
    #[command(subcommand)]
    Domain(domain::Action),
    /// Create, copy, fill, read and remove the volumes of a pool
    #[command(subcommand)]
    Volume(volume::Action),
    /// Export the volumes of a pool over NBD, vhost-user and ublk
    ///
    /// The server runs until SIGTERM or Ctrl-C. It then accepts no more clients, executes the
    /// requests that clients have sent, flushes, and closes the pool. A second signal ends it at
    /// once, as a crash would.
    ///
    /// All `pool` and `volume` commands work on the pool while it is served. With socket
    /// activation, the server also listens at the sockets that the service manager hands over.
    ///
    /// The settings that 'gemelo pool set --help' lists are options here as well, for this run.
    Serve(Box<serve::Arguments>),
    /// Make a volume of a served pool a block device of this host
    ///
    /// The device is /dev/ublkbN, and /dev/gemelo/POOL/VOLUME by the rule of udev. The server of
    /// the pool serves it. If the server ends or dies, requests wait until it runs again.
    Attach(attach::Attach),
    /// Remove the block device of a volume
    ///
    /// A device that is mounted, holds swap or carries another device is removed with --force only.
    Detach(attach::Detach),
    #[command(hide = true, name = attach::GUARD)]
    GuardDevices(attach::Guard),
    #[command(hide = true)]
    Host(host::Arguments),
    Support(support::Arguments),
    Completions(completions::Arguments),
    Manual(manual::Arguments),
    Schema(schema::Arguments),
}

pub(crate) fn run(arguments: Arguments, context: &Context) -> crate::Result<Outcome> {
    match arguments.command {
        Command::Distribution(arguments) => distribution::run(arguments, context),
        Command::Scan(arguments) => scan::run(*arguments, context),
        Command::Generate(arguments) => generate::run(&arguments, context),
        Command::Bench(arguments) => bench::run(&arguments, context),
        Command::Campaign(action) => campaign::run(&action, context),
        Command::Suite(arguments) => suite::run(&arguments, context),
        Command::Dedisbench(arguments) => dedisbench::run(&arguments, context),
        Command::Filebench(arguments) => filebench::run(&arguments, context),
        Command::Verify(arguments) => verify::run(&arguments, context),
        Command::Log(arguments) => log::run(&arguments, context),
        Command::Replay(arguments) => replay::run(&arguments, context),
        Command::Compare(arguments) => compare::run(&arguments, context),
        Command::Report(arguments) => report::run(&arguments, context),
        Command::Trace(action) => trace::run(&action, context),
        Command::Pool(action) => pool::run(&action, context),
        Command::Domain(action) => domain::run(&action, context),
        Command::Volume(action) => volume::run(&action, context),
        Command::Serve(arguments) => serve::run(&arguments, context),
        Command::Attach(arguments) => attach::attach(&arguments, context),
        Command::Detach(arguments) => attach::detach(&arguments, context),
        Command::GuardDevices(arguments) => attach::guard(&arguments, context),
        Command::Host(arguments) => host::run(&arguments, context),
        Command::Support(arguments) => support::run(&arguments, context),
        Command::Completions(arguments) => completions::run(&arguments, context),
        Command::Manual(arguments) => manual::run(&arguments, context),
        Command::Schema(arguments) => schema::run(&arguments, context),
    }
}
