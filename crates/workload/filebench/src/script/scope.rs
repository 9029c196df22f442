//! Evaluates expressions: variables, arithmetic and random variables.

use super::attributes::{Attributes, Evaluate};
use super::error::Fault;
use super::lex::Piece;
use super::parse::Parsed;
use super::random::{custom_variable, random_variable};
use super::syntax::{At, Expression, Template};
use super::values::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

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

    /// Returns a text that is only shown. A variable without a value keeps its name, because no
    /// figure depends on it.
    pub(crate) fn shown_text(&self, template: &Template) -> String {
        let mut text = String::new();
        for piece in template {
            match piece {
                Piece::Text(part) => text.push_str(part),
                Piece::Variable(name) => match self.locals.get(name).or(self.globals.get(name)) {
                    Some(value) => text.push_str(&value.to_text()),
                    None => text.extend(["$", name]),
                },
            }
        }
        text
    }
}

impl Evaluate for Scope<'_> {
    fn value(&self, expression: &At<Expression>) -> Parsed<Value> {
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
