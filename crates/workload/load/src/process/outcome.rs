//! The outcome of one process.

use crate::drive::Cause;
use crate::measure::{Accumulator, IntervalPart, Usage};
use crate::result::OperationFailure;

/// The measurements of one process.
pub(crate) struct ProcessOutcome {
    pub(crate) number: u32,
    pub(crate) cause: Cause,
    pub(crate) ended_ns: u64,
    pub(crate) measured: Accumulator,
    pub(crate) intervals: Vec<IntervalPart>,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) missed: u64,
    pub(crate) used: Usage,
    pub(crate) failure: Option<OperationFailure>,
}
