//! Job files: TOML with the options of a job as keys.
//!
//! Keys before the first `[[job]]` apply to every job; each `[[job]]` adds its own. Each key goes
//! through the parser of the command line, so names, values and messages are the same in both
//! places.

use crate::nearest::nearest;
use crate::options::JobOptions;
use clap::{CommandFactory, FromArgMatches, Parser};
use gemelo_base::Classified;
use gemelo_target::Targets;
use thiserror::Error;
use toml::de::{DeTable, DeValue};

/// Most jobs of one file. It is more than people write by hand, and bounds the cost of a wrong
/// file.
const MAX_JOBS: usize = 1000;

/// The reason why a text is not a job file.
#[derive(Debug, Error, PartialEq, Eq, Classified)]
#[kind(BadInput)]
pub enum JobFileError {
    /// The text is not TOML.
    #[error("line {line}: {message}")]
    Toml {
        /// Line of the fault.
        line: usize,
        /// Message of the TOML parser.
        message: String,
    },
    /// No option has the name of the key.
    #[error(
        "line {line}: there is no option '{key}'{}",
        nearest.as_ref().map(|name| format!("; a similar option is '{name}'")).unwrap_or_default()
    )]
    UnknownKey {
        /// Line of the key.
        line: usize,
        /// The key as the file has it.
        key: String,
        /// The most similar name of an option.
        nearest: Option<String>,
    },
    /// The option does not take the value.
    #[error("line {line}: {message}")]
    Value {
        /// Line of the key.
        line: usize,
        /// Message of the option's parser.
        message: String,
    },
    /// The file has too many jobs.
    #[error("the file has more than {MAX_JOBS} jobs: split it")]
    TooManyJobs,
}

/// The options alone, as a command line.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true, allow_negative_numbers = true)]
struct OptionsOnly {
    #[command(flatten)]
    options: JobOptions,
}

/// Reads a job file and returns the options of each job, in order. A file without `[[job]]` is one
/// job. `targets` knows which names of targets are valid.
///
/// # Errors
/// Fails with the first fault and its line.
pub fn parse(text: &str, targets: &Targets) -> Result<Vec<JobOptions>, JobFileError> {
    let reader = Reader { text, targets };
    reader.jobs()
}

/// A job file that is being read.
struct Reader<'a> {
    text: &'a str,
    targets: &'a Targets,
}

impl Reader<'_> {
    fn jobs(&self) -> Result<Vec<JobOptions>, JobFileError> {
        let text = self.text;
        let document = DeTable::parse(text).map_err(|error| JobFileError::Toml {
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            message: error.message().to_owned(),
        })?;
        let mut common = JobOptions::default();
        let mut jobs = Vec::new();
        for (key, value) in document.get_ref() {
            let line = line_of(self.text, key.span().start);
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("job", DeValue::Array(tables)) => {
                    for table in tables {
                        jobs.push(self.job_of(line, table.get_ref())?);
                    }
                }
                (name, value) => common = self.option_of(name, value, line)?.or(common),
            }
        }
        if jobs.len() > MAX_JOBS {
            return Err(JobFileError::TooManyJobs);
        }
        if jobs.is_empty() {
            jobs.push(JobOptions::default());
        }
        Ok(jobs.into_iter().map(|job| job.or(common.clone())).collect())
    }

    fn job_of(&self, line: usize, value: &DeValue<'_>) -> Result<JobOptions, JobFileError> {
        let DeValue::Table(table) = value else {
            let message = "a job is a table: write [[job]] on a line of its own".to_owned();
            return Err(JobFileError::Value { line, message });
        };
        let mut job = JobOptions::default();
        for (key, value) in table {
            let line = line_of(self.text, key.span().start);
            job = self.option_of(key.get_ref(), value.get_ref(), line)?.or(job);
        }
        Ok(job)
    }

    /// Reads one key and its value as the option of that name.
    fn option_of(
        &self,
        name: &str,
        value: &DeValue<'_>,
        line: usize,
    ) -> Result<JobOptions, JobFileError> {
        let command = OptionsOnly::command();
        if !command.get_arguments().any(|argument| argument.get_long() == Some(name)) {
            let nearest = nearest(name, command.get_arguments().filter_map(clap::Arg::get_long));
            return Err(JobFileError::UnknownKey { line, key: name.to_owned(), nearest });
        }
        let value = match value {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(yes) => yes.to_string(),
            _ => {
                let message = format!("'{name}' takes one value: a text, a number, true or false");
                return Err(JobFileError::Value { line, message });
            }
        };
        let options = command
            .try_get_matches_from([format!("--{name}={value}")])
            .and_then(|matches| OptionsOnly::from_arg_matches(&matches))
            .map(|parsed| parsed.options)
            .map_err(|error| JobFileError::Value { line, message: first_line(&error) })?;
        if let Some(uri) = &options.load.target {
            let checked = self.targets.storage(uri);
            checked.map_err(|error| JobFileError::Value { line, message: error.to_string() })?;
        }
        Ok(options)
    }
}

/// Returns the sentence of a clap error, without usage and hints.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::OperationChoice;
    use gemelo_base::values::Size;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Vec<JobOptions>, JobFileError> {
        super::parse(text, &Targets::new())
    }

    #[test]
    fn jobs_take_what_is_common_and_add_their_own() {
        let text = "target = '/tmp'\nprocesses = 2\n[[job]]\nname = 'w'\n[[job]]\nname = 'r'\noperation = 'read'\nprocesses = 4\n";
        let jobs = parse(text).unwrap();
        assert_eq!(jobs.len(), 2);
        assert_eq!((jobs[0].load.processes, jobs[1].load.processes), (Some(2), Some(4)));
        assert_eq!(jobs[1].load.operation, Some(OperationChoice::Read));
        assert_eq!(jobs[1].load.target, Some("/tmp".into()));
    }

    #[test]
    fn values_are_texts_numbers_and_booleans() {
        let jobs = parse(
            "block-size = 8192\nfile-size = '1g'\nkeep = true\nentropy = 5.5\nwrite-share = 30\n",
        )
        .unwrap();
        assert_eq!(jobs[0].content.block_size, Some(Size(8192)));
        assert_eq!(jobs[0].load.file_size, Some(Size(1 << 30)));
        assert_eq!((jobs[0].load.keep, jobs[0].content.entropy), (Some(true), Some(5.5)));
    }

    #[test]
    fn errors_say_the_line_and_the_nearest_name() {
        for (text, message) in [
            (
                "target = '/tmp'\nblok-size = 1\n",
                "line 2: there is no option 'blok-size'; a similar option is 'block-size'",
            ),
            (
                "[[job]]\nname = 'x'\ntime = 'soon'\n",
                "line 3: invalid value 'soon' for '--time <DURATION>'",
            ),
            ("a = \n", "line 1: "),
            ("processes = [1]\n", "line 1: 'processes' takes one value"),
            ("xyz = 1\n", "line 1: there is no option 'xyz'"),
            ("job = [1]\n", "line 1: a job is a table"),
            ("processes = -1\n", "line 1: invalid value '-1'"),
            ("name = 'x'\ntarget = 'tape:1'\n", "line 2: invalid target 'tape:1': give a "),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
        assert_eq!(parse("").unwrap(), [JobOptions::default()]);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(\\[\\[job\\]\\]\n|[a-z-]{1,9} = ['\"0-9a-z.]{0,8}\n|\\PC{0,9}\n){0,8}") {
            let _ = parse(&text);
        }
    }
}
