//! Comparisons of results and campaigns: what changed beyond noise; and verdicts on claims.
//!
//! A [`Side`] is one or more result files, each a repetition, or a campaign. [`compare_sides`]
//! matches the groups of two sides, [`compare_targets`] the targets of one campaign, and
//! [`compare`] takes groups of any origin. Verdicts follow from the interval of a ratio alone, at
//! the level that all comparisons of a call share; a single repetition carries none.
//!
//! [`summarize`] condenses the repetitions of one benchmark.
//!
//! [`Condition`] is the grammar of the conditions of a claim, and [`judge`] gives the verdict.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod claims;
mod error;
mod group;
mod ranking;
mod repeated;
mod report;
mod row;
mod selection;
mod side;
mod validity;
mod verdict;

pub use claims::{
    ClaimVerdict, Condition, ConditionError, ConditionOutcome, Expression, Judgement, Quotient,
    Relation, Term, judge,
};
pub use error::CompareError;
pub use group::{Groups, Place, Repetition};
pub use ranking::{MainFigure, SettingsError, Standards, baseline, compare_targets, main_figures};
pub use repeated::summarize;
pub use report::{
    Limited, PerhapsSlower, Request, SCHEMA, Slowdown, SlowdownError, Slower, Summary,
    compare_sides, limited,
};
pub use row::{Basis, Measured, Pair, Row, compare};
pub use selection::{Margin, MarginError, Selection, Settings};
pub use side::{MAX_FILES, Side};
pub use verdict::{Doubt, Verdict};

pub use gemelo_stats::Confidence;
