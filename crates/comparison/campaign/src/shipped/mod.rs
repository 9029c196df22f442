//! The plans that ship with the program.

use crate::plan::{Plan, PlanError, SetValue};
use gemelo_base::ShowPath as _;
use std::path::Path;
use std::time::Duration;

/// Name and text of each plan.
const PLANS: [(&str, &str); 8] = [
    ("quick", include_str!("../../../../../plans/quick.toml")),
    ("peers", include_str!("../../../../../plans/peers.toml")),
    ("compression", include_str!("../../../../../plans/compression.toml")),
    ("dedisbench-2012", include_str!("../../../../../plans/dedisbench-2012.toml")),
    ("entropy-2010", include_str!("../../../../../plans/entropy-2010.toml")),
    ("dmdedup-2014", include_str!("../../../../../plans/dmdedup-2014.toml")),
    ("dedis-2016", include_str!("../../../../../plans/dedis-2016.toml")),
    ("vm-pool-2017", include_str!("../../../../../plans/vm-pool-2017.toml")),
];

/// A plan that ships, for the list.
#[derive(Debug)]
pub struct ShippedPlan {
    /// Name, as `campaign run` takes it.
    pub name: &'static str,
    /// Title of the report.
    pub title: String,
    /// `true` if parts of it need root.
    pub needs_root: bool,
    /// The time of the runs of known length on this machine, with the parameters of the plan.
    pub known_time: Duration,
    /// Number of runs of unknown length.
    pub unknown_runs: usize,
    /// The free space that it needs.
    pub space_bytes: Option<u64>,
}

/// Returns all plans that ship.
///
/// # Errors
/// Fails if a plan is wrong, which the tests exclude.
pub fn shipped() -> Result<Vec<ShippedPlan>, PlanError> {
    let one = |(name, text): (&'static str, &str)| {
        let plan = Plan::read(text, Path::new("."), &[])?;
        let outlook = plan.outlook();
        Ok(ShippedPlan {
            name,
            title: outlook.title,
            needs_root: plan.settings.needs_root,
            known_time: outlook.known_time,
            unknown_runs: outlook.unknown_runs,
            space_bytes: outlook.space_bytes,
        })
    };
    PLANS.into_iter().map(one).collect()
}

impl Plan {
    /// Reads a plan that ships, by its name, or the plan in a file.
    ///
    /// # Errors
    /// Fails if there is no such plan, or with the first fault of the plan and its line.
    pub fn open(name: &Path, set: &[SetValue]) -> Result<Self, PlanError> {
        let shipped = PLANS.iter().find(|(known, _)| Path::new(known) == name);
        if let Some((_, text)) = shipped {
            return Self::read(text, Path::new("."), set);
        }
        let text = match std::fs::read_to_string(name) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(PlanError::NoSuchPlan {
                    name: name.shown().to_string(),
                    known: PLANS.map(|(known, _)| known).join(", "),
                });
            }
            Err(source) => return Err(PlanError::Read { path: name.to_owned(), source }),
        };
        let base = name.parent().filter(|parent| !parent.as_os_str().is_empty());
        let base = base.unwrap_or(Path::new("."));
        let base = std::path::absolute(base).unwrap_or_else(|_| base.to_owned());
        Self::read(&text, &base, set)
    }
}

#[cfg(test)]
mod tests;
