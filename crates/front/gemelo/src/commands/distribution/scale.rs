//! `gemelo distribution scale` computes the distribution that a data set of a given size will have,
//! exact or sampled.

use super::columns::{Column, Columns};
use super::compare::short;
use super::{DistributionOutput, Figures, Input, KIND};
use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome, failed, refused};
use crate::json::JsonOption;
use crate::values::BlockSize;
use clap::Args;
use gemelo_base::units::format_count;
use gemelo_base::values::Size;
use gemelo_content::{Distribution, Profile, ScaledDistribution};
use gemelo_job::distributions::{self, NamedDistribution, USUAL_BLOCK_BYTES};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The distribution to scale
    #[arg(value_name = "NAME|FILE")]
    distribution: String,
    /// Number of blocks of the data set
    #[arg(long, value_name = "N", required_unless_present = "bytes", conflicts_with = "bytes")]
    blocks: Option<u64>,
    /// Size of the data set
    #[arg(long, value_name = "SIZE")]
    bytes: Option<Size>,
    /// Size of a block [default: the profile's, or 4k]
    #[arg(long, value_name = "SIZE")]
    block_size: Option<BlockSize>,
    /// Also show the figures of drawing each block, as DEDISbench does: the expected ones, or with
    /// --seed those of one drawn data set
    #[arg(long)]
    sampled: bool,
    /// Draw a data set with this seed; --output then writes its distribution
    #[arg(long, value_name = "N", requires = "sampled")]
    seed: Option<u64>,
    #[command(flatten)]
    output: DistributionOutput,
    #[command(flatten)]
    json: JsonOption,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.output.check_with(Some(&arguments.json))?;
    if arguments.sampled && arguments.seed.is_none() && arguments.output.output.is_some() {
        return Err(refused!(
            "--sampled without --seed gives expected figures, which --output cannot write: add --seed N \
             to draw a distribution"
        ));
    }
    let named = distributions::load(&arguments.distribution).or_bad_input()?;
    let block_bytes = arguments
        .block_size
        .map(|size| size.0)
        .or(named.block_bytes())
        .unwrap_or(USUAL_BLOCK_BYTES);
    let blocks = arguments.blocks(block_bytes)?;
    let scaled = ScaledDistribution::new(&named.distribution, blocks)
        .map_err(|_| failed!("{blocks} blocks are too many: a data set has at most 2^43 blocks"))
        .or_bad_input()?;
    let exact = scaled.to_distribution()?;
    let mut columns =
        vec![Column::of(short(&named.name), &named.distribution), Column::of("exact", &exact)];
    let mut written = exact;
    if arguments.sampled {
        let (column, drawn) = arguments.sample(&named.distribution, blocks)?;
        columns.push(column);
        written = drawn.unwrap_or(written);
    }
    let columns = Columns::new(columns);
    let notes = cut_short(&scaled);
    arguments.output.write(&profile(&named, &written, blocks, block_bytes))?;
    let input = Input::Scaled(&arguments.distribution);
    let made = KIND.made(input, Figures::Compared(&columns), notes.clone());
    arguments.json.write(arguments.output.force, context, made)?;
    if !arguments.output.is_standard_output() && !arguments.json.is_standard_output() {
        let notes: String = notes.iter().map(|note| format!("{note}\n")).collect();
        context.print(&(columns.to_text() + &notes))?;
    }
    Ok(Outcome::Done)
}

impl Arguments {
    fn blocks(&self, block_bytes: u64) -> crate::Result<u64> {
        let blocks =
            self.blocks.unwrap_or_else(|| self.bytes.map_or(0, |size| size.0 / block_bytes));
        if blocks == 0 {
            return Err(refused!(
                "the data set is smaller than a block of {block_bytes} bytes: give a larger size"
            ));
        }
        Ok(blocks)
    }

    /// Returns expected figures. With a seed, returns those of a drawn distribution and the
    /// distribution itself.
    fn sample(
        &self,
        source: &Distribution,
        blocks: u64,
    ) -> crate::Result<(Column, Option<Distribution>)> {
        let Some(seed) = self.seed else {
            let expected = source.expected_sample(blocks).or_bad_input()?;
            return Ok((Column::expected("sampled, expected", &expected), None));
        };
        let drawn = source
            .drawn_sample(blocks, seed)
            .map_err(|_| {
                failed!(
                    "the data set has too many blocks or contents to draw: leave out --seed to get the \
                     expected figures"
                )
            })
            .or_bad_input()?;
        Ok((Column::of(&format!("sampled, seed {seed}"), &drawn), Some(drawn)))
    }
}

/// Returns the result as a profile that keeps the entropy and the compressibility of the classes.
fn profile(
    named: &NamedDistribution,
    written: &Distribution,
    blocks: u64,
    block_bytes: u64,
) -> Profile {
    let source = named.to_profile(Some(block_bytes));
    let text = format!("{}; scaled to {blocks} blocks", source.source.trim());
    Profile { classes: source.classes, ..Profile::new(&source.name, &text, block_bytes, written) }
}

/// Returns a line for each content that has fewer copies than its class.
fn cut_short(scaled: &ScaledDistribution) -> Vec<String> {
    scaled
        .cut_short()
        .map(|class| {
            format!(
                "cut short: {} content of {} duplicates gets {}, because its share of the data set has \
                 no space for more",
                format_count(class.contents),
                format_count(class.source_duplicates),
                format_count(class.copies - 1)
            )
        })
        .collect()
}
