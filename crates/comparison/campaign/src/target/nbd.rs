//! An NBD export that the user provides. Its content is overwritten.

use super::{LoadPlace, MadeTarget, OfUser, PlaceKind, Target, TargetResult};
use crate::error::StepError;
use crate::plan::Reading;
use crate::plan::keys::Keys;
use crate::site::RunSite;
use std::time::Duration;

/// Beginnings of the URIs of exports.
const SCHEMES: [&str; 4] = ["nbd://", "nbds://", "nbd+unix://", "nbds+unix://"];

#[derive(Debug)]
struct Export {
    uri: String,
}

pub(super) fn read(keys: &Keys<'_>, kind: &'static str, _reading: &Reading<'_>) -> TargetResult {
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
        Ok(Box::new(OfUser(LoadPlace::Uri(self.uri.clone()))))
    }
}
