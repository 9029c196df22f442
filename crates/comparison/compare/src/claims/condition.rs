//! The grammar of conditions:
//!
//! ```text
//! condition  = expression relation
//! expression = term | quotient | term "-" term | "(" quotient ")" "/" "(" quotient ")"
//! quotient   = term "/" term
//! term       = FIGURE "[" WORKLOAD "," TARGET "]"
//! relation   = (">" | ">=" | "<" | "<=") NUMBER | "about" NUMBER "within" NUMBER "%"
//! ```
//!
//! An example is `write/operations_per_s[nurand-write, volume] /
//! write/operations_per_s[nurand-write, ext4] >= 1.5`.

use gemelo_base::Classified;
use gemelo_stats::Interval;
use thiserror::Error;

/// The longest text of a condition, in bytes.
const MAX_BYTES: usize = 1000;

/// The error for a text that is not a condition.
#[derive(Debug, Clone, PartialEq, Eq, Error, Classified)]
#[kind(BadInput)]
#[error("the condition '{text}' has a fault at column {column}: {expected}")]
pub struct ConditionError {
    /// The text of the condition.
    pub text: String,
    /// The place of the fault: the number of the letter, from 1.
    pub column: usize,
    /// A description of the text that is expected there.
    pub expected: &'static str,
}

/// A figure of one workload on one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Name of the figure.
    pub figure: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the target.
    pub target: String,
}

/// The mean of the first figure divided by that of the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quotient {
    /// The figure that is divided.
    pub above: Term,
    /// The figure that divides it.
    pub below: Term,
}

/// A number that is computed from figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    /// The mean of a figure.
    Mean(Term),
    /// One figure divided by another.
    Ratio(Quotient),
    /// One quotient divided by another: the change of a ratio.
    RatioOfRatios {
        /// The quotient that is divided.
        above: Quotient,
        /// The quotient that divides it.
        below: Quotient,
    },
    /// The mean of the first figure less that of the second.
    Difference(Term, Term),
}

/// The relation between the number and the claim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Relation {
    /// The number is greater than this one.
    Above(f64),
    /// The number is this one or greater.
    AtLeast(f64),
    /// The number is less than this one.
    Below(f64),
    /// The number is this one or less.
    AtMost(f64),
    /// The number differs from `value` by at most `share` of its magnitude.
    About {
        /// The number as the paper published it.
        value: f64,
        /// The accepted difference, as a share.
        share: f64,
    },
}

impl Relation {
    /// Returns whether the relation holds for a number.
    #[must_use]
    pub fn holds(self, number: f64) -> bool {
        match self {
            Self::Above(value) => number > value,
            Self::AtLeast(value) => number >= value,
            Self::Below(value) => number < value,
            Self::AtMost(value) => number <= value,
            Self::About { value, share } => (number - value).abs() <= share * value.abs(),
        }
    }

    /// Returns whether the relation holds for all numbers of the interval (`Some(true)`), for none
    /// (`Some(false)`), or for some.
    #[must_use]
    pub fn holds_in(self, interval: Interval) -> Option<bool> {
        let ends = [self.holds(interval.low()), self.holds(interval.high())];
        // The numbers for which a relation holds have no gap, so its ends decide, unless they lie
        // around all of these numbers.
        match (ends, self) {
            ([true, true], _) => Some(true),
            ([false, false], Self::About { value, .. }) if interval.contains(value) => None,
            ([false, false], _) => Some(false),
            _ => None,
        }
    }
}

/// A condition of a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The number that is computed.
    pub expression: Expression,
    /// The relation that it must have.
    pub relation: Relation,
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// Fails if the text does not fit the grammar. The error names the column.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let mut parser = Parser { text, place: 0 };
        if text.len() > MAX_BYTES {
            return Err(parser.fault("the text is longer than 1000 bytes"));
        }
        let expression = parser.expression()?;
        let relation = parser.relation()?;
        if parser.rest().is_empty() {
            Ok(Self { expression, relation })
        } else {
            Err(parser.fault("the condition must end here"))
        }
    }

    /// Returns the terms of the expression, so that a plan can be checked for their names.
    pub fn terms(&self) -> impl Iterator<Item = &Term> {
        let terms = match &self.expression {
            Expression::Mean(term) => vec![term],
            Expression::Ratio(Quotient { above, below }) => vec![above, below],
            Expression::Difference(first, second) => vec![first, second],
            Expression::RatioOfRatios { above, below } => {
                vec![&above.above, &above.below, &below.above, &below.below]
            }
        };
        terms.into_iter()
    }
}

impl std::str::FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        Self::parse(text)
    }
}

