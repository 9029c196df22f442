//! The values of variables, attributes and expressions.

use crate::chance::RandomVariable;
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
