//! The files that a scan can write.

use crate::context::Context;
use crate::exit::bad_input;
use crate::files;
use anyhow::{Context as _, anyhow};
use clap::Args;
use gemelo_report::{Provenance, ResultFile};
use gemelo_scan::{BlockSizeResult, ScanResult};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputOptions {
    /// Write the result to this file; - is standard output, in place of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the distribution in the DEDISbench format, and beside it FILE.toml with entropy and compressibility;
    /// several block sizes get a file each, FILE.4096 and so on
    #[arg(long, value_name = "FILE")]
    distribution: Option<PathBuf>,
    /// Keep the fingerprint set (Parquet), to merge it with others
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

impl OutputOptions {
    /// Refuses files that exist, of a scan with these block sizes.
    pub(super) fn check(&self, block_sizes: &[u32]) -> anyhow::Result<()> {
        for (option, path) in [("--distribution", &self.distribution), ("--save", &self.save)] {
            if path.as_deref() == Some(Path::new("-")) {
                return Err(bad_input(anyhow!(
                    "{option} needs the name of a file: it cannot be written to -"
                )));
            }
        }
        for path in self.json.iter().chain(&self.save) {
            files::check_new(path, self.force)?;
        }
        for path in self.distribution_paths(block_sizes) {
            files::check_new(&path, self.force)?;
            files::check_new(&with_ending(&path, "toml"), self.force)?;
        }
        Ok(())
    }

    /// The distribution's file of every block size.
    fn distribution_paths(&self, block_sizes: &[u32]) -> Vec<PathBuf> {
        let Some(path) = &self.distribution else { return Vec::new() };
        match block_sizes {
            [_] => vec![path.clone()],
            several => several.iter().map(|size| with_ending(path, &size.to_string())).collect(),
        }
    }

    pub(super) fn is_json_standard_output(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    pub(super) fn write_json<Input: serde::Serialize, Found: serde::Serialize>(
        &self,
        schema: &str,
        input: &Input,
        result: &Found,
        warnings: &[String],
        context: &Context,
    ) -> anyhow::Result<()> {
        let Some(path) = &self.json else { return Ok(()) };
        context.monitor.finish();
        let file = ResultFile {
            schema: schema.to_owned(),
            provenance: Provenance::of_this_process(context.started_at),
            input,
            result,
            warnings: warnings.to_vec(),
        };
        files::write_json(path, &file)
    }

    /// Writes each block size's distribution and profile.
    pub(super) fn write_distributions(&self, result: &ScanResult) -> anyhow::Result<()> {
        let sizes: Vec<u32> = result.block_sizes.iter().map(|size| size.block_bytes).collect();
        for (path, size) in self.distribution_paths(&sizes).iter().zip(&result.block_sizes) {
            write_distribution(path, size)?;
        }
        Ok(())
    }
}

fn write_distribution(path: &Path, size: &BlockSizeResult) -> anyhow::Result<()> {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let kind = if size.estimate.is_some() { "estimated" } else { "counted" };
    let words: Vec<String> = std::env::args().skip(1).collect();
    let source = format!("{kind} by gemelo {}: gemelo {}", env!("CARGO_PKG_VERSION"), words.join(" "));
    let profile = size.to_profile(&name, &source)?;
    files::write_whole(path, size.to_distribution()?.to_text().as_bytes())?;
    files::write_whole(&with_ending(path, "toml"), profile.to_toml()?.as_bytes())
}

/// `name` to `name.ending`.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut whole = OsString::from(path);
    whole.push(".");
    whole.push(ending);
    PathBuf::from(whole)
}

/// A fingerprint set on its way to its file, which appears complete or not at all.
pub(super) struct Saving<'path> {
    temporary: Option<(NamedTempFile, &'path Path)>,
}

impl<'path> Saving<'path> {
    pub(super) fn begin(path: Option<&'path Path>) -> anyhow::Result<Self> {
        let temporary = path.map(|path| files::temporary_beside(path).map(|file| (file, path)));
        Ok(Self { temporary: temporary.transpose()? })
    }

    pub(super) fn file(&self) -> Option<&File> {
        self.temporary.as_ref().map(|(file, _)| file.as_file())
    }

    pub(super) fn finish(self) -> anyhow::Result<()> {
        let Some((file, path)) = self.temporary else { return Ok(()) };
        file.persist(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(())
    }
}
