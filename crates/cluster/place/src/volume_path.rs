//! `POOL/NAME`, as users name a volume: the place of its pool and its name in the pool.

use crate::member::MemberPlace;
use crate::place::PoolPlace;
use gemelo_base::{ShowPath as _, text_of_name};
use gemelo_member::{MemberUri, SCHEME, UriError};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;
use thiserror::Error;

/// A volume and the place of its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumePath {
    /// The place of the pool.
    pub pool: PoolPlace,
    /// Name of the volume.
    pub name: String,
}

/// The error for a text that names no volume.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VolumePathError {
    /// The text is not POOL/NAME.
    #[error(
        "invalid volume '{0}': give POOL/NAME, the pool's directory and the volume's name, such as \
         ./pool/disk"
    )]
    Directory(String),
    /// The text begins like a member, and names no volume of one.
    #[error(transparent)]
    Member(#[from] UriError),
}

impl FromStr for VolumePath {
    type Err = VolumePathError;

    /// Splits at the last slash, because names of volumes contain none.
    fn from_str(text: &str) -> Result<Self, VolumePathError> {
        if text.starts_with(SCHEME) {
            let (uri, name) = MemberUri::with_volume(text)?;
            return Ok(Self { pool: PoolPlace::Member(Box::new(MemberPlace::new(uri))), name });
        }
        match text.rsplit_once('/') {
            Some((pool, name)) if !pool.is_empty() && !name.is_empty() => {
                Ok(Self { pool: PoolPlace::Directory(pool.into()), name: name.to_owned() })
            }
            _ => Err(VolumePathError::Directory(text.to_owned())),
        }
    }
}

impl VolumePath {
    /// Reads `POOL/NAME`; the pool's directory may have any name.
    ///
    /// # Errors
    /// Fails if the text is not of this form, or if the name of the volume is not UTF-8.
    pub fn from_os_text(text: &OsStr) -> Result<Self, VolumePathError> {
        if let Some(text) = text.to_str() {
            return text.parse();
        }
        let unknown = || VolumePathError::Directory(text_of_name(text));
        let bytes = text.as_bytes();
        let slash = bytes.iter().rposition(|byte| *byte == b'/').ok_or_else(unknown)?;
        let (pool, name) = bytes.split_at(slash);
        let name = name.get(1..).and_then(|name| std::str::from_utf8(name).ok());
        match name {
            Some(name) if !pool.is_empty() && !name.is_empty() => {
                let pool = PoolPlace::Directory(OsStr::from_bytes(pool).into());
                Ok(Self { pool, name: name.to_owned() })
            }
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for VolumePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pool {
            PoolPlace::Directory(path) => write!(formatter, "{}/{}", path.shown(), self.name),
            PoolPlace::Member(member) => member.uri().write_volume(&self.name, formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_last_slash_parts_pool_and_volume() {
        let volume: VolumePath = "/srv/a/b".parse().unwrap();
        assert_eq!(
            (volume.pool.directory(), volume.name.as_str()),
            (Some(Path::new("/srv/a")), "b")
        );
        for text in ["", "b", "/b", "/srv/a/"] {
            let error = text.parse::<VolumePath>().unwrap_err().to_string();
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
    }

    #[test]
    fn a_volume_of_a_member_is_written_as_it_is_read() {
        let text = "rados:vms/prod/one/disk:conf=/etc/ceph/a.conf";
        let volume: VolumePath = text.parse().unwrap();
        assert_eq!((volume.name.as_str(), volume.to_string().as_str()), ("disk", text));
        let refused = "rados:vms/prod/one".parse::<VolumePath>().unwrap_err().to_string();
        assert!(refused.contains("MEMBER/VOLUME"), "{refused}");
    }
}
