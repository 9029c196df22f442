//! `gemelo completions` prints scripts with which a shell completes the command line.

use super::Arguments as CommandLine;
use crate::context::Context;
use crate::exit::{OrFailed as _, OrFailure as _, Outcome};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command, CommandFactory};
use clap_complete::Shell;
use gemelo_content::built_in_names;
use std::io::Write;

/// Print a script with which a shell completes commands, options and their values.
///
/// To use it in a running bash: source <(gemelo completions bash)
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The shell that reads the script
    shell: Shell,
}

/// The word under which options take a name or a file of a distribution.
const DISTRIBUTION: &str = "NAME|FILE";
/// Patterns that a shell suggests, with usual figures.
const PATTERNS: [&str; 5] = ["sequential", "uniform", "nurand", "zipf:0.99", "hotspot:80/20"];

pub(crate) fn run(arguments: &Arguments, _context: &Context) -> crate::Result<Outcome> {
    let plans = gemelo_campaign::shipped()?;
    let names = Names {
        distributions: built_in_names().collect(),
        plans: plans.iter().map(|plan| plan.name).collect(),
    };
    let mut command = names.suggested_in(CommandLine::command());
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "gemelo", &mut script);
    let script = String::from_utf8(script).or_failed().context("the script is not UTF-8")?;
    let script = names.with_files(script, arguments.shell);
    let mut out = std::io::stdout().lock();
    out.write_all(script.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")?;
    Ok(Outcome::Done)
}

/// Names that arguments take beside files. The parsers of the arguments do not know them.
struct Names {
    distributions: Vec<&'static str>,
    plans: Vec<&'static str>,
}

impl Names {
    /// Has the shell suggest the names.
    fn suggested_in(&self, command: Command) -> Command {
        let with = |argument: Arg| {
            let is_called = |name: &str| {
                argument.get_value_names().is_some_and(|names| names.iter().any(|one| one == name))
            };
            let values = if is_called(DISTRIBUTION) {
                &self.distributions
            } else if is_called("PLAN") {
                &self.plans
            } else if is_called("PATTERN") {
                return argument.value_parser(PATTERNS);
            } else {
                return argument;
            };
            argument.value_parser(PossibleValuesParser::new(values))
        };
        command.mut_args(with).mut_subcommands(|below| self.suggested_in(below))
    }

    /// Has the shell complete files as well where it has names. The bash script does so by itself
    /// if no name fits.
    fn with_files(&self, script: String, shell: Shell) -> String {
        let lists =
            [("_gemelo_distributions", &self.distributions), ("_gemelo_plans", &self.plans)];
        match shell {
            Shell::Zsh => lists.iter().fold(script, |script, (function, names)| {
                let list = format!("({})", names.join(" "));
                let defined = format!(
                    "{function}() {{\n    _alternative 'names:name:{list}' 'files:file:_files'\n}}\n\n"
                );
                let script = script.replace(&format!(":{list}'"), &format!(":{function}'"));
                script.replacen(ZSH_END, &format!("{defined}{ZSH_END}"), 1)
            }),
            Shell::Fish => {
                let first = self.distributions.first().copied().unwrap_or_default();
                let (only, also) =
                    (format!("-r -f -a \"{first}\\t"), format!("-r -F -a \"{first}\\t"));
                let plans = self.plans.join(" ");
                let run = "__fish_gemelo_using_subcommand campaign; \
                           and __fish_seen_subcommand_from run";
                format!(
                    "{}complete -c gemelo -n \"{run}\" -a \"{plans}\"\n",
                    script.replace(&only, &also)
                )
            }
            _ => script,
        }
    }
}

/// The line of the zsh script before which functions have to be defined.
const ZSH_END: &str = "if [ \"$funcstack[1]\" = \"_gemelo\" ]; then";
