//! Measurements as files: the result of a command, and the record of a campaign.
//!
//! Every measuring command writes the same frame, a [`ResultFile`]: a schema name with a version,
//! the provenance, the resolved input, the result, and the warnings.
//!
//! A campaign is a directory. `campaign.json` holds a [`CampaignRecord`]: the plan, the targets,
//! the workloads and the planned runs. Each run has a directory `runs/<id>` with a `run.json` (a
//! [`RunRecord`]) beside its raw results. The crate that runs campaigns writes these files; the
//! crates that compare and draw results read them, and need nothing else of a campaign.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod campaign;
mod figure;
mod files;
mod hosts;
mod provenance;
mod result_file;
mod run;

pub use campaign::{
    CAMPAIGN_SCHEMA, CampaignRecord, ClaimRecord, LeastFigure, LeastScale, Paper, PlannedRun,
    TargetRecord, WorkloadRecord,
};
pub use figure::{Better, Curve, Figure, Series, Stats};
pub use files::{
    CAMPAIGN_FILE, RUN_FILE, RUNS_DIRECTORY, RecordError, read_campaign, read_run, read_runs,
    run_directory,
};
pub use hosts::{HostFile, HostRecord, HostsFile, slowest};
pub use provenance::Provenance;
pub use result_file::{ResultFile, ResultFileError, read_result, to_json};
pub use run::{Outcome, PhaseRecord, RUN_SCHEMA, RunRecord, Space};
