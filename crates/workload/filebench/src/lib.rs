//! The workload language of Filebench and its file operations. Scripts are parsed, checked, and run
//! with threads on real files. This crate prints nothing; output lines go to a [`Console`].
//!
//! - [`Script`] and [`Program`] are the language. Errors point into the script.
//! - [`model`] has the resolved content of a script.
//! - [`sources`] makes the data written into files. Each source is one module and one registration.
//! - [`run`] has the files, the threads and the statistics.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod chance;
mod flowop;
pub mod model;
pub mod run;
mod script;
pub mod sources;

pub use chance::{Law, RandomVariable, TableRow};
pub use flowop::{Direction, Kind};
pub use run::{
    Console, Options, Outcome, WorkloadError, WorkloadPart, WorkloadResult, execute, merge,
};
pub use script::syntax::QuitMode;
pub use script::{DEFAULT_RUN_S, Program, Script, ScriptError};
