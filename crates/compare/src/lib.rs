//! Comparisons of results and campaigns: what changed beyond noise; and verdicts on claims.
//!
//! A [`Side`] is one or more result files, each a repetition, or a campaign. [`compare_sides`]
//! matches the groups of two sides, and [`compare`] takes groups of any origin, such as two targets
//! of one campaign. Nothing is called better or worse unless a test, corrected for the number of
//! comparisons, carries it; a single repetition carries nothing.
//!
//! [`Condition`] is the grammar of the conditions of a claim, and [`judge`] gives the verdict.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod claims;
mod error;
mod group;
mod report;
mod row;
mod selection;
mod side;

pub use claims::{
    ClaimVerdict, Condition, ConditionError, ConditionOutcome, Expression, Judgement, Relation,
    Term, judge,
};
pub use error::CompareError;
pub use group::{Groups, Place};
pub use report::{SCHEMA, Slowdown, SlowdownError, Slower, Summary, compare_sides, slower_rows};
pub use row::{Basis, Measured, Pair, Row, Verdict, WIDE_SHARE, compare};
pub use selection::{Selection, Settings};
pub use side::{MOST_FILES, Side};
