//! Evaluates expressions: variables, arithmetic, and attributes as numbers, texts or booleans.

use super::error::Fault;
use super::lex::Piece;
use super::parse::Parsed;
use super::random::{custom_variable, random_variable};
use super::syntax::{At, Attribute, Expression, Template};
use crate::chance::RandomVariable;
use crate::model::Quantity;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Integer(i64),
    Decimal(f64),
    Boolean(bool),
    Text(String),
    Drawn(Arc<RandomVariable>),
}

impl Value {
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Decimal(number) => number.to_string(),
            Self::Boolean(value) => value.to_string(),
            Self::Text(text) => text.clone(),
            Self::Drawn(_) => "a random variable".to_owned(),
        }
    }

    pub(crate) const fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Decimal(number) => Some(*number),
            _ => None,
        }
    }
}

/// The variables visible at a position: those of the script, and the local ones of a composite
/// flowop.
pub(crate) struct Scope<'a> {
    pub(crate) globals: &'a BTreeMap<String, Value>,
    pub(crate) locals: &'a BTreeMap<String, Value>,
}

impl Scope<'_> {
    fn variable(&self, name: &str, at: usize) -> Parsed<Value> {
        let found = self.locals.get(name).or_else(|| self.globals.get(name));
        found.cloned().ok_or_else(|| {
            let known = self.locals.keys().chain(self.globals.keys()).map(String::as_str);
            Fault::unknown(at, "variable (it must be set before its use)", name, known)
        })
    }

    pub(crate) fn value(&self, expression: &At<Expression>) -> Parsed<Value> {
        Ok(match &expression.value {
            Expression::Integer(number) => Value::Integer(*number),
            Expression::Decimal(number) => Value::Decimal(*number),
            Expression::Boolean(value) => Value::Boolean(*value),
            Expression::Text(template) => Value::Text(self.text(template, expression.at)?),
            Expression::Variable(name) => self.variable(name, expression.at)?,
            Expression::Arithmetic(sign, left, right) => {
                calculate(*sign, &self.value(left)?, &self.value(right)?, expression.at)?
            }
            Expression::RandomVariable(attributes) => {
                Value::Drawn(Arc::new(random_variable(&Attributes {
                    list: attributes,
                    scope: self,
                    at: expression.at,
                })?))
            }
            Expression::CustomVariable(attributes) => {
                Value::Drawn(Arc::new(custom_variable(&Attributes {
                    list: attributes,
                    scope: self,
                    at: expression.at,
                })?))
            }
            Expression::Table(_) => {
                let message = "a table is permitted only as the value of randtable";
                return Err(Fault::new(expression.at, message));
            }
        })
    }

    pub(crate) fn text(&self, template: &Template, at: usize) -> Parsed<String> {
        let mut text = String::new();
        for piece in template {
            match piece {
                Piece::Text(part) => text.push_str(part),
                Piece::Variable(name) => text.push_str(&self.variable(name, at)?.to_text()),
            }
        }
        Ok(text)
    }

    pub(crate) fn number(&self, expression: &At<Expression>) -> Parsed<f64> {
        let value = self.value(expression)?;
        value.number().ok_or_else(|| {
            Fault::new(expression.at, format!("expected a number, found {}", value.to_text()))
        })
    }
}

fn calculate(sign: char, left: &Value, right: &Value, at: usize) -> Parsed<Value> {
    if let (Value::Integer(left), Value::Integer(right)) = (left, right) {
        let result = match sign {
            '+' => left.checked_add(*right),
            '-' => left.checked_sub(*right),
            '*' => left.checked_mul(*right),
            _ => left.checked_div(*right),
        };
        return result
            .map(Value::Integer)
            .ok_or_else(|| Fault::new(at, "a division by 0, or a result of 2^63 or more"));
    }
    let (Some(left), Some(right)) = (left.number(), right.number()) else {
        return Err(Fault::new(
            at,
            "only numbers can be added, subtracted, multiplied and divided",
        ));
    };
    let result = match sign {
        '+' => left + right,
        '-' => left - right,
        '*' => left * right,
        _ => left / right,
    };
    if result.is_finite() {
        Ok(Value::Decimal(result))
    } else {
        Err(Fault::new(at, "a division by 0"))
    }
}

/// The attributes of one definition or flowop.
pub(crate) struct Attributes<'a> {
    pub(crate) list: &'a [Attribute],
    pub(crate) scope: &'a Scope<'a>,
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
