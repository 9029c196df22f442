//! The options of a job. Each is also a key of the job file, with the same name and the same
//! values, because the keys of the file go through the same parser.

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use gemelo_base::values::{Percent, Size, Span, parse_rate};
use gemelo_content::{AssignmentMode, ContentSpec};
use gemelo_load::{JobOperation, Populate, SyncPolicy, Verify};
use gemelo_pattern::Pattern;
use gemelo_target::{Engine, TargetUri};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Makes an enum of option values, with their help, for an enum of a library.
#[macro_export]
macro_rules! choice {
    (
        $(#[$doc:meta])*
        $visible:vis $name:ident is $of:ty { $($(#[$variant_doc:meta])* $variant:ident),* $(,)? }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[derive(::clap::ValueEnum, ::serde::Serialize, ::serde::Deserialize)]
        $visible enum $name { $($(#[$variant_doc])* $variant),* }

        impl From<$name> for $of {
            fn from(choice: $name) -> Self {
                match choice { $($name::$variant => Self::$variant),* }
            }
        }
    };
}

choice!(
    /// The kinds of operations of a job.
    pub OperationChoice is JobOperation {
        /// Write blocks
        Write,
        /// Read blocks
        Read,
        /// Read and write blocks in the ratio of --write-share
        Mixed,
    }
);

choice!(
    /// The interface through which operations reach the target.
    pub EngineChoice is Engine {
        /// One system call for each operation
        Psync,
        /// Linux io_uring, with --queue-depth operations in flight
        IoUring,
    }
);

choice!(
    /// The path that writes take to storage.
    pub SyncChoice is SyncPolicy {
        /// Writes go to the page cache
        None,
        /// Writes and reads bypass the page cache (O_DIRECT)
        Direct,
        /// Writes go to the page cache, with an fdatasync every --fsync-every writes
        Fsync,
        /// Both O_DIRECT and fdatasync
        Both,
    }
);

choice!(
    /// The data of files before the run.
    pub PopulateChoice is Populate {
        /// Files have blocks that were never written
        None,
        /// Files are filled with zeros
        Zero,
        /// Files are filled with contents of the distribution
        Content,
    }
);

choice!(
    /// The time at which data are checked.
    pub VerifyChoice is Verify {
        /// Nothing is checked
        None,
        /// Each block is checked when the run reads it
        Online,
        /// All blocks are checked after the run
        Final,
        /// Blocks are checked when they are read, and all after the run
        Both,
    }
);

choice!(
    /// The method by which contents are assigned to writes.
    pub ContentChoice is AssignmentMode {
        /// Each data set has exactly the distribution
        Exact,
        /// The content of each block is drawn at random, as by DEDISbench
        Sampled,
    }
);

/// Makes a struct of options. Each may be absent, and then taken from another value of the struct.
macro_rules! options {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
        pub struct $name { $($(#[$field_doc])* pub $field: Option<$type>),* }

        impl $name {
            /// Returns these options. Absent ones are taken from `other`.
            #[must_use]
            pub fn or(self, other: Self) -> Self {
                Self { $($field: self.$field.or(other.$field)),* }
            }
        }
    };
}

/// Reads the name of a file, which need not be UTF-8, as [`gemelo_base::text_of_name`] writes it.
fn distribution_name() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|name| gemelo_base::text_of_name(&name))
}

options!(
    /// The contents that are written.
    ContentOptions {
        /// Distribution of duplicates: a built-in one, a DEDISbench file or a profile [default:
        /// personal]
        #[arg(
            long,
            value_name = "NAME|FILE",
            help_heading = "Content",
            value_parser = distribution_name()
        )]
        distribution: String,
        /// Method by which contents are assigned to writes [default: exact]
        #[arg(long, value_enum, value_name = "HOW", help_heading = "Content")]
        content: ContentChoice,
        /// Byte entropy of contents, from 0 to 8 bits a byte [default: the profile's, or 8]
        #[arg(long, value_name = "BITS", help_heading = "Content")]
        entropy: f64,
        /// Share of bytes that LZ4 and zstd -1 save on contents, in percent [default: the
        /// profile's, or 0]
        #[arg(long, value_name = "PERCENT", help_heading = "Content")]
        compressibility: Percent,
        /// Seed of contents; loads with the same seed have duplicates in common [default: 1]
        #[arg(long, value_name = "N", help_heading = "Content")]
        content_seed: u64,
        /// Seed of everything else: places, hot spots, and which write gets which content [default:
        /// 1]
        #[arg(long, value_name = "N", help_heading = "Content")]
        seed: u64,
        /// Run id, which makes the unique contents of runs and hosts differ; set it to repeat a run
        /// byte by byte [default: random]
        #[arg(long, value_name = "N", help_heading = "Content")]
        run_id: u64,
        /// Mean distance between copies of a content, in blocks [default: copies are spread over
        /// the data set]
        #[arg(long, value_name = "BLOCKS", help_heading = "Content")]
        duplicate_distance: u64,
        /// Share of contents that differ from another content in a few bytes, in percent [default:
        /// 0]
        #[arg(long, value_name = "PERCENT", help_heading = "Content")]
        similar: Percent,
        /// Share of blocks whose contents no other host has, in percent; a load with such blocks
        /// runs on several hosts [default: 0]
        #[arg(long, value_name = "PERCENT", help_heading = "Content")]
        private_share: Percent,
        /// Share of contents that equal another content moved by some bytes, in percent [default:
        /// 0]
        #[arg(long, value_name = "PERCENT", help_heading = "Content")]
        shifted: Percent,
        /// Size of a block [default: 4k]
        #[arg(long, value_name = "SIZE", help_heading = "Content")]
        block_size: Size,
    }
);

options!(
    /// The target, the load and the measurement.
    LoadOptions {
        /// Target of the load: a directory (with a file for each process), a file, a block device,
        /// pool:DIRECTORY/VOLUME, nbd://HOST/EXPORT, nbd+unix:///EXPORT?socket=PATH or
        /// vhost-user:SOCKET (with a region for each process), or null:
        #[arg(long, value_name = "URI", help_heading = "Target")]
        target: TargetUri,
        /// Size of each process's file or region [default: 1g, or an equal share of the device,
        /// volume or export]
        #[arg(long, value_name = "SIZE", help_heading = "Target")]
        file_size: Size,
        /// Number of processes, which are independent streams of operations, each in a thread
        /// [default: 1]
        #[arg(long, value_name = "N", help_heading = "Target")]
        processes: u32,
        /// Data of the files before the run [default: content for read and mixed, else none]
        #[arg(long, value_enum, value_name = "WHAT", help_heading = "Target")]
        populate: PopulateChoice,
        /// Keep the files after the run
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
            help_heading = "Target")]
        keep: bool,
        /// Overwrite existing files and results, and devices, volumes and exports that hold data
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
            help_heading = "Target")]
        force: bool,
        /// Kind of operations [default: write]
        #[arg(long, value_enum, value_name = "WHAT", help_heading = "Load")]
        operation: OperationChoice,
        /// Share of writes among the operations of a mixed job, in percent [default: 50]
        #[arg(long, value_name = "PERCENT", help_heading = "Load")]
        write_share: Percent,
        /// Bytes of each operation, a multiple of --block-size [default: the block size]
        #[arg(long, value_name = "SIZE", help_heading = "Load")]
        request_size: Size,
        /// Access pattern: sequential, uniform, nurand[:A], zipf:THETA, or hotspot:ACCESSES/BLOCKS
        /// in percent [default: sequential]
        #[arg(long, value_name = "PATTERN", help_heading = "Load")]
        pattern: Pattern,
        /// Run as fast as the target allows (the default)
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
            help_heading = "Load")]
        peak: bool,
        /// Operations a second of each process, such as 250 or 100k; latency then counts from the
        /// due time of an operation
        #[arg(long, value_name = "OPS", value_parser = parse_rate, help_heading = "Load")]
        rate: f64,
        /// Reads a second of each process of a mixed job
        #[arg(long, value_name = "OPS", value_parser = parse_rate, help_heading = "Load")]
        read_rate: f64,
        /// Writes a second of each process of a mixed job
        #[arg(long, value_name = "OPS", value_parser = parse_rate, help_heading = "Load")]
        write_rate: f64,
        /// Length of the run [default: no limit]
        #[arg(long, value_name = "DURATION", help_heading = "Load")]
        time: Span,
        /// Bytes that all processes together read and write [default: no limit with --time, else
        /// the size of all files]
        #[arg(long, value_name = "SIZE", help_heading = "Load")]
        bytes: Size,
        /// Operations in flight of each process; on pool: the length of a batch [default: 1, or 32
        /// with io-uring]
        #[arg(long, value_name = "N", help_heading = "Load")]
        queue_depth: u32,
        /// Interface to files and devices [default: psync, or io-uring with --queue-depth above 1]
        #[arg(long, value_enum, value_name = "HOW", help_heading = "Load")]
        engine: EngineChoice,
        /// Path that writes take to storage [default: none]
        #[arg(long, value_enum, value_name = "HOW", help_heading = "Load")]
        sync: SyncChoice,
        /// Writes of a process from one fdatasync to the next, with --sync fsync or both [default:
        /// 1]
        #[arg(long, value_name = "N", help_heading = "Load")]
        fsync_every: u64,
        /// Time at which data are checked [default: none]
        #[arg(long, value_enum, value_name = "WHEN", help_heading = "Measurement")]
        verify: VerifyChoice,
        /// Length of the start of the run that is not measured [default: 0s]
        #[arg(long, value_name = "DURATION", help_heading = "Measurement")]
        ramp_up: Span,
        /// Length of the end of the run that is not measured [default: 0s]
        #[arg(long, value_name = "DURATION", help_heading = "Measurement")]
        cool_down: Span,
        /// Length of the intervals of the time series [default: 1s]
        #[arg(long, value_name = "DURATION", help_heading = "Measurement")]
        interval: Span,
        /// Write the number of accesses to each block to this file, as lines `<block> <accesses>`
        #[arg(long, value_name = "FILE", help_heading = "Measurement")]
        #[serde(with = "gemelo_base::names::optional_path", default)]
        access_log: PathBuf,
        /// Write each operation to this log of 24 bytes an operation; `gemelo log FILE` prints it
        #[arg(long, value_name = "FILE", help_heading = "Measurement")]
        #[serde(with = "gemelo_base::names::optional_path", default)]
        log: PathBuf,
    }
);

/// All options of a job.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
pub struct JobOptions {
    /// The target, the load and the measurement.
    #[command(flatten)]
    pub load: LoadOptions,
    /// The contents that are written.
    #[command(flatten)]
    pub content: ContentOptions,
    /// Name of the job in the output
    #[arg(long, value_name = "NAME", help_heading = "Measurement")]
    pub name: Option<String>,
    /// The contents that the options describe, for other hosts, which then need none of the files
    /// that the options name.
    #[arg(skip)]
    pub spec: Option<ContentSpec>,
}

impl JobOptions {
    /// Returns these options. Absent ones are taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            name: self.name.or(other.name),
            content: self.content.or(other.content),
            load: self.load.or(other.load),
            spec: self.spec,
        }
    }
}
