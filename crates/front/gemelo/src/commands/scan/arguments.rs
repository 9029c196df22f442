//! The options of `gemelo scan`.

use super::merge::MergeArguments;
use super::outputs::ScanOutputs;
use crate::commands::hosts::HostOptions;
use crate::values::parse_compression;
use clap::{Args, Subcommand};
use gemelo_base::units::parse_size;
use gemelo_base::values::Size;
use gemelo_format::Compression;
use gemelo_job::choice;
use gemelo_scan::{Counting, ScanFingerprintKind, ScanRequest, TailPolicy};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Count the duplicate blocks of files, directories and block devices
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Option<Action>,
    #[command(flatten)]
    pub(super) scan: ScanArguments,
}

#[derive(Debug, Subcommand)]
pub(super) enum Action {
    Merge(MergeArguments),
}

#[derive(Debug, Args)]
pub(super) struct ScanArguments {
    /// Files, directories with everything below them, and block devices; only symbolic links that
    /// are given here are followed
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Block sizes, multiples of 512 bytes up to 1m; all are counted in one reading pass
    #[arg(long, value_name = "SIZE,...", default_value = "4k", value_delimiter = ',', value_parser = block_size)]
    pub(super) block_size: Vec<u32>,
    /// Treatment of a file's last block if it is short
    #[arg(long, value_enum, default_value_t = Tail::Keep)]
    tail: Tail,
    /// Hash function of the fingerprints, which have 128 bits
    #[arg(long, value_enum, default_value_t = FingerprintOption::Xxh3)]
    fingerprint: FingerprintOption,
    /// Predict the space that the data take in a pool with these compressions: off, lz4, zstd or
    /// zstd:LEVEL. Block sizes are those of pools then, up to 64k
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', value_parser = parse_compression, conflicts_with = "hosts")]
    compression: Vec<Compression>,
    /// Skip files and directories that match; a glob without / matches names at any depth, a glob
    /// with / matches paths relative to PATH
    #[arg(long, value_name = "GLOB", help_heading = "Files")]
    exclude: Vec<String>,
    /// Skip directories on file systems other than those of the paths
    #[arg(long, help_heading = "Files")]
    one_file_system: bool,
    /// Count a file once for each of its hard links [default: once]
    #[arg(long, help_heading = "Files")]
    count_hard_links: bool,
    /// Also report savings by directory, down to this depth below each PATH, and the files that
    /// share most; 0 is for the PATHs themselves [default without a DEPTH: 1]
    #[arg(
        long,
        value_name = "DEPTH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        help_heading = "Files"
    )]
    by_directory: Option<u32>,
    /// Threads that read and hash; a limit of memory may reduce them [default: one per processor]
    #[arg(long, value_name = "N", help_heading = "Effort")]
    threads: Option<usize>,
    /// Most memory of the scan; counts that do not fit go to temporary files, and figures stay
    /// exact [default: no limit]
    #[arg(long, value_name = "SIZE", help_heading = "Effort", conflicts_with = "estimate")]
    memory: Option<Size>,
    /// Directory of the temporary files [default: $TMPDIR or /tmp]
    #[arg(long, value_name = "DIRECTORY", help_heading = "Effort", requires = "memory")]
    spill_dir: Option<PathBuf>,
    /// Count a sample of the contents within this memory, and report 95 % confidence intervals; the
    /// memory does not depend on the size of the data [default without a SIZE: 64m]
    #[arg(
        long,
        value_name = "SIZE",
        help_heading = "Effort",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "64m",
        conflicts_with = "save"
    )]
    estimate: Option<Size>,
    /// Print the memory and the time that the scan would take, and do not scan
    #[arg(long, help_heading = "Effort", conflicts_with_all = ["save", "distribution"])]
    pub(super) plan: bool,
    #[command(flatten)]
    pub(super) outputs: ScanOutputs,
    #[command(flatten)]
    pub(super) hosts: HostOptions,
}

fn block_size(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    u32::try_from(bytes).map_err(|_| "expected a multiple of 512 up to 1m".to_owned())
}

choice!(
    Tail is TailPolicy {
        /// The short block is not counted
        Skip,
        /// The short block is filled up with zeros
        Pad,
        /// The short block is counted with its own length
        Keep,
    }
);

choice!(
    FingerprintOption is ScanFingerprintKind {
        #[value(name = "xxh3-128")]
        Xxh3,
        Blake3,
        Sha256,
        Sha1,
        Md5,
    }
);

impl ScanArguments {
    pub(super) fn to_request(&self) -> ScanRequest {
        let defaults = ScanRequest::default();
        ScanRequest {
            paths: self.paths.clone(),
            block_bytes: self.block_size.clone(),
            tail: self.tail.into(),
            fingerprint: self.fingerprint.into(),
            threads: self.threads.unwrap_or(defaults.threads),
            counting: match (self.memory, self.estimate) {
                (Some(Size(memory_bytes)), _) => Counting::Bounded { memory_bytes },
                (None, Some(Size(memory_bytes))) => Counting::Estimate { memory_bytes },
                (None, None) => Counting::Exact,
            },
            spill_directory: self.spill_dir.clone(),
            exclude: self.exclude.clone(),
            one_file_system: self.one_file_system,
            count_hard_links: self.count_hard_links,
            directory_depth: self.by_directory,
            compression: self.compression.clone(),
            // Only a progress bar shows the total.
            find_total: std::io::stderr().is_terminal(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse_size;
    use gemelo_scan::ESTIMATE_BYTES;

    #[test]
    fn the_help_names_the_default_memory_of_an_estimate() {
        assert_eq!(parse_size("64m"), Ok(ESTIMATE_BYTES));
    }
}
