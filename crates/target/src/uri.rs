//! The names of storage on the command line.

use crate::TargetError;
use gemelo_nbd::client::NbdUri;
use gemelo_volume::VolumePath;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Storage that load can run against, as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetUri {
    /// `null:` completes every write and every read at once, and stores nothing.
    Null,
    /// A directory, a file or a block device: a plain path or `file:PATH`.
    Path(PathBuf),
    /// A volume of a pool whose engine runs in this process: `pool:DIRECTORY/VOLUME`.
    Pool(PoolVolume),
    /// An export of an NBD server: `nbd://HOST[:PORT]/EXPORT`, `nbd+unix:///EXPORT?socket=PATH`,
    /// and with TLS the same with `nbds`.
    Nbd(NbdUri),
}

/// A volume and the directory of its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolVolume {
    /// Directory of the pool.
    pub directory: PathBuf,
    /// Name of the volume.
    pub volume: String,
}

impl TargetUri {
    /// Returns whether the user can choose an [`crate::Engine`]. Volumes and exports have an
    /// interface of their own.
    #[must_use]
    pub const fn has_engines(&self) -> bool {
        matches!(self, Self::Null | Self::Path(_))
    }
}

impl FromStr for TargetUri {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if text.is_empty() {
            return Err(TargetError::NoTarget);
        }
        match scheme_of(text) {
            None => Ok(Self::Path(PathBuf::from(text))),
            Some(("null", "")) => Ok(Self::Null),
            Some(("file", path)) if !path.is_empty() => Ok(Self::Path(PathBuf::from(path))),
            Some(("pool", place)) => PoolVolume::parse(place).map(Self::Pool),
            Some(("nbd" | "nbds" | "nbd+unix" | "nbds+unix", _)) => Ok(Self::Nbd(text.parse()?)),
            Some(_) => Err(TargetError::Scheme { uri: text.to_owned() }),
        }
    }
}

impl PoolVolume {
    fn parse(place: &str) -> Result<Self, TargetError> {
        let VolumePath { pool, name } =
            place.parse().map_err(|_| TargetError::PoolShape { place: place.to_owned() })?;
        Ok(Self { directory: pool, volume: name })
    }
}

impl fmt::Display for PoolVolume {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "pool:{}/{}", self.directory.display(), self.volume)
    }
}

/// Splits `scheme:rest`. A text that begins with a slash or a dot is always a path.
fn scheme_of(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c));
    is_scheme.then_some((scheme, rest))
}

impl fmt::Display for TargetUri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => formatter.write_str("null:"),
            Self::Path(path) => path.display().fmt(formatter),
            Self::Pool(place) => place.fmt(formatter),
            Self::Nbd(uri) => uri.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_schemes_are_told_apart() {
        let path = |text: &str| TargetUri::Path(PathBuf::from(text));
        assert_eq!("null:".parse::<TargetUri>().unwrap(), TargetUri::Null);
        for text in ["/dev/sda", "data", "./a:b", "/a:b", "C:x", "."] {
            assert_eq!(text.parse::<TargetUri>().unwrap(), path(text));
        }
        assert_eq!("file:a:b".parse::<TargetUri>().unwrap(), path("a:b"));
    }

    #[test]
    fn volumes_and_exports_are_named_as_they_are_printed() {
        for text in
            ["pool:/a b/c/disk", "pool:dir/disk", "nbd://host:10809/x", "nbd+unix:///x?socket=/y"]
        {
            let uri: TargetUri = text.parse().unwrap();
            assert_eq!(uri.to_string(), text);
            assert!(!uri.has_engines());
        }
        let place = PoolVolume { directory: PathBuf::from("a/b"), volume: "c".to_owned() };
        assert_eq!("pool:a/b/c".parse::<TargetUri>().unwrap(), TargetUri::Pool(place));
    }

    #[test]
    fn unknown_schemes_are_refused_by_name() {
        for text in
            ["nbd://", "nbd+unix:///x", "pool:a", "pool:/b", "pool:a/", "null:x", "file:", "a:b"]
        {
            let error = text.parse::<TargetUri>().unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        assert!("".parse::<TargetUri>().is_err());
    }
}
