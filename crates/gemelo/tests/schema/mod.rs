//! The schemas of results, and what does not fit them.

#![allow(dead_code, reason = "every test binary uses a part of it")]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn schemas() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas").canonicalize().unwrap()
}

pub(crate) fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The schema of a kind, such as `gemelo.scan/1`.
pub(crate) fn schema_of(kind: &str) -> Value {
    let name = kind.strip_prefix("gemelo.").and_then(|kind| kind.strip_suffix("/1")).unwrap();
    read(&schemas().join(format!("{name}.schema.json")))
}

/// Everything in which an instance does not fit its schema, with the place.
pub(crate) fn misfits(schema: &Value, instance: &Value) -> Vec<String> {
    let validator = jsonschema::validator_for(schema).unwrap();
    validator
        .iter_errors(instance)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .map(|text| text.chars().take(400).collect())
        .collect()
}
