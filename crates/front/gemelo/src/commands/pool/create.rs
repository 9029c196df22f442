//! `gemelo pool create`.

use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome, refused};
use crate::files;
use crate::setting_options::{OfPoolsHidden, SettingOptions};
use crate::values::{parse_compression, pool_place_parser};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use gemelo_base::units::format_size;
use gemelo_base::values::Size;
use gemelo_format::{Compression, FingerprintKind, IndexForm, Policy};
use gemelo_job::choice;
use gemelo_place::PoolPlace;
use gemelo_serve::{RequestFailure, SETTINGS_FILE, Settings, Value, setting};
use gemelo_volume::{IndexSampling, NewPool, PoolOptions, about_policy};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: a directory, which is created if it does not exist, or
    /// rados:POOL/NAMESPACE/MEMBER, a member of a domain
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    /// Store contents here: a block device, or a new or empty file [default: a file in the
    /// directory]
    #[arg(long, value_name = "FILE|DEVICE")]
    data: Option<PathBuf>,
    /// Store metadata here: a block device, a new or empty file, or a directory [default: a file in
    /// the pool's directory]
    #[arg(long, value_name = "FILE|DEVICE|DIR")]
    metadata: Option<PathBuf>,
    /// Size of the data store; a file takes space only for stored blocks [default: 64g, or the
    /// whole device]
    #[arg(long, alias = "size", value_name = "SIZE")]
    capacity: Option<Size>,
    /// Size to which the data store may be grown later, if that is more than 2^32 blocks (16t of
    /// 4k) [default: 2^32 blocks, or the capacity]
    #[arg(long, value_name = "SIZE")]
    max_capacity: Option<Size>,
    /// Size of a block, the unit of deduplication: a power of two from 512 bytes to 1m [default:
    /// 4k, or as the domain was created]
    #[arg(long, value_name = "SIZE")]
    block_size: Option<Size>,
    /// Policy of the metadata, to compare published designs; docs/reference/metadata.md describes
    /// them [default: compact]
    #[arg(long, value_name = "POLICY", value_parser = policy_parser(), hide_short_help = true)]
    policy: Option<Policy>,
    /// Memory that the metadata may take when the pool is full; their cache gets what the index
    /// leaves, as far as they need it
    #[arg(long, value_name = "SIZE", conflicts_with = "metadata-cache")]
    memory: Option<Size>,
    /// Hash by which equal contents are found [default: blake3, or as the domain was created]
    #[arg(long, value_name = "KIND")]
    fingerprint: Option<FingerprintOption>,
    /// Compress contents: off, lz4, zstd or zstd:LEVEL, where LEVEL is 1 to 19. A pool made without
    /// it cannot compress later [default: off]
    #[arg(long, value_name = "KIND", value_parser = parse_compression)]
    compression: Option<Compression>,
    /// Overwrite a device that holds data, if it is given with --data or --metadata, or destroy
    /// the data of a member of a domain, which is named first
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    settings: SettingOptions<OfPoolsHidden>,
}

/// Makes the parser of the names of policies. The help lists all of them.
fn policy_parser() -> impl TypedValueParser<Value = Policy> {
    let value = |kind: Policy| PossibleValue::new(kind.name()).help(about_policy(kind));
    PossibleValuesParser::new(Policy::ALL.map(value))
        .try_map(|name| Policy::from_name(&name).ok_or("unknown policy"))
}

choice!(
    /// The kinds of fingerprints as values of options.
    pub(crate) FingerprintOption is FingerprintKind {
        /// BLAKE3 with a key of the pool, so that collisions cannot be prepared
        Blake3,
        /// XXH3, which is faster; bytes are always compared before a block is shared
        #[value(name = "xxh3+compare")]
        Xxh3Compare,
        /// SHA-256 with a key of the pool
        Sha256,
        /// SHA-1, for comparison with other systems; bytes are always compared before a block is
        /// shared
        Sha1,
    }
);

impl Arguments {
    fn settings(&self, options: &PoolOptions) -> crate::Result<Settings> {
        let mut pool = self.settings.values();
        if let (Some(known), Some(memory)) = (setting("metadata-cache"), self.memory) {
            let bytes = options.cache_within(memory.0, self.sampling()).or_bad_input()?;
            pool.set(known, Some(Value::Size(bytes)));
        }
        Ok(Settings { pool, ..Settings::default() })
    }

    fn sampling(&self) -> IndexSampling {
        self.settings.values().tuning().index_sampling
    }

    fn options(&self) -> crate::Result<PoolOptions> {
        let usual = PoolOptions::default();
        let capacity_bytes = match (self.capacity, &self.data) {
            (Some(size), _) => size.0,
            (None, Some(data)) => device_bytes(data)?.unwrap_or(usual.capacity_bytes),
            (None, None) => usual.capacity_bytes,
        };
        // A metadata file in another directory has the same name as in the pool's directory.
        let metadata = self.metadata.as_ref().map(|place| match place.is_dir() {
            true => place.join("metadata"),
            false => place.clone(),
        });
        Ok(PoolOptions {
            // The greatest value is refused as a block size.
            block_bytes: self
                .block_size
                .map_or(usual.block_bytes, |size| u32::try_from(size.0).unwrap_or(u32::MAX)),
            capacity_bytes,
            max_capacity_bytes: self.max_capacity.map(|size| size.0),
            fingerprint: self.fingerprint.map_or(usual.fingerprint, Into::into),
            policy: self.policy.unwrap_or(usual.policy),
            compression: self.compression.filter(|kind| *kind != Compression::Off),
            data: self.data.clone(),
            metadata,
            force: self.force,
            ..usual
        })
    }

