//! Attributes of definitions and flowops as numbers, texts or booleans.

use super::error::Fault;
use super::parse::Parsed;
use super::syntax::{At, Attribute, Expression};
use super::values::Value;
use crate::model::Quantity;

/// Evaluates expressions. Attributes use this trait because an expression can be a random variable,
/// which has attributes of its own.
pub(crate) trait Evaluate {
    /// Returns the value of an expression.
    fn value(&self, expression: &At<Expression>) -> Parsed<Value>;

    /// Returns the value of an expression that must be a number.
    fn number(&self, expression: &At<Expression>) -> Parsed<f64> {
        let value = self.value(expression)?;
        value.number().ok_or_else(|| {
            Fault::new(expression.at, format!("expected a number, found {}", value.to_text()))
        })
    }
}

/// The attributes of one definition or flowop.
pub(crate) struct Attributes<'a> {
    pub(crate) list: &'a [Attribute],
    pub(crate) scope: &'a dyn Evaluate,
    /// Position of the definition or flowop.
    pub(crate) at: usize,
}

impl<'a> Attributes<'a> {
    pub(crate) fn find(&self, name: &str) -> Option<&'a Attribute> {
        self.list.iter().find(|attribute| attribute.name == name)
    }

    /// Returns the value of an attribute. An attribute without a value is true.
    pub(crate) fn value(&self, name: &str) -> Parsed<Option<(Value, usize)>> {
        let Some(attribute) = self.find(name) else { return Ok(None) };
        match &attribute.value {
            Some(expression) => Ok(Some((self.scope.value(expression)?, expression.at))),
            None => Ok(Some((Value::Boolean(true), attribute.at))),
        }
    }

    pub(crate) fn text(&self, name: &str) -> Parsed<Option<String>> {
        match self.value(name)? {
            None => Ok(None),
            Some((value @ (Value::Text(_) | Value::Integer(_) | Value::Decimal(_)), _)) => {
                Ok(Some(value.to_text()))
            }
            Some((_, at)) => Err(Fault::new(at, format!("expected a name or a text for '{name}'"))),
        }
    }

    pub(crate) fn required_text(&self, name: &str, what: &str) -> Parsed<String> {
        let text = self
            .text(name)?
            .ok_or_else(|| Fault::new(self.at, format!("{what} needs {name}=...")))?;
        if text.is_empty() {
            return Err(Fault::new(self.at, format!("the {name} of {what} is empty")));
        }
        Ok(text)
    }

    pub(crate) fn quantity(&self, name: &str, default: f64) -> Parsed<Quantity> {
        Ok(match self.value(name)? {
            None => Quantity::Fixed(default),
            Some((Value::Drawn(variable), _)) => Quantity::Drawn(variable),
            Some((value, at)) => Quantity::Fixed(as_number(&value, at, name)?),
        })
    }

    /// Returns a number that must not be a random variable.
    pub(crate) fn number(&self, name: &str, default: f64) -> Parsed<f64> {
        match self.value(name)? {
            None => Ok(default),
            Some((Value::Drawn(_), at)) => {
                Err(Fault::new(at, format!("'{name}' cannot be a random variable")))
            }
            Some((value, at)) => as_number(&value, at, name),
        }
    }

    /// Returns a whole number of at least 0. A random variable gives its mean.
    pub(crate) fn count(&self, name: &str, default: u64) -> Parsed<u64> {
        match self.quantity(name, default as f64)? {
            Quantity::Fixed(value) => Ok(value as u64),
            Quantity::Drawn(variable) => Ok(variable.mean().round() as u64),
        }
    }

    pub(crate) fn boolean(&self, name: &str, default: bool) -> Parsed<bool> {
        match self.value(name)? {
            None => Ok(default),
            Some((Value::Boolean(value), _)) => Ok(value),
            Some((Value::Integer(number), _)) => Ok(number != 0),
            Some((value, at)) => Err(Fault::new(
                at,
                format!("expected true or false for '{name}', found '{}'", value.to_text()),
            )),
        }
    }
}

fn as_number(value: &Value, at: usize, name: &str) -> Parsed<f64> {
    match value.number() {
        Some(number) if number >= 0.0 || name == "nice" => Ok(number),
        Some(number) => Err(Fault::new(at, format!("'{name}' is {number}; it must be 0 or more"))),
        None => Err(Fault::new(
            at,
            format!("expected a number for '{name}', found '{}'", value.to_text()),
        )),
    }
}
