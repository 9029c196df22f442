//! The kinds of storage that a program knows, by the schemes of their names.

use crate::find::FileStorage;
use crate::null::NullStorage;
use crate::storage::Storage;
use crate::{TargetError, TargetUri};
use gemelo_base::name_of_text;
use std::path::Path;
use std::sync::Arc;

/// A kind of storage other than files, devices and `null:`.
pub trait Adapter: Send + Sync {
    /// Returns the schemes of the names, such as `pool` for `pool:DIRECTORY/VOLUME`.
    fn schemes(&self) -> &'static [&'static str];

    /// Returns the forms of the names, such as `pool:DIRECTORY/VOLUME`, for messages.
    fn forms(&self) -> &'static [&'static str];

    /// Returns the storage of a name with one of the schemes.
    ///
    /// # Errors
    /// Fails if the name is invalid. It is not checked yet that the storage exists.
    fn storage(&self, uri: &TargetUri) -> Result<Arc<dyn Storage>, TargetError>;
}

/// The kinds of storage that a program knows. Files, directories, block devices and `null:` are
/// always among them.
#[derive(Default)]
pub struct Targets {
    adapters: Vec<Box<dyn Adapter>>,
}

impl Targets {
    /// Creates a registry without adapters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kind of storage. Of two adapters with the same scheme, the earlier one is used.
    #[must_use]
    pub fn with(mut self, adapter: impl Adapter + 'static) -> Self {
        self.adapters.push(Box::new(adapter));
        self
    }

    /// Returns the storage of this name.
    ///
    /// # Errors
    /// Fails if the name is empty, its scheme is unknown, or the adapter refuses it.
    pub fn storage(&self, uri: &TargetUri) -> Result<Arc<dyn Storage>, TargetError> {
        match uri.parts() {
            (None, "") => Err(TargetError::NoTarget { forms: self.forms() }),
            (None, path) => Ok(Arc::new(FileStorage::new(Path::new(&name_of_text(path))))),
            (Some("null"), "") => Ok(Arc::new(NullStorage)),
            (Some(scheme), _) => {
                let mut adapters = self.adapters.iter();
                match adapters.find(|adapter| adapter.schemes().contains(&scheme)) {
                    Some(adapter) => adapter.storage(uri),
                    None => {
                        let uri = uri.to_string();
                        Err(TargetError::Scheme { uri, forms: self.forms() })
                    }
                }
            }
        }
    }

    /// Returns the forms of all names, for messages.
    fn forms(&self) -> String {
        let adapters = self.adapters.iter().flat_map(|adapter| adapter.forms());
        let all = ["a directory", "a file", "a block device"].iter().chain(adapters);
        format!("{} or null:", all.copied().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Discs;

    impl Adapter for Discs {
        fn schemes(&self) -> &'static [&'static str] {
            &["disc"]
        }

        fn forms(&self) -> &'static [&'static str] {
            &["disc:NAME"]
        }

        fn storage(&self, uri: &TargetUri) -> Result<Arc<dyn Storage>, TargetError> {
            assert_eq!(uri.parts(), (Some("disc"), "x"));
            Ok(Arc::new(NullStorage))
        }
    }

    #[test]
    fn an_adapter_is_asked_for_its_schemes() {
        let targets = Targets::new().with(Discs);
        assert!(targets.storage(&"disc:x".into()).is_ok());
        assert!(Targets::new().storage(&"disc:x".into()).is_err());
        for (uri, holds_data) in [("null:", false), ("./disc:x", true), (".", true)] {
            assert_eq!(targets.storage(&uri.into()).unwrap().holds_data(), holds_data, "{uri}");
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_forms_that_are_known() {
        let targets = Targets::new().with(Discs);
        for uri in ["", "null:x", "file:", "a:b"] {
            let error = targets.storage(&uri.into()).err().unwrap().to_string();
            assert!(error.contains(uri), "{error}");
            assert!(error.contains("a block device, disc:NAME or null:"), "{error}");
        }
    }
}
