//! The schemas of results, and what does not fit them.

use crate::common::gemelo;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

pub(crate) fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The names of all kinds of results.
pub(crate) fn names() -> BTreeSet<String> {
    let list = gemelo(&["schema"]);
    assert_eq!(list.status, 0, "{}", list.err);
    let name = |line: &str| line.split(' ').next().unwrap().to_owned();
    list.out.lines().map(name).collect()
}

/// The schema of a kind, such as `gemelo.scan/1` or `scan`.
pub(crate) fn schema_of(kind: &str) -> Value {
    let schema = gemelo(&["schema", kind]);
    assert_eq!(schema.status, 0, "{}", schema.err);
    serde_json::from_str(&schema.out).unwrap()
}

/// The name of a kind: that of `gemelo.scan/1` is `scan`.
pub(crate) fn name_of(kind: &str) -> String {
    kind.strip_prefix("gemelo.").and_then(|kind| kind.strip_suffix("/1")).unwrap().to_owned()
}

/// The keys of all kinds and of the types in them, one a line: the path, `?` if it may be absent,
/// and the type. A type of several kinds is listed once.
pub(crate) fn keys() -> String {
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for kind in names() {
        let schema = schema_of(&kind);
        let definitions = schema["$defs"].as_object().into_iter().flatten();
        // The result of a host has the keys of the kind itself.
        for (name, part) in definitions.filter(|(name, _)| *name != "ResultFile") {
            let mut lines = keys_of(part);
            if lines.is_empty() {
                lines.push(format!(": {}", type_of(part)));
            }
            match types.get(name) {
                Some(known) if *known != lines => types.insert(format!("{kind} {name}"), lines),
                _ => types.insert(name.clone(), lines),
            };
        }
        types.insert(kind, keys_of(&schema));
    }
    let lines = types.iter().flat_map(|(name, keys)| keys.iter().map(move |key| (name, key)));
    lines.map(|(name, key)| format!("{name}{key}\n")).collect()
}

/// The keys of a part of a schema without the types that it refers to.
fn keys_of(part: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    if !part.is_object() {
        return lines;
    }
    for below in ["anyOf", "oneOf", "prefixItems"].iter().flat_map(|key| part[*key].as_array()) {
        lines.extend(below.iter().flat_map(keys_of));
    }
    lines.extend(["items", "additionalProperties"].iter().flat_map(|key| keys_of(&part[*key])));
    let required = part["required"].as_array().cloned().unwrap_or_default();
    for (key, below) in part["properties"].as_object().into_iter().flatten() {
        let absent = if required.iter().any(|one| one == key) { "" } else { "?" };
        lines.push(format!(".{key}{absent}: {}", type_of(below)));
        lines.extend(keys_of(below).iter().map(|line| format!(".{key}{line}")));
    }
    lines
}

/// The type of a key in a word or a few.
fn type_of(part: &Value) -> String {
    if let Some(name) = part["$ref"].as_str() {
        return name.trim_start_matches("#/$defs/").to_owned();
    }
    let texts = |values: &Value| {
        let texts = values.as_array().into_iter().flatten().map(Value::to_string);
        texts.collect::<Vec<_>>().join("|").replace('"', "")
    };
    if let Some(choices) = ["anyOf", "oneOf"].iter().find_map(|key| part[*key].as_array()) {
        let all: BTreeSet<String> = choices.iter().map(type_of).collect();
        return all.into_iter().collect::<Vec<_>>().join("|");
    }
    match part {
        _ if part["const"].is_string() => part["const"].as_str().unwrap().to_owned(),
        _ if part["enum"].is_array() => texts(&part["enum"]),
        _ if part["items"].is_object() => format!("[{}]", type_of(&part["items"])),
        _ if part["type"].is_array() => texts(&part["type"]),
        _ => part["type"].as_str().unwrap_or("any").to_owned(),
    }
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
            // The result of a host has the keys of any other.
            if at.ends_with("/hosts/file") {
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
