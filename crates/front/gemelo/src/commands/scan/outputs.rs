//! The output files of a scan.

use crate::context::Context;
use crate::exit::{Failure, Failures, OrFailed as _, OrFailure as _, refused};
use crate::files::{self, NewFile};
use crate::json::MadeResult;
use crate::result_options::ResultOptions;
use clap::Args;
use gemelo_base::ShowPath as _;
use gemelo_base::text_of_name;
use gemelo_record::HostsFile;
use gemelo_scan::{BlockSizeResult, SavedSetError, ScanInput, ScanResult};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct ScanOutputs {
    #[command(flatten)]
    pub(super) files: ResultOptions,
    /// Print a table with a line for each block size, instead of all figures
    #[arg(long)]
    pub(super) brief: bool,
    /// Write the distribution to this file in the DEDISbench format, and entropy and
    /// compressibility to FILE.toml; each of several block sizes gets its own file, such as
    /// FILE.4096
    #[arg(long, value_name = "FILE")]
    distribution: Option<PathBuf>,
    /// Save the fingerprint set to this file (Parquet), for `gemelo scan merge`
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

impl ScanOutputs {
    /// Refuses output files that exist or cannot be written, for a scan with these block sizes.
    pub(super) fn check(&self, block_sizes: &[u32]) -> crate::Result<()> {
        for (option, path) in [("--distribution", &self.distribution), ("--save", &self.save)] {
            if files::is_some_standard_output(path.as_deref()) {
                return Err(refused!(
                    "{option} needs the name of a file: it cannot be written to standard output"
                ));
            }
        }
        let named = self.files.paths().chain(self.save.as_deref());
        let mut paths: Vec<PathBuf> = named.map(Path::to_owned).collect();
        for path in self.distribution_paths(block_sizes) {
            paths.push(with_ending(&path, "toml"));
            paths.push(path);
        }
        files::check_all_new(paths.iter().map(PathBuf::as_path), self.force)
    }

    /// Returns the file of the distribution for every block size.
    fn distribution_paths(&self, block_sizes: &[u32]) -> Vec<PathBuf> {
        let Some(path) = &self.distribution else { return Vec::new() };
        match block_sizes {
            [_] => vec![path.clone()],
            several => several.iter().map(|size| with_ending(path, &size.to_string())).collect(),
        }
    }

    /// Writes the result as JSON if the option was given.
    pub(super) fn write_json<Input: serde::Serialize, Output: serde::Serialize>(
        &self,
        context: &Context,
        made: MadeResult<Input, Output>,
    ) -> crate::Result<()> {
        self.files.json.write(self.force, context, made)
    }

    /// Writes the result as JSON and as a page, as far as the options were given.
    pub(super) fn write_result(
        &self,
        context: &Context,
        file: &HostsFile<ScanInput, ScanResult>,
        failures: &mut Failures,
    ) {
        let monitor = context.monitor.as_ref();
        monitor.finish();
        self.files.write(self.force, file, failures, monitor);
    }

    /// Writes the distribution and the profile of each block size.
    pub(super) fn write_distributions(&self, result: &ScanResult) -> crate::Result<()> {
        let sizes: Vec<u32> = result.block_sizes.iter().map(|size| size.block_bytes).collect();
        for (path, size) in self.distribution_paths(&sizes).iter().zip(&result.block_sizes) {
            write_distribution(path, self.force, size)
                .context("cannot write the distribution")
                .map_err(Failure::midway)?;
        }
        Ok(())
    }
}

fn write_distribution(path: &Path, force: bool, size: &BlockSizeResult) -> crate::Result<()> {
    let name = path.file_name().map_or_else(String::new, text_of_name);
    let kind = if size.estimate.is_some() { "estimated" } else { "counted" };
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| text_of_name(&word)).collect();
    let source =
        format!("{kind} by gemelo {}: gemelo {}", env!("CARGO_PKG_VERSION"), words.join(" "));
    let profile = size.to_profile(&name, &source)?;
    files::write_whole(path, force, size.to_distribution()?.to_text().as_bytes())?;
    files::write_whole(&with_ending(path, "toml"), force, profile.to_toml().or_failed()?.as_bytes())
}

/// Appends a dot and an ending to a file name.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut whole = OsString::from(path);
    whole.push(".");
    whole.push(ending);
    PathBuf::from(whole)
}

/// The file of a fingerprint set that is being saved. The file appears complete or not at all.
pub(super) struct Saving<'path> {
    file: Option<(NewFile, &'path Path)>,
}

impl<'path> Saving<'path> {
    pub(super) fn begin(outputs: &'path ScanOutputs) -> crate::Result<Self> {
        let Some(path) = outputs.save.as_deref() else { return Ok(Self { file: None }) };
        let file = NewFile::create(path, outputs.force).or_bad_input()?;
        if !file.is_regular() {
            let path = path.shown();
            // The file must be seekable, because the checksum at its start is written last.
            return Err(refused!(
                "--save needs a regular file, and {path} is not one: name another file"
            ));
        }
        Ok(Self { file: Some((file, path)) })
    }

    pub(super) fn file(&self) -> Option<&File> {
        self.file.as_ref().and_then(|(file, _)| file.file())
    }

    /// Gives the file its name if the whole set was written.
    pub(super) fn finish(self, written: Result<(), SavedSetError>) -> crate::Result<()> {
        let Some((file, path)) = self.file else { return Ok(()) };
        written.with_context(|| format!("{} was not written", path.shown()))?;
        file.finish()
    }
}
