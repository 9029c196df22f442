//! The workload language: from text to steps.

mod compile;
mod define;
mod error;
mod flowops;
mod lex;
mod parse;
mod random;
pub(crate) mod syntax;
mod values;
mod words;

#[cfg(test)]
mod tests;

pub use compile::DEFAULT_RUN_S;
pub use error::ScriptError;
pub(crate) use flowops::MOST_FDS;

use crate::model::{Plan, Step};
use error::Fault;
use std::collections::BTreeMap;
use std::sync::Arc;
use syntax::{At, Command};
use values::Value;

/// A script that has been read.
#[derive(Debug, Clone)]
pub struct Script {
    name: String,
    text: String,
    commands: Vec<At<Command>>,
}

/// A script with its variables set: what to do.
#[derive(Debug, Clone)]
pub struct Program {
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// All variables at the end of the script, as text.
    pub variables: BTreeMap<String, String>,
    /// What is defined at the end of the script.
    pub plan: Arc<Plan>,
}

impl Program {
    /// The same program, with a run at its end if it has processes and never starts them: scripts that ship without
    /// `run` leave it to whoever uses them.
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
    /// Reads a script; `name` is for messages.
    ///
    /// # Errors
    /// If the text is not in the language, with the place.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScriptError> {
        let commands = parse::parse(text).map_err(|fault| fault.in_script(name, text))?;
        Ok(Self { name: name.to_owned(), text: text.to_owned(), commands })
    }

    /// Sets variables and resolves everything. `overrides` win over what the script sets.
    ///
    /// # Errors
    /// If a name is not known, a value is out of range, or an override names a variable that the script does not have.
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

    /// Whether the script sets this variable or uses it.
    #[must_use]
    pub fn mentions(&self, variable: &str) -> bool {
        let names = lex::tokens(&self.text).unwrap_or_default();
        names.iter().any(|token| match &token.kind {
            lex::Kind::Variable(name) => name == variable,
            lex::Kind::Quoted(pieces) => pieces
                .iter()
                .any(|piece| matches!(piece, lex::Piece::Variable(name) if name == variable)),
            _ => false,
        })
    }

    /// A fault at a byte of this script as an error with line and column.
    #[must_use]
    pub fn error_at(&self, at: usize, message: &str) -> ScriptError {
        Fault::new(at, message).in_script(&self.name, &self.text)
    }

    /// The value of `-D name=text`, in the language's own spelling.
    fn override_value(&self, name: &str, text: &str) -> Result<Value, ScriptError> {
        let place = format!("-D {name}");
        let line = format!("set ${name}={text}");
        let is_path_like = || Value::Text(text.to_owned());
        let parsed =
            parse::parse(&line).and_then(|commands| compile::compile(&commands, &BTreeMap::new()));
        match parsed {
            Ok(compiled) => Ok(compiled.globals.get(name).cloned().unwrap_or_else(is_path_like)),
            // Anything that is no value of the language, such as a path with a space, is a text.
            Err(_) if !text.contains('(') && !text.contains('{') => Ok(is_path_like()),
            Err(fault) => Err(fault.in_script(&place, &line)),
        }
    }
}
