//! Names in braces and their values: the parameters of a plan, and the values of a matrix.

use super::PlanError;
use gemelo_job::nearest::nearest;
use std::collections::BTreeMap;

/// The names that a text may use in braces, and their values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    values: BTreeMap<String, String>,
    /// `true` if texts stay as they are.
    is_literal: bool,
}

impl Scope {
    /// Returns a scope that leaves all texts as they are.
    pub(crate) fn literal() -> Self {
        Self { is_literal: true, ..Self::default() }
    }

    /// Returns this scope with a further name. It hides an equal one.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut values = self.values.clone();
        values.insert(name.to_owned(), value.to_owned());
        Self { values, is_literal: self.is_literal }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Replaces every `{name}` by its value, and `{{` and `}}` by single braces. Braces around
    /// other texts, and those of the shell's `${name}`, stay.
    pub(crate) fn fill(&self, text: &str, line: usize) -> Result<String, PlanError> {
        if self.is_literal {
            return Ok(text.to_owned());
        }
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            filled.push_str(before);
            let is_of_shell = before.ends_with('$');
            if let Some(after) = from.strip_prefix("{{") {
                filled.push('{');
                rest = after;
            } else if let Some(after) = from.strip_prefix("}}") {
                filled.push('}');
                rest = after;
            } else if let Some(name) = name_in_braces(from).filter(|_| !is_of_shell) {
                filled.push_str(self.value_of(name, line)?);
                rest = from.get(name.len() + 2..).unwrap_or_default();
            } else {
                let (brace, after) = from.split_at(1);
                filled.push_str(brace);
                rest = after;
            }
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn value_of(&self, name: &str, line: usize) -> Result<&str, PlanError> {
        self.get(name).ok_or_else(|| PlanError::UnknownParameter {
            line,
            name: name.to_owned(),
            nearest: nearest(name, self.values.keys().map(String::as_str)),
        })
    }
}

/// Returns the name of a text that begins with a name in braces.
fn name_in_braces(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('{')?.split_once('}')?;
    is_name(name).then_some(name)
}

/// Returns whether a text can name a parameter: lower-case letters, digits and hyphens, with a
/// letter first.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_lowercase())
        && text
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_braces_are_replaced_and_the_shell_keeps_its_own() {
        let scope = Scope::default().with("mode", "inline").with("size-each", "4g");
        let fill = |text| scope.fill(text, 1).unwrap();
        assert_eq!(fill("v-{mode} of {size-each}"), "v-inline of 4g");
        assert_eq!(
            fill("awk '{print $1}' ${mode} {{mode}} {} }{"),
            "awk '{print $1}' ${mode} {mode} {} }{"
        );
    }

    #[test]
    fn an_unknown_name_is_an_error_with_the_similar_one() {
        let error = Scope::default().with("mode", "x").fill("{mod}", 7).unwrap_err().to_string();
        assert!(
            error.starts_with("line 7: '{mod}' is not a parameter, a similar one is 'mode'"),
            "{error}"
        );
    }
}
