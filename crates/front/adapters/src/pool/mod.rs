//! Volumes of a pool: names of the form `pool:DIRECTORY/VOLUME` or
//! `pool:rados:POOL/NAMESPACE/MEMBER/VOLUME`.

mod error;
mod queue;
mod volume;

pub use error::PoolTargetError;

use gemelo_base::name_of_text;
use gemelo_place::{PoolPlace, VolumePath};
use gemelo_target::{Adapter, AdapterError, Storage, TargetError, TargetUri};
use gemelo_volume::{Pool, Tuning};
use std::fmt;
use std::sync::{Arc, Weak};
use volume::VolumeStorage;

/// A volume and the place of its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolVolume(pub VolumePath);

impl PoolVolume {
    fn parse(place: &str) -> Result<Self, PoolTargetError> {
        let path = VolumePath::from_os_text(&name_of_text(place));
        path.map(Self).map_err(|_| PoolTargetError::Shape { place: place.to_owned() })
    }
}

impl fmt::Display for PoolVolume {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "pool:{}", self.0)
    }
}

/// The program in which targets open pools.
pub trait PoolHost: Send + Sync {
    /// Returns the settings with which a pool is opened. They are the same as in other commands.
    ///
    /// # Errors
    /// Fails if the settings of the pool cannot be read.
    fn tuning(&self, place: &PoolPlace) -> Result<Tuning, AdapterError>;

    /// Takes notice of a pool that a target has opened for writing, so that the program can show
    /// its figures to others meanwhile. The result is dropped before the pool is closed. Other
    /// processes can open a read-only pool themselves, so this is not called for these.
    fn opened(&self, place: &PoolPlace, pool: Weak<Pool>) -> Option<Box<dyn Send + Sync>>;
}

/// A host that opens pools with the defaults of the engine and shows them to nobody.
struct PlainHost;

impl PoolHost for PlainHost {
    fn tuning(&self, _place: &PoolPlace) -> Result<Tuning, AdapterError> {
        Ok(Tuning::default())
    }

    fn opened(&self, _place: &PoolPlace, _pool: Weak<Pool>) -> Option<Box<dyn Send + Sync>> {
        None
    }
}

/// Opens volumes of pools as targets.
pub struct PoolAdapter {
    host: Arc<dyn PoolHost>,
}

impl Default for PoolAdapter {
    fn default() -> Self {
        Self::new(PlainHost)
    }
}

impl PoolAdapter {
    /// Creates the adapter of a program.
    #[must_use]
    pub fn new(host: impl PoolHost + 'static) -> Self {
        Self { host: Arc::new(host) }
    }
}

impl Adapter for PoolAdapter {
    fn schemes(&self) -> &'static [&'static str] {
        &["pool"]
    }

    fn forms(&self) -> &'static [&'static str] {
        &["pool:DIRECTORY/VOLUME", "pool:rados:POOL/NAMESPACE/MEMBER/VOLUME"]
    }

    fn storage(&self, uri: &TargetUri) -> Result<Arc<dyn Storage>, TargetError> {
        let place = PoolVolume::parse(uri.parts().1).map_err(AdapterError::new)?;
        Ok(Arc::new(VolumeStorage { place, host: Arc::clone(&self.host) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::{Classified, FailureKind};

    #[test]
    fn a_name_has_a_directory_and_a_volume() {
        for text in ["pool:/a b/c/disk", "pool:dir/disk", "pool:rados:a/b/c/disk:id=x"] {
            let uri = TargetUri::from(text);
            assert_eq!(PoolVolume::parse(uri.parts().1).unwrap().to_string(), text);
            assert!(!PoolAdapter::default().storage(&uri).unwrap().has_engines());
        }
        for text in ["pool:a", "pool:/b", "pool:a/", "pool:rados:a/b/c"] {
            let error = PoolAdapter::default().storage(&text.into()).err().unwrap();
            assert!(
                error.to_string().contains(text) && error.kind() == FailureKind::BadInput,
                "{error}"
            );
        }
    }
}
