//! Campaigns: targets × workloads × repetitions, from a plan to the records of all runs.
//!
//! A [`Plan`] is read and checked before anything is touched. [`run`] executes it in a directory:
//! it makes each target fresh, prepares it, measures, asks for the space in use, and gives
//! everything back. A journal names everything that exists because of the campaign, so [`clean`]
//! gives it back after a crash, too. The records are those of the crate `record`; other crates
//! compare and draw them.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod error;
mod journal;
mod lock;
mod monitor;
mod outlook;
mod plan;
mod process;
mod quiet;
mod resource;
mod result;
mod room;
mod run;
mod schedule;
mod selection;
mod shipped;
mod site;
mod system;
mod target;
mod workload;

pub use error::CampaignError;
pub use outlook::{Member, Outlook, Power};
pub use plan::{Plan, PlanError, SetValue};
pub use run::{Cleaned, Environment, Summary, clean, run};
pub use shipped::{ShippedPlan, shipped};
