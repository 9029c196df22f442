//! The table `[campaign]`: how often, how precisely and in which surroundings runs are made.

use super::keys::Keys;
use super::{PlanError, claims};
use gemelo_base::values::{Percent, Span};
use gemelo_compare::Margin;
use gemelo_record::LeastScale;
use gemelo_stats::Confidence;
use std::path::PathBuf;
use std::time::Duration;

/// Most repetitions. Confidence intervals hardly narrow beyond.
const MAX_REPETITIONS: u32 = 1000;

/// Repetitions without the key. Fewer give no useful confidence interval.
const REPETITIONS: u32 = 5;

/// Difference that does not matter, without the key, as a share.
const MARGIN_SHARE: f64 = 0.1;

/// Deviation of a ratio from round to round that `--plan` assumes without the key, as a share.
const SPREAD_SHARE: f64 = 0.05;

/// Warm-up runs of each target without the key.
const WARM_UP_RUNS: u32 = 1;

/// Confidence level without the key, as is usual.
const CONFIDENCE: f64 = 0.95;

/// Longest step of a run without the key.
const TIME_LIMIT: Duration = Duration::from_secs(3600);

/// The settings of a campaign.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) title: String,
    /// Fewest repetitions of each pair.
    pub(crate) repetitions: u32,
    pub(crate) max_repetitions: u32,
    /// The largest difference that does not matter, as a share of a ratio.
    pub(crate) margin_share: f64,
    /// Deviation of a ratio from round to round that is assumed before any run.
    pub(crate) spread_share: f64,
    pub(crate) confidence: f64,
    pub(crate) seed: u64,
    /// Runs of each target that precede the first repetition and do not count.
    pub(crate) warm_up_runs: u32,
    /// Pause before each run.
    pub(crate) idle: Duration,
    pub(crate) drops_caches: bool,
    /// Longest step of a run.
    pub(crate) time_limit: Duration,
    pub(crate) baseline: Option<String>,
    /// Directory for everything that runs make; the campaign's own if absent.
    pub(crate) work: Option<PathBuf>,
    /// Space that the author of the plan expects a run to need.
    pub(crate) space_bytes: Option<u64>,
    pub(crate) needs_root: bool,
    /// Least scale of the claims that depend on the length of a measurement.
    pub(crate) least: LeastScale,
}

const SPAN: &str = "a duration, such as 30s, 5m or 2h";

impl Settings {
    pub(super) fn read(keys: &Keys<'_>) -> Result<Self, PlanError> {
        let name = keys.required_text("name")?;
        let repetitions = count(keys, "repetitions")?.unwrap_or(REPETITIONS);
        let most = count(keys, "max-repetitions")?.unwrap_or(repetitions);
        if repetitions == 0 || most < repetitions {
            return Err(keys.wrong(
                "repetitions",
                format_args!("must be from 1 to 'max-repetitions', which is {most}"),
            ));
        }
        let share = |key| keys.parsed::<Percent>(key, "a percentage, such as 5 or 2.5%");
        let span = |key| Ok::<_, PlanError>(keys.parsed::<Span>(key, SPAN)?.map(|span| span.0));
        let confidence = share("confidence")?.map_or(CONFIDENCE, |percent| percent.0);
        Confidence::new(confidence).map_err(|error| keys.wrong("confidence", error))?;
        let margin_share = share("margin")?.map_or(MARGIN_SHARE, |percent| percent.0);
        Margin::new(margin_share).map_err(|error| keys.wrong("margin", error))?;
        let spread_share = share("spread")?.map_or(SPREAD_SHARE, |percent| percent.0);
        if spread_share <= 0.0 {
            return Err(keys.wrong("spread", "must be above 0 %"));
        }
        let settings = Self {
            title: keys.text("title")?.unwrap_or_else(|| name.clone()),
            name,
            repetitions,
            max_repetitions: most,
            margin_share,
            spread_share,
            confidence,
            seed: keys.parsed("seed", "a whole number")?.unwrap_or(1),
            warm_up_runs: count(keys, "warm-up-runs")?.unwrap_or(WARM_UP_RUNS),
            idle: span("idle")?.unwrap_or_default(),
            drops_caches: keys.flag("drop-caches")?,
            time_limit: span("time-limit")?.unwrap_or(TIME_LIMIT),
            baseline: keys.text("baseline")?,
            work: keys.text("work")?.map(PathBuf::from),
            space_bytes: keys.size("space")?,
            needs_root: keys.flag("needs-root")?,
            least: keys
                .table("least")?
                .as_ref()
                .map(claims::least)
                .transpose()?
                .unwrap_or_default(),
        };
        keys.finish()?;
        Ok(settings)
    }
}

fn count(keys: &Keys<'_>, name: &'static str) -> Result<Option<u32>, PlanError> {
    let Some(count) = keys.parsed::<u32>(name, "a whole number")? else { return Ok(None) };
    if count > MAX_REPETITIONS {
        return Err(keys.wrong(name, format_args!("must be at most {MAX_REPETITIONS}")));
    }
    Ok(Some(count))
}
