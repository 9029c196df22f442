//! The parameters and the sets of a plan, and the values that the user sets for them.
//!
//! A value that the user sets replaces that of the text, so that the text of a campaign's plan is
//! all that is needed to repeat the campaign.

use super::PlanError;
use super::keys::{Keys, NamedTexts, line_of};
use super::scope::{Scope, is_name};
use std::collections::BTreeMap;
use toml::de::DeTable;

/// Most values of a set, and most parameters of a plan. A plan is written by hand.
const MAX_VALUES: usize = 1000;

/// A name and its value, as `--set` takes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetValue {
    /// Name of a parameter or of a set.
    pub name: String,
    /// The value; the values of a set have commas between them.
    pub value: String,
}

impl std::str::FromStr for SetValue {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
        Ok(Self { name: name.trim().to_owned(), value: value.to_owned() })
    }
}

/// Lists of values by name, for the matrices of a plan.
pub(crate) type Sets = BTreeMap<String, Vec<String>>;

/// Parses TOML.
pub(super) fn document(text: &str) -> Result<toml::Spanned<DeTable<'_>>, PlanError> {
    DeTable::parse(text).map_err(|error| PlanError::Toml {
        line: line_of(text, error.span().map_or(0, |span| span.start)),
        message: error.message().to_owned(),
    })
}

/// Returns the text of a plan in which the values are set.
pub(super) fn with_values(text: &str, set: &[SetValue]) -> Result<String, PlanError> {
    set.iter().try_fold(text.to_owned(), |text, one| with_value(&text, one))
}

fn with_value(text: &str, set: &SetValue) -> Result<String, PlanError> {
    let document = document(text)?;
    let keys = Keys::new("the plan", text, &document, &Scope::default());
    let (parameters, sets) = (keys.table("parameters")?, keys.table("sets")?);
    let of = |table: &Option<Keys<'_>>| table.as_ref().and_then(|keys| keys.value_range(&set.name));
    let literal = |value: &str| toml::Value::String(value.to_owned()).to_string();
    let (range, value) = match (of(&parameters), of(&sets)) {
        (Some(range), _) => (range, literal(&set.value)),
        (None, Some(range)) => {
            let values: Vec<_> = set.value.split(',').map(|value| literal(value.trim())).collect();
            (range, format!("[{}]", values.join(", ")))
        }
        (None, None) => {
            let names = |keys: Keys<'_>| keys.in_scope(Scope::literal()).all_texts();
            let tables = [parameters, sets].into_iter().flatten();
            let known: Vec<_> = tables.map(names).collect::<Result<_, _>>()?;
            let known: Vec<_> = known.into_iter().flatten().map(|(name, ..)| name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(PlanError::NoSuchParameter { name: set.name.clone(), known });
        }
    };
    let mut changed = text.to_owned();
    changed.replace_range(range, &value);
    Ok(changed)
}

/// Reads `[parameters]`. A parameter may use those that precede it.
pub(super) fn scope(keys: Option<&Keys<'_>>) -> Result<Scope, PlanError> {
    let Some(keys) = keys else { return Ok(Scope::default()) };
    let all = raw_values(keys)?;
    let mut scope = Scope::default();
    for (name, line, values) in all {
        let [value] = values.as_slice() else {
            return Err(keys.wrong(&name, "takes one value; lists belong to [sets]"));
        };
        check_name(&name, line)?;
        let value = scope.fill(&value.text, value.line)?;
        scope = scope.with(&name, &value);
    }
    Ok(scope)
}

/// Reads the values of parameters without filling them in, because they may use one another.
fn raw_values(keys: &Keys<'_>) -> Result<Vec<NamedTexts>, PlanError> {
    let all = keys.in_scope(Scope::literal()).all_texts()?;
    if all.len() > MAX_VALUES {
        return Err(PlanError::TooMany { most: MAX_VALUES, what: "parameters" });
    }
    Ok(all)
}

/// Reads `[sets]`.
pub(super) fn sets(keys: Option<&Keys<'_>>) -> Result<Sets, PlanError> {
    let Some(keys) = keys else { return Ok(Sets::new()) };
    let mut sets = Sets::new();
    for (name, line, values) in keys.all_texts()? {
        check_name(&name, line)?;
        if values.len() > MAX_VALUES {
            return Err(PlanError::TooMany { most: MAX_VALUES, what: "values in a set" });
        }
        sets.insert(name, values.into_iter().map(|value| value.text).collect());
    }
    Ok(sets)
}

pub(super) fn check_name(name: &str, line: usize) -> Result<(), PlanError> {
    if is_name(name) {
        return Ok(());
    }
    let message = format!(
        "'{name}' is not a name: use lower-case letters, digits and hyphens, with a letter first"
    );
    Err(PlanError::Value { line, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[parameters]\nsize = '1g'\nhalf = '{size}/2'\n[sets]\nn = [1, 2]\n";

    fn set(text: &str) -> SetValue {
        text.parse().unwrap()
    }

    #[test]
    fn set_values_replace_those_of_the_text() {
        let text = with_values(TEXT, &[set("size=4g"), set("n=3,4,5")]).unwrap();
        assert_eq!(
            text,
            "[parameters]\nsize = \"4g\"\nhalf = '{size}/2'\n[sets]\nn = [\"3\", \"4\", \"5\"]\n"
        );
        let document = document(&text).unwrap();
        let keys = Keys::new("plan", &text, &document, &Scope::default());
        let scope = scope(keys.table("parameters").unwrap().as_ref()).unwrap();
        assert_eq!(scope.get("half"), Some("4g/2"));
        let sets = sets(keys.table("sets").unwrap().as_ref()).unwrap();
        assert_eq!(sets["n"], ["3", "4", "5"]);
    }

    #[test]
    fn a_parameter_that_does_not_exist_is_refused_with_the_list() {
        let error = with_values(TEXT, &[set("sizes=1")]).unwrap_err().to_string();
        assert_eq!(error, "the plan has no parameter 'sizes': it has size, half, n");
    }
}
