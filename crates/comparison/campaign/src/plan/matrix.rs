//! Matrices: one table of a plan stands for every combination of listed values.

use super::PlanError;
use super::keys::Keys;
use super::parameters::{Sets, check_name};
use super::scope::Scope;

/// Most combinations of one matrix. It bounds the cost of a wrong plan.
const MAX_COMBINATIONS: usize = 10_000;

/// One combination: the names with their values, in the order of the plan.
pub(super) type Combination = Vec<(String, String)>;

/// Returns the combinations of the key `matrix`; one without names if the table has no matrix. The
/// last name varies fastest.
pub(super) fn combinations(keys: &Keys<'_>, sets: &Sets) -> Result<Vec<Combination>, PlanError> {
    let mut all = vec![Combination::new()];
    let Some(matrix) = keys.table("matrix")? else { return Ok(all) };
    for (name, line, values) in matrix.all_texts()? {
        check_name(&name, line)?;
        let values: Vec<String> = match values.as_slice() {
            [one] if sets.contains_key(&one.text) => {
                sets.get(&one.text).cloned().unwrap_or_default()
            }
            several => several.iter().map(|value| value.text.clone()).collect(),
        };
        if all.len().saturating_mul(values.len()) > MAX_COMBINATIONS {
            return Err(PlanError::TooMany { most: MAX_COMBINATIONS, what: "combinations" });
        }
        let extend = |combination: &Combination| -> Vec<Combination> {
            let with = |value: &String| {
                let mut longer = combination.clone();
                longer.push((name.clone(), value.clone()));
                longer
            };
            values.iter().map(with).collect()
        };
        all = all.iter().flat_map(extend).collect();
    }
    Ok(all)
}

/// Returns a scope with the values of a combination.
pub(super) fn scope_of(scope: &Scope, combination: &Combination) -> Scope {
    combination.iter().fold(scope.clone(), |scope, (name, value)| scope.with(name, value))
}
