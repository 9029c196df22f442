//! `gemelo pool create`.

use crate::context::Context;
use crate::exit::{OrBadInput, Outcome, bad_input};
use crate::values::{OnOff, io_mode_parser, parse_compression, pool_place_parser};
use anyhow::anyhow;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use gemelo_base::units::format_size;
use gemelo_base::values::{Size, Span};
use gemelo_disk::IoMode;
use gemelo_format::{BackendKind, Compression, FingerprintKind};
use gemelo_job::choice;
use gemelo_place::PoolPlace;
use gemelo_serve::{RequestFailure, SETTINGS, Settings};
use gemelo_volume::{ChosenBackend, IndexSampling, NewPool, PoolOptions, Tuning, about_backend};
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
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Size>,
    /// Size to which the data store may be grown later, if that is more than 2^32 blocks (16t of
    /// 4k), which only the backend compact can have [default: 2^32 blocks, or the capacity]
    #[arg(long, value_name = "SIZE")]
    max_capacity: Option<Size>,
    /// Size of a block, the unit of deduplication: a power of two from 512 bytes to 1m [default:
    /// 4k, or as the domain was created]
    #[arg(long, value_name = "SIZE")]
    block_size: Option<Size>,
    /// Backend that keeps the metadata [default: compact, or by --memory]
    #[arg(long, value_name = "KIND", value_parser = backend_parser())]
    backend: Option<BackendKind>,
    /// Choose the fastest of the backends log, compact and table whose metadata fit in this memory
    /// when the pool is full
    #[arg(long, value_name = "SIZE", conflicts_with = "backend")]
    memory: Option<Size>,
    /// Memory for pages and changes of metadata with the backends table, btree and compact
    /// [default: 256m]
    #[arg(long, value_name = "SIZE")]
    metadata_cache: Option<Size>,
    /// Contents of which one is in the index of the backend compact: a power of two from 1 to 1024.
    /// Others are found if they were written beside one that is [default: 1]
    #[arg(long, value_name = "COUNT")]
    index_sample: Option<IndexSampling>,
    /// Memory for contents that were written lately, while the pool is open; 0 for none [default:
    /// 256m; 0 where the system keeps what was written in memory]
    #[arg(long, value_name = "SIZE")]
    cache: Option<Size>,
    /// Hash by which equal contents are found [default: blake3, or as the domain was created]
    #[arg(long, value_name = "KIND")]
    fingerprint: Option<FingerprintOption>,
    /// Compress contents: off, lz4, zstd or zstd:LEVEL, where LEVEL is 1 to 19. A pool made without
    /// it cannot compress later [default: off]
    #[arg(long, value_name = "KIND", value_parser = parse_compression)]
    compression: Option<Compression>,
    /// Make writes durable after this time at the latest, even if no client flushes [default: 5s]
    #[arg(long, value_name = "DURATION")]
    commit_interval: Option<Span>,
    /// Compare bytes before a block is shared, with every kind of fingerprint
    #[arg(long)]
    verify_bytes: bool,
    /// Compare contents with their checksums at every read, so that damage is an error and never a
    /// wrong content [default: on]
    #[arg(long, value_name = "on|off")]
    verify_reads: Option<OnOff>,
    /// Select whether writes bypass the page cache. Where the file system has no direct writes they
    /// are buffered in any case [default: direct]
    #[arg(long, value_name = "direct|buffered", value_parser = io_mode_parser())]
    io: Option<IoMode>,
    /// Most data to move a second while the pool is idle, so that neighbouring blocks are stored
    /// side by side; 0 for none [default: 50m]
    #[arg(long, value_name = "SIZE")]
    layout_rate: Option<Size>,
    /// Overwrite a device that holds data, if it is given with --data or --metadata, or destroy
    /// the data of a member of a domain, which is named first
    #[arg(long)]
    force: bool,
}

