//! `gemelo completions` prints scripts with which a shell completes the command line.

use super::Arguments as CommandLine;
use crate::context::Context;
use crate::exit::Outcome;
use anyhow::Context as _;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::Write;

/// Print a script with which a shell completes commands, options and their values.
///
/// To use it in a running bash: source <(gemelo completions bash)
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The shell that reads the script
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, _context: &Context) -> anyhow::Result<Outcome> {
    let mut command = CommandLine::command();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "gemelo", &mut script);
    let mut out = std::io::stdout().lock();
    out.write_all(&script).and_then(|()| out.flush()).context("cannot write to standard output")?;
    Ok(Outcome::Done)
}
