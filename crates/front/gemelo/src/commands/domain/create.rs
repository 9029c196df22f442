//! `gemelo domain create`.

use super::{DomainArguments, PATIENCE};
use crate::context::Context;
use crate::exit::{Failure, Outcome, refused};
use clap::Args;
use gemelo_base::units::format_size;
use gemelo_base::values::Size;
use gemelo_format::{FingerprintKind, is_block_size};
use gemelo_job::choice;
use gemelo_member::NewDomain;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    domain: DomainArguments,
    /// Pool of Ceph that holds contents; an erasure-coded one must allow overwrites [default: the
    /// pool of the index]
    #[arg(long, value_name = "POOL")]
    data_pool: Option<String>,
    /// Number of objects of the index, a power of two: plan one for each 50,000 contents; one with
    /// more than 200,000 is split in use
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=65536))]
    shards: u64,
    /// Size of a block, the unit of deduplication: a power of two from 512 bytes to 1m
    #[arg(long, value_name = "SIZE", default_value = "4k")]
    block_size: Size,
    /// Hash by which equal contents are found
    #[arg(long, value_name = "KIND", default_value = "blake3")]
    fingerprint: DomainFingerprint,
}

choice!(
    /// The kinds of fingerprints of a domain: those that prove that contents are equal.
    DomainFingerprint is FingerprintKind {
        /// BLAKE3 with a key of the domain, so that collisions cannot be prepared
        Blake3,
        /// SHA-256 with a key of the domain
        Sha256,
    }
);

impl Arguments {
    fn new_domain(&self) -> crate::Result<NewDomain> {
        let block_bytes =
            u32::try_from(self.block_size.0).ok().filter(|bytes| is_block_size(*bytes));
        let block_bytes = block_bytes
            .ok_or_else(|| refused!("--block-size: give a power of two from 512 bytes to 1 MiB"))?;
        if !self.shards.is_power_of_two() {
            return Err(refused!("--shards: give a power of two from 1 to 65536"));
        }
        Ok(NewDomain {
            block_bytes,
            // The cast is safe: the number is at most 16.
            depth: self.shards.trailing_zeros() as u8,
            fingerprint: self.fingerprint.into(),
            data_pool: self.data_pool.clone(),
        })
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let uri = arguments.domain.uri();
    let new = arguments.new_domain()?;
    let created = new.create(&uri, PATIENCE);
    created.map_err(|error| Failure::from(error).context(uri.to_string()))?;
    context.print(&format!(
        "{uri}: a domain with blocks of {} and {} shards\n",
        format_size(u64::from(new.block_bytes)),
        arguments.shards
    ))?;
    Ok(Outcome::Done)
}
