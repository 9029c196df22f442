//! The schemas of results, and what does not fit them.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn schemas() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/schemas").canonicalize().unwrap()
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

/// Keys of a schema that may be absent or null, and in which ways they were seen.
#[derive(Default)]
pub(crate) struct Coverage {
    keys: BTreeMap<String, Ways>,
}

#[derive(Default)]
struct Ways {
    present: bool,
    absent: bool,
}

impl Coverage {
    /// Notes the keys of a result that fits its schema.
    pub(crate) fn note(&mut self, kind: &str, schema: &Value, result: &Value) {
        self.walk(schema, schema, result, kind);
    }

    fn walk(&mut self, root: &Value, schema: &Value, value: &Value, at: &str) {
        if let Some(name) = schema["$ref"].as_str() {
            // A result inside of a result, that of a host, has the keys of any other.
            if name == "#" {
                return;
            }
            let target = root.pointer(name.trim_start_matches('#')).unwrap();
            return self.walk(root, target, value, at);
        }
        for choice in ["anyOf", "oneOf"] {
            for one in schema[choice].as_array().into_iter().flatten() {
                if fits(root, one, value) {
                    self.walk(root, one, value, at);
                }
            }
        }
        if let (Some(properties), Some(object)) =
            (schema["properties"].as_object(), value.as_object())
        {
            let required: Vec<&Value> =
                schema["required"].as_array().into_iter().flatten().collect();
            for (name, below) in properties {
                // The provenance is the same in all kinds.
                let at = if name == "provenance" { name.clone() } else { format!("{at}/{name}") };
                let found = object.get(name).filter(|found| !found.is_null());
                let is_required = required.iter().any(|one| *one == name);
                if !is_required || fits(root, below, &Value::Null) {
                    let ways = self.keys.entry(at.clone()).or_default();
                    if found.is_some() {
                        ways.present = true;
                    } else {
                        ways.absent = true;
                    }
                }
                if let Some(found) = found {
                    self.walk(root, below, found, &at);
                }
            }
        }
        if let Some(all) = value.as_array() {
            all.iter().for_each(|one| self.walk(root, &schema["items"], one, at));
        }
        if let (Some(object), true) =
            (value.as_object(), schema["additionalProperties"].is_object())
        {
            for one in object.values() {
                self.walk(root, &schema["additionalProperties"], one, at);
            }
        }
    }

    /// Returns the keys that were seen in one way only, with the way that is missing.
    pub(crate) fn one_way(&self) -> BTreeSet<String> {
        let of = |(key, ways): (&String, &Ways)| match (ways.present, ways.absent) {
            (false, _) => Some(format!("{key} present")),
            (_, false) => Some(format!("{key} absent")),
            _ => None,
        };
        self.keys.iter().filter_map(of).collect()
    }
}

/// Returns whether a value fits a part of a schema.
fn fits(root: &Value, part: &Value, value: &Value) -> bool {
    let mut schema = part.clone();
    if let (Some(object), Some(definitions)) = (schema.as_object_mut(), root.get("$defs")) {
        object.insert("$defs".to_owned(), definitions.clone());
    }
    jsonschema::is_valid(&schema, value)
}
