//! Claims: statements whose conditions over figures a campaign confirms or refutes.

mod condition;
mod judge;
mod scale;

pub use condition::{Condition, ConditionError, Expression, Quotient, Relation, Term};
pub use judge::{ClaimVerdict, ConditionOutcome, Judgement, judge};
