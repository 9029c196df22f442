//! The file of the settings: one for a line, and a table for each volume that has settings of its
//! own.

use super::{Settings, Values, setting};
use std::fmt::Write as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The key of the tables of volumes.
const VOLUME: &str = "volume";

/// The first line of the file.
const HEADER: &str = "# 'gemelo pool set' and 'gemelo volume set' write this file.\n";

/// An error and its place in the text.
type Misplaced = (String, usize);

/// Parses the file. An error names the line.
pub(super) fn parse(text: &str) -> Result<Settings, String> {
    let line_of = |at: usize| text.get(..at).unwrap_or(text).matches('\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let line = line_of(error.span().map_or(0, |span| span.start));
        format!("line {line}: {}", error.message().trim_end())
    })?;
    settings_of(table.get_ref()).map_err(|(message, at)| format!("line {}: {message}", line_of(at)))
}

fn settings_of(table: &DeTable<'_>) -> Result<Settings, Misplaced> {
    let mut settings = Settings::default();
    for (key, value) in table {
        if key.get_ref() != VOLUME {
            add(&mut settings.pool, (key.get_ref(), key.span().start), value, false)?;
            continue;
        }
        for (name, own) in table_of(value)? {
            let values = settings.volumes.entry(name.get_ref().to_string()).or_default();
            for (key, value) in table_of(own)? {
                add(values, (key.get_ref(), key.span().start), value, true)?;
            }
        }
    }
    Ok(settings)
}

fn table_of<'t, 'i>(value: &'t Spanned<DeValue<'i>>) -> Result<&'t DeTable<'i>, Misplaced> {
    match value.get_ref() {
        DeValue::Table(table) => Ok(table),
        _ => Err(("expected a table, such as [volume.web]".to_owned(), value.span().start)),
    }
}

fn add(
    values: &mut Values,
    (name, at): (&str, usize),
    value: &Spanned<DeValue<'_>>,
    is_of_volume: bool,
) -> Result<(), Misplaced> {
    let fits = |known: &&super::Setting| match is_of_volume {
        true => known.is_of_volumes() && !known.is_in_record(),
        false => known.is_of_pools(),
    };
    let Some(known) = setting(name).filter(fits) else {
        let of = if is_of_volume { "volume" } else { "pool" };
        return Err((format!("no setting of a {of} is called '{name}'"), at));
    };
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(is_on) => is_on.to_string(),
        _ => return Err((format!("{name}: expected a text or a number"), value.span().start)),
    };
    let parsed = known.kind.parse(&text);
    let parsed = parsed.map_err(|why| (format!("{name}: {why}"), value.span().start))?;
    values.set(known, Some(parsed));
    Ok(())
}

/// Returns the text of the file.
pub(super) fn text_of(settings: &Settings) -> String {
    let mut text = HEADER.to_owned();
    let add = |text: &mut String, values: &Values| {
        for (name, value) in values.all() {
            // Writing to a text does not fail.
            let _ = writeln!(text, "{name} = \"{value}\"");
        }
    };
    add(&mut text, &settings.pool);
    for (name, values) in settings.volumes.iter().filter(|(_, values)| !values.is_empty()) {
        // Names have no control characters, so nothing else needs an escape in a quoted key.
        let key = name.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(text, "\n[{VOLUME}.\"{key}\"]");
        add(&mut text, values);
    }
    text
}
