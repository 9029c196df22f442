//! Reading the keys of a TOML table, with the line of every fault.
//!
//! A [`Keys`] remembers the names that were asked for. [`Keys::finish`] refuses all others, so the
//! code that reads a table is the only list of its keys.

use super::PlanError;
use super::scope::Scope;
use gemelo_base::values::Size;
use gemelo_job::nearest::nearest;
use std::cell::RefCell;
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A scalar value as text, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// A key with a name of the user's own: the name, its line and its values.
pub(crate) type NamedTexts = (String, usize, Vec<Text>);

/// A value of a table.
struct KeyEntry<'a> {
    name: &'a str,
    line: usize,
    value: &'a Spanned<DeValue<'a>>,
}

/// A table that is being read.
pub(crate) struct Keys<'a> {
    /// Name of the table in messages, such as `[campaign]`.
    place: String,
    /// Line on which the table begins.
    line: usize,
    source: &'a str,
    scope: Scope,
    entries: Vec<KeyEntry<'a>>,
    asked: RefCell<Vec<&'static str>>,
}

/// Returns the line of a byte of a text, from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

impl<'a> Keys<'a> {
    pub(crate) fn new(
        place: impl Into<String>,
        source: &'a str,
        table: &'a Spanned<DeTable<'a>>,
        scope: &Scope,
    ) -> Self {
        let line = line_of(source, table.span().start);
        Self::of_table(place.into(), source, line, table.get_ref(), scope)
    }

    fn of_table(
        place: String,
        source: &'a str,
        line: usize,
        table: &'a DeTable<'a>,
        scope: &Scope,
    ) -> Self {
        let mut ordered: Vec<_> = table.iter().collect();
        ordered.sort_by_key(|(name, _)| name.span().start);
        let entries = ordered.into_iter().map(|(name, value)| KeyEntry {
            name: name.get_ref().as_ref(),
            line: line_of(source, name.span().start),
            value,
        });
        let entries = entries.collect();
        Self { place, line, source, scope: scope.clone(), entries, asked: RefCell::default() }
    }

