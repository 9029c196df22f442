//! `gemelo pool estimate`.

use crate::context::Context;
use crate::exit::Outcome;
use crate::json::JsonOutput;
use crate::kind::{Described, Kind};
use crate::table::Table;
use clap::Args;
use gemelo_base::units::{format_count, format_counted, format_percent, format_size};
use gemelo_base::values::Size;
use gemelo_format::{Policy, WordForm};
use gemelo_record::ResultFile;
use gemelo_volume::{CacheSize, FullPool, IndexSampling, Needs, PoolOptions};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Size of the data store
    #[arg(long, alias = "size", value_name = "SIZE")]
    capacity: Size,
    /// Size of a block, the unit of deduplication: a power of two from 512 bytes to 1m
    #[arg(long, value_name = "SIZE", default_value = "4k")]
    block_size: Size,
    /// Blocks of volumes for each block that is stored, at least 1
    #[arg(long, value_name = "RATIO", default_value = "1", value_parser = dedup_ratio)]
    dedup_ratio: f64,
    /// Memory for pages and changes of metadata [default: what they need, up to a sixty-fourth of
    /// the memory of this machine]
    #[arg(long, value_name = "SIZE")]
    metadata_cache: Option<Size>,
    /// Contents of which one is in an index in memory: a power of two from 1 to 1024
    #[arg(long, value_name = "COUNT", default_value_t = IndexSampling::ALL)]
    index_sample: IndexSampling,
    #[command(flatten)]
    json: JsonOutput,
}

const KIND: Kind<ResultFile<Input, Estimate>> =
    Kind::new("gemelo.pool-estimate/1", "Result of gemelo pool estimate");

pub(crate) const DESCRIBED: Described = KIND.described();
/// References of a block on average, above which no pool is planned.
const MAX_DEDUP_RATIO: f64 = 1e6;

fn dedup_ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse::<f64>().ok().filter(|ratio| (1.0..=MAX_DEDUP_RATIO).contains(ratio));
    ratio.ok_or_else(|| "give a number from 1 to 1000000".to_owned())
}

#[derive(JsonSchema, Serialize)]
struct Input {
    /// Size of the data store.
    capacity_bytes: u64,
    /// Size of a block.
    block_bytes: u32,
    /// Blocks of volumes for each stored block.
    dedup_ratio: f64,
    /// Memory for pages and changes, where it was given.
    metadata_cache_bytes: Option<u64>,
    /// Contents of which one is in the index of `compact`.
    index_sample: IndexSampling,
}

#[derive(JsonSchema, Serialize)]
struct Estimate {
    /// Contents in a full data store.
    stored_blocks: u64,
    /// Blocks of volumes that refer to them.
    mapped_blocks: u64,
    /// The needs by policy.
    policies: Vec<PolicyRow>,
}

#[derive(JsonSchema, Serialize)]
struct PolicyRow {
    /// The policy of the metadata.
    policy: Policy,
    #[serde(flatten)]
    needs: Needs,
}

impl Arguments {
    fn input(&self) -> Input {
        Input {
            capacity_bytes: self.capacity.0,
            // The greatest value is refused as a block size.
            block_bytes: u32::try_from(self.block_size.0).unwrap_or(u32::MAX),
            dedup_ratio: self.dedup_ratio,
            metadata_cache_bytes: self.metadata_cache.map(|cache| cache.0),
            index_sample: self.index_sample,
        }
    }
}

impl Estimate {
    fn of(input: &Input) -> crate::Result<Self> {
        let cache = input.metadata_cache_bytes.map_or_else(CacheSize::default, CacheSize::Given);
        let mut estimate = Self { stored_blocks: 0, mapped_blocks: 0, policies: Vec::new() };
        for policy in Policy::ALL {
            let options = PoolOptions {
                capacity_bytes: input.capacity_bytes,
                block_bytes: input.block_bytes,
                policy,
                ..PoolOptions::default()
            };
            if options.is_wide() && !policy.has_words(WordForm::Wide) {
                continue;
            }
            let FullPool { stored_blocks, mapped_blocks, needs } =
                options.needs(input.dedup_ratio, (cache, input.index_sample))?;
            (estimate.stored_blocks, estimate.mapped_blocks) = (stored_blocks, mapped_blocks);
            estimate.policies.push(PolicyRow { policy, needs });
        }
        Ok(estimate)
    }

