//! Parses values: numbers, texts, variables, arithmetic, random variables and their tables.

use super::{DEEPEST_NESTING, Parsed, Parser};
use crate::script::error::Fault;
use crate::script::lex::{Piece, Token, TokenKind};
use crate::script::syntax::{At, Expression};
use crate::script::words;

impl Parser {
    /// Parses a sum of products of values.
    pub(super) fn expression(&mut self) -> Parsed<At<Expression>> {
        self.nested(|parser| parser.chain("+-", |parser| parser.chain("*/", Self::value)))
    }

    fn chain(
        &mut self,
        signs: &str,
        mut operand: impl FnMut(&mut Self) -> Parsed<At<Expression>>,
    ) -> Parsed<At<Expression>> {
        let mut left = operand(self)?;
        let mut length = 0;
        while let TokenKind::Sign(sign) = self.peek().kind
            && signs.contains(sign)
        {
            // A chain becomes a tree whose depth is the length of the chain.
            length += 1;
            if length > DEEPEST_NESTING {
                return Err(Fault::new(
                    self.peek().at,
                    "the sum or product is too long: use a variable for a part of it",
                ));
            }
            self.take();
            let right = operand(self)?;
            let at = left.at;
            left = At { value: Expression::Arithmetic(sign, Box::new(left), Box::new(right)), at };
        }
        Ok(left)
    }

    pub(super) fn value(&mut self) -> Parsed<At<Expression>> {
        let Token { kind, at } = self.peek().clone();
        let value = match kind {
            TokenKind::Sign('{') => return self.table(),
            TokenKind::Sign('(') => {
                self.take();
                let inner = self.nested(Self::expression)?;
                self.expect_sign(')', "after the expression")?;
                return Ok(inner);
            }
            TokenKind::Word(word) if word == "randvar" || word == "cvar" => {
                return self.drawn(&word);
            }
            TokenKind::Integer(number) => Expression::Integer(number),
            TokenKind::Decimal(number) => Expression::Decimal(number),
            TokenKind::Variable(name) => Expression::Variable(name),
            TokenKind::Quoted(pieces) => Expression::Text(pieces),
            TokenKind::Word(word) if word == "true" || word == "false" => {
                Expression::Boolean(word == "true")
            }
            TokenKind::Word(word) => Expression::Text(vec![Piece::Text(word)]),
            // A single slash in place of a value is the root directory.
            TokenKind::Sign('/') => Expression::Text(vec![Piece::Text("/".to_owned())]),
            TokenKind::Sign(_) | TokenKind::End => return Err(self.expected("a value")),
        };
        self.take();
        Ok(At { value, at })
    }

    /// Parses `randvar(...)` or `cvar(...)`.
    fn drawn(&mut self, word: &str) -> Parsed<At<Expression>> {
        let at = self.take().at;
        self.expect_sign('(', &format!("after '{word}'"))?;
        let value = if word == "cvar" {
            Expression::CustomVariable(self.attributes(
                words::CUSTOM_VARIABLE,
                "custom variable",
                &[],
            )?)
        } else {
            Expression::RandomVariable(self.attributes(
                words::RANDOM_VARIABLE,
                "random variable",
                &[],
            )?)
        };
        self.expect_sign(')', &format!("after the attributes of '{word}'"))?;
        Ok(At { value, at })
    }

    /// Parses `{{percent, from, to}, ...}`.
    fn table(&mut self) -> Parsed<At<Expression>> {
        let at = self.take().at;
        let mut rows = Vec::new();
        loop {
            self.expect_sign('{', "before a row of a table")?;
            let percent = self.expression()?;
            self.expect_sign(',', "after the percentage of a row")?;
            let from = self.expression()?;
            self.expect_sign(',', "after the lower bound of a row")?;
            let to = self.expression()?;
            self.expect_sign('}', "after a row of a table")?;
            rows.push([percent, from, to]);
            if !self.accept_sign(',') {
                break;
            }
        }
        self.expect_sign('}', "after the rows of a table")?;
        Ok(At { value: Expression::Table(rows), at })
    }
}
