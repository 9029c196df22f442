//! The kinds of results: their names, and the types from which their schemas are made.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};
use std::marker::PhantomData;

/// A kind of result, whose files are of the type `File`.
pub(crate) struct Kind<File> {
    schema: &'static str,
    title: &'static str,
    file: PhantomData<fn() -> File>,
}

impl<File> Kind<File> {
    /// Returns the kind whose files name this schema, such as `gemelo.scan/1`.
    pub(crate) const fn new(schema: &'static str, title: &'static str) -> Self {
        Self { schema, title, file: PhantomData }
    }

    /// Returns the name and the version of the layout.
    pub(crate) const fn schema(&self) -> &'static str {
        self.schema
    }
}

impl<File: JsonSchema> Kind<File> {
    /// Returns the description of the kind, without its types.
    pub(crate) const fn described(&self) -> Described {
        let generate = || {
            let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
            generator.into_root_schema_for::<File>()
        };
        Described { schema: self.schema, title: self.title, generate }
    }
}

/// The description of a kind.
#[derive(Debug)]
pub(crate) struct Described {
    /// The name and the version of the layout, such as `gemelo.scan/1`.
    pub(crate) schema: &'static str,
    /// The commands that write the result, or the place of its file.
    pub(crate) title: &'static str,
    generate: fn() -> Schema,
}

impl Described {
    /// Returns the name without its namespace and version: that of `gemelo.scan/1` is `scan`.
    pub(crate) fn name(&self) -> &'static str {
        let name = self.schema.strip_prefix("gemelo.").unwrap_or(self.schema);
        name.split_once('/').map_or(name, |(name, _)| name)
    }

    /// Returns the JSON Schema of the files. It refuses keys that it does not know, so that a new
    /// key comes with a new schema.
    pub(crate) fn json_schema(&self) -> Schema {
        let mut schema = (self.generate)();
        RecursiveTransform(adjust).transform(&mut schema);
        schema.insert("title".to_owned(), self.title.into());
        let kind = json!({
            "description": "The kind of the result, and the version of its layout.",
            "const": self.schema,
        });
        if let Some(known) = schema.pointer_mut("/properties/schema") {
            *known = kind.clone();
        }
        // The result of a host lies in that of all hosts.
        let definitions = schema.get_mut("$defs").and_then(Value::as_object_mut);
        for (_, below) in definitions.into_iter().flatten() {
            if below.pointer("/properties/provenance").is_some()
                && let Some(known) = below.pointer_mut("/properties/schema")
            {
                *known = kind.clone();
            }
        }
        schema
    }
}

/// Refuses unknown keys, and turns the text of documentation into that of a schema.
fn adjust(schema: &mut Schema) {
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
        schema.insert("additionalProperties".to_owned(), false.into());
    }
    // Defaults are for reading; results have all keys that are required.
    schema.remove("default");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        let lines = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
        let plain = lines.collect::<Vec<_>>().join("\n\n");
        *text = plain.replace("[`", "`").replace("`]", "`").replace("`None`", "`null`");
    }
}
