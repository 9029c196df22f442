//! `gemelo distribution fit` makes a distribution from the summary figures that papers publish.

use super::{DistributionOutput, figures::DistributionFigures};
use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome};
use crate::values::BlockSize;
use clap::Args;
use gemelo_content::{Distribution, Figure, Profile, SummaryStats};
use gemelo_job::distributions::USUAL_BLOCK_BYTES;

/// Fit a distribution to summary figures that papers publish.
///
/// Two figures determine the amount of duplication: two of the unique share, the duplicate share
/// (or the dedup ratio) and the duplicates per content. Further figures must agree to the rounding
/// of their last digit. The duplicates are distributed by a power law.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Share of unique contents among all blocks, in percent
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    unique_share: Option<Figure>,
    /// Share of duplicates among all blocks, in percent
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    duplicate_share: Option<Figure>,
    /// Mean number of duplicates of the contents that have duplicates
    #[arg(long, value_name = "X", value_parser = number)]
    duplicates_per_content: Option<Figure>,
    /// Logical blocks divided by physical blocks
    #[arg(long, value_name = "R", value_parser = number)]
    dedup_ratio: Option<Figure>,
    /// Most duplicates of a content [default: 10000, or fewer if the blocks do not allow as many]
    #[arg(long, value_name = "N")]
    max_duplicates: Option<u64>,
    /// Number of blocks of the data set [default: 16777216]
    #[arg(long, value_name = "N")]
    blocks: Option<u64>,
    /// Size of a block [default: 4k]
    #[arg(long, value_name = "SIZE")]
    block_size: Option<BlockSize>,
    #[command(flatten)]
    output: DistributionOutput,
}

fn percent(text: &str) -> Result<Figure, String> {
    Figure::parse_percent(text)
        .ok_or_else(|| "expected a percentage from 0 to 100, such as 76 or 17.5".to_owned())
}

fn number(text: &str) -> Result<Figure, String> {
    Figure::parse(text).ok_or_else(|| "expected a decimal number, such as 2.76".to_owned())
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.output.check()?;
    let distribution = Distribution::fit(&SummaryStats {
        unique_share: arguments.unique_share,
        duplicate_share: arguments.duplicate_share,
        duplicates_per_content: arguments.duplicates_per_content,
        dedup_ratio: arguments.dedup_ratio,
        max_duplicates: arguments.max_duplicates,
        blocks: arguments.blocks,
    })
    .or_bad_input()?;
    let block_bytes = arguments.block_size.map_or(USUAL_BLOCK_BYTES, |size| size.0);
    let source = format!("fitted: {}", arguments.asked());
    arguments.output.write(&Profile::new("fitted", &source, block_bytes, &distribution))?;
    if !arguments.output.is_standard_output() {
        let figures =
            DistributionFigures::of("fitted", Some(&arguments.asked()), &distribution, block_bytes);
        context.print(&figures.to_text())?;
    }
    Ok(Outcome::Done)
}

impl Arguments {
    /// Returns the given figures as text.
    fn asked(&self) -> String {
        let percent = |figure: Figure| format!("{} %", round(100.0 * figure.value()));
        let number = |figure: Figure| round(figure.value()).to_string();
        let figures = [
            self.unique_share.map(|figure| format!("{} of blocks unique", percent(figure))),
            self.duplicate_share.map(|figure| format!("{} duplicates", percent(figure))),
            self.duplicates_per_content
                .map(|figure| format!("{} duplicates per content", number(figure))),
            self.dedup_ratio.map(|figure| format!("dedup ratio {}", number(figure))),
            self.max_duplicates.map(|most| format!("most duplicates {most}")),
        ];
        figures.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Rounds away the noise of binary fractions.
fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