/// Makes the parser of backend names. The help lists all backends.
fn backend_parser() -> impl TypedValueParser<Value = BackendKind> {
    let value = |kind: BackendKind| PossibleValue::new(kind.name()).help(about_backend(kind));
    PossibleValuesParser::new(BackendKind::ALL.map(value))
        .try_map(|name| BackendKind::from_name(&name).ok_or("unknown backend"))
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
    fn settings(&self) -> Settings {
        Settings {
            commit_interval_ms: self
                .commit_interval
                .map(|span| u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX)),
            verify_reads: self.verify_reads.map(OnOff::is_on),
            verify_bytes: self.verify_bytes.then_some(true),
            io: self.io,
            metadata_cache_bytes: self.metadata_cache.map(|cache| cache.0),
            index_sample: self.index_sample,
            cache_bytes: self.cache.map(|cache| cache.0),
            layout_bytes_per_s: self.layout_rate.map(|rate| rate.0),
            ..Settings::default()
        }
    }

    fn options(&self) -> anyhow::Result<PoolOptions> {
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
            backend: self.backend.unwrap_or(usual.backend),
            compression: self.compression.filter(|kind| *kind != Compression::Off),
            data: self.data.clone(),
            metadata,
            force: self.force,
            ..usual
        })
    }

    /// Sets the backend that fits in the memory, and returns a line that says why. Refuses a sample
    /// for a backend that has none.
    fn choose_backend(&self, options: &mut PoolOptions) -> anyhow::Result<Option<String>> {
        let choice = self.choose_by_memory(options)?;
        let kind = options.backend;
        if self.index_sample.is_some_and(|sample| sample != IndexSampling::ALL)
            && kind != BackendKind::Compact
        {
            return Err(bad_input(anyhow!(
                "--index-sample is for the backend compact, and this pool would have {}: give \
                 --backend compact, or leave it out",
                kind.name()
            )));
        }
        Ok(choice)
    }

    fn choose_by_memory(&self, options: &mut PoolOptions) -> anyhow::Result<Option<String>> {
        let Some(memory) = self.memory else { return Ok(None) };
        let cache_bytes =
            self.metadata_cache.map_or(Tuning::default().cache_bytes, |cache| cache.0);
        let sampling = self.index_sample.unwrap_or(IndexSampling::ALL);
        let ChosenBackend { backend, memory_bytes, too_large } =
            options.choose_backend(memory.0, (cache_bytes, sampling)).or_bad_input()?;
        options.backend = backend;
        let others = too_large.iter().map(|(other, bytes)| {
            format!(", and {} would take {}", other.name(), format_size(*bytes))
        });
        Ok(Some(format!(
            "backend {}: when the pool is full, its metadata take {} of memory{}\n",
            backend.name(),
            format_size(memory_bytes),
            others.collect::<String>(),
        )))
    }
}

impl Arguments {
    /// Refuses the options that a member takes from its domain, or that only disks have.
    fn refuse_for_member(&self) -> anyhow::Result<()> {
        let of_domain = "all members of a domain have what 'gemelo domain create' was given";
        let of_disk = "a member has no disk of its own";
        let given = [
            ("--block-size", self.block_size.is_some(), of_domain),
            ("--fingerprint", self.fingerprint.is_some(), of_domain),
            ("--data", self.data.is_some(), of_disk),
            ("--metadata", self.metadata.is_some(), of_disk),
            ("--io", self.io.is_some(), of_disk),
        ];
        match given.iter().find(|(_, is_given, _)| *is_given) {
            None => Ok(()),
            Some((option, _, why)) => {
                Err(bad_input(anyhow!("{}: leave out {option}: {why}", self.pool)))
            }
        }
    }
}

/// Returns the size of a block device in bytes; [`None`] for any other file.
fn device_bytes(path: &Path) -> anyhow::Result<Option<u64>> {
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

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let mut options = arguments.options()?;
    let choice = arguments.choose_backend(&mut options)?;
    // A pool that could not be served with its own settings is not made.
    arguments.settings().fit(gemelo_base::memory::of_machine())?;
    let pool = &arguments.pool;
    let about = |failure: RequestFailure| failure.about(&pool.to_string());
    let options = match pool {
        PoolPlace::Directory(directory) => {
            let new = NewPool::make(directory, &options).map_err(|error| about(error.into()))?;
            arguments.settings().write(directory)?;
            new.keep();
            options
        }
        PoolPlace::Member(member) => {
            arguments.refuse_for_member()?;
            let text = arguments.settings().text()?;
            let texts: Vec<(&str, &str)> =
                text.iter().map(|text| (SETTINGS, text.as_str())).collect();
            let monitor = &*context.monitor;
            member.create(&options, &texts, monitor).map_err(|error| about(error.into()))?
        }
    };
    context.print(&format!(
        "{pool}: a pool of {} in blocks of {}\n",
        format_size(options.capacity_bytes),
        format_size(u64::from(options.block_bytes)),
    ))?;
    choice.map_or(Ok(()), |choice| context.print(&choice))?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn choose(line: &str) -> anyhow::Result<(BackendKind, Option<String>)> {
        let Line { arguments } = Line::try_parse_from(line.split(' '))?;
        let mut options = arguments.options()?;
        let choice = arguments.choose_backend(&mut options)?;
        Ok((options.backend, choice))
    }

    #[test]
    fn the_backend_is_given_or_follows_from_the_memory() {
        assert_eq!(choose("create p").unwrap(), (BackendKind::Compact, None));
        assert_eq!(choose("create p --backend ram").unwrap(), (BackendKind::Ram, None));
        let (backend, choice) = choose("create p --capacity 1t --memory 2g").unwrap();
        let choice = choice.unwrap();
        assert_eq!(backend, BackendKind::Compact);
        assert!(choice.starts_with("backend compact: when the pool is full"), "{choice}");
        assert!(choice.contains(", and log would take "), "{choice}");
        assert_eq!(choose("create p --memory 64g").unwrap().0, BackendKind::Log);
        let small = choose("create p --capacity 1t --memory 100m --metadata-cache 16m").unwrap();
        assert_eq!(small.0, BackendKind::Table);
        assert!(choose("create p --backend compact --index-sample 32").is_ok());
        let bad = ["--memory 100m --cache 16m", "--memory 1g --backend log", "--index-sample 32"];
        for bad in bad {
            assert!(choose(&format!("create p --capacity 1t {bad}")).is_err(), "{bad}");
        }
    }
}