/// A relation that has one number.
type OfNumber = fn(f64) -> Relation;

/// A text with the place up to which it was read, in bytes.
struct Parser<'a> {
    text: &'a str,
    place: usize,
}

impl<'a> Parser<'a> {
    /// Skips blanks and returns the rest of the text.
    fn rest(&mut self) -> &'a str {
        let rest = self.text.get(self.place..).unwrap_or_default();
        let trimmed = rest.trim_start();
        self.place += rest.len() - trimmed.len();
        trimmed
    }

    fn fault(&self, expected: &'static str) -> ConditionError {
        let before = self.text.get(..self.place).unwrap_or(self.text);
        let column = before.chars().count() + 1;
        ConditionError { text: self.text.to_owned(), column, expected }
    }

    /// Skips the word if it comes next, and returns whether it does.
    fn takes(&mut self, word: &str) -> bool {
        let comes = self.rest().starts_with(word);
        if comes {
            self.place += word.len();
        }
        comes
    }

    fn demand(&mut self, word: &str, expected: &'static str) -> Result<(), ConditionError> {
        if self.takes(word) { Ok(()) } else { Err(self.fault(expected)) }
    }

    /// Reads a name up to one of these letters, or to the end.
    fn name(&mut self, ends: &[char], expected: &'static str) -> Result<String, ConditionError> {
        let rest = self.rest();
        let (name, _) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        if name.trim_end().is_empty() {
            return Err(self.fault(expected));
        }
        self.place += name.len();
        Ok(name.trim_end().to_owned())
    }

    fn expression(&mut self) -> Result<Expression, ConditionError> {
        if self.takes("(") {
            let above = self.quotient()?;
            self.demand(")", "')' is expected after a quotient in parentheses")?;
            self.demand("/", "'/' is expected after a quotient in parentheses")?;
            self.demand("(", "'(' is expected: a quotient is divided by a quotient")?;
            let below = self.quotient()?;
            self.demand(")", "')' is expected after a quotient in parentheses")?;
            return Ok(Expression::RatioOfRatios { above, below });
        }
        let first = self.term()?;
        Ok(if self.takes("/") {
            Expression::Ratio(Quotient { above: first, below: self.term()? })
        } else if self.takes("-") {
            Expression::Difference(first, self.term()?)
        } else {
            Expression::Mean(first)
        })
    }

    fn quotient(&mut self) -> Result<Quotient, ConditionError> {
        let above = self.term()?;
        self.demand("/", "'/' is expected in a quotient in parentheses")?;
        Ok(Quotient { above, below: self.term()? })
    }

    fn term(&mut self) -> Result<Term, ConditionError> {
        let figure = self
            .name(&['[', ']', ',', '<', '>', ' ', '(', ')'], "the name of a figure is expected")?;
        self.demand("[", "'[' is expected after the name of a figure")?;
        let workload =
            self.name(&['[', ']', ','], "the name of a workload is expected after '['")?;
        self.demand(",", "',' is expected between a workload and a target")?;
        let target = self.name(&['[', ']', ','], "the name of a target is expected after ','")?;
        self.demand("]", "']' is expected after the name of a target")?;
        Ok(Term { figure, workload, target })
    }

    fn relation(&mut self) -> Result<Relation, ConditionError> {
        const EXPECTED: &str = "'/', '-', '>', '>=', '<', '<=' or 'about' is expected after ']'";
        let relations: [(&str, OfNumber); 4] = [
            (">=", Relation::AtLeast),
            ("<=", Relation::AtMost),
            (">", Relation::Above),
            ("<", Relation::Below),
        ];
        for (word, relation) in relations {
            if self.takes(word) {
                return Ok(relation(self.number()?));
            }
        }
        self.demand("about", EXPECTED)?;
        let value = self.number()?;
        self.demand("within", "'within' and a percentage are expected after the number")?;
        let place = self.place;
        let percent = self.number()?;
        if percent < 0.0 {
            self.place = place;
            self.rest();
            return Err(self.fault("a percentage of zero or more is expected"));
        }
        self.demand("%", "'%' is expected after the number")?;
        Ok(Relation::About { value, share: percent / 100.0 })
    }

    fn number(&mut self) -> Result<f64, ConditionError> {
        let rest = self.rest();
        let is_part = |letter: char| letter.is_ascii_digit() || "+-.eE".contains(letter);
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        let (digits, _) = rest.split_at(end);
        match digits.parse::<f64>() {
            Ok(number) if number.is_finite() => {
                self.place += end;
                Ok(number)
            }
            _ => Err(self.fault("a number is expected, such as 1.5")),
        }
    }
}
