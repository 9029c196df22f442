//! The command that reaches a host, and the program over there.

use gemelo_base::{Classified, ShowPath as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use thiserror::Error;

/// The usual command: `ssh` asks for nothing, gives up a host that does not answer, and notices a
/// connection that is gone.
const SSH: &str = "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 \
                   -o ServerAliveCountMax=3 -- {host}";

/// The name of the program over there if the user gives none.
const USUAL_PROGRAM: &str = "gemelo";

/// The word of a template in whose place the words of the command come.
const COMMAND: &str = "{command}";

/// The way to a host: the words of a command, and the program that it starts there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transport {
    template: Vec<String>,
    program: String,
    /// The program here, if it is brought along.
    copied: Option<Copied>,
}

/// A program that is sent to the hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Copied {
    path: PathBuf,
    bytes: u64,
}

/// The reason why a transport is refused.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum TransportError {
    /// The template is empty, or a quote in it has no end.
    #[error("invalid command '{0}': give the words of a command, such as 'ssh -p 2222 {{host}}'")]
    Template(String),
    /// The program here cannot be read.
    #[kind(source, untouched)]
    #[error("cannot read {}, which is to be copied", path.shown())]
    Program {
        /// Path of the program.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl Transport {
    /// Reads the template of a command; `None` is `ssh`. `{host}` and `{index}` stand for the host
    /// and its number, `{command}` for the command over there, which otherwise comes as one last
    /// word.
    ///
    /// # Errors
    /// Fails if the template is empty, or if a quote in it has no end.
    pub fn new(template: Option<&str>, program: Option<&str>) -> Result<Self, TransportError> {
        let text = template.unwrap_or(SSH);
        let words = shlex::split(text).filter(|words| !words.is_empty());
        let template = words.ok_or_else(|| TransportError::Template(text.to_owned()))?;
        Ok(Self { template, program: program.unwrap_or(USUAL_PROGRAM).to_owned(), copied: None })
    }

    /// Has this program file sent to each host, to a temporary place that it removes when it
    /// starts.
    ///
    /// # Errors
    /// Fails if the program file cannot be read.
    pub fn with_copy_of(mut self, path: &Path) -> Result<Self, TransportError> {
        let failed = |source| TransportError::Program { path: path.to_owned(), source };
        let bytes = std::fs::metadata(path).map_err(failed)?.len();
        self.copied = Some(Copied { path: path.to_owned(), bytes });
        Ok(self)
    }

    /// Returns the program file that is sent before the first message, if there is one.
    pub(crate) fn copied(&self) -> Option<&Path> {
        self.copied.as_ref().map(|copied| copied.path.as_path())
    }

    /// Returns the words of the command over there; `argument` is that of the program.
    fn command_words(&self, argument: &str) -> Vec<String> {
        match &self.copied {
            None => vec![self.program.clone(), argument.to_owned()],
            Some(Copied { bytes, .. }) => {
                vec!["sh".to_owned(), "-c".to_owned(), receiving_script(*bytes, argument)]
            }
        }
    }

    /// Returns the command that starts the program on a host.
    pub(crate) fn command(&self, host: &str, index: u32, argument: &str) -> Command {
        self.command_of(host, index, &self.command_words(argument))
    }

    fn command_of(&self, host: &str, index: u32, there: &[String]) -> Command {
        let as_one = join(there);
        let fill = |word: &str| {
            let word = word.replace("{host}", host).replace("{index}", &index.to_string());
            word.replace(COMMAND, &as_one)
        };
        let mut words = Vec::new();
        for word in &self.template {
            if word == COMMAND {
                words.extend(there.iter().cloned());
            } else {
                words.push(fill(word));
            }
        }
        if !self.template.iter().any(|word| word.contains(COMMAND)) {
            words.push(as_one);
        }
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command
    }

    /// Returns the command that runs the program on a host with these arguments.
    #[must_use]
    pub fn command_with(&self, host: &str, arguments: &[&str]) -> Command {
        let program = self.program.clone();
        let words = [program].into_iter().chain(arguments.iter().map(|word| (*word).to_owned()));
        self.command_of(host, 0, &words.collect::<Vec<_>>())
    }

    /// Returns the name of the program that connects, for messages.
    pub(crate) fn name(&self) -> &str {
        self.template.first().map_or("", String::as_str)
    }
}

/// Quotes words for the shell over there.
fn join(words: &[String]) -> String {
    let quoted = |word: &String| {
        let is_plain =
            |letter: char| letter.is_ascii_alphanumeric() || "-_./=,+%@".contains(letter);
        if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// The script that takes the program from its standard input. The program removes itself when it
/// has started; the script removes what is left if it does not get that far.
fn receiving_script(bytes: u64, argument: &str) -> String {
    format!(
        "d=$(mktemp -d \"${{TMPDIR:-/tmp}}/gemelo.XXXXXX\") || exit 1; \
         trap 'rm -rf \"$d\"' EXIT; trap 'exit 1' HUP INT TERM; \
         head -c {bytes} >\"$d/gemelo\" && chmod 700 \"$d/gemelo\" && \
         [ \"$(wc -c <\"$d/gemelo\")\" -eq {bytes} ] && \
         exec \"$d/gemelo\" {argument} --remove \"$d\"; \
         echo 'the program was not received whole' >&2; exit 1"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(template: Option<&str>, program: Option<&str>) -> Vec<String> {
        let transport = Transport::new(template, program).unwrap();
        let command = transport.command("user@h", 7, "host");
        let all = [command.get_program()].into_iter().chain(command.get_args());
        all.map(|word| word.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_command_comes_where_the_template_wants_it() {
        let ssh = words(None, None);
        assert_eq!((ssh[0].as_str(), ssh.last().unwrap().as_str()), ("ssh", "gemelo host"));
        assert_eq!(ssh[ssh.len() - 3..ssh.len() - 1], ["--", "user@h"]);
        assert_eq!(words(Some("sh -c"), None), ["sh", "-c", "gemelo host"]);
        assert_eq!(
            words(Some("kubectl exec -i {host} -- {command}"), Some("/opt/a b")),
            ["kubectl", "exec", "-i", "user@h", "--", "/opt/a b", "host"]
        );
        assert_eq!(
            words(Some("sh -c 'cd /x{index} && exec {command}'"), Some("/opt/a b")),
            ["sh", "-c", "cd /x7 && exec '/opt/a b' host"]
        );
    }

    #[test]
    fn arguments_are_quoted_for_the_shell_over_there() {
        let transport = Transport::new(Some("ssh {host}"), None).unwrap();
        let command = transport.command_with("h", &["volume", "receive", "/a b/it's"]);
        let words: Vec<&str> = command.get_args().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words, ["h", r"gemelo volume receive '/a b/it'\''s'"]);
    }

    #[test]
    fn a_template_that_is_no_command_is_refused() {
        for wrong in ["", "  ", "sh -c 'x"] {
            assert!(Transport::new(Some(wrong), None).is_err(), "{wrong}");
        }
    }
}
