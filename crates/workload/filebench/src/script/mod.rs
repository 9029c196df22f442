//! The workload language: compiles text to steps.

mod attributes;
mod compile;
mod define;
mod definitions;
mod error;
mod flowops;
mod lex;
mod parse;
mod random;
mod scope;
pub(crate) mod syntax;
mod values;
mod words;

#[cfg(test)]
mod tests;

pub use compile::DEFAULT_RUN_S;
pub use error::ScriptError;
pub(crate) use flowops::{MAX_FDS, MAX_IO_BYTES};

use crate::model::{Step, WorkloadPlan};
use error::Fault;
use std::collections::BTreeMap;
use std::sync::Arc;
use syntax::{At, Command};
use values::Value;

/// A script that was parsed, with its commands in order.
#[derive(Debug, Clone)]
pub struct Script {
    name: String,
    text: String,
    commands: Vec<At<Command>>,
}

/// A compiled script, with the values of its variables.
#[derive(Debug, Clone)]
pub struct Program {
    /// Steps in order.
    pub steps: Vec<Step>,
    /// All variables at the end of the script, as text.
    pub variables: BTreeMap<String, String>,
    /// Definitions at the end of the script.
    pub plan: Arc<WorkloadPlan>,
}

impl Program {
    /// Appends a run if the program has processes and never starts them. Published scripts without
    /// `run` leave it to the user.
    #[must_use]
    pub fn with_run(mut self) -> Self {
        let starts = |step: &Step| {
            matches!(step, Step::Run(..) | Step::PeriodicRun { .. } | Step::CreateProcesses(_))
        };
        if !self.steps.iter().any(starts) && !self.plan.processes.is_empty() {
            let seconds =
                if self.plan.quit_mode == syntax::QuitMode::Timeout { DEFAULT_RUN_S } else { 0.0 };
            self.steps.retain(|step| *step != Step::Quit);
            self.steps.push(Step::Run(Arc::clone(&self.plan), seconds));
        }
        self
    }
}

impl Script {
    /// Parses a script; `name` is for messages.
    ///
    /// # Errors
    /// Fails if the text is not in the language. The error has the position.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScriptError> {
        let commands = parse::parse(text).map_err(|fault| fault.in_script(name, text))?;
        Ok(Self { name: name.to_owned(), text: text.to_owned(), commands })
    }

    /// Sets variables and resolves all names. `overrides` take precedence over `set` in the script.
    ///
    /// # Errors
    /// Fails if a name is unknown, a value is outside its range, or an override is not a value of
    /// the language.
    pub fn compile(&self, overrides: &[(String, String)]) -> Result<Program, ScriptError> {
        let mut values = BTreeMap::new();
        for (name, text) in overrides {
            values.insert(name.clone(), self.override_value(name, text)?);
        }
        let compiled = compile::compile(&self.commands, &values)
            .map_err(|fault| fault.in_script(&self.name, &self.text))?;
        Ok(Program {
            steps: compiled.steps,
            variables: compiled
                .globals
                .iter()
                .map(|(name, value)| (name.clone(), value.to_text()))
                .collect(),
            plan: compiled.plan,
        })
    }

    /// Returns whether the script sets or uses this variable.
    #[must_use]
    pub fn mentions(&self, variable: &str) -> bool {
        let names = lex::tokens(&self.text).unwrap_or_default();
        names.iter().any(|token| match &token.kind {
            lex::TokenKind::Variable(name) => name == variable,
            lex::TokenKind::Quoted(pieces) => pieces
                .iter()
                .any(|piece| matches!(piece, lex::Piece::Variable(name) if name == variable)),
            _ => false,
        })
    }

    /// Converts a fault at a byte of this script to an error with line and column.
    #[must_use]
    pub fn error_at(&self, at: usize, message: &str) -> ScriptError {
        Fault::new(at, message).in_script(&self.name, &self.text)
    }

    /// Parses the value of `-D name=text`, in the spelling of the language.
    fn override_value(&self, name: &str, text: &str) -> Result<Value, ScriptError> {
        let place = format!("-D {name}");
        let line = format!("set ${name}={text}");
        let is_path_like = || Value::Text(text.to_owned());
        let parsed =
            parse::parse(&line).and_then(|commands| compile::compile(&commands, &BTreeMap::new()));
        match parsed {
            Ok(compiled) => Ok(compiled.globals.get(name).cloned().unwrap_or_else(is_path_like)),
            // Text that is not a value of the language, such as a path with a space, is taken
            // literally.
            Err(_) if !text.contains('(') && !text.contains('{') => Ok(is_path_like()),
            Err(fault) => Err(fault.in_script(&place, &line)),
        }
    }
}
