//! An NBD export that the user provides. Its content is overwritten.

use super::{LoadPlace, MadeTarget, PlaceKind, Target};
use crate::error::StepError;
use crate::plan::keys::Keys;
use crate::plan::{PlanError, Reading};
use crate::site::RunSite;
use std::time::Duration;

/// Beginnings of the URIs of exports.
const SCHEMES: [&str; 4] = ["nbd://", "nbds://", "nbd+unix://", "nbds+unix://"];

#[derive(Debug)]
struct Export {
    uri: String,
}

pub(super) fn read(
    keys: &Keys<'_>,
    kind: &'static str,
    _reading: &Reading<'_>,
) -> Result<Box<dyn Target>, PlanError> {
    let uri = keys.required_text(kind)?;
    if SCHEMES.iter().any(|scheme| uri.starts_with(scheme)) {
        Ok(Box::new(Export { uri }))
    } else {
        let known = SCHEMES.join(", ");
        Err(keys.wrong(kind, format_args!("'{uri}' begins with none of {known}")))
    }
}

impl Target for Export {
    fn description(&self) -> String {
        format!("export {}", self.uri)
    }

    fn missing(&self) -> Option<String> {
        None
    }

    fn place_kind(&self) -> PlaceKind {
        PlaceKind::Export
    }

    fn making_time(&self) -> Duration {
        Duration::from_millis(5)
    }

    fn make(&self, _site: &mut RunSite<'_>) -> Result<Box<dyn MadeTarget>, StepError> {
        Ok(Box::new(MadeExport(self.uri.clone())))
    }
}

struct MadeExport(String);

impl MadeTarget for MadeExport {
    fn place(&self) -> LoadPlace {
        LoadPlace::Uri(self.0.clone())
    }
}
