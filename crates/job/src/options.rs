//! The options of a job. Each is also a key of the job file, with the same name and the same values,
//! because the keys of the file go through the same parser.

use clap::{Args, ValueEnum};
use gemelo_base::values::{Percent, Size, Span};
use gemelo_content::AssignmentMode;
use gemelo_load::{JobOperation, Populate, SyncPolicy, Verify};
use gemelo_pattern::Pattern;
use gemelo_target::{Engine, TargetUri};
use std::path::PathBuf;

/// Names of a library's choices, with their help.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident is $of:ty { $($(#[$variant_doc:meta])* $variant:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
        pub enum $name { $($(#[$variant_doc])* $variant),* }

        impl From<$name> for $of {
            fn from(choice: $name) -> Self {
                match choice { $($name::$variant => Self::$variant),* }
            }
        }
    };
}

choice!(
    /// What operations do.
    OperationChoice is JobOperation {
        /// Write blocks
        Write,
        /// Read blocks
        Read,
        /// Both, see --write-share
        Mixed,
    }
);

choice!(
    /// How operations reach the target.
    EngineChoice is Engine {
        /// One system call an operation
        Psync,
        /// Linux io_uring, with --queue-depth operations under way
        IoUring,
    }
);

choice!(
    /// How far a write has to get.
    SyncChoice is SyncPolicy {
        /// Into the page cache
        None,
        /// Past the page cache (O_DIRECT)
        Direct,
        /// Into the page cache, with an fsync every --fsync-every writes
        Fsync,
        /// O_DIRECT and fsync
        Both,
    }
);

choice!(
    /// What files hold before the run.
    PopulateChoice is Populate {
        /// Blocks never written
        None,
        /// Zeros
        Zero,
        /// Contents of the distribution
        Content,
    }
);

choice!(
    /// When blocks are checked.
    VerifyChoice is Verify {
        /// Never
        None,
        /// Every block that the run reads
        Online,
        /// All blocks after the run
        Final,
        /// Both
        Both,
    }
);

choice!(
    /// How contents are assigned to writes.
    ContentChoice is AssignmentMode {
        /// Every data set carries the distribution exactly
        Exact,
        /// Every block is drawn, as DEDISbench does
        Sampled,
    }
);

/// A struct of options, all of which may be absent, that can be laid over another.
macro_rules! options {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Args)]
        pub struct $name { $($(#[$field_doc])* pub $field: Option<$type>),* }

        impl $name {
            /// Returns these options, and the other's where one is absent.
            #[must_use]
            pub fn or(self, other: Self) -> Self {
                Self { $($field: self.$field.or(other.$field)),* }
            }
        }
    };
}

options!(
    /// What is written.
    ContentOptions {
        /// Duplicates: a built-in distribution, a DEDISbench file or a profile [default: personal]
        #[arg(long, value_name = "NAME|FILE", help_heading = "Content")]
        distribution: String,
        /// How contents are assigned to writes [default: exact]
        #[arg(long, value_enum, value_name = "HOW", help_heading = "Content")]
        content: ContentChoice,
        /// Byte entropy of contents, 0 to 8 bits a byte [default: the profile's, or 8]
        #[arg(long, value_name = "BITS", help_heading = "Content")]
        entropy: f64,
        /// What LZ4 and zstd -1 save on contents [default: the profile's, or 0]
        #[arg(long, value_name = "PERCENT", help_heading = "Content")]
        compressibility: Percent,
        /// Decides contents and places; the same seed gives the same duplicates everywhere [default: 1]
        #[arg(long, value_name = "N", help_heading = "Content")]
        seed: u64,
        /// Tells unique contents of runs and hosts apart; name one to repeat a run byte by byte [default: random]
        #[arg(long, value_name = "N", help_heading = "Content")]
        run_id: u64,
        /// Mean distance between copies of a content, in blocks [default: spread over the data set]
        #[arg(long, value_name = "BLOCKS", help_heading = "Content")]
        duplicate_distance: u64,
        /// Contents that differ from another in a few bytes [default: 0]
        #[arg(long, value_name = "PERCENT", help_heading = "Content")]
        similar: Percent,
        /// Contents that are another's, moved by some bytes [default: 0]
        #[arg(long, value_name = "PERCENT", help_heading = "Content")]
        shifted: Percent,
        /// Size of a block [default: 4k]
        #[arg(long, value_name = "SIZE", help_heading = "Content")]
        block_size: Size,
    }
);

options!(
    /// Where load goes, and which.
    LoadOptions {
        /// A directory (a file for each process); a file, a block device, pool:DIRECTORY/VOLUME, nbd://HOST/EXPORT or
        /// nbd+unix:///EXPORT?socket=PATH (a region for each process); or null:
        #[arg(long, value_name = "URI", help_heading = "Target")]
        target: TargetUri,
        /// Size of each process's file or region [default: 1g, or a share of the device, volume or export]
        #[arg(long, value_name = "SIZE", help_heading = "Target")]
        file_size: Size,
        /// Independent streams, each in a thread [default: 1]
        #[arg(long, value_name = "N", help_heading = "Target")]
        processes: u32,
        /// What files hold before the run [default: content for read and mixed, else none]
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
        /// What operations do [default: write]
        #[arg(long, value_enum, value_name = "WHAT", help_heading = "Load")]
        operation: OperationChoice,
        /// Writes among the operations of a mixed job [default: 50]
        #[arg(long, value_name = "PERCENT", help_heading = "Load")]
        write_share: Percent,
        /// sequential, uniform, nurand[:A], zipf:THETA or hotspot:ACCESSES/BLOCKS in percent [default: sequential]
        #[arg(long, value_name = "PATTERN", help_heading = "Load")]
        pattern: Pattern,
        /// As fast as the target takes it (the default)
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL",
            help_heading = "Load")]
        peak: bool,
        /// Operations a second of each process; latency then counts from when each should have started
        #[arg(long, value_name = "OPS", help_heading = "Load")]
        rate: f64,
        /// Reads a second of each process of a mixed job
        #[arg(long, value_name = "OPS", help_heading = "Load")]
        read_rate: f64,
        /// Writes a second of each process of a mixed job
        #[arg(long, value_name = "OPS", help_heading = "Load")]
        write_rate: f64,
        /// End after this long
        #[arg(long, value_name = "DURATION", help_heading = "Load")]
        time: Span,
        /// End after this much, over all processes [default, without --time: each file once]
        #[arg(long, value_name = "SIZE", help_heading = "Load")]
        bytes: Size,
        /// Operations under way in each process; for pool: the length of its batches [default: 1, or 32 with io-uring]
        #[arg(long, value_name = "N", help_heading = "Load")]
        queue_depth: u32,
        /// How operations reach files and devices [default: psync, or io-uring with --queue-depth above 1]
        #[arg(long, value_enum, value_name = "HOW", help_heading = "Load")]
        engine: EngineChoice,
        /// How far a write has to get [default: none]
        #[arg(long, value_enum, value_name = "HOW", help_heading = "Load")]
        sync: SyncChoice,
        /// Writes between two fsyncs, with --sync fsync or both [default: 1]
        #[arg(long, value_name = "N", help_heading = "Load")]
        fsync_every: u64,
        /// When blocks are checked [default: none]
        #[arg(long, value_enum, value_name = "WHEN", help_heading = "Measurement")]
        verify: VerifyChoice,
        /// Leave this long at the start out of the measurement [default: 0]
        #[arg(long, value_name = "DURATION", help_heading = "Measurement")]
        ramp_up: Span,
        /// Leave this long at the end out of the measurement [default: 0]
        #[arg(long, value_name = "DURATION", help_heading = "Measurement")]
        cool_down: Span,
        /// Length of an interval of the time series [default: 1s]
        #[arg(long, value_name = "DURATION", help_heading = "Measurement")]
        interval: Span,
        /// Write the accesses to each block, a line `<block> <accesses>` each
        #[arg(long, value_name = "FILE", help_heading = "Measurement")]
        access_log: PathBuf,
        /// Write every operation, 24 bytes each; `gemelo log FILE` prints them
        #[arg(long, value_name = "FILE", help_heading = "Measurement")]
        log: PathBuf,
    }
);

/// All options of a job.
#[derive(Debug, Clone, Default, PartialEq, Args)]
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
}

impl JobOptions {
    /// Returns these options, and the other's where one is absent.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            name: self.name.or(other.name),
            content: self.content.or(other.content),
            load: self.load.or(other.load),
        }
    }
}
