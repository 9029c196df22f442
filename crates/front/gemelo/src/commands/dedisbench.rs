//! `gemelo dedisbench` translates a DEDISbench command line to a job of gemelo, and runs it.

use super::bench;
use crate::context::Context;
use crate::exit::{OrFailed as _, OrFailure as _, Outcome, refused};
use crate::files;
use clap::{Args, Parser};
use gemelo_base::ShowPath as _;
use gemelo_job::dedisbench::{DedisbenchError, DedisbenchJob, Surroundings};
use std::path::Path;
use std::time::SystemTime;

/// Translate a DEDISbench command line to a `gemelo bench` command, print it, and run it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print the command, and do not run it
    #[arg(long)]
    dry_run: bool,
    /// The arguments of DEDISbench: -p or -n<OPS>, -w, -r or -m, -t<MINUTES> or -s<MB>, -f<FILE>,
    /// and of older versions -a<PATTERN>, -b<BYTES>, -c<PROCESSES>, -v<SEED>
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGS"
    )]
    arguments: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let job = read(&arguments.arguments)?;
    let is_file = |path: &str| Path::new(&gemelo_base::name_of_text(path)).is_file();
    let around = Surroundings { is_file: &is_file, seed: seconds(context.started_at) };
    let words = job.to_bench_arguments(&around).or_bad_input()?;
    for note in job.notes() {
        context.monitor.warn(&note);
    }
    context.print(&format!("gemelo bench {}\n", quoted(&words)))?;
    if arguments.dry_run {
        return Ok(Outcome::Done);
    }
    let bench = Bench::try_parse_from(&words)
        .or_failed()
        .context("this is a defect of gemelo: its translation is not a valid job")?;
    bench::run(&bench.arguments, context)
}

/// The seconds since 1970, the seed of a command line that states none.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The options of `gemelo bench`, without the name of a program before them.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Bench {
    #[command(flatten)]
    arguments: bench::Arguments,
}

/// Reads a DEDISbench command line and the configuration file that it names.
fn read(words: &[String]) -> crate::Result<DedisbenchJob> {
    let job = DedisbenchJob::of_words(words).or_bad_input()?;
    let Some(path) = job.configuration().map(ToOwned::to_owned) else { return Ok(job) };
    let text = files::read_text(&path)?;
    let path = path.shown();
    job.with_configuration(&text).map_err(|error| match error {
        DedisbenchError::Line { line, message } => refused!("{path}:{line}: {message}"),
        other => refused!("{path}: {other}"),
    })
}

/// Quotes the words for a shell.
fn quoted(words: &[String]) -> String {
    let quote = |word: &String| {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,%+".contains(letter);
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = ["a".to_owned(), "b c".to_owned(), "it's".to_owned(), String::new()];
        assert_eq!(quoted(&words), "a 'b c' 'it'\\''s' ''");
    }
}
