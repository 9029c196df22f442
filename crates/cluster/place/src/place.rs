//! The name of a pool: a directory, or `rados:POOL/NAMESPACE/MEMBER`.

use crate::error::Result;
use crate::member::MemberPlace;
use gemelo_base::ShowPath as _;
use gemelo_member::{MemberUri, SCHEME, UriError};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The place of a pool. A directory whose name begins with `rados:` is given as `./rados:…`.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub enum PoolPlace {
    /// A directory of this host.
    Directory(PathBuf),
    /// A member of a domain.
    Member(Box<MemberPlace>),
}

impl FromStr for PoolPlace {
    type Err = UriError;

    fn from_str(text: &str) -> std::result::Result<Self, UriError> {
        if !text.starts_with(SCHEME) {
            return Ok(Self::Directory(text.into()));
        }
        Ok(Self::Member(Box::new(MemberPlace::new(text.parse::<MemberUri>()?))))
    }
}

impl From<&Path> for PoolPlace {
    fn from(directory: &Path) -> Self {
        Self::Directory(directory.to_owned())
    }
}

impl fmt::Display for PoolPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.shown().fmt(formatter),
            Self::Member(member) => member.uri().fmt(formatter),
        }
    }
}

impl Serialize for PoolPlace {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Directory(path) => serializer.collect_str(&path.shown()),
            Self::Member(member) => serializer.collect_str(member.uri()),
        }
    }
}

impl PoolPlace {
    /// Returns the place as text, without links and parts that lead back.
    #[must_use]
    pub fn whole(&self) -> String {
        match self {
            Self::Directory(path) => {
                let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
                whole.shown().to_string()
            }
            Self::Member(_) => self.to_string(),
        }
    }

    /// Returns the last part of the place, as in names of devices.
    #[must_use]
    pub fn short_name(&self) -> String {
        self.whole().rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// Returns the directory, if the place is one.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory(path) => Some(path),
            Self::Member(_) => None,
        }
    }

    /// Returns the member, if the place is one.
    #[must_use]
    pub const fn member(&self) -> Option<&MemberPlace> {
        match self {
            Self::Directory(_) => None,
            Self::Member(member) => Some(member),
        }
    }

    /// Returns the directory on this host in which the process that has the pool listens: that of
    /// the pool, or one for the member, which is made if it does not exist.
    ///
    /// # Errors
    /// Fails if the directory of a member cannot be made, or if others can write to it.
    pub fn host_directory(&self) -> Result<PathBuf> {
        match self {
            Self::Directory(path) => Ok(path.clone()),
            Self::Member(member) => member.host_directory(),
        }
    }

    /// Returns a small text that is kept with the pool: a file of the directory, or a value of the
    /// member. A pool that does not exist has none.
    ///
    /// # Errors
    /// Fails if the text is there and cannot be read, or if the cluster does not answer.
    pub fn read_text(&self, name: &str) -> Result<io::Result<Option<String>>> {
        match self {
            Self::Directory(path) => Ok(read_file(&path.join(name))),
            Self::Member(member) => member.read_text(name),
        }
    }
}

fn read_file(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_directory_unless_it_has_the_scheme() {
        let place: PoolPlace = "/srv/pool".parse().unwrap();
        assert_eq!(place.directory(), Some(Path::new("/srv/pool")));
        assert_eq!(place.to_string(), "/srv/pool");
        let place: PoolPlace = "./rados:x".parse().unwrap();
        assert!(place.directory().is_some());
        let place: PoolPlace = "rados:vms/prod/one:id=joe".parse().unwrap();
        assert_eq!(place.member().unwrap().uri().name, "one");
        assert_eq!(place.to_string(), "rados:vms/prod/one:id=joe");
        assert!("rados:vms/prod".parse::<PoolPlace>().is_err());
    }
}
