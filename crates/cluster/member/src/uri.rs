//! The names of domains and members: `rados:POOL/NAMESPACE` and `rados:POOL/NAMESPACE/MEMBER`.
//!
//! A name may end with `:conf=FILE` and `:id=USER`, as QEMU's names of Ceph images do. Without
//! them, the configuration is that of the environment variable `CEPH_CONF` or of the system, and
//! the user is `admin`.

use gemelo_base::{ShowPath as _, name_of_text};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// The beginning of all names.
pub const SCHEME: &str = "rados:";
/// The environment variable with the configuration, which Ceph's own programs read as well.
const CONFIGURATION_VARIABLE: &str = "CEPH_CONF";
/// The user of Ceph if none is named.
const DEFAULT_USER: &str = "admin";

/// A domain: a namespace of a pool of a cluster, and how to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainUri {
    /// The pool of the index.
    pub pool: String,
    /// The namespace, in the pool of the index and in that of the contents.
    pub namespace: String,
    /// The configuration of Ceph; `None` for that of the environment or of the system.
    pub configuration: Option<PathBuf>,
    /// The name of the Ceph user, without `client.`; `None` for `admin`.
    pub user: Option<String>,
}

/// A member of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberUri {
    /// The domain that the member belongs to.
    pub domain: DomainUri,
    /// The name of the member.
    pub name: String,
}

/// The error for a text that does not name what is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UriError {
    /// The text is no name.
    #[error(
        "invalid name '{text}': give {form}, with :conf=FILE and :id=USER after it where needed"
    )]
    Malformed {
        /// The text that was given.
        text: String,
        /// The form that is wanted.
        form: &'static str,
    },
    /// The text names a domain, and a part of it is wanted.
    #[error("'{text}' names a domain: give {form}; 'gemelo domain ls {text}' lists its members")]
    Domain {
        /// The text that was given.
        text: String,
        /// The form that is wanted.
        form: &'static str,
    },
    /// The text names a member, and a domain or a volume is wanted.
    #[error("'{text}' names a member: give {form}; 'gemelo volume ls {text}' lists its volumes")]
    Member {
        /// The text that was given.
        text: String,
        /// The form that is wanted.
        form: &'static str,
    },
    /// The text names a volume, and what contains it is wanted.
    #[error("'{text}' names a volume: give {form}, without the name of the volume")]
    Volume {
        /// The text that was given.
        text: String,
        /// The form that is wanted.
        form: &'static str,
    },
}

impl DomainUri {
    /// Returns the configuration file to use, if it is not that of the system.
    #[must_use]
    pub fn configuration(&self) -> Option<PathBuf> {
        let variable = || std::env::var_os(CONFIGURATION_VARIABLE).map(PathBuf::from);
        self.configuration.clone().or_else(variable)
    }

    /// Returns the name of the Ceph user.
    #[must_use]
    pub fn user(&self) -> &str {
        self.user.as_deref().unwrap_or(DEFAULT_USER)
    }

    fn of_parts(pool: &str, namespace: &str, options: Options) -> Self {
        let Options { configuration, user } = options;
        Self { pool: pool.to_owned(), namespace: namespace.to_owned(), configuration, user }
    }

    fn write_options(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.configuration {
            write!(formatter, ":conf={}", path.shown())?;
        }
        match &self.user {
            Some(user) => write!(formatter, ":id={user}"),
            None => Ok(()),
        }
    }
}

/// The options that may follow a name.
#[derive(Debug, Default)]
struct Options {
    configuration: Option<PathBuf>,
    user: Option<String>,
}

/// Parts a text into the names between slashes and the options. Returns `None` if it is malformed.
fn parse(text: &str) -> Option<(Vec<&str>, Options)> {
    let rest = text.strip_prefix(SCHEME)?;
    let (names, mut rest) = split_at_option(rest);
    let mut options = Options::default();
    while !rest.is_empty() {
        let (option, others) = split_at_option(rest.get(1..)?);
        let value = |name: &str| option.strip_prefix(name).filter(|value| !value.is_empty());
        match (value("conf="), value("id=")) {
            (Some(path), _) => options.configuration = Some(name_of_text(path).into()),
            (None, Some(user)) => options.user = Some(user.to_owned()),
            (None, None) => return None,
        }
        rest = others;
    }
    let names: Vec<&str> = names.split('/').collect();
    names.iter().all(|name| !name.is_empty()).then_some((names, options))
}