    fn to_text(&self, input: &Input) -> String {
        let mut table = Table::new();
        table.row([
            "policy",
            "memory",
            "cache limit",
            "metadata",
            "of the data",
            "overwrite reads",
            "writes",
        ]);
        for PolicyRow { policy, needs } in &self.policies {
            table.row([
                policy.name().to_owned(),
                format_size(needs.memory_bytes),
                format_size(needs.cache_bytes),
                format_size(needs.disk_bytes),
                format_percent(needs.disk_bytes as f64 / input.capacity_bytes as f64),
                format_counted(needs.overwrite_page_reads.into(), "page"),
                format_counted(needs.overwrite_page_writes.into(), "page"),
            ]);
        }
        let others = match self.policies.len() < Policy::ALL.len() {
            true => "An index on disk cannot have so many blocks. ",
            false => "",
        };
        format!(
            "{}, full: {} blocks of {} are stored, and volumes have {}\n\n{}\n\
             {others}The last columns are for one block at a random place, without its metadata but \
             the counts in the cache.\n",
            format_size(input.capacity_bytes),
            format_count(self.stored_blocks),
            format_size(input.block_bytes.into()),
            format_count(self.mapped_blocks),
            table.render(0),
        )
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.json.check()?;
    let input = arguments.input();
    let estimate = Estimate::of(&input)?;
    let text = estimate.to_text(&input);
    let made = KIND.made(input, estimate, Vec::new());
    arguments.json.finish(context, made, &text)?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(capacity_bytes: u64, block_bytes: u32) -> Input {
        let index_sample = IndexSampling::ALL;
        Input {
            capacity_bytes,
            block_bytes,
            dedup_ratio: 1.0,
            metadata_cache_bytes: Some(256 << 20),
            index_sample,
        }
    }

    #[test]
    fn a_tebibyte_takes_a_gigabyte_and_a_quarter_beside_the_cache() {
        let input = input(1 << 40, 4096);
        let of = |estimate: &Estimate, policy| {
            estimate.policies.iter().find(|row| row.policy == policy).unwrap().needs
        };
        let estimate = Estimate::of(&input).unwrap();
        let compact = of(&estimate, Policy::Compact);
        let index = compact.memory_bytes - of(&estimate, Policy::Dtb).memory_bytes;
        assert!((1 << 30..5 << 28).contains(&index), "{index} bytes of index");
        assert!(of(&estimate, Policy::InRam).memory_bytes > 8 << 30);
        let capacity_bytes = 256 << 40;
        let index_sample = IndexSampling::one_in(1024).unwrap();
        let wide = Estimate::of(&Input { capacity_bytes, index_sample, ..input }).unwrap();
        assert_eq!(wide.policies.len(), 2, "those with an index in memory");
        // The map of free blocks takes the most, if free blocks lie everywhere.
        let needs = of(&wide, Policy::Compact);
        assert!((17 << 30..19 << 30).contains(&needs.memory_bytes), "{needs:?}");
        let sampled = IndexSampling::one_in(32).unwrap();
        let sampled = Estimate::of(&Input { index_sample: sampled, ..input }).unwrap();
        let less = of(&sampled, Policy::Compact).memory_bytes;
        assert!(less < compact.memory_bytes - index * 15 / 16);
        assert!(compact.disk_bytes < 16 << 30);
        assert!(estimate.to_text(&input).contains("\ncompact  "));
    }

    #[test]
    fn a_pool_that_cannot_be_made_has_no_estimate() {
        for (capacity_bytes, block_bytes) in [(1 << 40, 1000), (1 << 50, 4096), (4096, 4096)] {
            assert!(Estimate::of(&input(capacity_bytes, block_bytes)).is_err());
        }
        assert!(dedup_ratio("0.5").is_err() && dedup_ratio("2.5").is_ok());
    }
}
