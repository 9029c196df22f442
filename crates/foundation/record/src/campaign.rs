//! A campaign as its directory keeps it: the plan, the targets, the workloads, the planned runs.

use crate::Provenance;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema name of a [`CampaignRecord`].
pub const CAMPAIGN_SCHEMA: &str = "gemelo.campaign/1";

/// The plan of a campaign after defaults were filled in and matrices were expanded.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct CampaignRecord {
    /// Name and version of the layout.
    pub schema: String,
    /// Program, command line, machine and time of the first start.
    pub provenance: Provenance,
    /// Name of the campaign.
    pub name: String,
    /// Title of the report, one line.
    pub title: String,
    /// Text of the plan, as it was read.
    pub plan_text: String,
    /// The paper whose experiments the plan repeats.
    #[serde(default)]
    pub paper: Option<Paper>,
    /// The targets, in the order of the plan, including those that this machine lacks.
    pub targets: Vec<TargetRecord>,
    /// The workloads, in the order of the plan.
    pub workloads: Vec<WorkloadRecord>,
    /// The runs in the order in which they are executed.
    pub runs: Vec<PlannedRun>,
    /// Fewest repetitions of each pair of a target and a workload.
    pub repetitions: u32,
    /// Most repetitions, if comparisons or claims are still undecided.
    pub max_repetitions: u32,
    /// The largest difference that does not matter, as a share of a ratio.
    pub margin_share: f64,
    /// Confidence level of all intervals of a comparison together, such as 0.95.
    pub confidence: f64,
    /// The claims that the report judges.
    #[serde(default)]
    pub claims: Vec<ClaimRecord>,
    /// Remarks about the machine and the plan.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A published work whose experiments a plan repeats.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Paper {
    /// Short name, such as `dedis-2016`.
    pub id: String,
    /// Title of the work.
    pub title: String,
    /// Names of the authors, in the order of the title page.
    pub authors: Vec<String>,
    /// Conference, journal or university that published it.
    pub venue: String,
    /// Year of publication, such as 2016.
    pub year: u16,
}

/// A system under test.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct TargetRecord {
    /// Name, unique in the campaign.
    pub name: String,
    /// Kind of the target, such as `directory`, `volume` or `loop`.
    pub kind: String,
    /// One line about the target for a reader of the report.
    pub description: String,
    /// `true` for the target that the others are compared with.
    pub is_baseline: bool,
    /// Most bytes of data that the target takes, if it has a limit.
    #[serde(default)]
    pub capacity_bytes: Option<u64>,
    /// Reason why the target was left out, such as a missing program.
    #[serde(default)]
    pub left_out: Option<String>,
}

/// A load that is run against each target.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct WorkloadRecord {
    /// Name, unique in the campaign.
    pub name: String,
    /// Kind of the workload, such as `bench`, `suite`, `replay`, `filebench`, `fio` or `command`.
    pub kind: String,
    /// One line about the workload for a reader of the report.
    pub description: String,
    /// Bytes of the files or regions that the load uses, if the plan tells them.
    #[serde(default)]
    pub data_bytes: Option<u64>,
    /// Name of the figure by which targets are ranked. The report picks one if it is missing.
    #[serde(default)]
    pub main_figure: Option<String>,
    /// The set that the workload belongs to and its value in it, such as `("entropy", "5")`. The
    /// report draws the members of a set as one curve.
    #[serde(default)]
    pub set: Option<(String, String)>,
    /// Reason why the workload was left out, such as a missing program.
    #[serde(default)]
    pub left_out: Option<String>,
}

/// One run of the plan.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PlannedRun {
    /// Name of the run, unique in the campaign, and of its directory.
    pub id: String,
    /// Name of the target.
    pub target: String,
    /// Name of the workload.
    pub workload: String,
    /// Number of the repetition, from 1.
    pub repetition: u32,
}

/// A statement of a paper or of a user that the report judges by the figures of the campaign.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// Short name, unique in the campaign.
    pub id: String,
    /// The statement, in the project's own words.
    pub claim: String,
    /// The published numbers, as text for the reader.
    #[serde(default)]
    pub published: Option<String>,
    /// Place in the paper, such as `section 3.2, table 1`.
    #[serde(default)]
    pub place: Option<String>,
    /// Reason why this campaign cannot test the claim.
    #[serde(default)]
    pub not_testable: Option<String>,
    /// Conditions over figures; all must hold. The grammar is that of the plan.
    #[serde(default)]
    pub tests: Vec<String>,
    /// The least scale at which the claim means something.
    #[serde(default)]
    pub least: LeastScale,
}

/// The least scale of the measurements of a claim. Below it, they say nothing about the claim.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LeastScale {
    /// Fewest repetitions of each workload on each target.
    #[serde(default)]
    pub repetitions: Option<u32>,
    /// Shortest time of a measurement, in nanoseconds.
    #[serde(default)]
    pub time_ns: Option<u64>,
    /// Least bytes of the files or regions of the load.
    #[serde(default)]
    pub data_bytes: Option<u64>,
    /// Least share of the memory of the machine that the data of the load are; above 1 for data
    /// that no cache holds.
    #[serde(default)]
    pub memory_share: Option<f64>,
    /// Least share of the capacity of the target that the data of the load are.
    #[serde(default)]
    pub fill_share: Option<f64>,
    /// A figure that every run must have, and its least value.
    #[serde(default)]
    pub figure: Option<LeastFigure>,
}

/// The least value of a figure of a run.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LeastFigure {
    /// Name of the figure.
    pub name: String,
    /// Least value that the figure must have, in its own unit.
    pub value: f64,
}
