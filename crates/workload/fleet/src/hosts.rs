//! The list of hosts, as users write it.

use gemelo_base::Classified;
use std::path::Path;
use thiserror::Error;

/// Most entries of a list. Each takes some threads and a process of the transport here.
const MAX_HOSTS: usize = 1022;

/// The hosts of a run, in order. A host that is given several times runs as many parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts(Vec<String>);

/// The reason why a list of hosts is refused.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum HostsError {
    /// The list has no host.
    #[error("the list of hosts is empty")]
    Empty,
    /// The list has too many hosts.
    #[error("{0} hosts are too many: the limit is {MAX_HOSTS}")]
    TooMany(usize),
    /// A name would be taken for an option, or has characters that no host name has.
    #[error("'{0}' is no name of a host: use letters, digits and any of . - _ : @ [ ] %")]
    Name(String),
    /// The file of hosts cannot be read.
    #[kind(source, untouched)]
    #[error("cannot read {path}")]
    Read {
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl Hosts {
    /// Reads `a,b,user@c`, or `@FILE` for a file with a host a line and comments after `#`.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if the list is empty, too long or has another name.
    pub fn parse(text: &str) -> Result<Self, HostsError> {
        match text.strip_prefix('@') {
            None => Self::of_names(text.split(',')),
            Some(path) => {
                let list = std::fs::read_to_string(Path::new(path))
                    .map_err(|source| HostsError::Read { path: path.to_owned(), source })?;
                let lines = list.lines().map(|line| line.split('#').next().unwrap_or(line));
                Self::of_names(lines.flat_map(|line| line.split([',', ' ', '\t'])))
            }
        }
    }

    fn of_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<Self, HostsError> {
        let names: Vec<String> =
            names.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if let Some(wrong) = names.iter().find(|name| !is_name(name)) {
            return Err(HostsError::Name(wrong.clone()));
        }
        match names.len() {
            0 => Err(HostsError::Empty),
            count if count > MAX_HOSTS => Err(HostsError::TooMany(count)),
            _ => Ok(Self(names)),
        }
    }

    /// Returns the names in the order in which the user gave them.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

/// A name goes to a command, so it must not look like an option of that command.
fn is_name(name: &str) -> bool {
    let is_usual = |letter: char| letter.is_alphanumeric() || ".-_:@[]%/".contains(letter);
    !name.starts_with('-') && name.chars().all(is_usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_from_the_option_and_from_a_file() {
        let names = |text: &str| Hosts::parse(text).unwrap().names().join(" ");
        assert_eq!(names("a,b, user@c,a"), "a b user@c a");
        assert_eq!(names("10.0.0.1,[fe80::1%eth0]"), "10.0.0.1 [fe80::1%eth0]");
        let directory = std::env::temp_dir().join(format!("gemelo-hosts-{}", std::process::id()));
        std::fs::write(&directory, "# rack 1\na b # two\n\nuser@c,d\n").unwrap();
        assert_eq!(names(&format!("@{}", directory.display())), "a b user@c d");
        std::fs::remove_file(&directory).unwrap();
    }

    #[test]
    fn names_that_a_command_would_misread_are_refused() {
        for (text, message) in [
            ("", "the list of hosts is empty"),
            ("a,-oProxyCommand=x", "'-oProxyCommand=x' is no name"),
            ("a;reboot", "'a;reboot' is no name"),
            ("@/no/such/file", "cannot read /no/such/file"),
        ] {
            let error = Hosts::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
        let many = vec!["h"; MAX_HOSTS + 1].join(",");
        assert!(matches!(Hosts::parse(&many), Err(HostsError::TooMany(_))));
    }
}
