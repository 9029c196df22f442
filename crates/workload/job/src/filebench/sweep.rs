//! The names that a sweep of a Filebench script may have.

use super::error::FilebenchJobError;
use crate::Sweep;
use gemelo_filebench::sources::find;
use gemelo_filebench::{Options, Program};

impl Sweep {
    /// Refuses a name that is not an attribute of a data source of the program.
    pub(super) fn check_sources(
        &self,
        program: &Program,
        options: &Options,
    ) -> Result<(), FilebenchJobError> {
        let has = |name: &str| {
            find(name).is_some_and(|source| {
                source.attributes.iter().any(|(attribute, _)| *attribute == self.name)
            })
        };
        let own = program.plan.filesets.iter().filter_map(|fileset| fileset.source.as_ref());
        if own.chain(options.source.as_ref()).any(|source| has(&source.name)) {
            return Ok(());
        }
        Err(FilebenchJobError::NothingToSweep { name: self.name.clone() })
    }
}
