//! `POOL/NAME`, as volumes are called on the command line.

use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// A volume of a pool: the pool's directory, and the name after the last slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeName {
    pub(crate) pool: PathBuf,
    pub(crate) name: String,
}

#[derive(Debug, Error)]
#[error(
    "'{0}' is no volume: POOL/NAME, the pool's directory and the volume's name, such as ./pool/disk"
)]
pub(crate) struct NoVolumeName(String);

impl FromStr for VolumeName {
    type Err = NoVolumeName;

    fn from_str(text: &str) -> Result<Self, NoVolumeName> {
        match text.rsplit_once('/') {
            Some((pool, name)) if !name.is_empty() => {
                let pool = if pool.is_empty() { "/" } else { pool };
                Ok(Self { pool: pool.into(), name: name.to_owned() })
            }
            _ => Err(NoVolumeName(text.to_owned())),
        }
    }
}

impl std::fmt::Display for VolumeName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.pool.display(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_slash_parts_pool_and_volume() {
        let volume: VolumeName = "/srv/a/b".parse().unwrap();
        assert_eq!((volume.pool, volume.name.as_str()), (PathBuf::from("/srv/a"), "b"));
        for text in ["", "b", "/srv/a/"] {
            assert!(
                text.parse::<VolumeName>().unwrap_err().to_string().contains(&format!("'{text}'"))
            );
        }
    }
}