    /// Refuses a sample for an index on disk, which has every content.
    fn check_sample(&self, options: &PoolOptions) -> crate::Result<()> {
        if self.sampling() == IndexSampling::ALL || options.policy.index() == IndexForm::Memory {
            return Ok(());
        }
        Err(refused!(
            "--index-sample is for an index in memory, and the policy {} has it on disk: leave out \
             one of them",
            options.policy.name()
        ))
    }
}

impl Arguments {
    /// Refuses the options that a member takes from its domain, or that only disks have.
    fn refuse_for_member(&self) -> crate::Result<()> {
        let of_domain = "all members of a domain have what 'gemelo domain create' was given";
        let of_disk = "a member has no disk of its own";
        let given = [
            ("--block-size", self.block_size.is_some(), of_domain),
            ("--fingerprint", self.fingerprint.is_some(), of_domain),
            ("--data", self.data.is_some(), of_disk),
            ("--metadata", self.metadata.is_some(), of_disk),
            ("--io", self.settings.values().get("io").is_some(), of_disk),
        ];
        match given.iter().find(|(_, is_given, _)| *is_given) {
            None => Ok(()),
            Some((option, _, why)) => Err(refused!("{}: leave out {option}: {why}", self.pool)),
        }
    }
}

/// Returns the size of a block device in bytes; [`None`] for any other file.
fn device_bytes(path: &Path) -> crate::Result<Option<u64>> {
    use std::io::Seek;
    use std::os::unix::fs::FileTypeExt;
    let is_device =
        std::fs::metadata(path).is_ok_and(|status| status.file_type().is_block_device());
    if !is_device {
        return Ok(None);
    }
    let end =
        std::fs::File::open(path).and_then(|mut device| device.seek(std::io::SeekFrom::End(0)));
    Ok(Some(end.or_bad_input()?))
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let options = arguments.options()?;
    arguments.check_sample(&options)?;
    let settings = arguments.settings(&options)?;
    // A pool that could not be served with its own settings is not made.
    settings.pool.fit(gemelo_base::memory::of_process())?;
    let pool = &arguments.pool;
    let about = |failure: RequestFailure| failure.about(&pool.to_string());
    let options = match pool {
        PoolPlace::Directory(directory) => {
            for place in [Some(directory), options.data.as_ref(), options.metadata.as_ref()] {
                place.map_or(Ok(()), |place| files::check_beside_pools(place))?;
            }
            let new = NewPool::make(directory, &options).map_err(|error| about(error.into()))?;
            settings.write(directory)?;
            new.keep();
            options
        }
        PoolPlace::Member(member) => {
            arguments.refuse_for_member()?;
            let text = (!settings.pool.is_empty()).then(|| settings.text());
            let texts: Vec<(&str, &str)> =
                text.iter().map(|text| (SETTINGS_FILE, text.as_str())).collect();
            let monitor = &*context.monitor;
            member.create(&options, &texts, monitor).map_err(|error| about(error.into()))?
        }
    };
    context.print(&format!(
        "{pool}: a pool of {} in blocks of {}\n",
        format_size(options.capacity_bytes),
        format_size(u64::from(options.block_bytes)),
    ))?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::OrFailed as _;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn made(line: &str) -> crate::Result<(Policy, Option<u64>)> {
        let Line { arguments } = Line::try_parse_from(line.split(' ')).or_failed()?;
        let options = arguments.options()?;
        arguments.check_sample(&options)?;
        Ok((options.policy, arguments.settings(&options)?.pool.size("metadata-cache")))
    }

    #[test]
    fn the_cache_is_given_or_follows_from_the_memory() {
        assert_eq!(made("create p").unwrap(), (Policy::Compact, None));
        assert_eq!(made("create p --policy inram").unwrap(), (Policy::InRam, None));
        let cache = |line: &str| made(line).unwrap().1.unwrap() >> 20;
        assert_eq!(cache("create p --metadata-cache 16m"), 16);
        // A small pool needs less than it may have.
        assert_eq!(cache("create p --capacity 64m --memory 64g"), 3);
        assert!((1..256).contains(&cache("create p --capacity 1t --memory 1400m")));
        assert!((2400..3072).contains(&cache("create p --capacity 1t --memory 4g")));
        assert!(made("create p --index-sample 32").is_ok());
        let bad = [
            "--memory 100m",
            "--memory 1g --metadata-cache 16m",
            "--policy dtb --index-sample 32",
            "--policy log",
            "--backend compact",
        ];
        for bad in bad {
            assert!(made(&format!("create p --capacity 1t {bad}")).is_err(), "{bad}");
        }
    }
}
