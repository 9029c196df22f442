//! The workload language of Filebench and its file operations: scripts are read, checked, and run with threads on
//! real files. Nothing is printed here; lines go to a [`Console`].
//!
//! - [`Script`] and [`Program`]: the language; errors point into the script.
//! - [`model`]: what a script describes.
//! - [`sources`]: what is written into files; one file of code and one registration each.
//! - [`run`]: the files, the threads, the statistics.

mod chance;
mod flowop;
pub mod model;
pub mod run;
mod script;
pub mod sources;

pub use chance::{Law, RandomVariable, TableRow};
pub use flowop::{Direction, Kind};
pub use run::{Console, Options, Outcome, RunError, RunResult, execute};
pub use script::syntax::QuitMode;
pub use script::{DEFAULT_RUN_S, Program, Script, ScriptError};
