//! Volumes of a pool: names of the form `pool:DIRECTORY/VOLUME`.

mod error;
mod queue;
mod volume;

pub use error::PoolTargetError;

use gemelo_target::{Adapter, AdapterError, Storage, TargetError, TargetUri};
use gemelo_volume::{Pool, VolumePath};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use volume::VolumeStorage;

/// A volume and the directory of its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolVolume {
    /// Directory of the pool.
    pub directory: PathBuf,
    /// Name of the volume.
    pub volume: String,
}

impl PoolVolume {
    fn parse(place: &str) -> Result<Self, PoolTargetError> {
        let VolumePath { pool, name } =
            place.parse().map_err(|_| PoolTargetError::Shape { place: place.to_owned() })?;
        Ok(Self { directory: pool, volume: name })
    }
}

impl fmt::Display for PoolVolume {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "pool:{}/{}", self.directory.display(), self.volume)
    }
}

/// Called with the directory of each pool that a target has opened for writing, so that the program
/// can show its figures to others meanwhile. The result is dropped before the pool is closed.
pub type OnOpen =
    Arc<dyn Fn(&Path, Weak<Pool>) -> Option<Box<dyn Send + Sync>> + Send + Sync + 'static>;

/// Opens volumes of pools as targets.
#[derive(Default)]
pub struct PoolAdapter {
    on_open: Option<OnOpen>,
}

impl PoolAdapter {
    /// Creates an adapter that calls `on_open` for each pool that it opens for writing. Other
    /// processes can open a read-only pool themselves, so it is not called for these.
    #[must_use]
    pub fn new(on_open: OnOpen) -> Self {
        Self { on_open: Some(on_open) }
    }
}

impl Adapter for PoolAdapter {
    fn schemes(&self) -> &'static [&'static str] {
        &["pool"]
    }

    fn forms(&self) -> &'static [&'static str] {
        &["pool:DIRECTORY/VOLUME"]
    }

    fn storage(&self, uri: &TargetUri) -> Result<Arc<dyn Storage>, TargetError> {
        let place = PoolVolume::parse(uri.parts().1).map_err(AdapterError::new)?;
        Ok(Arc::new(VolumeStorage { place, on_open: self.on_open.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::{Classified, FailureKind};

    #[test]
    fn a_name_has_a_directory_and_a_volume() {
        for text in ["pool:/a b/c/disk", "pool:dir/disk"] {
            let uri = TargetUri::from(text);
            assert_eq!(PoolVolume::parse(uri.parts().1).unwrap().to_string(), text);
            assert!(!PoolAdapter::default().storage(&uri).unwrap().has_engines());
        }
        for text in ["pool:a", "pool:/b", "pool:a/"] {
            let error = PoolAdapter::default().storage(&text.into()).err().unwrap();
            assert!(
                error.to_string().contains(text) && error.kind() == FailureKind::BadInput,
                "{error}"
            );
        }
    }
}