    /// Returns the same table, whose texts use the names of another scope.
    pub(crate) fn in_scope(&self, scope: Scope) -> Keys<'a> {
        let entries = self.entries.iter();
        let entries = entries.map(|entry| KeyEntry {
            name: entry.name,
            line: entry.line,
            value: entry.value,
        });
        Keys {
            place: self.place.clone(),
            line: self.line,
            source: self.source,
            scope,
            entries: entries.collect(),
            asked: RefCell::default(),
        }
    }

    pub(crate) const fn scope(&self) -> &Scope {
        &self.scope
    }

    fn find(&self, name: &'static str) -> Option<&KeyEntry<'a>> {
        self.asked.borrow_mut().push(name);
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Returns whether the table has the key, which counts as known then.
    pub(crate) fn has(&self, name: &'static str) -> bool {
        self.find(name).is_some()
    }

    /// Makes an error about the value of a key, or about the table if it lacks the key.
    pub(crate) fn wrong(&self, name: &str, message: impl std::fmt::Display) -> PlanError {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        let line = entry.map_or(self.line, |entry| entry.line);
        PlanError::Value { line, message: format!("{} '{name}': {message}", self.place) }
    }

    fn scalar(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<Text, PlanError> {
        let line = line_of(self.source, value.span().start);
        let text = match value.get_ref() {
            DeValue::String(text) => self.scope.fill(text, line)?,
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(yes) => yes.to_string(),
            _ => return Err(self.wrong(name, "takes a text, a number, true or false")),
        };
        Ok(Text { text, line })
    }

    /// Returns a value as text.
    pub(crate) fn text(&self, name: &'static str) -> Result<Option<String>, PlanError> {
        let Some(entry) = self.find(name) else { return Ok(None) };
        Ok(Some(self.scalar(name, entry.value)?.text))
    }

    /// Returns a value as text; the key must exist.
    pub(crate) fn required_text(&self, name: &'static str) -> Result<String, PlanError> {
        self.text(name)?.ok_or_else(|| PlanError::MissingKey {
            line: self.line,
            place: self.place.clone(),
            key: name.to_owned(),
        })
    }

    /// Returns a value that has a type of its own. `expected` describes valid values.
    pub(crate) fn parsed<T: FromStr>(
        &self,
        name: &'static str,
        expected: &str,
    ) -> Result<Option<T>, PlanError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let wrong = || self.wrong(name, format_args!("'{text}' is not {expected}"));
        text.parse().map(Some).map_err(|_| wrong())
    }

    /// Returns a size in bytes, which is not 0.
    pub(crate) fn size(&self, name: &'static str) -> Result<Option<u64>, PlanError> {
        match self.parsed::<Size>(name, "a size, such as 4g")? {
            Some(Size(0)) => Err(self.wrong(name, "must be above 0")),
            size => Ok(size.map(|size| size.0)),
        }
    }

    /// Returns `true` or `false`; `false` without the key.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, PlanError> {
        Ok(self.parsed(name, "true or false")?.unwrap_or(false))
    }

    /// Returns the texts of an array, or of one text.
    pub(crate) fn texts(&self, name: &'static str) -> Result<Vec<String>, PlanError> {
        let Some(entry) = self.find(name) else { return Ok(Vec::new()) };
        Ok(self.list_of(name, entry.value)?.into_iter().map(|value| value.text).collect())
    }

    fn list_of(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<Text>, PlanError> {
        match value.get_ref() {
            DeValue::Array(values) => values.iter().map(|one| self.scalar(name, one)).collect(),
            _ => Ok(vec![self.scalar(name, value)?]),
        }
    }

    /// Returns the keys of a table that have a name of the user's own, in the order of the plan,
    /// with the values of each.
    pub(crate) fn all_texts(&self) -> Result<Vec<NamedTexts>, PlanError> {
        self.texts_where(|_| true)
    }

    /// Returns the keys that nobody has asked for, as [`Keys::all_texts`] does.
    pub(crate) fn other_texts(&self) -> Result<Vec<NamedTexts>, PlanError> {
        let asked = self.asked.borrow();
        self.texts_where(|name| !asked.contains(&name))
    }

    fn texts_where(&self, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<NamedTexts>, PlanError> {
        let texts = |entry: &KeyEntry<'_>| {
            Ok((entry.name.to_owned(), entry.line, self.list_of(entry.name, entry.value)?))
        };
        self.entries.iter().filter(|entry| is_wanted(entry.name)).map(texts).collect()
    }

    /// Returns the byte range of the value of a key in the text of the plan.
    pub(crate) fn value_range(&self, name: &str) -> Option<std::ops::Range<usize>> {
        let entry = self.entries.iter().find(|entry| entry.name == name)?;
        Some(entry.value.span())
    }

    fn below(&self, name: &str) -> String {
        format!("{} '{name}'", self.place)
    }

    /// Returns a table within this one.
    pub(crate) fn table(&self, name: &'static str) -> Result<Option<Keys<'a>>, PlanError> {
        let Some(entry) = self.find(name) else { return Ok(None) };
        let DeValue::Table(table) = entry.value.get_ref() else {
            return Err(self.wrong(name, "must be a table"));
        };
        let place = self.below(name);
        Ok(Some(Keys::of_table(place, self.source, entry.line, table, &self.scope)))
    }

    /// Returns a table within this one; the key must exist.
    pub(crate) fn required_table(&self, name: &'static str) -> Result<Keys<'a>, PlanError> {
        self.table(name)?.ok_or_else(|| self.wrong(name, "must be a table"))
    }

    /// Returns the one of these keys that the table has, with its reader.
    pub(crate) fn one_of<Read: Copy>(
        &self,
        kinds: &[(&'static str, Read)],
    ) -> Result<(&'static str, Read), PlanError> {
        let given: Vec<_> = kinds.iter().copied().filter(|(kind, _)| self.has(kind)).collect();
        match given.as_slice() {
            [one] => return Ok(*one),
            // The key of the kind may have been misspelt.
            [] => self.finish_if_near()?,
            _ => {}
        }
        let known: Vec<_> = kinds.iter().map(|(kind, _)| *kind).collect();
        let wrong = given.get(1).map_or("name", |(kind, _)| kind);
        let known = known.join(", ");
        Err(self.wrong(wrong, format_args!("exactly one of the keys {known} is needed")))
    }

    /// Returns the tables of an array. `each` names one of them in messages.
    pub(crate) fn tables(
        &self,
        name: &'static str,
        each: &str,
    ) -> Result<Vec<Keys<'a>>, PlanError> {
        let Some(entry) = self.find(name) else { return Ok(Vec::new()) };
        let DeValue::Array(values) = entry.value.get_ref() else {
            return Err(self.wrong(name, format_args!("must be a list of tables: write {each}")));
        };
        let tables = values.iter().map(|value| match value.get_ref() {
            DeValue::Table(table) => {
                let line = line_of(self.source, value.span().start);
                Ok(Keys::of_table(each.to_owned(), self.source, line, table, &self.scope))
            }
            _ => Err(self.wrong(name, format_args!("must be a list of tables: write {each}"))),
        });
        tables.collect()
    }

    /// Returns whether the value of a key is a table.
    pub(crate) fn is_table(&self, name: &'static str) -> bool {
        self.find(name).is_some_and(|entry| matches!(entry.value.get_ref(), DeValue::Table(_)))
    }

    /// Refuses the keys that nobody has asked for.
    pub(crate) fn finish(&self) -> Result<(), PlanError> {
        self.unknown().next().map_or(Ok(()), Err)
    }

    /// Refuses a key that nobody has asked for if it resembles one that was asked for.
    pub(crate) fn finish_if_near(&self) -> Result<(), PlanError> {
        let is_near =
            |error: &PlanError| matches!(error, PlanError::UnknownKey { nearest: Some(_), .. });
        self.unknown().find(is_near).map_or(Ok(()), Err)
    }

    /// Returns an error for each key that nobody has asked for.
    fn unknown(&self) -> impl Iterator<Item = PlanError> {
        let asked = self.asked.borrow().clone();
        let known = asked.clone();
        let unknown = self.entries.iter().filter(move |entry| !known.contains(&entry.name));
        unknown.map(move |entry| PlanError::UnknownKey {
            line: entry.line,
            place: self.place.clone(),
            key: entry.name.to_owned(),
            nearest: nearest(entry.name, asked.iter().copied()),
        })
    }
}
