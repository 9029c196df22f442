//! Exports of NBD servers: names of the form `nbd://HOST[:PORT]/EXPORT` and
//! `nbd+unix:///EXPORT?socket=PATH`, and with TLS the same with `nbds`.

mod error;
mod export;
mod queue;

pub use error::ExportError;

use export::ExportStorage;
use gemelo_nbd::client::NbdUri;
use gemelo_target::{Adapter, Storage, TargetError, TargetUri};
use std::sync::Arc;

/// Opens exports of NBD servers as targets.
#[derive(Debug, Default)]
pub struct NbdAdapter;

impl Adapter for NbdAdapter {
    fn schemes(&self) -> &'static [&'static str] {
        &["nbd", "nbds", "nbd+unix", "nbds+unix"]
    }

    fn forms(&self) -> &'static [&'static str] {
        &["nbd://HOST/EXPORT", "nbd+unix:///EXPORT?socket=PATH"]
    }

    fn storage(&self, uri: &TargetUri) -> Result<Arc<dyn Storage>, TargetError> {
        let uri: NbdUri = uri.to_string().parse().map_err(ExportError::Uri)?;
        Ok(Arc::new(ExportStorage { uri }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::{Classified, FailureKind};

    #[test]
    fn addresses_of_all_schemes_are_read() {
        for text in [
            "nbd://host:10809/x",
            "nbds://host/x?tls-certificates=/c",
            "nbd+unix:///x?socket=/y",
            "nbds+unix:///x?socket=/y&tls-certificates=/c",
        ] {
            let uri = TargetUri::from(text);
            assert!(NbdAdapter.schemes().contains(&uri.parts().0.unwrap()), "{text}");
            assert!(!NbdAdapter.storage(&uri).unwrap().has_engines());
        }
        for text in ["nbd://", "nbd+unix:///x"] {
            let error = NbdAdapter.storage(&text.into()).err().unwrap();
            assert!(
                error.to_string().contains(text) && error.kind() == FailureKind::BadInput,
                "{error}"
            );
        }
    }
}
