//! Claims: statements whose conditions over figures a campaign confirms or refutes.

mod condition;
mod judge;

pub use condition::{Condition, ConditionError, Expression, Relation, Term};
pub use judge::{ClaimVerdict, ConditionOutcome, Judgement, judge};