/// Parts a text into this many names and the options.
fn parse_as<'t, const N: usize>(
    text: &'t str,
    form: &'static str,
) -> Result<([&'t str; N], Options), UriError> {
    let Some((names, options)) = parse(text) else {
        return Err(UriError::Malformed { text: text.into(), form });
    };
    let count = names.len();
    match names.try_into() {
        Ok(names) => Ok((names, options)),
        Err(_) => Err(UriError::of_count(count, text.into(), form)),
    }
}

impl UriError {
    /// Returns the error for a name with another number of parts than is wanted.
    const fn of_count(count: usize, text: String, form: &'static str) -> Self {
        match count {
            2 => Self::Domain { text, form },
            3 => Self::Member { text, form },
            4 => Self::Volume { text, form },
            _ => Self::Malformed { text, form },
        }
    }
}

/// Splits a text before the first option.
fn split_at_option(text: &str) -> (&str, &str) {
    let at = [":conf=", ":id="].iter().filter_map(|option| text.find(option)).min();
    text.split_at(at.unwrap_or(text.len()))
}

impl FromStr for DomainUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let ([pool, namespace], options) = parse_as(text, "rados:POOL/NAMESPACE")?;
        Ok(Self::of_parts(pool, namespace, options))
    }
}

impl FromStr for MemberUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let form = "rados:POOL/NAMESPACE/MEMBER";
        let ([pool, namespace, name], options) = parse_as(text, form)?;
        let domain = DomainUri::of_parts(pool, namespace, options);
        Ok(Self { domain, name: name.to_owned() })
    }
}

impl MemberUri {
    /// Parts the name of a volume of a member, `rados:POOL/NAMESPACE/MEMBER/VOLUME`, into the
    /// member and the volume.
    ///
    /// # Errors
    /// Fails if the text has another form.
    pub fn with_volume(text: &str) -> Result<(Self, String), UriError> {
        let form = "rados:POOL/NAMESPACE/MEMBER/VOLUME";
        let ([pool, namespace, name, volume], options) = parse_as(text, form)?;
        let domain = DomainUri::of_parts(pool, namespace, options);
        Ok((Self { domain, name: name.to_owned() }, volume.to_owned()))
    }

    /// Writes the name of a volume of the member.
    ///
    /// # Errors
    /// Fails as the formatter does.
    pub fn write_volume(&self, volume: &str, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, name } = self;
        write!(formatter, "{SCHEME}{}/{}/{name}/{volume}", domain.pool, domain.namespace)?;
        domain.write_options(formatter)
    }
}

impl fmt::Display for DomainUri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{SCHEME}{}/{}", self.pool, self.namespace)?;
        self.write_options(formatter)
    }
}

impl fmt::Display for MemberUri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, name } = self;
        write!(formatter, "{SCHEME}{}/{}/{name}", domain.pool, domain.namespace)?;
        domain.write_options(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_they_are_read() {
        let domain: DomainUri = "rados:vms/prod:conf=/etc/a:b.conf:id=joe".parse().unwrap();
        assert_eq!((domain.pool.as_str(), domain.namespace.as_str()), ("vms", "prod"));
        assert_eq!((domain.user(), domain.configuration()), ("joe", Some("/etc/a:b.conf".into())));
        assert_eq!(domain.to_string(), "rados:vms/prod:conf=/etc/a:b.conf:id=joe");
        let member: MemberUri = "rados:vms/prod/one".parse().unwrap();
        assert_eq!((member.name.as_str(), member.domain.user()), ("one", "admin"));
        assert_eq!(member.to_string(), "rados:vms/prod/one");
        let (member, volume) = MemberUri::with_volume("rados:vms/prod/one/disk:id=joe").unwrap();
        assert_eq!(
            (member.to_string().as_str(), volume.as_str()),
            ("rados:vms/prod/one:id=joe", "disk")
        );
    }

    #[test]
    fn other_forms_are_refused_with_the_form_that_is_wanted() {
        for text in ["rados:", "rados:a", "rados:a/", "a/b", "rados:a/b:id="] {
            let refused = text.parse::<DomainUri>().unwrap_err().to_string();
            assert!(refused.contains("rados:POOL/NAMESPACE,"), "{refused}");
        }
        for text in ["rados:a", "rados:a/b/c/d/e", "rados:a//c"] {
            let refused = text.parse::<MemberUri>().unwrap_err().to_string();
            assert!(refused.contains("/MEMBER,"), "{refused}");
        }
    }

    #[test]
    fn a_name_of_something_else_is_told_with_the_command_that_lists_it() {
        let of_domain = |text: &str| text.parse::<DomainUri>().unwrap_err().to_string();
        let of_member = |text: &str| text.parse::<MemberUri>().unwrap_err().to_string();
        let of_volume = |text: &str| MemberUri::with_volume(text).unwrap_err().to_string();
        let listed = "'gemelo domain ls rados:a/b:id=joe' lists its members";
        assert!(of_member("rados:a/b:id=joe").ends_with(listed));
        assert!(of_volume("rados:a/b:id=joe").ends_with(listed));
        let listed = "'gemelo volume ls rados:a/b/c' lists its volumes";
        assert!(of_volume("rados:a/b/c").ends_with(listed));
        assert!(of_domain("rados:a/b/c").contains("names a member: give rados:POOL/NAMESPACE;"));
        assert!(of_member("rados:a/b/c/d").contains("names a volume: give"));
    }
}
