//! The reasons why a run of a Filebench script is refused or fails.

use gemelo_base::Classified;
use gemelo_base::ShowPath as _;
use gemelo_filebench::sources::SourceError;
use gemelo_filebench::{ScriptError, WorkloadError};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The reason why a run of a script is refused, or failed.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum FilebenchJobError {
    /// The script has a fault.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The data source of the options is invalid.
    #[error("--source")]
    Source(#[from] SourceError),
    /// The directory of the options is invalid.
    #[error("--dir")]
    Dir(#[source] io::Error),
    /// Several hosts would run in one directory.
    #[error(
        "all hosts would run in one directory: give --dir with {{host}} or {{index}}, or use \
         --own-targets"
    )]
    CommonDir,
    /// The script has no variable of a name that the options define.
    #[error("-D {name}: {} has no variable ${name}", script.shown())]
    NoVariable {
        /// Name of the variable.
        name: String,
        /// Path of the script.
        script: PathBuf,
    },
    /// The script has nothing to run.
    #[error(
        "{} has nothing to run: it defines no process and has no command",
        script.shown()
    )]
    NothingToDo {
        /// Path of the script.
        script: PathBuf,
    },
    /// The name of a sweep is neither a variable nor an attribute.
    #[error(
        "--sweep {name}: the script has no variable ${name} and no data source with that \
         attribute; add --source entro, for example"
    )]
    NothingToSweep {
        /// Name of the sweep.
        name: String,
    },
    /// A run is refused. Nothing was touched.
    #[kind(source, untouched)]
    #[error(transparent)]
    Refused(WorkloadError),
    /// A run failed. Its earlier measurements are kept.
    #[kind(source, midway)]
    #[error("the run failed; earlier measurements are kept")]
    Run(#[source] WorkloadError),
}
