//! `POOL/NAME`, as users name a volume: the directory of its pool and its name in the pool.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// A volume and the directory of its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumePath {
    /// Directory of the pool.
    pub pool: PathBuf,
    /// Name of the volume.
    pub name: String,
}

/// The error for a text that is not POOL/NAME.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "invalid volume '{0}': give POOL/NAME, the pool's directory and the volume's name, such as \
     ./pool/disk"
)]
pub struct VolumePathError(String);

impl FromStr for VolumePath {
    type Err = VolumePathError;

    /// Splits at the last slash, because names of volumes contain none.
    fn from_str(text: &str) -> Result<Self, VolumePathError> {
        match text.rsplit_once('/') {
            Some((pool, name)) if !pool.is_empty() && !name.is_empty() => {
                Ok(Self { pool: pool.into(), name: name.to_owned() })
            }
            _ => Err(VolumePathError(text.to_owned())),
        }
    }
}

impl fmt::Display for VolumePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.pool.display(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_slash_parts_pool_and_volume() {
        let volume: VolumePath = "/srv/a/b".parse().unwrap();
        assert_eq!((volume.pool, volume.name.as_str()), (PathBuf::from("/srv/a"), "b"));
        for text in ["", "b", "/b", "/srv/a/"] {
            let error = text.parse::<VolumePath>().unwrap_err().to_string();
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
    }
}
